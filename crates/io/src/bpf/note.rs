//! The note of an instance: a text of whoever loaded the program, in a pinned map. A BPF file system holds no files. A new note is a new map that
//! takes the old one's place, so that a reader finds the one or the other.

use std::fs;
use std::os::fd::AsFd as _;

use super::Instance;
use super::instance::remove_if_there;
use crate::error::Context;
use crate::{Result, sys};

const NOTE: &str = "note";
const NEXT: &str = "note-next";

impl Instance {
    /// The note; `None` if there is none.
    pub fn note(&self) -> Result<Option<String>> {
        let path = self.path().join(NOTE);
        let map = match sys::open_pin(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => other.context(|| format!("open {}", path.display()))?,
        };
        let text = sys::note_read(map.as_fd()).context(|| format!("read {}", path.display()))?;
        Ok(text.map(|text| String::from_utf8_lossy(&text).into_owned()))
    }

    /// Replaces the note.
    pub fn set_note(&self, text: &str) -> Result<()> {
        let (path, next) = (self.path().join(NOTE), self.path().join(NEXT));
        remove_if_there(fs::remove_file(&next), &next)?;
        let map = sys::note_create(text.as_bytes()).context(|| format!("make {}", next.display()))?;
        sys::pin(map.as_fd(), &next).context(|| format!("pin {}", next.display()))?;
        fs::rename(&next, &path).context(|| format!("rename {}", next.display()))
    }
}

/// The notes of all instances of this machine, also of those whose pins are in a BPF file system that is not visible here.
pub fn notes() -> Result<Vec<String>> {
    let (mut found, mut id) = (Vec::new(), 0);
    while let Some(next) = sys::next_map(id).context(|| "list the maps".into())? {
        id = next;
        // A map may go while they are listed.
        let Ok(map) = sys::map_by_id(id) else { continue };
        if let Ok(Some(text)) = sys::note_read(map.as_fd()) {
            found.push(String::from_utf8_lossy(&text).into_owned());
        }
    }
    Ok(found)
}
