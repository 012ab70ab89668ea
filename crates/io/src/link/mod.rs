//! Interfaces, addresses, routes and sysctls of the calling thread's network namespace.
//!
//! Requests use `netlink-packet-route` over a blocking `netlink-sys` socket. They are few and sequential, so the asynchronous `rtnetlink`
//! crate would add a runtime without a benefit. A [`Handle`] belongs to the namespace in which it was opened, whichever thread uses it
//! later. Sysctls belong to the namespace of the thread that accesses them.

mod addresses;
pub mod features;
mod filters;
mod links;
mod monitor;
mod neighbours;
mod peer;
mod routes;
mod socket;
pub mod sysctl;

pub use addresses::Prefix;
pub(crate) use filters::{delete_clsact, delete_filters, has_filter};
pub use links::{Change, Link, Xdp};
pub use monitor::Monitor;
pub use neighbours::Proxy;
pub use peer::{Peer, peer_of};
pub use routes::{BY_ADMINISTRATOR, BY_KERNEL, Beside, Kind, Reached, Route};
pub use socket::Handle;

use crate::Result;

/// The index of the interface with this name.
pub fn index_of(name: &str) -> Result<u32> {
    Handle::open()?.index(name)
}
