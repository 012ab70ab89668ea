//! Receives signals as values. After [`listen`] these signals have no other effect.
//!
//! A module with `unsafe`: std has neither signal masks nor signalfd(2). Threads that are started later inherit the mask.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

use crate::Result;
use crate::error::Context;
use crate::port::socket;

/// The signals that a process handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT: Ctrl-C at the terminal.
    Interrupt,
    /// SIGTERM: what `kill` sends.
    Terminate,
    /// SIGHUP: read the configuration again.
    Hangup,
}

impl Signal {
    fn number(self) -> libc::c_int {
        match self {
            Signal::Interrupt => libc::SIGINT,
            Signal::Terminate => libc::SIGTERM,
            Signal::Hangup => libc::SIGHUP,
        }
    }
}

/// A receiver of signals.
#[derive(Debug)]
pub struct Signals {
    fd: OwnedFd,
    of: Vec<Signal>,
}

/// Blocks these signals for this thread and for the threads that it starts, and returns their receiver.
pub fn listen(signals: &[Signal]) -> Result<Signals> {
    let made = || {
        // SAFETY: a set of bits, for which zero is valid.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        for signal in signals {
            // SAFETY: the set is ours, and the number is a signal's.
            unsafe { libc::sigaddset(&mut set, signal.number()) };
        }
        // SAFETY: the set is live; the old mask is not asked for.
        let masked = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) };
        if masked != 0 {
            return Err(io::Error::from_raw_os_error(masked));
        }
        // SAFETY: the set is live.
        let fd = unsafe { libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    };
    let fd = made().context(|| "listen to signals".to_string())?;
    Ok(Signals { fd, of: signals.to_vec() })
}

impl Signals {
    /// Waits up to `most` for the next signal.
    pub fn wait(&self, most: Duration) -> Option<Signal> {
        self.wait_with(&[], most)
    }

    /// Waits up to `most` for the next signal, or until one of these descriptors is readable.
    pub fn wait_with(&self, others: &[BorrowedFd<'_>], most: Duration) -> Option<Signal> {
        let all: Vec<_> = [self.fd.as_fd()].into_iter().chain(others.iter().copied()).collect();
        socket::wait(&all, most);
        // SAFETY: plain data, for which zero is valid.
        let mut info: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
        let size = size_of::<libc::signalfd_siginfo>();
        // SAFETY: `info` is live and `size` bytes long.
        let read = unsafe { libc::read(self.fd.as_raw_fd(), std::ptr::from_mut(&mut info).cast(), size) };
        if read != size as isize {
            return None;
        }
        self.of.iter().find(|s| s.number() == info.ssi_signo as libc::c_int).copied()
    }
}

/// Calls a function whenever Ctrl-C, SIGTERM or SIGHUP asks the process to end, on a thread of its own. For processes that have nothing else to wait
/// for; a service [listens](listen).
pub fn at_end(mut act: impl FnMut() + Send + 'static) -> Result<()> {
    let wanted = [Signal::Interrupt, Signal::Terminate, Signal::Hangup].map(Signal::number);
    let signals = signal_hook::iterator::Signals::new(wanted);
    let mut signals = signals.context(|| "listen to signals".to_string())?;
    std::thread::spawn(move || signals.forever().for_each(|_| act()));
    Ok(())
}

/// Makes a command begin without blocked signals. Otherwise it inherits those of the thread that starts it.
pub fn unblock_in(command: &mut Command) -> &mut Command {
    let unblock = || {
        // SAFETY: a set of bits, for which zero is valid.
        let mut none: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: the set is live; the old mask is not asked for.
        let done = unsafe {
            libc::sigemptyset(&mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut())
        };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: between fork and exec the closure only calls functions that signal-safety(7) lists.
    unsafe { command.pre_exec(unblock) }
}

/// Sends a signal to a process.
pub fn send(process: u32, signal: Signal) -> Result<()> {
    send_number(process, signal.number())
}

/// Ends a process at once (SIGKILL).
pub fn kill(process: u32) -> Result<()> {
    send_number(process, libc::SIGKILL)
}

fn send_number(process: u32, signal: libc::c_int) -> Result<()> {
    // SAFETY: no pointers are passed.
    let sent = unsafe { libc::kill(process as libc::pid_t, signal) };
    let sent = if sent == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    sent.context(|| format!("send a signal to process {process}"))
}
