//! `run`: a process that keeps a translator as its file says. A new version of this program goes on in its place.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use serde_json::json;
use translator::Log;
use translator::keep::{Ended, Options, keep};
use translator::up::Up;

use super::log;
use crate::cli::KeepArgs;

/// Translates until it is told to end.
pub fn run(args: &KeepArgs) -> ExitCode {
    let log = log::of_service();
    let code = match until_end(args, &log) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log.error(&abi::text::chain(&*error));
            ExitCode::FAILURE
        }
    };
    log::finish();
    code
}

fn until_end(args: &KeepArgs, log: &Log) -> anyhow::Result<()> {
    let (apply, json) = (&args.apply, args.apply.of.json);
    let options = Options { file: apply.of.config.clone(), force: apply.force, keep: args.keep };
    let mut up = |up: &Up| {
        log::start();
        say(json, &up.device, true, &format!("is up: {}", up.described()));
    };
    match keep(&options, log, &mut up)? {
        Ended::Early => {}
        Ended::Down(device) => say(json, &device, false, "is down"),
        Ended::Left(device) => say(json, &device, true, "goes on without this process"),
        Ended::Replaced(next) => {
            log::finish();
            return Err(Command::new(&next.program).args(std::env::args_os().skip(1)).exec().into());
        }
    }
    Ok(())
}

fn say(json: bool, device: &str, up: bool, what: &str) {
    match json {
        true => log::print(&json!({"device": device, "up": up}).to_string()),
        false => log::print(&format!("{device} {what}")),
    }
}
