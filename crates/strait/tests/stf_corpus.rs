//! p4c's v1model programs and their packet tests on the interpreter. The corpus is not part of this repository:
//! `STRAIT_P4C=DIR cargo test -p strait --test stf_corpus -- --nocapture` with a checkout of p4lang/p4c; skipped without.
//! `STRAIT_ONLY=TEXT` takes only the programs whose name contains it, and shows what failed in full.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use p4::{Diagnostics, Embedded, Severity, SourceMap, SourceProvider};

#[path = "../src/targets/interp.rs"]
mod target;

/// Cases that do not pass, each with the reason why that is right.
const EXPECTED_FAILURES: &[(&str, &str)] = &[];

/// Includes beside the program, then Strait's own.
struct Beside;

impl SourceProvider for Beside {
    fn include(&self, name: &str, from: &str, quoted: bool) -> Option<(String, String)> {
        let path = Path::new(from).parent()?.join(name);
        let own = quoted.then(|| std::fs::read(&path).ok()).flatten();
        let own = own.map(|text| (path.display().to_string(), String::from_utf8_lossy(&text).into_owned()));
        own.or_else(|| Embedded.include(name, from, quoted))
    }
}

/// What became of a program.
struct Outcome {
    name: String,
    /// Why it was not lowered.
    refused: Option<String>,
    /// Without a case: `None`.
    case: Option<Result<(), String>>,
}

#[test]
fn v1model() {
    let Ok(p4c) = std::env::var("STRAIT_P4C") else {
        eprintln!("skipped: STRAIT_P4C names no checkout of p4lang/p4c");
        return;
    };
    let only = std::env::var("STRAIT_ONLY").unwrap_or_default();
    let mut outcomes = Vec::new();
    for path in programs(&Path::new(&p4c).join("testdata/p4_16_samples")) {
        if path.to_string_lossy().contains(&only) {
            let outcome = catch_unwind(AssertUnwindSafe(|| play(&path)));
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let panicked = Outcome { name, refused: Some("PANIC".into()), case: None };
            outcomes.push(outcome.unwrap_or(panicked));
        }
    }
    report(&outcomes, !only.is_empty());
    let unexpected = outcomes.iter().filter(|o| matches!(o.case, Some(Err(_))));
    let unexpected: Vec<_> =
        unexpected.map(|o| &o.name).filter(|n| !EXPECTED_FAILURES.iter().any(|e| e.0 == **n)).collect();
    assert!(unexpected.is_empty(), "{} cases fail: {unexpected:?}", unexpected.len());
}

/// All programs that instantiate v1model's package, in order.
fn programs(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).expect("the corpus can be read").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(programs(&path));
        } else if path.extension().is_some_and(|e| e == "p4") {
            let text = std::fs::read(&path).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            if text.contains("v1model.p4") && text.contains("main;") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn play(path: &Path) -> Outcome {
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let text = String::from_utf8_lossy(&std::fs::read(path).expect("readable")).into_owned();
    let (mut map, mut diags) = (SourceMap::default(), Diagnostics::default());
    let program = p4::compile(&mut map, &path.display().to_string(), &text, &[], &Beside, &mut diags);
    let stf = std::fs::read_to_string(path.with_extension("stf")).ok();
    let Some(program) = program else {
        let first = diags.list().iter().find(|d| d.severity == Severity::Error);
        let refused = first.map_or("no reason".to_string(), |d| {
            let at = map.position(d.primary.span);
            format!("{} {} (line {})", d.code, d.message, at.line)
        });
        return Outcome {
            name,
            case: stf.map(|_| Err(format!("not lowered: {refused}"))),
            refused: Some(refused),
        };
    };
    Outcome { name: name.clone(), refused: None, case: stf.map(|stf| run(&name, &program, &stf)) }
}

fn run(name: &str, program: &ir::Verified, stf: &str) -> Result<(), String> {
    let case = control::stf::parse(name, stf)
        .map_err(|errors| errors.iter().map(|e| format!("{e}\n")).collect::<String>())?;
    let interpreter = interp::Interpreter::new(program).map_err(|e| e.to_string())?;
    let report = control::stf::run(&case, &mut target::InterpTarget(interpreter));
    if report.passed { Ok(()) } else { Err(report.text()) }
}

fn report(outcomes: &[Outcome], full: bool) {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for outcome in outcomes {
        if let Some(why) = &outcome.refused {
            reasons.entry(why.split(" (line").next().unwrap_or(why)).or_default().push(&outcome.name);
        }
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, names)| std::cmp::Reverse(names.len()));
    for (why, names) in reasons {
        println!("{:4} {why}: {}", names.len(), names[..names.len().min(6)].join(" "));
    }
    for outcome in outcomes {
        match &outcome.case {
            Some(Err(why)) if full => println!("FAILED {}:\n{why}", outcome.name),
            Some(Err(why)) => println!("FAILED {}: {}", outcome.name, why.lines().next().unwrap_or_default()),
            _ => {}
        }
    }
    let lowered = outcomes.iter().filter(|o| o.refused.is_none()).count();
    let cases: Vec<_> = outcomes.iter().filter_map(|o| o.case.as_ref()).collect();
    let passed = cases.iter().filter(|c| c.is_ok()).count();
    println!("{lowered} of {} programs lower; {passed} of {} cases pass", outcomes.len(), cases.len());
}
