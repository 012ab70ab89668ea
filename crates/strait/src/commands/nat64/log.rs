//! Lines for people: on a terminal as every command prints them, in the journal with a priority.

use std::os::unix::fs::MetadataExt as _;

use super::outlet;

/// How lines are written to the standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Log {
    /// Warnings and errors begin with such a word.
    Plain,
    /// Each line begins with its priority, as sd-daemon(3) says.
    Journal,
}

/// The priorities of syslog(3) that are used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Priority {
    Error = 3,
    Warning = 4,
    Info = 6,
}

impl Log {
    /// The journal's form if the standard error is the journal's (`JOURNAL_STREAM` in systemd.exec(5)).
    pub fn new() -> Self {
        let stream = std::env::var("JOURNAL_STREAM").unwrap_or_default();
        let stderr =
            std::fs::metadata("/proc/self/fd/2").map(|found| format!("{}:{}", found.dev(), found.ino()));
        if stderr.is_ok_and(|stderr| stderr == stream) { Log::Journal } else { Log::Plain }
    }

    /// Says what happened.
    pub fn info(self, text: &str) {
        self.write(Priority::Info, text);
    }

    /// Says what the operator should look at.
    pub fn warning(self, text: &str) {
        self.write(Priority::Warning, text);
    }

    /// Says what failed.
    pub fn error(self, text: &str) {
        self.write(Priority::Error, text);
    }

    fn write(self, priority: Priority, text: &str) {
        for line in self.lines(priority, text) {
            outlet::error(&line);
        }
    }

    /// The journal keeps lines, and each needs its priority.
    fn lines(self, priority: Priority, text: &str) -> Vec<String> {
        match (self, priority) {
            (Log::Journal, _) => text.lines().map(|line| format!("<{}>{line}", priority as u8)).collect(),
            (Log::Plain, Priority::Error) => vec![format!("error: {text}")],
            (Log::Plain, Priority::Warning) => vec![format!("warning: {text}")],
            (Log::Plain, Priority::Info) => vec![text.to_string()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_of_the_journal_has_its_priority() {
        let text = "a route is in the way\n  hint: remove it";
        let lines = Log::Journal.lines(Priority::Warning, text);
        assert_eq!(lines, ["<4>a route is in the way", "<4>  hint: remove it"]);
        assert_eq!(Log::Plain.lines(Priority::Warning, text), [format!("warning: {text}")]);
    }
}
