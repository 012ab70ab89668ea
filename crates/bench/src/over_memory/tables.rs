//! `strait bench tables`: measures lookups by match kind and number of entries, as part of a small program from memory to memory. The
//! entries are random, with the properties of access lists: prefixes of usual lengths, and ports that are any value, one value or a range.

use std::fmt;
use std::path::Path;
use std::time::Instant;

use abi::{Bits, Entry, MatchValue};
use harness::rng::Rng;
use io::native::NativeProgram;
use serde::Serialize;

use super::{Rows, Scaled, compiled, rates, scaled};
use crate::report::lines;

/// The number of different packets.
const PACKETS: usize = 1 << 18;
/// The layout of this program's packets: the five fields, room for the result, and zeros.
const BYTES: usize = 60;

/// The options of `strait bench tables`.
#[derive(Clone, Debug)]
pub struct Options {
    /// The match kinds; none for all.
    pub kinds: Vec<Kind>,
    /// The numbers of entries.
    pub entries: Vec<usize>,
    /// The numbers of workers.
    pub workers: Vec<usize>,
    /// The seed of entries and packets.
    pub seed: u64,
}

/// The key of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// All five fields are exact.
    Exact,
    /// The destination is a longest prefix.
    Lpm,
    /// Both addresses are prefixes. Ports and protocol are one value or any.
    Ternary,
    /// The same as the ternary kind, with ranges of ports.
    Range,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Exact, Kind::Lpm, Kind::Ternary, Kind::Range];

    fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// The match kinds of the five fields; `None` for those that are not in the key.
    fn of_fields(self) -> [Option<&'static str>; 5] {
        match self {
            Kind::Exact => [Some("exact"); 5],
            Kind::Lpm => [None, Some("lpm"), None, None, None],
            Kind::Ternary => [Some("ternary"); 5],
            Kind::Range => [Some("ternary"), Some("ternary"), Some("range"), Some("range"), Some("ternary")],
        }
    }
}

/// The names and widths of the five fields.
const FIELDS: [(&str, u32); 5] = [("src", 32), ("dst", 32), ("sport", 16), ("dport", 16), ("protocol", 8)];

/// What was measured with a match kind and a number of entries.
#[derive(Debug, Serialize)]
pub struct Figures {
    kind: Kind,
    entries: usize,
    /// The number of entries that were asked for. Equal rules are one entry.
    #[serde(skip)]
    asked: usize,
    insert_seconds: f64,
    packet: Vec<Scaled>,
    /// The share of packets that hit an entry.
    hits: f64,
}

/// Measures each kind and each number of entries. Gives the figures to `each` as they come.
pub fn run(options: &Options, each: &mut dyn FnMut(&Figures)) -> anyhow::Result<Vec<Figures>> {
    let kinds = if options.kinds.is_empty() { Kind::ALL.to_vec() } else { options.kinds.clone() };
    let mut all = Vec::new();
    for kind in kinds {
        for &entries in &options.entries {
            let figures = one(kind, entries, options)?;
            each(&figures);
            all.push(figures);
        }
    }
    Ok(all)
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, asked, hits) = (self.kind.name(), self.asked, self.hits * 100.0);
        for (number, packet) in self.packet.iter().enumerate() {
            let between = if number > 0 { "\n" } else { "" };
            let seconds = self.insert_seconds;
            write!(
                f,
                "{between}{name:<8} {asked:>8} entries, inserted in {seconds:>6.2} s {packet}  {hits:.0} % hit"
            )?;
        }
        Ok(())
    }
}

fn one(kind: Kind, count: usize, options: &Options) -> anyhow::Result<Figures> {
    let (object, manifest) = compiled("tables.p4", &program(kind, count))?;
    let program = NativeProgram::load(&object, &manifest, &[])?;
    let mut rng = Rng::new(options.seed);
    let rules: Vec<Rule> = (0..count).map(|_| Rule::draw(&mut rng)).collect();
    let rows = Rows::of(program.memory(), "I.rules", "I.rule")?;
    let begun = Instant::now();
    let mut twice = 0;
    for (number, rule) in rules.iter().enumerate() {
        match program.memory().insert(rows.table(), &rule.entry(&rows, kind, number)) {
            // Two rules may be equal if only some of their fields are in the key.
            Err(dataplane::TableError::Exists(_)) => twice += 1,
            done => done?,
        }
    }
    let insert_seconds = begun.elapsed().as_secs_f64();
    let packets: Vec<Vec<u8>> =
        (0..PACKETS).map(|_| rules[rng.index(count)].packet(kind, &mut rng)).collect();
    let hits = hits(&program, &packets);
    let packet = scaled(&program, packets.into_iter().collect(), &options.workers)?;
    Ok(Figures { kind, entries: count - twice, asked: count, insert_seconds, packet, hits })
}

/// The share of packets that hit an entry.
fn hits(program: &NativeProgram, packets: &[Vec<u8>]) -> f64 {
    let mut worker = program.memory().worker();
    let mut batch = io::native::Batch::new(64, 128, 0);
    let mut hits = 0usize;
    for burst in packets.chunks(64) {
        batch.clear();
        for packet in burst {
            batch.push(0, packet);
        }
        program.run(&mut worker, &mut batch);
        hits += batch.packets().filter(|(_, bytes)| bytes[13..17] != [0; 4]).count();
    }
    hits as f64 / packets.len() as f64
}

/// The text of a program that writes the number of the entry into the packet.
fn program(kind: Kind, size: usize) -> String {
    let fields: String = FIELDS.iter().map(|(name, width)| format!("bit<{width}> {name}; ")).collect();
    let kinds = FIELDS.iter().zip(kind.of_fields());
    let keys: String =
        kinds.filter_map(|((name, _), kind)| kind.map(|kind| format!("hdr.h.{name}: {kind}; "))).collect();
    format!(
        "#include <core.p4>
#include <v1model.p4>
header h_t {{ {fields}bit<32> found; }}
struct headers {{ h_t h; }}
struct metadata {{ }}
parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t s) {{
    state start {{ b.extract(hdr.h); transition accept; }}
}}
control V(inout headers hdr, inout metadata m) {{ apply {{ }} }}
control I(inout headers hdr, inout metadata m, inout standard_metadata_t s) {{
    action rule(bit<32> number) {{ hdr.h.found = number; }}
    table rules {{ key = {{ {keys}}} actions = {{ rule; NoAction; }} default_action = NoAction(); size = {size}; }}
    apply {{ s.egress_spec = 1; rules.apply(); }}
}}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t s) {{ apply {{ }} }}
control C(inout headers hdr, inout metadata m) {{ apply {{ }} }}
control D(packet_out b, in headers hdr) {{ apply {{ b.emit(hdr.h); }} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;
"
    )
}

/// A rule of an access list.
struct Rule {
    /// The addresses, each with its prefix length.
    addresses: [(u32, u32); 2],
    /// The lowest and highest value of each port.
    ports: [(u16, u16); 2],
    /// The protocol; `None` for any.
    protocol: Option<u8>,
}

impl Rule {
    /// Makes a random rule. The shares of lengths, ports and protocols are those of published filter sets (Taylor and Turner, ClassBench,
    /// 2007): a third of the prefixes are hosts, and half of the ports are any value.
    fn draw(rng: &mut Rng) -> Rule {
        const LENGTHS: [u32; 16] = [32, 32, 32, 32, 32, 24, 24, 24, 28, 27, 26, 23, 22, 16, 8, 0];
        let address = |rng: &mut Rng| {
            let length = LENGTHS[rng.index(LENGTHS.len())];
            let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
            (rng.next_u64() as u32 & mask, length)
        };
        let port = |rng: &mut Rng| match rng.below(20) {
            0..10 => (0, u16::MAX),
            10..17 => {
                let port = [80, 443, 53, 22, 25, 123, 8080, rng.next_u64() as u16][rng.index(8)];
                (port, port)
            }
            17 => (1024, u16::MAX),
            18 => (0, 1023),
            _ => {
                let low = rng.below(60_000) as u16;
                (low, low + rng.below(5000) as u16)
            }
        };
        let addresses = [address(rng), address(rng)];
        let ports = [port(rng), port(rng)];
        let protocol = [Some(6), Some(6), Some(17), None][rng.index(4)];
        Rule { addresses, ports, protocol }
    }

    fn entry(&self, rows: &Rows<'_>, kind: Kind, number: usize) -> Entry {
        let [src, dst] = self.addresses;
        let address = |(value, length): (u32, u32), of: &str| match of {
            "exact" => MatchValue::Exact(Bits::new(32, value.into())),
            "lpm" => MatchValue::Lpm(Bits::new(32, value.into()), length),
            _ => MatchValue::Ternary(Bits::new(32, value.into()), Bits::prefix_mask(32, length)),
        };
        let port = |(low, high): (u16, u16), of: &str| {
            let [low, high] = [low, high].map(|port| Bits::new(16, port.into()));
            match of {
                "exact" => MatchValue::Exact(low),
                "range" => MatchValue::Range(low, high),
                _ if low == high => MatchValue::Ternary(low, Bits::ones(16)),
                _ => MatchValue::Ternary(Bits::zero(16), Bits::zero(16)),
            }
        };
        let protocol = |of: &str| match (of, self.protocol) {
            ("exact", protocol) => MatchValue::Exact(Bits::new(8, protocol.unwrap_or(6).into())),
            (_, Some(protocol)) => MatchValue::Ternary(Bits::new(8, protocol.into()), Bits::ones(8)),
            (_, None) => MatchValue::Ternary(Bits::zero(8), Bits::zero(8)),
        };
        let matches = kind.of_fields().into_iter().enumerate().filter_map(|(field, of)| {
            of.map(|of| match field {
                0 => address(src, of),
                1 => address(dst, of),
                2 | 3 => port(self.ports[field - 2], of),
                _ => protocol(of),
            })
        });
        let ranked = matches!(kind, Kind::Ternary | Kind::Range);
        // The first rule of a list wins.
        let priority = if ranked { i32::MAX - number as i32 } else { 0 };
        rows.entry(matches.collect(), priority, &[(32, number as u128 + 1)])
    }

    /// A packet that matches the rule. Bits that the rule does not match are random in half of the packets, and 0 in the others, because an
    /// exact table matches these bits too.
    fn packet(&self, kind: Kind, rng: &mut Rng) -> Vec<u8> {
        let lowest = |rng: &mut Rng| kind == Kind::Exact || rng.below(2) == 0;
        let mut bytes = Vec::with_capacity(BYTES);
        for (value, length) in self.addresses {
            let rest = u32::MAX.checked_shr(length).unwrap_or(0);
            let fill = if lowest(rng) { 0 } else { rng.next_u64() as u32 & rest };
            bytes.extend((value | fill).to_be_bytes());
        }
        for (low, high) in self.ports {
            let span = u64::from(high - low) + 1;
            let more = if lowest(rng) { 0 } else { rng.below(span) as u16 };
            bytes.extend((low + more).to_be_bytes());
        }
        bytes.push(self.protocol.unwrap_or(6));
        bytes.resize(BYTES, 0);
        bytes
    }
}

/// Draws the rates by the number of entries.
pub fn draw(all: &[Figures], file: &Path) -> crate::Result<()> {
    let mut picture = rates("Packets through one table", "entries");
    for figures in all {
        let kind = figures.kind.name();
        for packet in &figures.packet {
            picture.add(&packet.named(&kind), figures.entries as f64, packet.cost.million_per_second);
        }
    }
    lines::write_svg(&[picture], file)
}
