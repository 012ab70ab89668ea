//! Preprocessor, lexer and parser against programs in `tests/parse`, and against hostile texts.
//!
//! A note `// error: text` (or `// warning: text`) at the end of a line wants a diagnostic there whose message holds the text;
//! `// help: text` on the same or a following line wants that in its hint or labels. A note about another line says which:
//! `// error@3: text`. Nothing else may be reported: a program without notes must be accepted.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use p4::{Diagnostic, Diagnostics, Embedded, Severity, SourceMap, SourceProvider, ast};

/// Files beside the program, then Strait's own.
struct Beside(PathBuf);

impl SourceProvider for Beside {
    fn include(&self, name: &str, from: &str, quoted: bool) -> Option<(String, String)> {
        let own = std::fs::read_to_string(self.0.join(name)).ok().map(|text| (name.to_string(), text));
        own.or_else(|| Embedded.include(name, from, quoted))
    }
}

fn parse(name: &str, text: &str) -> (SourceMap, ast::Program, Diagnostics) {
    let (mut map, mut diags) = (SourceMap::default(), Diagnostics::default());
    let defines = [("FROM_OUTSIDE".to_string(), "7".to_string())];
    let beside = Beside(programs());
    let program = p4::parse(&mut map, name, text, &defines, &beside, &mut diags);
    (map, program, diags)
}

fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parse")
}

/// What a note wants.
struct Note {
    line: usize,
    severity: Severity,
    text: String,
    help: Vec<String>,
}

fn notes(text: &str) -> Vec<Note> {
    let mut notes: Vec<Note> = Vec::new();
    for (i, line) in text.lines().enumerate() {
        for (mark, severity) in [("// error", Severity::Error), ("// warning", Severity::Warning)] {
            let Some((at, text)) = line.split_once(mark).and_then(|(_, rest)| rest.split_once(": ")) else {
                continue;
            };
            let line = at.strip_prefix('@').map_or(i + 1, |n| n.parse().expect("a line"));
            notes.push(Note { line, severity, text: text.trim().to_string(), help: Vec::new() });
        }
        if let (Some((_, help)), Some(last)) = (line.split_once("// help: "), notes.last_mut()) {
            last.help.push(help.trim().to_string());
        }
    }
    notes
}

fn answers(map: &SourceMap, d: &Diagnostic, note: &Note) -> bool {
    let said = |text: &String| {
        let labels = d.secondary.iter().chain([&d.primary]).map(|l| &l.text);
        d.hint.iter().chain(labels).any(|t| t.contains(text.as_str()))
    };
    map.position(d.primary.span).line == note.line
        && d.severity == note.severity
        && d.message.contains(&note.text)
        && note.help.iter().all(said)
}

/// What is wrong with the diagnostics of one program; nothing if all is well.
fn check(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let text = std::fs::read_to_string(path).expect("readable");
    let (map, _, diags) = parse(&name, &text);
    let mut wanted = notes(&text);
    let mut wrong = String::new();
    for d in diags.list() {
        match wanted.iter().position(|n| answers(&map, d, n)) {
            Some(i) => drop(wanted.remove(i)),
            None => wrong += &p4::render::text(&map, std::slice::from_ref(d), false),
        }
    }
    for note in wanted {
        let _ = writeln!(wrong, "{name}:{}: nothing said `{}` {:?}", note.line, note.text, note.help);
    }
    wrong
}

#[test]
fn programs_and_their_notes() {
    let mut wrong = String::new();
    let mut paths: Vec<_> =
        std::fs::read_dir(programs()).expect("readable").flatten().map(|e| e.path()).collect();
    paths.retain(|p| p.extension().is_some_and(|e| e == "p4"));
    paths.sort();
    for path in paths {
        wrong += &check(&path);
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn rendered_text_shows_macro_and_include() {
    let text = "#include \"inc/wrong.p4i\"\n#define W bit<8>> x\nstruct S { W; }\n";
    let (map, _, diags) = parse("main.p4", text);
    let shown = p4::render::text(&map, diags.list(), false);
    for part in ["--> inc/wrong.p4i:2:", "included from main.p4:1", "--> main.p4:3:", "macro `W`", "2 errors"]
    {
        assert!(shown.contains(part), "{part} is missing in\n{shown}");
    }
    assert!(p4::render::text(&map, diags.list(), true).contains('\u{1b}'));
}

#[test]
fn rendered_json_is_json() {
    let (map, _, diags) = parse("main.p4", "const bit<8> x = ;\n");
    let json = p4::render::json(&map, diags.list());
    for part in [
        "\"file\":\"main.p4\"",
        "\"line\":1",
        "\"column\":18",
        "\"severity\":\"error\"",
        "\"code\":\"E0116\"",
    ] {
        assert!(json.contains(part), "{part} is missing in {json}");
    }
}

/// Texts that would overrun a stack, or take exponential time, in a careless parser.
fn hostile() -> Vec<(&'static str, String)> {
    let many = 50_000;
    let in_action = |body: String| format!("action a() {{ {body} }}");
    let nest = |open: &str| in_action(format!("x = {};", open.repeat(many)));
    vec![
        ("parentheses", nest("(")),
        ("braces", nest("{")),
        ("brackets", nest("a[")),
        ("calls", nest("f(")),
        ("casts", nest("(bit<8>)")),
        ("minus", nest("-")),
        ("ternary", nest("a ? ")),
        ("ternary else", nest("a ? b : ")),
        ("sum", nest("a + ")),
        ("members", nest("a.")),
        ("indexes", in_action(format!("x{} = 1;", "[0]".repeat(many)))),
        ("generic trials", format!("struct T<A> {{}} {}", nest("T<bit<("))),
        ("type argument trials", nest("f<bit<(")),
        ("cast trials", nest("(bit<(")),
        ("blocks", in_action("{".repeat(many))),
        ("ifs", in_action("if (x) ".repeat(many))),
        ("else ifs", in_action("if (x) {} else ".repeat(many))),
        ("loops", in_action("for (;;) ".repeat(many))),
        ("tuples", format!("const {}", "tuple<".repeat(many))),
        ("stacks", format!("const bit<8>{} x = 1;", "[2]".repeat(many))),
        ("plus slices", nest("a[b[0")),
        ("annotations", "@a(".repeat(many)),
        ("structured annotations", "@a[{".repeat(many)),
        ("keysets", format!("parser p() {{ state s {{ transition select(x) {{ {}", "(".repeat(many))),
        ("instances", "T() x = { ".repeat(many)),
        ("closing", "}".repeat(many)),
        ("semicolons", ";".repeat(many)),
        ("controls", "control c() { apply { ".repeat(many)),
        ("conditions", format!("#if {}\n#endif", "(".repeat(many))),
        ("condition ternary", format!("#if {}\n#endif", "1 ? ".repeat(many))),
        ("condition not", format!("#if {}\n#endif", "!".repeat(many))),
        ("nested ifs", "#if 1\n".repeat(20_000)),
        ("nested uses", format!("#define f(x) x\n{}", "f(".repeat(many))),
        ("closed uses", format!("#define f(x) x\n{}1{}", "f(".repeat(3000), ")".repeat(3000))),
        ("doubling", (0..60).map(|i| format!("#define A{i} A{} A{0}\n", i + 1)).collect::<String>() + "A0"),
        ("self include", "#include \"self.p4i\"".to_string()),
        ("no end", "/*".repeat(many)),
        ("quotes", "\"".repeat(many | 1)),
        ("strays", "\u{1f980}`\\".repeat(many)),
    ]
}

#[test]
fn hostile_texts_end_in_an_error() {
    for (what, text) in hostile() {
        let start = Instant::now();

        let (map, program, diags) = parse(what, &text);
        assert!(what == "semicolons" || diags.has_errors(), "{what} was accepted");
        assert!(p4::render::text(&map, diags.list(), false).len() < 1 << 20, "{what} says too much");
        drop(program);
        println!("{what}: {:?}", start.elapsed());
        let limit = Duration::from_secs(20);
        assert!(start.elapsed() < limit, "{what} took {:?}", start.elapsed());
    }
}

/// Every prefix of a real program, and the program with each token gone: never a panic.
#[test]
fn broken_programs_do_not_panic() {
    let text = Embedded.include("v1model.p4", "", false).expect("embedded").1;
    let own = std::fs::read_to_string(programs().join("everything.p4")).expect("readable");
    for text in [text, own] {
        let cuts: Vec<usize> = text.char_indices().map(|(i, _)| i).step_by(23).collect();
        for pair in cuts.windows(2) {
            for broken in [text[..pair[0]].to_string(), format!("{}{}", &text[..pair[0]], &text[pair[1]..])] {
                let (map, _, diags) = parse("broken.p4", &broken);
                p4::render::text(&map, diags.list(), false);
            }
        }
    }
}
