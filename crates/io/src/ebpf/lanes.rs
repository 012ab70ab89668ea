//! Lanes: interfaces that are shortcuts past another interface.

use dataplane::Count;

use super::KernelProgram;
use super::stats::total;
use crate::{Error, Result};

/// A shortcut past an interface; see [`KernelProgram::set_lane`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    /// The P4 ingress port of the packets that enter.
    pub port: u32,
    /// The index of the interface that the lane bypasses.
    pub past: u32,
    /// Whether packets go directly to the next hop. The stack, and netfilter with it, does not see them.
    pub direct: bool,
    /// The MAC address of the packets that enter at the XDP hook. At a tc hook the kernel knows.
    pub mac: [u8; 6],
}

/// The flag of a lane whose packets go to the next hop: that of `struct ingress` in the program.
const DIRECT: u32 = 1;

impl Lane {
    /// The value in the program's map.
    fn pack(&self, number: u16) -> Vec<u8> {
        let flags = if self.direct { DIRECT } else { 0 };
        let mut bytes = [self.port, self.past, flags].map(u32::to_ne_bytes).concat();
        bytes.extend(self.mac);
        bytes.extend(number.to_ne_bytes());
        bytes
    }

    /// Reads a value of the map; `None` if it is that of a port which is no lane.
    fn unpack(value: &[u8]) -> Option<(Lane, u16)> {
        let word = |at: usize| Some(u32::from_ne_bytes(value.get(4 * at..4 * at + 4)?.try_into().ok()?));
        let lane = Lane {
            port: word(0)?,
            past: word(1)?,
            direct: word(2)? & DIRECT != 0,
            mac: value.get(12..18)?.try_into().ok()?,
        };
        let number = u16::from_ne_bytes(value.get(18..20)?.try_into().ok()?);
        (lane.past != 0).then_some((lane, number))
    }
}

impl KernelProgram {
    /// Makes an interface a lane: a shortcut past another interface, which is the one that normally receives the packets of this port. The
    /// program processes the packets that the kernel would route into the other interface as soon as they arrive, and the kernel routes
    /// the packets that it sends, or the program sends them to the next hop. A packet that the program drops continues unchanged and is not
    /// counted, so the other interface processes it again.
    ///
    /// The interface must have Ethernet headers. If the program updates counters before it drops, such packets are counted twice.
    pub fn set_lane(&mut self, ifindex: u32, lane: Lane) -> Result<()> {
        let counts = self.lane_counts()?;
        let known = self.numbered(ifindex)?.map(|(_, number)| number);
        let number = match known {
            Some(number) => number,
            None => {
                let taken = self.lane_numbers()?;
                let most = self.map(&counts)?.max_entries();
                let free = (0..most as u16).find(|number| !taken.contains(number));
                let free = free.ok_or_else(|| Error::Object(format!("there is room for {most} lanes")))?;
                self.map(&counts)?.set_total(&u32::from(free).to_ne_bytes(), &[0; 16])?;
                free
            }
        };
        self.write_ingress(ifindex, &lane.pack(number))
    }

    /// The lane of an interface; `None` if it has none.
    pub fn lane(&mut self, ifindex: u32) -> Result<Option<Lane>> {
        Ok(self.numbered(ifindex)?.map(|(lane, _)| lane))
    }

    /// The packets that the lane of an interface has taken.
    pub fn lane_count(&mut self, ifindex: u32) -> Result<Option<Count>> {
        let Some((_, number)) = self.numbered(ifindex)? else { return Ok(None) };
        let counts = self.lane_counts()?;
        total(self.map(&counts)?, number.into()).map(Some)
    }

    /// Makes the lanes' program for the XDP hook ready beside that for tc. It is another object of the same P4 program, whose maps are those of this
    /// one, so entries are written once. It is no error if it is ready already.
    pub fn load_xdp_lanes(&self, object: &[u8]) -> Result<()> {
        self.instance.load_xdp(object, &self.manifest.entry)
    }

    fn lane_counts(&self) -> Result<String> {
        let counts = self.maps_of()?.lanes.clone();
        counts.ok_or_else(|| Error::Object("the program was compiled without lanes".to_string()))
    }

    fn numbered(&mut self, ifindex: u32) -> Result<Option<(Lane, u16)>> {
        Ok(self.read_ingress(ifindex)?.and_then(|value| Lane::unpack(&value)))
    }

    fn lane_numbers(&mut self) -> Result<Vec<u16>> {
        let all = self.all_ingress()?;
        Ok(all.iter().filter_map(|value| Lane::unpack(value)).map(|(_, number)| number).collect())
    }
}
