//! Diagnostics: what is wrong with a program, where, and what to do about it. A P4 mistake is a value, never a panic.

use crate::source::Span;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The program is accepted all the same.
    Warning,
    /// The program is rejected.
    Error,
}

/// A marked place and what to say there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Where.
    pub span: Span,
    /// What.
    pub text: String,
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Stable name, such as `E0201`: 00 preprocessor, 01 lexer and parser, 02 names, 03 types, 04 tables, parsers and
    /// controls, 05 lowering and limits of this release.
    pub code: &'static str,
    /// How bad.
    pub severity: Severity,
    /// What is wrong, in one sentence.
    pub message: String,
    /// The place, and what to say right there (may be empty).
    pub primary: Label,
    /// Other places that matter.
    pub secondary: Vec<Label>,
    /// What to do.
    pub hint: Option<String>,
}

impl Diagnostic {
    /// An error at a place.
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

    /// A warning at a place.
    pub fn warning(code: &'static str, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(code, span, message) }
    }

    /// Says something at the place itself.
    pub fn label(mut self, text: impl Into<String>) -> Diagnostic {
        self.primary.text = text.into();
        self
    }

    /// Marks another place.
    pub fn also(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        self.secondary.push(Label { span, text: text.into() });
        self
    }

    /// Says which of the known names is meant, or which there are.
    pub fn one_of(self, name: &str, what: &str, known: &[&str]) -> Diagnostic {
        match did_you_mean(name, known.iter().copied()) {
            Some(near) => self.hint(format!("did you mean `{near}`?")),
            None => self.hint(format!("{what}: {}", known.join(", "))),
        }
    }

    /// Says what to do.
    pub fn hint(mut self, text: impl Into<String>) -> Diagnostic {
        self.hint = Some(text.into());
        self
    }
}

/// The problems of a run, in the order they were found.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
}

impl Diagnostics {
    /// More than this many help nobody; the rest is dropped.
    const MOST: usize = 200;

    /// Adds one, unless the same place already has the same code.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        // An error is kept however many warnings there are: it decides whether the program is accepted.
        let first_error = diagnostic.severity == Severity::Error && !self.has_errors();
        if self.list.len() >= Self::MOST && !first_error {
            return;
        }
        let known = |d: &Diagnostic| d.code == diagnostic.code && d.primary.span == diagnostic.primary.span;
        if !self.list.iter().any(known) {
            self.list.push(diagnostic);
        }
    }

    /// Whether the program is rejected.
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|d| d.severity == Severity::Error)
    }

    /// All of them.
    pub fn list(&self) -> &[Diagnostic] {
        &self.list
    }

    /// Leaves out the warnings that nobody wants to see. Errors stay.
    pub fn silence(&mut self, unwanted: impl Fn(&Diagnostic) -> bool) {
        self.list.retain(|d| d.severity == Severity::Error || !unwanted(d));
    }

    /// Adds all of another run's.
    pub fn extend(&mut self, other: Diagnostics) {
        other.list.into_iter().for_each(|d| self.push(d));
    }
}

/// The known name that is nearest to a misspelt one, if any is near enough to be meant.
pub fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (name.chars().count() / 3).max(1);
    let scored = known.into_iter().map(|k| (strsim::damerau_levenshtein(name, k), k));
    scored.filter(|(d, k)| *d <= limit && *k != name).min().map(|(_, k)| k)
}
