//! Which bindings or sessions arguments mean, and lists of them.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use anyhow::Context;
use ipnet::{Ipv4Net, Ipv6Net};
use nat64::Protocol;
use nat64::flows::{Filter, STATES};
use serde_json::json;

use crate::cli::{FilterArgs, FlowArgs};

/// The number of bytes that are printed at once.
const CHUNK: usize = 64 * 1024;

/// Reads a filter.
pub fn filter(args: &FilterArgs) -> anyhow::Result<Filter> {
    let net4 = |text: &Option<String>, key: &str| {
        let parse =
            |text: &String| text.parse::<Ipv4Net>().or_else(|_| text.parse::<Ipv4Addr>().map(Ipv4Net::from));
        let wrong = || format!("--{key}: not an IPv4 address or prefix");
        text.as_ref().map(|text| parse(text).with_context(wrong)).transpose()
    };
    let host =
        |text: &String| text.parse::<Ipv6Net>().or_else(|_| text.parse::<Ipv6Addr>().map(Ipv6Net::from));
    let state = |name: &String| {
        let found = STATES.iter().position(|state| state == name && !name.is_empty());
        found
            .map(|at| at as u8)
            .with_context(|| format!("--state: the states are {}", STATES[1..].join(", ")))
    };
    Ok(Filter {
        protocol: args.protocol.as_deref().map(protocol).transpose()?,
        host: args
            .host
            .as_ref()
            .map(|text| host(text).context("--host: not an IPv6 address or prefix"))
            .transpose()?,
        host_port: args.host_port,
        address: net4(&args.address, "address")?,
        port: args.port,
        remote: net4(&args.remote, "remote")?,
        remote_port: args.remote_port,
        state: args.state.as_ref().map(state).transpose()?,
    })
}

/// The protocol with a name.
pub fn protocol(name: &str) -> anyhow::Result<Protocol> {
    Protocol::named(name).context("--protocol: tcp, udp or icmp")
}

/// Lines that are printed in chunks, and counted.
#[derive(Default)]
pub struct Lines {
    text: String,
    count: u64,
}

impl Lines {
    /// Takes one of the things that a command lists: `text` says it if it is not to be counted only.
    pub fn add(
        &mut self,
        args: &FlowArgs,
        text: impl FnOnce() -> anyhow::Result<String>,
    ) -> anyhow::Result<()> {
        self.count += 1;
        if args.count {
            return Ok(());
        }
        let _ = writeln!(self.text, "{}", text()?);
        if self.text.len() >= CHUNK {
            self.flush();
        }
        Ok(())
    }

    /// Prints what is left, or the number.
    pub fn end(mut self, args: &FlowArgs) {
        self.flush();
        match (args.count, args.of.json) {
            (true, true) => println!("{}", json!({"count": self.count})),
            (true, false) => println!("{}", self.count),
            (false, _) => {}
        }
    }

    fn flush(&mut self) {
        print!("{}", self.text);
        self.text.clear();
    }
}
