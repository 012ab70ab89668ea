//! What the environment refuses, each with a hint where we know one.

use std::path::PathBuf;

use thiserror::Error;

/// The result of everything in this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The environment's failure.
#[derive(Debug, Error)]
pub enum Error {
    /// The kernel said no.
    #[error("cannot {what}: {source}{}", hint(source))]
    System {
        /// What we were about to do, as a verb phrase.
        what: String,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// The eBPF object is not one that this loader understands.
    #[error("cannot read the eBPF object: {0}")]
    Object(String),
    /// The verifier rejected the program.
    #[error("the kernel rejected the program `{program}`: {source}{}\n{log}", hint(source))]
    Rejected {
        /// The program's symbol.
        program: String,
        /// The error number.
        source: std::io::Error,
        /// The last lines of the verifier's log.
        log: String,
    },
    /// DPDK said no.
    #[error("dpdk: {0}")]
    Dpdk(String),
    /// The C compiler is missing, or does not take what Strait made.
    #[error("{0}")]
    Compiler(String),
    /// A compiled program is not one of Strait's, or cannot be loaded.
    #[error("cannot load the object {name}: {why}")]
    Library {
        /// The shared object.
        name: String,
        /// The loader's words.
        why: String,
    },
    /// Another user could exchange what is made or found there.
    #[error("{} cannot be used: {why}", path.display())]
    Untrusted {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// There is already an instance of that name.
    #[error("`{0}` is loaded already; take it down first, or reload it")]
    Exists(PathBuf),
    /// There is no instance, map, interface or namespace of that name.
    #[error("there is no {0}")]
    NotFound(String),
    /// An entry does not fit its table.
    #[error(transparent)]
    Entry(#[from] abi::manifest::EntryError),
    /// There is an entry with this key (and mask).
    #[error("table `{table}`: there is an entry with this key already")]
    Duplicate {
        /// Full control-plane name.
        table: String,
    },
    /// A table operation that makes no sense now.
    #[error("table `{table}`: {problem}")]
    Table {
        /// Full control-plane name.
        table: String,
        /// What is wrong.
        problem: String,
    },
    /// A capture file that cannot be read.
    #[error("capture file: {0}")]
    Pcap(#[from] pcap_file::PcapError),
}

impl Error {
    /// Whether the kernel refused for lack of privilege.
    pub fn is_permission(&self) -> bool {
        let (Error::System { source, .. } | Error::Rejected { source, .. }) = self else { return false };
        matches!(source.raw_os_error(), Some(libc::EPERM | libc::EACCES))
    }

    /// The kernel's error number, if the kernel said no.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Error::System { source, .. } | Error::Rejected { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}

/// Names what failed.
pub(crate) trait Context<T> {
    /// `what` is a verb phrase: "set the MTU of eth0".
    fn context(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Context<T> for std::io::Result<T> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::System { what: what(), source })
    }
}

/// What usually helps against an error number.
fn hint(source: &std::io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::EPERM) => {
            "\n  hint: this needs root, or CAP_NET_ADMIN, CAP_BPF and CAP_PERFMON (in a container, the host's); on \
             kernels before 5.11 a small `ulimit -l` gives the same error"
        }
        Some(libc::ENOSYS | libc::EOPNOTSUPP) => {
            "\n  hint: this kernel lacks it; `strait doctor` tells what is missing"
        }
        Some(libc::E2BIG) => "\n  hint: the program or a table is larger than this kernel takes",
        _ => "",
    }
}
