//! `who`: the subscriber that has an IPv4 address and port, or had them.

use std::process::ExitCode;

use anyhow::{Context, bail};
use jiff::Timestamp;
use nat64::Protocol;
use serde_json::json;
use translator::who::{self, Always};

use super::filter::protocol;
use super::select;
use crate::cli::WhoArgs;

/// The exit code if nobody had them.
const NOBODY: u8 = 3;

/// Prints who has or had an address and port.
pub fn who(args: &WhoArgs) -> anyhow::Result<ExitCode> {
    let wanted = args.protocol.as_deref().map(protocol).transpose()?;
    if let Some(always) = who::by_configuration(&select(&args.of), args.endpoint) {
        print_always(args, always);
        return Ok(ExitCode::SUCCESS);
    }
    if !args.log.is_empty() {
        return by_logs(args, wanted);
    }
    if args.at.is_some() {
        bail!(
            "--at: the bindings of now say nothing of another time\n  hint: name the logs of that time by `--log`"
        );
    }
    now(args, wanted)
}

fn print_always(args: &WhoArgs, always: Always) {
    let (json, address) = (args.of.json, args.endpoint.ip());
    match always {
        Always::Host(host) if json => {
            println!("{}", json!({"subscriber": host.to_string(), "by": "configuration"}));
        }
        Always::Host(host) => {
            println!("{host} has all of {address}, at any time with this configuration");
        }
        Always::Block(subscriber) if json => {
            println!("{}", json!({"subscriber": subscriber.to_string(), "by": "blocks"}));
        }
        Always::Block(subscriber) => {
            println!("{subscriber} has that port of its block, at any time with this configuration");
        }
    }
}

/// Prints who had them by the logs.
fn by_logs(args: &WhoArgs, wanted: Option<Protocol>) -> anyhow::Result<ExitCode> {
    let at = match &args.at {
        Some(text) => text.parse::<Timestamp>().context("--at: not a time such as 2026-11-25T14:00:00Z")?,
        None => Timestamp::now(),
    };
    let found = who::by_logs(&args.log, args.endpoint, wanted, at)?;
    for line in &found {
        match args.of.json {
            true => println!(
                "{}",
                json!({"host": line.host.to_string(), "protocol": line.protocol, "since": line.time.to_string(), "by": "logs"})
            ),
            false => println!("{} had it for {} since {}", line.host, line.protocol, line.time),
        }
    }
    if found.is_empty() && !args.of.json {
        println!("nobody had {} at {at}, by these logs", args.endpoint);
    }
    Ok(code(found.is_empty()))
}

/// Prints who has them by the bindings that there are.
fn now(args: &WhoArgs, wanted: Option<Protocol>) -> anyhow::Result<ExitCode> {
    let found = who::now(&select(&args.of), args.endpoint, wanted)?;
    for (host, protocol) in &found {
        let protocol = protocol.name();
        match args.of.json {
            true => {
                println!("{}", json!({"host": host.to_string(), "protocol": protocol, "by": "bindings"}));
            }
            false => println!("{host} has it now for {protocol}"),
        }
    }
    if found.is_empty() && !args.of.json {
        println!("nobody has {} now", args.endpoint);
    }
    Ok(code(found.is_empty()))
}

fn code(nobody: bool) -> ExitCode {
    ExitCode::from(if nobody { NOBODY } else { 0 })
}
