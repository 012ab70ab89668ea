//! Sends echo requests with ping.

use std::net::IpAddr;
use std::time::Duration;

use crate::lab::Lab;
use crate::process::{measure, need};
use crate::{Error, Result};

/// The result of a run of ping.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Echoes {
    /// Number of requests sent.
    pub sent: u32,
    /// Number of replies received.
    pub answered: u32,
    /// The mean round-trip time in milliseconds; `None` without replies.
    pub mean_ms: Option<f64>,
}

/// Sends `count` echo requests with `payload` bytes from the lab's client, 20 each second.
pub fn run(lab: &Lab, target: IpAddr, count: u32, payload: u32) -> Result<Echoes> {
    need("ping", "iputils-ping")?;
    let mut command = lab.client.command("ping");
    command.args(["-n", "-q", "-i", "0.05", "-W", "2", "-c", &count.to_string(), "-s", &payload.to_string()]);
    command.arg(target.to_string());
    let answer = measure(&mut command, Duration::from_secs(u64::from(count) / 10 + 10));
    match answer {
        Ok(text) => parse(&text),
        // ping exits with an error if no reply arrived, but still prints its summary.
        Err(Error::Command { output, .. }) if output.contains("packets transmitted") => parse(&output),
        Err(error) => Err(error),
    }
}

/// Parses the last lines of ping's output: `20 packets transmitted, 20 received, …` and `rtt min/avg/max/mdev = 0.03/0.05/…`.
fn parse(text: &str) -> Result<Echoes> {
    let summary = text.lines().find(|line| line.contains("packets transmitted"));
    let mut numbers =
        summary.unwrap_or_default().split(", ").map(|part| part.split(' ').next()?.parse().ok());
    let (Some(Some(sent)), Some(Some(answered))) = (numbers.next(), numbers.next()) else {
        return Err(Error::Output { tool: "ping", detail: "it has no summary".to_owned() });
    };
    let times = text.lines().find_map(|line| line.strip_prefix("rtt ")?.split_once("= "));
    let mean_ms = times.and_then(|(_, times)| times.split('/').nth(1)?.parse().ok());
    Ok(Echoes { sent, answered, mean_ms })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries() {
        let text = "PING 2001:db8:64::c000:202 56 data bytes\n\n--- 2001:db8:64::c000:202 ping statistics ---\n\
                    20 packets transmitted, 19 received, 5% packet loss, time 980ms\n\
                    rtt min/avg/max/mdev = 0.031/0.045/0.081/0.010 ms\n";
        assert_eq!(parse(text).unwrap(), Echoes { sent: 20, answered: 19, mean_ms: Some(0.045) });
        let nothing = "3 packets transmitted, 0 received, +3 errors, 100% packet loss, time 2000ms\n";
        assert_eq!(parse(nothing).unwrap(), Echoes { sent: 3, answered: 0, mean_ms: None });
        assert!(parse("ping: unknown host").is_err());
    }
}
