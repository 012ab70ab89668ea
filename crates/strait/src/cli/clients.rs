//! The command line of P4Runtime's clients.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

use super::names;

/// Where the server is, and who we are.
#[derive(Debug, Clone, Args)]
pub struct Server {
    /// The P4Runtime server: `unix:PATH` or `HOST:PORT`. Without it, the Unix socket of the device on this machine, or 127.0.0.1:9559.
    #[arg(long, global = true, value_name = "unix:PATH|HOST:PORT", env = "STRAIT_GRPC")]
    pub grpc: Option<String>,
    /// The number of the device.
    #[arg(long, global = true, value_name = "N", default_value_t = 1)]
    pub device: u64,
    /// The election id for writes. Without it, no other primary is replaced.
    #[arg(long, global = true, value_name = "N")]
    pub election_id: Option<u128>,
    /// The role; without it, all of the pipeline.
    #[arg(long, global = true, value_name = "NAME", default_value = "")]
    pub role: String,
    /// The authorities of the server's certificate, as PEM: the connection is TLS.
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub ca: Option<PathBuf>,
    /// Our certificate, as PEM.
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath, requires_all = ["ca", "key"])]
    pub cert: Option<PathBuf>,
    /// The key of our certificate, as PEM.
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub key: Option<PathBuf>,
    /// Print JSON on stdout, and nothing else there.
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ControllerArgs {
    #[command(flatten)]
    pub server: Server,
    #[command(subcommand)]
    pub command: ControllerCommand,
}

#[derive(Debug, Subcommand)]
pub enum ControllerCommand {
    /// The control plane of apps/l2: learns the ports of stations, and forgets silent ones.
    L2 {
        /// The ports of the switch, such as 0,1,2.
        #[arg(long, value_delimiter = ',', required = true, value_name = "N,…")]
        ports: Vec<u32>,
        /// The seconds after which a silent station is forgotten.
        #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..))]
        ageing: u32,
    },
    /// The control plane of apps/nat44: gives sessions addresses and ports of a pool.
    Nat44 {
        /// The outside addresses.
        #[arg(long, value_name = "POOL")]
        pool: String,
    },
    /// Write the bindings and sessions of stateful NAT64 (apps/nat64-controller).
    Nat64 {
        /// The configuration, as for `strait nat64`, with `mode = "stateful"`.
        #[arg(long, value_name = "FILE", default_value = "/etc/strait/nat64.toml", value_hint = ValueHint::FilePath)]
        config: PathBuf,
    },
}

#[derive(Debug, Args)]
pub struct TableArgs {
    #[command(flatten)]
    pub server: Server,
    #[command(subcommand)]
    pub command: TableCommand,
}

#[derive(Debug, Subcommand)]
pub enum TableCommand {
    /// List the tables, their keys and their actions.
    List {
        /// The table to list; without a name, all of them.
        #[arg(add = names::tables())]
        table: Option<String>,
    },
    /// Print the entries of a table, or of all, as lines that `load` reads.
    Dump {
        /// The table; without a name, all of them.
        #[arg(add = names::tables())]
        table: Option<String>,
        /// Print the counter of each entry, too.
        #[arg(long)]
        counters: bool,
    },
    /// Add an entry: `TABLE KEY… => ACTION ARGUMENT… [priority N] [idle TIME] [metadata TEXT]`.
    Add(Words),
    /// Change the action of an entry, or a default action: `TABLE default => ACTION ARGUMENT…`.
    Set(Words),
    /// Remove an entry: `TABLE KEY… [priority N]`. `TABLE default` gets back what the program declares.
    #[command(alias = "del")]
    Remove(Words),
    /// Remove all entries of a table, or of all tables.
    Clear {
        /// The table; without a name, all of them.
        #[arg(add = names::tables())]
        table: Option<String>,
    },
    /// Write the entries of a file: one a line, as `dump` prints them, or a file of BMv2's users (`runtime.json`, commands of simple_switch_CLI). Entries
    /// that exist are changed.
    Load {
        /// The file; `-` is the standard input.
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// Remove what the file does not have.
        #[arg(long)]
        replace: bool,
    },
    /// Compare the entries of the device with a file. The exit status is 1 if they differ.
    Diff {
        /// The file; `-` is the standard input.
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
    /// Print what changes, until it is interrupted: `+` added, `-` removed, and the rates of the entries' counters.
    Watch {
        /// The table; without a name, all of them.
        #[arg(add = names::tables())]
        table: Option<String>,
        /// The seconds between two looks.
        #[arg(long, default_value_t = 1.0)]
        interval: f64,
    },
}

/// Words that the program's P4Info explains.
#[derive(Debug, Args)]
pub struct Words {
    /// The words of an entry, each an argument or all in one.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, add = names::entries())]
    pub words: Vec<String>,
}

#[derive(Debug, Args)]
pub struct CellArgs {
    #[command(flatten)]
    pub server: Server,
    /// The object; without it, all of them.
    #[arg(add = names::cells())]
    pub name: Option<String>,
    /// The cell; without it, all of them.
    pub index: Option<i64>,
    /// Write it. Counters: `PACKETS[:BYTES]`; registers: the value; meters: `RATE:BURST [RATE:BURST]` (committed, peak), or `off`.
    #[arg(long, num_args = 1..=2, value_name = "VALUE")]
    pub set: Option<Vec<String>>,
    /// Show cells of zero, too.
    #[arg(long)]
    pub zero: bool,
    /// Print changes and their rates, until it is interrupted.
    #[arg(long)]
    pub watch: bool,
}

#[derive(Debug, Args)]
pub struct GroupArgs {
    #[command(flatten)]
    pub server: Server,
    #[command(subcommand)]
    pub command: GroupCommand,
}

#[derive(Debug, Subcommand)]
pub enum GroupCommand {
    /// Print all multicast groups, clone sessions, members and groups.
    List,
    /// Set a multicast group: `PORT[:INSTANCE]…`. Backup replicas follow behind commas, `1:1,2:2`: the first one whose port has a link is used.
    Multicast {
        /// The number of the group.
        group: u32,
        /// Its copies. Without any, the group is removed.
        ports: Vec<String>,
    },
    /// Set a clone session: `PORT[:INSTANCE]…`.
    Clone {
        /// The number of the session.
        session: u32,
        /// Its copies. Without any, the session is removed.
        ports: Vec<String>,
    },
    /// Set a member of an action profile: `ACTION ARGUMENT…`.
    Member {
        /// The action profile.
        #[arg(add = names::profiles())]
        profile: String,
        /// The number of the member.
        member: u32,
        /// Its action. Without one, the member is removed.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        action: Vec<String>,
    },
    /// Set a group of an action selector: `MEMBER[*WEIGHT][@PORT]…`. A member with a port is left out while the port has no link.
    Members {
        /// The action selector.
        #[arg(add = names::profiles())]
        profile: String,
        /// The number of the group.
        group: u32,
        /// Its members. Without any, the group is removed.
        members: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub struct DigestArgs {
    #[command(flatten)]
    pub server: Server,
    /// The digests to print; without a name, all of them.
    #[arg(add = names::digests())]
    pub names: Vec<String>,
    /// End after this number of digests.
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
}

#[derive(Debug, Args)]
pub struct PacketArgs {
    #[command(flatten)]
    pub server: Server,
    #[command(subcommand)]
    pub command: PacketCommand,
}

#[derive(Debug, Subcommand)]
pub enum PacketCommand {
    /// Print the packets for the controller.
    In {
        /// End after this number of packets.
        #[arg(long, value_name = "N")]
        count: Option<u64>,
    },
    /// Send a packet: its bytes in hexadecimal, and the metadata as `NAME=VALUE`.
    Out {
        /// The bytes of the packet in hexadecimal.
        hex: String,
        /// The fields of its header, as `NAME=VALUE`; those that are missing are 0.
        metadata: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub struct PipelineArgs {
    #[command(flatten)]
    pub server: Server,
    #[command(subcommand)]
    pub command: PipelineCommand,
}

#[derive(Debug, Subcommand)]
pub enum PipelineCommand {
    /// Push a program to a Strait device, or what a compiler has made of it to any device.
    Push {
        /// The P4 program, or with --p4info the device's own format.
        #[arg(value_hint = ValueHint::FilePath)]
        program: PathBuf,
        /// The P4Info of the program, as text; without it, Strait makes it.
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        p4info: Option<PathBuf>,
        /// Keep the state that both programs have (RECONCILE_AND_COMMIT).
        #[arg(long)]
        keep: bool,
    },
    /// Print the P4Info of the running program.
    Info,
}
