//! From P4 to packets, on programs that are changed token by token: what is accepted becomes IR that `verify` takes, and runs.
#![no_main]

use interp::{Interpreter, Silent};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use strait_fuzz::mutate::mutate;

fuzz_target!(|text: &str| {
    let (_, _, Some(Some(program))) = strait_fuzz::accept(text) else { return };
    let Ok(mut machine) = Interpreter::new(&program) else { return };
    for packet in [&[][..], &[0; 64], &[0xff; 100], &text.as_bytes()[..text.len().min(1500)]] {
        machine.process(1, packet, &mut Silent);
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let Ok(text) = std::str::from_utf8(&data[..size]) else { return fuzzer_mutate(data, size, max_size) };
    // Now and then as bytes: the lexer is part of the way, too.
    if seed % 16 == 0 {
        return fuzzer_mutate(data, size, max_size);
    }
    let new = mutate(text, None, max_size.min(data.len()), seed);
    data[..new.len()].copy_from_slice(new.as_bytes());
    new.len()
});

libfuzzer_sys::fuzz_crossover!(|a: &[u8], b: &[u8], out: &mut [u8], seed: u32| {
    let (Ok(a), Ok(b)) = (std::str::from_utf8(a), std::str::from_utf8(b)) else { return 0 };
    let new = mutate(a, Some(b), out.len(), seed);
    out[..new.len()].copy_from_slice(new.as_bytes());
    new.len()
});
