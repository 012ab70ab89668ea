//! Measures TCP and UDP throughput with iperf3.

use std::net::IpAddr;
use std::time::Duration;

use serde::Deserialize;

use crate::lab::Lab;
use crate::process::{Job, measure};
use crate::{Error, Result};

/// Payload bytes in a UDP datagram. With IPv4 or IPv6 headers the packet is smaller than every MTU on the path, so it is never fragmented.
pub const DATAGRAM: u32 = 1400;

/// The traffic that iperf3 sends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// TCP as fast as possible.
    Tcp,
    /// UDP datagrams of [`DATAGRAM`] bytes at a fixed rate.
    Udp {
        /// The payload rate of all streams together, in bit/s.
        bits_per_second: f64,
    },
}

/// One run of iperf3.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The traffic that is sent.
    pub load: Load,
    /// Number of parallel connections or flows.
    pub streams: u32,
    /// Whether the server sends to the client (`-R`).
    pub to_client: bool,
    /// Duration of the transfer in seconds.
    pub seconds: u32,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Received payload in bit/s.
    pub bits_per_second: f64,
    /// Number of UDP datagrams that did not arrive.
    pub lost: u64,
    /// Number of UDP datagrams sent.
    pub packets: u64,
    /// Number of TCP segments sent again.
    pub retransmits: u64,
}

impl Outcome {
    /// The share of UDP datagrams that were lost, from 0 to 1.
    pub fn loss(&self) -> f64 {
        if self.packets == 0 { 0.0 } else { self.lost as f64 / self.packets as f64 }
    }
}

/// Runs iperf3 between the lab's client and `target`, the address under which the client reaches the lab's server on this path.
pub fn run(lab: &Lab, target: IpAddr, run: Run) -> Result<Outcome> {
    // Each test has its own server: a server that serves several tests can still be busy with the end of the last one.
    let mut server = Job::background(lab.server.command("iperf3").args(["-s", "-1", "--forceflush"]))?;
    server.wait_for("Server listening", Duration::from_secs(5))?;
    let mut client = lab.client.command("iperf3");
    client.args(arguments(target, run));
    // Each end is pinned to a processor. Without that, ten streams varied twofold from one run to the next.
    if std::thread::available_parallelism().is_ok_and(|n| n.get() > 1) {
        client.args(["-A", "0,1"]);
    }
    // The extra time is for setting up connections and exchanging results.
    match measure(&mut client, Duration::from_secs(u64::from(run.seconds) + 20)) {
        Ok(json) => parse(&json),
        // A failing iperf3 still prints JSON, with the reason in it.
        Err(Error::Command { output, .. }) if output.contains("\"error\"") => parse(&output),
        Err(error) => Err(error),
    }
}

/// The arguments of the iperf3 client.
fn arguments(target: IpAddr, run: Run) -> Vec<String> {
    let mut arguments = vec!["--json".to_owned(), "-c".to_owned(), target.to_string()];
    // The limit is in milliseconds. A path that drops everything must not delay the run for minutes.
    arguments.extend(["--connect-timeout".to_owned(), "5000".to_owned()]);
    arguments.extend(["-t".to_owned(), run.seconds.to_string(), "-P".to_owned(), run.streams.to_string()]);
    if let Load::Udp { bits_per_second } = run.load {
        // iperf3 takes the rate of one stream.
        let rate = (bits_per_second / f64::from(run.streams)).round();
        arguments.extend([
            "-u".to_owned(),
            "-l".to_owned(),
            DATAGRAM.to_string(),
            "-b".to_owned(),
            rate.to_string(),
        ]);
    }
    if run.to_client {
        arguments.push("-R".to_owned());
    }
    arguments
}

/// The parts of iperf3's JSON that are used. TCP has `sum_sent` and `sum_received`; UDP has `sum`, and newer versions also the other two.
#[derive(Deserialize)]
struct Document {
    error: Option<String>,
    #[serde(default)]
    end: End,
}

#[derive(Default, Deserialize)]
struct End {
    sum: Option<Sum>,
    sum_sent: Option<Sum>,
    sum_received: Option<Sum>,
}

#[derive(Default, Deserialize)]
struct Sum {
    #[serde(default)]
    bits_per_second: f64,
    #[serde(default)]
    lost_packets: i64,
    packets: Option<u64>,
    retransmits: Option<u64>,
}

/// Parses the JSON output of the iperf3 client.
pub fn parse(json: &str) -> Result<Outcome> {
    let bad = |detail: String| Error::Output { tool: "iperf3", detail };
    let document: Document = serde_json::from_str(json).map_err(|error| bad(error.to_string()))?;
    if let Some(error) = document.error {
        return Err(Error::Traffic(format!("iperf3: {error}")));
    }
    let end = document.end;
    if let Some(sum @ Sum { packets: Some(packets), .. }) = end.sum {
        // `sum_received` is what the receiver saw; `sum` mixes the sender's rate with the receiver's losses. Reordering can make the count
        // of lost datagrams negative for a moment.
        let lost = u64::try_from(sum.lost_packets).unwrap_or(0);
        let arrived = 1.0 - if packets == 0 { 0.0 } else { lost as f64 / packets as f64 };
        let received = end.sum_received.map_or(0.0, |sum| sum.bits_per_second);
        let bits_per_second = if received > 0.0 { received } else { sum.bits_per_second * arrived };
        return Ok(Outcome { bits_per_second, lost, packets, retransmits: 0 });
    }
    let received = end.sum_received.ok_or_else(|| bad("it has no end.sum_received".to_owned()))?;
    let retransmits = end.sum_sent.and_then(|sum| sum.retransmits).unwrap_or(0);
    Ok(Outcome { bits_per_second: received.bits_per_second, lost: 0, packets: 0, retransmits })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_a_run() {
        let target = "192.0.2.2".parse().unwrap();
        let tcp = Run { load: Load::Tcp, streams: 10, to_client: true, seconds: 3 };
        assert_eq!(
            arguments(target, tcp).join(" "),
            "--json -c 192.0.2.2 --connect-timeout 5000 -t 3 -P 10 -R"
        );
        let udp = Run { load: Load::Udp { bits_per_second: 1e9 }, streams: 4, to_client: false, seconds: 1 };
        assert!(arguments(target, udp).join(" ").ends_with("-P 4 -u -l 1400 -b 250000000"));
    }

    #[test]
    fn tcp() {
        let json = r#"{"start":{},"end":{
            "sum_sent":{"bits_per_second":1.9e10,"retransmits":3,"sender":true},
            "sum_received":{"bits_per_second":1.8e10,"sender":true},
            "receiver_tcp_congestion":"cubic"}}"#;
        let expected = Outcome { bits_per_second: 1.8e10, lost: 0, packets: 0, retransmits: 3 };
        assert_eq!(parse(json).unwrap(), expected);
    }

    #[test]
    fn udp() {
        let json = r#"{"end":{
            "sum":{"bits_per_second":2e8,"lost_packets":50,"packets":1000,"lost_percent":5},
            "sum_sent":{"bits_per_second":2e8,"packets":1000},
            "sum_received":{"bits_per_second":1.9e8,"packets":1000,"lost_packets":50}}}"#;
        let outcome = parse(json).unwrap();
        assert_eq!(outcome.bits_per_second, 1.9e8);
        assert!((outcome.loss() - 0.05).abs() < 1e-9);
    }

    #[test]
    fn udp_of_an_old_iperf3() {
        let json = r#"{"end":{"sum":{"bits_per_second":1e8,"lost_packets":10,"packets":100}}}"#;
        assert!((parse(json).unwrap().bits_per_second - 0.9e8).abs() < 1.0);
    }

    #[test]
    fn udp_reordered() {
        let json = r#"{"end":{"sum":{"bits_per_second":1e8,"lost_packets":-2,"packets":100}}}"#;
        assert_eq!(parse(json).unwrap().lost, 0);
    }

    #[test]
    fn an_error_of_its_own() {
        let error =
            parse(r#"{"start":{},"error":"unable to connect to server: No route to host"}"#).unwrap_err();
        assert!(error.to_string().contains("No route to host"));
        assert!(parse("not json").is_err());
        assert!(parse(r#"{"end":{}}"#).is_err());
    }
}
