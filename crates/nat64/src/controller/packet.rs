//! The headers in front of packets to and from the controller, as apps/nat64/headers.p4 declares them.

/// The bytes of `packet_in_h`.
const IN_BYTES: usize = 34;

/// What the controller is to do with the packet (`verdict` of `packet_out_h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The entries are there: translate it.
    Translate = 0,
    /// There is no room for a binding or a session: drop it, and tell its host.
    NoRoom = 1,
}

/// A packet that opens a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Opening<'a> {
    port: [u8; 2],
    /// It came from an IPv6 host.
    pub from6: bool,
    pub protocol: u8,
    /// From IPv6: the host and its port.
    pub host: u128,
    pub host_port: u16,
    /// From IPv4: the address and port of the pool.
    pub address: u32,
    pub port_of_pool: u16,
    pub remote: u32,
    pub remote_port: u16,
    packet: &'a [u8],
}

impl<'a> Opening<'a> {
    /// Reads a frame for the controller; `None` if it is too short.
    pub fn read(frame: &'a [u8]) -> Option<Opening<'a>> {
        let (header, packet) = frame.split_at_checked(IN_BYTES)?;
        let number = |from: usize, to: usize| {
            header[from..to].iter().fold(0u128, |value, byte| value << 8 | u128::from(*byte))
        };
        Some(Opening {
            port: [header[0], header[1]],
            from6: header[2] != 0,
            protocol: header[3],
            host: number(4, 20),
            host_port: number(20, 22) as u16,
            address: number(22, 26) as u32,
            port_of_pool: number(26, 28) as u16,
            remote: number(28, 32) as u32,
            remote_port: number(32, 34) as u16,
            packet,
        })
    }

    /// The frame with which the packet goes back.
    pub fn back(&self, verdict: Verdict) -> Vec<u8> {
        [&self.port[..], &[verdict as u8], self.packet].concat()
    }
}

/// The frame of a packet that was to be translated, as that of one for which there is no room.
pub(super) fn without_room(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    if let Some(verdict) = frame.get_mut(2) {
        *verdict = Verdict::NoRoom as u8;
    }
    frame
}
