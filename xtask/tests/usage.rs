//! The tasks that documents name exist.

use std::path::Path;
use std::process::Command;

#[test]
fn each_task_that_documents_name_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut named = Vec::new();
    for document in [
        "README.md",
        "CONTRIBUTING.md",
        "ARCHITECTURE.md",
        "docs/reference/conformance.md",
        "docs/from-bmv2.md",
    ] {
        let text = std::fs::read_to_string(root.join(document)).expect("a document");
        let tasks = text
            .split("cargo xtask ")
            .skip(1)
            .map(|rest| rest.split(|c: char| !c.is_ascii_lowercase()).next());
        named.extend(tasks.flatten().filter(|task| !task.is_empty()).map(str::to_string));
    }
    named.sort();
    named.dedup();
    assert!(named.len() > 2, "{named:?}");
    for task in named {
        let help =
            Command::new(env!("CARGO_BIN_EXE_xtask")).args([&task, "--help"]).output().expect("xtask starts");
        assert!(help.status.success(), "{task}: {}", String::from_utf8_lossy(&help.stderr));
    }
}
