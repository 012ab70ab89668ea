//! `who`: the subscriber that has an IPv4 address and port, or had them.

use std::io::{BufRead as _, BufReader};
use std::process::ExitCode;

use anyhow::{Context, bail};
use jiff::Timestamp;
use nat64::Protocol;
use nat64::report::{Line, Search};
use serde_json::json;

use super::record::File;
use super::sessions::{Running, protocol};
use crate::cli::WhoArgs;

/// The exit code if nobody had them.
const NOBODY: u8 = 3;

/// Prints who had them by the logs.
fn by_logs(args: &WhoArgs, wanted: Option<Protocol>) -> anyhow::Result<ExitCode> {
    let at = match &args.at {
        Some(text) => text.parse::<Timestamp>().context("--at: not a time such as 2026-11-25T14:00:00Z")?,
        None => Timestamp::now(),
    };
    let mut search = Search::default();
    for path in &args.log {
        let file = std::fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        for (number, text) in BufReader::new(file).lines().enumerate() {
            // Lines of others, and what was cut by a full disk, are left out.
            let text = text.with_context(|| format!("{} line {}", path.display(), number + 1))?;
            if let Ok(line) = serde_json::from_str::<Line>(&text) {
                search.line(&line, args.endpoint, wanted, at);
            }
        }
    }
    let found = search.found();
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
    Ok(ExitCode::from(if found.is_empty() { NOBODY } else { 0 }))
}

/// Prints who has or had an address and port.
pub fn who(args: &WhoArgs) -> anyhow::Result<ExitCode> {
    let (address, port) = (*args.endpoint.ip(), args.endpoint.port());
    let wanted = args.protocol.as_deref().map(protocol).transpose()?;
    // Blocks need no log: the configuration tells it for all times.
    let config = File::read(&args.of.config).and_then(|file| file.config());
    let stateful = config.ok().and_then(|config| config.stateful).filter(|_| args.of.device.is_none());
    let host = stateful.iter().flat_map(|stateful| &stateful.hosts).find(|host| host.ipv4 == address);
    if let Some(host) = host {
        match args.of.json {
            true => println!("{}", json!({"subscriber": host.ipv6.to_string(), "by": "configuration"})),
            false => println!("{} has all of {address}, at any time with this configuration", host.ipv6),
        }
        return Ok(ExitCode::SUCCESS);
    }
    let blocks = stateful.iter().flat_map(|stateful| &stateful.pools);
    if let Some(subscriber) = blocks.filter_map(|pool| pool.subscriber_of(address, port)).next() {
        match args.of.json {
            true => println!("{}", json!({"subscriber": subscriber.to_string(), "by": "blocks"})),
            false => println!("{subscriber} has that port of its block, at any time with this configuration"),
        }
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
    let mut running = Running::open(&args.of)?;
    let mut found = Vec::new();
    running.each_binding(|binding| {
        let asked = wanted.is_none_or(|wanted: Protocol| wanted == binding.protocol);
        if binding.address == (address, port) && asked {
            found.push(binding);
        }
    })?;
    for binding in &found {
        let host = std::net::SocketAddrV6::new(binding.host.0, binding.host.1, 0, 0);
        match args.of.json {
            true => println!(
                "{}",
                json!({"host": host.to_string(), "protocol": binding.protocol.name(), "by": "bindings"})
            ),
            false => println!("{host} has it now for {}", binding.protocol.name()),
        }
    }
    if found.is_empty() && !args.of.json {
        println!("nobody has {} now", args.endpoint);
    }
    Ok(ExitCode::from(if found.is_empty() { NOBODY } else { 0 }))
}
