//! Runs commands in a lab: lines of the prompt, lines of the command line, or one command of the caller.

use std::io::{IsTerminal as _, Read as _};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{Child, Command as Process, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context;
use control::lab::command::{self, Command};
use control::lab::{End, Link, Topology};
use io::signals::{self, Signal};

use super::capture::Capture;
use super::{Built, inside, owner, pings};
use abi::text::chain;

/// The interval at which a command that runs is looked at.
const TURN: Duration = Duration::from_millis(10);
/// How long a signal is waited for at the prompt, after which the switches are looked at.
const IDLE: Duration = Duration::from_millis(500);

const HELP: &str = "\
NODE COMMAND             run a command in a host or switch; names of hosts become addresses: h1 ping h2
NODE bash                a shell there
pingall                  every host pings every other
capture NODE[:PORT] FILE write what passes a link to a pcap file, from now on
table SWITCH [COMMAND]   strait table: table s1 dump, table s1 add …
log SWITCH               what a switch has printed
sh COMMAND               run a command here
nodes                    the hosts, switches and links
exit                     take everything down";

/// How the commands have ended.
pub enum Outcome {
    /// With this exit status.
    Status(u8),
    /// By a signal.
    Ended,
}

/// Commands in a lab.
pub struct Prompt<'a> {
    built: &'a mut Built,
    json: bool,
    captures: Vec<Capture>,
}

impl Prompt<'_> {
    /// Commands in this lab.
    pub fn new(built: &mut Built, json: bool) -> Prompt<'_> {
        Prompt { built, json, captures: Vec::new() }
    }

    /// Reads lines from the standard input until it ends.
    pub fn interact(&mut self) -> anyhow::Result<Outcome> {
        self.nodes();
        let is_terminal = std::io::stdin().is_terminal();
        if is_terminal {
            eprintln!("`help` lists the commands; `exit` or Ctrl-C takes everything down");
        }
        let mut waiting = String::new();
        let mut last = 0;
        loop {
            let Some(end) = waiting.find('\n') else {
                if is_terminal {
                    eprint!("lab> ");
                }
                match self.more(&mut waiting)? {
                    None => return Ok(Outcome::Ended),
                    Some(0) => break,
                    Some(_) => continue,
                }
            };
            let line: String = waiting.drain(..=end).collect();
            match self.line(&line) {
                Ok(None) => break,
                Ok(Some(Outcome::Ended)) => return Ok(Outcome::Ended),
                Ok(Some(Outcome::Status(status))) => last = status,
                Err(why) => {
                    eprintln!("error: {}", chain(&*why));
                    last = 1;
                }
            }
        }
        // At a terminal the failures have been seen.
        Ok(Outcome::Status(if is_terminal { 0 } else { last }))
    }

    /// Waits for more of the standard input. Returns the number of bytes, 0 at its end, and `None` after a signal.
    fn more(&mut self, waiting: &mut String) -> anyhow::Result<Option<usize>> {
        let mut bytes = [0; 4096];
        loop {
            let stdin = std::io::stdin();
            if !io::packet::readable(&stdin, Duration::ZERO)? {
                if self.built.signals.wait_with(&[stdin.as_fd()], IDLE).is_some() {
                    return Ok(None);
                }
                self.look();
                continue;
            }
            // Not the buffer of `Stdin`: what it holds would be neither here nor left for a command.
            let mut file = std::fs::File::from(stdin.as_fd().try_clone_to_owned()?);
            let length = file.read(&mut bytes)?;
            waiting.push_str(&String::from_utf8_lossy(&bytes[..length]));
            if length == 0 && !waiting.is_empty() {
                // The last line needs no end.
                waiting.push('\n');
                return Ok(Some(1));
            }
            return Ok(Some(length));
        }
    }

    /// Runs lines until one fails.
    pub fn lines(&mut self, lines: &[String]) -> anyhow::Result<Outcome> {
        for line in lines {
            match self.line(line)? {
                Some(Outcome::Status(0)) => {}
                Some(other) => return Ok(other),
                None => break,
            }
        }
        Ok(Outcome::Status(0))
    }

    /// Runs a command of the caller.
    pub fn command(&mut self, words: &[String]) -> anyhow::Result<Outcome> {
        self.nodes();
        let mut command = Process::new(&words[0]);
        command.args(&words[1..]).env("STRAIT_LAB", self.built.lab.name());
        self.wait(command, Stdio::inherit())
    }

    /// Runs a line; `None` if it was `exit`.
    fn line(&mut self, line: &str) -> anyhow::Result<Option<Outcome>> {
        let command = command::read(&self.built.topology, line).map_err(anyhow::Error::msg)?;
        let done = Ok(Some(Outcome::Status(0)));
        match command {
            Command::Nothing => done,
            Command::Exit => Ok(None),
            Command::Help => {
                println!("{HELP}");
                done
            }
            Command::Nodes => {
                self.nodes();
                done
            }
            Command::PingAll => {
                let pings = pings::all(&self.built.network, &self.built.topology)?;
                let good = pings::report(&pings, self.json);
                Ok(Some(Outcome::Status(u8::from(!good))))
            }
            Command::Capture(end, file) => {
                self.capture(&end, Path::new(&file)).map(|()| Some(Outcome::Status(0)))
            }
            Command::Log(name) => {
                let switch = self.built.switches.iter().find(|s| s.plan.switch.name == name);
                print!("{}", switch.context("the switch does not run")?.told());
                done
            }
            Command::Table(name, words) => self.table(&name, &words).map(Some),
            Command::On(node, line) => {
                let command = inside(&self.built.lab, &node, &["sh", "-c", &line]);
                self.wait(command, input()).map(Some)
            }
            Command::Shell(line) => {
                let mut command = Process::new("sh");
                command.args(["-c", &line]).env("STRAIT_LAB", self.built.lab.name());
                self.wait(command, input()).map(Some)
            }
        }
    }

    /// `strait table` with a switch.
    fn table(&mut self, name: &str, words: &[String]) -> anyhow::Result<Outcome> {
        let switch = self.built.switches.iter().find(|s| s.plan.switch.name == name);
        let switch = switch.context("the switch does not run")?;
        let mut command = Process::new(std::env::current_exe().context("where is this program?")?);
        // Options stand first: words such as those of an entry end them.
        command.args(["table", "--grpc", &switch.grpc]);
        command.args(["--device", &switch.plan.switch.device.to_string()]).args(words);
        self.wait(command, input())
    }

    fn capture(&mut self, end: &End, file: &Path) -> anyhow::Result<()> {
        let topology = &self.built.topology;
        let (number, link) = topology
            .links
            .iter()
            .enumerate()
            .find(|(_, link)| link.ends.contains(end))
            .context("no link is there")?;
        let ends = self.built.network.wire(number, link, end)?;
        self.captures.push(Capture::start(file, ends)?);
        Ok(())
    }

    /// Waits for a command. Ctrl-C at the terminal reaches it, too; other signals end the lab, and the command with it.
    fn wait(&mut self, mut command: Process, input: Stdio) -> anyhow::Result<Outcome> {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = signals::unblock_in(command.stdin(input))
            .spawn()
            .with_context(|| format!("cannot run `{name}`"))?;
        let is_interactive = std::io::stdin().is_terminal();
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Outcome::Status(code(status)));
            }
            match self.built.signals.wait(TURN) {
                None => {}
                Some(Signal::Interrupt) if is_interactive => {}
                Some(_) => {
                    end(&mut child);
                    return Ok(Outcome::Ended);
                }
            }
        }
    }

    /// Warns of switches that have ended.
    fn look(&mut self) {
        self.built.switches.retain_mut(|switch| {
            let ended = switch.ended();
            if let Some(status) = ended {
                let name = &switch.plan.switch.name;
                eprintln!("warning: switch {name} has ended ({status}):\n{}", switch.told().trim_end());
            }
            ended.is_none()
        });
    }

    /// Shows what there is.
    fn nodes(&self) {
        let Built { topology, lab, switches, .. } = &*self.built;
        for host in &topology.hosts {
            let addresses: Vec<String> = host.addresses.iter().map(ToString::to_string).collect();
            let links = neighbours(topology, &host.name);
            let space = owner::namespace(lab.name(), &host.name);
            eprintln!("host   {:<8} {space:<20} {:<20} {links}", host.name, addresses.join(" "));
        }
        for running in switches {
            let (plan, switch) = (&running.plan, &running.plan.switch);
            let space = owner::namespace(lab.name(), &switch.name);
            let program =
                plan.program.as_ref().map_or("no program yet".to_string(), |file| file.display().to_string());
            eprintln!(
                "switch {:<8} {space:<20} {program} on {}, P4Runtime {} device {}; {}",
                switch.name,
                plan.target,
                running.grpc,
                switch.device,
                neighbours(topology, &switch.name)
            );
        }
    }
}

/// What is at the links of a node.
fn neighbours(topology: &Topology, node: &str) -> String {
    let other = |link: &Link, end: &End| link.ends.iter().find(|other| *other != end).cloned();
    let all: Vec<String> = topology
        .ends_of(node)
        .filter_map(|(end, link)| Some((end, other(link, end)?)))
        .map(|(end, far)| match topology.host(&far.node).is_some() && far.port == 0 {
            true => format!("{}={}", end.port, far.node),
            false => format!("{}={}:{}", end.port, far.node, far.port),
        })
        .collect();
    all.join(" ")
}

/// The standard input of a command at the prompt: the terminal, or nothing, because the lines of a script are not for it.
fn input() -> Stdio {
    if std::io::stdin().is_terminal() { Stdio::inherit() } else { Stdio::null() }
}

/// The exit status as a shell shows it.
fn code(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt as _;
    let number = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    number.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// Ends a command.
fn end(child: &mut Child) {
    let _ = signals::send(child.id(), Signal::Terminate);
    for _ in 0..100 {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(TURN);
    }
    let _ = child.kill();
    let _ = child.wait();
}
