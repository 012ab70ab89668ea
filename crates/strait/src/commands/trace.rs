//! `strait trace`: prints how each packet of a capture is processed.

use std::path::Path;

use anyhow::Context;
use interp::Interpreter;
use interp::trace::{Json, Text};
use io::pcap::{Frame, Remark};

use crate::cli::TraceArgs;
use crate::frontend;

/// Traces the packets of all ports in the order of their timestamps, which are also the time that the program reads.
pub fn run(args: &TraceArgs) -> anyhow::Result<()> {
    let (program, map) = frontend::with_text(&args.source.program, &args.source.preprocess)?;
    let statements = |loc: ir::Loc| frontend::statement(&map, loc);
    let mut interpreter = Interpreter::new(&program)?;
    if let Some(file) = &args.entries {
        super::run::fill(file, &mut interpreter)?;
    }
    let (mut text, mut json) = (Text::new(&program, &statements), Json::new(&program, &statements));
    let mut remarks = Vec::new();
    for (number, (port, packet)) in packets(&args.inputs)?.into_iter().enumerate() {
        interpreter.set_clock(packet.time.as_micros() as u64);
        if args.json {
            interpreter.process(port, &packet.data, &mut json);
            continue;
        }
        let outcome = interpreter.process(port, &packet.data, &mut text);
        let way = text.take();
        if args.pcapng.is_some() {
            remarks.extend(remark(number + 1, port, packet, &way, &outcome.sent));
        }
        print!("{way}");
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&json.finish())?);
    }
    if let Some(file) = &args.pcapng {
        let out = std::fs::File::create(file).with_context(|| format!("cannot write {}", file.display()))?;
        io::pcap::write_remarks(std::io::BufWriter::new(out), &remarks)?;
    }
    Ok(())
}

/// The packets of all `PORT=FILE` captures, ordered by time. Packets with equal times stay in the order in which they are given.
fn packets(inputs: &[String]) -> anyhow::Result<Vec<(u32, Frame)>> {
    let mut all = Vec::new();
    for input in inputs {
        let (port, file) =
            input.split_once('=').with_context(|| format!("`{input}` is not PORT=FILE.pcap"))?;
        let port: u32 = port.parse().with_context(|| format!("`{port}` is not a port number"))?;
        let capture = frontend::bytes(Path::new(file))?;
        let frames = io::pcap::read(capture.as_slice()).with_context(|| format!("in {file}"))?;
        all.extend(frames.into_iter().map(|frame| (port, frame)));
    }
    all.sort_by_key(|(_, frame)| frame.time);
    Ok(all)
}

/// A packet with its path and its result.
fn remark(number: usize, port: u32, frame: Frame, way: &str, sent: &[(u32, Vec<u8>)]) -> Vec<Remark> {
    let name = |port: u32| format!("port {port}");
    let time = frame.time;
    let mut all =
        vec![Remark { frame, interface: name(port), outbound: false, comment: way.trim_end().to_string() }];
    all.extend(sent.iter().map(|(port, bytes)| Remark {
        frame: Frame { time, data: bytes.clone() },
        interface: name(*port),
        outbound: true,
        comment: format!("of packet {number}"),
    }));
    all
}
