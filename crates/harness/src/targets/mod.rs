//! The targets: how a program is compiled for one and loaded, and how packet tests drive it.

pub mod interp;
pub mod kernel;
pub mod native;
mod wires;

use std::str::FromStr;

use ::interp::Outcome;
use abi::Manifest;

use crate::stf::Target;

use kernel::At;

/// The targets that can run a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunTarget {
    /// The reference interpreter.
    Interp,
    /// Machine code in this process.
    Native,
    /// The kernel's traffic control.
    Tc,
    /// The kernel's express data path.
    Xdp,
}

impl RunTarget {
    /// All targets, in the order in which help texts list them.
    pub const ALL: [RunTarget; 4] = [RunTarget::Interp, RunTarget::Native, RunTarget::Tc, RunTarget::Xdp];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            RunTarget::Interp => "interp",
            RunTarget::Native => "native",
            RunTarget::Tc => "tc",
            RunTarget::Xdp => "xdp",
        }
    }

    /// What runs the program, in words.
    pub fn about(self) -> &'static str {
        match self {
            RunTarget::Interp => "The reference interpreter",
            RunTarget::Native => "Machine code in this process",
            RunTarget::Tc => "The kernel's traffic control",
            RunTarget::Xdp => "The kernel's express data path",
        }
    }

    /// Why the target cannot run on this machine, if it cannot.
    pub fn unavailable(self) -> Option<&'static str> {
        let root =
            std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0);
        let clang = || std::process::Command::new("clang").arg("--version").output().is_ok();
        match self {
            RunTarget::Interp => None,
            RunTarget::Tc | RunTarget::Xdp if !root => Some("the kernel takes eBPF programs from root only"),
            RunTarget::Tc | RunTarget::Xdp if !clang() => Some("clang is not installed"),
            RunTarget::Tc | RunTarget::Xdp => None,
            RunTarget::Native if !io::native::has_compiler() => Some("no C compiler is installed"),
            RunTarget::Native => None,
        }
    }
}

impl FromStr for RunTarget {
    type Err = String;

    fn from_str(name: &str) -> Result<RunTarget, String> {
        let found = RunTarget::ALL.into_iter().find(|target| target.name() == name);
        found.ok_or_else(|| format!("there is no target `{name}`"))
    }
}

/// A compiled target that can be compared with the interpreter.
pub trait Compiled: Target {
    /// Runs one packet.
    fn process(&mut self, port: u32, packet: &[u8]) -> anyhow::Result<Sent>;
    /// Whether the target can send a frame of this length when a frame arrives. It drops another one for `target.bad_resize`.
    fn can_send(&self, _arrived: &[u8], _length: usize) -> bool {
        true
    }
    /// Removes everything that the target created.
    fn end(self: Box<Self>) -> anyhow::Result<()>;
}

/// A program that was compiled for a target. It is loaded once for each case.
pub enum Object {
    /// The program is compiled for a hook of the kernel.
    Kernel(kernel::Object),
    /// The program is compiled for this machine.
    Native(native::Object),
}

impl Object {
    /// Compiles a program. Returns `None` for targets that do not compile.
    pub fn make(target: RunTarget, program: &ir::Verified) -> anyhow::Result<Option<Object>> {
        Ok(match target {
            RunTarget::Tc => Some(Object::Kernel(kernel::Object::make(At::Tc, program)?)),
            RunTarget::Xdp => Some(Object::Kernel(kernel::Object::make(At::Xdp, program)?)),
            RunTarget::Native => Some(Object::Native(native::Object::checked(program)?)),
            RunTarget::Interp => None,
        })
    }

    /// The name of the target.
    pub fn target(&self) -> &'static str {
        match self {
            Object::Kernel(object) => object.at.name(),
            Object::Native(_) => RunTarget::Native.name(),
        }
    }

    /// Runs a function in a network namespace of its own if packets of the target may go over interfaces.
    pub fn apart<T: Send>(&self, act: impl FnOnce() -> T + Send) -> std::io::Result<T> {
        match self {
            Object::Kernel(_) => io::netns::run_in_fresh(act),
            Object::Native(_) => Ok(act()),
        }
    }

    /// Loads the program. The caller must be in [`Object::apart`].
    pub fn load(&self) -> anyhow::Result<Box<dyn Compiled>> {
        Ok(match self {
            Object::Kernel(object) => Box::new(kernel::KernelTarget::load(object)?.open_door()?),
            Object::Native(object) => Box::new(native::NativeTarget::load(object)?),
        })
    }
}

/// The result of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The port and the bytes of each packet that left.
    pub packets: Vec<(u32, Vec<u8>)>,
    /// The name of the drop reason, if none left.
    pub reason: Option<String>,
}

impl Sent {
    /// The interpreter's result for a packet, in a form that can be compared with a target's result. If several copies of the packet are
    /// dropped, a target reports the reason of one of them.
    pub fn expected(outcome: Outcome, manifest: &Manifest, target: Option<&Sent>) -> Sent {
        let names: Vec<&String> =
            outcome.dropped.iter().map(|&reason| &manifest.drops[reason].name).collect();
        let named = target.and_then(|sent| sent.reason.as_ref()).filter(|reason| names.contains(reason));
        let reason = named.or(names.last().copied()).filter(|_| outcome.sent.is_empty()).cloned();
        Sent { reason, packets: outcome.sent }
    }

    /// Whether two results are equal, or differ only in words that are 0000 in one and ffff in the other. In one's complement these are
    /// equal.
    pub fn same_but_for_zeros(&self, other: &Sent) -> bool {
        let ports = |sent: &Sent| sent.packets.iter().map(|(port, _)| *port).collect::<Vec<_>>();
        let mut packets = self.packets.iter().zip(&other.packets);
        self.reason == other.reason
            && ports(self) == ports(other)
            && packets.all(|((_, a), (_, b))| zeros_differ(a, b))
    }
}

fn zeros_differ(a: &[u8], b: &[u8]) -> bool {
    let mut rest = (a, b);
    while let (Some((x, more_a)), Some((y, more_b))) = (rest.0.split_first(), rest.1.split_first()) {
        rest = if x == y {
            (more_a, more_b)
        } else {
            match (rest.0, rest.1) {
                ([0, 0, a @ ..], [0xff, 0xff, b @ ..]) | ([0xff, 0xff, a @ ..], [0, 0, b @ ..]) => (a, b),
                _ => return false,
            }
        };
    }
    rest.0.is_empty() && rest.1.is_empty()
}

/// The limits of a target that a program exceeds, each with its location.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Limits(String);

impl Limits {
    /// Formats the limits for people.
    pub fn of(program: &ir::Verified, limits: &[emit::Unsupported]) -> Limits {
        let one = |l: &emit::Unsupported| {
            format!("{}: {l}", program.place(l.loc).unwrap_or_else(|| String::from(&program.name)))
        };
        Limits(limits.iter().map(one).collect::<Vec<_>>().join("\n"))
    }
}
