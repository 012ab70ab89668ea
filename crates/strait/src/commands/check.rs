//! `strait check`: whether a program is right, and what of it this release cannot run.

use std::process::ExitCode;

use p4::{Diagnostics, Severity};

use crate::cli::CheckArgs;
use crate::frontend;

/// 0 accepted, 1 diagnostics. What is right and beyond this release is a warning here, and an error where it should run.
pub fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let mut checked = frontend::check(&args.source.program, &args.source.preprocess)?;
    if let Some(tree) = &checked.tree {
        let (typed, _) = p4::check(tree, &checked.map);
        checked.diags.extend(p4::lint(&typed, &checked.map));
        let mut limits = Diagnostics::default();
        p4::lower_verified(tree, &checked.map, &mut limits);
        for limit in limits.list() {
            checked.diags.push(p4::Diagnostic { severity: Severity::Warning, ..limit.clone() });
        }
    }
    checked.diags.silence(|d| args.allow.iter().any(|name| p4::lint::is_called(d.code, name)));
    if args.json {
        println!("{}", p4::render::json(&checked.map, checked.diags.list()));
    } else {
        frontend::print(&checked.map, &checked.diags);
    }
    Ok(if checked.tree.is_some() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
