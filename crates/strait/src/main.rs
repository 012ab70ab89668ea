//! The command line. This is the only crate that depends on all others.
//!
//! `cli` defines the command line, and `commands` executes it, with one file for each command. `frontend` compiles files, `planes` has the control
//! planes of the bundled apps, and `out` prints.
#![forbid(unsafe_code)]

#[macro_use]
mod out;

mod cli;
mod commands;
mod frontend;
mod planes;

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;

use cli::{Cli, Command};

/// A table with a million entries is a million small allocations. docs/tables.md states how much memory this allocator saves.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    commands::shell::complete();
    out::until_closed(|| match run(&Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {}", abi::text::chain(&*error));
            ExitCode::from(1)
        }
    })
}

fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    let own = || std::env::current_exe().context("where is this program?");
    match &cli.command {
        Command::Check(args) => return commands::check::run(args),
        Command::Explain { code } => return commands::explain::run(code.as_deref()),
        Command::Test(args) => return commands::test::run(args),
        Command::Build(args) => commands::build::run(args)?,
        Command::Run(args) => commands::run::run(args)?,
        Command::Lab(args) => return commands::lab::run(args),
        Command::Trace(args) => commands::trace::run(args)?,
        Command::Capture(args) => commands::capture::run(args)?,
        Command::Nat64(command) => return commands::nat64::run(command),
        Command::Controller(args) => commands::client::controller::run(args)?,
        Command::Table(args) => return commands::client::table::run(args),
        Command::Counter(args) => commands::client::cells::counters(args)?,
        Command::Meter(args) => commands::client::cells::meters(args)?,
        Command::Register(args) => commands::client::cells::registers(args)?,
        Command::Group(args) => commands::client::groups::run(args)?,
        Command::Digest(args) => commands::client::stream::digests(args)?,
        Command::Packet(args) => commands::client::stream::packets(args)?,
        Command::Pipeline(args) => commands::client::pipeline::run(args)?,
        Command::Gen(args) => commands::r#gen::run(args)?,
        Command::Bench(command) => commands::bench::run(command)?,
        Command::Demo(options) => {
            bench::demo::run(options, &own()?)?;
        }
        Command::Doctor { json } => commands::doctor::run(*json)?,
        Command::Completions { shell } => commands::shell::completions(*shell)?,
        Command::Man { dir } => commands::shell::man(dir)?,
    }
    Ok(ExitCode::SUCCESS)
}
