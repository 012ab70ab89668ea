//! The edges between crates are those that ARCHITECTURE.md states, and no crate includes a file of another one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What each crate depends on, of this workspace.
type Edges = BTreeMap<String, Vec<String>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The block of ARCHITECTURE.md that begins with `depends on`: a line for each crate, `-` for none.
fn stated() -> Edges {
    let text = read(&root().join("ARCHITECTURE.md"));
    let block = text.split("```").find_map(|block| block.strip_prefix("text\ndepends on\n"));
    let lines = block.expect("the block is there").lines();
    let edge = |line: &str| {
        let mut words = line.split_whitespace().map(ToString::to_string);
        let name = words.next()?;
        Some((name, words.filter(|word| word != "-").collect()))
    };
    lines.filter_map(edge).collect()
}

/// The folders of the workspace's crates, by their names.
fn folders() -> BTreeMap<String, PathBuf> {
    let crates = std::fs::read_dir(root().join("crates"))
        .expect("a folder")
        .map(|entry| entry.expect("a file").path());
    let named = |path: PathBuf| Some((path.file_name()?.to_str()?.to_string(), path));
    crates.chain([root().join("xtask")]).filter_map(named).collect()
}

/// The crates of this workspace that a manifest's `[dependencies]` name, in the order of ARCHITECTURE.md.
fn depends(manifest: &str, order: &[String]) -> Vec<String> {
    let begun = manifest.split("\n[dependencies]\n").nth(1).unwrap_or_default();
    let section = begun.split("\n[").next().unwrap_or_default();
    let named = |name: &&String| section.lines().any(|line| line == format!("{name}.workspace = true"));
    order.iter().filter(named).cloned().collect()
}

#[test]
fn crates_depend_on_what_the_architecture_states() {
    let stated = stated();
    let folders = folders();
    let order: Vec<String> = folders.keys().cloned().collect();
    let sorted = |edges: &[String]| {
        let mut edges = edges.to_vec();
        edges.sort();
        edges
    };
    let found: Edges = folders
        .iter()
        .map(|(name, folder)| (name.clone(), depends(&read(&folder.join("Cargo.toml")), &order)))
        .collect();
    let stated: Edges = stated.iter().map(|(name, edges)| (name.clone(), sorted(edges))).collect();
    assert_eq!(found, stated, "the edges that there are, and those that ARCHITECTURE.md states");
}

/// The Rust files below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let below = |path: PathBuf| match path.is_dir() {
        true if path.ends_with("target") => Vec::new(),
        true => sources(&path),
        false => vec![path],
    };
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("a file").path());
    entries
        .flat_map(below)
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

#[test]
fn no_crate_includes_a_file_of_another_one() {
    let mut found = Vec::new();
    for folder in folders().into_values().chain([root().join("fuzz")]) {
        let folder = folder.canonicalize().expect("it is there");
        for source in sources(&folder) {
            let text = read(&source);
            let named = text.lines().filter_map(|line| line.strip_prefix("#[path = \"")?.strip_suffix("\"]"));
            let beside = source.parent().expect("a folder");
            let outside =
                |path: &&str| beside.join(path).canonicalize().is_ok_and(|path| !path.starts_with(&folder));
            found.extend(named.filter(outside).map(|path| format!("{}: {path}", source.display())));
        }
    }
    assert_eq!(found, [""; 0]);
}
