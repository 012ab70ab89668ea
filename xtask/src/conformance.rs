//! Runs every program of p4c's corpus through the front end, and every packet case on every target.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use anyhow::Context;
use p4::{Diagnostics, Embedded, Severity, SourceMap, SourceProvider};

use crate::cases::{self, Case};

/// The folders in `testdata`, and whether their programs are correct.
const FOLDERS: [(&str, bool); 5] = [
    ("p4_16_samples", true),
    ("p4_16_errors", false),
    ("p4_16_bmv_errors", false),
    ("p4_16_psa_errors", false),
    ("p4_16_pna_errors", false),
];

/// The result of a program.
pub struct Outcome {
    /// The folder in `testdata`.
    pub folder: &'static str,
    /// The path in that folder, without the extension.
    pub name: String,
    /// Whether the program should be accepted.
    pub right: bool,
    pub arch: Arch,
    /// The first error with its location, if the program was rejected.
    pub rejected: Option<Rejection>,
    /// For v1model, PSA and PNA: the reason why the program cannot be lowered, if it cannot.
    pub beyond: Option<String>,
    /// The result of its packet case on each target ([`crate::cases::TARGETS`]), if it has a case.
    pub cases: Vec<Case>,
    /// For programs with a P4Info from p4c: the difference between it and Strait's, which is empty if they are equal.
    pub p4info: Option<String>,
}

/// The kind of error for which a program was rejected.
pub struct Rejection {
    pub text: String,
    pub located: bool,
}

/// The architecture of a program, by what it includes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Arch {
    V1model,
    Psa,
    Pna,
    /// eBPF, XDP and uBPF: p4c's own architectures. Strait has no include files for them.
    Other,
    Core,
}

impl Arch {
    pub const ALL: [Arch; 5] = [Arch::V1model, Arch::Psa, Arch::Pna, Arch::Other, Arch::Core];

    pub fn name(self) -> &'static str {
        match self {
            Arch::V1model => "v1model",
            Arch::Psa => "psa",
            Arch::Pna => "pna",
            Arch::Other => "ebpf, xdp, ubpf",
            Arch::Core => "core or none",
        }
    }

    fn of(text: &str) -> Arch {
        let includes =
            |name: &str| text.lines().any(|l| l.trim_start().starts_with("#include") && l.contains(name));
        match () {
            () if includes("v1model.p4") => Arch::V1model,
            () if includes("psa.p4") => Arch::Psa,
            () if includes("pna.p4") => Arch::Pna,
            () if includes("_model.p4") => Arch::Other,
            () => Arch::Core,
        }
    }
}

impl Outcome {
    /// Whether the front end accepted or rejected the program as it should.
    pub fn as_it_should(&self) -> bool {
        match &self.rejected {
            Some(rejection) => !self.right && rejection.located,
            None => self.right,
        }
    }
}

/// A provider of include files: from the program's directory, then Strait's own, then those of p4c that Strait does not have.
struct Corpus {
    p4include: PathBuf,
    testdata: PathBuf,
}

impl SourceProvider for Corpus {
    fn include(&self, name: &str, from: &str, quoted: bool) -> Option<(String, String)> {
        let read = |path: PathBuf| {
            let text = std::fs::read(&path).ok()?;
            Some((path.display().to_string(), String::from_utf8_lossy(&text).into_owned()))
        };
        let beside = Path::new(from).parent().filter(|_| quoted).and_then(|dir| read(dir.join(name)));
        beside.or_else(|| Embedded.include(name, from, quoted)).or_else(|| read(self.p4include.join(name)))
    }
}

/// Runs all programs whose names contain `only`.
pub fn run(p4c: &Path, only: &str) -> anyhow::Result<Vec<Outcome>> {
    let provider = Corpus { p4include: p4c.join("p4include"), testdata: p4c.join("testdata") };
    let mut outcomes = Vec::new();
    for (folder, right) in FOLDERS {
        let dir = p4c.join("testdata").join(folder);
        let mut programs = Vec::new();
        collect(&dir, &mut programs).with_context(|| format!("{} is no checkout of p4c", p4c.display()))?;
        programs.sort();
        for path in programs {
            let name = path.strip_prefix(&dir).unwrap_or(&path).with_extension("").display().to_string();
            if name.contains(only) {
                outcomes.push(one(folder, right, name, &path, &provider)?);
            }
        }
    }
    Ok(outcomes)
}

/// All programs of a folder and its subfolders. In subfolders, a file without a `main` and without includes is a fragment of another
/// program, and is skipped.
fn collect(dir: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            collect_mains(&path, found)?;
        } else if path.extension().is_some_and(|e| e == "p4") && path.exists() {
            found.push(path);
        }
    }
    Ok(())
}

fn collect_mains(dir: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            collect_mains(&path, found)?;
        } else if path.extension().is_some_and(|e| e == "p4") {
            let text = std::fs::read(&path).unwrap_or_default();
            if String::from_utf8_lossy(&text).contains(" main;") {
                found.push(path);
            }
        }
    }
    Ok(())
}

fn one(
    folder: &'static str,
    right: bool,
    name: String,
    path: &Path,
    provider: &Corpus,
) -> anyhow::Result<Outcome> {
    let text = String::from_utf8_lossy(&std::fs::read(path)?).into_owned();
    let arch = Arch::of(&text);
    let stf = std::fs::read_to_string(path.with_extension("stf")).ok();
    let mut outcome =
        Outcome { folder, name, right, arch, rejected: None, beyond: None, cases: Vec::new(), p4info: None };
    let filled = catch_unwind(AssertUnwindSafe(|| fill(&mut outcome, path, &text, stf, provider)));
    if filled.is_err() {
        outcome.rejected = Some(Rejection { text: "PANIC".into(), located: false });
    }
    Ok(outcome)
}

fn fill(outcome: &mut Outcome, path: &Path, text: &str, stf: Option<String>, provider: &Corpus) {
    let (mut map, mut diags) = (SourceMap::default(), Diagnostics::default());
    if stf.is_some() && outcome.right {
        outcome.cases =
            vec![Case::NotRun("rejected, or of another architecture".into()); cases::TARGETS.len()];
    }
    let outputs = format!("{}_outputs", outcome.folder);
    let expected = provider.testdata.join(outputs).join(format!("{}.p4.p4info.txtpb", outcome.name));
    let expected = std::fs::read_to_string(expected).ok().filter(|_| outcome.right);
    let name = path.display().to_string();
    let accepted = p4::accept(&mut map, &name, text, &[], provider, &mut diags, |typed, map, _| {
        p4::lint(typed, map);
        outcome.p4info = expected.as_ref().map(|expected| control_plane(typed, map, expected));
        lowered(outcome, typed, map, stf);
    });
    if accepted.is_none() {
        outcome.rejected = first(&map, &diags);
        outcome.p4info = expected.map(|_| "rejected".into());
    }
}

/// The first error of the diagnostics.
fn first(map: &SourceMap, diags: &Diagnostics) -> Option<Rejection> {
    let first = diags.list().iter().find(|d| d.severity == Severity::Error)?;
    let at = map.position(first.primary.span);
    let file = at.file.rsplit('/').next().unwrap_or_default();
    let text = format!("{file}:{}: {} {}", at.line, first.code, first.message);
    Some(Rejection { text, located: at.line > 0 })
}

/// Lowers an accepted program, and runs its packet case.
fn lowered(outcome: &mut Outcome, typed: &p4::check::Typed<'_>, map: &SourceMap, stf: Option<String>) {
    if !matches!(outcome.arch, Arch::V1model | Arch::Psa | Arch::Pna) {
        return;
    }
    let mut limits = Diagnostics::default();
    let program = p4::lower_verified(typed, map, &p4::Passes::default(), &mut limits);
    let limit = first(map, &limits);
    // If p4c's back end for BMv2 rejects a program, Strait may reject it where it would run.
    if !outcome.right && outcome.folder == "p4_16_bmv_errors" {
        outcome.rejected = limit;
        return;
    }
    outcome.beyond = limit.map(|l| l.text);
    if let Some(program) = &program
        && let Err(why) = joined(typed, map, program)
    {
        outcome.p4info = Some(why);
    }
    outcome.cases = match (program, stf) {
        (_, None) => Vec::new(),
        (None, Some(_)) => {
            vec![Case::Refused(outcome.beyond.clone().unwrap_or_default()); cases::TARGETS.len()]
        }
        (Some(program), Some(stf)) => cases::play(&outcome.name, &program, &stf),
    };
    // An accepted program may exceed a limit. Any other failure to lower it is a bug.
    if limits.list().iter().any(|d| d.code == "E0599") {
        outcome.cases = vec![Case::Wrong(outcome.beyond.clone().unwrap_or_default()); cases::TARGETS.len()];
    }
}

/// Joins a program's own P4Info with it, as the P4Runtime server does. A program that P4Runtime cannot describe has nothing to join.
fn joined(typed: &p4::check::Typed<'_>, map: &SourceMap, program: &ir::Verified) -> Result<(), String> {
    let Ok(info) = emit::p4info::message(&p4::api::of(typed, map)) else { return Ok(()) };
    let pipeline = p4runtime::pipeline::Pipeline::new(info.clone(), &info, &interp::manifest::of(program));
    pipeline.map(drop).map_err(|why| format!("the server cannot join it with its program: {}", why.message))
}

fn control_plane(typed: &p4::check::Typed<'_>, map: &SourceMap, expected: &str) -> String {
    match emit::p4info::message(&p4::api::of(typed, map)) {
        Ok(info) => crate::p4info::difference(&info, expected).unwrap_or_default(),
        Err(problem) => problem.what,
    }
}
