//! `strait lab`: hosts, links and switches in network namespaces, and commands in them. At the end everything is taken down, however it comes.
//!
//! * `owner`: the lab's name, and what belongs to it. `network`: namespaces and links. `switches`: programs that run, with their entries.
//! * `prompt`: runs commands. `pings`, `capture`: two of them. control::lab has the forms of topologies and commands.

mod capture;
mod network;
mod owner;
mod pings;
mod prompt;
mod switches;

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use control::lab::{self, Form, Topology};
use io::signals::{self, Signal, Signals};

use self::network::{Network, Programs};
use self::owner::Lab;
use self::prompt::{Outcome, Prompt};
use self::switches::Running;
use crate::cli::{LabArgs, LabCommand};

/// A lab that is built. Fields are dropped in this order: switches end before their namespaces go.
struct Built {
    switches: Vec<Running>,
    network: Network,
    topology: Topology,
    lab: Lab,
    signals: Signals,
}

/// Runs the command.
pub fn run(args: &LabArgs) -> anyhow::Result<ExitCode> {
    if let Some(LabCommand::Exec { name, node, words }) = &args.command {
        return exec(name, node, words);
    }
    let file = args.topology.as_deref().context("no topology is given")?;
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let topology = topology(args, file, &text)?;
    let signals = signals::listen(&[Signal::Interrupt, Signal::Terminate, Signal::Hangup])?;
    let mut built = match build(args, file, &text, topology, signals) {
        Ok(built) => built,
        Err(why) if why.is::<Ended>() => return Ok(ExitCode::from(ENDED)),
        Err(why) => return Err(why),
    };
    let mut prompt = Prompt::new(&mut built, args.json);
    let outcome = match (&args.words[..], &args.lines[..]) {
        ([], []) => prompt.interact(),
        ([], lines) => prompt.lines(lines),
        (words, _) => prompt.command(words),
    };
    Ok(match outcome? {
        Outcome::Status(status) => ExitCode::from(status),
        Outcome::Ended => ExitCode::from(ENDED),
    })
}

/// The exit status after a signal: that of a shell whose command SIGINT has ended.
const ENDED: u8 = 130;

/// A signal has come before the lab was built.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
struct Ended;

/// Reads the topology. All problems are reported, with their places.
fn topology(args: &LabArgs, file: &Path, text: &str) -> anyhow::Result<Topology> {
    let mut topology = lab::parse(text).map_err(|problems| {
        let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
        anyhow!("{}:\n{}", file.display(), all.join("\n"))
    })?;
    if args.ideal_links {
        topology.links.iter_mut().for_each(|link| link.conditions = lab::Conditions::default());
    }
    Ok(topology)
}

fn build(
    args: &LabArgs,
    file: &Path,
    text: &str,
    topology: Topology,
    signals: Signals,
) -> anyhow::Result<Built> {
    let plans = switches::plan(args, file, &topology)?;
    let lab = Lab::claim(args.name.as_deref(), text)?;
    let shaping = plans.iter().filter(|plan| plan.has_queues()).map(|plan| plan.switch.name.clone());
    let programs =
        Programs { has_xdp: plans.iter().any(|plan| plan.target == "xdp"), shaping: shaping.collect() };
    let network = Network::build(&lab, &topology, &programs)?;
    let mut built = Built { switches: Vec::new(), network, topology, lab, signals };
    for plan in plans {
        let running = Running::start(&built.lab, &built.topology, plan)?;
        built.switches.push(running);
    }
    let Built { switches, signals, .. } = &mut built;
    for switch in switches {
        switch.ready(&mut || signals.wait(Duration::ZERO).map_or(Ok(()), |_| Err(Ended.into())))?;
    }
    prepare_hosts(&built)?;
    Ok(built)
}

/// Runs the commands of the hosts. In p4lang's tutorials some fail that have nothing to do, and nobody looks.
fn prepare_hosts(built: &Built) -> anyhow::Result<()> {
    for host in &built.topology.hosts {
        for line in &host.commands {
            let mut command = inside(&built.lab, &host.name, &["sh", "-c", line]);
            let output = signals::unblock_in(&mut command).output();
            let output = output.context("cannot run `ip` (apt-get install iproute2)")?;
            if output.status.success() {
                continue;
            }
            let why = String::from_utf8_lossy(&output.stderr).trim().to_string();
            match built.topology.form {
                Form::Own => bail!("the host {}: `{line}` has failed: {why}", host.name),
                Form::P4lang => eprintln!("warning: {}: `{line}`: {why}", host.name),
            }
        }
    }
    Ok(())
}

/// A command in the namespace of a node. It sees the node's interfaces in /sys, too.
fn inside(lab: &Lab, node: &str, words: &[&str]) -> Command {
    let mut command = Command::new("ip");
    command
        .args(["netns", "exec", &owner::namespace(lab.name(), node)])
        .args(words)
        .env("STRAIT_LAB", lab.name());
    command
}

/// Runs a command in a node of another process's lab, in the place of this process.
fn exec(name: &str, node: &str, words: &[String]) -> anyhow::Result<ExitCode> {
    let topology = lab::parse(&owner::topology(name)?);
    let topology = topology.map_err(|_| anyhow!("the lab `{name}` is of another version of Strait"))?;
    if !topology.nodes().any(|other| other == node) {
        let all: Vec<&str> = topology.nodes().collect();
        bail!("the lab `{name}` has no node `{node}`; there are {}", all.join(", "));
    }
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &owner::namespace(name, node)]).env("STRAIT_LAB", name);
    command.args(words.iter().map(|word| lab::command::with_addresses(&topology, word)));
    Err(command.exec()).context("cannot run `ip` (apt-get install iproute2)")
}
