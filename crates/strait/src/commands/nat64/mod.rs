//! `strait nat64`: what the crate `translator` does, said to people or as JSON. One file has one command.
//!
//! [`log`]: where lines go. `filter`: which bindings or sessions are meant.

mod bindings;
mod check;
mod down;
mod export;
mod filter;
mod flush;
mod import;
pub mod log;
mod native;
mod pool;
mod run;
mod sessions;
mod status;
mod top;
mod up;
mod who;

use std::process::ExitCode;

use anyhow::bail;
use translator::Select;

use crate::cli::{Nat64Command, Nat64Target, SelectArgs, UpArgs};

/// Executes a subcommand.
pub fn run(command: &Nat64Command) -> anyhow::Result<ExitCode> {
    match command {
        Nat64Command::Up(args) if args.target == Nat64Target::Native => native::up(args)?,
        Nat64Command::Up(UpArgs { workers: Some(_), .. }) => {
            bail!("--workers is for the native target; in the kernel every processor works")
        }
        Nat64Command::Up(UpArgs { apply: args, .. }) | Nat64Command::Reload(args) => up::up(args)?,
        Nat64Command::Run(args) => return Ok(run::run(args)),
        Nat64Command::Down(args) => down::down(args)?,
        Nat64Command::Status(args) => return status::status(args),
        Nat64Command::Check(args) => check::check(args)?,
        Nat64Command::Sessions(args) => sessions::sessions(args)?,
        Nat64Command::Bindings(args) => bindings::bindings(args)?,
        Nat64Command::Pool(args) => pool::pool(args)?,
        Nat64Command::Top(args) => top::top(args)?,
        Nat64Command::Flush(args) => flush::flush(args)?,
        Nat64Command::Export(args) => export::export(args)?,
        Nat64Command::Import(args) => import::import(args)?,
        Nat64Command::Who(args) => return who::who(args),
    }
    Ok(ExitCode::SUCCESS)
}

/// The translators that arguments mean.
fn select(args: &SelectArgs) -> Select {
    match &args.device {
        Some(device) => Select::Device(device.clone()),
        None => Select::File(args.config.clone()),
    }
}
