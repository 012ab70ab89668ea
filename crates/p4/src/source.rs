//! Source files, and locations in them.
//!
//! All files of a run share one offset space: each file begins where the one before ended. So a [`Span`] is two
//! numbers, and its file can be found. Text that a macro produced has the span of the macro's use.

use std::sync::Arc;

/// A range of bytes in the offset space of a [`SourceMap`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// The byte after the last.
    pub end: u32,
}

impl Span {
    /// Whether another span is inside of this one.
    pub fn contains(self, other: Span) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// The span from one offset to another.
    pub fn new(start: u32, end: u32) -> Span {
        Span { start, end }
    }

    /// The smallest span that contains both.
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// The empty span directly after this one.
    pub fn after(self) -> Span {
        Span { start: self.end, end: self.end }
    }
}

/// A source file.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// The name that the user or an include gave.
    pub name: String,
    /// Its text.
    pub text: Arc<str>,
    /// The offset of its first byte.
    pub start: u32,
    /// The `#include` that read it, if there was one.
    pub included_at: Option<Span>,
    /// The offsets of its lines, relative to the start of the file.
    lines: Vec<u32>,
}

impl SourceFile {
    /// The line and the column (in characters) of a byte of this file. Both count from 1.
    pub fn position(&self, offset: u32) -> (usize, usize) {
        let at = offset.saturating_sub(self.start).min(self.text.len() as u32);
        let line = self.lines.partition_point(|&l| l <= at).max(1);
        let begin = self.lines[line - 1] as usize;
        let column = self.text.get(begin..at as usize).map_or(0, |t| t.chars().count());
        (line, column + 1)
    }
}

/// A location for users: file, line and column. Lines and columns count from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The name of the file.
    pub file: String,
    /// The index of the file in the [`SourceMap`].
    pub file_index: usize,
    /// The line, counted from 1.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

/// A use of a macro.
#[derive(Clone, Debug)]
pub struct Expansion {
    /// The location of the use, which is the span of all tokens that it produced.
    pub used: Span,
    /// The name of the macro.
    pub name: Arc<str>,
    /// The location of its definition; `None` for `-D`.
    pub defined: Option<Span>,
}

/// All files of a run, and all uses of macros in them.
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    files: Vec<SourceFile>,
    expansions: Vec<Expansion>,
}

impl SourceMap {
    /// Adds a file, and returns its index. The offset space has 4 GiB; files beyond that share its last offset.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<Arc<str>>) -> usize {
        let text = text.into();
        // There is one byte between two files, so that the end of one is not the start of the next.
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

    /// Forgets which `#include` read a file that the user has named otherwise.
    pub(crate) fn forget_include(&mut self, index: usize) {
        if let Some(file) = self.files.get_mut(index) {
            file.included_at = None;
        }
    }

    /// Records a use of a macro.
    pub fn note_expansion(&mut self, expansion: Expansion) {
        self.expansions.push(expansion);
    }

    /// The use of a macro that produced the text at the start of a span.
    pub fn expansion(&self, span: Span) -> Option<&Expansion> {
        self.expansions.iter().find(|e| e.used.start <= span.start && span.start < e.used.end)
    }

    /// All files, in the order in which they were added.
    pub fn files(&self) -> &[SourceFile] {
        &self.files
    }

    /// The index of the file that contains an offset.
    pub fn file_index(&self, offset: u32) -> usize {
        self.files.partition_point(|f| f.start <= offset).saturating_sub(1)
    }

    /// The file that contains the start of a span.
    pub fn file(&self, span: Span) -> Option<&SourceFile> {
        self.files.get(self.file_index(span.start))
    }

    /// The location of the start of a span.
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

    /// The word at a line and a column of a file. The arguments count as in [`SourceMap::position`].
    pub fn span_at(&self, file: usize, line: usize, column: usize) -> Span {
        let Some(file) = self.files.get(file) else { return Span::default() };
        let begin = file.lines.get(line.saturating_sub(1)).map_or(file.text.len(), |l| *l as usize);
        let rest = file.text.get(begin..).unwrap_or_default();
        let within = rest.char_indices().nth(column.saturating_sub(1)).map_or(rest.len(), |(i, _)| i);
        let word = rest[within..].find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(0);
        let start = file.start + (begin + within) as u32;
        Span::new(start, start + word as u32)
    }

    /// The text of the `if` or `switch` that begins at a line and a column of a file, up to the end of its condition, on one line.
    pub fn condition_at(&self, file: usize, line: usize, column: usize) -> Option<String> {
        let start = self.span_at(file, line, column);
        if !matches!(self.text(start), "if" | "switch") {
            return None;
        }
        let file = self.file(start)?;
        let text = file.text.get((start.start - file.start) as usize..)?;
        let mut open = 0u32;
        let closes = |(_, c): &(usize, char)| {
            match c {
                '(' => open += 1,
                ')' => open = open.saturating_sub(1),
                _ => return false,
            }
            open == 0
        };
        let end = text.char_indices().find(closes)?.0 + 1;
        Some(text[..end].split_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// The location of the end of a span (exclusive), in the file where it starts.
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

    /// The text of a span. It is empty if the span is in several files.
    pub fn text(&self, span: Span) -> &str {
        let text = self.file(span).and_then(|f| {
            let (from, to) = (span.start.checked_sub(f.start)?, span.end.checked_sub(f.start)?);
            f.text.get(from as usize..to as usize)
        });
        text.unwrap_or_default()
    }
}

/// Access to other files for the preprocessor. This crate opens no files.
pub trait SourceProvider {
    /// Finds an include. `from` is the name of the file that includes it. `quoted` is true for `"name"`, and false for
    /// `<name>`. Returns the name to show, and the text.
    fn include(&self, name: &str, from: &str, quoted: bool) -> Option<(String, String)>;
}

/// The built-in includes: `core.p4`, `v1model.p4`, `psa.p4`, `pna.p4`, and `strait.p4` with what only Strait has. PSA and
/// PNA also have the names of p4c's targets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Embedded;

impl SourceProvider for Embedded {
    fn include(&self, name: &str, _from: &str, _quoted: bool) -> Option<(String, String)> {
        let text = match name {
            "strait.p4" => include_str!("../../../p4include/strait.p4"),
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
