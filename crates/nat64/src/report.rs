//! Reports of bindings and sessions that begin and end, for an abuse desk (RFC 6888 section 4): as JSON, as syslog (RFC 5424), and as IPFIX records with
//! the fields of RFC 8158.
//!
//! A line of JSON has these keys: `time` (RFC 3339), `event` (`binding-created`, `binding-deleted`, `session-created`, `session-deleted` or `lost`),
//! `protocol`, `host`, `address`, and of sessions `remote`; of `lost`, `count` is the number of reports that there was no room for.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};

use abi::Bits;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::config::Protocol;
use super::flows::{Binding, Session};

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)]
pub enum Event {
    BindingCreated,
    BindingDeleted,
    SessionCreated,
    SessionDeleted,
}

/// A report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// What has happened.
    pub event: Event,
    /// The transport protocol.
    pub protocol: Protocol,
    /// The address and port of the IPv6 host.
    pub host: (Ipv6Addr, u16),
    /// The IPv4 address and port that it has.
    pub address: (Ipv4Addr, u16),
    /// The other end of a session.
    pub remote: Option<(Ipv4Addr, u16)>,
}

/// A line of JSON, as it is read again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// When it happened.
    pub time: Timestamp,
    /// What has happened.
    pub event: Event,
    /// The transport protocol.
    pub protocol: String,
    /// The IPv6 host.
    pub host: SocketAddrV6,
    /// The IPv4 address and port that it has.
    pub address: SocketAddrV4,
    /// The other end of a session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<SocketAddrV4>,
}

impl Report {
    /// The digest that a packet sent for what it has added. One of a binding has no remote address.
    pub fn of_digest(values: &[Bits]) -> Option<Report> {
        let of = |at: usize| values.get(at).and_then(Bits::to_u128);
        let remote = (Ipv4Addr::from(of(5)? as u32), of(6)? as u16);
        let session = !remote.0.is_unspecified();
        Some(Report {
            event: if session { Event::SessionCreated } else { Event::BindingCreated },
            protocol: Protocol::numbered(of(0)? as u8)?,
            host: (Ipv6Addr::from(of(1)?), of(2)? as u16),
            address: (Ipv4Addr::from(of(3)? as u32), of(4)? as u16),
            remote: session.then_some(remote),
        })
    }

    /// The end of a binding.
    pub fn binding_deleted(binding: &Binding) -> Report {
        let Binding { protocol, host, address, .. } = *binding;
        Report { event: Event::BindingDeleted, protocol, host, address, remote: None }
    }

    /// The end of a session.
    pub fn session_deleted(session: &Session) -> Report {
        let Session { protocol, host, address, remote, .. } = *session;
        Report { event: Event::SessionDeleted, protocol, host, address, remote: Some(remote) }
    }

    /// The line of JSON.
    pub fn json(&self, time: Timestamp) -> String {
        let line = Line {
            time,
            event: self.event,
            protocol: self.protocol.name().to_string(),
            host: SocketAddrV6::new(self.host.0, self.host.1, 0, 0),
            address: SocketAddrV4::new(self.address.0, self.address.1),
            remote: self.remote.map(|(address, port)| SocketAddrV4::new(address, port)),
        };
        serde_json::to_string(&line).unwrap_or_default()
    }

    /// The value of natEvent (RFC 8158 section 4.3).
    fn nat_event(&self) -> u8 {
        match self.event {
            Event::SessionCreated => 6,
            Event::SessionDeleted => 7,
            Event::BindingCreated => 10,
            Event::BindingDeleted => 11,
        }
    }
}

/// The line of JSON that says how many reports were lost.
pub fn lost_json(time: Timestamp, count: u64) -> String {
    format!("{{\"time\":\"{time}\",\"event\":\"lost\",\"count\":{count}}}")
}

/// A syslog message (RFC 5424) with a line of JSON as its text: facility local0, severity informational.
pub fn syslog(time: Timestamp, host: &str, process: u32, json: &str) -> String {
    let host: String = host.chars().filter(char::is_ascii_graphic).take(255).collect();
    let host = if host.is_empty() { "-".to_string() } else { host };
    // RFC 5424 section 6.2.3 allows at most six digits of a second.
    format!("<134>1 {time:.6} {host} strait-nat64 {process} - - {json}")
}

/// The elements of IANA's registry for a binding, and for a session: number and length.
const BINDING: [(u16, u16); 7] = [(323, 8), (230, 1), (27, 16), (225, 4), (4, 1), (7, 2), (227, 2)];
const SESSION: [(u16, u16); 11] =
    [(323, 8), (230, 1), (27, 16), (225, 4), (4, 1), (7, 2), (227, 2), (28, 16), (226, 4), (11, 2), (228, 2)];
const BINDINGS: u16 = 256;
const SESSIONS: u16 = 257;
/// The number of the set that has templates.
const TEMPLATES: u16 = 2;
/// The seconds after which templates are sent again: a collector may have been restarted (RFC 7011 section 8.4).
const AGAIN: i64 = 60;
/// The largest number of records in a message, which then fits 1280 bytes.
pub const RECORDS: usize = 16;

/// Makes IPFIX messages (RFC 7011) for a collector that is reached by UDP.
#[derive(Clone, Debug, Default)]
pub struct Ipfix {
    /// The number of records that were sent.
    sequence: u32,
    /// When the templates were sent last.
    templates: Option<i64>,
}

impl Ipfix {
    /// A message with at most [`RECORDS`] reports. `prefix` makes the IPv6 address of the other end.
    pub fn message(
        &mut self,
        now: Timestamp,
        reports: &[(Timestamp, Report)],
        prefix: impl Fn(Ipv4Addr) -> Ipv6Addr,
    ) -> Vec<u8> {
        let mut sets = Vec::new();
        if self.templates.is_none_or(|sent| now.as_second() - sent >= AGAIN) {
            self.templates = Some(now.as_second());
            let mut templates = Vec::new();
            template(&mut templates, BINDINGS, &BINDING);
            template(&mut templates, SESSIONS, &SESSION);
            set(&mut sets, TEMPLATES, &templates);
        }
        let (mut bindings, mut sessions) = (Vec::new(), Vec::new());
        for (time, report) in reports {
            let records = if report.remote.is_some() { &mut sessions } else { &mut bindings };
            record(records, *time, report, &prefix);
        }
        for (id, records) in [(BINDINGS, bindings), (SESSIONS, sessions)] {
            if !records.is_empty() {
                set(&mut sets, id, &records);
            }
        }
        let mut message = Vec::new();
        message.extend(10u16.to_be_bytes());
        message.extend(((sets.len() + 16) as u16).to_be_bytes());
        message.extend((now.as_second() as u32).to_be_bytes());
        message.extend(self.sequence.to_be_bytes());
        message.extend(0u32.to_be_bytes());
        message.extend(sets);
        self.sequence = self.sequence.wrapping_add(reports.len() as u32);
        message
    }
}

fn set(message: &mut Vec<u8>, id: u16, content: &[u8]) {
    message.extend(id.to_be_bytes());
    message.extend(((content.len() + 4) as u16).to_be_bytes());
    message.extend(content);
}

fn template(set: &mut Vec<u8>, id: u16, fields: &[(u16, u16)]) {
    set.extend(id.to_be_bytes());
    set.extend((fields.len() as u16).to_be_bytes());
    for (element, length) in fields {
        set.extend(element.to_be_bytes());
        set.extend(length.to_be_bytes());
    }
}

fn record(set: &mut Vec<u8>, time: Timestamp, report: &Report, prefix: impl Fn(Ipv4Addr) -> Ipv6Addr) {
    let number = match report.protocol {
        // In IPv6, where the host sends it.
        Protocol::Icmp => 58,
        other => other.number(),
    };
    set.extend((time.as_millisecond() as u64).to_be_bytes());
    set.push(report.nat_event());
    set.extend(report.host.0.octets());
    set.extend(report.address.0.octets());
    set.push(number);
    set.extend(report.host.1.to_be_bytes());
    set.extend(report.address.1.to_be_bytes());
    if let Some((remote, port)) = report.remote {
        set.extend(prefix(remote).octets());
        set.extend(remote.octets());
        set.extend(port.to_be_bytes());
        set.extend(port.to_be_bytes());
    }
}

/// Who has an address and port at a time, by the lines of logs in the order of time.
#[derive(Clone, Debug, Default)]
pub struct Search {
    found: Vec<Line>,
}

impl Search {
    /// Takes a line. `wanted` is the address and port, and the protocol if one is asked for.
    pub fn line(&mut self, line: &Line, wanted: SocketAddrV4, protocol: Option<Protocol>, at: Timestamp) {
        let other = protocol.is_some_and(|protocol| protocol.name() != line.protocol);
        if line.address != wanted || other || line.time > at {
            return;
        }
        let same = |held: &Line| held.protocol == line.protocol && held.host == line.host;
        match line.event {
            Event::BindingCreated => {
                self.found.retain(|held| held.protocol != line.protocol);
                self.found.push(line.clone());
            }
            Event::BindingDeleted => self.found.retain(|held| !same(held)),
            Event::SessionCreated | Event::SessionDeleted => {}
        }
    }

    /// The bindings that held.
    pub fn found(self) -> Vec<Line> {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(event: Event, port: u16) -> Report {
        let session = matches!(event, Event::SessionCreated | Event::SessionDeleted);
        Report {
            event,
            protocol: Protocol::Tcp,
            host: ("2001:db8::2".parse().expect("an address"), port),
            address: (Ipv4Addr::new(203, 0, 113, 7), 40123),
            remote: session.then_some((Ipv4Addr::new(198, 51, 100, 2), 443)),
        }
    }

    fn time(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    #[test]
    fn who_had_a_port_follows_from_what_began_and_ended_before() {
        let endpoint: SocketAddrV4 = "203.0.113.7:40123".parse().expect("an endpoint");
        let lines: Vec<Line> = [
            (10, Event::BindingCreated, 1),
            (11, Event::SessionCreated, 1),
            (20, Event::BindingDeleted, 1),
            (30, Event::BindingCreated, 2),
        ]
        .map(|(at, event, port)| {
            serde_json::from_str(&report(event, port).json(time(at))).expect("it is read again")
        })
        .to_vec();
        for (at, port) in [(9, None), (10, Some(1)), (19, Some(1)), (20, None), (31, Some(2))] {
            let mut search = Search::default();
            lines.iter().for_each(|line| search.line(line, endpoint, Some(Protocol::Tcp), time(at)));
            let found = search.found();
            assert_eq!(found.first().map(|line| line.host.port()), port, "at {at}");
        }
    }

    #[test]
    fn syslog_messages_are_those_of_rfc_5424() {
        let json = report(Event::BindingCreated, 1).json(time(0));
        let text = syslog(time(0), "router one", 7, &json);
        assert!(
            text.starts_with("<134>1 1970-01-01T00:00:00.000000Z routerone strait-nat64 7 - - {\"time\":"),
            "{text}"
        );
    }

    #[test]
    fn ipfix_messages_have_their_templates_first_and_again_after_a_minute() {
        let mut ipfix = Ipfix::default();
        let all = [(time(1), report(Event::BindingCreated, 1)), (time(1), report(Event::SessionDeleted, 1))];
        let embed = |_| Ipv6Addr::LOCALHOST;
        let first = ipfix.message(time(1), &all, embed);
        assert_eq!(first[..2], 10u16.to_be_bytes());
        assert_eq!(usize::from(u16::from_be_bytes([first[2], first[3]])), first.len());
        assert_eq!(first[16..18], TEMPLATES.to_be_bytes());
        let second = ipfix.message(time(2), &all, embed);
        assert_eq!(second[8..12], 2u32.to_be_bytes(), "records before it");
        assert_eq!(second[16..18], BINDINGS.to_be_bytes());
        assert_eq!(usize::from(u16::from_be_bytes([second[18], second[19]])), 4 + 34);
        let third = ipfix.message(time(61), &all, embed);
        assert_eq!(third.len(), first.len());
        let full = ipfix.message(time(200), &[all[1]; RECORDS], embed);
        assert!(full.len() <= 1280, "{}", full.len());
    }
}
