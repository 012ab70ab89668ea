//! Limits of this release as diagnostics. Each code is always a warning or always an error. `strait check` warns about
//! what no target runs (W0501), and about what some target does not run (W0502). If a target is given, each limit of it
//! is an error with its own code.

use crate::diag::{Diagnostic, Diagnostics, Severity};
use crate::source::Span;

/// A target with limits of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// eBPF for the kernel's traffic control.
    Tc,
    /// eBPF for the kernel's express data path.
    Xdp,
    /// Machine code.
    Native,
}

impl Target {
    /// The name of the target on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Target::Tc => "tc",
            Target::Xdp => "xdp",
            Target::Native => "native",
        }
    }

    /// An error about something that this target cannot run.
    pub fn limit(self, at: Span, what: &str, hint: &str) -> Diagnostic {
        let code = match self {
            Target::Tc => "E0551",
            Target::Native => "E0552",
            Target::Xdp => "E0553",
        };
        Diagnostic::error(code, at, format!("{}: {what}", self.name())).hint(hint)
    }

    /// A warning with the first of several limits of this target.
    pub fn note(self, first: &Diagnostic, more: usize) -> Diagnostic {
        let others =
            if more == 0 { String::new() } else { format!(" ({more} more: `--target {}`)", self.name()) };
        let text = first.message.strip_prefix(self.name()).unwrap_or(&first.message);
        let text = format!("{} cannot run this program{text}{others}", self.name());
        Diagnostic { code: "W0502", severity: Severity::Warning, message: text, ..first.clone() }
    }
}

/// The limits that lowering reported, as warnings: the program is right, but no target of this release runs it.
pub fn of_every_target(refused: &Diagnostics) -> Vec<Diagnostic> {
    let warning = |d: &Diagnostic| match d.severity {
        Severity::Error => Diagnostic { code: "W0501", severity: Severity::Warning, ..d.clone() },
        Severity::Warning => d.clone(),
    };
    refused.list().iter().map(warning).collect()
}
