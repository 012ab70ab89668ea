//! `strait trace`: prints how each packet of a capture is processed.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use interp::Interpreter;
use interp::trace::{Json, Text};
use io::pcap::{Frame, Remark, Remarks};

use crate::cli::TraceArgs;
use crate::frontend;

/// Traces packets of captures, or those of a running switch.
pub fn run(args: &TraceArgs) -> anyhow::Result<()> {
    if args.live {
        return super::capture::trace(&args.watching, args.json, args.pcapng.as_deref());
    }
    if let Some(option) = args.watching.given() {
        bail!("{option} is for --live: a capture is traced as a whole");
    }
    let program = args.program.as_ref().context("no program is named")?;
    captures(program, args)
}

/// Traces the packets of all ports in the order of their timestamps, which are also the time that the program reads.
fn captures(program: &Path, args: &TraceArgs) -> anyhow::Result<()> {
    let (program, map) = frontend::with_text(program, &args.preprocess)?;
    let statements = |loc: ir::Loc| frontend::statement(&map, loc);
    let mut interpreter = Interpreter::new(&program)?;
    if let Some(file) = &args.entries {
        super::run::fill(file, &mut interpreter)?;
    }
    let (mut text, mut json) = (Text::new(&program, &statements), Json::new(&program, &statements));
    let mut capture = Capture::default();
    for (number, (port, packet)) in packets(&args.inputs)?.into_iter().enumerate() {
        interpreter.set_clock(packet.time.as_micros() as u64);
        if args.json {
            interpreter.process(port, &packet.data, &mut json);
            continue;
        }
        let outcome = interpreter.process(port, &packet.data, &mut text);
        let way = text.take();
        if args.pcapng.is_some() {
            capture.add(number as u64 + 1, port, packet, &way, outcome.sent);
        }
        print!("{way}");
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&json.finish())?);
    }
    if let Some(file) = &args.pcapng {
        let out = std::fs::File::create(file).with_context(|| format!("cannot write {}", file.display()))?;
        capture.write(std::io::BufWriter::new(out))?;
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

/// Packets that arrived and left, each with its port.
#[derive(Default)]
struct Capture(Vec<(u32, Remark)>);

impl Capture {
    /// Adds a packet with its path and its result.
    fn add(&mut self, number: u64, port: u32, frame: Frame, way: &str, sent: Vec<(u32, Vec<u8>)>) {
        let time = frame.time;
        let remark = |frame: Frame, outbound, comment| Remark {
            length: frame.data.len(),
            frame,
            interface: 0,
            packet: number,
            outbound,
            comment,
        };
        self.0.push((port, remark(frame, false, way.trim_end().to_string())));
        for (port, data) in sent {
            self.0.push((port, remark(Frame { time, data }, true, format!("of packet {number}"))));
        }
    }

    /// Writes the capture. Each port is an interface, in the order in which packets meet them.
    fn write(self, to: impl Write) -> anyhow::Result<()> {
        let mut ports: Vec<u32> = Vec::new();
        for (port, _) in &self.0 {
            if !ports.contains(port) {
                ports.push(*port);
            }
        }
        let names: Vec<String> = ports.iter().map(|port| format!("port {port}")).collect();
        let mut writer = Remarks::new(to, &names)?;
        for (port, remark) in self.0 {
            let interface = ports.iter().position(|known| *known == port).unwrap_or(0);
            writer.add(&Remark { interface, ..remark })?;
        }
        writer.finish(Duration::ZERO, &[])?;
        Ok(())
    }
}
