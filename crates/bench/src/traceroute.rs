//! Traces the route to a host with traceroute.

use std::net::IpAddr;
use std::time::Duration;

use crate::lab::Lab;
use crate::process::{measure, need};
use crate::{Error, Result};

/// The most hops in a lab.
const MOST: &str = "8";

/// The routers on the way from the lab's client to a host, and the host; `None` for a hop that did not answer.
pub fn run(lab: &Lab, target: IpAddr) -> Result<Vec<Option<IpAddr>>> {
    need("traceroute", "traceroute")?;
    let mut command = lab.client.command("traceroute");
    command.args(["-n", "-q", "1", "-w", "1", "-m", MOST, &target.to_string()]);
    parse(&measure(&mut command, Duration::from_secs(20))?)
}

/// Parses the lines behind the first one: ` 1  2001:db8:1::1  0.035 ms`, or ` 2  *`.
fn parse(text: &str) -> Result<Vec<Option<IpAddr>>> {
    let hop = |line: &str| {
        let mut words = line.split_whitespace();
        words.next()?.parse::<u8>().ok()?;
        Some(words.next()?.parse().ok())
    };
    let hops: Vec<_> = text.lines().skip(1).filter_map(hop).collect();
    match hops.is_empty() {
        true => Err(Error::Output { tool: "traceroute", detail: "it has no hops".to_owned() }),
        false => Ok(hops),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hops() {
        let text = "traceroute to 2001:db8:64::c000:202 (2001:db8:64::c000:202), 8 hops max, 80 byte packets\n \
                    1  2001:db8:1::1  0.035 ms\n 2  *\n 3  2001:db8:64::c000:202  0.050 ms !X\n";
        let address = |text: &str| Some(text.parse().expect("an address"));
        assert_eq!(parse(text).unwrap(), [address("2001:db8:1::1"), None, address("2001:db8:64::c000:202")]);
        assert!(parse("Cannot handle host\n").is_err());
    }
}
