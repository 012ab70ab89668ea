//! What a process gives up between fork and exec, so that it can do nothing but read the system's files and write in one directory.
//!
//! A module with `unsafe`. Its invariants: between fork and exec only the system calls of [`Confinement::enter`] run, which allocate nothing,
//! take no lock and use memory that was prepared before the fork. Every descriptor in it is open as long as the [`Confinement`] lives, and
//! the child has a copy. Every structure that the kernel reads has its layout, and its size is passed.
#![allow(unsafe_code)]

mod system_calls;

use std::fs::File;
use std::io::{Error, Result};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The user and group that a confined process runs as.
pub const NOBODY: u32 = 65_534;

/// The files that programs need for reading, and for execution.
const READABLE: [&str; 12] = [
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/bin",
    "/sbin",
    "/opt",
    "/nix/store",
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/proc/cpuinfo",
    "/sys/devices/system/cpu",
];
/// The devices that programs read and write.
const DEVICES: [&str; 4] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/urandom"];

/// The limits of a confined process. Each is far above what the largest program that Strait accepts needs.
const LIMITS: [(libc::__rlimit_resource_t, u64); 5] = [
    (libc::RLIMIT_CPU, 240),
    (libc::RLIMIT_AS, 8 << 30),
    (libc::RLIMIT_FSIZE, 512 << 20),
    (libc::RLIMIT_NOFILE, 256),
    (libc::RLIMIT_CORE, 0),
];
/// The most processes and threads of the user: all confined processes of the machine, because they are of one user.
const PROCESSES: u64 = 1024;

/// How the process becomes nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// It gets the ids of nobody, because this process may give them to it.
    Switched,
    /// It keeps the ids of this process, and is nobody in a user namespace of its own where the system allows one: it has no capability.
    Mapped,
}

impl Identity {
    /// What this process can give.
    pub fn here() -> Identity {
        let may = |cap| caps::has_cap(None, caps::CapSet::Effective, cap).unwrap_or(false);
        let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        let is_mapped = map.lines().any(|line| {
            let words: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
            matches!(words[..], [first, _, count] if (first..first.saturating_add(count)).contains(&u64::from(NOBODY)))
        });
        let groups = std::fs::read_to_string("/proc/self/setgroups").is_ok_and(|may| may.trim() == "allow");
        let ids = may(caps::Capability::CAP_SETUID) && may(caps::Capability::CAP_SETGID);
        if crate::sys::euid() == 0 && ids && is_mapped && groups {
            Identity::Switched
        } else {
            Identity::Mapped
        }
    }
}

/// A confinement that was prepared, for one process.
pub struct Confinement {
    identity: Identity,
    /// The work directory, where the process starts.
    directory: File,
    /// Landlock's rules, if the kernel has Landlock.
    rules: Option<OwnedFd>,
    /// The filter of its system calls, if there is one for this processor.
    filter: Option<seccompiler::BpfProgram>,
    /// A descriptor that the process keeps: of the program that it executes. It is the caller's.
    keep: Option<i32>,
    /// Whether a process that stays this user enters a user namespace.
    alone: bool,
    /// The user and group maps of [`Identity::Mapped`].
    maps: [String; 2],
}

impl Confinement {
    /// Prepares the confinement to a directory. The process may read and execute what is below `readable`, too, and `keep`, which stays open
    /// in it and must be open when it starts. `alone` is whether a process that stays this user enters a user namespace.
    pub fn new(
        directory: &Path,
        readable: &[PathBuf],
        keep: Option<&File>,
        alone: bool,
    ) -> Result<Confinement> {
        let identity = Identity::here();
        let group = std::fs::metadata("/proc/self").map(|own| std::os::unix::fs::MetadataExt::gid(&own));
        let maps =
            [format!("{NOBODY} {} 1", crate::sys::euid()), format!("{NOBODY} {} 1", group.unwrap_or(0))];
        let directory = File::open(directory)?;
        let rules = landlock::rules(&directory, readable, keep);
        let keep = keep.map(|file| file.as_raw_fd());
        Ok(Confinement { identity, directory, rules, filter: system_calls::filter(), keep, alone, maps })
    }

    /// Makes a command run confined, in a process group of its own.
    pub fn apply(self, command: &mut Command) {
        command.process_group(0);
        // SAFETY: `enter` keeps to what is allowed between fork and exec, see the top of this file.
        unsafe { command.pre_exec(move || self.enter()) };
    }

    /// Runs in the child, between fork and exec.
    fn enter(&self) -> Result<()> {
        // SAFETY: no pointers are passed.
        unsafe {
            check(libc::close_range(3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC as i32))
                .or_else(|why| if why.raw_os_error() == Some(libc::ENOSYS) { Ok(()) } else { Err(why) })?;
            if let Some(file) = self.keep {
                check(libc::fcntl(file, libc::F_SETFD, 0))?;
            }
            check(libc::fchdir(self.directory.as_raw_fd()))?;
            libc::umask(0o077);
        }
        for (resource, most) in LIMITS {
            limit(resource, most)?;
        }
        let alone = match self.identity {
            Identity::Switched => {
                // A container may refuse namespaces; Landlock denies TCP in any case.
                // SAFETY: no pointers are passed, except for an empty list of groups.
                unsafe {
                    libc::unshare(libc::CLONE_NEWNET | libc::CLONE_NEWIPC);
                    check(libc::setgroups(0, std::ptr::null()))?;
                    check(libc::setresgid(NOBODY, NOBODY, NOBODY))?;
                    check(libc::setresuid(NOBODY, NOBODY, NOBODY))?;
                }
                true
            }
            Identity::Mapped => self.alone && self.map()?,
        };
        // The processes of a user count together, except for those in a namespace of their own.
        if alone {
            limit(libc::RLIMIT_NPROC, PROCESSES)?;
        }
        // SAFETY: no pointers are passed.
        unsafe {
            check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
            check(libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0))?;
            // The compiler ends with the server.
            check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0))?;
            if let Some(rules) = &self.rules {
                check(libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0) as i32)?;
            }
        }
        // It makes two system calls and keeps nothing.
        match self.filter.as_deref().map(seccompiler::apply_filter) {
            // A kernel without seccomp, and an emulator.
            Some(Err(seccompiler::Error::Seccomp(why)))
                if matches!(why.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS)) =>
            {
                Ok(())
            }
            Some(Err(seccompiler::Error::Seccomp(why) | seccompiler::Error::Prctl(why))) => Err(why),
            Some(Err(_)) => Err(Error::from_raw_os_error(libc::EINVAL)),
            Some(Ok(())) | None => Ok(()),
        }
    }

    /// Enters a user namespace in which this user is nobody, and a network namespace. Returns whether the system allows that. It is an error if
    /// the system allows the namespace and no user in it: then no file can be made.
    fn map(&self) -> Result<bool> {
        // SAFETY: no pointers are passed.
        if unsafe { libc::unshare(libc::CLONE_NEWUSER) } != 0 {
            return Ok(false);
        }
        let files = [
            (c"/proc/self/setgroups", "deny"),
            (c"/proc/self/uid_map", self.maps[0].as_str()),
            (c"/proc/self/gid_map", self.maps[1].as_str()),
        ];
        for (path, text) in files {
            // SAFETY: the path is a C string, the text is a live slice, and the descriptor is this function's own.
            unsafe {
                let file = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
                check(file)?;
                let written = libc::write(file, text.as_ptr().cast(), text.len());
                check(written as i32)?;
                libc::close(file);
            }
        }
        // SAFETY: no pointers are passed.
        unsafe { libc::unshare(libc::CLONE_NEWNET | libc::CLONE_NEWIPC) };
        Ok(true)
    }
}

fn check(result: i32) -> Result<()> {
    if result < 0 { Err(Error::last_os_error()) } else { Ok(()) }
}

/// Lowers a limit of this process, if it is higher.
fn limit(resource: libc::__rlimit_resource_t, most: u64) -> Result<()> {
    let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is live and exclusively ours.
    check(unsafe { libc::getrlimit(resource, &mut now) })?;
    let most = (most as libc::rlim_t).min(now.rlim_max);
    let lower = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: the structure is live.
    check(unsafe { libc::setrlimit(resource, &lower) })
}

/// Ends all processes of a process group.
pub fn kill_group(leader: u32) {
    // SAFETY: no pointers are passed. The caller has not waited for the leader yet, so the id is still its own.
    unsafe { libc::kill(-(leader as i32), libc::SIGKILL) };
}

/// Whether a child has ended. It is not waited for, so its number stays its own.
pub fn has_ended(child: u32) -> bool {
    // SAFETY: `siginfo_t` is plain data, for which zero is valid.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the structure is live and exclusively ours.
    let result = unsafe { libc::waitid(libc::P_PID, child, &mut info, options) };
    // SAFETY: the kernel has set the number, or it is zero.
    result != 0 || unsafe { info.si_pid() } != 0
}

/// Waits until a descriptor can be read, or for some milliseconds.
pub fn wait_readable(descriptor: &impl std::os::fd::AsFd, milliseconds: i32) {
    let fd = descriptor.as_fd().as_raw_fd();
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: the structure is live and exclusively ours, and its number is 1.
    unsafe { libc::poll(&mut poll, 1, milliseconds) };
}

/// Makes reads of a descriptor return at once.
pub fn set_nonblocking(descriptor: &impl std::os::fd::AsFd) -> Result<()> {
    let fd = descriptor.as_fd().as_raw_fd();
    // SAFETY: no pointers are passed.
    unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        check(flags)?;
        check(libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK))
    }
}

/// Landlock (Documentation/userspace-api/landlock.rst in the kernel's sources).
mod landlock {
    use super::*;

    const EXECUTE: u64 = 1 << 0;
    const WRITE_FILE: u64 = 1 << 1;
    const READ_FILE: u64 = 1 << 2;
    const READ_DIR: u64 = 1 << 3;
    const REFER: u64 = 1 << 13;
    const TRUNCATE: u64 = 1 << 14;
    /// The rights that a file that is no directory can have.
    const OF_FILES: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE;
    const READ: u64 = EXECUTE | READ_FILE | READ_DIR;
    /// To make sockets, devices and FIFOs, which no compiler does.
    const SPECIAL: u64 = 1 << 6 | 1 << 9 | 1 << 10 | 1 << 11;

    /// `struct landlock_ruleset_attr`.
    #[repr(C)]
    struct Attributes {
        files: u64,
        network: u64,
        scoped: u64,
    }

    /// `struct landlock_path_beneath_attr`.
    #[repr(C, packed)]
    struct Beneath {
        allowed: u64,
        parent: i32,
    }

    /// The rules for a directory that is written, and for what is read. `None` if the kernel has no Landlock.
    pub fn rules(directory: &File, readable: &[PathBuf], file: Option<&File>) -> Option<OwnedFd> {
        const VERSION: u32 = 1;
        let none = std::ptr::null::<Attributes>();
        // SAFETY: without attributes and with this flag the kernel returns its version.
        let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, 0usize, VERSION) };
        let files = match version {
            ..=0 => return None,
            1 => (1 << 13) - 1,
            2 => (1 << 14) - 1,
            3 | 4 => (1 << 15) - 1,
            _ => (1 << 16) - 1,
        };
        let network = if version >= 4 { 3 } else { 0 };
        let scoped = if version >= 6 { 3 } else { 0 };
        let size = match version {
            ..=3 => 8,
            4 | 5 => 16,
            _ => 24usize,
        };
        let attributes = Attributes { files, network, scoped };
        // SAFETY: the structure is live, and the kernel reads `size` bytes of it at most.
        let made =
            unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, &raw const attributes, size, 0) };
        if made < 0 {
            return None;
        }
        // SAFETY: the kernel made the descriptor for this call, so nobody else owns it.
        let rules = unsafe { OwnedFd::from_raw_fd(made as i32) };
        let here = READABLE.iter().map(PathBuf::from).chain(readable.iter().cloned());
        for path in here {
            allow(&rules, &path, READ & files);
        }
        for path in DEVICES {
            allow(&rules, Path::new(path), (READ_FILE | WRITE_FILE | TRUNCATE) & files);
        }
        add(&rules, directory, files & !(SPECIAL | REFER));
        if let Some(file) = file {
            add(&rules, file, (EXECUTE | READ_FILE) & files);
        }
        Some(rules)
    }

    /// Allows something for a path, if there is such a file.
    fn allow(rules: &OwnedFd, path: &Path, rights: u64) {
        let opened = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path);
        let Ok(file) = opened else { return };
        let is_directory = file.metadata().is_ok_and(|found| found.is_dir());
        add(rules, &file, if is_directory { rights } else { rights & OF_FILES });
    }

    fn add(rules: &OwnedFd, file: &File, allowed: u64) {
        const PATH_BENEATH: i32 = 1;
        let rule = Beneath { allowed, parent: file.as_raw_fd() };
        // SAFETY: the structure is live and has the kernel's layout. A rule that is not added allows nothing.
        unsafe {
            libc::syscall(libc::SYS_landlock_add_rule, rules.as_raw_fd(), PATH_BENEATH, &raw const rule, 0)
        };
    }
}
