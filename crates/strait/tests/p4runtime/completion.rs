//! Shells complete the names of a running program.

use std::process::Command;

use crate::client::Server;

/// What a shell gets for a line whose last word is being typed.
fn completed(server: &Server, line: &str) -> Vec<String> {
    let words: Vec<&str> = line.split(' ').collect();
    let output = Command::new(env!("CARGO_BIN_EXE_strait"))
        .env("COMPLETE", "bash")
        .env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string())
        .env("_CLAP_COMPLETE_COMP_TYPE", "9")
        .env("_CLAP_COMPLETE_SPACE", "true")
        .env("_CLAP_IFS", "\n")
        .env("STRAIT_GRPC", &server.address)
        .arg("--")
        .args(words)
        .output()
        .expect("strait runs");
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_string).collect()
}

#[test]
fn shells_complete_the_names_of_the_running_program() {
    let server = Server::kinds();
    let address = &server.address;
    let cases: &[(String, &[&str])] = &[
        ("strait table dump te".to_string(), &["ternary_"]),
        (format!("strait table --grpc {address} dump te"), &["ternary_"]),
        (format!("strait table dump --grpc={address} te"), &["ternary_"]),
        ("strait table add fi".to_string(), &["fixed"]),
        ("strait table add exact_ 1 2 => s".to_string(), &["send"]),
        ("strait table add exact_ 1 2 '=>' s".to_string(), &["send"]),
        ("strait table add exact_ nothing".to_string(), &[]),
        ("strait counter a".to_string(), &["arrived"]),
        ("strait register se".to_string(), &["seen"]),
        ("strait meter ra".to_string(), &["rate"]),
        ("strait digest le".to_string(), &["learnt_t"]),
        ("strait group member se".to_string(), &["selector"]),
        ("strait table --grpc 127.0.0.1:1 dump te".to_string(), &[]),
    ];
    for (line, expected) in cases {
        let found = completed(&server, line);
        let names: Vec<_> = found.iter().filter(|word| !word.starts_with('-')).collect();
        assert_eq!(names, *expected, "{line}");
    }
}
