//! The STF reader; what it can read is played on a program with tables of every kind.
#![no_main]

use std::sync::LazyLock;

use harness::stf;
use harness::targets::interp::InterpTarget;
use interp::Interpreter;
use libfuzzer_sys::fuzz_target;

static PROGRAM: LazyLock<ir::Verified> = LazyLock::new(|| {
    let text = include_str!("../../tests/cases/match.p4");
    let (mut map, mut diags) = (p4::SourceMap::default(), p4::Diagnostics::default());
    p4::compile(&mut map, "match.p4", text, &[], &p4::Embedded, &mut diags).expect("a program of our own")
});

fuzz_target!(|text: &str| {
    let Ok(case) = stf::parse("fuzz.stf", text) else { return };
    let mut target = InterpTarget(Interpreter::new(&PROGRAM).expect("its tables fit"));
    stf::run(&case, &mut target).text();
});
