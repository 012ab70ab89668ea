//! How much clients can make the server hold.

use std::time::Duration;

/// The connections at a time. Further ones wait until one ends.
pub const CONNECTIONS: usize = 256;
/// The requests and streams of a connection at a time.
pub const STREAMS: u32 = 64;
/// The longest message in bytes. A million entries are written in several requests.
pub const MESSAGE: usize = 64 << 20;
/// The messages that wait for a controller that reads slowly. Further ones are lost, and counted.
pub const WAITING: usize = 1024;
/// The reads at a time. What a read has found is in memory until the client has got it.
pub const READS: usize = 4;
/// The entities in one message of a read.
pub const ENTITIES: usize = 512;
/// The time that a client has for the first message of a stream.
pub const FIRST: Duration = Duration::from_secs(30);
/// The interval at which a silent client is asked whether it is there, and the time that it has for an answer.
pub const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(10));
/// The longest `grpc-status-details-bin` in bytes: clients refuse longer headers (gRPC's default is 8 KiB in all).
pub const DETAILS: usize = 4096;
/// Messages of a stream that are handled together.
pub const TOGETHER: usize = 256;
