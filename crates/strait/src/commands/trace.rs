//! `strait trace`: what happens to each packet of a capture.

use anyhow::{Context, bail};
use control::stf;
use interp::trace::{Json, Text};
use interp::{Interpreter, Observer};

use crate::cli::TraceArgs;
use crate::frontend;
use crate::targets::interp::InterpTarget;

/// Traces the packets, port by port.
pub fn run(args: &TraceArgs) -> anyhow::Result<()> {
    let program = frontend::program(&args.source.program, &args.source.preprocess)?;
    let mut target = InterpTarget(Interpreter::new(&program)?);
    if let Some(file) = &args.entries {
        entries(file, &mut target)?;
    }
    let (mut text, mut json) = (Text::new(&program), Json::new(&program));
    for input in &args.inputs {
        let (port, file) =
            input.split_once('=').with_context(|| format!("`{input}` is not PORT=FILE.pcap"))?;
        let port: u32 = port.parse().with_context(|| format!("`{port}` is not a port number"))?;
        for packet in
            io::pcap::read(std::fs::File::open(file).with_context(|| format!("cannot read {file}"))?)?
        {
            let observer: &mut dyn Observer = if args.json { &mut json } else { &mut text };
            target.0.process(port, &packet.data, observer);
            print!("{}", text.take());
        }
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&json.finish())?);
    }
    Ok(())
}

/// Table entries in STF.
fn entries(file: &std::path::Path, target: &mut InterpTarget<'_>) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let case = stf::parse(&file.display().to_string(), &text).map_err(|errors| {
        let lines: Vec<_> = errors.iter().map(|e| e.to_string()).collect();
        anyhow::anyhow!(lines.join("\n"))
    })?;
    let report = stf::load(&case, target);
    if report.passed { Ok(()) } else { bail!("{}", report.text().trim_end()) }
}
