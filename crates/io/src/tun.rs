//! A TUN interface that carries frames of any length. It is for tests; the packet driver is `port::tap`.
//!
//! The interface has no link-layer header, so it also carries frames that are too short for one. This process is its other end. Each
//! frame passes with packet information (`struct tun_pi` of linux/if_tun.h), which tells the kernel an EtherType; without it the kernel
//! would accept IP packets only.

use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use crate::Result;
use crate::error::Context;
use crate::port::socket;

/// The packet information of each frame: no flags, and an EtherType that no protocol handler of the kernel receives (Local Experimental,
/// IEEE 802).
const INFORMATION: [u8; 4] = [0, 0, 0x88, 0xb5];

/// A TUN interface. It is removed when the value is dropped.
#[derive(Debug)]
pub struct Tun {
    file: File,
    name: String,
}

/// Whether this machine has TUN interfaces: the reason why not, as an error.
pub fn available() -> Result<()> {
    device().map(drop)
}

fn device() -> Result<File> {
    socket::open_tun().context(|| "open /dev/net/tun".to_string())
}

impl Tun {
    /// Creates an interface in the calling thread's namespace. It is down.
    pub fn create(name: &str) -> Result<Self> {
        let file = device()?;
        socket::join_tun(&file, name, socket::IFF_TUN, 0)
            .context(|| format!("make the TUN interface {name}"))?;
        Ok(Self { file, name: name.to_owned() })
    }

    /// Sends a frame of at least one byte: the interface receives it. The programs that are attached to the interface have processed the
    /// frame when the function returns.
    pub fn send(&self, frame: &[u8]) -> Result<()> {
        let sent = socket::write_parts(self.file.as_fd(), &INFORMATION, frame);
        sent.map(drop).context(|| format!("send {} bytes into {}", frame.len(), self.name))
    }

    /// Waits for the next frame that the interface sends; `None` if there is none in time.
    pub fn receive(&self, timeout: Duration) -> Result<Option<Vec<u8>>> {
        let deadline = Instant::now() + timeout;
        let mut frame = vec![0; 65_536 + 64];
        loop {
            let mut information = INFORMATION;
            match socket::read_parts(self.file.as_fd(), &mut information, &mut frame) {
                Ok(length) => {
                    frame.truncate(length.saturating_sub(INFORMATION.len()));
                    return Ok(Some(frame));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error).context(|| format!("receive from {}", self.name)),
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            // The timeout is rounded up. Otherwise the last fraction of a millisecond would be a busy loop.
            socket::wait(&[self.file.as_fd()], left + Duration::from_millis(1));
        }
    }
}
