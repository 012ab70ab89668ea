//! Sends a netlink request and receives its answers.

use std::io;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

use crate::Result;
use crate::error::Context;

/// A netlink socket for routing (rtnetlink).
pub struct Handle {
    socket: Socket,
}

impl Handle {
    /// Opens a socket in the calling thread's namespace.
    pub fn open() -> Result<Self> {
        let open = || {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind_auto()?;
            socket.connect(&SocketAddr::new(0, 0))?;
            Ok(Self { socket })
        };
        open().context(|| "open a netlink socket".into())
    }

    /// Sends a request that changes something, and waits for the acknowledgement.
    pub(super) fn act(&self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.exchange(message, flags | NLM_F_ACK).map(drop)
    }

    /// Sends a request for one object, and returns the answers.
    pub(super) fn ask(&self, message: RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.exchange(message, NLM_F_ACK)
    }

    /// Sends a request for a list, and returns its elements.
    pub(super) fn dump(&self, message: RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.exchange(message, NLM_F_DUMP)
    }

    /// Sends a request, and receives until the acknowledgement or the end of the list.
    fn exchange(&self, message: RouteNetlinkMessage, flags: u16) -> io::Result<Vec<RouteNetlinkMessage>> {
        let mut header = NetlinkHeader::default();
        header.flags = flags | NLM_F_REQUEST;
        header.sequence_number = 1;
        let mut request = NetlinkMessage::new(header, NetlinkPayload::from(message));
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;

        let mut answers = Vec::new();
        loop {
            let (datagram, _) = self.socket.recv_from_full()?;
            if take_datagram(&datagram, &mut answers)? {
                return Ok(answers);
            }
        }
    }
}

/// Collects the messages of a datagram. Returns `true` after the last message of the exchange.
fn take_datagram(mut rest: &[u8], answers: &mut Vec<RouteNetlinkMessage>) -> io::Result<bool> {
    while rest.len() >= 16 {
        let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest)
            .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.to_string()))?;
        let len = (answer.header.length as usize).next_multiple_of(4).max(16);
        match answer.payload {
            NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.to_io()),
            NetlinkPayload::Error(_) | NetlinkPayload::Done(_) => return Ok(true),
            NetlinkPayload::InnerMessage(message) => answers.push(message),
            _ => {}
        }
        rest = rest.get(len..).unwrap_or(&[]);
    }
    Ok(false)
}
