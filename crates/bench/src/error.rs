//! What can go wrong around a measurement: the machine's failures, not the packets'.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// A failed benchmark or demo. Each message says what to do about it where something can be done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Namespaces and eBPF both need root.
    #[error(
        "this needs root: it makes network namespaces and loads eBPF programs. \
         Run it again with sudo"
    )]
    NotRoot,

    /// A program that the measurement runs is not installed.
    #[error("`{tool}` is not installed: on Debian and Ubuntu, apt-get install {package}")]
    Missing {
        /// The command that was looked for.
        tool: &'static str,
        /// The Debian package that has it.
        package: &'static str,
    },

    /// A command ran and failed.
    #[error("`{command}` failed ({status}){}", indented(.output))]
    Command {
        /// The command line.
        command: String,
        /// Its exit status in words.
        status: String,
        /// What it printed on standard error, or on standard output when that was empty.
        output: String,
    },

    /// A command ran longer than it could sensibly take; it was killed.
    #[error("`{command}` did not finish within {} s", .limit.as_secs())]
    Timeout {
        /// The command line.
        command: String,
        /// The time it had.
        limit: Duration,
    },

    /// A command's output was not what its manual promises.
    #[error("cannot read the output of {tool}: {detail}")]
    Output {
        /// The tool.
        tool: &'static str,
        /// What was missing or odd.
        detail: String,
    },

    /// A file could not be read or written.
    #[error("{}: {source}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },

    /// A system call outside of file access failed.
    #[error("cannot {what}: {source}")]
    System {
        /// What was attempted, as the end of the sentence "cannot …".
        what: String,
        /// The operating system's answer.
        source: io::Error,
    },

    /// Traffic went in and did not come out as it should have.
    #[error("{0}")]
    Traffic(String),

    /// A ratio stayed below what `--min-ratio` asked for.
    #[error("{} of {} throughput ratios are below {wanted:.2}; the lowest is {lowest:.2} ({cell})", .below, .of)]
    TooSlow {
        /// How many ratios are too low.
        below: usize,
        /// How many there are.
        of: usize,
        /// The bound.
        wanted: f64,
        /// The worst ratio.
        lowest: f64,
        /// Where the worst one was measured, in words.
        cell: String,
    },

    /// An option has a value that makes no sense.
    #[error("{0}")]
    Usage(String),

    /// A packet driver or what forwards over it failed.
    #[error("{0}")]
    Driver(String),

    /// The plot could not be drawn.
    #[error("cannot draw the plot: {0}")]
    Plot(String),

    /// Ctrl-C or SIGTERM.
    #[error("interrupted; everything was removed again")]
    Interrupted,
}

/// The result of everything here that touches the machine.
pub type Result<T> = std::result::Result<T, Error>;

/// A command's output below its error message, or nothing when it said nothing.
fn indented(output: &str) -> String {
    let output = output.trim();
    if output.is_empty() { String::new() } else { format!(":\n    {}", output.replace('\n', "\n    ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_shows_its_output_indented() {
        let error = Error::Command {
            command: "ip link add x".into(),
            status: "exit status: 2".into(),
            output: "RTNETLINK answers\nFile exists\n".into(),
        };
        let text = error.to_string();
        assert_eq!(text, "`ip link add x` failed (exit status: 2):\n    RTNETLINK answers\n    File exists");
    }
}
