//! The manual's page about the RFCs: what each demands of a translator, the code that does it, and the cases that prove it. The demands are in
//! apps/nat64/requirements/, a file an RFC; a test checks that the code and the cases are there, and that the page is current.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

const DEMANDS: &str = "apps/nat64/requirements";
/// The RFCs in the order of the page: those of every translator, those of stateful ones, then those of a CLAT.
const RFCS: [u32; 17] =
    [6052, 6791, 7757, 7915, 4884, 4443, 1812, 6146, 4787, 5382, 5508, 6888, 7857, 6877, 7335, 8781, 7050];
/// Where cases are, and what stands before their names.
const CASES: [(&str, &str); 2] = [("apps/nat64/cases", ""), ("apps/nat64-stateful/cases", "stateful/")];
/// Where Rust tests are named.
const TESTS: [&str; 3] = ["crates/strait/tests", "crates/nat64/src", "crates/translator/src"];

const HEAD: &str = "# What the RFCs demand of a translator\n\n\
    Made by `cargo xtask compliance` from apps/nat64/requirements/; edit those files instead. A test checks that the code and the cases exist. The demands are in our words; the RFC's own words win.\n\n\
    *Cases* are packet tests in apps/nat64/cases and, as *stateful/*, in apps/nat64-stateful/cases (`strait test`), which interp, native, tc and xdp pass; *tests* are of Rust, many of them end to end in network namespaces. \
    *rule* is a sentence or a row of a table that binds without a capitalised word. **Not whole** says what is lacking.\n";

/// What one RFC demands.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rfc {
    number: u32,
    title: String,
    note: Option<String>,
    demand: Vec<Demand>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Demand {
    section: String,
    level: Level,
    says: String,
    /// Who must obey, if it is not the translator.
    on: Option<String>,
    /// A file, and a text in it.
    code: Option<(PathBuf, String)>,
    #[serde(default)]
    cases: Vec<String>,
    #[serde(default)]
    tests: Vec<String>,
    /// What is not done.
    lacks: Option<String>,
}

/// The RFC's word.
#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
enum Level {
    #[serde(rename = "MUST")]
    Must,
    #[serde(rename = "MUST NOT")]
    MustNot,
    #[serde(rename = "SHALL")]
    Shall,
    #[serde(rename = "SHOULD")]
    Should,
    #[serde(rename = "SHOULD NOT")]
    ShouldNot,
    #[serde(rename = "RECOMMENDED")]
    Recommended,
    /// None: it is a plain sentence, or a row of a table.
    #[serde(rename = "rule")]
    Rule,
}

impl Level {
    fn word(self) -> &'static str {
        match self {
            Level::Must => "MUST",
            Level::MustNot => "MUST NOT",
            Level::Shall => "SHALL",
            Level::Should => "SHOULD",
            Level::ShouldNot => "SHOULD NOT",
            Level::Recommended => "RECOMMENDED",
            Level::Rule => "rule",
        }
    }

    fn is_absolute(self) -> bool {
        matches!(self, Level::Must | Level::MustNot | Level::Shall)
    }
}

/// The demands of P4Runtime's specification, and where the tests are that prove them.
const P4RUNTIME: &str = "tests/p4runtime/requirements.toml";
const P4RUNTIME_TESTS: [&str; 2] = ["crates/strait/tests", "crates/p4runtime/src"];

const P4RUNTIME_HEAD: &str = "# What P4Runtime demands of a server\n\n\
    Made by `cargo xtask compliance` from tests/p4runtime/requirements.toml; edit that file instead. A test checks that the code and the tests exist. The demands are those of the \
    [specification 1.5](https://p4lang.github.io/p4runtime/spec/v1.5.0/P4Runtime-Spec.html), in our words; its own words win.\n\n\
    Tests are of Rust, against a server on the interpreter; those that begin with *p4runtime_shell* are p4runtime-shell, unmodified, on interp, native, tc and xdp. **Not whole** says what is lacking.\n";

/// The chapters of a specification.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Specification {
    chapter: Vec<Rfc>,
}

/// The text of the page about P4Runtime.
pub fn p4runtime(root: &Path) -> anyhow::Result<String> {
    let text = fs::read_to_string(root.join(P4RUNTIME)).context(P4RUNTIME)?;
    let specification: Specification = toml::from_str(&text).context(P4RUNTIME)?;
    let mut tests = String::new();
    for dir in P4RUNTIME_TESTS {
        read_all(&root.join(dir), &mut tests)?;
    }
    let mut page = P4RUNTIME_HEAD.to_string() + &summary(&specification.chapter, "chapter", "server");
    for chapter in &specification.chapter {
        let _ = write!(page, "\n## {}: {}\n\n", chapter.number, chapter.title);
        page.push_str("| section | | demand | where | proven by |\n|---|---|---|---|---|\n");
        for demand in &chapter.demand {
            let row = row(root, demand, &[], &tests);
            page.push_str(&row.with_context(|| format!("section {}", demand.section))?);
        }
    }
    Ok(page)
}

/// The text of the page, or what is wrong with the demands. `root` is the checkout.
pub fn page(root: &Path) -> anyhow::Result<String> {
    let rfcs = RFCS.into_iter().map(|number| read(root, number)).collect::<anyhow::Result<Vec<Rfc>>>()?;
    let mut cases = Vec::new();
    for (dir, before) in CASES {
        cases.extend(names(&root.join(dir))?.into_iter().map(|name| format!("{before}{name}")));
    }
    let mut tests = String::new();
    for dir in TESTS {
        read_all(&root.join(dir), &mut tests)?;
    }
    let mut page = HEAD.to_string();
    page.push_str(&summary(&rfcs, "RFC", "translator"));
    for rfc in &rfcs {
        let _ = write!(page, "\n## RFC {}: {}\n\n", rfc.number, rfc.title);
        if let Some(note) = &rfc.note {
            let _ = write!(page, "{note}\n\n");
        }
        page.push_str("| section | | demand | where | proven by |\n|---|---|---|---|---|\n");
        for demand in &rfc.demand {
            let row = row(root, demand, &cases, &tests);
            page.push_str(&row.with_context(|| format!("RFC {} section {}", rfc.number, demand.section))?);
        }
    }
    Ok(page)
}

fn read(root: &Path, number: u32) -> anyhow::Result<Rfc> {
    let name = format!("{DEMANDS}/rfc{number}.toml");
    let text = fs::read_to_string(root.join(&name)).with_context(|| name.clone())?;
    let rfc: Rfc = toml::from_str(&text).with_context(|| name.clone())?;
    ensure!(rfc.number == number, "{name} is of RFC {}", rfc.number);
    Ok(rfc)
}

/// How many demands there are, and what becomes of them.
fn summary(rfcs: &[Rfc], what: &str, on: &str) -> String {
    let mut table = format!(
        "\n| {what} | demands | on others | on the {on} | of these MUST | proven by cases | by tests only | not whole | unproven |\n\
                     |---|---|---|---|---|---|---|---|---|\n"
    );
    let mut sums = [0; 8];
    let mut line = |name: &str, counts: [usize; 8]| {
        let counts = counts.map(|n| n.to_string()).join(" | ");
        let _ = writeln!(table, "| {name} | {counts} |");
    };
    for rfc in rfcs {
        let ours: Vec<&Demand> = rfc.demand.iter().filter(|demand| demand.on.is_none()).collect();
        let count = |which: &dyn Fn(&Demand) -> bool| ours.iter().filter(|demand| which(demand)).count();
        let counts = [
            rfc.demand.len(),
            rfc.demand.len() - ours.len(),
            ours.len(),
            count(&|demand| demand.level.is_absolute()),
            count(&|demand| !demand.cases.is_empty()),
            count(&|demand| demand.cases.is_empty() && !demand.tests.is_empty()),
            count(&|demand| demand.lacks.is_some()),
            count(&|demand| demand.cases.is_empty() && demand.tests.is_empty()),
        ];
        for (sum, n) in sums.iter_mut().zip(counts) {
            *sum += n;
        }
        line(&rfc.number.to_string(), counts);
    }
    line("all", sums);
    table
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
    let (says, level) = (&demand.says, demand.level.word());
    if let Some(on) = &demand.on {
        let ours = demand.code.is_some() || demand.lacks.is_some() || !proofs.is_empty();
        ensure!(!ours, "`{says}` is on {on}, so nothing here obeys or proves it");
        return Ok(format!("| {} | {level} | {says} | *on {on}* | |\n", demand.section));
    }
    ensure!(demand.lacks.is_some() || !proofs.is_empty(), "nothing proves that `{says}`");
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
        Some(lacks) => format!("{says} **Not whole:** {lacks}"),
        None => says.clone(),
    };
    let proofs = proofs.join(", ");
    Ok(format!("| {} | {level} | {says} | {place} | {proofs} |\n", demand.section))
}

/// The name of the P4 parser, control or function, or of the Rust function, to which a place belongs: that which begins there or last before it, or
/// behind it if the place is in the comment above it.
fn unit(text: &str, at: usize) -> Option<&str> {
    // The words name the function themselves.
    let named = ["pub fn ", "pub(crate) fn ", "fn "].iter().find_map(|word| text[at..].strip_prefix(word));
    if let Some(name) = named {
        return name.split(['(', '<']).next();
    }
    let starts = ["parser ", "control ", "bool ", "bit<", "fn ", "pub fn "];
    let named = |line: &&str| starts.iter().any(|word| line.starts_with(word));
    let begin = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let line = match text[begin..].starts_with("//") {
        true => text[begin..].lines().find(named),
        false => {
            let end = text[at..].find('\n').map_or(text.len(), |newline| at + newline);
            text[..end].lines().rev().find(named)
        }
    }?;
    let name = line.split(['(', '{']).next()?.split(' ').next_back()?.split('<').next()?;
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
        let page = p4runtime(root()).expect("code and tests are there");
        let kept = fs::read_to_string(root().join("docs/reference/p4runtime.md")).expect("the page");
        assert!(page == kept, "run `cargo xtask compliance`");
    }

    #[test]
    fn a_pattern_has_one_star() {
        assert!(fits("never-*-4to6", "never-loopback-4to6"));
        assert!(!fits("never-*-4to6", "never-4to6"));
        assert!(!fits("never", "never-loopback"));
    }
}
