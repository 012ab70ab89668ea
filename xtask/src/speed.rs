//! Measures the packet rate of the interpreter, with the packets and tables of cases.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, ensure};
use harness::stf::{self, Kind};
use interp::{Interpreter, Silent};
use p4::{Diagnostics, SourceMap};

use crate::include::Beside;

/// Prints the rate of each case, and the rate of all together.
pub fn run(program: &Path, cases: &[std::path::PathBuf]) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(program).with_context(|| program.display().to_string())?;
    let (mut map, mut diags) = (SourceMap::default(), Diagnostics::default());
    let name = program.display().to_string();
    let compiled = p4::compile(&mut map, &name, &text, &[], &Beside, &mut diags);
    let compiled = compiled.with_context(|| p4::render::text(&map, diags.list(), false))?;
    let (mut packets, mut seconds) = (0, 0.0);
    for file in cases {
        let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let case = stf::parse(&file.display().to_string(), &text)
            .map_err(|errors| anyhow::anyhow!("{}", errors[0]))?;
        let (n, s) = one(&compiled, &case)?;
        println!("{:<60} {:>10.0} packets/s", file.display(), n as f64 / s);
        (packets, seconds) = (packets + n, seconds + s);
    }
    println!("{:<60} {:>10.0} packets/s", "all", packets as f64 / seconds);
    Ok(())
}

fn one(program: &ir::Verified, case: &stf::Case) -> anyhow::Result<(usize, f64)> {
    const ROUNDS: usize = 2000;
    let fills = |kind: &Kind| matches!(kind, Kind::Add { .. } | Kind::SetDefault { .. });
    let tables = stf::Case {
        name: case.name.clone(),
        statements: case.statements.iter().filter(|s| fills(&s.kind)).cloned().collect(),
    };
    let mut target = Interpreter::new(program)?;
    let report = stf::load(&tables, &mut target);
    ensure!(report.passed, "{}", report.text());
    let packets: Vec<_> = case.packets().collect();
    let begun = Instant::now();
    for _ in 0..ROUNDS {
        for (port, packet) in &packets {
            std::hint::black_box(target.process(*port, packet, &mut Silent));
        }
    }
    Ok((packets.len() * ROUNDS, begun.elapsed().as_secs_f64()))
}
