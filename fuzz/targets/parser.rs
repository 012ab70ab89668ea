//! The parser: any text gives a tree.
#![no_main]

use libfuzzer_sys::fuzz_target;
use p4::{Diagnostics, Embedded, SourceMap};

fuzz_target!(|text: &str| {
    let (mut map, mut diags) = (SourceMap::default(), Diagnostics::default());
    p4::parse(&mut map, "fuzz.p4", text, &[], &Embedded, &mut diags);
    p4::render::text(&map, diags.list(), false);
});
