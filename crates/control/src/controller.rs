//! A control plane of one program, in this process or as a P4Runtime client.
//!
//! It is sans-I/O: the input is an [`Event`] and the time, and the output is [`Effects`]: a batch of updates, and packets that the program gets
//! when the device has taken the batch. [`tell`] passes events to a control plane and brings their effects about. A batch is applied whole or not at all.
//! A control plane undoes what it assumed of a refused one, so that it never knows of an entry that does not exist.

use dataplane::device::{self, Device, DeviceError, Entity, Update};

/// An event that a control plane handles.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// The program has started, with these ports.
    Started(&'a [u32]),
    /// What the device held when the control plane began: it goes on where another one has ended.
    Found(&'a [Entity]),
    /// The program told something.
    Told(&'a device::Event),
}

/// What a control plane asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Effects {
    /// A batch of updates.
    pub updates: Vec<Update>,
    /// Packets for the program, with their headers, when the batch is applied.
    pub packets: Vec<Vec<u8>>,
}

impl From<Vec<Update>> for Effects {
    fn from(updates: Vec<Update>) -> Effects {
        Effects { updates, packets: Vec::new() }
    }
}

impl Effects {
    /// A packet for the program, and no update.
    pub fn packet(packet: Vec<u8>) -> Effects {
        Effects { updates: Vec::new(), packets: vec![packet] }
    }

    /// Adds other effects after these.
    pub fn add(&mut self, mut other: Effects) {
        self.updates.append(&mut other.updates);
        self.packets.append(&mut other.packets);
    }
}

/// A control plane of one program.
pub trait Controller: Send {
    /// Handles an event, and returns what it asks for. `now` is in microseconds and never decreases.
    fn event(&mut self, now: u64, event: Event<'_>) -> Effects;

    /// The effects of the events since the last call have been brought about.
    fn settled(&mut self);

    /// The device has refused the updates since the last call of [`Controller::settled`], so nothing of them was written: forgets what they assumed.
    /// Takes the packets that were to follow, and returns those that shall be sent instead.
    fn refused(&mut self, packets: Vec<Vec<u8>>) -> Vec<Vec<u8>>;
}

/// Passes events to a control plane, and brings their effects about, in one batch if the device takes it. Returns the errors of what it refused.
pub fn tell(
    controller: &mut dyn Controller,
    now: u64,
    events: &[Event<'_>],
    device: &mut dyn Device,
) -> Vec<DeviceError> {
    let mut all = Effects::default();
    for event in events {
        all.add(controller.event(now, *event));
    }
    let written = if all.updates.is_empty() { Ok(()) } else { device.write(&all.updates) };
    let Err(error) = written else {
        controller.settled();
        return send(&all.packets, device);
    };
    let instead = controller.refused(all.packets);
    match events {
        [_] => std::iter::once(error.error).chain(send(&instead, device)).collect(),
        // One by one, so that a wrong update takes no others with it.
        several => {
            let one = |event: &Event<'_>| tell(controller, now, std::slice::from_ref(event), device);
            several.iter().flat_map(one).collect()
        }
    }
}

fn send(packets: &[Vec<u8>], device: &mut dyn Device) -> Vec<DeviceError> {
    packets.iter().filter_map(|packet| device.packet_out(packet).err()).collect()
}
