//! The `ipc://` transport of nanomsg: messages with a length over a Unix socket, after a greeting that names the protocol of each end.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::thread;

/// What an end of a connection is to the other.
#[derive(Clone, Copy)]
pub enum Protocol {
    /// Each end sends to the other.
    Pair = 0x10,
    /// This end receives what the other publishes.
    Subscriber = 0x21,
}

/// A connection. A thread receives, until the other end closes.
pub struct Connection {
    stream: UnixStream,
    received: Receiver<Vec<u8>>,
}

impl Connection {
    pub fn open(socket: &Path, protocol: Protocol) -> io::Result<Connection> {
        let mut stream = UnixStream::connect(socket)?;
        stream.write_all(&[0, b'S', b'P', 0, 0, protocol as u8, 0, 0])?;
        let mut greeting = [0; 8];
        stream.read_exact(&mut greeting)?;
        if !greeting.starts_with(b"\0SP\0") {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the other end does not speak nanomsg"));
        }
        let (sender, received) = mpsc::channel();
        let mut reader = stream.try_clone()?;
        thread::spawn(move || {
            while let Ok(message) = receive(&mut reader) {
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        Ok(Connection { stream, received })
    }

    pub fn send(&mut self, message: &[u8]) -> io::Result<()> {
        let mut bytes = vec![MESSAGE];
        bytes.extend((message.len() as u64).to_be_bytes());
        bytes.extend(message);
        self.stream.write_all(&bytes)
    }

    /// The messages that have arrived since the last call.
    pub fn received(&self) -> impl Iterator<Item = Vec<u8>> {
        self.received.try_iter()
    }
}

/// The byte in front of a message's length: a message of the user.
const MESSAGE: u8 = 1;

fn receive(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut head = [0; 9];
    stream.read_exact(&mut head)?;
    let length = head[1..].iter().fold(0, |n, byte| n << 8 | usize::from(*byte));
    let mut message = vec![0; length];
    stream.read_exact(&mut message)?;
    Ok(message)
}
