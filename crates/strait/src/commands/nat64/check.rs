//! `check`: whether a file is good, and what applying it would change.

use serde_json::json;
use translator::up::check::{Checked, Diff};
use translator::{File, Sort, up};

use crate::cli::FileArgs;

/// Checks a file, and says what applying it would change.
pub fn check(args: &FileArgs) -> anyhow::Result<()> {
    let read = File::read(&args.of.config).and_then(|file| Ok((up::check::check(&file)?, file)));
    if let (Err(error), true) = (&read, args.of.json) {
        let problem = abi::text::chain(&**error);
        println!("{}", json!({"file": args.of.config, "good": false, "problem": problem}));
    }
    let (checked, file) = read?;
    match (args.diff, args.of.json) {
        (true, true) => json_of_diff(args, &up::check::diff(&file)?)?,
        (true, false) => print_diff(args, &up::check::diff(&file)?),
        (false, true) => json_of(args, &checked),
        (false, false) => print(args, &checked),
    }
    Ok(())
}

fn json_of(args: &FileArgs, checked: &Checked) {
    let mut report =
        json!({"file": args.of.config, "good": true, "problem": null, "warnings": checked.warnings});
    if let Some(shares) = &checked.shares {
        report["shares"] = json!({
            "subscriber": shares.length, "subscriber-sessions": shares.sessions,
            "subscriber-bindings": shares.bindings, "outside-sessions": shares.outside,
        });
    }
    println!("{report}");
}

fn print(args: &FileArgs, checked: &Checked) {
    let file = args.of.config.display();
    for warning in &checked.warnings {
        eprintln!("warning: {file}: {warning}");
    }
    println!("{file} is good");
    if let Some(shares) = &checked.shares {
        println!("{}", shares.described());
    }
}

fn json_of_diff(args: &FileArgs, diff: &Diff) -> anyhow::Result<()> {
    let report = json!({
        "file": args.of.config,
        "good": true,
        "problem": null,
        "device": diff.device,
        "changes": diff.changes,
        "conflicts": diff.conflicts,
        "warnings": diff.warnings,
    });
    println!("{}", serde_json::to_string_pretty(&report)?);
    Ok(())
}

fn print_diff(args: &FileArgs, diff: &Diff) {
    for warning in &diff.warnings {
        eprintln!("warning: {warning}");
    }
    for change in &diff.changes {
        let sign = match change.sort {
            Sort::Add => '+',
            Sort::Change => '~',
            Sort::Remove => '-',
        };
        println!("{sign} {:<9} {}", change.kind, change.what);
    }
    if diff.changes.is_empty() {
        println!("{} is what runs: nothing would change", args.of.config.display());
    }
    for conflict in &diff.conflicts {
        println!("in the way: {conflict}");
    }
}
