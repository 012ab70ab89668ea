//! `strait gen`: generates packets, and table entries for them.

mod entries;
mod headers;
mod live;
mod routes;

use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use bench::traffic::{Plan, Template, Traffic, Values};
use dataplane::device::{Device, Entity, EntryQuery, Query};
use interp::Interpreter;
use io::pcap::Frame;
use ir::Verified;
use ir::paths::{Goal, ParserPath};
use serde::Serialize;

use crate::cli::{GenArgs, GenCommand, TrafficArgs};
use crate::frontend;
use entries::{Adding, LookedUp};

/// The default number of packets.
const COUNT: u64 = 1000;
/// The number of packets that are checked for whether they hit the entries that they were made for.
const TRIED: u64 = 1000;
/// The time between packets in a capture if no rate is given.
const APART: Duration = Duration::from_micros(1);

/// A summary of the generated packets.
#[derive(Default, Serialize)]
struct Made {
    packets: u64,
    bytes: u64,
    flows: u64,
    headers: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entries: Option<usize>,
    /// The number of checked packets, and the number of those that hit an entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    hits: Option<(u64, u64)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sent: Option<live::Sent>,
}

/// Generates packets or routes.
pub fn run(args: &GenArgs) -> anyhow::Result<()> {
    match &args.command {
        Some(GenCommand::Routes(routes)) => routes::run(routes),
        None => traffic(&args.traffic),
    }
}

fn traffic(args: &TrafficArgs) -> anyhow::Result<()> {
    let files = [&args.write, &args.write_entries];
    if args.json && files.into_iter().flatten().any(|file| file == Path::new("-")) {
        bail!("--json prints a summary on stdout, so `-` cannot be a file for anything else");
    }
    let program = match &args.program {
        Some(file) => frontend::program(file, &args.preprocess)?,
        None => headers::bundled()?,
    };
    let mut target = Interpreter::new(&program)?;
    if let Some(file) = &args.entries {
        super::run::fill(file, &mut target)?;
    }
    let goal = goal(args);
    let paths = headers::find(&program, &goal)?;
    let paths = passable(args, &program, &mut target, &goal, paths)?;
    let mut templates: Vec<Template> = paths.iter().map(|path| headers::template(&program, path)).collect();
    if let Some(table) = &args.hit {
        templates = hitting(&program, &mut target, &paths, table)?;
    }
    if args.program.is_none() {
        templates.iter_mut().for_each(headers::ordinary);
    }
    if args.list {
        print!("{}", headers::listing(&templates));
        return Ok(());
    }
    let names = names(&templates);
    let mut traffic = plan(args, templates, args.flows)?;
    let mut made = Made { headers: names, flows: traffic.flows(), ..Made::default() };
    if let Some(table) = &args.hit {
        made.hits = Some(hits(args, &mut target, table, &mut traffic)?);
    }
    if let Some(text) = &args.add {
        made.entries = Some(write_entries(args, text, &mut target, &mut traffic)?);
    }
    deliver(args, traffic, &mut made)?;
    report(args, &made)
}

fn goal(args: &TrafficArgs) -> Goal {
    let list = |text: &String, at| text.split(at).map(|s| s.trim().to_string()).collect();
    match (&args.headers, &args.reach) {
        (Some(headers), _) => Goal::Headers(list(headers, '/')),
        (None, Some(states)) => Goal::States(list(states, ',')),
        (None, None) if args.program.is_some() => Goal::All,
        (None, None) => Goal::Headers(list(&"ethernet/ipv4/udp".to_string(), '/')),
    }
}

/// Removes repeated names.
fn names(templates: &[Template]) -> Vec<String> {
    let mut all: Vec<String> = templates.iter().map(|t| t.name.clone()).collect();
    all.sort();
    all.dedup();
    all
}

fn plan(args: &TrafficArgs, templates: Vec<Template>, flows: Option<u64>) -> anyhow::Result<Traffic> {
    let mut fields = Vec::new();
    for text in &args.set {
        let (name, values) = text.split_once('=').with_context(|| format!("`{text}` is not FIELD=VALUES"))?;
        let values: Values = values.parse().with_context(|| format!("in `{text}`"))?;
        fields.push((name.trim().to_string(), values));
    }
    let pick = match &args.pick {
        None => bench::traffic::Order::Sequential,
        Some(text) => match bench::traffic::values::order(&format!("{text}:"))? {
            (order, "") if order != bench::traffic::Order::Flow => order,
            _ => bail!("`{text}`: flows are picked seq, uniform, zipf or zipf(S)"),
        },
    };
    let most = args.count.unwrap_or(COUNT).max(templates.len() as u64);
    let sizes = args.size.clone();
    let plan = Plan { templates, fields, sizes, flows, pick, seed: args.seed };
    Traffic::new(plan, most).map_err(anyhow::Error::msg)
}

/// The paths that their packets take. The first packet of each path is parsed, because a path may contain a decision that the search could
/// not follow.
fn passable(
    args: &TrafficArgs,
    program: &Verified,
    target: &mut Interpreter<'_>,
    goal: &Goal,
    paths: Vec<ParserPath>,
) -> anyhow::Result<Vec<ParserPath>> {
    let (mut good, mut wrong) = (Vec::new(), Vec::new());
    for path in paths {
        let mut template = headers::template(program, &path);
        if args.program.is_none() {
            headers::ordinary(&mut template);
        }
        let taken = plan(args, vec![template], None).and_then(|mut traffic| {
            let packet = traffic.of_flow(0);
            headers::takes(program, target, &path, args.in_port, packet)
        });
        match taken {
            Ok(()) => good.push(path),
            Err(why) => wrong.push(why),
        }
        // Several values may select the same headers. The first ones that agree with the given values of fields are used.
        if matches!(goal, Goal::Headers(_)) && !good.is_empty() {
            return Ok(good);
        }
    }
    if good.is_empty() {
        return Err(wrong.swap_remove(0));
    }
    if let Some(why) = wrong.first() {
        eprintln!("note: {} paths through the parser are left out; of the first: {why:#}", wrong.len());
    }
    Ok(good)
}

/// A template for each entry and each path on which a packet can hit it.
fn hitting(
    program: &Verified,
    target: &mut Interpreter<'_>,
    paths: &[ParserPath],
    name: &str,
) -> anyhow::Result<Vec<Template>> {
    let table = harness::stf::resolve::pick(&program.tables, name, |t| &t.name, "table");
    let table = table.map_err(anyhow::Error::msg)?;
    let keys: Vec<ir::Expr> = table.keys.iter().map(|k| k.expr.clone()).collect();
    let id = target.manifest().table_id(&table.name);
    let entries = target.read(&Query::Entries(EntryQuery { table: id, ..EntryQuery::default() }))?;
    ensure!(!entries.is_empty(), "{} has no entries; give some with --entries", table.name.shown());
    let mut all = Vec::new();
    for entity in &entries {
        let Entity::Entry(entry) = entity else { continue };
        all.extend(
            paths.iter().filter_map(|path| headers::hitting(program, path, &keys, &entry.key.matches)),
        );
    }
    ensure!(!all.is_empty(), "no packet on these paths can hit an entry of {}", table.name.shown());
    Ok(all)
}

/// The number of packets that hit an entry, and the number of packets that were checked.
fn hits(
    args: &TrafficArgs,
    target: &mut Interpreter<'_>,
    table: &str,
    traffic: &mut Traffic,
) -> anyhow::Result<(u64, u64)> {
    let name = harness::stf::resolve::pick(&target.manifest().tables, table, |t| &t.name, "table");
    let name = name.map_err(anyhow::Error::msg)?.name.clone();
    let tried = traffic.flows().min(TRIED);
    let mut hits = 0;
    for flow in 0..tried {
        let mut looked = LookedUp::of(&name);
        target.process(args.in_port, traffic.of_flow(flow), &mut looked);
        hits += u64::from(looked.found.is_some_and(|(_, hit)| hit));
    }
    ensure!(
        hits > 0,
        "no packet hits an entry of {name}: its key is not made of bits of the packet alone, or the program does not get there \
         (`strait trace` shows where it goes)"
    );
    Ok((hits, tried))
}

/// Runs the packet of each flow to find the key that it looks up, and writes the entry that it would hit.
fn write_entries(
    args: &TrafficArgs,
    text: &str,
    target: &mut Interpreter<'_>,
    traffic: &mut Traffic,
) -> anyhow::Result<usize> {
    let manifest = target.manifest().clone();
    let mut adding = Adding::parse(text, &manifest)?;
    let table = adding.table().to_string();
    let file = args.write_entries.as_ref().context("--add needs --write-entries FILE")?;
    let mut out = create(file)?;
    for flow in 0..traffic.flows() {
        let mut looked = LookedUp::of(&table);
        target.process(args.in_port, traffic.of_flow(flow), &mut looked);
        let Some((keys, _)) = looked.found else {
            bail!("the packet of flow {flow} does not get to {table} (`strait trace` shows where it goes)");
        };
        if let Some(line) = adding.line(keys, flow)? {
            writeln!(out, "{line}").with_context(|| format!("cannot write {}", file.display()))?;
        }
    }
    out.flush().with_context(|| format!("cannot write {}", file.display()))?;
    Ok(adding.count())
}

fn create(file: &Path) -> anyhow::Result<Box<dyn Write>> {
    if file == Path::new("-") {
        return Ok(Box::new(BufWriter::new(crate::out::Stdout)));
    }
    let out = std::fs::File::create(file).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(Box::new(BufWriter::new(out)))
}

/// Writes packets to a file, or sends them.
fn deliver(args: &TrafficArgs, mut traffic: Traffic, made: &mut Made) -> anyhow::Result<()> {
    let asked = args.flows.map(|flows| flows.max(1));
    made.packets = args.count.or(asked).unwrap_or_else(|| COUNT.max(traffic.flows()));
    if let Some(file) = &args.write {
        let out = create(file)?;
        let mut writer = io::pcap::writer(out)?;
        let mut time = Duration::ZERO;
        for _ in 0..made.packets {
            let data = traffic.next_packet().to_vec();
            made.bytes += data.len() as u64;
            io::pcap::append(&mut writer, &Frame { time, data })?;
            time += APART;
        }
        io::pcap::finish(writer)?;
    } else if let Some(driver) = &args.port {
        let packets: Vec<Vec<u8>> = (0..made.packets).map(|_| traffic.next_packet().to_vec()).collect();
        made.bytes = packets.iter().map(|p| p.len() as u64).sum();
        made.sent = Some(live::send(args, driver, &packets)?);
    } else if args.add.is_none() {
        bail!("where to? --write FILE.pcap, --port DRIVER:ARG, or --add with --write-entries FILE");
    }
    Ok(())
}

fn report(args: &TrafficArgs, made: &Made) -> anyhow::Result<()> {
    if args.json {
        println!("{}", serde_json::to_string_pretty(made)?);
        return Ok(());
    }
    if args.write.is_some() || args.port.is_some() {
        eprintln!(
            "{} packets of {} flows, {} bytes: {}",
            made.packets,
            made.flows,
            made.bytes,
            few(&made.headers)
        );
    }
    if let Some((hits, tried)) = made.hits {
        eprintln!("{hits} of {tried} packets that were tried hit an entry");
    }
    if let Some(entries) = made.entries {
        eprintln!("{entries} entries");
    }
    if let Some(sent) = &made.sent {
        eprintln!("{sent}");
    }
    Ok(())
}

fn few(names: &[String]) -> String {
    const FEW: usize = 4;
    let more = names.len().saturating_sub(FEW);
    let first = names.iter().take(FEW).cloned().collect::<Vec<_>>().join(", ");
    if more == 0 { first } else { format!("{first} and {more} more") }
}
