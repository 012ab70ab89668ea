//! The paths of packets, from the interpreter: it runs the same program, with the state of the running one at that moment.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};
use dataplane::device::copy;
use interp::event::{Event, Observer};
use interp::trace::{Json, Text};
use interp::{Interpreter, Outcome};
use serde_json::Value;

use super::serve::Asker;
use crate::frontend;

/// The most entities of a state: a copy of them takes some hundred megabytes.
const MOST: usize = 500_000;
/// The time between two copies of the state. Reading it costs the switch's control plane time, but packets nothing.
const BETWEEN: Duration = Duration::from_millis(100);

/// What a replay must know of the target.
#[derive(Clone, Copy, Debug, Default)]
pub struct Target {
    /// Whether a packet that arrives with a wrong checksum over its payload leaves with one that is wrong by as much.
    pub carries_wrong_sums: bool,
    /// The port of the controller, if what leaves through it is not seen.
    pub controller: Option<u32>,
}

/// A packet that was run.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// The packets that leave, each with its port.
    pub sent: Vec<(u32, Vec<u8>)>,
    /// The names of the reasons for which it, and copies of it, are dropped.
    pub dropped: Vec<String>,
    pub path: String,
    pub events: Option<Value>,
}

/// A copy of the running program.
pub struct Replay {
    ask: Asker,
    program: Arc<ir::Verified>,
    /// The text of the program's files.
    map: Arc<p4::SourceMap>,
    target: Target,
    paths: bool,
    json: bool,
    copy: Interpreter<'static>,
    copied: Instant,
}

impl Replay {
    /// Copies the state of the running program.
    pub fn new(
        ask: Asker,
        (program, map): (Arc<ir::Verified>, Arc<p4::SourceMap>),
        target: Target,
        (paths, json): (bool, bool),
    ) -> anyhow::Result<Replay> {
        let copy = copied(&ask, &program, target)?;
        Ok(Replay { ask, program, map, target, paths, json, copy, copied: Instant::now() })
    }

    /// Runs a packet in the copy. If `agrees` says that something else has happened, the state is copied again: it may have changed since the
    /// last copy. Returns what the interpreter says, and whether it agrees.
    pub fn explain(
        &mut self,
        port: u32,
        time: u64,
        packet: &[u8],
        agrees: &mut dyn FnMut(&Told) -> bool,
    ) -> anyhow::Result<(Told, bool)> {
        let told = self.run(port, time, packet);
        if agrees(&told) {
            return Ok((told, true));
        }
        std::thread::sleep(BETWEEN.saturating_sub(self.copied.elapsed()));
        self.copy = copied(&self.ask, &self.program, self.target)?;
        self.copied = Instant::now();
        let told = self.run(port, time, packet);
        let agreed = agrees(&told);
        Ok((told, agreed))
    }

    fn run(&mut self, port: u32, time: u64, packet: &[u8]) -> Told {
        self.copy.set_clock(time);
        let statements = |loc: ir::Loc| frontend::statement(&self.map, loc);
        let mut observer = Both {
            text: self.paths.then(|| Text::new(&self.program, &statements)),
            json: (self.paths && self.json).then(|| Json::new(&self.program, &statements)),
        };
        let Outcome { sent, dropped } = self.copy.process(port, packet, &mut observer);
        let reasons = &self.copy.manifest().drops;
        let dropped =
            dropped.into_iter().filter_map(|number| Some(reasons.get(number)?.name.clone())).collect();
        let path = observer.text.map_or(String::new(), |mut text| text.take());
        // The first line says what the head of the account says.
        let path = path.split_once('\n').map_or(String::new(), |(_, path)| path.to_string());
        let events = observer.json.map(|json| json.finish()[0]["events"].take());
        Told { sent, dropped, path, events }
    }

    /// Whether paths are wanted.
    pub fn has_paths(&self) -> bool {
        self.paths
    }
}

fn copied(ask: &Asker, program: &Arc<ir::Verified>, target: Target) -> anyhow::Result<Interpreter<'static>> {
    let read = |device: &mut dyn dataplane::Device| copy::state(device, MOST);
    let Some(state) = ask.of_device(read)?? else {
        bail!(
            "the tables and registers have more than {MOST} entries: their copy, in which packets are replayed, would be too large"
        );
    };
    let mut copy = Interpreter::of(program.clone())?;
    copy::restore(&mut copy, &state)
        .map_err(|refused| anyhow!("the state of the program cannot be copied: {}", refused.error))?;
    copy.set_controller_port(target.controller);
    if target.carries_wrong_sums {
        copy.carry_wrong_sums();
    }
    Ok(copy)
}

/// Writes a path in two forms.
struct Both<'p> {
    text: Option<Text<'p>>,
    json: Option<Json<'p>>,
}

impl Observer for Both<'_> {
    fn wants_events(&self) -> bool {
        self.text.is_some() || self.json.is_some()
    }

    fn event(&mut self, event: Event<'_>) {
        if let Some(json) = &mut self.json {
            json.event(event.clone());
        }
        if let Some(text) = &mut self.text {
            text.event(event);
        }
    }
}
