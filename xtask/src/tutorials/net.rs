//! A lab that runs, and processes in its hosts.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use io::signals::{self, Signal};

/// How long anything may take that is waited for.
const PATIENCE: Duration = Duration::from_secs(40);

/// Where an exercise is, and what runs it.
pub struct Place {
    pub strait: PathBuf,
    pub python: PathBuf,
    /// What PyPI's package of P4Runtime lacks.
    pub shim: PathBuf,
    pub ideal_links: bool,
    /// The copy of the exercise.
    pub directory: PathBuf,
    pub target: String,
}

/// A lab. Dropping it takes it down.
pub struct Net<'a> {
    place: &'a Place,
    name: String,
    lab: Child,
}

/// Runs a line of a shell.
pub fn shell(directory: &Path, line: &str) -> anyhow::Result<()> {
    let output = Command::new("sh").args(["-c", line]).current_dir(directory).output()?;
    ensure!(output.status.success(), "`{line}`: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

impl<'a> Net<'a> {
    /// Builds a topology. `programs` are the options that name programs.
    pub fn start(place: &'a Place, topology: &str, programs: &[&str]) -> anyhow::Result<Net<'a>> {
        let name = format!("tut{}", std::process::id());
        let mut command = Command::new(&place.strait);
        command.current_dir(&place.directory).args([
            "lab",
            topology,
            "--name",
            &name,
            "--target",
            &place.target,
        ]);
        for program in programs {
            command.args(["--program", program]);
        }
        if place.ideal_links {
            command.arg("--ideal-links");
        }
        // The lab is there until its command has no input any more.
        command.args(["--", "sh", "-c", "echo ready; cat"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let told = place.directory.join("lab.log");
        let mut lab = command.stderr(File::create(&told)?).spawn()?;
        let mut line = String::new();
        BufReader::new(lab.stdout.take().context("a pipe")?).read_line(&mut line)?;
        let net = Net { place, name, lab };
        ensure!(line.trim() == "ready", "{}", std::fs::read_to_string(&told)?.trim());
        Ok(net)
    }

    /// A command in a host.
    fn command(&self, node: &str, words: &[&str]) -> Command {
        let mut command = Command::new(&self.place.strait);
        command.args(["lab", "exec", "--name", &self.name, node]).args(words);
        command.current_dir(&self.place.directory);
        command
    }

    /// Runs a command in a host, at most for 20 s. Returns what it has printed, and whether it has succeeded.
    pub fn run(&self, node: &str, words: &[&str], input: &str) -> anyhow::Result<(String, bool)> {
        let mut command = self.command(node, &[&["timeout", "20"], words].concat());
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        child.stdin.take().context("a pipe")?.write_all(input.as_bytes())?;
        let output = child.wait_with_output()?;
        let text = [output.stdout, output.stderr].concat();
        Ok((String::from_utf8_lossy(&text).into_owned(), output.status.success()))
    }

    /// Runs a script of the exercise in a host. It must succeed.
    pub fn python(&self, node: &str, words: &[&str], input: &str) -> anyhow::Result<String> {
        let python = self.place.python.to_string_lossy();
        let (text, good) = self.run(node, &[&[&*python, "-u"], words].concat(), input)?;
        ensure!(good, "{node} {}: {text}", words.join(" "));
        Ok(text)
    }

    /// Starts a script of the exercise in a host.
    pub fn background(&self, node: &str, words: &[&str]) -> anyhow::Result<Background> {
        let python = self.place.python.to_string_lossy();
        let command = self.command(node, &[&[&*python, "-u"], words].concat());
        Background::start(command, self.place, &format!("{node}.log"))
    }

    /// Runs a command of Strait, such as a client of a switch. Returns what it has printed.
    pub fn strait(&self, words: &[&str]) -> anyhow::Result<String> {
        let output = Command::new(&self.place.strait).args(words).output()?;
        ensure!(output.status.success(), "{}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Starts `receive.py`, and waits until it listens.
    pub fn receiver(&self, node: &str) -> anyhow::Result<Background> {
        let receiver = self.background(node, &["receive.py"])?;
        receiver.wait_for("sniffing on")?;
        // scapy says so before it has a socket.
        std::thread::sleep(Duration::from_millis(1500));
        Ok(receiver)
    }

    /// Starts a controller of the exercise, where the lab was started.
    pub fn controller(&self) -> anyhow::Result<Background> {
        let mut command = Command::new(&self.place.python);
        command.args(["-u", "mycontroller.py"]).current_dir(&self.place.directory);
        command.env("PYTHONPATH", &self.place.shim);
        Background::start(command, self.place, "controller.log")
    }

    /// Whether a host reaches another.
    pub fn pings(&self, from: &str, to: &str) -> anyhow::Result<bool> {
        Ok(self.run(from, &["ping", "-c", "3", "-i", "0.3", "-W", "2", to], "")?.1)
    }

    /// All of these hosts ping one another.
    pub fn ping_all(&self, hosts: &[&str]) -> anyhow::Result<String> {
        for from in hosts {
            for to in hosts.iter().filter(|to| *to != from) {
                ensure!(self.pings(from, to)?, "{from} does not reach {to}");
            }
        }
        Ok(format!("{} hosts ping one another", hosts.len()))
    }
}

impl Drop for Net<'_> {
    fn drop(&mut self) {
        drop(self.lab.stdin.take());
        let _ = self.lab.wait();
    }
}

/// A process in the background, whose output is in a file. Dropping it ends it.
pub struct Background {
    child: Child,
    log: PathBuf,
}

impl Background {
    fn start(mut command: Command, place: &Place, log: &str) -> anyhow::Result<Background> {
        let log = place.directory.join(log);
        let output = File::create(&log)?;
        let child = command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).spawn()?;
        Ok(Background { child, log })
    }

    /// What it has printed.
    pub fn text(&self) -> anyhow::Result<String> {
        Ok(String::from_utf8_lossy(&std::fs::read(&self.log)?).into_owned())
    }

    /// Waits until it has printed a text.
    pub fn wait_for(&self, wanted: &str) -> anyhow::Result<String> {
        self.wait_until(wanted, |text| text.contains(wanted))
    }

    /// Waits until what it has printed is good.
    pub fn wait_until(&self, what: &str, good: impl Fn(&str) -> bool) -> anyhow::Result<String> {
        let begun = Instant::now();
        loop {
            let text = self.text()?;
            if good(&text) {
                return Ok(text);
            }
            if begun.elapsed() > PATIENCE {
                bail!(
                    "no `{what}` in {}",
                    text.chars().rev().take(600).collect::<Vec<_>>().iter().rev().collect::<String>()
                );
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = signals::send(self.child.id(), Signal::Terminate);
        let _ = self.child.wait();
    }
}
