//! Include files of programs that the tasks compile.

use std::path::Path;

use p4::{Embedded, SourceProvider};

/// A provider of include files: from the program's directory, then Strait's own.
pub struct Beside;

impl SourceProvider for Beside {
    fn include(&self, name: &str, from: &str, quoted: bool) -> Option<(String, String)> {
        let beside = || {
            let path = Path::new(from).parent()?.join(name);
            let text = std::fs::read(&path).ok()?;
            Some((path.display().to_string(), String::from_utf8_lossy(&text).into_owned()))
        };
        quoted.then(beside).flatten().or_else(|| Embedded.include(name, from, quoted))
    }
}
