//! The built-in control plane of `strait run --controller`.

use anyhow::anyhow;
use control::controller::{self, Controller, Event};
use dataplane::Device;

use crate::cli::RunArgs;
use crate::planes::BuiltIn;

/// The built-in control plane, if one was requested.
#[derive(Default)]
pub struct Plane {
    controller: Option<Box<dyn Controller>>,
    /// The number of batches that the device refused.
    pub refused: u64,
}

impl Plane {
    /// Starts it, with these ports.
    pub fn start(args: &RunArgs, ports: &[u32], device: &mut dyn Device) -> anyhow::Result<Plane> {
        let made = |text: &String| text.parse::<BuiltIn>()?.make(device.manifest());
        let controller = args.controller.as_ref().map(made).transpose().map_err(|why| anyhow!(why))?;
        let mut plane = Plane { controller, refused: 0 };
        plane.tell(&[Event::Started(ports)], 0, device);
        Ok(plane)
    }

    /// Passes events to the control plane, and brings about what it asks for.
    pub fn tell(&mut self, events: &[Event<'_>], now: u64, device: &mut dyn Device) {
        let Some(controller) = &mut self.controller else { return };
        for why in controller::tell(&mut **controller, now, events, device) {
            if self.refused == 0 {
                eprintln!("warning: a write of the control plane was refused: {why}");
            }
            self.refused += 1;
        }
    }

    /// Reports at the end how many writes were refused.
    pub fn report_refused(&self) {
        if self.refused > 1 {
            eprintln!("warning: {} writes of the control plane were refused", self.refused);
        }
    }
}
