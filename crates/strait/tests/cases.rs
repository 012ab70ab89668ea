//! Runs the packet cases on the interpreter: those in `tests/cases` (one program for each feature), and those of the bundled applications.
//! It uses the command line, as a user would.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The case files of a directory, sorted.
fn cases(folder: &str) -> Vec<PathBuf> {
    let files = std::fs::read_dir(root().join(folder)).expect("the folder is there");
    let mut files: Vec<PathBuf> = files.map(|f| f.expect("a file").path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "stf"));
    files.sort();
    assert!(!files.is_empty(), "{folder} has cases");
    files
}

fn pass(program: Option<&str>, folder: &str) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strait"));
    command.args(["test", "--target", "interp"]);
    if let Some(program) = program {
        command.arg("--program").arg(root().join(program));
    }
    let output = command.args(cases(folder)).output().expect("strait runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn features() {
    pass(None, "tests/cases");
}

/// Both hooks of the kernel in one command have instances of their own.
#[test]
fn several_targets() {
    let uid = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let root_and_clang = uid.lines().any(|line| line.starts_with("Uid:\t0\t0"))
        && Command::new("clang").arg("--version").output().is_ok();
    if !root_and_clang {
        println!("skipped: cases on tc and xdp in one command: needs root and clang");
        return;
    }
    let case = root().join("tests/cases/action_loop.stf");
    let targets = ["test", "--target", "interp", "--target", "tc", "--target", "xdp"];
    let output = Command::new(env!("CARGO_BIN_EXE_strait")).args(targets).arg(case).output();
    let output = output.expect("strait runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("3 passed, 0 failed"), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn nat64() {
    pass(Some("apps/nat64/nat64.p4"), "apps/nat64/cases");
}
