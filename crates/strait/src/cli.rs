//! The definition of the command line (BLUEPRINT section 4): commands, arguments and options. `commands` executes them.
//!
//! Help texts, completions and manual pages are generated from this definition, so the doc comments here are texts for users.

mod benchmarks;
pub mod clients;
pub mod lab;
mod names;
mod targets;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};

pub use benchmarks::{
    BenchCommand, FloodsArgs, LearnArgs, LpmArgs, PipelineArgs, SessionsApp, SessionsArgs, TablesArgs,
};
pub use harness::targets::RunTarget;
pub use lab::{LabArgs, LabCommand};

/// Compiles a P4-16 program once and runs it everywhere; NAT64 is its proof.
#[derive(Debug, Parser)]
#[command(name = "strait", version, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
    /// Print more; twice for details.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

/// The commands of `strait`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check a P4 program: exit 0 accepted, 1 diagnostics on stderr, 2 usage.
    Check(CheckArgs),
    /// Explain a diagnostic, with examples.
    Explain {
        /// The code, such as E0301; without it, print a list of all codes.
        code: Option<String>,
    },
    /// Compile a P4 program for a target.
    Build(BuildArgs),
    /// Run a P4 program on interfaces until interrupted.
    Run(RunArgs),
    /// Build hosts, switches and links in network namespaces, and run commands in them. At the end everything is taken down.
    Lab(lab::LabArgs),
    /// Run packet tests (STF cases) on one or more targets.
    Test(TestArgs),
    /// Show how each packet of a capture, or of a running switch (--live), is processed, with lines of the P4 program.
    Trace(TraceArgs),
    /// Write the packets of a running switch, before and after its program, with verdicts and drop reasons.
    Capture(CaptureArgs),
    /// NAT64: translate between IPv6 and IPv4.
    #[command(subcommand)]
    Nat64(Nat64Command),
    /// Control the program of an app (P4Runtime).
    Controller(clients::ControllerArgs),
    /// Read and write the tables of a running program (P4Runtime).
    Table(clients::TableArgs),
    /// Read and write counters (P4Runtime).
    Counter(clients::CellArgs),
    /// Read and write meters (P4Runtime).
    Meter(clients::CellArgs),
    /// Read and write registers (P4Runtime).
    Register(clients::CellArgs),
    /// Read and write multicast groups, clone sessions, and the groups of action profiles (P4Runtime).
    Group(clients::GroupArgs),
    /// Print the digests that a program sends (P4Runtime).
    Digest(clients::DigestArgs),
    /// Receive and send packets as the controller (P4Runtime).
    Packet(clients::PacketArgs),
    /// Push a program to a device (P4Runtime).
    Pipeline(clients::PipelineArgs),
    /// Generate packets, and table entries for them, into files or out of a port.
    Gen(Box<GenArgs>),
    /// Measure, and report as a table, JSON and SVG.
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Show what this machine supports, and how to get what is missing.
    Doctor {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Demonstrate NAT64 with real traffic in three network namespaces, beside plain forwarding.
    Demo(bench::DemoOptions),
    /// Print a shell's completion script.
    Completions {
        /// The shell that is to read the script.
        shell: clap_complete::Shell,
    },
    /// Write manual pages into a directory.
    Man {
        /// The directory, which is made if it does not exist.
        #[arg(value_hint = ValueHint::DirPath)]
        dir: PathBuf,
    },
}

/// The options of the front end for reading a program.
#[derive(Debug, Clone, Args)]
pub struct Source {
    /// The P4-16 program.
    #[arg(value_name = "PROG.p4", value_hint = ValueHint::FilePath)]
    pub program: PathBuf,
    #[command(flatten)]
    pub preprocess: Preprocess,
}

/// The options of the preprocessor.
#[derive(Debug, Clone, Default, Args)]
pub struct Preprocess {
    /// Directories to search for includes, before Strait's own.
    #[arg(short = 'I', value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub include: Vec<PathBuf>,
    /// Define a macro.
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    pub define: Vec<String>,
    /// The architecture that the program must be written for.
    #[arg(long, value_enum)]
    pub arch: Option<Arch>,
    /// Switch off a pass over the IR, or `all`: to find a faulty pass, or to measure the effect of one.
    #[arg(long, value_name = "PASS")]
    pub without_pass: Vec<String>,
}

/// The names of architectures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Arch {
    /// The architecture of BMv2's simple_switch.
    V1model,
    /// The Portable Switch Architecture.
    Psa,
    /// The Portable NIC Architecture.
    Pna,
}

impl Arch {
    /// The name in the front end.
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
    #[arg(long, value_name = "TARGET", value_parser = targets::target())]
    pub target: Vec<RunTarget>,
    /// Hide a warning: its code (W0601), its name (unused), or `all`.
    #[arg(long, value_name = "WARNING", value_parser = known_warning)]
    pub allow: Vec<String>,
    /// Print diagnostics as JSON on stdout.
    #[arg(long)]
    pub json: bool,
}

/// Parses the name of a warning.
fn known_warning(name: &str) -> Result<String, String> {
    if name == "all" || p4::explain::codes().any(|code| p4::lint::is_called(code, name)) {
        return Ok(name.to_string());
    }
    let names: Vec<&str> = p4::lint::NAMES.iter().map(|(_, name)| *name).collect();
    Err(format!("there is no such warning; names: all, {}; or a code such as W0301", names.join(", ")))
}

/// The outputs of `build`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BuildTarget {
    /// A shared object for this machine, with its manifest in a second file; if OUT ends in .c, its C.
    Native,
    /// An eBPF object for tc, with its manifest in a second file; if OUT ends in .c, its C.
    Tc,
    /// An eBPF object for XDP.
    Xdp,
    /// The C of the native target.
    C,
    /// P4Runtime's P4Info: as text, or binary if OUT ends in .bin or .pb.
    P4info,
    /// The intermediate representation as text.
    Ir,
    /// Graphs of parsers, controls and the dependencies between tables: for Graphviz, or SVG if OUT ends in .svg.
    Dot,
}

#[derive(Debug, Args)]
pub struct BuildArgs {
    #[command(flatten)]
    pub source: Source,
    /// The output to make.
    #[arg(long, value_enum)]
    pub target: BuildTarget,
    /// The file to write. Without it, text goes to stdout, and objects to PROG.o or PROG.so.
    #[arg(short, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct RunArgs {
    /// The P4-16 program. With --grpc it can be omitted: a controller pushes it.
    #[arg(value_name = "PROG.p4", value_hint = ValueHint::FilePath, required_unless_present = "grpc")]
    pub program: Option<PathBuf>,
    #[command(flatten)]
    pub preprocess: Preprocess,
    /// The target that runs the program.
    #[arg(long, value_parser = targets::target(), default_value = "tc")]
    pub target: RunTarget,
    /// A port: `0=eth0` or `0=tc:eth0` on tc; `0=eth0` or `0=xdp:eth0` on xdp; on native and interp `0=eth0` or `0=af_packet:eth0`, `0=af_xdp:eth0[:QUEUE]`, `0=tap:NAME`, `0=tun:NAME`, `0=pcap:IN,OUT`,
    /// `0=mem:FILE`.
    #[arg(long = "port", value_name = "N=[DRIVER:]ARG", required_unless_present = "grpc")]
    pub ports: Vec<String>,
    /// The network namespace of the interfaces, by its name in `ip netns`. P4Runtime is served where the command is started.
    #[arg(long, value_name = "NAME")]
    pub netns: Option<String>,
    /// How fast a port sends, on native and interp: `1=100pps`, `1=0.5mbit` (bit, kbit, mbit, gbit). Packets wait for it in a queue between ingress and egress.
    #[arg(long = "port-rate", value_name = "N=RATE")]
    pub port_rates: Vec<String>,
    /// How many packets may wait for a port with a rate (64).
    #[arg(long = "port-queue", value_name = "N=PACKETS")]
    pub port_queues: Vec<String>,
    /// Table entries: `add` and `setdefault` lines of STF (`-` for stdin).
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub entries: Option<PathBuf>,
    /// Serve P4Runtime. Alone, `unix` or `unix:PATH`: on a Unix socket (/run/strait-grpc/device-N.sock), which only this user and root may use.
    /// `9559` or `127.0.0.1:9559`: with TCP, to every user of this machine. `:9559`: to all machines. `-`: on the socket that is the standard input
    /// (systemd's `StandardInput=socket`).
    #[arg(long, value_name = "unix[:PATH]|[ADDR:]PORT", num_args = 0..=1, default_missing_value = "unix")]
    pub grpc: Option<String>,
    /// A group whose members may use the Unix socket, too.
    #[arg(long, value_name = "GROUP", requires = "grpc")]
    pub grpc_group: Option<String>,
    /// The number with which controllers name this device.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "grpc")]
    pub device_id: u64,
    /// The certificate of the P4Runtime server, as PEM: connections are TLS.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "grpc_key")]
    pub grpc_cert: Option<PathBuf>,
    /// The key of the certificate, as PEM.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "grpc_cert")]
    pub grpc_key: Option<PathBuf>,
    /// Only clients with a certificate of these authorities may connect (mutual TLS).
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "grpc_cert")]
    pub grpc_client_ca: Option<PathBuf>,
    /// Which roles and devices the certificates of clients are for (TOML; docs/p4runtime.md). Without it, each of the authorities' certificates is for all.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "grpc_client_ca")]
    pub grpc_map: Option<PathBuf>,
    /// Serve P4Runtime to other machines without TLS: whoever reaches the port controls the device.
    #[arg(long, requires = "grpc")]
    pub grpc_insecure: bool,
    /// The memory in MiB that a pushed program may take for its registers, counters, meters and tables. Without it, half of what the machine has
    /// available at that time.
    #[arg(long, value_name = "MIB", requires = "grpc")]
    pub program_memory: Option<u64>,
    /// Number of worker threads of the native target (1), each on a processor of its own.
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// A built-in control plane of a bundled app: `l2[:SECONDS]`, `nat44:POOL`.
    #[arg(long, value_name = "NAME[:ARG]")]
    pub controller: Option<String>,
    /// The number of the controller's port: what the program sends there is for the controller, and is no port of this machine.
    #[arg(long, value_name = "N")]
    pub cpu_port: Option<u32>,
    /// Print the packets for the controller as they arrive, one JSON object per line.
    #[arg(long, requires = "cpu_port")]
    pub packets: bool,
    /// Print digests as they arrive, one JSON object per line.
    #[arg(long)]
    pub digests: bool,
    /// Print what the program logs (`log_msg`) to stderr, with the place of the statement.
    #[arg(long)]
    pub log: bool,
    /// Who runs a program on xdp: the drivers of the ports, or the kernel's stack. Without it, the drivers if all of them can.
    #[arg(long, value_enum, value_name = "MODE")]
    pub xdp_mode: Option<XdpMode>,
    /// On xdp, use an interface although it is unknown whether the TCP and UDP checksums of its packets are complete.
    #[arg(long)]
    pub trust_checksums: bool,
    /// Print counters as JSON at the end.
    #[arg(long)]
    pub json: bool,
}

/// Who runs an XDP program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum XdpMode {
    /// The driver runs it, before the kernel has made an skb of the frame.
    Native,
    /// The kernel's stack, which is slower and works with every driver.
    Generic,
}

#[derive(Debug, Args)]
pub struct TestArgs {
    /// The program of all cases. Without it, a case uses the program with the same base name.
    #[arg(long, value_name = "PROG.p4", value_hint = ValueHint::FilePath)]
    pub program: Option<PathBuf>,
    /// The targets to run on.
    #[arg(long = "target", value_name = "TARGETS", value_parser = targets::target(), default_value = "interp")]
    pub targets: Vec<RunTarget>,
    /// On tc: send the packets over veth pairs in a new network namespace, instead of test runs.
    #[arg(long, conflicts_with = "fuzz")]
    pub veth: bool,
    #[command(flatten)]
    pub preprocess: Preprocess,
    /// Compare the targets on this number of generated and mutated packets, which are derived from the cases, instead of running the cases.
    #[arg(long, value_name = "PACKETS")]
    pub fuzz: Option<u64>,
    /// The seed of the packet generator.
    #[arg(long, default_value_t = 1, requires = "fuzz")]
    pub seed: u64,
    /// With `--fuzz`: play the packets two at a time, on this number of workers at the same moment (native only, and 2).
    #[arg(long, requires = "fuzz", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    pub workers: u8,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// The case files (`-` for stdin).
    #[arg(value_name = "CASE.stf", required = true, value_hint = ValueHint::FilePath)]
    pub cases: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub struct TraceArgs {
    /// The P4-16 program.
    #[arg(value_name = "PROG.p4", value_hint = ValueHint::FilePath, required_unless_present = "live")]
    pub program: Option<PathBuf>,
    #[command(flatten)]
    pub preprocess: Preprocess,
    /// A capture with packets that arrive at a port.
    #[arg(long = "in", value_name = "N=FILE.pcap", required_unless_present = "live")]
    pub inputs: Vec<String>,
    /// Follow packets through the program of a switch that runs, without stopping it.
    #[arg(long, conflicts_with_all = ["program", "inputs", "entries", "include", "define", "arch", "without_pass"])]
    pub live: bool,
    #[command(flatten)]
    pub watching: Watching,
    /// Table entries: `add` and `setdefault` lines of STF (`-` for stdin).
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub entries: Option<PathBuf>,
    /// Write the packets that arrived and left. The path of each packet is its comment, which Wireshark shows.
    #[arg(long, value_name = "OUT.pcapng", value_hint = ValueHint::FilePath, conflicts_with = "json")]
    pub pcapng: Option<PathBuf>,
    /// Print JSON; with --live, one object for each packet on a line.
    #[arg(long)]
    pub json: bool,
}

/// Which packets of which running switch.
#[derive(Debug, Clone, Args)]
pub struct Watching {
    /// Only packets with this property: an expression of P4 in the scope of the program's ingress control, such as
    /// `hdr.ipv4.isValid() && hdr.ipv4.dstAddr == 198.51.100.7`.
    #[arg(short, long, value_name = "EXPR")]
    pub filter: Option<String>,
    /// Only packets that arrive on this port; several are possible.
    #[arg(long = "port", value_name = "N")]
    pub ports: Vec<u32>,
    /// End after this number of packets.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// End after this time: `10s`, `500ms`, `5m`.
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    pub time: Option<Duration>,
    /// Look at no more packets in a second than this; others are counted.
    #[arg(long, value_name = "N", default_value_t = RATE, value_parser = clap::value_parser!(u64).range(1..))]
    pub rate: u64,
    /// The process of the switch, if several run.
    #[arg(long, value_name = "PID")]
    pub pid: Option<u32>,
}

/// The packets in a second that are looked at unless another number is given.
const RATE: u64 = 20_000;

impl Watching {
    /// An option that is given.
    pub fn given(&self) -> Option<&'static str> {
        let all = [
            (self.filter.is_some(), "--filter"),
            (!self.ports.is_empty(), "--port"),
            (self.count.is_some(), "--count"),
            (self.time.is_some(), "--time"),
            (self.rate != RATE, "--rate"),
            (self.pid.is_some(), "--pid"),
        ];
        all.into_iter().find(|(given, _)| *given).map(|(_, option)| option)
    }
}

/// A time with its unit.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a time such as 10s, 500ms or 5m");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    match unit {
        "ms" => Ok(Duration::from_millis(number)),
        "" | "s" => Ok(Duration::from_secs(number)),
        "m" => Ok(Duration::from_secs(number.saturating_mul(60))),
        _ => Err(wrong()),
    }
}

#[derive(Debug, Args)]
pub struct CaptureArgs {
    #[command(flatten)]
    pub watching: Watching,
    /// Write pcapng: each packet as it arrived and as it left. What became of it is its comment, which Wireshark shows. `-` is the standard
    /// output.
    #[arg(short, long, value_name = "OUT.pcapng", value_hint = ValueHint::FilePath, conflicts_with = "json")]
    pub write: Option<PathBuf>,
    /// Write no more than this number of bytes of each packet.
    #[arg(long, value_name = "BYTES", requires = "write")]
    pub snaplen: Option<usize>,
    /// Print JSON, one object for each packet on a line.
    #[arg(long)]
    pub json: bool,
}

/// The commands of NAT64 for operators.
#[derive(Debug, Subcommand)]
pub enum Nat64Command {
    /// Start translating, or update a running translator to match the file.
    Up(UpArgs),
    /// Translate in the foreground, for a service manager: repair what others change, wait for interfaces that come later, and read the file
    /// again at SIGHUP. SIGTERM and Ctrl-C stop translation; a process that is killed leaves it working.
    Run(KeepArgs),
    /// Stop, and remove what `up` made, also if `run` keeps it. The file need not be valid.
    Down(SelectArgs),
    /// Show what runs: mappings, counters, drop reasons, and what is wrong with a cure for it. Exits with 0 if it is up, 3 if it is not, 4 if
    /// something is wrong.
    Status(SelectArgs),
    /// Show the sessions of stateful NAT64.
    Sessions(FlowArgs),
    /// Show its bindings: which host has which IPv4 address and port.
    Bindings(FlowArgs),
    /// Show its pools, and how much of them is used.
    Pool(SelectArgs),
    /// Show the subscribers with the most bindings and sessions.
    Top(TopArgs),
    /// Remove bindings or sessions.
    Flush(FlushArgs),
    /// Write all bindings and sessions to the standard output, for `import`.
    Export(SelectArgs),
    /// Add the bindings and sessions that `export` has written, of this or of another machine.
    Import(ImportArgs),
    /// Say who had an IPv4 address and port: by arithmetic where subscribers have blocks of ports, otherwise by the bindings that there are, or by logs.
    Who(WhoArgs),
    /// Update a running translator to match the file; an invalid file changes nothing.
    Reload(ApplyArgs),
    /// Check the file without applying it.
    Check(FileArgs),
}

/// Which bindings or sessions. All that is named must hold.
#[derive(Debug, Clone, Default, Args)]
pub struct FilterArgs {
    /// tcp, udp or icmp.
    #[arg(long)]
    pub protocol: Option<String>,
    /// The IPv6 host, or a prefix.
    #[arg(long, value_name = "IPV6")]
    pub host: Option<String>,
    /// Its port; of ICMP the identifier.
    #[arg(long, value_name = "PORT")]
    pub host_port: Option<u16>,
    /// The IPv4 address that it has, or a prefix.
    #[arg(long, value_name = "IPV4")]
    pub address: Option<String>,
    /// The port that it has there.
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// The IPv4 host with which it talks, or a prefix (sessions).
    #[arg(long, value_name = "IPV4")]
    pub remote: Option<String>,
    /// The port there (sessions).
    #[arg(long, value_name = "PORT")]
    pub remote_port: Option<u16>,
    /// The state of a TCP session: v6-init, v4-init, established, v4-fin-rcv, v6-fin-rcv, v4-fin-v6-fin-rcv or trans.
    #[arg(long)]
    pub state: Option<String>,
}

/// Bindings or sessions of a translator.
#[derive(Debug, Clone, Args)]
pub struct FlowArgs {
    #[command(flatten)]
    pub of: SelectArgs,
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Print the number of them only.
    #[arg(long)]
    pub count: bool,
}

/// The subscribers with the most bindings.
#[derive(Debug, Clone, Args)]
pub struct TopArgs {
    #[command(flatten)]
    pub of: SelectArgs,
    /// The number of subscribers.
    #[arg(short = 'n', long, default_value_t = 10, value_name = "N")]
    pub lines: usize,
    /// The length of a subscriber's prefix.
    #[arg(long, default_value_t = 128, value_name = "LENGTH", value_parser = clap::value_parser!(u8).range(0..=128))]
    pub subscriber: u8,
}

/// Bindings or sessions to remove.
#[derive(Debug, Clone, Args)]
pub struct FlushArgs {
    #[command(flatten)]
    pub of: SelectArgs,
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Remove all, without a filter. Static bindings stay.
    #[arg(long)]
    pub all: bool,
}

/// What is imported.
#[derive(Debug, Clone, Args)]
pub struct ImportArgs {
    #[command(flatten)]
    pub of: SelectArgs,
    /// The file that `export` has written, or `-`.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
}

/// Whose an address and port were.
#[derive(Debug, Clone, Args)]
pub struct WhoArgs {
    #[command(flatten)]
    pub of: SelectArgs,
    /// The IPv4 address and port: 203.0.113.7:40123.
    #[arg(value_name = "ADDRESS:PORT")]
    pub endpoint: std::net::SocketAddrV4,
    /// tcp, udp or icmp; without it all of them.
    #[arg(long)]
    pub protocol: Option<String>,
    /// When, such as 2026-11-25T14:00:00Z; without it, now.
    #[arg(long, value_name = "TIME")]
    pub at: Option<String>,
    /// Logs that `strait nat64 run` has written, oldest first.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub log: Vec<PathBuf>,
}

/// A file that is applied.
#[derive(Debug, Clone, Args)]
pub struct ApplyArgs {
    #[command(flatten)]
    pub of: ConfigArgs,
    /// Put routes into the device also before routes of others to the same prefix. These stay, and count again after `down`.
    #[arg(long)]
    pub force: bool,
}

/// A translator that a process keeps running.
#[derive(Debug, Clone, Args)]
pub struct KeepArgs {
    #[command(flatten)]
    pub apply: ApplyArgs,
    /// Leave the translator working when this process is told to end.
    #[arg(long)]
    pub keep: bool,
}

#[derive(Debug, Clone, Args)]
pub struct FileArgs {
    #[command(flatten)]
    pub of: ConfigArgs,
    /// Show what `up` would add, change and remove on this machine, and what is in its way.
    #[arg(long)]
    pub diff: bool,
}

/// A translator that runs.
#[derive(Debug, Clone, Args)]
pub struct SelectArgs {
    /// The configuration file that it was made from.
    #[arg(long, default_value = "/etc/strait/nat64.toml", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: PathBuf,
    /// Its device, instead of a file.
    #[arg(long, value_name = "NAME", conflicts_with = "config")]
    pub device: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Args)]
pub struct UpArgs {
    #[command(flatten)]
    pub apply: ApplyArgs,
    /// Where packets are translated: in the kernel, or in this process with a TUN interface, in the foreground.
    #[arg(long, value_enum, default_value = "tc")]
    pub target: Nat64Target,
    /// Number of worker threads of the native target (1).
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
}

/// The targets that can translate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Nat64Target {
    /// The kernel's traffic control.
    Tc,
    /// Machine code in this process. It needs only the privileges of its own network namespace.
    Native,
}

#[derive(Debug, Clone, Args)]
pub struct ConfigArgs {
    /// The configuration file.
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

/// The subcommands of `gen`.
#[derive(Debug, Subcommand)]
pub enum GenCommand {
    /// Generate routing tables with the shape of the Internet's.
    Routes(RoutesArgs),
}

#[derive(Debug, Args)]
pub struct TrafficArgs {
    /// Generate packets with the headers that this program declares and its parser accepts, instead of those of the usual protocols.
    #[arg(long, value_name = "PROG.p4", value_hint = ValueHint::FilePath)]
    pub program: Option<PathBuf>,
    #[command(flatten)]
    pub preprocess: Preprocess,
    /// The headers, in the order in which the parser extracts them: `ethernet/vlan/ipv6/tcp`, `ethernet/ipv4/udp/vxlan/ethernet/ipv4/udp`
    /// [default: ethernet/ipv4/udp; with a program, all paths through its parser in turn].
    #[arg(long, value_name = "A/B/…")]
    pub headers: Option<String>,
    /// Generate packets that pass these states of the parser, in this order.
    #[arg(long, value_name = "STATE,…", conflicts_with = "headers")]
    pub reach: Option<String>,
    /// Generate packets that hit the entries of this table, which are given by `--entries`.
    #[arg(long, value_name = "TABLE", requires = "entries", requires = "program")]
    pub hit: Option<String>,
    /// Table entries in STF that the program has while packets are checked with it.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "program")]
    pub entries: Option<PathBuf>,
    /// The values of a field: `ipv4.dst=198.51.100.0/24`, `tcp.src=1024..65535`, `udp.dst=53,123`. Different flows get different values.
    /// After `uniform:`, `seq:`, `zipf:` or `zipf(S):`, the values change from packet to packet instead.
    #[arg(long, value_name = "FIELD=VALUES")]
    pub set: Vec<String>,
    /// The size of a frame in bytes with its check sequence: `64`, `64,1518`, `uniform:64..1518`, or `imix` (seven of 64, four of 594, one
    /// of 1518).
    #[arg(long, value_name = "SIZES", default_value = "64")]
    pub size: bench::traffic::Sizes,
    /// The number of flows [default: the number of values of the fields, at most the number of packets].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub flows: Option<u64>,
    /// The order of flows: `seq`, `uniform`, `zipf`, `zipf(S)` [default: seq].
    #[arg(long, value_name = "ORDER")]
    pub pick: Option<String>,
    /// The number of packets [default: one for each of `--flows`, or 1000].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// The seed of random values.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Write a capture file (`-` for stdout).
    #[arg(long, short, value_name = "OUT.pcap", value_hint = ValueHint::FilePath, conflicts_with = "port")]
    pub write: Option<PathBuf>,
    /// Send the packets out of a port: `af_packet:IF`, `af_xdp:IF[:QUEUE]`, `tap:NAME`.
    #[arg(long, value_name = "DRIVER:ARG")]
    pub port: Option<io::port::Driver>,
    /// The rate in packets per second [default: as fast as the port accepts them].
    #[arg(long, value_name = "N", requires = "port", value_parser = rate)]
    pub rate: Option<f64>,
    /// Send the packets repeatedly for this duration.
    #[arg(long, value_name = "SECONDS", requires = "port", value_parser = bench::drivers::seconds)]
    pub seconds: Option<f64>,
    /// Make the table entry that the packets of each flow hit: `TABLE ACTION(VALUES, …)`, with the next values for each flow.
    #[arg(long, value_name = "ENTRY", requires = "program", requires = "write_entries")]
    pub add: Option<String>,
    /// The file for these entries, in STF (`-` for stdout).
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "add")]
    pub write_entries: Option<PathBuf>,
    /// The ingress port at which the program receives the packets.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub in_port: u32,
    /// Print the fields and their required values.
    #[arg(long)]
    pub list: bool,
    /// Print a summary as JSON on stdout, which then cannot be a file.
    #[arg(long, conflicts_with = "list")]
    pub json: bool,
}

/// Parses a rate in packets per second. The lower limit is one packet in a quarter of an hour, so that times do not overflow.
fn rate(text: &str) -> Result<f64, String> {
    let value: Option<f64> = text.parse().ok();
    value
        .filter(|r| *r >= 0.001 && r.is_finite())
        .ok_or_else(|| format!("`{text}` is not a rate, 0.001 or more"))
}

#[derive(Debug, Args)]
pub struct RoutesArgs {
    /// The number of routes.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = count_of_routes)]
    pub count: usize,
    /// The IP version: IPv4 or IPv6.
    #[arg(long, value_name = "4|6", default_value = "4", value_parser = ["4", "6"])]
    pub family: String,
    /// The number of next hops, which are numbered from 1 on.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u16).range(1..))]
    pub next_hops: u16,
    /// The seed of the routes.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Write entries of a program's table instead of `PREFIX/LENGTH NEXT-HOP`: `TABLE ACTION(VALUES, …)`. Each next hop has the values with
    /// its number.
    #[arg(long, value_name = "ENTRY", requires = "program")]
    pub add: Option<String>,
    /// The program that has the table.
    #[arg(long, value_name = "PROG.p4", value_hint = ValueHint::FilePath)]
    pub program: Option<PathBuf>,
    #[command(flatten)]
    pub preprocess: Preprocess,
    /// The file to write (`-` for stdout).
    #[arg(short, value_name = "OUT", default_value = "-", value_hint = ValueHint::FilePath)]
    pub out: PathBuf,
}

/// Parses a number of routes. The limit is the largest table that the benchmarks measure.
fn count_of_routes(text: &str) -> Result<usize, String> {
    const MOST: usize = 2_000_000;
    let count: Option<usize> = text.parse().ok();
    count
        .filter(|n| (1..=MOST).contains(n))
        .ok_or_else(|| format!("`{text}` is not a number from 1 to {MOST}"))
}
