//! Runs programs on the native target: workers of this process move packets between ports.

use std::any::Any;
use std::sync::Arc;

use anyhow::Context;
use dataplane::device::{Device, Event};
use dataplane::port::PortCounts;
use io::controller::ControllerPort;
use io::native::NativeProgram;
use io::port::Driver;
use io::switch::{PortQueues, Shapes, Switch};
use io::watch::Wanted;
use p4runtime::server::{Compiler, Target};

use super::budget::Budget;
use super::machine::{self, Code, Form, Machine, Object, Packets, Totals};
use super::{controller_port, driver, lost_packets, ports, queues};
use crate::cli::{RunArgs, RunTarget};
use crate::frontend::Texts;
use abi::text::chain;

/// The ports and the workers.
pub struct Native {
    workers: usize,
    numbers: Vec<u32>,
    /// The workers' queues of the ports, until the first program starts.
    queues: Option<Vec<PortQueues>>,
    /// The queues in front of ports that have a rate.
    shapes: Shapes,
    controller: Option<ControllerPort>,
    switch: Option<Switch>,
    loaded: Option<(Arc<NativeProgram>, Arc<dataplane::Memory>, Arc<Texts>)>,
    /// The texts of the running program.
    texts: Option<Arc<Texts>>,
    log: bool,
    budget: Budget,
    ages: Ages,
}

impl Native {
    /// Opens the ports.
    pub fn open(args: &RunArgs) -> anyhow::Result<Native> {
        let workers = args.workers.unwrap_or(1);
        let mut drivers = ports(args, driver)?;
        let controller = controller_port(args, &drivers)?;
        let (number, controller) = controller.unzip();
        if let Some((number, port)) = number.zip(controller.as_ref()) {
            drivers.push((number, Driver::AfPacket(port.name().to_string())));
        }
        let queues = open(args, &drivers, workers)?;
        let numbers = drivers.iter().map(|(number, _)| *number).collect();
        let (switch, loaded) = (None, None);
        Ok(Native {
            workers,
            numbers,
            queues: Some(queues),
            shapes: queues::shapes(args)?,
            controller,
            switch,
            loaded,
            texts: None,
            log: args.log,
            budget: Budget::new(args.program_memory, workers),
            ages: Ages { last: 0 },
        })
    }
}

impl Target for Native {
    fn compiler(&self) -> Compiler {
        machine::compiler(Form { target: RunTarget::Native, queues: !self.shapes.is_empty() }, self.budget)
    }

    fn load(&mut self, object: Box<dyn Any + Send>) -> Result<(), String> {
        let Object { code: Code::Native(object), texts } = machine::object(object)? else {
            return Err("the program is for another target".to_string());
        };
        let program = object.load().map_err(|why| chain(&*why))?;
        let mut memory = program.memory().clone();
        memory.listen(self.log).map_err(|why| why.to_string())?;
        self.loaded = Some((program, memory, texts));
        Ok(())
    }

    fn loaded(&mut self) -> Option<&mut dyn Device> {
        let now = self.now();
        let (_, memory, _) = self.loaded.as_mut()?;
        memory.set_clock(now);
        Some(memory)
    }

    fn both(&mut self) -> Option<(&mut dyn Device, &mut dyn Device)> {
        let (_, loaded, _) = self.loaded.as_mut()?;
        Some((self.switch.as_mut()?, loaded))
    }

    fn commit(&mut self) -> Result<(), String> {
        let (program, _, texts) = self.loaded.take().ok_or("no program is loaded")?;
        if let Some(switch) = &mut self.switch {
            switch.replace(program);
            self.texts = Some(texts);
            return Ok(());
        }
        let queues = self.queues.take().ok_or("the ports are closed")?;
        let switch = Switch::start_with(program, queues, self.workers, &self.shapes);
        let mut switch = switch.map_err(|why| why.to_string())?;
        if let Some(port) = self.controller.take() {
            switch.set_controller(port);
        }
        self.switch = Some(switch);
        self.texts = Some(texts);
        Ok(())
    }

    fn discard(&mut self) {
        self.loaded = None;
    }

    fn running(&mut self) -> Option<&mut dyn Device> {
        self.switch.as_mut().map(|switch| switch as &mut dyn Device)
    }
}

impl Machine for Native {
    fn turn(&mut self) -> anyhow::Result<Vec<Event>> {
        let Some(switch) = &mut self.switch else { return Ok(Vec::new()) };
        let events = switch.events()?;
        let now = switch.now();
        self.ages.turn(switch.program().memory(), now);
        Ok(events)
    }

    fn now(&self) -> u64 {
        self.switch.as_ref().map_or(0, Switch::now)
    }

    fn ended(&self) -> bool {
        self.switch.as_ref().is_some_and(Switch::ended)
    }

    fn totals(&mut self) -> anyhow::Result<Totals> {
        let Some(switch) = &mut self.switch else { return Ok(Totals::default()) };
        let counts: Vec<PortCounts> = switch.counts();
        Ok(Totals {
            ports: self.numbers.iter().copied().zip(counts).collect(),
            queues: switch.queues(),
            messages_lost: switch.events_lost(),
            packets_lost: lost_packets(switch.controller())?,
        })
    }

    fn texts(&self) -> Option<Arc<Texts>> {
        self.texts.clone()
    }

    fn watch(&mut self, wanted: &Wanted) -> anyhow::Result<Packets> {
        queues::unwatched(&self.shapes)?;
        let switch = self.switch.as_mut().context("no program runs yet")?;
        Ok(Packets::Copies(switch.watch(wanted)))
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        let Some(switch) = &mut self.switch else { return Ok(()) };
        switch.halt().map_or(Ok(()), |error| Err(error.into()))
    }
}

/// The removal of entries that packets added and whose time has passed. Every row is searched once a second, whatever the traffic, so an entry
/// may stay for a second longer.
struct Ages {
    /// The time of the last turn in microseconds.
    last: u64,
}

impl Ages {
    fn turn(&mut self, memory: &dataplane::Memory, now: u64) {
        let share = now.saturating_sub(self.last) as f64 / 1e6;
        self.last = now;
        memory.expire(now, share.min(1.0));
    }
}

/// Opens all ports, and prints how each of them works.
fn open(args: &RunArgs, drivers: &[(u32, Driver)], workers: usize) -> anyhow::Result<Vec<PortQueues>> {
    let mut queues = Vec::new();
    for (at, (number, driver)) in drivers.iter().enumerate() {
        let opened = driver.open(workers).with_context(|| format!("port {number}"))?;
        let how = opened.first().map(|queue| queue.how()).filter(|how| !how.is_empty());
        let how = how.map_or(String::new(), |how| format!(" ({how})"));
        // The controller's port stands behind those of the command line.
        match args.ports.get(at) {
            Some(text) => eprintln!("port {text}{how}"),
            None => eprintln!("port {number} is the controller's{how}"),
        }
        queues.push((*number, opened));
    }
    Ok(queues)
}
