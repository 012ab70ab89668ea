//! `strait check`: checks whether a program is correct, and which targets can run it.

use std::process::ExitCode;

use p4::limits::{self, Target};
use p4::{Diagnostic, Diagnostics, SourceMap};

use crate::cli::CheckArgs;
use crate::frontend;

/// The targets that have limits of their own. The interpreter runs every program that the front end can lower.
const TARGETS: [Target; 3] = [Target::Tc, Target::Xdp, Target::Native];
/// The targets that get a line of their own if none is requested. The limits of xdp are those of tc.
const DIFFERENT: [Target; 2] = [Target::Tc, Target::Native];

/// Returns 0 for an accepted program, and 1 for one with errors. Without a target, something that this release does not support is a
/// warning; with a target, it is an error.
pub fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let mut front = frontend::Front::default();
    let notes = front.check(&args.source.program, &args.source.preprocess, |typed, map, diags| {
        diags.extend(p4::lint(typed, map));
        what_runs(args, typed, map, diags)
    })?;
    let accepted = notes.is_some();
    let mut notes = notes.unwrap_or_default();
    let silent = |d: &Diagnostic| args.allow.iter().any(|name| p4::lint::is_called(d.code, name));
    front.diags.silence(silent);
    notes.retain(|d| !silent(d));
    let good = accepted && !front.diags.has_errors();
    if args.json {
        let all: Vec<Diagnostic> = front.diags.list().iter().chain(&notes).cloned().collect();
        println!("{}", p4::render::json(&front.map, &all));
    } else {
        frontend::print(&front.map, &front.diags);
        for note in &notes {
            eprintln!("{}", line(note, &front.map));
        }
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// The limits that no target supports, and those of the requested targets. Without requested targets, returns a line about each target
/// instead, which is printed at the end.
fn what_runs(
    args: &CheckArgs,
    typed: &p4::check::Typed<'_>,
    map: &SourceMap,
    diags: &mut Diagnostics,
) -> Vec<Diagnostic> {
    let mut notes: Vec<Diagnostic> = Vec::new();
    let asked = !args.target.is_empty();
    let mut refused = Diagnostics::default();
    // A library without a `main` is correct. This matters only to users who want to run it.
    let whole = typed.main.is_some() || asked;
    match whole.then(|| p4::lower_verified(typed, map, &p4::Passes::default(), &mut refused)).flatten() {
        Some(program) if asked => {
            for target in wanted(args) {
                limits_of(target, &program, map).into_iter().for_each(|d| diags.push(d));
            }
        }
        Some(program) => {
            for target in DIFFERENT {
                let all = limits_of(target, &program, map);
                if let Some(first) = all.first() {
                    notes.push(target.note(first, all.len() - 1));
                }
            }
        }
        None if asked => diags.extend(refused),
        None => limits::of_every_target(&refused).into_iter().for_each(|d| diags.push(d)),
    }
    notes
}

/// The targets in `--target` that have limits of their own.
fn wanted(args: &CheckArgs) -> impl Iterator<Item = Target> {
    let named = |target: Target| args.target.iter().any(|t| t.name() == target.name());
    TARGETS.into_iter().filter(move |t| named(*t))
}

/// The limits of a target that a program exceeds.
fn limits_of(target: Target, program: &ir::Verified, map: &SourceMap) -> Vec<Diagnostic> {
    let made = match target {
        Target::Tc => emit::tc(program),
        Target::Xdp => emit::xdp(program),
        Target::Native => emit::native(program),
    };
    let limits = made.err().unwrap_or_default();
    let diagnostic = |l: &emit::Unsupported| {
        let at = map.span_at(l.loc.file as usize, l.loc.line as usize, l.loc.col as usize);
        target.limit(at, &l.what, &l.hint)
    };
    limits.iter().map(diagnostic).collect()
}

/// A diagnostic on one line.
fn line(d: &Diagnostic, map: &SourceMap) -> String {
    let at = map.position(d.primary.span);
    let hint = d.hint.as_ref().map(|h| format!("; {h}")).unwrap_or_default();
    format!("{}:{}:{}: warning[{}]: {}{hint}", at.file, at.line, at.column, d.code, d.message)
}
