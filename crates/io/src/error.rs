//! The errors of the environment, with a hint where there is a usual remedy.

use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

/// The result of everything in this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of the environment: the kernel, the compiler, a file.
#[derive(Debug, Error)]
pub enum Error {
    /// The kernel refused an operation.
    #[error("cannot {what}: {source}{}", hint(source))]
    System {
        /// The operation that failed, as a verb phrase.
        what: String,
        /// The kernel's error.
        source: std::io::Error,
    },
    /// The eBPF object is not one that this loader understands.
    #[error("cannot read the eBPF object: {0}")]
    Object(String),
    /// The verifier rejected the program.
    #[error("the kernel rejected the program `{program}`: {source}{}\n{log}", hint(source))]
    Rejected {
        /// The symbol of the program.
        program: String,
        /// The kernel's error.
        source: std::io::Error,
        /// The last lines of the verifier's log.
        log: String,
    },
    /// DPDK reported an error.
    #[error("dpdk: {0}")]
    Dpdk(String),
    /// The C compiler is missing, or it did not end.
    #[error("{0}")]
    Compiler(String),
    /// The C compiler does not take the C that Strait emitted. What it says may quote files of this machine.
    #[error("{0}")]
    Refused(Box<crate::compiler::Refusal>),
    /// Nobody wants the result any more.
    #[error("it was cancelled")]
    Cancelled,
    /// A compiled program is not one of Strait's, or cannot be loaded.
    #[error("cannot load the object {name}: {why}")]
    Library {
        /// The name of the shared object.
        name: String,
        /// The loader's message.
        why: String,
    },
    /// Another user could replace files in a directory that must be trusted.
    #[error("{} cannot be used: {why}", path.display())]
    Untrusted {
        /// The path of the directory.
        path: PathBuf,
        /// The reason why it is not trusted.
        why: String,
    },
    /// An instance with that name already exists.
    #[error("`{0}` is loaded already; take it down first, or reload it")]
    Exists(PathBuf),
    /// Another process changes the instance, and has done so for long.
    #[error("{} changes `{instance}` and has its lock; waited {} s for it, and nothing was changed{}",
        who(*holder), waited.as_secs(), holder.map(|process| format!("\n  hint: wait for it, or end it: `kill {process}`")).unwrap_or_default())]
    Locked {
        /// The name of the instance.
        instance: String,
        /// How long it was waited for.
        waited: Duration,
        /// The process, if it is visible here.
        holder: Option<u32>,
    },
    /// The interface has an XDP program of somebody else, which Strait never replaces.
    #[error(
        "{interface} has an XDP program already, and Strait replaces no program of others; hint: `ip link show {interface}` names it, `ip link set {interface} xdp off` removes it if nothing holds it"
    )]
    Occupied {
        /// The name of the interface.
        interface: String,
    },
    /// An XDP program on the interface would lose packets, or send them with wrong checksums.
    #[error("{interface} cannot have this XDP program: it {problem}{}", cure(hint.as_ref()))]
    Port {
        /// The name of the interface.
        interface: String,
        /// The reason, as a phrase about the interface.
        problem: String,
        /// What helps, if something does.
        hint: Option<String>,
    },
    /// There is no instance, map, interface or namespace with that name.
    #[error("there is no {0}")]
    NotFound(String),
    /// An entry does not fit its table.
    #[error(transparent)]
    Entry(#[from] abi::manifest::EntryError),
    /// A running program refuses what a controller writes.
    #[error(transparent)]
    Device(#[from] dataplane::device::DeviceError),
    /// A capture file cannot be read.
    #[error("capture file: {0}")]
    Pcap(#[from] pcap_file::PcapError),
}

impl Error {
    /// Whether the kernel refused for lack of privilege.
    pub fn is_permission(&self) -> bool {
        let (Error::System { source, .. } | Error::Rejected { source, .. }) = self else { return false };
        matches!(source.raw_os_error(), Some(libc::EPERM | libc::EACCES))
    }

    /// The kernel's error number, if the kernel refused an operation.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Error::System { source, .. } | Error::Rejected { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}

/// Adds the description of the operation to an I/O error.
pub(crate) trait Context<T> {
    /// `what` is a verb phrase: "set the MTU of eth0".
    fn context(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Context<T> for std::io::Result<T> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::System { what: what(), source })
    }
}

/// A hint at the end of a line; empty if there is none.
pub(crate) fn cure(hint: Option<&String>) -> String {
    hint.map(|hint| format!("; hint: {hint}")).unwrap_or_default()
}

/// A process for messages: its number and its name.
fn who(process: Option<u32>) -> String {
    let Some(process) = process else { return "a process that is not visible here".to_owned() };
    let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    let name: String = name.trim_end().chars().filter(|c| !c.is_control()).collect();
    format!("process {process} (`{name}`)")
}

/// The usual remedy for an error number.
fn hint(source: &std::io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::EPERM) => {
            "\n  hint: this needs root, or CAP_NET_ADMIN, CAP_BPF and CAP_PERFMON (in a container, the host's); on \
             kernels before 5.11 a small `ulimit -l` gives the same error"
        }
        Some(libc::ENOSYS | libc::EOPNOTSUPP) => {
            "\n  hint: this kernel lacks it; `strait doctor` tells what is missing"
        }
        Some(libc::EROFS) => "\n  hint: if it is the BPF file system: mount -o remount,rw /sys/fs/bpf",
        Some(libc::ENOSPC) => {
            "\n  hint: if it is a file: make room on its disk, or let TMPDIR name another place"
        }
        Some(libc::E2BIG) => "\n  hint: the program or a table is larger than this kernel takes",
        _ => "",
    }
}
