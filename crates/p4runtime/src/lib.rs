//! P4Runtime 1.5: requests to updates and queries of a device, and what a device tells to messages of a stream.
//!
//! * `status`: the outcome of a request. `bytes`, `names`, `data`, `entry`, `objects`: parts of messages.
//! * [`pipeline`]: P4Info joined with a manifest: ids to numbers, and back.
//! * `links`: the ports that members of groups watch.
//! * [`kept`]: what P4Runtime asks a server to remember, and no device holds.
//! * [`write`](write()), [`read`](read()), [`packet`], [`digest`]: the requests and the stream.
//! * [`remote`]: a device behind a server, for control planes that know devices only.
//! * [`notation`]: entries as people write them, for clients.
//! * [`arbitration`], [`role`]: who may do what.
//! * [`server`]: a device with its controllers, its pipelines and its program.
//!
//! There is no socket, no thread and no clock in here; `grpc` has them.
#![forbid(unsafe_code)]

pub mod arbitration;
mod bytes;
mod data;
pub mod digest;
mod entry;
pub mod kept;
mod links;
mod names;
pub mod notation;
mod objects;
pub mod packet;
pub mod pipeline;
mod read;
mod reconcile;
pub mod remote;
pub mod role;
pub mod server;
mod status;
pub mod stream;
mod write;

pub use objects::{backup_replica, replication, written_replica};
pub use read::read;
pub use reconcile::reconcile;
pub use status::{Code, Status, detail};
pub use write::{Outcomes, write};
