//! `strait capture` and `strait trace --live`: look at the packets of a running switch.
//!
//! The command finds the switch (`io::local`), sends a request (`link`), and prints what comes back. Everything else happens in the process that
//! runs the program, in a thread that exists only meanwhile:
//!
//! * `serve`: takes requests. `session`: one of them, from the first packet to the last.
//! * `filter`: which packets. `replay`: their paths, from the interpreter. `kernel`: what becomes of packets that the kernel moves.
//! * `account`: what is known about a packet. `report`: how it is said, as text, JSON and pcapng.

mod account;
mod filter;
mod kernel;
mod link;
mod replay;
mod report;
pub mod serve;
mod session;

use std::fs::File;
use std::io::Write;
use std::net::Shutdown;
use std::path::Path;

use anyhow::{Context, anyhow, bail};

use self::link::{Kind, Request};
pub use self::replay::Target;
use crate::cli::{CaptureArgs, Watching};
use crate::out::Stdout;

/// Writes the packets of a running switch.
pub fn run(args: &CaptureArgs) -> anyhow::Result<()> {
    let request = Request {
        snaplen: args.snaplen,
        pcapng: args.write.is_some(),
        text: args.write.is_none() && !args.json,
        json: args.json,
        ..request(&args.watching)
    };
    watch(&args.watching, request, args.write.as_deref())
}

/// Follows packets through the program of a running switch.
pub fn trace(watching: &Watching, json: bool, pcapng: Option<&Path>) -> anyhow::Result<()> {
    let request = Request { paths: true, pcapng: pcapng.is_some(), text: !json, json, ..request(watching) };
    watch(watching, request, pcapng)
}

fn request(watching: &Watching) -> Request {
    Request {
        filter: watching.filter.as_deref().map(filter::with_addresses),
        ports: watching.ports.clone(),
        rate: watching.rate,
        count: watching.count,
        time: watching.time,
        ..Request::default()
    }
}

/// Sends the request, and does what the switch says until it ends. Ctrl-C asks it to end.
fn watch(watching: &Watching, request: Request, file: Option<&Path>) -> anyhow::Result<()> {
    let mut stream = io::local::connect(process(watching.pid)?)?;
    let stop = stream.try_clone()?;
    io::signals::at_end(move || {
        let _ = stop.shutdown(Shutdown::Write);
    })?;
    request.send(&mut stream)?;
    let mut file = file.map(Out::Later);
    while let Some((kind, bytes)) = link::receive(&mut stream)? {
        match kind {
            Kind::Output => print!("{}", String::from_utf8_lossy(&bytes)),
            Kind::File => file.iter_mut().try_for_each(|out| out.write(&bytes))?,
            Kind::Note => eprintln!("{}", String::from_utf8_lossy(&bytes)),
            Kind::Failed => bail!("{}", String::from_utf8_lossy(&bytes)),
            Kind::End => return Ok(()),
        }
    }
    Err(anyhow!("the switch has ended in the middle"))
}

/// The file of a capture. It is made when the first bytes come, so that a mistake in the filter leaves an older file alone.
enum Out<'a> {
    Later(&'a Path),
    Now(Box<dyn Write>),
}

impl Out<'_> {
    fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        if let Out::Later(path) = self {
            let open = || File::create(*path).with_context(|| format!("cannot write {}", path.display()));
            *self = Out::Now(if *path == Path::new("-") { Box::new(Stdout) } else { Box::new(open()?) });
        }
        match self {
            Out::Now(to) => Ok(to.write_all(bytes).and_then(|()| to.flush())?),
            Out::Later(_) => Ok(()),
        }
    }
}

/// The process of the switch: the named one, or the only one.
fn process(named: Option<u32>) -> anyhow::Result<u32> {
    if let Some(process) = named {
        return Ok(process);
    }
    match io::local::processes()?[..] {
        [only] => Ok(only),
        [] => bail!(
            "no `strait run` of this user runs on this machine; root's need root. (What `strait nat64 up` leaves in the kernel has no process, and is not seen here; `tcpdump -i nat64` shows its packets.)"
        ),
        ref several => {
            let lines: Vec<String> = several.iter().map(|process| described(*process)).collect();
            bail!("several switches run; choose one with --pid:\n{}", lines.join("\n"))
        }
    }
}

/// A process with its command line, for people.
fn described(process: u32) -> String {
    let line = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let words: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
    format!("  --pid {process}: {}", words.join(" ").trim())
}
