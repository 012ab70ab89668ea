//! Text that a stranger wrote, and the forms in which it may leave: a C comment, a C identifier, a line of a terminal, a part of a path.
//!
//! The names, strings and file names of a P4 program are text of a stranger: `@name("…")` takes any characters. A [`Name`] holds such a text.
//! It has no `Display`, so `format!("/* {name} */")` does not compile: whoever writes it says for which reader it is, and gets a form that
//! this reader cannot take for something else.

use std::borrow::Cow;
use std::error::Error;
use std::fmt::{self, Write as _};
use std::ops::Deref;

/// A text of a P4 program as it was written. It has no `Display`:
///
/// ```compile_fail
/// let name = abi::text::Name::from("a */ system(\"…\"); /*");
/// let c = format!("/* {name} */");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

impl Name {
    /// The text as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The form for the inside of a C comment.
    pub fn comment(&self) -> Comment {
        Comment::of(&self.0)
    }

    /// The form for people: for terminals and logs.
    pub fn shown(&self) -> Shown<'_> {
        Shown(&self.0)
    }
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl From<String> for Name {
    fn from(text: String) -> Name {
        Name(text)
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Name {
        Name(text.to_string())
    }
}

impl From<Name> for String {
    fn from(name: Name) -> String {
        name.0
    }
}

impl From<&Name> for String {
    fn from(name: &Name) -> String {
        name.0.clone()
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<&str> for Name {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

impl PartialEq<String> for Name {
    fn eq(&self, other: &String) -> bool {
        self.0 == *other
    }
}

impl PartialEq<Name> for String {
    fn eq(&self, other: &Name) -> bool {
        *self == other.0
    }
}

/// The longest text that a comment or a line for people shows, in characters.
const LONGEST: usize = 400;

/// The inside of a C comment. It is printable ASCII on one line, neither ends the comment nor begins one, and has no trigraph and no backslash
/// (which would join the line to the next one).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment(String);

impl Comment {
    /// The comment that says what a text says. What cannot stand in a comment is spaced, or written as its number.
    pub fn of(text: &str) -> Comment {
        let mut out = String::with_capacity(text.len().min(LONGEST));
        // What the text stands behind is the beginning of the comment.
        let mut last = '*';
        for c in text.chars().take(LONGEST) {
            let c = if c == '\\' { '/' } else { c };
            if matches!((last, c), ('*', '/') | ('/', '*') | ('?', '?')) {
                out.push(' ');
            }
            match c {
                ' '..='~' => out.push(c),
                // Writing to a String cannot fail.
                _ => drop(write!(out, "u{{{:x}}}", c as u32)),
            }
            last = c;
        }
        // What stands behind the text is the end of the comment.
        if out.ends_with(['*', '/', '?']) {
            out.push(' ');
        }
        Comment(out)
    }
}

impl fmt::Display for Comment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A text for people. What a terminal or a log would take for a command or for a new line is escaped: control characters, and the characters
/// that change the order of others or are not visible.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a>(pub &'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.chars().any(is_hidden) {
            return f.pad(self.0);
        }
        f.pad(&shown(self.0))
    }
}

impl PartialEq<str> for Shown<'_> {
    fn eq(&self, other: &str) -> bool {
        shown(self.0) == other
    }
}

/// A text for people on one line, see [`Shown`].
pub fn shown(text: &str) -> String {
    escaped(text, is_hidden)
}

/// Lines for people: like [`shown`], but with the ends of lines and tabs as they are.
pub fn lines(text: &str) -> String {
    escaped(text, |c| is_hidden(c) && !matches!(c, '\n' | '\t'))
}

/// JSON that may be shown: what is hidden can stand in its strings only, and is escaped there.
pub fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match is_hidden(c) && !matches!(c, '\n' | '\t') {
            true => out.extend(c.encode_utf16(&mut [0; 2]).iter().map(|half| format!("\\u{half:04x}"))),
            false => out.push(c),
        }
    }
    out
}

/// What a command may print: like [`json`], which changes no text without hidden characters; but colours stay (ECMA-48 SGR).
pub fn printed(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| is_hidden(c) && !matches!(c, '\n' | '\t')) {
        return Cow::Borrowed(text);
    }
    let mut pieces = text.split('\u{1b}');
    let mut out = json(pieces.next().unwrap_or_default());
    for piece in pieces {
        let colours = piece.strip_prefix('[').and_then(|codes| {
            let end = codes.find(|c: char| !c.is_ascii_digit() && c != ';')?;
            codes[end..].strip_prefix('m').map(|rest| (&codes[..end], rest))
        });
        match colours {
            Some((codes, rest)) => drop(write!(out, "\u{1b}[{codes}m{}", json(rest))),
            None => drop(write!(out, "\\u001b{}", json(piece))),
        }
    }
    Cow::Owned(out)
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match is_escaped(c) {
            true => drop(write!(out, "{}", c.escape_unicode())),
            false => out.push(c),
        }
    }
    out
}

/// Whether a character is not to be seen where it stands: a control character (C0, DEL, C1), a line or paragraph separator, a character that
/// has no width, or one that changes the direction of others (Unicode's Bidi_Control; "Trojan Source", CVE-2021-42574).
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// A text as one component of a path: of letters, digits, `_` and `-` only, not empty, at most `longest` characters.
pub fn component(text: &str, longest: usize) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    // Nothing takes the name for an option.
    let first = if text.is_empty() || text.starts_with('-') { "_" } else { "" };
    first.chars().chain(text.chars().map(plain)).take(longest).collect()
}

/// An error with its causes in one text. Most errors say their cause themselves, and then it is not repeated.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    let causes = std::iter::successors(Some(error), |error| (**error).source());
    for cause in causes.map(ToString::to_string).filter(|cause| !cause.is_empty()) {
        if !text.contains(&cause) {
            let between = if text.is_empty() { "" } else { ": " };
            text = format!("{text}{between}{cause}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &[&str] = &[
        "a */ int x; /*",
        "a *",
        "a /",
        "a *\\/",
        "\\*",
        "/\\*",
        "a\n#include </etc/shadow>\n",
        "??/\nint x;",
        "?\u{0}?/",
        "tail\\",
        "\u{1b}]0;title\u{7}",
        "\u{202e}abc\u{2028}",
        "\"); system(\"x\"); (\"",
        "%n%s",
        "../../etc",
    ];

    #[test]
    fn a_comment_stays_a_comment() {
        for text in HOSTILE {
            let comment = format!("/*{}*/", Comment::of(text));
            assert!(comment.bytes().all(|b| (b' '..=b'~').contains(&b)), "{comment:?}");
            assert_eq!(comment.find("*/"), Some(comment.len() - 2), "{comment:?}");
            assert_eq!(comment.rfind("/*"), Some(0), "{comment:?}");
            assert!(!comment.contains('\\') && !comment.contains("??"), "{comment:?}");
        }
        assert_eq!(Comment::of("ingress.drop / 2").to_string(), "ingress.drop / 2");
        assert_eq!(Comment::of(&"x".repeat(1 << 20)).to_string().len(), LONGEST);
    }

    #[test]
    fn what_people_see_has_no_commands_for_terminals() {
        for text in HOSTILE {
            assert!(!shown(text).chars().any(is_hidden), "{text:?}");
            assert!(!lines(text).chars().any(|c| is_hidden(c) && c != '\n'), "{text:?}");
        }
        assert_eq!(Shown("a\u{1b}[2Jb").to_string(), "a\\u{1b}[2Jb");
        assert_eq!(format!("{:>4}|{:<4}|", Shown("ä"), Name::from("b").shown()), "   ä|b   |");
    }

    #[test]
    fn json_says_the_same() {
        let text = "a\u{7f}\u{9b}\u{202e}\u{e0001}b";
        assert_eq!(json(&format!("[\n\"{text}\"]")), "[\n\"a\\u007f\\u009b\\u202e\\udb40\\udc01b\"]");
    }

    #[test]
    fn what_is_printed_has_colours_and_no_other_commands() {
        assert_eq!(printed("a\tb\n"), "a\tb\n");
        assert_eq!(
            printed("\u{1b}[1;31mred\u{1b}[0m\u{1b}[2J\u{9b}x\r"),
            "\u{1b}[1;31mred\u{1b}[0m\\u001b[2J\\u009bx\\u000d"
        );
    }

    #[test]
    fn a_component_stays_in_its_directory() {
        for text in HOSTILE.iter().chain(&["", ".", "..", "-rf", "/"]) {
            let name = component(text, 32);
            assert!(!name.is_empty() && name.len() <= 32 && !name.contains(['/', '.']), "{name:?}");
            assert!(!name.starts_with('-'), "{name:?}");
        }
        assert_eq!(component("router.p4_16", 32), "router_p4_16");
    }

    #[test]
    fn a_cause_is_said_once() {
        #[derive(Debug)]
        struct Said(&'static str, Option<std::io::Error>);
        impl fmt::Display for Said {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.0)
            }
        }
        impl Error for Said {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                self.1.as_ref().map(|cause| cause as &(dyn Error + 'static))
            }
        }
        let refused = || Some(std::io::Error::other("Permission denied (os error 13)"));
        let text = "cannot read: Permission denied (os error 13)\n  hint: …";
        assert_eq!(chain(&Said(text, refused())), text);
        assert_eq!(chain(&Said("cannot write", refused())), "cannot write: Permission denied (os error 13)");
        assert_eq!(chain(&Said("cannot write", None)), "cannot write");
    }
}
