//! The kernel's notifications of changes to interfaces, addresses, routes and rules.

use std::os::fd::{AsFd, BorrowedFd};

use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

use crate::Result;
use crate::error::Context;

/// The groups of linux/rtnetlink.h: interfaces, then addresses, routes and rules of IPv4 and of IPv6.
const GROUPS: [u32; 7] = [1, 5, 7, 8, 9, 11, 19];

/// A socket that becomes readable when something in its network namespace changes.
pub struct Monitor {
    socket: Socket,
}

impl Monitor {
    /// Subscribes in the calling thread's namespace.
    pub fn open() -> Result<Self> {
        let open = || {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind(&SocketAddr::new(0, 0))?;
            socket.set_non_blocking(true)?;
            GROUPS.iter().try_for_each(|group| socket.add_membership(*group))?;
            Ok(Self { socket })
        };
        open().context(|| "subscribe to the changes of interfaces and routes".into())
    }

    /// Takes all notifications that have arrived, and returns whether there were any. Notifications that the kernel could not deliver count.
    pub fn take(&self) -> bool {
        let mut any = false;
        loop {
            match self.socket.recv_from_full() {
                Ok(_) => any = true,
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => any = true,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return any,
            }
        }
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
