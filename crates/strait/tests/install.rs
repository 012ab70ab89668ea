//! `make install` and `make uninstall`, into a directory of the test's own.

use std::path::{Path, PathBuf};
use std::process::Command;

use io::workdir::WorkDir;

/// All files below a directory.
fn files(below: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(below).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// The root of the checkout, where the Makefile is.
const TOP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn make(goal: &str, root: &Path) {
    let mut command = Command::new("make");
    command.current_dir(TOP).arg("--silent").arg(goal);
    command.arg(concat!("STRAIT=", env!("CARGO_BIN_EXE_strait")));
    command.arg(format!("NOTICES={}/notices", root.display()));
    command.arg(format!("PREFIX={}/usr", root.display())).arg(format!("SYSCONFDIR={}/etc", root.display()));
    let output = command.output().expect("make starts");
    assert!(output.status.success(), "{goal}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn what_is_installed_is_complete_and_can_be_removed() {
    let root = WorkDir::named("st-install-").expect("a directory");
    let made = Command::new(format!("{TOP}/scripts/notices")).output().expect("it starts");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    std::fs::write(root.path().join("notices"), made.stdout).expect("a file");
    make("install", root.path());
    let unit = root.path().join("usr/lib/systemd/system/strait-nat64@.service");
    let text = std::fs::read_to_string(&unit).expect("the unit is installed");
    let binary = root.path().join("usr/bin/strait");
    for verb in ["ExecStart", "ExecReload"] {
        let line =
            text.lines().find_map(|line| line.strip_prefix(verb)?.strip_prefix('=')).expect("a command");
        let words: Vec<_> = line.split(' ').collect();
        assert_eq!(words[0], binary.to_str().expect("UTF-8"));
        // The command line is one that this strait has: its help is printed, and nothing is done.
        let help = Command::new(&binary).args(&words[1..3]).arg("--help").output().expect("it starts");
        let help = String::from_utf8_lossy(&help.stdout).into_owned();
        assert!(help.contains(&format!("strait nat64 {}", words[2])) && help.contains(words[3]), "{help}");
    }
    assert!(root.path().join("usr/share/man/man1/strait-nat64-run.1").exists());
    assert!(root.path().join("etc/strait/nat64").is_dir());
    notices(&root.path().join("usr/share/doc/strait/THIRD-PARTY"));
    verify(&unit);
    // What the operator has written stays.
    let kept = root.path().join("etc/strait/nat64/main.toml");
    std::fs::write(&kept, "").expect("a file");
    make("uninstall", root.path());
    std::fs::remove_file(root.path().join("notices")).expect("it is there");
    assert_eq!(files(root.path()), [kept]);
}

/// Each library has a text of its licence beside the binary: a heading with its name and version.
fn notices(path: &Path) {
    let text = std::fs::read_to_string(path).expect("the notices are installed");
    let (list, texts) = text.split_once("\n====").expect("texts follow the list");
    let libraries: Vec<_> =
        list.lines().filter_map(|line| line.split_once(" (")).map(|(name, _)| name).collect();
    assert!(libraries.iter().any(|name| name.starts_with("tonic ")), "{list}");
    let headings: Vec<_> = texts.lines().flat_map(|line| line.split(", ")).collect();
    let without: Vec<_> = libraries.iter().filter(|name| !headings.contains(*name)).collect();
    assert!(without.is_empty(), "no text: {without:?}");
}

/// systemd finds nothing to complain of.
fn verify(unit: &Path) {
    let instance = unit.with_file_name("strait-nat64@main.service");
    let mut verify = Command::new("systemd-analyze");
    let Ok(output) = verify.args(["verify", "--man=no"]).arg(&instance).output() else {
        println!("skipped: install: systemd-analyze is not there");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && !said.contains("strait-nat64"), "{said}");
}
