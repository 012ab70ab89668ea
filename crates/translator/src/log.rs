//! What a translator says to its operator while it works. Whoever brings it up decides where that goes.

use std::fmt;
use std::sync::Arc;

/// How much a text matters: the priorities of syslog(3) that are used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Something was not done that the file asks for.
    Error = 3,
    /// The operator should look at it.
    Warning = 4,
    /// What was done, or has begun or ended.
    Info = 6,
}

/// Takes what is said. The threads of a translator say something, too.
pub trait Reporter: Send + Sync {
    /// Takes a text, which may have several lines.
    fn say(&self, priority: Priority, text: &str);

    /// Takes reports of bindings and sessions, a line of JSON each, if a file says `log-to = ["stdout"]`. It may block: others do not wait for
    /// it. Unless it is implemented, they are lost.
    fn report(&self, lines: &str) {
        let _ = lines;
    }
}

impl<F: Fn(Priority, &str) + Send + Sync> Reporter for F {
    fn say(&self, priority: Priority, text: &str) {
        self(priority, text);
    }
}

/// The way to a [`Reporter`].
#[derive(Clone)]
pub struct Log(Arc<dyn Reporter>);

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Log")
    }
}

impl Log {
    /// One that tells a reporter everything.
    pub fn new(reporter: impl Reporter + 'static) -> Self {
        Self(Arc::new(reporter))
    }

    /// One that tells nobody anything.
    pub fn silent() -> Self {
        Self::new(|_: Priority, _: &str| {})
    }

    /// Says what happened.
    pub fn info(&self, text: &str) {
        self.0.say(Priority::Info, text);
    }

    /// Says what the operator should look at.
    pub fn warning(&self, text: &str) {
        self.0.say(Priority::Warning, text);
    }

    /// Says what failed.
    pub fn error(&self, text: &str) {
        self.0.say(Priority::Error, text);
    }

    /// Passes lines of reports on.
    pub(crate) fn report(&self, lines: &str) {
        self.0.report(lines);
    }
}
