//! `strait bench pipeline`: compares a program's machine code with the interpreter, on the packets and tables of cases.
//!
//! The packets are in memory, and each one is copied into a buffer before it is processed, as a network card would do. There are no ports,
//! and one core is used. Both targets take turns in one run, so that disturbances affect both. The best turn of each counts.

use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use harness::stf::{self, Target};
use interp::{Interpreter, Silent};
use serde::Serialize;

use crate::cli::PipelineArgs;
use crate::frontend;
use harness::fuzz::tables_of;
use harness::targets::native::{NativeTarget, Object};

/// The number of turns of each target.
const TURNS: u32 = 3;

/// The measurements of a case.
#[derive(Serialize)]
struct Speed {
    case: String,
    /// The number of different packets.
    packets: usize,
    /// The time per packet in nanoseconds.
    interp_ns: f64,
    native_ns: f64,
    /// The native rate divided by the interpreter's.
    ratio: f64,
}

/// Measures each case, and prints a line about it.
pub fn run(args: &PipelineArgs) -> anyhow::Result<()> {
    ensure!(io::native::has_compiler(), "the native target needs a C compiler: apt-get install gcc");
    let program = frontend::program(&args.program, &args.preprocess)?;
    let object = Object::make(&program)?;
    let mut all = Vec::new();
    for file in &args.cases {
        let case = super::test::read(file)?.case;
        let speed = one(&program, &object, &case)?;
        if !args.json {
            println!("{}", line(&speed));
        }
        all.push(speed);
    }
    if all.len() > 1 {
        let mean = |ns: fn(&Speed) -> f64| all.iter().map(ns).sum::<f64>() / all.len() as f64;
        let (interp_ns, native_ns) = (mean(|s| s.interp_ns), mean(|s| s.native_ns));
        let packets = all.iter().map(|s| s.packets).sum();
        let case = "all cases".to_string();
        all.push(Speed { case, packets, interp_ns, native_ns, ratio: interp_ns / native_ns });
        if !args.json {
            all.last().iter().for_each(|mean| println!("{}", line(mean)));
        }
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&all)?);
    }
    Ok(())
}

fn line(s: &Speed) -> String {
    format!(
        "{:<50} interp {:>8.0} ns/packet, native {:>6.1} ns/packet ({:>6.2} Mpps), {:>5.0} times",
        s.case,
        s.interp_ns,
        s.native_ns,
        1e3 / s.native_ns,
        s.ratio
    )
}

fn one(program: &ir::Verified, object: &Object, case: &stf::Case) -> anyhow::Result<Speed> {
    let (tables, packets) = (tables_of(case), case.packets().collect::<Vec<_>>());
    if packets.is_empty() {
        bail!("{}: there are no packets in this case", case.name);
    }
    let mut slow = Interpreter::new(program)?;
    let mut fast = NativeTarget::load(object)?;
    for report in [stf::load(&tables, &mut slow), stf::load(&tables, fast.device())] {
        ensure!(report.passed, "{}", report.text());
    }
    let mut best = [f64::INFINITY; 2];
    for _ in 0..TURNS {
        let interp = timed(&mut |times| {
            for (port, packet) in (0..times).flat_map(|_| &packets) {
                std::hint::black_box(slow.process(*port, packet, &mut Silent));
            }
        });
        let native = timed(&mut |times| fast.repeat(&packets, times));
        best = [best[0].min(interp), best[1].min(native)];
    }
    let [interp_ns, native_ns] = best.map(|seconds| seconds * 1e9 / packets.len() as f64);
    let case = case.name.clone();
    Ok(Speed { case, packets: packets.len(), interp_ns, native_ns, ratio: interp_ns / native_ns })
}

/// The time of one call in seconds, measured over as many calls as take a twentieth of a second.
fn timed(work: &mut impl FnMut(usize)) -> f64 {
    const ENOUGH: Duration = Duration::from_millis(50);
    let mut times = 16;
    loop {
        let begun = Instant::now();
        work(times);
        let took = begun.elapsed();
        if took >= ENOUGH {
            return took.as_secs_f64() / times as f64;
        }
        times *= 2;
    }
}
