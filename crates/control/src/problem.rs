//! A problem in a file that people write, with its place.

use std::fmt;
use std::ops::Range;

/// A problem in a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// The text of the line.
    pub text: String,
    /// The explanation of the problem.
    pub message: String,
    /// A hint that says how to correct it.
    pub hint: Option<String>,
}

impl Problem {
    /// A problem at a place of a file, which is given as bytes of its text. An empty hint is none.
    pub fn at(file: &str, span: Range<usize>, message: String, hint: String) -> Problem {
        let before = file.get(..span.start).unwrap_or_default();
        let line = before.matches('\n').count();
        let column = before.chars().rev().take_while(|&c| c != '\n').count();
        Problem {
            line: line + 1,
            column: column + 1,
            text: file.lines().nth(line).unwrap_or_default().to_string(),
            message,
            hint: (!hint.is_empty()).then_some(hint),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)?;
        if !self.text.is_empty() {
            write!(f, "\n  {:>4} | {}\n       | {:>width$}", self.line, self.text, "^", width = self.column)?;
        }
        match &self.hint {
            Some(hint) => write!(f, "\n  hint: {hint}"),
            None => Ok(()),
        }
    }
}

/// The word of a list that was probably meant.
pub fn near<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |k: &str| strsim::damerau_levenshtein(k, word);
    known.into_iter().filter(|k| distance(k) <= 2).min_by_key(|k| distance(k))
}
