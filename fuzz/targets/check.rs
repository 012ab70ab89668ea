//! The checker on text as libFuzzer changes it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    strait_fuzz::accept(text);
});
