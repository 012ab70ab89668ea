//! The preprocessor: directives, macros, includes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use p4::{Diagnostics, Embedded, SourceMap};

fuzz_target!(|text: &str| {
    let (mut map, mut diags) = (SourceMap::default(), Diagnostics::default());
    let file = map.add("fuzz.p4", text);
    p4::preproc::preprocess(&mut map, file, &[], &Embedded, &mut diags);
    p4::render::text(&map, diags.list(), false);
});
