//! Prints completion scripts and manual pages, which are generated from the definition of the command line.

use std::path::Path;

use anyhow::Context;
use clap::CommandFactory;
use clap_complete::env::{CompleteEnv, Shells};

use crate::cli::Cli;

/// The variable by which a shell asks for completions (clap_complete's protocol).
const ASKS: &str = "COMPLETE";

/// Prints a completion script, which asks this program for what fits: names of a running program, too.
pub fn completions(shell: clap_complete::Shell) -> anyhow::Result<()> {
    let shells = Shells::builtins();
    let script = shells.completer(&shell.to_string()).context("there is no script for this shell")?;
    Ok(script.write_registration(ASKS, "strait", "strait", "strait", &mut crate::out::Stdout)?)
}

/// Answers a shell that asks for completions, and ends. Otherwise it does nothing.
pub fn complete() {
    CompleteEnv::with_factory(Cli::command).var(ASKS).complete();
}

/// Writes a manual page for each command.
pub fn man(dir: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    clap_mangen::generate_to(Cli::command(), dir)
        .with_context(|| format!("cannot write to {}", dir.display()))
}
