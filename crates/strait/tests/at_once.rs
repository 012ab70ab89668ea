//! `strait test --fuzz N --workers 2`: two packets at the same moment are processed as if one had come after the other, and a program that has them
//! lose each other's entry is found.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

fn at_root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Plays packets of a case on two workers.
fn play(program: &Path, case: &str, packets: u32, seed: u64) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strait"));
    command.args(["test", "--target", "native", "--workers", "2", "--fuzz", &packets.to_string(), "--seed"]);
    command.arg(seed.to_string()).arg("--program").arg(program).arg(at_root(case));
    command.output().expect("strait starts")
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn possible(name: &str) -> bool {
    let has = io::native::has_compiler();
    if !has {
        println!("skipped: {name}: no C compiler is installed");
    }
    has
}

#[test]
fn a_second_lookup_that_hits_is_success() {
    if !possible("at once") {
        return;
    }
    let said = play(&at_root("tests/cases/learn_at_once.p4"), "tests/cases/learn_at_once.stf", 600, 1);
    assert!(said.status.success() && text(&said).contains(" 0 episodes different"), "{}", text(&said));
}

/// The fault that lost packets in the translator: what somebody else has added meanwhile is taken for a full table.
#[test]
fn a_planted_fault_is_found() {
    if !possible("planted fault") {
        return;
    }
    let whole = std::fs::read_to_string(at_root("tests/cases/learn_at_once.p4")).expect("the program");
    let faulty = whole.replace("if (m.what == 3) { flows.apply(); }\n", "\n");
    assert_ne!(whole, faulty);
    let files = io::workdir::WorkDir::named("st-at-once-").expect("a directory");
    let program = files.path().join("faulty.p4");
    std::fs::write(&program, faulty).expect("a file");
    // The two threads need two processors at the same moment, which others may have.
    let begun = Instant::now();
    for seed in 1.. {
        let said = play(&program, "tests/cases/learn_at_once.stf", 2400, seed);
        if said.status.code() == Some(1) {
            let said = text(&said);
            assert!(said.contains("no order gives round") && said.contains("one after the other"), "{said}");
            return;
        }
        assert!(said.status.success(), "{}", text(&said));
        assert!(begun.elapsed() < PATIENCE, "it is not found in {seed} attempts");
    }
}

#[test]
fn only_the_native_target_has_two_workers() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strait"));
    command.args(["test", "--target", "tc", "--workers", "2", "--fuzz", "10"]);
    let said = command.arg(at_root("tests/cases/learn_at_once.stf")).output().expect("strait starts");
    let said = text(&said);
    assert!(said.contains("--workers 2 is for native") || said.contains("skipped"), "{said}");
}
