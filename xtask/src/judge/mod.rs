//! Lets p4c and BMv2 judge: compiles a program with p4c, and plays packet tests on `simple_switch`.

mod nanomsg;
mod switch;
mod thrift;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use clap::Args;
use harness::stf;
use io::link::{Change, Handle};
use io::workdir::WorkDir;
use p4::{Diagnostics, SourceMap};

use switch::Switch;

use crate::include::Beside;

/// The options of `cargo xtask judge`.
#[derive(Args)]
pub struct Options {
    /// p4c's compiler for BMv2.
    #[arg(long, value_name = "PATH")]
    p4c_bm2_ss: PathBuf,
    /// BMv2's switch for v1model, with nanomsg and Thrift.
    #[arg(long, value_name = "PATH")]
    simple_switch: PathBuf,
    /// The program of all cases.
    #[arg(long, default_value = "apps/nat64/nat64.p4")]
    program: PathBuf,
    /// Write the table of the results to this file.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The packet tests (STF) to play.
    #[arg(required = true)]
    cases: Vec<PathBuf>,
}

/// Why a case does not pass on BMv2, for each program and case: `xtask/judge.toml`.
type Reasons = BTreeMap<String, BTreeMap<String, String>>;

/// What became of a case.
enum Outcome {
    Passed,
    /// Something else came out; the text shows it.
    Differs(String),
    /// The judge cannot play it, and says why.
    NotPlayed(String),
}

/// Plays all cases. It fails if a case differs without a reason, or passes although a reason is given.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let reasons: Reasons = toml::from_str(include_str!("../../judge.toml")).context("xtask/judge.toml")?;
    let name = stem(&options.program);
    let reasons = reasons.get(&name).cloned().unwrap_or_default();
    let directory = WorkDir::named("strait-judge-")?;
    let json = directory.path().join("program.json");
    compile(&options.p4c_bm2_ss, &options.program, &json)?;
    let manifest = manifest(&options.program)?;
    let mut results = Vec::new();
    for file in &options.cases {
        let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let case = stf::parse(&file.display().to_string(), &text)
            .map_err(|errors| anyhow::anyhow!("{}", errors[0]))?;
        let play = || -> anyhow::Result<stf::Report> {
            Handle::open()?.change("lo", &Change { up: Some(true), ..Change::default() })?;
            let directory = WorkDir::named("strait-judge-")?;
            let mut switch = Switch::start(&options.simple_switch, &json, &manifest, directory.path())?;
            Ok(stf::run(&case, &mut switch))
        };
        let report = io::netns::run_in_fresh(play).context("make a network namespace")??;
        let outcome = match (report.passed, report.unsupported()) {
            (true, _) => Outcome::Passed,
            (false, Some(why)) => Outcome::NotPlayed(why.to_string()),
            (false, None) => Outcome::Differs(report.text()),
        };
        tell(&outcome, file, reasons.get(&stem(file)));
        results.push((stem(file), outcome));
    }
    println!("{}", summary(&results));
    if let Some(out) = &options.out {
        std::fs::write(out, page(options, &name, &results, &reasons))?;
    }
    check(&results, &reasons)
}

fn stem(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn compile(p4c: &Path, program: &Path, json: &Path) -> anyhow::Result<()> {
    let mut command = Command::new(p4c);
    let output = command.args(["--std", "p4-16", "-o"]).arg(json).arg(program).output();
    let output = output.with_context(|| format!("start {}", p4c.display()))?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "p4c refuses {}:\n{text}", program.display());
    eprint!("{text}");
    Ok(())
}

fn manifest(program: &Path) -> anyhow::Result<abi::Manifest> {
    let text = std::fs::read_to_string(program).with_context(|| program.display().to_string())?;
    let (mut map, mut diags) = (SourceMap::default(), Diagnostics::default());
    let compiled = p4::compile(&mut map, &program.display().to_string(), &text, &[], &Beside, &mut diags);
    let compiled = compiled.with_context(|| p4::render::text(&map, diags.list(), false))?;
    let interpreter = interp::Interpreter::new(&compiled)?;
    Ok(dataplane::Device::manifest(&interpreter).clone())
}

fn tell(outcome: &Outcome, file: &Path, reason: Option<&String>) {
    match outcome {
        Outcome::Passed => {}
        Outcome::NotPlayed(why) => println!("{}: not played: {why}", file.display()),
        Outcome::Differs(_) if reason.is_some() => {}
        Outcome::Differs(text) => println!("{text}"),
    }
}

fn count(results: &[(String, Outcome)], is: fn(&Outcome) -> bool) -> usize {
    results.iter().filter(|(_, outcome)| is(outcome)).count()
}

fn summary(results: &[(String, Outcome)]) -> String {
    let passed = count(results, |o| matches!(o, Outcome::Passed));
    let differ = count(results, |o| matches!(o, Outcome::Differs(_)));
    let not_played = count(results, |o| matches!(o, Outcome::NotPlayed(_)));
    format!("{passed} of {} cases pass on BMv2, {differ} differ, {not_played} are not played", results.len())
}

/// Every case passes or has a reason, and no reason is out of date.
fn check(results: &[(String, Outcome)], reasons: &BTreeMap<String, String>) -> anyhow::Result<()> {
    let unexplained = |(case, outcome): &&(String, Outcome)| match outcome {
        Outcome::Passed => reasons.contains_key(case),
        _ => !reasons.contains_key(case),
    };
    let wrong: Vec<&str> = results.iter().filter(unexplained).map(|(case, _)| case.as_str()).collect();
    if !wrong.is_empty() {
        bail!("these differ without a reason in xtask/judge.toml, or pass with one: {}", wrong.join(", "));
    }
    Ok(())
}

/// The page of the manual.
fn page(
    options: &Options,
    program: &str,
    results: &[(String, Outcome)],
    reasons: &BTreeMap<String, String>,
) -> String {
    let mut page = format!(
        "# Judged by BMv2\n\n\
         `{}` is compiled with p4c for BMv2, and its packet tests are played on `simple_switch`: entries over Thrift, packets over nanomsg.\n\
         Packets, counters and drop reasons are compared. The page is written as root, with p4c-bm2-ss and simple_switch that you have built, by\n\n\
         ```sh\ncargo xtask judge --p4c-bm2-ss PATH --simple-switch PATH --program {} --out docs/reference/bmv2.md apps/{program}/cases/*.stf\n```\n\n\
         {}.\n",
        options.program.display(),
        options.program.display(),
        summary(results)
    );
    if results.iter().any(|(_, outcome)| !matches!(outcome, Outcome::Passed)) {
        page += "\nReasons are kept in `xtask/judge.toml`.\n\n| case | why BMv2 differs |\n|---|---|\n";
    }
    for (case, outcome) in results {
        let why = reasons.get(case).map_or("", String::as_str);
        match outcome {
            Outcome::Passed => {}
            Outcome::Differs(_) => page += &format!("| {case} | {why} |\n"),
            Outcome::NotPlayed(what) => page += &format!("| {case} | {what}: {why} |\n"),
        }
    }
    page
}
