//! `who`: the subscriber that has an IPv4 address and port, or had them.

use std::process::ExitCode;

use anyhow::bail;
use control::nat64::Protocol;
use serde_json::json;

use super::record::File;
use super::sessions::{Running, protocol};
use crate::cli::WhoArgs;

/// The exit code if nobody had them.
const NOBODY: u8 = 3;

/// Prints who has or had an address and port.
pub fn who(args: &WhoArgs) -> anyhow::Result<ExitCode> {
    let (address, port) = (*args.endpoint.ip(), args.endpoint.port());
    let wanted = args.protocol.as_deref().map(protocol).transpose()?;
    // Blocks need no log: the configuration tells it for all times.
    let config = File::read(&args.of.config).and_then(|file| file.config());
    let stateful = config.ok().and_then(|config| config.stateful).filter(|_| args.of.device.is_none());
    let blocks = stateful.iter().flat_map(|stateful| &stateful.pools);
    if let Some(subscriber) = blocks.filter_map(|pool| pool.subscriber_of(address, port)).next() {
        match args.of.json {
            true => println!("{}", json!({"subscriber": subscriber.to_string(), "by": "blocks"})),
            false => println!("{subscriber} has that port of its block, at any time with this configuration"),
        }
        return Ok(ExitCode::SUCCESS);
    }
    if args.at.is_some() || !args.log.is_empty() {
        bail!("logs are not read by this release yet: `--at` and `--log` need pools with a `block`");
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
