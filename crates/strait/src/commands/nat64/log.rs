//! Where the lines of a translator go: on a terminal as every command prints them, in the journal with a priority. A process that keeps a translator
//! waits for no reader of them.

use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use translator::Log;
use translator::log::{Priority, Reporter};
use translator::outlet::Outlet;

/// The standard output, and the standard error, of a process that has called [`start`].
static OUTLETS: OnceLock<[Outlet; 2]> = OnceLock::new();

/// How lines are written to the standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Warnings and errors begin with such a word.
    Plain,
    /// Each line begins with its priority, as sd-daemon(3) says.
    Journal,
}

/// The log of a command.
pub fn plain() -> Log {
    Log::new(Form::Plain)
}

/// That of a service: in the journal's form if the standard error is the journal's (`JOURNAL_STREAM` in systemd.exec(5)).
pub fn of_service() -> Log {
    let stream = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    let stderr = std::fs::metadata("/proc/self/fd/2").map(|found| format!("{}:{}", found.dev(), found.ino()));
    Log::new(if stderr.is_ok_and(|stderr| stderr == stream) { Form::Journal } else { Form::Plain })
}

impl Reporter for Form {
    fn say(&self, priority: Priority, text: &str) {
        self.lines(priority, text).iter().for_each(|line| error(line));
    }

    fn report(&self, lines: &str) {
        // A reader that has gone away stops no translator.
        let _ = std::io::stdout().lock().write_all(lines.as_bytes());
    }
}

impl Form {
    /// The journal keeps lines, and each needs its priority.
    fn lines(self, priority: Priority, text: &str) -> Vec<String> {
        match (self, priority) {
            (Form::Journal, _) => text.lines().map(|line| format!("<{}>{line}", priority as u8)).collect(),
            (Form::Plain, Priority::Error) => vec![format!("error: {text}")],
            (Form::Plain, Priority::Warning) => vec![format!("warning: {text}")],
            (Form::Plain, Priority::Info) => vec![text.to_string()],
        }
    }
}

/// From now on this process waits for no reader of its standard output and its standard error.
pub fn start() {
    let outlets = [
        Outlet::start(|text| std::io::stdout().lock().write_all(text)),
        Outlet::start(|text| std::io::stderr().lock().write_all(text)),
    ];
    let _ = OUTLETS.set(outlets);
}

/// Writes a line to the standard output.
pub fn print(line: &str) {
    match OUTLETS.get() {
        Some([stdout, _]) => stdout.say(line),
        None => println!("{line}"),
    }
}

/// Writes a line to the standard error.
fn error(line: &str) {
    match OUTLETS.get() {
        Some([_, stderr]) => stderr.say(line),
        None => eprintln!("{line}"),
    }
}

/// Waits until everything is written, but not for long.
pub fn finish() {
    const AT_MOST: Duration = Duration::from_millis(200);
    let begun = Instant::now();
    let waits = || OUTLETS.get().is_some_and(|all| all.iter().any(Outlet::waits));
    while waits() && begun.elapsed() < AT_MOST {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_of_the_journal_has_its_priority() {
        let text = "a route is in the way\n  hint: remove it";
        let lines = Form::Journal.lines(Priority::Warning, text);
        assert_eq!(lines, ["<4>a route is in the way", "<4>  hint: remove it"]);
        assert_eq!(Form::Plain.lines(Priority::Warning, text), [format!("warning: {text}")]);
    }
}
