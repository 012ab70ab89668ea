//! The checker against programs: what must be accepted, what must be said about mistakes.
//!
//! A note `// error: text` (or `// warning: text`) in tests/diagnostics stands on the line of a diagnostic whose message
//! holds the text; `// help: text` on the same or a following line wants it in the hint or a label. Nothing else may be reported.

use std::fs;
use std::path::{Path, PathBuf};

use p4::{Diagnostic, Diagnostics, Embedded, Severity, SourceMap, SourceProvider};

/// Strait's own includes, then files on disk beside the program.
struct Disk {
    beside: PathBuf,
}

impl SourceProvider for Disk {
    fn include(&self, name: &str, from: &str, quoted: bool) -> Option<(String, String)> {
        if let Some(own) = Embedded.include(name, from, quoted) {
            return Some(own);
        }
        let asker = Path::new(from).parent().map(|p| p.join(name));
        let places = [asker, Some(self.beside.join(name))];
        places
            .into_iter()
            .flatten()
            .find_map(|p| Some((p.display().to_string(), fs::read_to_string(&p).ok()?)))
    }
}

fn check(path: &Path) -> (SourceMap, Diagnostics) {
    let text = String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
    let disk = Disk { beside: path.parent().unwrap().to_path_buf() };
    let (mut map, mut diags) = (SourceMap::default(), Diagnostics::default());
    let program = p4::parse(&mut map, &path.display().to_string(), &text, &[], &disk, &mut diags);
    if !diags.has_errors() {
        diags.extend(p4::check::check(&program, &map).1);
    }
    (map, diags)
}

fn programs(dir: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    // The corpus has links to nowhere.
    all.retain(|p| p.extension().is_some_and(|e| e == "p4") && p.exists());
    all.sort();
    all
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn shown(map: &SourceMap, d: &Diagnostic) -> String {
    let at = map.position(d.primary.span);
    let hint = d.hint.as_ref().map(|h| format!("\n    help: {h}")).unwrap_or_default();
    format!("{}:{}:{}: {:?} {}: {}{hint}", at.file, at.line, at.column, d.severity, d.code, d.message)
}

/// The notes of a program: line, severity, text, wanted help.
fn notes(text: &str) -> Vec<(usize, Severity, String, Vec<String>)> {
    let mut notes: Vec<(usize, Severity, String, Vec<String>)> = Vec::new();
    for (i, line) in text.lines().enumerate() {
        for (mark, severity) in [("// error: ", Severity::Error), ("// warning: ", Severity::Warning)] {
            if let Some((_, note)) = line.split_once(mark) {
                notes.push((i + 1, severity, note.trim().to_string(), Vec::new()));
            }
        }
        if let (Some((_, help)), Some(last)) = (line.split_once("// help: "), notes.last_mut()) {
            last.3.push(help.trim().to_string());
        }
    }
    notes
}

#[test]
fn mistakes_are_told_where_they_are() {
    told("tests/diagnostics", check);
}

#[test]
fn right_programs_are_warned_about() {
    told("tests/lints", |path| {
        let text = fs::read_to_string(path).unwrap();
        let (mut map, mut diags) = (SourceMap::default(), Diagnostics::default());
        let name = path.display().to_string();
        let accepted = p4::accept(&mut map, &name, &text, &[], &Embedded, &mut diags, |typed, map, diags| {
            diags.extend(p4::lint(typed, map));
        });
        accepted.unwrap_or_else(|| panic!("{}", p4::render::text(&map, diags.list(), false)));
        (map, diags)
    });
}

/// What is said of the programs of a folder is what their notes say, and nothing else.
fn told(folder: &str, check: impl Fn(&Path) -> (SourceMap, Diagnostics)) {
    let mut failures = Vec::new();
    for path in programs(&root().join(folder)) {
        let text = fs::read_to_string(&path).unwrap();
        let (map, diags) = check(&path);
        let mut left: Vec<&Diagnostic> = diags.list().iter().collect();
        for (line, severity, note, helps) in notes(&text) {
            let fits = |d: &&Diagnostic| {
                let says =
                    |t: &str| d.hint.as_deref().unwrap_or("").contains(t) || d.primary.text.contains(t);
                d.severity == severity
                    && map.position(d.primary.span).line == line
                    && d.message.contains(&note)
                    && helps.iter().all(|h| says(h))
            };
            match left.iter().position(fits) {
                Some(i) => drop(left.remove(i)),
                None => failures.push(format!("{}:{line}: nobody says `{note}` {helps:?}", path.display())),
            }
        }
        failures.extend(left.iter().map(|d| format!("not expected: {}", shown(&map, d))));
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

#[test]
fn right_programs_are_accepted() {
    let mut paths = programs(&root().join("tests/accept"));
    paths.push(root().join("apps/nat64/nat64.p4"));
    let mut failures = Vec::new();
    for path in paths {
        let (map, diags) = check(&path);
        failures.extend(diags.list().iter().map(|d| shown(&map, d)));
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

/// Programs with a line missing, or cut off: nothing may panic or hang.
#[test]
fn damaged_programs_do_not_panic() {
    let mut paths = programs(&root().join("tests/diagnostics"));
    paths.push(root().join("tests/accept/language.p4"));
    if let Ok(dir) = std::env::var("STRAIT_P4C") {
        paths.extend(programs(&Path::new(&dir).join("testdata/p4_16_samples")));
        paths.extend(programs(&Path::new(&dir).join("testdata/p4_16_errors")));
    }
    for (n, path) in paths.iter().enumerate() {
        let text = String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        for step in 0..6 {
            let hole = (n * 7 + step * 13) % lines.len().max(1);
            let rest = lines.iter().enumerate().filter(|(i, _)| *i != hole).map(|(_, l)| *l);
            let rest: Vec<&str> = if step == 5 { rest.take(hole).collect() } else { rest.collect() };
            let (mut map, mut diags) = (SourceMap::default(), Diagnostics::default());
            let program = p4::parse(&mut map, "damaged.p4", &rest.join("\n"), &[], &Embedded, &mut diags);
            p4::check(&program, &map);
        }
    }
}

/// As deep as a stack of 8 MiB (a main thread's) must bear in a build without optimisation.
#[test]
fn deep_nesting_is_an_error() {
    let deep = |open: &str, close: &str| {
        let text = format!("const bit<8> a = {}1{};", open.repeat(20_000), close.repeat(20_000));
        let (mut map, mut diags) = (SourceMap::default(), Diagnostics::default());
        let program = p4::parse(&mut map, "deep.p4", &text, &[], &Embedded, &mut diags);
        diags.extend(p4::check(&program, &map).1);
        assert!(diags.has_errors(), "{open}");
    };
    let all = move || {
        let cases = [("(", ")"), ("!", ""), ("{", "}"), ("-", ""), ("a.b[", "]"), ("1 + ", "")];
        cases.into_iter().for_each(|(open, close)| deep(open, close));
    };
    std::thread::Builder::new().stack_size(8 << 20).spawn(all).unwrap().join().unwrap();
}

/// However many warnings there are, an error behind them rejects the program.
#[test]
fn warnings_do_not_hide_an_error() {
    let text = "#warning deprecated\n".repeat(300) + "const bit<8> x = y;\n";
    let (mut map, mut diags) = (SourceMap::default(), Diagnostics::default());
    let accepted = p4::accept(&mut map, "many.p4", &text, &[], &Embedded, &mut diags, |_, _, _| ());
    assert!(accepted.is_none() && diags.has_errors());
}
