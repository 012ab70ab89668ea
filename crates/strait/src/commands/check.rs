//! `strait check`.

use std::process::ExitCode;

use crate::cli::CheckArgs;
use crate::frontend;

/// 0 accepted, 1 diagnostics.
pub fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let compiled = frontend::compile(&args.source.program, &args.source.preprocess)?;
    if args.json {
        println!("{}", p4::render::json(&compiled.map, compiled.diags.list()));
    } else {
        frontend::print(&compiled);
    }
    Ok(if compiled.program.is_some() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
