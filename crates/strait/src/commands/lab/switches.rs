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

/// Decides what each switch runs. Every file that is missing is reported.
pub fn plan(args: &LabArgs, file: &Path, topology: &Topology) -> anyhow::Result<Vec<Plan>> {
    let named: Vec<(&str, &str)> = args.programs.iter().filter_map(|text| text.split_once('=')).collect();
    let common = args.programs.iter().rfind(|text| !text.contains('='));
    let mut problems = Vec::new();
    for (name, _) in named.iter().filter(|(name, _)| topology.switch(name).is_none()) {
        problems.push(format!("--program {name}=…: there is no switch `{name}`"));
    }
    let mut find = |what: &str, path: &str| match find(file, topology.form, path) {
        Some(found) => found,
        None => {
            problems.push(format!("{what}: there is no file {path}"));
            PathBuf::new()
        }
    };
    let mut plans = Vec::new();
    for switch in &topology.switches {
        let what = format!("switch {}", switch.name);
        // A program on the command line is relative to where the command is started.
        let given = named.iter().rfind(|(name, _)| *name == switch.name).map(|(_, file)| *file);
        let program = match (given, &switch.program, common) {
            (Some(given), _, _) => Some(PathBuf::from(given)),
            (None, Some(own), _) => Some(find(&what, own)),
            (None, None, common) => common.map(PathBuf::from),
        };
        plans.push(Plan {
            target: switch.target.clone().unwrap_or_else(|| args.target.name().to_string()),
            entries: switch.entries.iter().map(|path| find(&what, path)).collect(),
            program,
            switch: switch.clone(),
        });
    }
    problems.extend(plans.iter().filter_map(wrong_program));
    if problems.is_empty() { Ok(plans) } else { bail!("{}", problems.join("\n")) }
}

/// Why a switch's program cannot run.
fn wrong_program(plan: &Plan) -> Option<String> {
    let name = &plan.switch.name;
    let program = plan.program.as_ref().filter(|file| !file.as_os_str().is_empty())?;
    if program.extension().is_some_and(|end| end == "json") {
        let program = program.display();
        return Some(format!(
            "switch {name}: {program} is a program for BMv2; give its source: --program {name}=PROG.p4"
        ));
    }
    (!program.exists()).then(|| format!("switch {name}: there is no file {}", program.display()))
}

/// Finds a file of a topology. p4lang's tutorials name files as seen from where their command is started, which is beside the topology or above it.
fn find(topology: &Path, form: Form, name: &str) -> Option<PathBuf> {
    let beside = topology.parent().unwrap_or(Path::new(""));
    let above = beside.join("..");
    let places = match form {
        Form::Own => vec![beside],
        Form::P4lang => vec![Path::new(""), beside, &above],
    };
    let found = places.into_iter().map(|place| place.join(name)).find(|path| path.exists());
    // BMv2's program need not exist: another one is given in its place, or the error says so.
    found.or_else(|| {
        name.ends_with(".json").then(|| PathBuf::from(name)).filter(|_| name.starts_with("build/"))
    })
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
        for (end, _) in topology.ends_of(&switch.name) {
            command.arg("--port").arg(format!("{}={}", end.port, end.interface()));
        }
        if let Some(port) = switch.cpu_port {
            command.args(["--cpu-port", &port.to_string()]);
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
            grpc: self.grpc.clone(),
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
