//! `strait bench sessions --app nat44`: measures apps/nat44 with many sessions. UDP packets of 64 bytes go from inside to outside, from memory to
//! memory on one core.

use std::fmt;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Instant;

use abi::{Bits, MatchValue};
use harness::rng::Rng;
use io::native::NativeProgram;
use serde::Serialize;

use super::sessions::Options;
use super::{Rows, SMALLEST, Scaled, compiled, rates, scaled};
use crate::report::lines;
use crate::traffic::Datagram;

static NAT44: &str = include_str!("../../../../apps/nat44/nat44.p4");

/// 10.0.0.0, the inside network. It has addresses for millions of hosts; the packets never leave this process.
const INSIDE: u128 = 0x0a00_0000;
/// The addresses 203.0.113.1 and 198.51.100.2.
const OUTSIDE: u128 = 0xcb00_7101;
const SERVER: u32 = 0xc633_6402;
const UDP: u128 = 17;

/// What was measured with a number of sessions.
#[derive(Debug, Serialize)]
pub struct Figures {
    sessions: u32,
    insert_seconds: f64,
    packet: Vec<Scaled>,
    /// The number of cycles divided by that of the first number of sessions.
    ratio: f64,
}

/// Measures each number of sessions. Gives the figures to `each` as they come.
pub fn run(options: &Options, each: &mut dyn FnMut(&Figures)) -> anyhow::Result<Vec<Figures>> {
    let (object, manifest) = compiled("nat44.p4", NAT44)?;
    let mut all: Vec<Figures> = Vec::new();
    for &sessions in &options.sessions {
        anyhow::ensure!(
            sessions <= 1 << 20,
            "--sessions: the tables of apps/nat44 have room for {}",
            1 << 20
        );
        let program = NativeProgram::load(&object, &manifest, &[])?;
        let begun = Instant::now();
        fill(&program, sessions)?;
        let insert_seconds = begun.elapsed().as_secs_f64();
        let mut rng = Rng::new(options.seed);
        let packets = (0..1 << 20).map(|_| packet(rng.below(sessions.into()) as u32)).collect();
        let packet = scaled(&program, packets, &options.workers)?;
        let ratio =
            all.first().map_or(1.0, |first| packet[0].cost.nanoseconds / first.packet[0].cost.nanoseconds);
        let figures = Figures { sessions, insert_seconds, packet, ratio };
        each(&figures);
        all.push(figures);
    }
    Ok(all)
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = format!("{:>9} sessions, inserted in {:.2} s", self.sessions, self.insert_seconds);
        write!(f, "{line} {}  {:.2} times the first", self.packet[0], self.ratio)?;
        self.packet[1..].iter().try_for_each(|more| write!(f, "\n{:width$} {more}", "", width = line.len()))
    }
}

/// Draws the rates by the number of sessions.
pub fn draw(all: &[Figures], file: &Path) -> crate::Result<()> {
    let mut picture = rates("apps/nat44, 64-byte packets", "sessions");
    for f in all {
        let rate = |p: &Scaled| (p.named("nat44"), p.cost.million_per_second);
        f.packet.iter().map(rate).for_each(|(name, y)| picture.add(&name, f.sessions.into(), y));
    }
    lines::write_svg(&[picture], file)
}

/// The inside address and port of a session. A host has sixteen sessions.
fn inside(session: u32) -> (u128, u128) {
    (INSIDE + u128::from(session / 16), 4000 + u128::from(session % 16))
}

fn fill(program: &NativeProgram, sessions: u32) -> anyhow::Result<()> {
    let rows = |table: &str, action: &str| {
        Rows::of(program.memory(), &format!("Nat44Ingress.{table}"), &format!("Nat44Ingress.{action}"))
    };
    let mac = |last: u128| (48, 0x0200_0000_0000 + last);
    rows("interfaces", "interface")?.add(&[(9, 0)], &[(1, 0), mac(1)])?;
    let routes = rows("routes", "connected")?;
    let all = vec![MatchValue::Lpm(Bits::zero(32), 0)];
    let route = routes.entry(all, 0, &[(9, 1), (1, 1), mac(0x101), (32, OUTSIDE)]);
    program.memory().insert(routes.table(), &route)?;
    rows("neighbours", "send")?.add(&[(9, 1), (32, SERVER.into())], &[mac(0x10b)])?;
    let (up, down) = (rows("sessions_up", "napt_src")?, rows("sessions_down", "napt_dst")?);
    for session in 0..sessions {
        let (ip, port) = inside(session);
        let outside = [(32, OUTSIDE + u128::from(session >> 16)), (16, u128::from(session & 0xffff))];
        up.add(&[(32, ip), (8, UDP), (16, port)], &outside)?;
        down.add(&[outside[0], (8, UDP), outside[1]], &[(32, ip), (16, port)])?;
    }
    Ok(())
}

/// The packet of a session.
fn packet(session: u32) -> Vec<u8> {
    let (ip, port) = inside(session);
    let macs = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 10]];
    let (source, target) = (Ipv4Addr::from(ip as u32).into(), Ipv4Addr::from(SERVER).into());
    Datagram { macs, source, target, ports: [port as u16, 53] }.packet(SMALLEST)
}
