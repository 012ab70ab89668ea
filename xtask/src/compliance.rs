//! The manual's page about the RFCs: what each demands of a translator, the code that does it, and the cases that prove it. The demands are in
//! apps/nat64/requirements.toml; a test checks that the code and the cases are there, and that the page is current.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

const DEMANDS: &str = "apps/nat64/requirements.toml";
const CASES: &str = "apps/nat64/cases";
/// Where Rust tests are named.
const TESTS: [&str; 2] = ["crates/strait/tests", "crates/control/src/nat64"];

const HEAD: &str = "# What the RFCs demand of a translator\n\n\
    Made by `cargo xtask compliance` from apps/nat64/requirements.toml; edit that file instead. A test checks that the code and the cases exist. The demands are in our words; the RFC's own words win.\n\n\
    *Cases* are packet tests in apps/nat64/cases (`strait test`), which interp, native, tc and xdp pass; *tests* are end to end, in network namespaces.\n";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Demands {
    rfc: Vec<Rfc>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rfc {
    number: u32,
    title: String,
    demand: Vec<Demand>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Demand {
    section: String,
    level: Level,
    says: String,
    /// A file, and a text in it.
    code: Option<(PathBuf, String)>,
    #[serde(default)]
    cases: Vec<String>,
    #[serde(default)]
    tests: Vec<String>,
    /// What is not done.
    lacks: Option<String>,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
enum Level {
    #[serde(rename = "MUST")]
    Must,
    #[serde(rename = "MUST NOT")]
    MustNot,
    #[serde(rename = "SHOULD")]
    Should,
}

impl Level {
    fn word(self) -> &'static str {
        match self {
            Level::Must => "MUST",
            Level::MustNot => "MUST NOT",
            Level::Should => "SHOULD",
        }
    }
}

/// The text of the page, or what is wrong with the demands. `root` is the checkout.
pub fn page(root: &Path) -> anyhow::Result<String> {
    let text = fs::read_to_string(root.join(DEMANDS)).context(DEMANDS)?;
    let demands: Demands = toml::from_str(&text).context(DEMANDS)?;
    let cases = names(&root.join(CASES))?;
    let mut tests = String::new();
    for dir in TESTS {
        read_all(&root.join(dir), &mut tests)?;
    }
    let mut page = HEAD.to_string();
    for rfc in &demands.rfc {
        let _ = write!(page, "\n## RFC {}: {}\n\n", rfc.number, rfc.title);
        page.push_str("| section | | demand | where | proven by |\n|---|---|---|---|---|\n");
        for demand in &rfc.demand {
            let row = row(root, demand, &cases, &tests);
            page.push_str(&row.with_context(|| format!("RFC {} section {}", rfc.number, demand.section))?);
        }
    }
    Ok(page)
}

/// The row of a demand, which must be met and proven, or say what is lacking.
fn row(root: &Path, demand: &Demand, cases: &[String], tests: &str) -> anyhow::Result<String> {
    let mut proofs = Vec::new();
    for pattern in &demand.cases {
        let count = cases.iter().filter(|name| fits(pattern, name)).count();
        ensure!(count > 0, "no case is called `{pattern}`");
        proofs.push(if pattern.contains('*') {
            format!("{pattern} ({count} cases)")
        } else {
            pattern.clone()
        });
    }
    for test in &demand.tests {
        ensure!(tests.contains(&format!("fn {test}(")), "no test is called `{test}`");
        proofs.push(format!("test {test}"));
    }
    ensure!(demand.lacks.is_some() || !proofs.is_empty(), "nothing proves that `{}`", demand.says);
    let place = match &demand.code {
        Some((file, words)) => {
            let text = fs::read_to_string(root.join(file)).with_context(|| file.display().to_string())?;
            let Some(at) = text.find(words.as_str()) else { bail!("{} has no `{words}`", file.display()) };
            match unit(&text, at) {
                Some(unit) => format!("{}, `{unit}`", file.display()),
                None => file.display().to_string(),
            }
        }
        None => String::new(),
    };
    let says = match &demand.lacks {
        Some(lacks) => format!("{} **Not whole:** {lacks}", demand.says),
        None => demand.says.clone(),
    };
    let (level, proofs) = (demand.level.word(), proofs.join(", "));
    Ok(format!("| {} | {level} | {says} | {place} | {proofs} |\n", demand.section))
}

/// The name of the P4 parser, control or function, or of the Rust function, to which a place belongs: that which begins last before it, or behind
/// it if the place is in the comment above it.
fn unit(text: &str, at: usize) -> Option<&str> {
    let starts = ["parser ", "control ", "bool ", "fn ", "pub fn "];
    let named = |line: &&str| starts.iter().any(|word| line.starts_with(word));
    let begin = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let line = match text[begin..].starts_with("//") {
        true => text[begin..].lines().find(named),
        false => text[..at].lines().rev().find(named),
    }?;
    let name = line.split(['(', '<', '{']).next()?.split(' ').next_back()?;
    (!name.is_empty()).then_some(name)
}

/// Whether a name is that of a pattern with at most one `*`.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, behind)) => {
            name.len() >= before.len() + behind.len() && name.starts_with(before) && name.ends_with(behind)
        }
    }
}

/// The names of all cases, in order.
fn names(dir: &Path) -> anyhow::Result<Vec<String>> {
    let files = fs::read_dir(dir).with_context(|| dir.display().to_string())?;
    let mut all = Vec::new();
    for file in files {
        let name = file?.file_name().to_string_lossy().into_owned();
        all.extend(name.strip_suffix(".stf").map(str::to_string));
    }
    all.sort();
    Ok(all)
}

/// Appends the text of all Rust files below a directory.
fn read_all(dir: &Path, to: &mut String) -> anyhow::Result<()> {
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            read_all(&path, to)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            to.push_str(&fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> &'static Path {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
    }

    #[test]
    fn the_page_is_current_and_every_demand_is_proven() {
        let page = page(root()).expect("code and cases are there");
        let kept = fs::read_to_string(root().join("docs/reference/rfc-compliance.md")).expect("the page");
        assert!(page == kept, "run `cargo xtask compliance`");
    }

    #[test]
    fn a_pattern_has_one_star() {
        assert!(fits("never-*-4to6", "never-loopback-4to6"));
        assert!(!fits("never-*-4to6", "never-4to6"));
        assert!(!fits("never", "never-loopback"));
    }
}
