//! Text under construction.

use std::fmt::Write as _;

/// Lines with their indentation.
#[derive(Debug, Default)]
pub struct Text {
    out: String,
    depth: usize,
}

impl Text {
    /// One line.
    pub fn line(&mut self, line: impl AsRef<str>) {
        let line = line.as_ref();
        if line.is_empty() {
            self.out.push('\n');
            return;
        }
        // Writing to a String cannot fail.
        let _ = writeln!(self.out, "{:width$}{line}", "", width = self.depth * 4);
    }

    /// A line that stands at the margin, for labels and the preprocessor.
    pub fn margin(&mut self, line: impl AsRef<str>) {
        self.out.push_str(line.as_ref());
        self.out.push('\n');
    }

    /// Text as it is.
    pub fn raw(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// `head {`
    pub fn open(&mut self, head: impl AsRef<str>) {
        self.line(format!("{} {{", head.as_ref()).trim_start());
        self.depth += 1;
    }

    /// One level deeper, after a line that opened a brace by itself.
    pub fn indent(&mut self) {
        self.depth += 1;
    }

    /// `}` and what follows it.
    pub fn close(&mut self, tail: &str) {
        self.depth = self.depth.saturating_sub(1);
        self.line(format!("}}{tail}"));
    }

    /// All of it.
    pub fn finish(self) -> String {
        self.out
    }
}
