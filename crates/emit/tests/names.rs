//! Nothing that the author of a program writes becomes C: names, texts, source lines and names of files stand in comments and identifiers
//! only, on every target, however they are written.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use p4::{Diagnostics, Embedded, SourceMap};

/// What no emitter writes by itself, and what no identifier can contain.
const CANARY: &str = "!CANARY!";

/// Texts that would leave a comment, a string, a line, or an escape of DOT, if they were written as they are.
fn hostile() -> Vec<String> {
    let around = [
        "*/ ! /*",
        "\n!\n",
        "\n#include \"!\"\n",
        "\\\n!",
        "??/\n!",
        "\" ! \"",
        "\\\" ! \\",
        "\r!\r",
        "\0!\0",
    ];
    let escapes =
        ["\u{1b}[2J!", "\u{9b}2J!", "\u{202e}!", "\u{2028}!", "*\\/!", "/*/!", "%n%s!", "*/!//", "../!"];
    let long = "very long".repeat(100) + "!";
    around
        .iter()
        .chain(&escapes)
        .chain([&long.as_str()])
        .map(|text| format!("x{}", text.replace('!', CANARY)))
        .collect()
}

static PROGRAMS: LazyLock<Vec<(String, ir::Verified)>> = LazyLock::new(programs);

/// Every third program of tests/cases.
fn programs() -> Vec<(String, ir::Verified)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("the folder is there").map(|f| f.expect("a file").path()).collect();
    files.sort();
    let compiled = |file: &PathBuf| {
        let name = file.file_name()?.to_str().filter(|name| name.ends_with(".p4"))?;
        let text = std::fs::read_to_string(file).ok()?;
        let (mut map, mut diags) = (SourceMap::default(), Diagnostics::default());
        let program = p4::compile(&mut map, name, &text, &[], &Embedded, &mut diags)?;
        Some((name.to_string(), program))
    };
    files.iter().step_by(3).filter_map(compiled).collect()
}

/// The program with other names: each is the text, and a number, so that they differ.
fn renamed(program: &ir::Verified, text: &str) -> ir::Verified {
    let mut program = (**program).clone();
    for source in &mut program.sources {
        let line = text.replace(['\n', '\r'], " ") + "\n";
        *source = ir::Source::new(source.name.clone(), line.repeat(2000));
    }
    let mut number = 0;
    ir::visit_mut::names(&mut program, &mut |name| {
        number += 1;
        *name = format!("{text}{number}").into();
    });
    ir::verify(program).expect("names are free")
}

/// C without its comments, as a compiler sees it: lines that a backslash or a trigraph joins are one.
fn code(c: &str) -> String {
    let joined = c.replace("??/", "\\").replace("\\\n", "");
    let mut code = String::new();
    for (i, part) in joined.split("/*").enumerate() {
        code += if i == 0 { part } else { part.split_once("*/").map_or("", |(_, code)| code) };
    }
    code
}

/// Whether a text has what a terminal would not show as it is.
fn hidden(text: &str) -> Option<char> {
    text.chars().find(|c| abi::text::is_hidden(*c) && *c != '\n')
}

#[test]
fn no_text_of_a_program_becomes_c() {
    let programs = &*PROGRAMS;
    assert!(programs.len() > 20, "only {} programs", programs.len());
    let mut said = 0;
    // Each text meets some programs, and each program some texts.
    for (i, text) in hostile().iter().enumerate() {
        for (name, program) in programs.iter().skip(i % 8).step_by(8) {
            let program = renamed(program, text);
            let outputs = [
                emit::native(&program),
                emit::native_with_queues(&program),
                emit::tc(&program),
                emit::xdp(&program),
            ];
            for c in outputs.into_iter().flatten().map(|output| output.c) {
                let code = code(&c);
                let mut words = code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                assert!(words.all(|word| word.len() < 200), "{name} with {text:?}");
                assert!(!code.contains(CANARY), "{name} with {text:?}:\n{c}");
                assert!(!c.contains("??/") && hidden(&c).is_none_or(|c| c == '\t'), "{name} with {text:?}");
                assert!(c.is_ascii(), "{name} with {text:?}");
                let comments = c.matches("/*").count();
                assert_eq!(comments, c.matches("*/").count(), "{name} with {text:?}");
                said += c.matches(CANARY).count();
            }
        }
    }
    // The texts are seen, so that the test does not pass because nothing is written.
    assert!(said > 1000, "{said}");
}

#[test]
fn no_text_of_a_program_leaves_its_string_in_a_picture() {
    for (i, text) in hostile().iter().enumerate() {
        for (name, program) in PROGRAMS.iter().skip(i % 8).step_by(8) {
            let program = renamed(program, text);
            let dot = emit::dot::dot(&program, &|_| None);
            assert_eq!(hidden(&dot), None, "{name} with {text:?}");
            // Outside of its strings, DOT has no canary.
            let mut outside = String::new();
            let (mut inside, mut escaped) = (false, false);
            for c in dot.chars() {
                match c {
                    '"' if !escaped => inside = !inside,
                    _ if !inside => outside.push(c),
                    _ => {}
                }
                escaped = c == '\\' && !escaped;
            }
            assert!(!inside && !outside.contains(CANARY), "{name} with {text:?}:\n{dot}");
            let svg = emit::dot::svg(&program, &|_| None);
            assert_eq!(hidden(&svg), None, "{name} with {text:?}");
        }
    }
}
