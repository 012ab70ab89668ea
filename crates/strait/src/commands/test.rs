//! `strait test`: runs cases on targets. It prints a line for each result, and a summary in the last line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use harness::fuzz::Tally;
use harness::player::{Outcome, Played, Player};

use crate::cli::{RunTarget, TestArgs};
use crate::frontend;

/// Runs the cases.
pub fn run(args: &TestArgs) -> anyhow::Result<ExitCode> {
    let mut programs: BTreeMap<PathBuf, ir::Verified> = BTreeMap::new();
    let mut cases = Vec::new();
    for file in &args.cases {
        if args.program.is_none() && file.as_path() == Path::new("-") {
            bail!("a case from the standard input has no name, and so no program: give --program");
        }
        let program = args.program.clone().unwrap_or_else(|| file.with_extension("p4"));
        if !programs.contains_key(&program) {
            let compiled = frontend::program(&program, &args.preprocess)?;
            programs.insert(program.clone(), compiled);
        }
        cases.push((read(file)?, program));
    }
    if let Some(packets) = args.fuzz {
        return compare(args, packets, &programs, cases);
    }
    // With `--json`, only JSON goes to the standard output; the lines for people go to the standard error.
    let say = |line: String| if args.json { eprintln!("{line}") } else { println!("{line}") };
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    let mut reports = Vec::new();
    let mut player = Player::default();
    for target in &args.targets {
        let unavailable = target.unavailable();
        for (played, path) in &cases {
            let outcome = match (unavailable, programs.get(path)) {
                (Some(why), _) => Outcome::Skipped(why.to_string()),
                (None, None) => continue,
                (None, Some(program)) => {
                    player.play(*target, (&path.to_string_lossy(), program), played, args.veth)?
                }
            };
            let report = match outcome {
                Outcome::Done(report) => report,
                Outcome::Skipped(why) => {
                    say(format!("skipped: {} on {}: {why}", played.case.name, target.name()));
                    skipped += 1;
                    continue;
                }
            };
            passed += usize::from(report.passed);
            failed += usize::from(!report.passed);
            report
                .failures
                .iter()
                .for_each(|f| say(format!("FAILED on {}: {}", target.name(), report.line(f))));
            reports.push(serde_json::json!({"target": target.name(), "report": report}));
        }
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&reports)?);
    }
    let tail = if skipped > 0 { format!(", {skipped} skipped") } else { String::new() };
    say(format!("{passed} passed, {failed} failed{tail}"));
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Runs `--fuzz`: compares the targets on the first program.
fn compare(
    args: &TestArgs,
    packets: u64,
    programs: &BTreeMap<PathBuf, ir::Verified>,
    cases: Vec<(Played, PathBuf)>,
) -> anyhow::Result<ExitCode> {
    let all: Vec<_> = programs.values().collect();
    let compiled: Vec<_> = args.targets.iter().filter(|t| **t != RunTarget::Interp).collect();
    let ([program], [target]) = (all.as_slice(), compiled.as_slice()) else {
        bail!(
            "--fuzz holds one compiled target against interp on one program: give --program and --target tc, xdp or native"
        );
    };
    if let Some(why) = target.unavailable() {
        let skipped = format!("skipped: fuzz on {}: {why}", target.name());
        if args.json {
            eprintln!("{skipped}")
        } else {
            println!("{skipped}")
        }
        return Ok(ExitCode::SUCCESS);
    }
    let cases: Vec<_> = cases.into_iter().map(|(played, _)| played.case).collect();
    let two = match (args.workers, target) {
        (1, _) => false,
        (_, RunTarget::Native) => true,
        (_, other) => bail!(
            "--workers 2 is for native: {} has no second worker that could be told when to begin",
            other.name()
        ),
    };
    let tally = if two {
        harness::at_once::run(program, &cases, packets, args.seed)?
    } else {
        harness::fuzz::run(**target, program, &cases, packets, args.seed)?
    };
    say_tally(&tally, args, two);
    Ok(if tally.agrees() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Prints what a comparison has found.
fn say_tally(tally: &Tally, args: &TestArgs, two: bool) {
    let Tally { equal, carried, refused, different, cells, shown } = tally;
    let seed = args.seed;
    if args.json {
        let all = serde_json::json!({"equal": equal, "wrong_on_arrival": carried, "different": different,
            "not_taken": refused, "cells": cells, "seed": seed, "differences": shown});
        println!("{all}");
        return;
    }
    shown.iter().for_each(|line| println!("{line}"));
    if two {
        println!(
            "{equal} packets on two workers equal one after the other, {different} episodes different, {cells} counter cells compared; seed {seed}"
        );
    } else {
        println!(
            "{equal} packets equal ({carried} of them with a wrong sum on arrival), {different} different, {refused} not taken by the kernel's test \
             run, {cells} counter cells compared; seed {seed}"
        );
    }
}

/// Reads a case.
pub(super) fn read(file: &Path) -> anyhow::Result<Played> {
    let (name, text) = frontend::read(file)?;
    Played::read(&name, &text).map_err(|mistakes| anyhow::anyhow!(mistakes))
}
