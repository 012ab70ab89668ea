//! Source files and places in them.
//!
//! All files of a run share one offset space: file N begins where file N-1 ended, so a [`Span`] is two numbers and finds
//! its file again. Text that a macro produced has a span in the file that used the macro.

use std::sync::Arc;

/// A range of bytes in the offset space of a [`SourceMap`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// Whether another one lies in this one.
    pub fn contains(self, other: Span) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// From one offset to another.
    pub fn new(start: u32, end: u32) -> Span {
        Span { start, end }
    }

    /// The smallest span that covers both.
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// The empty place right behind it.
    pub fn after(self) -> Span {
        Span { start: self.end, end: self.end }
    }
}

/// One file.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// Name as the user or an include gave it.
    pub name: String,
    /// Its text.
    pub text: Arc<str>,
    /// Offset of its first byte.
    pub start: u32,
    /// The `#include` that brought it, if one did.
    pub included_at: Option<Span>,
    /// Offsets of its lines, relative to the file.
    lines: Vec<u32>,
}

impl SourceFile {
    /// Line and column (in characters), both from 1, of a byte in this file.
    pub fn position(&self, offset: u32) -> (usize, usize) {
        let at = offset.saturating_sub(self.start).min(self.text.len() as u32);
        let line = self.lines.partition_point(|&l| l <= at).max(1);
        let begin = self.lines[line - 1] as usize;
        let column = self.text.get(begin..at as usize).map_or(0, |t| t.chars().count());
        (line, column + 1)
    }
}

/// A place for people: file, line and column, the latter two from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// File name.
    pub file: String,
    /// Index of the file.
    pub file_index: usize,
    /// Line.
    pub line: usize,
    /// Column in characters.
    pub column: usize,
}

/// One use of a macro.
#[derive(Clone, Debug)]
pub struct Expansion {
    /// Where it is used: the span of all that it produced.
    pub used: Span,
    /// Its name.
    pub name: Arc<str>,
    /// Where it is defined; `None` for `-D`.
    pub defined: Option<Span>,
}

/// All files of a run, and the macros that were used in them.
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    files: Vec<SourceFile>,
    expansions: Vec<Expansion>,
}

impl SourceMap {
    /// Adds a file; its index counts from 0. The offset space holds 4 GiB; files behind that share its last byte.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<Arc<str>>) -> usize {
        let text = text.into();
        // One byte lies between two files, so that a span at the end of one is not the start of the next.
        let start = self.files.last().map_or(0, |f| f.start.saturating_add(f.text.len() as u32 + 1));
        let lines = [0].into_iter().chain(text.match_indices('\n').map(|(i, _)| i as u32 + 1)).collect();
        self.files.push(SourceFile { name: name.into(), text, start, included_at: None, lines });
        self.files.len() - 1
    }

    /// Adds a file that an `#include` names.
    pub fn add_included(&mut self, name: impl Into<String>, text: impl Into<Arc<str>>, at: Span) -> usize {
        let index = self.add(name, text);
        self.files[index].included_at = Some(at);
        index
    }

    /// Notes a use of a macro.
    pub fn note_expansion(&mut self, expansion: Expansion) {
        self.expansions.push(expansion);
    }

    /// The macro that made the text at a span's start, if one did.
    pub fn expansion(&self, span: Span) -> Option<&Expansion> {
        self.expansions.iter().find(|e| e.used.start <= span.start && span.start < e.used.end)
    }

    /// All files in the order they were added.
    pub fn files(&self) -> &[SourceFile] {
        &self.files
    }

    /// Index of the file that holds an offset.
    pub fn file_index(&self, offset: u32) -> usize {
        self.files.partition_point(|f| f.start <= offset).saturating_sub(1)
    }

    /// The file that holds a span's start.
    pub fn file(&self, span: Span) -> Option<&SourceFile> {
        self.files.get(self.file_index(span.start))
    }

    /// Where a span starts.
    pub fn position(&self, span: Span) -> Position {
        let file_index = self.file_index(span.start);
        match self.files.get(file_index) {
            Some(file) => {
                let (line, column) = file.position(span.start);
                Position { file: file.name.clone(), file_index, line, column }
            }
            None => Position { file: String::new(), file_index, line: 0, column: 0 },
        }
    }

    /// The word at a line and a column (in characters) of a file, all as [`SourceMap::position`] gives them.
    pub fn span_at(&self, file: usize, line: usize, column: usize) -> Span {
        let Some(file) = self.files.get(file) else { return Span::default() };
        let begin = file.lines.get(line.saturating_sub(1)).map_or(file.text.len(), |l| *l as usize);
        let rest = file.text.get(begin..).unwrap_or_default();
        let within = rest.char_indices().nth(column.saturating_sub(1)).map_or(rest.len(), |(i, _)| i);
        let word = rest[within..].find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(0);
        let start = file.start + (begin + within) as u32;
        Span::new(start, start + word as u32)
    }

    /// Where a span ends (exclusive), in the file where it starts.
    pub fn end_position(&self, span: Span) -> Position {
        let start = self.position(span);
        match self.files.get(start.file_index) {
            Some(file) => {
                let (line, column) = file.position(span.end.max(span.start));
                Position { line, column, ..start }
            }
            None => start,
        }
    }

    /// The text of a span, empty if it crosses files.
    pub fn text(&self, span: Span) -> &str {
        let text = self.file(span).and_then(|f| {
            let (from, to) = (span.start.checked_sub(f.start)?, span.end.checked_sub(f.start)?);
            f.text.get(from as usize..to as usize)
        });
        text.unwrap_or_default()
    }
}

/// How the preprocessor reaches other files. The crate itself opens none.
pub trait SourceProvider {
    /// Finds an include. `from` is the name of the file that asks, `quoted` tells `"name"` from `<name>`. Returns the name
    /// to show and the text.
    fn include(&self, name: &str, from: &str, quoted: bool) -> Option<(String, String)>;
}

/// Strait's own includes, embedded: `core.p4`, `v1model.p4`, `psa.p4`, `pna.p4`, the latter two also by the names of p4c's targets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Embedded;

impl SourceProvider for Embedded {
    fn include(&self, name: &str, _from: &str, _quoted: bool) -> Option<(String, String)> {
        let text = match name {
            "core.p4" => include_str!("../../../p4include/core.p4"),
            "v1model.p4" => include_str!("../../../p4include/v1model.p4"),
            "psa.p4" | "bmv2/psa.p4" => include_str!("../../../p4include/psa.p4"),
            "pna.p4" | "bmv2/pna.p4" => include_str!("../../../p4include/pna.p4"),
            "dpdk/psa.p4" => "#define STRAIT_DPDK\n#include <psa.p4>\n",
            "dpdk/pna.p4" => "#define STRAIT_DPDK\n#include <pna.p4>\n",
            _ => return None,
        };
        Some((format!("p4include/{name}"), text.to_string()))
    }
}
