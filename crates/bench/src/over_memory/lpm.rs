//! `strait bench lpm`: measures apps/l3 with routing tables of the shape of the Internet's: inserts, lookups, and the whole router from
//! memory to memory. If libdpdk is installed, DPDK's rte_fib is measured in the same run with the same routes and keys.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::time::Instant;

use abi::manifest::Manifest;
use abi::{Bits, Entry, MatchValue};
use dataplane::Memory;
use io::lookup::{Harness, PeerRoutes, SLACK, Timing};
use io::native::{NativeProgram, Object};
use serde::Serialize;

use super::{Cost, Rows, SMALLEST, Scaled, TURNS, compiled, rates, scaled};
use crate::report::lines::{self, Lines};
use crate::routes::{Family, Route, covered, mask, routes};
use crate::traffic::Datagram;

static L3: &str = include_str!("../../../../apps/l3/l3.p4");
static HARNESS: &str = include_str!("lpm.c");

/// The number of keys of a measurement. They are far more than fit into caches.
const KEYS: usize = 1 << 20;
const NEXT_HOPS: u16 = 1000;

/// The options of `strait bench lpm`.
#[derive(Clone, Debug)]
pub struct Options {
    /// The IP versions.
    pub families: Vec<Family>,
    /// The numbers of routes.
    pub routes: Vec<usize>,
    /// The numbers of workers of the router.
    pub workers: Vec<usize>,
    /// The seed of the routes.
    pub seed: u64,
}

/// The measurements of one table.
#[derive(Debug, Serialize)]
pub struct Figures {
    family: u8,
    routes: usize,
    insert_seconds: f64,
    /// The memory of the whole process before and after the inserts.
    memory_mb: f64,
    bulk: Cost,
    dependent: Cost,
    /// The whole router from memory to memory: parser, lookups, headers and checksum.
    router: Vec<Scaled>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<Peer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer_skipped: Option<String>,
}

/// The measurements of DPDK's rte_fib or rte_fib6.
#[derive(Debug, Serialize)]
struct Peer {
    insert_seconds: f64,
    bulk: Cost,
    dependent: Cost,
    /// Strait's rate divided by DPDK's.
    bulk_ratio: f64,
    dependent_ratio: f64,
}

/// Measures each IP version and each size. Gives the figures to `each` as they come.
pub fn run(options: &Options, each: &mut dyn FnMut(&Figures)) -> anyhow::Result<Vec<Figures>> {
    let (object, manifest) = compiled("l3.p4", L3)?;
    let harness = Harness::make(&format!(
        "#define _GNU_SOURCE 1\n#define BURST 64\n{}{HARNESS}",
        emit::native_prelude()
    ))?;
    let mut all = Vec::new();
    for &family in &options.families {
        for &count in &options.routes {
            let figures = one(family, count, options, &object, &manifest, &harness)?;
            each(&figures);
            all.push(figures);
        }
    }
    Ok(all)
}

/// Draws the rates of lookups, and below them those of the router, by the number of routes.
pub fn draw(all: &[Figures], file: &Path) -> crate::Result<()> {
    let mut look_ups = Lines {
        y: "million lookups a second".to_string(),
        limit: None,
        ..rates("Longest-prefix match in bursts", "routes")
    };
    let mut router = rates("apps/l3, 64-byte packets", "routes");
    for f in all {
        let (family, routes) = (format!("IPv{}", f.family), f.routes as f64);
        look_ups.add(&family, routes, f.bulk.million_per_second);
        if let Some(peer) = &f.peer {
            look_ups.add(&format!("{family}, rte_fib"), routes, peer.bulk.million_per_second);
        }
        f.router.iter().for_each(|r| router.add(&r.named(&family), routes, r.cost.million_per_second));
    }
    lines::write_svg(&[look_ups, router], file)
}

fn one(
    family: Family,
    count: usize,
    options: &Options,
    object: &Object,
    manifest: &Manifest,
    harness: &Harness,
) -> anyhow::Result<Figures> {
    let routes = routes(family, count, NEXT_HOPS, options.seed);
    let table = if family == Family::V4 { "L3Ingress.ipv4_routes" } else { "L3Ingress.ipv6_routes" };
    let program = NativeProgram::load(object, manifest, &[])?;
    let memory = program.memory();
    let rows = Rows::of(memory, table, "L3Ingress.via")?;
    let entries: Vec<Entry> = routes.iter().map(|r| entry(&rows, family, r)).collect();
    let (before, begun) = (resident(), Instant::now());
    entries.iter().try_for_each(|entry| memory.insert(rows.table(), entry))?;
    let insert_seconds = begun.elapsed().as_secs_f64();
    let memory_mb = (resident() - before) as f64 / 1e6;
    drop(entries);

    let at = rows.table().index();
    let addresses = covered(family, &routes, KEYS, options.seed);
    let bytes: Vec<[u8; 16]> = addresses.iter().map(|a| a.to_be_bytes()).collect();
    let size = family.width() as usize / 8;
    let keys: Vec<u8> = bytes.iter().flat_map(|b| &b[..size]).chain(&[0; SLACK]).copied().collect();
    let peer = peer(harness, family, &routes)?;
    let sum = harness.sum(memory, at, &keys, size)?;
    let mut best = [Timing { nanoseconds: f64::INFINITY, ..Timing::default() }; 4];
    for _ in 0..TURNS {
        for dependent in [false, true] {
            let ours = harness.lookup(memory, at, &keys, size, dependent)?;
            keep(&mut best[usize::from(dependent)], ours);
            if peer.is_ok() {
                let theirs = harness.peer_lookup(&bytes, family == Family::V6, dependent)?;
                // The next key depends on the sum of the results, so only the lookups in bursts have the same keys.
                anyhow::ensure!(dependent || theirs.sum == sum, "rte_fib finds other routes");
                keep(&mut best[2 + usize::from(dependent)], theirs);
            }
        }
    }
    let [bulk, dependent, peer_bulk, peer_dependent] = best.map(Cost::from);
    let (peer, peer_skipped) = match peer {
        Ok(insert_seconds) => {
            harness.peer_clear()?;
            let ratio = |ours: Cost, theirs: Cost| theirs.nanoseconds / ours.nanoseconds;
            let (bulk_ratio, dependent_ratio) = (ratio(bulk, peer_bulk), ratio(dependent, peer_dependent));
            let peer = Peer {
                insert_seconds,
                bulk: peer_bulk,
                dependent: peer_dependent,
                bulk_ratio,
                dependent_ratio,
            };
            (Some(peer), None)
        }
        Err(why) => (None, Some(why)),
    };
    fill_router(memory)?;
    let width = mask(family.width());
    let packets = addresses.iter().map(|a| packet(family, *a & width)).collect();
    let router = scaled(&program, packets, &options.workers)?;
    Ok(Figures {
        family: family.version(),
        routes: count,
        insert_seconds,
        memory_mb,
        bulk,
        dependent,
        router,
        peer,
        peer_skipped,
    })
}

fn keep(best: &mut Timing, one: Timing) {
    if one.nanoseconds < best.nanoseconds {
        *best = one;
    }
}

fn entry(rows: &Rows<'_>, family: Family, route: &Route) -> Entry {
    let width = family.width();
    let value = Bits::new(width, route.bits >> (128 - width));
    rows.entry(vec![MatchValue::Lpm(value, route.length)], 0, &[(16, route.next_hop.into())])
}

/// Builds DPDK's structure with the same routes. Returns the time in seconds, or the reason why it is not available.
fn peer(harness: &Harness, family: Family, routes: &[Route]) -> anyhow::Result<Result<f64, String>> {
    if !harness.peer {
        return Ok(Err("libdpdk is not installed (apt-get install libdpdk-dev)".to_string()));
    }
    // DPDK would report this with a page about its options.
    if huge_pages_free() == 0 {
        return Ok(Err("DPDK wants huge pages (sysctl vm.nr_hugepages=2700)".to_string()));
    }
    let prefixes: Vec<[u8; 16]> = routes.iter().map(|r| r.bits.to_be_bytes()).collect();
    let lengths: Vec<u8> = routes.iter().map(|r| r.length as u8).collect();
    let values: Vec<u16> = routes.iter().map(|r| r.next_hop).collect();
    let groups = if family == Family::V6 { (routes.len() as u32 * 2).max(1_500_000) } else { 32_767 };
    let filled = harness.peer_fill(
        &PeerRoutes { prefixes: &prefixes, lengths: &lengths, values: &values },
        family == Family::V6,
        groups,
    )?;
    if filled.is_err() {
        harness.peer_clear()?;
    }
    Ok(filled.map_err(str::to_owned))
}

/// The number of free huge pages.
fn huge_pages_free() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("HugePages_Free:"));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

/// The memory in use by this process, in bytes.
fn resident() -> i64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split_whitespace().nth(1).and_then(|w| w.parse::<i64>().ok());
    pages.unwrap_or(0) * 4096
}

/// A packet to an address, as a neighbour of the router sends it.
fn packet(family: Family, to: u128) -> Vec<u8> {
    let source = match family {
        Family::V4 => Ipv4Addr::new(192, 0, 2, 1).into(),
        Family::V6 => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
    };
    let macs = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 10]];
    Datagram { macs, source, target: family.address(to), ports: [1024, 9] }.packet(SMALLEST)
}

fn fill_router(memory: &Memory) -> anyhow::Result<()> {
    Rows::of(memory, "L3Ingress.ports", "L3Ingress.network")?.add(&[(9, 0)], &[(9, 100)])?;
    Rows::of(memory, "L3Ingress.router_macs", "NoAction")?.add(&[(9, 0), (48, 0x0200_0000_0001)], &[])?;
    let next_hops = Rows::of(memory, "L3Ingress.next_hops", "L3Ingress.send")?;
    for hop in 1..=u128::from(NEXT_HOPS) {
        let args = [(9, 1 + hop % 4), (48, 0x0200_0000_0100), (48, 0x0200_0001_0000 + hop)];
        next_hops.add(&[(16, hop)], &args)?;
    }
    Ok(())
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "IPv{}, {} routes: inserted in {:.2} s, {:.1} MB",
            self.family, self.routes, self.insert_seconds, self.memory_mb
        )?;
        write!(f, "  {:<28}{}", "lookups in bursts", self.bulk)?;
        write!(f, "\n  {:<28}{}", "each after the one before", self.dependent)?;
        if let Some(peer) = &self.peer {
            write!(f, "\n{peer}")?;
        }
        if let Some(why) = &self.peer_skipped {
            write!(f, "\n  skipped: rte_fib: {why}")?;
        }
        self.router.iter().try_for_each(|router| write!(f, "\n  {:<28}{router}", "apps/l3, 64-byte packets"))
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  {:<28}{}", "rte_fib, in bursts", self.bulk)?;
        writeln!(f, "  {:<28}{}", "rte_fib, one after another", self.dependent)?;
        write!(
            f,
            "  ratio to rte_fib            {:.2} in bursts, {:.2} one after another; it took {:.2} s to insert",
            self.bulk_ratio, self.dependent_ratio, self.insert_seconds
        )
    }
}
