//! `strait bench pipeline`: compares a program's machine code with the interpreter, on the packets and tables of cases.
//!
//! The packets are in memory, and each one is copied into a buffer before it is processed, as a network card would do. There are no ports,
//! and one core is used. Both targets take turns in one run, so that disturbances affect both. The best turn of each counts.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use harness::fuzz::tables_of;
use harness::stf::{self, Target};
use harness::targets::native::{NativeTarget, Object};
use interp::{Interpreter, Silent};
use serde::Serialize;

/// The number of turns of each target.
const TURNS: u32 = 3;

/// The measurements of a case.
#[derive(Debug, Serialize)]
pub struct Speed {
    case: String,
    /// The number of different packets.
    packets: usize,
    /// The time per packet in nanoseconds.
    interp_ns: f64,
    native_ns: f64,
    /// The native rate divided by the interpreter's.
    ratio: f64,
}

/// Measures a program with the packets and entries of each case, and adds the means if there are several cases. Gives the figures to
/// `each` as they come.
pub fn run(
    program: &ir::Verified,
    cases: &[stf::Case],
    each: &mut dyn FnMut(&Speed),
) -> anyhow::Result<Vec<Speed>> {
    ensure!(io::native::has_compiler(), "the native target needs a C compiler: apt-get install gcc");
    let object = Object::make(program)?;
    let mut all = Vec::new();
    for case in cases {
        let speed = one(program, &object, case)?;
        each(&speed);
        all.push(speed);
    }
    if all.len() > 1 {
        let mean = mean(&all);
        each(&mean);
        all.push(mean);
    }
    Ok(all)
}

/// The means of all cases.
fn mean(all: &[Speed]) -> Speed {
    let mean = |ns: fn(&Speed) -> f64| all.iter().map(ns).sum::<f64>() / all.len() as f64;
    let (interp_ns, native_ns) = (mean(|s| s.interp_ns), mean(|s| s.native_ns));
    let packets = all.iter().map(|s| s.packets).sum();
    Speed { case: "all cases".to_string(), packets, interp_ns, native_ns, ratio: interp_ns / native_ns }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<50} interp {:>8.0} ns/packet, native {:>6.1} ns/packet ({:>6.2} Mpps), {:>5.0} times",
            self.case,
            self.interp_ns,
            self.native_ns,
            1e3 / self.native_ns,
            self.ratio
        )
    }
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
