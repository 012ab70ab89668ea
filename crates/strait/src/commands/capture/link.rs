//! What a command and a running switch say to each other: one request, then messages until the end.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

/// The version that both ends must have.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The longest request in bytes.
const REQUEST: u64 = 1 << 16;
/// How long the switch waits for a request, or for a command that does not read.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a command wants to see.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Request {
    /// The version of the command.
    pub version: String,
    /// A condition in the scope of the ingress control; every packet without one.
    pub filter: Option<String>,
    /// The ports where packets arrive; every port if there is none.
    pub ports: Vec<u32>,
    /// The greatest number of packets in a second that are looked at.
    pub rate: u64,
    /// The number of packets after which it ends.
    pub count: Option<u64>,
    /// The time after which it ends.
    pub time: Option<Duration>,
    /// The greatest number of bytes of a frame in a capture.
    pub snaplen: Option<usize>,
    /// Whether the path of each packet is wanted.
    pub paths: bool,
    /// Whether the packets are wanted as pcapng, as text and as JSON.
    pub pcapng: bool,
    pub text: bool,
    pub json: bool,
}

impl Request {
    /// Sends the request.
    pub fn send(mut self, stream: &mut UnixStream) -> anyhow::Result<()> {
        self.version = VERSION.to_string();
        let line = serde_json::to_string(&self)? + "\n";
        stream.write_all(line.as_bytes()).context("the switch has ended")
    }

    /// Receives a request. `None` if the command only looked whether somebody listens.
    pub fn receive(stream: &UnixStream) -> anyhow::Result<Option<Request>> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut line = String::new();
        BufReader::new(stream.take(REQUEST)).read_line(&mut line)?;
        if line.is_empty() {
            return Ok(None);
        }
        let request: Request = serde_json::from_str(&line).context("the request is of another version")?;
        if request.version != VERSION {
            bail!("the switch is strait {VERSION}, and this command is {}", request.version);
        }
        stream.set_read_timeout(None)?;
        Ok(Some(request))
    }
}

/// The kinds of messages of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// For the standard output.
    Output,
    /// For the capture.
    File,
    /// For the operator.
    Note,
    /// The error with which it ends.
    Failed,
    /// It is whole.
    End,
}

const KINDS: [(Kind, u8); 5] =
    [(Kind::Output, b'o'), (Kind::File, b'f'), (Kind::Note, b'n'), (Kind::Failed, b'e'), (Kind::End, b'.')];

/// Sends a message.
pub fn send(stream: &mut UnixStream, kind: Kind, bytes: &[u8]) -> std::io::Result<()> {
    let tag = KINDS.iter().find(|(known, _)| *known == kind).map_or(0, |(_, tag)| *tag);
    let mut message = vec![tag];
    message.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    message.extend_from_slice(bytes);
    stream.write_all(&message)
}

/// Receives the next message. `None` if the switch has ended.
pub fn receive(stream: &mut impl Read) -> anyhow::Result<Option<(Kind, Vec<u8>)>> {
    let mut head = [0; 5];
    if stream.read_exact(&mut head).is_err() {
        return Ok(None);
    }
    let [tag, length @ ..] = head;
    let kind = KINDS.iter().find(|(_, known)| *known == tag);
    let (kind, _) = kind.context("the switch says something unknown")?;
    let mut bytes = vec![0; u32::from_be_bytes(length) as usize];
    Ok(stream.read_exact(&mut bytes).ok().map(|()| (*kind, bytes)))
}
