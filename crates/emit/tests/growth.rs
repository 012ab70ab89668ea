//! Compile times grow no faster than the program, nearly: four times the program takes less than nine times as long. Time is that of the
//! thread on a processor, so that other work on the machine does not count.

use std::fmt::Write as _;

use p4::{Diagnostics, Embedded, SourceMap};

const FRAME: &str = "#include <core.p4>
#include <v1model.p4>
header h_t { bit<32> a; bit<32> b; }
struct headers { h_t h; }
struct meta_t { bit<32> x; bit<32> y; }
GLOBAL
parser P(packet_in pkt, out headers hdr, inout meta_t m, inout standard_metadata_t s) { STATES }
control I(inout headers hdr, inout meta_t m, inout standard_metadata_t s) { LOCAL apply { BODY } }
control E(inout headers hdr, inout meta_t m, inout standard_metadata_t s) { apply {} }
control V(inout headers hdr, inout meta_t m) { apply {} }
control D(packet_out pkt, in headers hdr) { apply { pkt.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
";
const START: &str = "state start { pkt.extract(hdr.h); transition accept; }";

fn program(global: &str, states: &str, local: &str, body: &str) -> String {
    let states = if states.is_empty() { START } else { states };
    FRAME.replace("GLOBAL", global).replace("STATES", states).replace("LOCAL", local).replace("BODY", body)
}

/// `count` texts, one after the other.
fn each(count: u32, text: impl Fn(u32) -> String) -> String {
    (0..count).fold(String::new(), |mut all, i| {
        let _ = writeln!(all, "{}", text(i));
        all
    })
}

/// Does what `strait check` and `strait build` do. Returns the diagnostics as they are shown.
fn compile(text: &str) -> (bool, String) {
    let (mut map, mut diags) = (SourceMap::default(), Diagnostics::default());
    let made = p4::accept(&mut map, "grown.p4", text, &[], &Embedded, &mut diags, |typed, map, diags| {
        diags.extend(p4::lint(typed, map));
        let program = p4::lower_verified(typed, map, &p4::Passes::default(), diags)?;
        for output in [emit::native(&program), emit::tc(&program), emit::xdp(&program)] {
            drop(output);
        }
        Some(())
    });
    (made.flatten().is_some(), p4::render::text(&map, diags.list(), false))
}

/// The nanoseconds that this thread has run (Documentation/scheduler/sched-stats.rst).
fn now() -> Option<u64> {
    std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split_whitespace().next()?.parse().ok()
}

fn grows_with(what: &str, count: u32, text: impl Fn(u32) -> String) {
    let time = |count: u32| {
        let text = text(count);
        let begun = now()?;
        let (right, said) = compile(&text);
        assert!(right, "{what}: {said}");
        Some((now()? - begun).max(1))
    };
    let Some(few) = time(count) else {
        return println!("skipped: {what}: the kernel does not say how long a thread ran");
    };
    let many = time(4 * count).expect("it said so before");
    assert!(many < 9 * few, "{count} {what}: {few} ns, {}: {many} ns", 4 * count);
}

#[test]
fn entries() {
    let local = |count| {
        let list = each(count, |i| format!("{i}: set({});", i % 7));
        format!(
            "action set(bit<32> v) {{ m.x = v; }} table t {{ key = {{ hdr.h.a : exact; }} actions = {{ set; NoAction; }} const entries = {{ {list} }} }}"
        )
    };
    grows_with("entries", 8000, |count| program("", "", &local(count), "t.apply();"));
}

#[test]
fn statements() {
    grows_with("statements", 2000, |count| {
        program("", "", "", &each(count, |i| format!("m.x = m.x + {i};")))
    });
}

#[test]
fn slices() {
    let slice = |i| format!("m.x[{0}:{0}] = hdr.h.a[{1}:{1}];", i % 31, i % 30);
    grows_with("slices", 1000, |count| program("", "", "", &each(count, slice)));
}

#[test]
fn states() {
    let state = |i, count| match i {
        0 => "state start { transition s1; }".to_string(),
        i if i + 1 == count => format!("state s{i} {{ transition accept; }}"),
        i => format!("state s{i} {{ m.x = m.x + {i}; transition s{}; }}", i + 1),
    };
    grows_with("states", 2000, |count| program("", &each(count, |i| state(i, count)), "", ""));
}

#[test]
fn messages() {
    let message = |i| format!("log_msg(\"message {i}: {{}}\", {{ m.x }});");
    grows_with("messages", 500, |count| program("", "", "", &each(count, message)));
}

#[test]
fn what_would_become_too_large_is_refused_at_its_place() {
    let nested = |what: fn(u32) -> String| each(40, what);
    let control = |i| match i {
        0 => "control c0(inout meta_t m) { apply { m.x = m.x + 1; } }".to_string(),
        i => format!(
            "control c{i}(inout meta_t m) {{ c{0}() p; c{0}() q; apply {{ p.apply(m); q.apply(m); }} }}",
            i - 1
        ),
    };
    let action = |i| match i {
        0 => "action a0() { m.x = m.x + 1; }".to_string(),
        i => format!("action a{i}() {{ a{0}(); a{0}(); }}", i - 1),
    };
    let cases = [
        (program(&nested(control), "", "c39() c;", "c.apply(m);"), "E0502", "10000 instances"),
        (program("", "", &nested(action), "a39();"), "E0502", "100000 calls"),
        (
            program("", "", "", &format!("m.{} = 1;", "x".repeat(1 << 20))),
            "E0105",
            "a word of 1048576 characters",
        ),
        (
            program("", "", "", &format!("m.x = {};", "1".repeat(1 << 20))),
            "E0105",
            "a number of 1048576 characters",
        ),
        (
            program("", "", "@name(\"a\nb\") action a() {}", "a();"),
            "E0104",
            "a name with the character `\\u{a}`",
        ),
        (
            program("", "", &format!("@name(\"{}\") action a() {{}}", "x".repeat(2000)), "a();"),
            "E0104",
            "1000",
        ),
    ];
    for (text, code, message) in cases {
        let (right, said) = compile(&text);
        assert!(
            !right && said.contains(code) && said.contains(message) && said.contains("grown.p4:"),
            "{said}"
        );
        assert!(said.matches(code).count() == 1, "{said}");
        assert!(said.len() < 4000, "{code}: {} bytes are said", said.len());
    }
}

#[test]
fn what_is_said_of_a_program_has_no_commands_for_a_terminal() {
    let texts = ["\u{1b}[2J", "\u{1b}]0;x\u{7}", "\u{9b}31m", "\u{202e}", "\r", "\0", "\u{2028}"];
    for text in texts {
        let name = format!("a{text}.p4");
        let bodies = [
            format!("log_msg(\"{text}\"); m.z = 1;"),
            format!("m.x = \"{text}\";"),
            format!("m.x = {text};"),
            format!("/* {text} */ m.z = 1;"),
        ];
        for body in bodies {
            let text = program("", "", "", &body);
            let (mut map, mut diags) = (SourceMap::default(), Diagnostics::default());
            p4::compile(&mut map, &name, &text, &[], &Embedded, &mut diags);
            assert!(diags.has_errors());
            let plain = p4::render::text(&map, diags.list(), false);
            let json = p4::render::json(&map, diags.list());
            for said in [&plain, &json] {
                let bad = said.chars().find(|c| abi::text::is_hidden(*c) && *c != '\n');
                assert_eq!(bad, None, "{said:?}");
            }
            // With colours, the only commands are those that set colours.
            let mut coloured = p4::render::text(&map, diags.list(), true);
            while let Some(at) = coloured.find("\u{1b}[") {
                let rest = &coloured[at + 2..];
                let end = rest.find(|c: char| !c.is_ascii_digit() && c != ';').expect("it ends");
                assert!(rest[end..].starts_with('m'), "{coloured:?}");
                coloured.replace_range(at..at + 3 + end, "");
            }
            let bad = coloured.chars().find(|c| abi::text::is_hidden(*c) && *c != '\n');
            assert_eq!(bad, None, "{coloured:?}");
        }
    }
}
