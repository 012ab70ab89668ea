//! Runs programs in the kernel, which moves the packets: at a tc hook or at the XDP hook.

use std::any::Any;
use std::sync::Arc;

use anyhow::{Context, bail};
use dataplane::Device;
use dataplane::device::Event;
use io::bpf::{Claim, Hook, XdpMode};
use io::controller::ControllerPort;
use io::ebpf::{KernelProgram, XdpOptions};
use io::watch::Wanted;
use p4runtime::server::{Compiler, Target};

use super::budget::Budget;
use super::machine::{self, Code, Form, Machine, Object, Packets, Totals};
use super::{controller_port, interfaces, lost_packets, ports};
use crate::cli::{self, RunArgs, RunTarget};
use crate::frontend::Texts;
use abi::text::chain;
use harness::targets::kernel::At;

/// The interfaces and the program.
pub struct Kernel {
    at: At,
    ports: Vec<(u32, String)>,
    /// The controller's port, until the first program starts.
    controller: Option<(u32, ControllerPort)>,
    /// Its number and its interface.
    controller_at: Option<(u32, String)>,
    xdp_mode: Option<XdpMode>,
    trust_checksums: bool,
    log: bool,
    budget: Budget,
    /// That no other process has these interfaces.
    _claims: Vec<Claim>,
    running: Option<KernelProgram>,
    loaded: Option<KernelProgram>,
    /// The texts of the running program, and of the loaded one.
    texts: Option<Arc<Texts>>,
    loaded_texts: Option<Arc<Texts>>,
    /// How many programs were loaded.
    number: u64,
    last: u64,
}

impl Kernel {
    /// Finds the interfaces of the ports.
    pub fn open(args: &RunArgs, at: At) -> anyhow::Result<Kernel> {
        let driver = format!("{}:", at.name());
        let ports = ports(args, |what| Ok(what.strip_prefix(&driver).unwrap_or(what).to_string()))?;
        let links = io::link::Handle::open()?;
        for (number, interface) in &ports {
            links.index(interface).with_context(|| format!("port {number}"))?;
        }
        let claims = interfaces::claim(&links, &ports)?;
        let controller = controller_port(args, &ports)?;
        let controller_at = controller.as_ref().map(|(number, port)| (*number, port.name().to_string()));
        let xdp_mode = args.xdp_mode.map(|mode| match mode {
            cli::XdpMode::Native => XdpMode::Native,
            cli::XdpMode::Generic => XdpMode::Generic,
        });
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Kernel {
            at,
            ports,
            controller,
            controller_at,
            xdp_mode,
            trust_checksums: args.trust_checksums,
            log: args.log,
            budget: Budget::new(args.program_memory, processors),
            _claims: claims,
            running: None,
            loaded: None,
            texts: None,
            loaded_texts: None,
            number: 0,
            last: KernelProgram::now(),
        })
    }

    fn load_object(&mut self, object: &harness::targets::kernel::Object) -> anyhow::Result<KernelProgram> {
        self.number += 1;
        let mut program = object.load_for_run(&format!("run-{}-{}", self.number, std::process::id()))?;
        let prepared = self.prepare(&mut program);
        match prepared {
            Ok(()) => Ok(program),
            Err(why) => {
                let _ = program.remove();
                Err(why)
            }
        }
    }

    /// Tells a program its ports.
    fn prepare(&self, program: &mut KernelProgram) -> anyhow::Result<()> {
        program.listen(self.log)?;
        for (number, interface) in self.ports.iter().chain(&self.controller_at) {
            program.set_port(*number, interface, 0).with_context(|| format!("port {number}"))?;
        }
        Ok(())
    }

    /// Attaches the first program to the interfaces.
    fn attach(&mut self, program: &mut KernelProgram) -> anyhow::Result<()> {
        let interfaces: Vec<String> =
            self.ports.iter().chain(&self.controller_at).map(|(_, interface)| interface.clone()).collect();
        let mode = match self.at {
            At::Tc => {
                interfaces.iter().try_for_each(|interface| program.attach(interface, Hook::Ingress))?;
                String::new()
            }
            At::Xdp => self.attach_xdp(program, &interfaces)?,
        };
        if let Some((number, port)) = self.controller.take() {
            program.set_controller(number, port)?;
        }
        eprintln!("the program is attached to {} ports{mode}", self.ports.len());
        Ok(())
    }

    /// Attaches the program to the XDP hook of the interfaces. Returns how it runs, for people.
    fn attach_xdp(&self, program: &KernelProgram, interfaces: &[String]) -> anyhow::Result<String> {
        let controller = self.controller.as_ref().map(|(_, port)| port.index());
        let options = XdpOptions { mode: self.xdp_mode, trust_checksums: self.trust_checksums, controller };
        let (mode, why) = program.attach_xdp(interfaces, options)?;
        if let Some(why) = why {
            eprintln!("the kernel's stack runs the program, not the drivers: {why}");
        }
        Ok(format!(" in {} mode", mode.name()))
    }

    /// Gives the hooks of the running program to another one.
    fn replace(&mut self, mut old: KernelProgram, mut next: KernelProgram) -> anyhow::Result<()> {
        if let Err(why) = next.instance().take_over(old.instance()) {
            // Some hooks may have changed. They go back, so that the running program stays whole.
            let _ = old.instance().take_over(next.instance());
            let _ = next.remove();
            self.running = Some(old);
            return Err(why.into());
        }
        old.pass_controller(&mut next);
        self.running = Some(next);
        // The packets have changed over: what is left of the old program is no reason to say that they have not.
        if let Err(why) = old.remove() {
            eprintln!("warning: the previous program is not removed whole: {}", chain(&why));
        }
        Ok(())
    }
}

impl Target for Kernel {
    fn compiler(&self) -> Compiler {
        let target = match self.at {
            At::Tc => RunTarget::Tc,
            At::Xdp => RunTarget::Xdp,
        };
        machine::compiler(Form { target, queues: false }, self.budget)
    }

    fn load(&mut self, object: Box<dyn Any + Send>) -> Result<(), String> {
        let Object { code: Code::Kernel(object), texts } = machine::object(object)? else {
            return Err("the program is for another target".to_string());
        };
        let loaded = self.load_object(&object).map_err(|why| chain(&*why))?;
        self.discard();
        self.loaded = Some(loaded);
        self.loaded_texts = Some(texts);
        Ok(())
    }

    fn loaded(&mut self) -> Option<&mut dyn Device> {
        self.loaded.as_mut().map(|program| program as &mut dyn Device)
    }

    fn both(&mut self) -> Option<(&mut dyn Device, &mut dyn Device)> {
        Some((self.running.as_mut()?, self.loaded.as_mut()?))
    }

    fn commit(&mut self) -> Result<(), String> {
        let mut next = self.loaded.take().ok_or("no program is loaded")?;
        let texts = self.loaded_texts.take();
        if let Some(old) = self.running.take() {
            self.replace(old, next).map_err(|why| chain(&*why))?;
            self.texts = texts;
            return Ok(());
        }
        match self.attach(&mut next) {
            Ok(()) => {
                self.running = Some(next);
                self.texts = texts;
                Ok(())
            }
            Err(why) => {
                let _ = next.remove();
                Err(chain(&*why))
            }
        }
    }

    fn discard(&mut self) {
        if let Some(loaded) = self.loaded.take() {
            let _ = loaded.remove();
        }
    }

    fn running(&mut self) -> Option<&mut dyn Device> {
        self.running.as_mut().map(|program| program as &mut dyn Device)
    }
}

impl Machine for Kernel {
    fn turn(&mut self) -> anyhow::Result<Vec<Event>> {
        let now = KernelProgram::now();
        let Some(program) = &mut self.running else { return Ok(Vec::new()) };
        // Every row is looked at once a second.
        let share = (now - self.last) as f64 / 1e6;
        program.expire(now, share.min(1.0))?;
        self.last = now;
        Ok(program.events()?)
    }

    fn now(&self) -> u64 {
        KernelProgram::now()
    }

    fn totals(&mut self) -> anyhow::Result<Totals> {
        let Some(program) = &mut self.running else { return Ok(Totals::default()) };
        let messages_lost = program.events_lost()?;
        let packets_lost = lost_packets(program.controller())?;
        Ok(Totals { messages_lost, packets_lost, ..Totals::default() })
    }

    fn texts(&self) -> Option<Arc<Texts>> {
        self.texts.clone()
    }

    fn watch(&mut self, _wanted: &Wanted) -> anyhow::Result<Packets> {
        match self.at {
            At::Tc => {
                Ok(Packets::Interfaces(self.ports.iter().chain(&self.controller_at).cloned().collect()))
            }
            At::Xdp => bail!(
                "packets at the XDP hook cannot be seen: they pass before the kernel's packet sockets, and leave without them. Run the program on tc or native to watch it"
            ),
        }
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        self.discard();
        match self.running.take() {
            Some(running) => Ok(running.remove()?),
            None => Ok(()),
        }
    }
}
