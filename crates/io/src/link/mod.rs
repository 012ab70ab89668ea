//! Interfaces, addresses, routes and sysctls of the calling thread's network namespace.
//!
//! Through `netlink-packet-route` over a blocking `netlink-sys` socket: requests are few and strictly one after the other, so
//! the asynchronous `rtnetlink` crate would bring a runtime for nothing. A [`Handle`] belongs to the namespace in which it was
//! opened, even if it is used elsewhere later; sysctls belong to the namespace of the thread that touches them.

mod addresses;
mod filters;
mod links;
mod routes;
mod socket;
pub mod sysctl;

pub use addresses::Prefix;
pub(crate) use filters::{delete_clsact, delete_filters};
pub use links::{Change, Link};
pub use routes::Route;
pub use socket::Handle;

use crate::Result;

/// The index of an interface.
pub fn index_of(name: &str) -> Result<u32> {
    Handle::open()?.index(name)
}
