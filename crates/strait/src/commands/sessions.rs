//! `strait bench sessions`: apps/nat44 with many sessions, 64-byte UDP packets from inside to outside, from memory to memory on one core.

use std::time::Instant;

use bench::dice::Dice;
use io::native::NativeProgram;
use serde::Serialize;

use super::over_memory::{Cost, SMALLEST, bundled, carry, exact};
use crate::cli::SessionsArgs;

static NAT44: &str = include_str!("../../../../apps/nat44/nat44.p4");

/// 10.0.0.0: inside there is room for millions of hosts; the packets never leave this process.
const INSIDE: u128 = 0x0a00_0000;
/// 203.0.113.1 and 198.51.100.2.
const OUTSIDE: u128 = 0xcb00_7101;
const SERVER: u32 = 0xc633_6402;
const UDP: u128 = 17;

#[derive(Serialize)]
struct Figures {
    sessions: u32,
    insert_seconds: f64,
    packet: Cost,
    /// Times the first number's cycles.
    ratio: f64,
}

/// Measures each number of sessions.
pub fn run(args: &SessionsArgs) -> anyhow::Result<()> {
    let (object, manifest) = bundled("nat44.p4", NAT44)?;
    let mut all: Vec<Figures> = Vec::new();
    for &sessions in &args.sessions {
        let program = NativeProgram::load(object.path(), &manifest, &[])?;
        let begun = Instant::now();
        fill(&program, sessions)?;
        let insert_seconds = begun.elapsed().as_secs_f64();
        let mut dice = Dice::new(args.seed);
        let packets = (0..1 << 20).map(|_| packet(dice.below(sessions.into()) as u32)).collect();
        let packet = carry(&program, packets)?;
        let ratio = all.first().map_or(1.0, |first| packet.nanoseconds / first.packet.nanoseconds);
        let figures = Figures { sessions, insert_seconds, packet, ratio };
        if !args.json {
            println!(
                "{sessions:>9} sessions, inserted in {insert_seconds:.2} s {packet}  {ratio:.2} times the first"
            );
        }
        all.push(figures);
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&all)?);
    }
    Ok(())
}

/// A session's inside address and port: sixteen sessions to a host.
fn inside(session: u32) -> (u128, u128) {
    (INSIDE + u128::from(session / 16), 4000 + u128::from(session % 16))
}

fn fill(program: &NativeProgram, sessions: u32) -> anyhow::Result<()> {
    let memory = program.memory();
    let mac = |last: u128| (48, 0x0200_0000_0000 + last);
    memory
        .upsert("Nat44Ingress.interfaces", &exact(&[(9, 0)], "Nat44Ingress.interface", &[(1, 0), mac(1)]))?;
    let all = abi::MatchValue::Lpm(abi::Bits::zero(32), 0);
    let connected = [(9, 1), (1, 1), mac(0x101), (32, OUTSIDE)];
    let route = abi::Entry { matches: vec![all], ..exact(&[], "Nat44Ingress.connected", &connected) };
    memory.upsert("Nat44Ingress.routes", &route)?;
    let server = exact(&[(9, 1), (32, SERVER.into())], "Nat44Ingress.send", &[mac(0x10b)]);
    memory.upsert("Nat44Ingress.neighbours", &server)?;
    for session in 0..sessions {
        let (ip, port) = inside(session);
        let outside = [(32, OUTSIDE + u128::from(session >> 16)), (16, u128::from(session & 0xffff))];
        let up = exact(&[(32, ip), (8, UDP), (16, port)], "Nat44Ingress.napt_src", &outside);
        memory.insert("Nat44Ingress.sessions_up", &up)?;
        let keys = [outside[0], (8, UDP), outside[1]];
        memory.insert(
            "Nat44Ingress.sessions_down",
            &exact(&keys, "Nat44Ingress.napt_dst", &[(32, ip), (16, port)]),
        )?;
    }
    Ok(())
}

/// The packet of a session.
fn packet(session: u32) -> Vec<u8> {
    let (ip, port) = inside(session);
    let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 10, 0x08, 0x00];
    bytes.extend([0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17, 0, 0]);
    bytes.extend((ip as u32).to_be_bytes());
    bytes.extend(SERVER.to_be_bytes());
    let sum = dataplane::checksum::csum16(&bytes[14..34]);
    bytes[24..26].copy_from_slice(&sum.to_be_bytes());
    bytes.extend((port as u16).to_be_bytes());
    bytes.extend([0, 53, 0, 26, 0, 0]);
    bytes.resize(SMALLEST, 0);
    // The sum over the pseudo-header and the datagram (RFC 768).
    let mut summed = bytes[26..34].to_vec();
    summed.extend([0, 17, 0, 26]);
    summed.extend(&bytes[34..]);
    let sum = dataplane::checksum::csum16(&summed);
    bytes[40..42].copy_from_slice(&(if sum == 0 { 0xffff } else { sum }).to_be_bytes());
    bytes
}
