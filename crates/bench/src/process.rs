//! Runs other programs: in the foreground with a time limit, or in the background with an owner that ends them.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Error, Result, interrupt};

/// The time limit of a command that only changes configuration.
const CONFIGURE: Duration = Duration::from_secs(30);

/// The interval at which a running child is checked.
const POLL: Duration = Duration::from_millis(5);

/// The directories where programs are looked for and found: those of `PATH`, and those of root, which are missing in the `PATH` of an ordinary
/// user of Debian.
fn directories() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/bin", "/usr/bin", "/bin"];
    std::env::split_paths(&path).chain(usual.map(Into::into)).collect()
}

/// Whether `tool` is in one of the directories where [`Job`] finds programs.
pub fn installed(tool: &str) -> bool {
    directories().iter().any(|dir| dir.join(tool).is_file())
}

/// Returns [`Error::Missing`] unless `tool` is installed.
pub fn need(tool: &'static str, package: &'static str) -> Result<()> {
    if installed(tool) { Ok(()) } else { Err(Error::Missing { tool, package }) }
}

/// Runs a configuration command to its end and returns its standard output. Interrupts do not stop it, because clean-up uses it too and it
/// is short.
pub fn run(command: &mut Command) -> Result<String> {
    run_with_input(command, "")
}

/// Does the same as [`run`], with text for the command's standard input, such as a batch for `ip`.
pub fn run_with_input(command: &mut Command, input: &str) -> Result<String> {
    let mut job = Job::start(command, Stdio::piped())?;
    if let Some(mut stdin) = job.child.stdin.take() {
        // A write error means that the command ended early. Its exit status then explains why.
        let _ = stdin.write_all(input.as_bytes());
    }
    job.output(CONFIGURE, || Ok(()))
}

/// Runs a measurement to its end, at most for `limit`, and returns its standard output. An interrupt ends it at once.
pub fn measure(command: &mut Command, limit: Duration) -> Result<String> {
    Job::start(command, Stdio::null())?.output(limit, interrupt::check)
}

/// A program in the background. Dropping the value ends it.
pub struct Job {
    child: Child,
    command: String,
    stdout: Option<Lines>,
    stderr: Option<Lines>,
}

impl Job {
    /// Starts a program in the background.
    pub fn background(command: &mut Command) -> Result<Self> {
        Self::start(command, Stdio::null())
    }

    fn start(command: &mut Command, stdin: Stdio) -> Result<Self> {
        let line = command_line(command);
        // The child has its own process group, so Ctrl-C at the terminal reaches this process only. It then ends its children in order, and
        // never interrupts a running `ip netns del`.
        command.process_group(0);
        // A directory whose name has a colon cannot be in a search path; then the path stays as it is.
        if let Ok(path) = std::env::join_paths(directories()) {
            command.env("PATH", path);
        }
        let mut child = command
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|source| Error::System { what: format!("run `{line}`"), source })?;
        let stdout = child.stdout.take().map(Lines::of_stdout);
        let stderr = child.stderr.take().map(Lines::of_stderr);
        Ok(Self { child, command: line, stdout, stderr })
    }

    /// Waits until the program prints a line that contains `text`, the sign that it is ready. If the program ends first, its output is the
    /// text of the error.
    pub fn wait_for(&mut self, text: &str, limit: Duration) -> Result<()> {
        let until = Instant::now() + limit;
        let (mut said, mut complained) = (String::new(), String::new());
        let (Some(stdout), Some(stderr)) = (&self.stdout, &self.stderr) else { return Ok(()) };
        while Instant::now() < until {
            interrupt::check()?;
            complained
                .extend(stderr.chunks.try_iter().map(|chunk| String::from_utf8_lossy(&chunk).into_owned()));
            match stdout.chunks.recv_timeout(POLL) {
                Ok(chunk) => said.push_str(&String::from_utf8_lossy(&chunk)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let status = self.child.wait().ok();
                    let errors = self.stderr.take().map(Lines::text).unwrap_or_default();
                    return Err(self.failure(status, said + &complained + &errors));
                }
            }
            if said.contains(text) || complained.contains(text) {
                return Ok(());
            }
        }
        Err(Error::Timeout { command: self.command.clone(), limit })
    }

    /// Whether the program is still running.
    pub fn running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    fn output(mut self, limit: Duration, check: fn() -> Result<()>) -> Result<String> {
        let status = self.wait(limit, check)?;
        let stdout = self.stdout.take().map(Lines::text).unwrap_or_default();
        if status.success() {
            return Ok(stdout);
        }
        let stderr = self.stderr.take().map(Lines::text).unwrap_or_default();
        Err(self.failure(Some(status), if stderr.trim().is_empty() { stdout } else { stderr }))
    }

    fn wait(&mut self, limit: Duration, check: fn() -> Result<()>) -> Result<ExitStatus> {
        let until = Instant::now() + limit;
        loop {
            check()?;
            match self.child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) if Instant::now() > until => {
                    return Err(Error::Timeout { command: self.command.clone(), limit });
                }
                Ok(None) => thread::sleep(POLL),
                Err(source) => {
                    return Err(Error::System { what: format!("wait for `{}`", self.command), source });
                }
            }
        }
    }

    fn failure(&self, status: Option<ExitStatus>, output: String) -> Error {
        let status = status.map_or_else(|| "it ended".to_owned(), |status| status.to_string());
        Error::Command { command: self.command.clone(), status, output }
    }
}

impl Drop for Job {
    /// Ends the program if it still runs, and waits for it so that no zombie remains.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A pipe that a separate thread empties, so that a child with much output never blocks on it.
struct Lines {
    chunks: Receiver<Vec<u8>>,
}

impl Lines {
    fn of_stdout(pipe: ChildStdout) -> Self {
        Self::of(pipe)
    }

    fn of_stderr(pipe: ChildStderr) -> Self {
        Self::of(pipe)
    }

    fn of(mut pipe: impl Read + Send + 'static) -> Self {
        let (sender, chunks) = channel();
        thread::spawn(move || {
            let mut buffer = [0; 8192];
            while let Ok(length @ 1..) = pipe.read(&mut buffer) {
                if sender.send(buffer[..length].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { chunks }
    }

    /// The text up to the end of the pipe.
    fn text(self) -> String {
        String::from_utf8_lossy(&self.chunks.iter().flatten().collect::<Vec<u8>>()).into_owned()
    }
}

/// The command line as a person would type it, for messages.
fn command_line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_comes_back() {
        assert_eq!(run(Command::new("echo").arg("hello")).unwrap(), "hello\n");
        assert_eq!(run_with_input(&mut Command::new("cat"), "a batch").unwrap(), "a batch");
    }

    #[test]
    fn a_failure_says_what_ran_and_what_it_said() {
        let error = run(Command::new("sh").args(["-c", "echo no such thing >&2; exit 3"])).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("sh -c") && text.contains("no such thing") && text.contains('3'), "{text}");
    }

    #[test]
    fn a_hanging_command_is_ended() {
        let error = measure(Command::new("sleep").arg("60"), Duration::from_millis(50)).unwrap_err();
        assert!(matches!(error, Error::Timeout { .. }), "{error}");
    }

    #[test]
    fn waiting_for_a_sign_of_life() {
        let mut job = Job::background(Command::new("sh").args(["-c", "echo ready; sleep 60"])).unwrap();
        job.wait_for("ready", Duration::from_secs(5)).unwrap();
        assert!(job.running());
        let mut dead = Job::background(Command::new("sh").args(["-c", "echo oops >&2"])).unwrap();
        let error = dead.wait_for("ready", Duration::from_secs(5)).unwrap_err();
        assert!(error.to_string().contains("oops"), "{error}");
    }
}
