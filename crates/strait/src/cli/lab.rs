//! The command line of `strait lab`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

use super::{RunTarget, targets};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct LabArgs {
    #[command(subcommand)]
    pub command: Option<LabCommand>,
    /// The topology: TOML (docs/lab.md), or `topology.json` of p4lang's tutorials.
    #[arg(value_name = "TOPOLOGY", value_hint = ValueHint::FilePath, required = true)]
    pub topology: Option<PathBuf>,
    /// The name of the lab, which is in the names of its namespaces [default: lab, or lab2, lab3, … beside others].
    #[arg(long, value_parser = name)]
    pub name: Option<String>,
    /// The program of switches that have none in the topology, or with SWITCH= the program of this switch.
    #[arg(long = "program", value_name = "[SWITCH=]PROG.p4", value_hint = ValueHint::FilePath)]
    pub programs: Vec<String>,
    /// The target of switches for which the topology names none.
    #[arg(long, value_parser = targets::target(), default_value = "native")]
    pub target: RunTarget,
    /// Build all links without delay, loss and rate: for kernels that lack netem.
    #[arg(long)]
    pub ideal_links: bool,
    /// Run a line of the prompt, such as `h1 ping -c1 h2` or `pingall`, and then the next one. Then everything is taken down. The exit status is that of
    /// the first line that fails.
    #[arg(long = "run", value_name = "LINE", conflicts_with = "words")]
    pub lines: Vec<String>,
    /// Print the results of pingall as JSON on stdout, and nothing else there but what commands print.
    #[arg(long)]
    pub json: bool,
    /// A command that runs while the lab is there, where the lab was started. The exit status is its own. STRAIT_LAB has the name of the lab.
    #[arg(value_name = "COMMAND", last = true)]
    pub words: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Run a command in a node of a lab that runs. Names of hosts become addresses.
    Exec {
        /// The name of the lab.
        #[arg(long, env = "STRAIT_LAB", default_value = "lab", value_parser = name)]
        name: String,
        /// The host or switch.
        node: String,
        /// The command and its arguments.
        #[arg(trailing_var_arg = true, required = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
}

/// Parses the name of a lab. Names of namespaces contain it, and a dash ends it there.
fn name(text: &str) -> Result<String, String> {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let fits = (1..=24).contains(&text.len()) && text.chars().all(good);
    if fits { Ok(text.to_string()) } else { Err("a name has up to 24 letters, digits and `_`".to_string()) }
}
