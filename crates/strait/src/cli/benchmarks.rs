//! The arguments of `strait bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

use super::{Preprocess, count_of_routes};

/// The benchmarks of `strait bench`.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// NAT64, beside plain forwarding and, if it is installed, Tayga.
    Nat64(bench::Nat64Options),
    /// Packet drivers with a program that only forwards, beside DPDK's testpmd and the kernel.
    Io(bench::IoOptions),
    /// Apps on XDP, beside a hand-written XDP program that only redirects: small packets over veth.
    Xdp(bench::XdpOptions),
    /// A program of yours on tc and xdp, beside another implementation of it: small packets over veth.
    Beside(bench::BesideOptions),
    /// A program as machine code, beside the interpreter, in memory on one core.
    Pipeline(PipelineArgs),
    /// A million routes: inserts, lookups beside DPDK's rte_fib, and the router of apps/l3 from memory to memory.
    Lpm(LpmArgs),
    /// Tables by match kind and number of entries, from memory to memory.
    Tables(TablesArgs),
    /// Tables that learn from packets: inserts a second, and lookups while another worker inserts.
    Learn(LearnArgs),
    /// Stateful NAT64 or apps/nat44 with many sessions, from memory to memory.
    Sessions(SessionsArgs),
    /// Floods from both sides of stateful NAT64, beside established flows and new sessions.
    Floods(FloodsArgs),
}

/// Parses a number of worker threads. The limit is the number of processors, because each worker has one of its own.
fn workers(text: &str) -> Result<usize, String> {
    let most = io::port::processors().len();
    let count: Option<usize> = text.parse().ok();
    count
        .filter(|n| (1..=most).contains(n))
        .ok_or_else(|| format!("`{text}` is not a number from 1 to {most}, the processors"))
}

/// Parses the size of a table in a benchmark.
fn entries(text: &str) -> Result<usize, String> {
    const MOST: usize = 4_000_000;
    let count: Option<usize> = text.parse().ok();
    count
        .filter(|n| (1..=MOST).contains(n))
        .ok_or_else(|| format!("`{text}` is not a number from 1 to {MOST}"))
}

#[derive(Debug, Args)]
pub struct LearnArgs {
    /// The numbers of entries, separated by commas. The tables have room for twice as many.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [10_000, 100_000, 1_000_000], value_parser = entries)]
    pub entries: Vec<usize>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct TablesArgs {
    /// The match kinds, separated by commas [default: all].
    #[arg(long, value_enum, value_name = "KIND,…", value_delimiter = ',')]
    pub kinds: Vec<bench::over_memory::tables::Kind>,
    /// The numbers of entries, separated by commas.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [100, 1000, 10_000, 100_000], value_parser = entries)]
    pub entries: Vec<usize>,
    /// The numbers of worker threads, separated by commas.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [1], value_parser = workers)]
    pub workers: Vec<usize>,
    /// The seed of entries and packets.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Write a graph of the rates by the number of entries to this SVG file.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct SessionsArgs {
    /// Write a graph of the rates to this SVG file.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub svg: Option<PathBuf>,
    /// The numbers of worker threads, separated by commas.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [1],
value_parser = workers)]
    pub workers: Vec<usize>,
    /// The program: stateful NAT64, whose sessions packets make, or NAT44, whose sessions a controller makes (at most 1048576).
    #[arg(long, value_enum, default_value = "nat64")]
    pub app: SessionsApp,
    /// Where stateful NAT64 runs.
    #[arg(long, value_enum, default_value = "native")]
    pub target: bench::over_memory::sessions::Target,
    /// The numbers of sessions, separated by commas.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [10_000, 100_000, 1_000_000],
        value_parser = clap::value_parser!(u32).range(1..=33_554_432))]
    pub sessions: Vec<u32>,
    /// The seed of the order of packets.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct FloodsArgs {
    /// The floods, separated by commas [default: all].
    #[arg(long, value_enum, value_name = "FLOOD,…", value_delimiter = ',')]
    pub floods: Vec<bench::over_memory::floods::Flood>,
    /// The packets of a flood in a second.
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    pub rate: u32,
    /// The packets of established flows in a second.
    #[arg(long, value_name = "N", default_value_t = 500_000)]
    pub established: u32,
    /// The new sessions in a second, each of a host of its own.
    #[arg(long = "new", value_name = "N", default_value_t = 5000)]
    pub new_sessions: u32,
    /// How long each run takes, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = bench::drivers::seconds)]
    pub seconds: f64,
    /// The seed of the packets.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// The programs whose sessions are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum SessionsApp {
    /// apps/nat64-stateful.
    Nat64,
    /// apps/nat44.
    Nat44,
}

#[derive(Debug, Args)]
pub struct LpmArgs {
    /// Write a graph of the rates to this SVG file.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub svg: Option<PathBuf>,
    /// The numbers of worker threads, separated by commas.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [1],
value_parser = workers)]
    pub workers: Vec<usize>,
    /// The numbers of routes, separated by commas.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [1000, 10_000, 100_000, 200_000, 1_000_000], value_parser = count_of_routes)]
    pub routes: Vec<usize>,
    /// The IP versions, `4` and `6` [default: both].
    #[arg(long = "family", value_name = "4|6")]
    pub families: Option<Vec<u8>>,
    /// The seed of the routes.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct PipelineArgs {
    /// The P4 program that is measured.
    #[arg(long, value_name = "PROG.p4", value_hint = ValueHint::FilePath)]
    pub program: PathBuf,
    #[command(flatten)]
    pub preprocess: Preprocess,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// The cases that provide the packets and table entries.
    #[arg(value_name = "CASE.stf", required = true, value_hint = ValueHint::FilePath)]
    pub cases: Vec<PathBuf>,
}
