//! `strait test`: runs cases on targets. It prints a line for each result, and a summary in the last line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use control::stf::{self, Report};
use interp::Interpreter;

use crate::cli::{RunTarget, TestArgs};
use crate::frontend;
use crate::targets::interp::InterpTarget;
use crate::targets::kernel;
use crate::targets::{Limits, Object};

/// The reason why a target cannot run on this machine, if there is one.
fn unavailable(target: RunTarget) -> Option<&'static str> {
    let root = std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0);
    match target {
        RunTarget::Interp => None,
        RunTarget::Tc | RunTarget::Xdp if !root => Some("the kernel takes eBPF programs from root only"),
        RunTarget::Tc | RunTarget::Xdp
            if std::process::Command::new("clang").arg("--version").output().is_err() =>
        {
            Some("clang is not installed")
        }
        RunTarget::Tc | RunTarget::Xdp => None,
        RunTarget::Native if !io::native::has_compiler() => Some("no C compiler is installed"),
        RunTarget::Native => None,
    }
}

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
        let (case, only_for) = read(file)?;
        cases.push((case, only_for, program));
    }
    if let Some(packets) = args.fuzz {
        return compare(args, packets, &programs, cases);
    }
    // With `--json`, only JSON goes to the standard output; the lines for people go to the standard error.
    let say = |line: String| if args.json { eprintln!("{line}") } else { println!("{line}") };
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    let mut reports = Vec::new();
    let mut objects = BTreeMap::new();
    for target in &args.targets {
        if let Some(why) = unavailable(*target) {
            for (case, ..) in &cases {
                say(format!("skipped: {} on {}: {why}", case.name, target.name()));
            }
            skipped += cases.len();
            continue;
        }
        for (case, only_for, path) in &cases {
            let Some(program) = programs.get(path) else { continue };
            if let Some(only) = excluded(only_for, *target) {
                say(format!("skipped: {} on {}: the case is for {only} only", case.name, target.name()));
                skipped += 1;
                continue;
            }
            let report = match target {
                RunTarget::Interp => Ok(stf::run(case, &mut InterpTarget(Interpreter::new(program)?))),
                compiled => play(&mut objects, (path, *compiled), program, case, args.veth),
            };
            let report = match report {
                Err(error) if error.is::<Limits>() => {
                    say(format!("skipped: {} on {}: {error}", case.name, target.name()));
                    skipped += 1;
                    continue;
                }
                other => other?,
            };
            match (report.passed, report.unsupported()) {
                (true, _) => passed += 1,
                (false, Some(why)) => {
                    say(format!("skipped: {} on {}: {why}", case.name, target.name()));
                    skipped += 1;
                }
                (false, None) => {
                    report
                        .failures
                        .iter()
                        .for_each(|f| say(format!("FAILED on {}: {}", target.name(), report.line(f))));
                    failed += 1;
                }
            }
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
    cases: Vec<(stf::Case, String, PathBuf)>,
) -> anyhow::Result<ExitCode> {
    let all: Vec<_> = programs.values().collect();
    let compiled: Vec<_> = args.targets.iter().filter(|t| **t != RunTarget::Interp).collect();
    let ([program], [target]) = (all.as_slice(), compiled.as_slice()) else {
        bail!(
            "--fuzz holds one compiled target against interp on one program: give --program and --target tc, xdp or native"
        );
    };
    if let Some(why) = unavailable(**target) {
        let skipped = format!("skipped: fuzz on {}: {why}", target.name());
        if args.json {
            eprintln!("{skipped}")
        } else {
            println!("{skipped}")
        }
        return Ok(ExitCode::SUCCESS);
    }
    let cases: Vec<_> = cases.into_iter().map(|(case, ..)| case).collect();
    match (args.workers, target) {
        (1, _) => {}
        (_, RunTarget::Native) => {
            return super::at_once::run(program, &cases, packets, args.seed, args.json);
        }
        (_, other) => bail!(
            "--workers 2 is for native: {} has no second worker that could be told when to begin",
            other.name()
        ),
    }
    super::fuzz::run(**target, program, &cases, packets, args.seed, args.json)
}

/// A case, with the targets of its line `# only: interp`, which are the only ones that can run it.
pub(super) fn read(file: &Path) -> anyhow::Result<(stf::Case, String)> {
    let (name, text) = frontend::read(file)?;
    let parsed = stf::parse(&name, &text);
    let only = text.lines().find_map(|l| l.strip_prefix("# only:")).unwrap_or_default().trim().to_string();
    let case = parsed.map_err(|errors| {
        let lines: Vec<_> = errors.iter().map(|e| e.to_string()).collect();
        anyhow::anyhow!(lines.join("\n"))
    })?;
    Ok((case, only))
}

/// The targets that a case is for, if this target is not one of them.
fn excluded(only: &str, target: RunTarget) -> Option<&str> {
    let named = only.split([',', ' ']).any(|name| name == target.name());
    (!only.is_empty() && !named).then_some(only)
}

/// A program that is compiled once for all its cases, and loaded again for each.
fn play(
    objects: &mut BTreeMap<(PathBuf, &'static str), Object>,
    (path, target): (&Path, RunTarget),
    program: &ir::Verified,
    case: &stf::Case,
    veth: bool,
) -> anyhow::Result<Report> {
    let key = (path.to_path_buf(), target.name());
    if !objects.contains_key(&key)
        && let Some(object) = Object::make(target, program)?
    {
        objects.insert(key.clone(), object);
    }
    let Some(object) = objects.get(&key) else { bail!("{} was not compiled", path.display()) };
    if let Object::Kernel(object) = object {
        return kernel::run_case(object, case, veth);
    }
    let mut target = object.load()?;
    let report = stf::run(case, &mut *target);
    target.end()?;
    Ok(report)
}
