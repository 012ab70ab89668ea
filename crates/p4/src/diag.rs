//! Diagnostics: what is wrong with a program, where, and what to do about it. A mistake in a P4 program is a value, and
//! no panic.

use crate::source::Span;

/// The severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The program is accepted.
    Warning,
    /// The program is rejected.
    Error,
}

/// A location, and a text about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// What the text is about.
    pub span: Span,
    /// The text beside the marked source; it may be empty.
    pub text: String,
}

/// A problem in a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The code, such as `E0201`, which never changes. The first two digits are the subject: 00 preprocessor, 01 lexer
    /// and parser, 02 names, 03 types, 04 tables, parsers and controls, 05 lowering and limits of this release.
    pub code: &'static str,
    /// Whether the program is rejected.
    pub severity: Severity,
    /// The problem, in one sentence.
    pub message: String,
    /// The location of the problem, with a text that may be empty.
    pub primary: Label,
    /// Other locations that are part of the problem.
    pub secondary: Vec<Label>,
    /// A hint what to do.
    pub hint: Option<String>,
}

impl Diagnostic {
    /// An error at a location.
    pub fn error(code: &'static str, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            code,
            severity: Severity::Error,
            message: message.into(),
            primary: Label { span, text: String::new() },
            secondary: Vec::new(),
            hint: None,
        }
    }

    /// A warning at a location.
    pub fn warning(code: &'static str, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(code, span, message) }
    }

    /// Sets the text at the location itself.
    pub fn label(mut self, text: impl Into<String>) -> Diagnostic {
        self.primary.text = text.into();
        self
    }

    /// Adds another location with a text.
    pub fn also(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        self.secondary.push(Label { span, text: text.into() });
        self
    }

    /// Adds a hint: the known name that is similar, or all known names.
    pub fn one_of(self, name: &str, what: &str, known: &[&str]) -> Diagnostic {
        match did_you_mean(name, known.iter().copied()) {
            Some(near) => self.hint(format!("did you mean `{near}`?")),
            None => self.hint(format!("{what}: {}", known.join(", "))),
        }
    }

    /// Sets the hint.
    pub fn hint(mut self, text: impl Into<String>) -> Diagnostic {
        self.hint = Some(text.into());
        self
    }
}

/// The diagnostics of a run, in the order in which they were found.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
}

impl Diagnostics {
    /// The most diagnostics that are kept.
    const MAX: usize = 200;

    /// Adds a diagnostic, unless there is one with the same code at the same location.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        // The first error is always kept, because it decides whether the program is accepted.
        let first_error = diagnostic.severity == Severity::Error && !self.has_errors();
        if self.list.len() >= Self::MAX && !first_error {
            return;
        }
        let known = |d: &Diagnostic| d.code == diagnostic.code && d.primary.span == diagnostic.primary.span;
        if !self.list.iter().any(known) {
            self.list.push(diagnostic);
        }
    }

    /// Whether there is an error, so that the program is rejected.
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|d| d.severity == Severity::Error)
    }

    /// The diagnostics in the order in which they were reported.
    pub fn list(&self) -> &[Diagnostic] {
        &self.list
    }

    /// Removes the warnings for which `unwanted` is true. Errors are kept.
    pub fn silence(&mut self, unwanted: impl Fn(&Diagnostic) -> bool) {
        self.list.retain(|d| d.severity == Severity::Error || !unwanted(d));
    }

    /// Adds all diagnostics of another run.
    pub fn extend(&mut self, other: Diagnostics) {
        other.list.into_iter().for_each(|d| self.push(d));
    }
}

/// The known name that is most similar to a misspelt one, if one is similar enough.
pub fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (name.chars().count() / 3).max(1);
    let scored = known.into_iter().map(|k| (strsim::damerau_levenshtein(name, k), k));
    scored.filter(|(d, k)| *d <= limit && *k != name).min().map(|(_, k)| k)
}
