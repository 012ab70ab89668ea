//! The forwarders between `in` and `out`: Strait with its drivers, DPDK's testpmd with the same drivers of DPDK, and the kernel.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use serde::{Serialize, Serializer};

use super::wire::Wire;
use crate::process::{Job, installed};
use crate::{Error, Result, lab};

/// The time limit for the start of a forwarder. The first start of Strait compiles the program for this processor, and testpmd needs some
/// seconds to find its memory.
const START: Duration = Duration::from_secs(60);

/// The directory in which each DPDK process makes a directory. A killed process leaves it.
const DPDK: &str = "/var/run/dpdk";

/// The directory in which libxdp pins programs. DPDK loads its program through libxdp, and the directory stays.
const PINS: &str = "/sys/fs/bpf/xdp";

/// Removes the DPDK directories of killed runs.
pub fn remove_stale() {
    for entry in std::fs::read_dir(DPDK).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if lab::owner(&name).is_some_and(|pid| !lab::alive(pid)) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// A forwarder that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarder {
    /// `strait run --target native`.
    Strait(Driver),
    /// `strait run --target tc`.
    Tc,
    /// `dpdk-testpmd --forward-mode=io` with the poll-mode driver of the same name.
    Testpmd(Driver),
    /// A Linux bridge in the kernel.
    Bridge,
}

/// A packet driver that both Strait and DPDK have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// AF_PACKET: packet sockets with rings.
    AfPacket,
    /// AF_XDP: XDP sockets.
    AfXdp,
}

impl Driver {
    fn name(self) -> &'static str {
        match self {
            Driver::AfPacket => "af_packet",
            Driver::AfXdp => "af_xdp",
        }
    }
}

impl Forwarder {
    /// All forwarders. Each peer comes after the forwarder that is compared with it.
    pub const ALL: [Forwarder; 6] = [
        Forwarder::Strait(Driver::AfPacket),
        Forwarder::Testpmd(Driver::AfPacket),
        Forwarder::Strait(Driver::AfXdp),
        Forwarder::Testpmd(Driver::AfXdp),
        Forwarder::Tc,
        Forwarder::Bridge,
    ];

    /// The forwarder that this one is compared with.
    pub fn peer(self) -> Option<Forwarder> {
        match self {
            Forwarder::Strait(driver) => Some(Forwarder::Testpmd(driver)),
            Forwarder::Tc => Some(Forwarder::Bridge),
            _ => None,
        }
    }

    /// The reason why this machine cannot measure the forwarder; `None` if it can.
    pub fn unavailable(self, workers: usize) -> Option<String> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        match self {
            Forwarder::Testpmd(_) if !installed("dpdk-testpmd") => {
                Some("dpdk-testpmd is not installed (apt-get install dpdk-dev)".to_owned())
            }
            Forwarder::Testpmd(_) if workers > 1 => Some("measured with one worker only".to_owned()),
            Forwarder::Tc | Forwarder::Bridge if workers > 1 => Some("the kernel has no workers".to_owned()),
            Forwarder::Strait(_) if workers > 1 && workers + 1 > cores => Some(format!(
                "{workers} workers and a sender want {} processors, and there are {cores}",
                workers + 1
            )),
            _ => None,
        }
    }

    /// Starts the forwarder between the links `in` and `out`.
    pub fn start(self, wire: &Wire, strait: &Path, program: &Path, workers: usize) -> Result<Running> {
        let mut running = Running { job: None, leftover: None, pins: false };
        let (mut command, ready) = match self {
            Forwarder::Bridge => {
                wire.namespace.ip(
                    "link add bridge type bridge\nlink set in master bridge\nlink set out master bridge\nlink set bridge up",
                )?;
                return Ok(running);
            }
            Forwarder::Strait(driver) => {
                let mut command = wire.namespace.command(strait);
                command.arg("run").arg(program).args([
                    "--target",
                    "native",
                    "--workers",
                    &workers.to_string(),
                ]);
                for (number, link) in ["in", "out"].iter().enumerate() {
                    command.args(["--port", &format!("{number}={}:{link}", driver.name())]);
                }
                (command, "running on")
            }
            Forwarder::Tc => {
                let mut command = wire.namespace.command(strait);
                command.arg("run").arg(program).args(["--target", "tc", "--port", "0=in", "--port", "1=out"]);
                (command, "running on")
            }
            Forwarder::Testpmd(driver) => {
                let prefix = format!("{}{}-dpdk", lab::PREFIX, std::process::id());
                running.leftover = Some(PathBuf::from(DPDK).join(&prefix));
                running.pins = !Path::new(PINS).exists();
                let mut command = wire.namespace.command("dpdk-testpmd");
                // The forwarding thread runs on the processor of Strait's first worker. testpmd's other thread sleeps, beside the sender.
                let processors = io::port::processors();
                let (own, other) = (processors.first().unwrap_or(&0), processors.last().unwrap_or(&0));
                command.args([
                    "--lcores",
                    &format!("0@{other},1@{own}"),
                    "--no-huge",
                    "-m",
                    "512",
                    "--no-pci",
                    "--no-telemetry",
                ]);
                command.args(["--file-prefix", &prefix]);
                for (number, link) in ["in", "out"].iter().enumerate() {
                    command.args(["--vdev", &format!("net_{}{number},iface={link}", driver.name())]);
                }
                command.args(["--", "--forward-mode=io", "--stats-period=1", "--no-mlockall"]);
                command.arg("--total-num-mbufs=16384");
                (command, "Port statistics")
            }
        };
        let mut job = Job::background(&mut command)?;
        job.wait_for(ready, START)?;
        running.job = Some(job);
        Ok(running)
    }
}

/// A running forwarder. Dropping it ends it.
pub struct Running {
    job: Option<Job>,
    /// The directory that the process makes, and leaves when it is killed.
    leftover: Option<PathBuf>,
    /// Whether this process made [`PINS`].
    pins: bool,
}

impl Running {
    /// Returns an error if the forwarder has ended by itself.
    pub fn check(&mut self) -> Result<()> {
        let running = self.job.as_mut().is_none_or(Job::running);
        if running { Ok(()) } else { Err(Error::Driver("the forwarder ended by itself".to_owned())) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.job = None;
        if let Some(directory) = &self.leftover {
            let _ = std::fs::remove_dir_all(directory);
        }
        if self.pins {
            // This removes the directory only if it is empty; it may hold pins of other programs.
            let _ = std::fs::remove_dir(PINS);
        }
    }
}

impl fmt::Display for Forwarder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Forwarder::Strait(driver) => write!(f, "strait-{}", driver.name()),
            Forwarder::Testpmd(driver) => write!(f, "testpmd-{}", driver.name()),
            Forwarder::Tc => f.write_str("strait-tc"),
            Forwarder::Bridge => f.write_str("bridge"),
        }
    }
}

impl FromStr for Forwarder {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Forwarder, String> {
        let known = || Forwarder::ALL.map(|f| f.to_string()).join(", ");
        let found = Forwarder::ALL.into_iter().find(|f| f.to_string() == text);
        found.ok_or_else(|| format!("there is no `{text}`; there are {}", known()))
    }
}

impl Serialize for Forwarder {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
