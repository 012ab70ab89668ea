//! Writes tables of the results as Markdown, with the exceptions and their reasons.

use std::collections::BTreeMap;

use anyhow::Context;
use serde::Deserialize;

use crate::cases::{Case, TARGETS};
use crate::conformance::{Arch, Outcome};

/// Programs that give another result than p4c's, each with the reason: `xtask/exceptions.toml`.
#[derive(Deserialize)]
pub struct Exceptions {
    /// The reason for each folder and name.
    #[serde(flatten)]
    folders: BTreeMap<String, BTreeMap<String, String>>,
}

impl Exceptions {
    pub fn read() -> anyhow::Result<Exceptions> {
        toml::from_str(include_str!("../exceptions.toml")).context("xtask/exceptions.toml")
    }

    fn reason(&self, outcome: &Outcome) -> Option<&str> {
        self.folders.get(outcome.folder)?.get(&outcome.name).map(String::as_str)
    }
}

/// Checks the packet cases: every case should pass on the interpreter, and no target may give a wrong result.
fn failed(outcome: &Outcome) -> bool {
    let wrong = outcome.cases.iter().any(|c| matches!(c, Case::Wrong(_)));
    wrong || matches!(outcome.cases.first(), Some(Case::Refused(_)))
}

/// The number of programs that have a wrong result and no exception.
pub fn unexplained(outcomes: &[Outcome], exceptions: &Exceptions) -> usize {
    let wrong = outcomes.iter().filter(|o| !o.as_it_should() || failed(o));
    wrong.filter(|o| exceptions.reason(o).is_none()).count()
}

/// Failures that need an exception: a correct program that does not parse, a packet case that fails, or a panic.
pub fn broken(outcomes: &[Outcome], exceptions: &Exceptions) -> Vec<String> {
    let unparsed = |o: &Outcome| {
        let text = o.rejected.as_ref().map_or("", |r| r.text.as_str());
        text == "PANIC" || o.right && (text.contains(" E00") || text.contains(" E01"))
    };
    let bad = outcomes.iter().filter(|o| (unparsed(o) || failed(o)) && exceptions.reason(o).is_none());
    bad.map(|o| format!("{}/{}", o.folder, o.name)).collect()
}

/// A count, and its share of the total.
fn share(good: usize, all: usize) -> String {
    let percent = if all == 0 { 100.0 } else { good as f64 * 100.0 / all as f64 };
    format!("{good} of {all} ({percent:.1} %)")
}

/// Rows of a title, the number of good programs, and the number of all programs.
fn rows(outcomes: &[Outcome]) -> Vec<(String, usize, usize)> {
    let mut rows = Vec::new();
    let mut row = |title: String, of: &dyn Fn(&Outcome) -> bool, good: &dyn Fn(&Outcome) -> bool| {
        let all: Vec<_> = outcomes.iter().filter(|o| of(o)).collect();
        rows.push((title, all.iter().filter(|o| good(o)).count(), all.len()));
    };
    for arch in Arch::ALL {
        row(format!("accepted: {}", arch.name()), &|o| o.right && o.arch == arch, &Outcome::as_it_should);
    }
    let ours = |o: &Outcome| o.right && !matches!(o.arch, Arch::Other);
    row("accepted: all but ebpf, xdp, ubpf".into(), &ours, &Outcome::as_it_should);
    let mut folders: Vec<_> = outcomes.iter().filter(|o| !o.right).map(|o| o.folder).collect();
    folders.dedup();
    for folder in &folders {
        row(format!("rejected, with a place: {folder}"), &|o| o.folder == *folder, &Outcome::as_it_should);
    }
    row("rejected, with a place: all".into(), &|o| !o.right, &Outcome::as_it_should);
    let v1model = |o: &Outcome| o.right && o.arch == Arch::V1model;
    row("v1model programs that run".into(), &v1model, &|o| o.rejected.is_none() && o.beyond.is_none());
    let psa = |o: &Outcome| o.right && o.arch == Arch::Psa;
    row("psa programs that run".into(), &psa, &|o| o.rejected.is_none() && o.beyond.is_none());
    let pna = |o: &Outcome| o.right && o.arch == Arch::Pna;
    row("pna programs that run".into(), &pna, &|o| o.rejected.is_none() && o.beyond.is_none());
    for arch in WITH_CASES {
        for (n, target) in TARGETS.iter().enumerate() {
            let passed = |o: &Outcome| matches!(o.cases.get(n), Some(Case::Passed));
            let with_case = |o: &Outcome| o.right && o.arch == arch && !o.cases.is_empty();
            let title = format!("packet cases that pass: {} on {}", arch.name(), target.name());
            row(title, &with_case, &passed);
        }
    }
    let bmv2 = |o: &Outcome| o.name.ends_with("-bmv2");
    let equal = |o: &Outcome| o.p4info.as_deref() == Some("");
    row("P4Info equal to p4c's: *-bmv2".into(), &|o| bmv2(o) && o.p4info.is_some(), &equal);
    row("P4Info equal to p4c's: all".into(), &|o| o.p4info.is_some(), &equal);
    rows
}

/// A table with a line for each row.
pub fn summary(outcomes: &[Outcome]) -> String {
    let line = |(title, good, all): (String, usize, usize)| format!("{title:<46} {}\n", share(good, all));
    rows(outcomes).into_iter().map(line).collect()
}

/// The whole page.
pub fn markdown(outcomes: &[Outcome], exceptions: &Exceptions) -> String {
    let mut page = String::from(
        "# Conformance\n\n\
         p4c's test corpus against the front end and every target, as `cargo xtask conformance --p4c DIR` measures it with a checkout of\n\
         p4lang/p4c. The page is written by that command; reasons for exceptions are kept in `xtask/exceptions.toml`.\n\
         Programs for eBPF, XDP and uBPF are read with p4c's own includes.\n\n\
         | | |\n|---|---:|\n",
    );
    for (title, good, all) in rows(outcomes) {
        page += &format!("| {title} | {} |\n", share(good, all));
    }
    let mut section = |title: &str, of: &dyn Fn(&Outcome) -> Option<String>| {
        let lines: Vec<_> = outcomes.iter().filter_map(|o| Some((o, of(o)?))).collect();
        if lines.is_empty() {
            return;
        }
        page += &format!("\n## {title}\n\n| program | what Strait says | why |\n|---|---|---|\n");
        for (o, says) in lines {
            let says = says.lines().next().unwrap_or_default().replace('|', "\\|");
            let why = exceptions.reason(o).unwrap_or("");
            page += &format!("| {}/{} | {says} | {why} |\n", o.folder, o.name);
        }
    };
    let text = |o: &Outcome| o.rejected.as_ref().map(|r| r.text.clone());
    section("Rejected, and should not be", &|o| o.right.then(|| text(o)).flatten());
    section("Accepted, and should not be", &|o| {
        (!o.right && o.rejected.is_none()).then(|| "accepted".into())
    });
    section("Accepted, and cannot run in this release", &|o| o.beyond.clone().filter(|_| o.right));
    section("P4Info that differs from p4c's", &|o| o.p4info.clone().filter(|d| !d.is_empty()));
    WITH_CASES.into_iter().for_each(|arch| page += &packet_cases(outcomes, arch, exceptions));
    page
}

/// A table with a column for each target: the reasons for the cases that do not pass everywhere.
fn packet_cases(outcomes: &[Outcome], arch: Arch, exceptions: &Exceptions) -> String {
    let names: Vec<&str> = TARGETS.iter().map(|t| t.name()).collect();
    let ours = |o: &&Outcome| o.right && o.arch == arch && !o.cases.is_empty();
    let mut page = format!(
        "\n## Packet cases of {}\n\n| | {} |\n|---|---:|---:|---:|---:|\n",
        arch.name(),
        names.join(" | ")
    );
    for (title, is) in KINDS {
        let count = |n: usize| outcomes.iter().filter(ours).filter(|o| is(&o.cases[n])).count().to_string();
        let counts: Vec<String> = (0..TARGETS.len()).map(count).collect();
        page += &format!("| {title} | {} |\n", counts.join(" | "));
    }
    page += &format!(
        "\n### Why some do not pass\n\n| case | {} | why |\n|---|---|---|---|---|---|\n",
        names.join(" | ")
    );
    for o in outcomes.iter().filter(ours) {
        if o.cases.iter().all(|c| matches!(c, Case::Passed)) {
            continue;
        }
        let cells: Vec<String> = o.cases.iter().map(cell).collect();
        page += &format!("| {} | {} | {} |\n", o.name, cells.join(" | "), exceptions.reason(o).unwrap_or(""));
    }
    page
}

/// The architectures whose programs in the corpus have packet cases.
const WITH_CASES: [Arch; 2] = [Arch::V1model, Arch::Psa];

/// A predicate on the result of a case.
type Is = fn(&Case) -> bool;

/// The possible results of a case, with their descriptions.
const KINDS: [(&str, Is); 4] = [
    ("pass", |c| matches!(c, Case::Passed)),
    ("refused: the target or this release lacks something", |c| matches!(c, Case::Refused(_))),
    ("wrong", |c| matches!(c, Case::Wrong(_))),
    ("not run", |c| matches!(c, Case::NotRun(_))),
];

fn cell(case: &Case) -> String {
    let (word, why) = match case {
        Case::Passed => return "passes".into(),
        Case::Wrong(why) => ("**wrong**: ", why),
        Case::Refused(why) => ("", why),
        Case::NotRun(why) => ("not run: ", why),
    };
    format!("{word}{}", without_folders(why.lines().next().unwrap_or_default()).replace('|', "\\|"))
}

/// A message with the name of its file but without the folders, which differ between machines.
fn without_folders(why: &str) -> &str {
    let end = why.find(".p4:").unwrap_or(0);
    why[..end].rfind('/').map_or(why, |slash| &why[slash + 1..])
}

/// All details about a program.
pub fn whole(o: &Outcome) -> String {
    let said = match &o.rejected {
        Some(rejection) => rejection.text.as_str(),
        None => "accepted",
    };
    let beyond = o.beyond.as_ref().map(|b| format!("\n    cannot run: {b}")).unwrap_or_default();
    let played = |(case, target): (&Case, &harness::targets::RunTarget)| match case {
        Case::Passed => format!("\n    case passes on {}", target.name()),
        Case::Wrong(why) => format!("\n    case is wrong on {}: {why}", target.name()),
        Case::Refused(why) => format!("\n    case is refused on {}: {why}", target.name()),
        Case::NotRun(why) => format!("\n    case is not run on {}: {why}", target.name()),
    };
    let case: String = o.cases.iter().zip(&TARGETS).map(played).collect();
    let mark = if o.as_it_should() { "  " } else { "! " };
    format!("{mark}{}/{}: {said}{beyond}{case}", o.folder, o.name)
}
