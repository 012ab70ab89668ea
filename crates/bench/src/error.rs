//! Failures of a benchmark that come from the machine or its configuration. Lost packets are results, not errors.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// A failed benchmark or demo. Where possible, the message says how to fix the problem. The fields of a variant are the parts of its
/// message.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    /// The process does not run as root, which namespaces and eBPF need.
    #[error(
        "this needs root: it makes network namespaces and loads eBPF programs. \
         Run it again with sudo"
    )]
    NotRoot,

    /// A program that the measurement runs is not installed.
    #[error("`{tool}` is not installed: on Debian and Ubuntu, apt-get install {package}")]
    Missing { tool: &'static str, package: &'static str },

    /// A command ran and failed.
    #[error("`{command}` failed ({status}){}", indented(.output))]
    Command { command: String, status: String, output: String },

    /// A command exceeded its time limit and was killed.
    #[error("`{command}` did not finish within {} s", .limit.as_secs())]
    Timeout { command: String, limit: Duration },

    /// A command's output did not have the documented form.
    #[error("cannot read the output of {tool}: {detail}")]
    Output { tool: &'static str, detail: String },

    /// A file could not be read or written.
    #[error("{}: {source}", .path.display())]
    File { path: PathBuf, source: io::Error },

    /// A system call outside of file access failed.
    #[error("cannot {what}: {source}")]
    System { what: String, source: io::Error },

    /// The machine refused something that does not depend on the measurement.
    #[error(transparent)]
    Machine(#[from] ::io::Error),

    /// Traffic did not arrive, or it arrived changed.
    #[error("{0}")]
    Traffic(String),

    /// A throughput ratio is below the limit of `--min-ratio`.
    #[error("{} of {} throughput ratios are below {wanted:.2}; the lowest is {lowest:.2} ({cell})", .below, .of)]
    TooSlow { below: usize, of: usize, wanted: f64, lowest: f64, cell: String },

    /// An option has an invalid value.
    #[error("{0}")]
    Usage(String),

    /// A packet driver or a forwarder failed.
    #[error("{0}")]
    Driver(String),

    /// The plot could not be drawn.
    #[error("cannot draw the plot: {0}")]
    Plot(String),

    /// The user or the system stopped the run (Ctrl-C, SIGTERM or SIGHUP).
    #[error("interrupted; everything was removed again")]
    Interrupted,
}

/// The result of an operation on the machine.
pub type Result<T> = std::result::Result<T, Error>;

/// A command's output, indented, to be appended to its error message; empty if there is no output.
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
