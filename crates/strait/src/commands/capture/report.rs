//! How packets are reported: as text, as JSON, one object a line, and as pcapng.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use io::pcap::{Frame, Remark, Remarks, Statistics};
use serde_json::json;

use super::account::Account;
use super::link::{Kind, Request, send};

/// Where reports go.
pub struct Report {
    stream: UnixStream,
    text: bool,
    json: bool,
    snaplen: usize,
    /// The numbers of the ports, in the order of the capture's interfaces.
    ports: Vec<u32>,
    capture: Option<Remarks<Vec<u8>>>,
}

impl Report {
    /// Begins the reports that a request wants.
    pub fn new(stream: UnixStream, request: &Request, ports: &[(u32, String)]) -> anyhow::Result<Report> {
        let names: Vec<String> =
            ports.iter().map(|(number, what)| format!("port {number} ({what})")).collect();
        let capture = request.pcapng.then(|| Remarks::new(Vec::new(), &names)).transpose()?;
        let mut report = Report {
            stream,
            text: request.text,
            json: request.json,
            snaplen: request.snaplen.unwrap_or(usize::MAX),
            ports: ports.iter().map(|(number, _)| *number).collect(),
            capture,
        };
        report.pass_on()?;
        Ok(report)
    }

    /// Tells the operator something.
    pub fn note(&mut self, text: &str) -> std::io::Result<()> {
        send(&mut self.stream, Kind::Note, text.as_bytes())
    }

    /// Reports a packet.
    pub fn add(&mut self, account: &Account) -> anyhow::Result<()> {
        if self.text {
            send(&mut self.stream, Kind::Output, text(account).as_bytes())?;
        }
        if self.json {
            send(&mut self.stream, Kind::Output, format!("{}\n", object(account)).as_bytes())?;
        }
        let mut comment = format!("packet {}: {}", account.number, account.verdict());
        if let Some(path) = &account.path {
            comment = format!("{comment}\n{}", path.trim_end());
        }
        self.frame(account, account.port, &account.arrived, false, comment)?;
        for (port, bytes) in &account.sent {
            self.frame(account, *port, bytes, true, format!("of packet {}", account.number))?;
        }
        self.pass_on()
    }

    /// Adds a frame to the capture. One that is sent to a port that does not exist passes no interface.
    fn frame(
        &mut self,
        account: &Account,
        port: u32,
        bytes: &[u8],
        outbound: bool,
        comment: String,
    ) -> anyhow::Result<()> {
        let interface = self.ports.iter().position(|number| *number == port);
        let (Some(capture), Some(interface)) = (&mut self.capture, interface) else { return Ok(()) };
        let data = bytes[..bytes.len().min(self.snaplen)].to_vec();
        let frame = Frame { time: account.time, data };
        let (length, packet) = (bytes.len(), account.number);
        Ok(capture.add(&Remark { frame, length, interface, packet, outbound, comment })?)
    }

    /// Passes on what the capture has so far.
    fn pass_on(&mut self) -> anyhow::Result<()> {
        if let Some(capture) = &mut self.capture {
            let bytes = std::mem::take(capture.get_mut());
            send(&mut self.stream, Kind::File, &bytes)?;
        }
        Ok(())
    }

    /// Ends the reports. For each port: the packets that were looked at, and those that came too fast.
    pub fn finish(mut self, time: Duration, counts: &[(u32, u64, u64)]) -> anyhow::Result<()> {
        let Some(capture) = self.capture.take() else { return Ok(()) };
        let of = |port: &u32| {
            let found = counts.iter().find(|(number, ..)| number == port);
            found.map_or(Statistics::default(), |(_, received, lost)| Statistics {
                received: *received,
                lost: *lost,
            })
        };
        let statistics: Vec<Statistics> = self.ports.iter().map(of).collect();
        let bytes = capture.finish(time, &statistics)?;
        Ok(send(&mut self.stream, Kind::File, &bytes)?)
    }
}

fn text(account: &Account) -> String {
    let Account { number, port, arrived, .. } = account;
    let head = format!("packet {number} on port {port}, {} bytes: {}\n", arrived.len(), account.verdict());
    head + account.path.as_deref().unwrap_or("")
}

fn object(account: &Account) -> serde_json::Value {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let sent: Vec<_> =
        account.sent.iter().map(|(port, bytes)| json!({"port": port, "bytes": hex(bytes)})).collect();
    let dropped: Vec<_> =
        account.dropped.iter().map(|reason| json!({"reason": reason.name, "at": reason.place})).collect();
    let mut object = json!({
        "packet": account.number,
        "time": account.time.as_secs_f64(),
        "port": account.port,
        "bytes": hex(&account.arrived),
        "sent": sent,
        "dropped": dropped,
        "doubt": account.doubt,
    });
    if let Some(events) = &account.events {
        object["events"] = events.clone();
    }
    object
}
