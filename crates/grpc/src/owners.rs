//! Whose the connections over the loopback interface are: the kernel tells the user of a socket (sock_diag(7)), so that users of one machine have shares
//! of their own over TCP, too.

use std::io::{Error, ErrorKind};
use std::net::{IpAddr, SocketAddr};

use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, SocketId, StateFlags};
use netlink_sys::{Socket, protocols::NETLINK_SOCK_DIAG};

/// INET_DIAG_NOCOOKIE of linux/inet_diag.h: any socket with these addresses.
const NO_COOKIE: [u8; 8] = [0xff; 8];
/// The longest answer about one socket.
const ANSWER: usize = 4096;

/// A socket that asks the kernel about sockets of this network namespace.
pub struct Owners(Socket);

/// What the kernel says of the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A process of this user has it.
    User(u32),
    /// It was closed: no process has it any more.
    Nobody,
    /// The kernel does not say. So it is where the server was given its socket by a process in another network namespace.
    Unknown,
}

impl Owners {
    /// Opens the socket. The error says that this kernel has no sock_diag.
    pub fn open() -> Result<Owners, Error> {
        let socket = Socket::new(NETLINK_SOCK_DIAG)?;
        socket.connect(&netlink_sys::SocketAddr::new(0, 0))?;
        // The kernel has answered when a question has been sent.
        socket.set_non_blocking(true)?;
        Ok(Owners(socket))
    }

    /// The owner of the socket at the other end of a connection.
    pub fn of(&self, peer: SocketAddr, local: SocketAddr) -> Owner {
        match self.ask(peer, local) {
            Ok((_, 0)) => Owner::Nobody,
            Ok((user, _)) => Owner::User(user),
            Err(_) => Owner::Unknown,
        }
    }

    /// The user and the inode of a socket. A socket that was closed has no inode.
    fn ask(&self, source: SocketAddr, destination: SocketAddr) -> Result<(u32, u32), Error> {
        let (source_address, destination_address) =
            (source.ip().to_canonical(), destination.ip().to_canonical());
        let request = InetRequest {
            family: if matches!(source_address, IpAddr::V4(_)) { AF_INET } else { AF_INET6 },
            protocol: IPPROTO_TCP,
            extensions: ExtensionFlags::empty(),
            states: StateFlags::all(),
            socket_id: SocketId {
                source_port: source.port(),
                destination_port: destination.port(),
                source_address,
                destination_address,
                interface_id: 0,
                cookie: NO_COOKIE,
            },
        };
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST;
        let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.0.send(&bytes, 0)?;
        let mut answer = Vec::with_capacity(ANSWER);
        self.0.recv(&mut answer, 0)?;
        let damaged = |error| Error::new(ErrorKind::InvalidData, error);
        match NetlinkMessage::<SockDiagMessage>::deserialize(&answer).map_err(damaged)?.payload {
            NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(response)) => {
                Ok((response.header.uid, response.header.inode))
            }
            NetlinkPayload::Error(error) => Err(error.to_io()),
            _ => Err(ErrorKind::InvalidData.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_owner_of_a_connection_is_its_user_until_it_is_closed() {
        let owners = Owners::open().expect("sock_diag");
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let client = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
            let (server, peer) = listener.accept().expect("a connection");
            let local = server.local_addr().expect("connected");
            assert_eq!(owners.of(peer, local), Owner::User(rustix::process::geteuid().as_raw()), "{address}");
            drop(client);
            assert_eq!(owners.of(peer, local), Owner::Nobody, "{address}");
        }
    }
}
