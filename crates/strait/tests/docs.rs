//! Checks that paths, links and tests that the documentation names exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The texts between single backticks, outside of fenced blocks.
fn quoted(text: &str) -> Vec<&str> {
    // A fence is a pair of lines with three backticks, so every other part between fences is prose.
    let prose = text.split("```").step_by(2);
    prose.flat_map(|prose| prose.split('`').skip(1).step_by(2)).collect()
}

/// The targets of Markdown links that point into the repository.
fn linked(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(target, _)| target));
    let files = targets.filter(|target| !target.contains("://") && !target.starts_with('#'));
    files.filter_map(|target| target.split('#').next()).collect()
}

/// All documents that people write: those at the root, in `docs` and below it, and the READMEs of apps and licences.
fn documents() -> Vec<String> {
    let root = root();
    let inside = |folder: &str| {
        let entries = fs::read_dir(root.join(folder)).unwrap_or_else(|why| panic!("{folder}: {why}"));
        entries.map(|entry| entry.expect("an entry").path()).collect::<Vec<_>>()
    };
    let folders = ["", "docs", "docs/design", "docs/reference", "LICENSES"].map(inside);
    let apps = inside("apps").into_iter().map(|app| app.join("README.md")).filter(|readme| readme.exists());
    let mut all: Vec<PathBuf> = folders.into_iter().flatten().chain(apps).collect();
    all.retain(|file| file.extension().is_some_and(|kind| kind == "md"));
    let mut names: Vec<_> = all
        .iter()
        .map(|file| file.strip_prefix(&root).expect("below the root").display().to_string())
        .collect();
    names.sort();
    assert!(names.len() > 40, "{names:?}");
    names
}

/// Whether a quoted text is a path: it begins with a name from the root of the repository.
fn is_path(quoted: &str, top: &BTreeSet<String>) -> bool {
    let first = quoted.split('/').next().unwrap_or_default();
    top.contains(first) && !quoted.contains([' ', '*', '<', '…'])
}

#[test]
fn paths_named_in_documents_exist() {
    let root = root();
    let usual =
        ["crates", "apps", "docs", "scripts", "p4include", "tests", "fuzz", "xtask"].map(str::to_owned);
    let top: BTreeSet<String> = usual.into_iter().collect();
    let mut wrong = Vec::new();
    // The changelog tells of files that have gone.
    for document in documents().iter().filter(|document| *document != "CHANGELOG.md") {
        let text = fs::read_to_string(root.join(document)).expect(document);
        let paths: Vec<&str> = quoted(&text).into_iter().filter(|quoted| is_path(quoted, &top)).collect();
        let describes = ["ARCHITECTURE.md", "CONTRIBUTING.md"].contains(&document.as_str());
        assert!(!describes || paths.len() > 5, "{document} names only {paths:?}");
        wrong.extend(
            paths.iter().filter(|path| !root.join(path).exists()).map(|path| format!("{document}: {path}")),
        );
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn links_between_documents_exist() {
    let root = root();
    let mut wrong = Vec::new();
    for document in &documents() {
        let file = root.join(document);
        let text = fs::read_to_string(&file).expect(document);
        let here = file.parent().unwrap_or(&root);
        wrong.extend(
            linked(&text)
                .iter()
                .filter(|link| !here.join(link).exists())
                .map(|link| format!("{document}: {link}")),
        );
    }
    assert_eq!(wrong, [""; 0]);
}

/// All Rust texts below a directory.
fn sources(below: &Path) -> String {
    let entries = fs::read_dir(below).into_iter().flatten().flatten().map(|entry| entry.path());
    let text = |path: PathBuf| match path.extension() {
        _ if path.is_dir() => sources(&path),
        Some(kind) if kind == "rs" => fs::read_to_string(&path).unwrap_or_default(),
        _ => String::new(),
    };
    entries.map(text).collect()
}

/// What docs/security.md promises is tested: the last cell of each row of its tables names tests, or cases of packets, that exist.
#[test]
fn each_promise_about_security_names_its_tests() {
    let root = root();
    let (code, page) = (sources(&root.join("crates")), root.join("docs/security.md"));
    let page = fs::read_to_string(page).expect("docs/security.md");
    // Rows of two cells; the table of who is trusted has three.
    let cells = page.lines().filter_map(|line| line.strip_prefix('|')?.strip_suffix('|')?.split_once('|'));
    let rows = cells.filter(|(_, proof)| !proof.contains('|') && !proof.contains("---"));
    let promises: Vec<_> = rows.filter(|(_, proof)| proof.trim() != "tests").collect();
    assert!(promises.len() > 30, "{}", promises.len());
    let exists = |name: &&str| match name.contains('/') {
        true => root.join(name).exists(),
        false => code.contains(&format!("fn {name}(")),
    };
    let wrong: Vec<_> = promises
        .iter()
        .filter(|(_, proof)| quoted(proof).is_empty() || !quoted(proof).iter().all(exists))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}
