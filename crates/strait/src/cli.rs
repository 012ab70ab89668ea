//! The command line as BLUEPRINT section 4 fixes it: what can be said, not what is done.
//!
//! Help, completions and manual pages all come from this one description.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};

pub use crate::targets::RunTarget;

/// Compiles a P4-16 program once and runs it everywhere; NAT64 is its proof.
#[derive(Debug, Parser)]
#[command(name = "strait", version, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Say more; twice for details.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

/// What Strait does.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check a P4 program: exit 0 accepted, 1 diagnostics on stderr, 2 usage.
    Check(CheckArgs),
    /// Say what a diagnostic means, with an example.
    Explain {
        /// Its code, such as E0301; none: a list of all.
        code: Option<String>,
    },
    /// Compile a P4 program for a target.
    Build(BuildArgs),
    /// Run a P4 program on interfaces until interrupted.
    Run(RunArgs),
    /// Run packet tests (STF cases) on one or more targets.
    Test(TestArgs),
    /// Show what happens to each packet of a capture, with P4 lines.
    Trace(TraceArgs),
    /// NAT64: translate between IPv6 and IPv4.
    #[command(subcommand)]
    Nat64(Nat64Command),
    /// Make traffic: packets into a capture or out of a port, and table entries to go with them.
    Gen(Box<GenArgs>),
    /// Measure, and report as a table, JSON and SVG.
    #[command(subcommand)]
    Bench(BenchCommand),
    /// What this machine can do, and how to get the rest.
    Doctor {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show NAT64 at work: three network namespaces, real traffic, plain forwarding beside it.
    Demo(bench::DemoOptions),
    /// Print a shell's completion script.
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
    /// Write manual pages into a directory.
    Man {
        /// Where to.
        #[arg(value_hint = ValueHint::DirPath)]
        dir: PathBuf,
    },
}

/// How the front end reads a program.
#[derive(Debug, Clone, Args)]
pub struct Source {
    /// The P4-16 program.
    #[arg(value_name = "PROG.p4", value_hint = ValueHint::FilePath)]
    pub program: PathBuf,
    #[command(flatten)]
    pub preprocess: Preprocess,
}

/// Options of the preprocessor.
#[derive(Debug, Clone, Default, Args)]
pub struct Preprocess {
    /// Where includes are looked for, before Strait's own.
    #[arg(short = 'I', value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub include: Vec<PathBuf>,
    /// Define a macro.
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    pub define: Vec<String>,
    /// The architecture that the program must be written for.
    #[arg(long, value_enum)]
    pub arch: Option<Arch>,
    /// A pass over the IR that is left out, or `all`: to find out which one is wrong, or what it is worth.
    #[arg(long, value_name = "PASS")]
    pub without_pass: Vec<String>,
}

/// Architectures by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Arch {
    /// BMv2's simple_switch.
    V1model,
    /// Portable Switch Architecture.
    Psa,
    /// Portable NIC Architecture.
    Pna,
}

impl Arch {
    /// As the front end calls it.
    pub fn name(self) -> &'static str {
        match self {
            Arch::V1model => "v1model",
            Arch::Psa => "psa",
            Arch::Pna => "pna",
        }
    }
}

#[derive(Debug, Args)]
pub struct CheckArgs {
    #[command(flatten)]
    pub source: Source,
    /// Report as errors what this target cannot run; may be repeated.
    #[arg(long, value_name = "TARGET")]
    pub target: Vec<RunTarget>,
    /// Do not show a warning: its code (W0601), its name (unused) or `all`.
    #[arg(long, value_name = "WARNING", value_parser = known_warning)]
    pub allow: Vec<String>,
    /// Print diagnostics as JSON on stdout.
    #[arg(long)]
    pub json: bool,
}

/// A warning that exists.
fn known_warning(name: &str) -> Result<String, String> {
    if name == "all" || p4::explain::codes().any(|code| p4::lint::is_called(code, name)) {
        return Ok(name.to_string());
    }
    let names: Vec<&str> = p4::lint::NAMES.iter().map(|(_, name)| *name).collect();
    Err(format!("there is no such warning; names: all, {}; or a code such as W0301", names.join(", ")))
}

/// What `build` makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BuildTarget {
    /// A shared object for this machine, with its manifest beside it; its C where OUT ends in .c.
    Native,
    /// An eBPF object for tc, with its manifest beside it; its C where OUT ends in .c.
    Tc,
    /// An eBPF object for XDP (not in this release).
    Xdp,
    /// The C of the native target.
    C,
    /// P4Runtime's P4Info: text, or binary where OUT ends in .bin or .pb.
    P4info,
    /// The intermediate representation as text.
    Ir,
    /// Pictures of parsers, controls and the dependencies of tables: for Graphviz, or SVG where OUT ends in .svg.
    Dot,
}

#[derive(Debug, Args)]
pub struct BuildArgs {
    #[command(flatten)]
    pub source: Source,
    /// What to make.
    #[arg(long, value_enum)]
    pub target: BuildTarget,
    /// Where to write; text goes to stdout otherwise, objects to PROG.o or PROG.so.
    #[arg(short, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub source: Source,
    /// What runs it.
    #[arg(long, value_enum, default_value = "tc")]
    pub target: RunTarget,
    /// A port: `0=eth0` on tc; on native `0=af_packet:eth0`, `0=af_xdp:eth0[:QUEUE]`, `0=tap:NAME`, `0=tun:NAME`, `0=pcap:IN,OUT`,
    /// `0=mem:FILE`.
    #[arg(long = "port", value_name = "N=[DRIVER:]ARG", required = true)]
    pub ports: Vec<String>,
    /// Table entries: `add` and `setdefault` lines of STF.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub entries: Option<PathBuf>,
    /// Serve P4Runtime (not in this release).
    #[arg(long, value_name = "ADDR")]
    pub grpc: Option<String>,
    /// Worker threads of the native target (1), each on a processor of its own.
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// A built-in control plane of a bundled app (native): `l2[:SECONDS]`, `nat44:POOL`.
    #[arg(long, value_name = "NAME[:ARG]")]
    pub controller: Option<String>,
    /// Print messages to the control plane (digests) as they come, one JSON object a line (native).
    #[arg(long)]
    pub digests: bool,
    /// Print counters as JSON at the end.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct TestArgs {
    /// The program of all cases; a case without one uses its own base name.
    #[arg(long, value_name = "PROG.p4", value_hint = ValueHint::FilePath)]
    pub program: Option<PathBuf>,
    /// What runs them; several may be given.
    #[arg(long = "target", value_enum, default_value = "interp")]
    pub targets: Vec<RunTarget>,
    /// On tc: send the packets over veth pairs, in a network namespace of their own, instead of test runs of the program.
    #[arg(long, conflicts_with = "fuzz")]
    pub veth: bool,
    #[command(flatten)]
    pub preprocess: Preprocess,
    /// Compare the targets on that many generated and mutated packets, seeded by the cases, instead of running them.
    #[arg(long, value_name = "PACKETS")]
    pub fuzz: Option<u64>,
    /// Seed of the packet generator.
    #[arg(long, default_value_t = 1, requires = "fuzz")]
    pub seed: u64,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// The cases.
    #[arg(value_name = "CASE.stf", required = true, value_hint = ValueHint::FilePath)]
    pub cases: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub struct TraceArgs {
    #[command(flatten)]
    pub source: Source,
    /// Packets that arrive at a port.
    #[arg(long = "in", value_name = "N=FILE.pcap", required = true)]
    pub inputs: Vec<String>,
    /// Table entries: `add` and `setdefault` lines of STF.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub entries: Option<PathBuf>,
    /// Write what came in and what went out, each packet's way as its comment: Wireshark shows it.
    #[arg(long, value_name = "OUT.pcapng", value_hint = ValueHint::FilePath, conflicts_with = "json")]
    pub pcapng: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// NAT64 for operators.
#[derive(Debug, Subcommand)]
pub enum Nat64Command {
    /// Start translating, or bring what runs in line with the file.
    Up(UpArgs),
    /// Stop, and leave nothing behind.
    Down(ConfigArgs),
    /// Counters, drop reasons and mappings.
    Status(ConfigArgs),
    /// Sessions of stateful NAT64 (not in this release).
    Sessions(ConfigArgs),
    /// Bring what runs in line with the file; a bad file changes nothing.
    Reload(ConfigArgs),
    /// Check the file only.
    Check(ConfigArgs),
}

#[derive(Debug, Clone, Args)]
pub struct UpArgs {
    #[command(flatten)]
    pub of: ConfigArgs,
    /// Where packets are translated: in the kernel, or in this process behind a TUN interface, in the foreground.
    #[arg(long, value_enum, default_value = "tc")]
    pub target: Nat64Target,
    /// Worker threads of the native target (1).
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
}

/// What translates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Nat64Target {
    /// The kernel's traffic control.
    Tc,
    /// Machine code in this process; needs no privileges but those of its network namespace.
    Native,
}

#[derive(Debug, Clone, Args)]
pub struct ConfigArgs {
    /// The configuration.
    #[arg(long, default_value = "/etc/strait/nat64.toml", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct GenArgs {
    #[command(subcommand)]
    pub command: Option<GenCommand>,
    #[command(flatten)]
    pub traffic: TrafficArgs,
}

/// What else can be made.
#[derive(Debug, Subcommand)]
pub enum GenCommand {
    /// Routing tables of the Internet's shape.
    Routes(RoutesArgs),
}

#[derive(Debug, Args)]
pub struct TrafficArgs {
    /// Make packets of the headers that this program declares and its parser accepts, instead of the usual protocols'.
    #[arg(long, value_name = "PROG.p4", value_hint = ValueHint::FilePath)]
    pub program: Option<PathBuf>,
    #[command(flatten)]
    pub preprocess: Preprocess,
    /// The headers, as the parser extracts them: `ethernet/vlan/ipv6/tcp`, `ethernet/ipv4/udp/vxlan/ethernet/ipv4/udp`
    /// [default: ethernet/ipv4/udp; of a program, every way through its parser in turn].
    #[arg(long, value_name = "A/B/…")]
    pub headers: Option<String>,
    /// Packets that come through these states of the parser, in this order.
    #[arg(long, value_name = "STATE,…", conflicts_with = "headers")]
    pub reach: Option<String>,
    /// Packets that hit the entries of this table, which `--entries` gives.
    #[arg(long, value_name = "TABLE", requires = "entries", requires = "program")]
    pub hit: Option<String>,
    /// Table entries in STF that the program has while packets are tried on it.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "program")]
    pub entries: Option<PathBuf>,
    /// What a field holds: `ipv4.dst=198.51.100.0/24`, `tcp.src=1024..65535`, `udp.dst=53,123`. Flows differ in such fields; behind
    /// `uniform:`, `seq:`, `zipf:` or `zipf(S):` values change from packet to packet instead.
    #[arg(long, value_name = "FIELD=VALUES")]
    pub set: Vec<String>,
    /// Bytes of a frame with its check sequence: `64`, `64,1518`, `uniform:64..1518`, or `imix` (seven of 64, four of 594, one of 1518).
    #[arg(long, value_name = "SIZES", default_value = "64")]
    pub size: bench::traffic::Sizes,
    /// How many flows [default: as many as fields make, up to the number of packets].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub flows: Option<u64>,
    /// Which flow comes next: `seq`, `uniform`, `zipf`, `zipf(S)` [default: seq].
    #[arg(long, value_name = "ORDER")]
    pub pick: Option<String>,
    /// How many packets [default: one for each of `--flows`, or 1000].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Other random values for another number.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Write a capture (`-`: to stdout).
    #[arg(long, short, value_name = "OUT.pcap", value_hint = ValueHint::FilePath, conflicts_with = "port")]
    pub write: Option<PathBuf>,
    /// Send out of a port: `af_packet:IF`, `af_xdp:IF[:QUEUE]`, `tap:NAME`.
    #[arg(long, value_name = "DRIVER:ARG")]
    pub port: Option<io::port::Driver>,
    /// Packets a second [default: as many as the port takes].
    #[arg(long, value_name = "N", requires = "port", value_parser = rate)]
    pub rate: Option<f64>,
    /// Send the packets round and round for so long.
    #[arg(long, value_name = "SECONDS", requires = "port", value_parser = bench::drivers::seconds)]
    pub seconds: Option<f64>,
    /// Make the entry that each flow's packet hits: `TABLE ACTION(VALUES, …)`, with the next values for each.
    #[arg(long, value_name = "ENTRY", requires = "program", requires = "write_entries")]
    pub add: Option<String>,
    /// Where such entries are written, in STF (`-`: to stdout).
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "add")]
    pub write_entries: Option<PathBuf>,
    /// The port of the program where packets are taken to come in.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub in_port: u32,
    /// Print what fields there are, and what they must hold.
    #[arg(long)]
    pub list: bool,
    /// Say what was made as JSON, on stderr.
    #[arg(long)]
    pub json: bool,
}

/// Packets a second: one in a quarter of an hour at least, so that no time is too long to be counted.
fn rate(text: &str) -> Result<f64, String> {
    let value: Option<f64> = text.parse().ok();
    value
        .filter(|r| *r >= 0.001 && r.is_finite())
        .ok_or_else(|| format!("`{text}` is not a rate, 0.001 or more"))
}

/// What a table of a benchmark may hold.
fn entries(text: &str) -> Result<usize, String> {
    const MOST: usize = 4_000_000;
    let count: Option<usize> = text.parse().ok();
    count
        .filter(|n| (1..=MOST).contains(n))
        .ok_or_else(|| format!("`{text}` is not a number from 1 to {MOST}"))
}

#[derive(Debug, Args)]
pub struct RoutesArgs {
    /// How many.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = count_of_routes)]
    pub count: usize,
    /// IPv4 or IPv6.
    #[arg(long, value_name = "4|6", default_value = "4", value_parser = ["4", "6"])]
    pub family: String,
    /// To how many next hops, numbered from 1 on.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u16).range(1..))]
    pub next_hops: u16,
    /// Other routes for another number.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Entries of a program's table instead of `PREFIX/LENGTH NEXT-HOP`: `TABLE ACTION(VALUES, …)`; a next hop has the values of its number.
    #[arg(long, value_name = "ENTRY", requires = "program")]
    pub add: Option<String>,
    /// The program.
    #[arg(long, value_name = "PROG.p4", value_hint = ValueHint::FilePath)]
    pub program: Option<PathBuf>,
    #[command(flatten)]
    pub preprocess: Preprocess,
    /// Where to (`-`: to stdout).
    #[arg(short, value_name = "OUT", default_value = "-", value_hint = ValueHint::FilePath)]
    pub out: PathBuf,
}

/// As many as tables are measured with.
fn count_of_routes(text: &str) -> Result<usize, String> {
    const MOST: usize = 2_000_000;
    let count: Option<usize> = text.parse().ok();
    count
        .filter(|n| (1..=MOST).contains(n))
        .ok_or_else(|| format!("`{text}` is not a number from 1 to {MOST}"))
}

/// Benchmarks.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// NAT64 beside plain forwarding, and beside Tayga where it is installed.
    Nat64(bench::Nat64Options),
    /// Packet drivers: a program that only forwards, beside DPDK's testpmd and the kernel.
    Io(bench::IoOptions),
    /// A program as machine code beside the interpreter, in memory and on one core.
    Pipeline(PipelineArgs),
    /// A million routes: inserting them, looking up in them beside DPDK's rte_fib, and the router of apps/l3 over memory.
    Lpm(LpmArgs),
    /// Tables by match kind and number of entries, over memory.
    Tables(TablesArgs),
    /// apps/nat44 with many sessions, over memory.
    Sessions(SessionsArgs),
}

/// As many as there are processors, at most: each has one of its own.
fn workers(text: &str) -> Result<usize, String> {
    let most = io::port::processors().len();
    let count: Option<usize> = text.parse().ok();
    count
        .filter(|n| (1..=most).contains(n))
        .ok_or_else(|| format!("`{text}` is not a number from 1 to {most}, the processors"))
}

#[derive(Debug, Args)]
pub struct TablesArgs {
    /// Match kinds, with commas [default: all].
    #[arg(long, value_enum, value_name = "KIND,…", value_delimiter = ',')]
    pub kinds: Vec<crate::commands::tables::Kind>,
    /// Numbers of entries, with commas.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [100, 1000, 10_000, 100_000], value_parser = entries)]
    pub entries: Vec<usize>,
    /// Numbers of worker threads, with commas.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [1], value_parser = workers)]
    pub workers: Vec<usize>,
    /// Other entries and packets for another number.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Draw rates by the number of entries into this SVG file.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct SessionsArgs {
    /// Draw rates into this SVG file.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub svg: Option<PathBuf>,
    /// Numbers of worker threads, with commas.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [1],
value_parser = workers)]
    pub workers: Vec<usize>,
    /// Numbers of sessions, with commas.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [1000, 100_000, 1_000_000],
        value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    pub sessions: Vec<u32>,
    /// Another order of packets for another number.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct LpmArgs {
    /// Draw rates into this SVG file.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub svg: Option<PathBuf>,
    /// Numbers of worker threads, with commas.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [1],
value_parser = workers)]
    pub workers: Vec<usize>,
    /// Numbers of routes, with commas.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [1000, 10_000, 100_000, 200_000, 1_000_000], value_parser = count_of_routes)]
    pub routes: Vec<usize>,
    /// IPv4, IPv6: `4`, `6` [default: both].
    #[arg(long = "family", value_name = "4|6")]
    pub families: Option<Vec<u8>>,
    /// Other routes for another number.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct PipelineArgs {
    /// The program.
    #[arg(long, value_name = "PROG.p4", value_hint = ValueHint::FilePath)]
    pub program: PathBuf,
    #[command(flatten)]
    pub preprocess: Preprocess,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Cases that lend their packets and tables.
    #[arg(value_name = "CASE.stf", required = true, value_hint = ValueHint::FilePath)]
    pub cases: Vec<PathBuf>,
}
