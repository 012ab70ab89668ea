//! `strait bench floods`, at rates that a build for tests can take.

use std::process::Command;

/// Floods from both sides lose no packet of an established flow that reaches the translator, and no new session of others.
#[test]
fn floods_leave_established_flows_and_new_sessions_alone() {
    let arguments = "bench floods --json --seconds 0.5 --rate 20000 --established 20000 --new 500";
    let output = Command::new(env!("CARGO_BIN_EXE_strait")).args(arguments.split(' ')).output();
    let output = output.expect("strait starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let all: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let all = all.as_array().expect("figures of each flood");
    assert_eq!(all.len(), 10);
    for one in all {
        let count = |of: &str, what: &str| one["with"][of][what].as_u64().expect("a count");
        for of in ["established", "new_sessions"] {
            let taken = count(of, "offered") - count(of, "lost");
            assert!(taken > 0 && count(of, "translated") == taken, "{of}: {one:#}");
        }
        // A subscriber gets what is his share, and strangers what is theirs; what they are refused is counted by reason.
        let refused = count("flood", "offered") - count("flood", "lost") - count("flood", "translated");
        let drops: u64 =
            one["drops"].as_array().expect("drops").iter().filter_map(|drop| drop[1].as_u64()).sum();
        assert_eq!(refused, drops, "{one:#}");
    }
}
