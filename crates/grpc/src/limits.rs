//! How much clients can make the server hold. A *stranger* is a client that is not the primary of a role (see [`crate::callers`]).

use std::time::Duration;

/// The connections at a time.
pub const CONNECTIONS: usize = 256;
/// Of these, the ones that only peers of a present primary may have.
pub const RESERVED: usize = 32;
/// The connections of a peer: a user of this machine, an address, or a /64 network of IPv6.
pub const OF_PEER: usize = 96;
/// The connections that wait to be accepted.
pub const BACKLOG: i32 = 4096;
/// The connections of a peer that have been ended for others of it and have not given their memory back yet.
pub const ENDING: usize = 32;
/// The connections a second that are accepted while some must end for them, of one peer or of all.
pub const ACCEPTED: u32 = 1000;
/// The time from the first moment of a connection to the preface of HTTP/2, the handshake of TLS included.
pub const PREFACE: Duration = Duration::from_secs(10);
/// The interval at which the server looks whether the files of its certificates have changed.
pub const CERTIFICATES: Duration = Duration::from_secs(1);
/// The requests and streams of a connection at a time.
pub const STREAMS: u32 = 64;
/// Of these, the streams of controllers, unless one of them is a primary's.
pub const CHANNELS: usize = 16;
/// The reads of a connection at a time. Others of the connection wait.
pub const READS: usize = 2;
/// The requests of strangers that are decoded and answered at a time. Others wait, each connection with one.
pub const TURNS: usize = 4;
/// The threads beside those that serve connections: of what waits for a device, or compiles. Each keeps some memory for its next work.
pub const THREADS: usize = 4;
/// The streams of strangers of which messages are handled at a time. Each that waits for the device takes a thread.
pub const STREAM_TURNS: usize = 1;
/// The time that a client has for a message that it has begun, and for the first message of a stream.
pub const FIRST: Duration = Duration::from_secs(30);
/// The interval at which a silent client is asked whether it is there, and the time that it has for an answer.
pub const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(10));

/// The longest message of a primary in bytes. A million entries are written in several requests.
pub const MESSAGE: usize = 64 << 20;
/// The longest message of a stranger.
pub const STRANGER_MESSAGE: usize = 64 << 10;
/// The longest message of a primary's stream.
pub const STREAM_MESSAGE: usize = 1 << 20;
/// The bytes of unfinished messages that a connection may always have.
pub const FREE: usize = 16 << 10;
/// The bytes of unfinished and unanswered messages of all strangers, beyond that.
pub const STRANGERS_BYTES: usize = 16 << 20;
/// The same of all primaries.
pub const PRIMARIES_BYTES: usize = 160 << 20;
/// The bytes that a client may send ahead, on one stream and on all of a connection.
pub const WINDOWS: (u32, u32) = (64 << 10, 128 << 10);
/// The length of a request's headers in bytes.
pub const HEADERS: u32 = 8 << 10;
/// The bytes of messages of a stream that are handled together.
pub const TOGETHER: usize = 64 << 10;

/// The messages that wait for a controller that reads slowly. Further ones are lost, and counted.
pub const WAITING: usize = 1024;
/// The bytes of these, for a primary and for a stranger.
pub const WAITING_BYTES: [usize; 2] = [1 << 20, 64 << 10];
/// The bytes of the waiting messages of all primaries, and of all strangers.
pub const ALL_WAITING_BYTES: [usize; 2] = [64 << 20, 16 << 20];
/// What a stream may have beyond that of messages that say who is the primary: messages and bytes.
pub const ARBITRATION: (usize, usize) = (64, 64 << 10);
/// A controller that takes nothing for this time, although messages wait, loses its stream; a reader its answer.
pub const STALL: Duration = Duration::from_secs(10);

/// The entities in one message of a read, and the bytes after which no other one is added.
pub const ENTITIES: (usize, usize) = (512, 32 << 10);
/// The bytes of an answer that are kept in memory. The rest waits in a file that has no name.
pub const ANSWER: usize = 64 << 10;
/// The bytes of all answers that are in memory.
pub const ANSWERS: usize = 16 << 20;
/// The bytes of all answers that are in files.
pub const ANSWERS_IN_FILES: usize = 1 << 30;
/// The longest `grpc-status-details-bin` in bytes: clients refuse longer headers (gRPC's default is 8 KiB in all).
pub const DETAILS: usize = 4096;
