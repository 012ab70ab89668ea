//! The names of a program: whatever they are, they do not become code of the C and DOT that are emitted, and no commands for terminals.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

/// A program with all kinds of names.
fn program() -> &'static ir::Verified {
    static PROGRAM: OnceLock<ir::Verified> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let (_, _, made) = strait_fuzz::accept(include_str!("../../tests/p4runtime/kinds.p4"));
        made.flatten().expect("the program is right")
    })
}

/// The program with a text in the place of each name and source line.
fn renamed(text: &str) -> ir::Verified {
    let mut program = (**program()).clone();
    for source in &mut program.sources {
        *source = ir::Source::new(source.name.clone(), (text.replace('\n', " ") + "\n").repeat(500));
    }
    let mut number = 0;
    ir::visit_mut::names(&mut program, &mut |name| {
        number += 1;
        *name = format!("{text}{number}").into();
    });
    ir::verify(program).expect("names are free")
}

/// C without its comments and identifiers, which may be named after the text.
fn code(c: &str) -> String {
    let mut code = String::new();
    for (i, part) in c.replace("??/", "\\").replace("\\\n", "").split("/*").enumerate() {
        code += if i == 0 { part } else { part.split_once("*/").map_or("", |(_, code)| code) };
    }
    code.chars().filter(|c| !c.is_ascii_alphanumeric() && *c != '_').collect()
}

fuzz_target!(|text: &str| {
    let (own, other) = (renamed("x"), renamed(text));
    let emitters = [emit::native, emit::tc, emit::xdp];
    for emit in emitters {
        let (Ok(own), Ok(other)) = (emit(&own), emit(&other)) else { continue };
        assert_eq!(code(&own.c), code(&other.c));
        assert!(other.c.is_ascii());
    }
    let dot = emit::dot::dot(&other, &|_| None);
    assert!(!dot.chars().any(|c| abi::text::is_hidden(c) && c != '\n'));
    assert!(!abi::text::printed(text).chars().any(|c| abi::text::is_hidden(c) && !matches!(c, '\n' | '\t' | '\u{1b}')));
});
