//! The switches of a lab: each is a `strait run` of its own, whose interfaces are in a namespace, and whose P4Runtime server is where the lab was started.

use std::fs::File;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use control::lab::{Form, Grpc, Switch, Topology};
use io::signals::{self, Signal};

use super::owner::{self, Lab};
use crate::cli::LabArgs;
use crate::cli::clients::{Server, TableArgs, TableCommand};
use crate::commands::run::INHERITED;

/// What `strait run` prints when packets pass.
const READY: &str = "Ctrl-C ends it";
/// How long a program may take to compile and start.
const START: Duration = Duration::from_secs(120);
/// How long a switch may take to end.
const END: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(10);

/// What is decided about a switch before anything is built.
pub struct Plan {
    /// The switch of the topology.
    pub switch: Switch,
    /// The file of its program, if it has one.
    pub program: Option<PathBuf>,
    /// The name of its target.
    pub target: String,
    /// The files with its entries.
    entries: Vec<PathBuf>,
}

impl Plan {
    /// Whether the target has queues of its own in front of egress, which programs see: docs/queues.md.
    pub fn has_queues(&self) -> bool {
        matches!(self.target.as_str(), "interp" | "native")
    }
}

/// Decides what each switch runs. Everything that is missing is reported.
pub fn plan(args: &LabArgs, file: &Path, topology: &Topology) -> anyhow::Result<Vec<Plan>> {
    let mut problems = Vec::new();
    let named = args.programs.iter().filter_map(|text| text.split_once('='));
    for (name, _) in named.filter(|(name, _)| topology.switch(name).is_none()) {
        problems.push(format!("--program {name}=…: there is no switch `{name}`"));
    }
    let mut plans = Vec::new();
    for switch in &topology.switches {
        let mut find = |path: &str| {
            find(file, topology.form, path)
                .map_err(|why| problems.push(format!("switch {}: {why}", switch.name)))
                .ok()
        };
        let entries = switch.entries.iter().filter_map(|path| find(path)).collect();
        let program = match (given(args, &switch.name), &switch.program) {
            // What the command line names is relative to where the command is started.
            (Given::ForIt(given), _) | (Given::ForAll(given), None) => Some(PathBuf::from(given)),
            (_, Some(own)) if own.ends_with(BMV2) => Some(PathBuf::from(own)),
            (_, Some(own)) => find(own),
            (Given::Nothing, None) => None,
        };
        problems.extend(program.as_ref().and_then(|program| wrong_program(&switch.name, program)));
        let target = switch.target.clone().unwrap_or_else(|| args.target.name().to_string());
        plans.push(Plan { switch: switch.clone(), program, target, entries });
    }
    if problems.is_empty() { Ok(plans) } else { bail!("{}", problems.join("\n")) }
}

/// The program that the command line names for a switch.
enum Given<'a> {
    ForIt(&'a str),
    ForAll(&'a str),
    Nothing,
}

fn given<'a>(args: &'a LabArgs, switch: &str) -> Given<'a> {
    let mut named = args.programs.iter().filter_map(|text| text.split_once('='));
    if let Some((_, program)) = named.rfind(|(name, _)| *name == switch) {
        return Given::ForIt(program);
    }
    let common = args.programs.iter().rfind(|text| !text.contains('='));
    common.map_or(Given::Nothing, |program| Given::ForAll(program))
}

/// How the name of a program for BMv2 ends.
const BMV2: &str = ".json";

/// Why a program cannot run.
fn wrong_program(switch: &str, program: &Path) -> Option<String> {
    let name = program.display().to_string();
    match name.ends_with(BMV2) {
        true => Some(format!(
            "switch {switch}: {name} is a program for BMv2; give its source: --program {switch}=PROG.p4"
        )),
        false => (!program.exists()).then(|| format!("switch {switch}: there is no file {name}")),
    }
}

/// Finds a file of a topology. p4lang's tutorials name files as seen from where their command is started, which is beside the topology or above it.
fn find(topology: &Path, form: Form, name: &str) -> Result<PathBuf, String> {
    let beside = topology.parent().unwrap_or(Path::new(""));
    let above = beside.join("..");
    let places = match form {
        Form::Own => vec![beside],
        Form::P4lang => vec![Path::new(""), beside, &above],
    };
    let found = places.into_iter().map(|place| place.join(name)).find(|path| path.exists());
    found.ok_or_else(|| format!("there is no file {name}"))
}

/// A switch that runs. Dropping it ends it.
pub struct Running {
    /// What it is.
    pub plan: Plan,
    /// The address of its P4Runtime server.
    pub grpc: String,
    /// The file with what it has printed.
    pub log: PathBuf,
    child: Child,
}

impl Running {
    /// Starts a switch. It may still be compiling when this returns.
    pub fn start(lab: &Lab, topology: &Topology, plan: Plan) -> anyhow::Result<Running> {
        let switch = &plan.switch;
        let socket = socket(&switch.grpc).with_context(|| format!("switch {}", switch.name))?;
        let grpc = socket.local_addr()?.to_string();
        let log = lab.directory().join(format!("{}.log", switch.name));
        let mut command = Command::new(std::env::current_exe().context("where is this program?")?);
        command.arg("run").args(&plan.program).args(["--target", &plan.target]);
        command.args(["--netns", &owner::namespace(lab.name(), &switch.name)]);
        command.args(["--grpc", INHERITED, "--device-id", &switch.device.to_string()]);
        for (end, link) in topology.ends_of(&switch.name) {
            command.arg("--port").arg(format!("{}={}", end.port, end.interface()));
            let Some(rate) = link.conditions.rate.filter(|_| plan.has_queues()) else { continue };
            command.arg("--port-rate").arg(format!("{}={rate}bit", end.port));
            if let Some(queue) = link.conditions.queue {
                command.arg("--port-queue").arg(format!("{}={queue}", end.port));
            }
        }
        if let Some(port) = switch.cpu_port {
            command.args(["--cpu-port", &port.to_string()]);
        }
        if let Some(controller) = &switch.controller {
            command.args(["--controller", controller]);
        }
        if let Some(workers) = switch.workers {
            command.args(["--workers", &workers.to_string()]);
        }
        let output = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        // Ctrl-C at the terminal is for what runs in the foreground, and not for the switches.
        command.process_group(0).stdin(OwnedFd::from(socket)).stdout(output.try_clone()?).stderr(output);
        let child = signals::unblock_in(&mut command).spawn().context("cannot start a switch")?;
        Ok(Running { grpc, log, child, plan })
    }

    /// Waits until packets pass, and writes the entries. `stopped` says whether the lab shall end.
    pub fn ready(&mut self, stopped: &mut dyn FnMut() -> anyhow::Result<()>) -> anyhow::Result<()> {
        let name = self.plan.switch.name.clone();
        let begun = Instant::now();
        while !self.told().contains(READY) {
            stopped()?;
            if let Some(status) = self.child.try_wait()? {
                bail!("switch {name} has ended ({status}):\n{}", self.told().trim_end());
            }
            if begun.elapsed() > START {
                bail!("switch {name} has not started in {} s:\n{}", START.as_secs(), self.told().trim_end());
            }
            std::thread::sleep(POLL);
        }
        for file in self.plan.entries.clone() {
            let load = TableCommand::Load { file: file.clone(), replace: false };
            self.table(load).map_err(|why| anyhow!("switch {name}: {why:#}"))?;
        }
        Ok(())
    }

    /// Runs a command of `strait table` with this switch.
    pub fn table(&self, command: TableCommand) -> anyhow::Result<()> {
        crate::commands::client::table::run(&TableArgs { server: self.server(), command }).map(drop)
    }

    /// The options by which clients find this switch.
    pub fn server(&self) -> Server {
        Server {
            grpc: Some(self.grpc.clone()),
            device: self.plan.switch.device,
            election_id: None,
            role: String::new(),
            ca: None,
            cert: None,
            key: None,
            json: false,
        }
    }

    /// What it has printed.
    pub fn told(&self) -> String {
        std::fs::read(&self.log).map(|text| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default()
    }

    /// Whether it has ended, and how.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = signals::send(self.child.id(), Signal::Interrupt);
        let begun = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if begun.elapsed() > END {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(POLL);
        }
    }
}

/// Listens for the controllers of a switch: on the usual port, or a free one if that is in use. The switch inherits the socket, so no other lab takes the
/// port meanwhile.
fn socket(grpc: &Grpc) -> anyhow::Result<TcpListener> {
    let bound = |port| TcpListener::bind(("127.0.0.1", port));
    match grpc {
        Grpc::Fixed(port) => bound(*port).with_context(|| format!("P4Runtime on port {port}")),
        Grpc::Usual(port) => bound(*port).or_else(|_| bound(0)).context("P4Runtime"),
    }
}
