//! `export`: all bindings and sessions as text.

use super::select;
use crate::cli::SelectArgs;

/// Writes all bindings and sessions to the standard output.
pub fn export(args: &SelectArgs) -> anyhow::Result<()> {
    translator::transfer::export(&select(args), &mut |line| {
        println!("{line}");
        Ok(())
    })
}
