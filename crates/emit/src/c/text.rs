//! A buffer for the text of a program.

use std::fmt::Write as _;

/// Text with an indentation of four columns for each level.
#[derive(Debug, Default)]
pub struct Text {
    out: String,
    depth: usize,
}

impl Text {
    /// Appends a line with the current indentation.
    pub fn line(&mut self, line: impl AsRef<str>) {
        let line = line.as_ref();
        if line.is_empty() {
            self.out.push('\n');
            return;
        }
        // Writing to a String cannot fail.
        let _ = writeln!(self.out, "{:width$}{line}", "", width = self.depth * 4);
    }

    /// Appends a line without indentation, for labels and the preprocessor.
    pub fn margin(&mut self, line: impl AsRef<str>) {
        self.out.push_str(line.as_ref());
        self.out.push('\n');
    }

    /// Appends text unchanged.
    pub fn raw(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// Appends the line `head {`, and indents the following lines by one more level.
    pub fn open(&mut self, head: impl AsRef<str>) {
        self.line(format!("{} {{", head.as_ref()).trim_start());
        self.depth += 1;
    }

    /// Indents the following lines by one more level, after a line that contained an opening brace.
    pub fn indent(&mut self) {
        self.depth += 1;
    }

    /// Ends a level, and appends a line with `}` and `tail`.
    pub fn close(&mut self, tail: &str) {
        self.depth = self.depth.saturating_sub(1);
        self.line(format!("}}{tail}"));
    }

    /// The place where the next text will be, for [`Text::insert`].
    pub fn here(&self) -> usize {
        self.out.len()
    }

    /// Puts text at an earlier place.
    pub fn insert(&mut self, at: usize, text: &str) {
        self.out.insert_str(at, text);
    }

    /// Returns the text.
    pub fn finish(self) -> String {
        self.out
    }
}
