//! Makes templates of packets from the paths through a program's parser.

use abi::{Bits, MatchValue};
use anyhow::{Context, bail};
use bench::traffic::{Field, Template, template, values};
use interp::{Event, Interpreter, Observer};
use ir::paths::{Asked, Goal, ParserPath, paths};
use ir::{Expr, Loc, Program, Verified};

/// The largest number of paths for which packets are made, if there is no goal.
const MOST: usize = 1000;

/// The default values of the fields of the bundled headers: addresses for documentation, and ports without a service.
const ORDINARY: &[(&str, &str)] = &[
    ("ethernet.dst", "02:00:00:00:00:01"),
    ("ethernet.src", "02:00:00:00:00:0a"),
    ("vlan[0].id", "1"),
    ("vlan[1].id", "2"),
    ("arp.hardware", "1"),
    ("arp.protocol", "0x0800"),
    ("arp.hardware_length", "6"),
    ("arp.protocol_length", "4"),
    ("arp.operation", "1"),
    ("arp.sender_mac", "02:00:00:00:00:0a"),
    ("arp.sender_ip", "192.0.2.1"),
    ("arp.target_ip", "192.0.2.2"),
    ("ipv4.src", "192.0.2.1"),
    ("ipv4.dst", "198.51.100.1"),
    ("ipv6.src", "2001:db8::1"),
    ("ipv6.dst", "2001:db8:1::1"),
    ("icmp.type", "8"),
    ("icmpv6.type", "128"),
    ("tcp.src", "49152"),
    ("tcp.dst", "9"),
    ("tcp.flags", "0x10"),
    ("tcp.window", "65535"),
    ("udp.src", "49152"),
    ("udp.dst", "9"),
    ("vxlan.vni", "1"),
    ("inner_ethernet.dst", "02:00:00:00:01:01"),
    ("inner_ethernet.src", "02:00:00:00:01:0a"),
    ("inner_ipv4.src", "203.0.113.1"),
    ("inner_ipv4.dst", "203.0.113.129"),
    ("inner_ipv6.src", "2001:db8:2::1"),
    ("inner_ipv6.dst", "2001:db8:3::1"),
    ("inner_icmp.type", "8"),
    ("inner_icmpv6.type", "128"),
    ("inner_tcp.src", "49152"),
    ("inner_tcp.dst", "9"),
    ("inner_tcp.flags", "0x10"),
    ("inner_tcp.window", "65535"),
    ("inner_udp.src", "49152"),
    ("inner_udp.dst", "9"),
];

/// The paths to `accept` for a goal.
pub fn find(program: &Program, goal: &Goal) -> anyhow::Result<Vec<ParserPath>> {
    let found = paths(program, goal, MOST);
    if !found.is_empty() {
        return Ok(found);
    }
    match goal {
        Goal::All => bail!("no packet gets through the parser"),
        Goal::Headers(names) => {
            let known = names_of(program.headers.iter().map(|h| h.name.as_str()));
            bail!("no packet of this parser has the headers {}; it knows {known}", names.join("/"))
        }
        Goal::States(names) => {
            let states = program.parsers.iter().flat_map(|p| &p.states);
            let known = names_of(states.map(|s| s.name.as_str()));
            bail!("no packet comes through the states {}; there are {known}", names.join(", "))
        }
    }
}

fn names_of<'a>(all: impl Iterator<Item = &'a str>) -> String {
    all.map(short).collect::<Vec<_>>().join(", ")
}

/// The last part of the name of a header or state.
fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// The template of the packets of a path.
pub fn template(program: &Program, path: &ParserPath) -> Template {
    let mut fields = Vec::new();
    for (id, begin) in &path.headers {
        let (header, mut at) = (program.header(*id), *begin);
        for field in &program.header_type(*id).fields {
            let width = if field.ty.is_varbit() { 0 } else { field.ty.width() };
            if (1..=128).contains(&width) {
                fields.push(Field {
                    name: format!("{}.{}", header.name.shown(), field.name.shown()),
                    at,
                    width,
                });
            }
            at += width;
        }
    }
    let size = path.known.bits().len().div_ceil(8);
    let (mut bytes, mut fixed) = (vec![0; size], vec![0; size]);
    for (at, bit) in path.known.bits().iter().enumerate() {
        if let Some(bit) = bit {
            template::write(&mut bytes, at as u32, 1, (*bit).into());
            template::write(&mut fixed, at as u32, 1, 1);
        }
    }
    let name =
        path.headers.iter().map(|(id, _)| short(&program.header(*id).name)).collect::<Vec<_>>().join("/");
    Template { name, fields: fields.into(), bytes, fixed }
}

/// Sets the fields of the bundled headers to their default values.
pub fn ordinary(template: &mut Template) {
    for (name, value) in ORDINARY {
        let Ok(field) = template.field(&format!("hdr.{name}")).cloned() else { continue };
        let value = values::number(value).unwrap_or_default();
        let (mask, fixed) = template.fixed_bits(&field);
        template::write(&mut template.bytes, field.at, field.width, value & !mask | fixed);
    }
}

/// The template of the packets of a path that match an entry with these values; `None` if no packet of the path can match.
pub fn hitting(
    program: &Program,
    path: &ParserPath,
    keys: &[Expr],
    entry: &[MatchValue],
) -> Option<Template> {
    let mut path = path.clone();
    for (key, wanted) in keys.iter().zip(entry) {
        let symbols = path.known.eval(program, key);
        let width = symbols.len() as u32;
        let (value, mask) = match wanted {
            MatchValue::Exact(value) | MatchValue::Optional(Some(value)) => {
                (value.clone(), Bits::ones(width))
            }
            MatchValue::Lpm(value, length) => (value.clone(), Bits::prefix_mask(width, *length)),
            MatchValue::Ternary(value, mask) => (value.clone(), mask.clone()),
            MatchValue::Range(low, _) => (low.clone(), Bits::ones(width)),
            MatchValue::Optional(None) => continue,
        };
        if path.ask(&symbols, &value, &mask) == Asked::Impossible {
            return None;
        }
    }
    Some(template(program, &path))
}

/// Records which headers a packet has.
#[derive(Default)]
struct Headers(Vec<String>);

impl Observer for Headers {
    fn event(&mut self, event: Event<'_>) {
        if let Event::Extracted { header, .. } = event {
            self.0.push(header.to_string());
        }
    }
}

/// Checks whether a packet takes the path that it was made for. Returns the reason if it does not.
pub fn takes(
    program: &Verified,
    interpreter: &mut Interpreter<'_>,
    path: &ParserPath,
    port: u32,
    packet: &[u8],
) -> anyhow::Result<()> {
    let mut headers = Headers::default();
    interpreter.process(port, packet, &mut headers);
    let wanted: Vec<&str> = path.headers.iter().map(|(id, _)| program.header(*id).name.as_str()).collect();
    // A resubmitted or recirculated packet is parsed again. Only the first parse counts.
    headers.0.truncate(wanted.len());
    if headers.0 == wanted {
        return Ok(());
    }
    let place = |loc: Loc| program.place(loc).unwrap_or_default();
    let why = path.unsure.map_or_else(
        || "the value of a field selects another path".to_string(),
        |loc| format!("{} depends on more than bits of the packet", place(loc)),
    );
    bail!(
        "a packet of {} is parsed as {}: {why}",
        names_of(wanted.into_iter()),
        names_of(headers.0.iter().map(String::as_str))
    )
}

/// The program whose headers are used if no program is given.
pub fn bundled() -> anyhow::Result<Verified> {
    let (mut map, mut diags) = (p4::SourceMap::default(), p4::Diagnostics::default());
    let text = include_str!("protocols.p4");
    let program = p4::compile(&mut map, "protocols.p4", text, &[], &p4::Embedded, &mut diags);
    program.context("the bundled protocols.p4 is not accepted")
}

/// The names of fields. A field occurs once for each path that has it.
pub fn listing(templates: &[Template]) -> String {
    let mut text = String::new();
    for template in templates {
        text += &format!("{}\n", template.name);
        for field in template.fields.iter() {
            let (mask, value) = template.fixed_bits(field);
            let all = if field.width == 128 { u128::MAX } else { (1 << field.width) - 1 };
            let must = match mask {
                0 => String::new(),
                mask if mask == all => format!(" = {value:#x}"),
                mask => format!(" = {value:#x} under {mask:#x}"),
            };
            text += &format!("    {:<40} {:>3} bits{must}\n", field.name, field.width);
        }
    }
    text
}
