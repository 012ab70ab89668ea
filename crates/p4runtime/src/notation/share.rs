//! `*WEIGHT@PORT` behind a member of a group, or behind an action of a one-shot: how often it is selected, and the port that it watches.

use abi::Bits;

use super::super::bytes;

/// What stands behind a member or an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// How often it is selected; 1 if nothing is said.
    pub weight: i32,
    /// The port without whose link it is not selected.
    pub port: Option<u32>,
}

impl Share {
    /// Reads `[*WEIGHT][@PORT]`; `None` if the text is anything else.
    pub fn parse(text: &str) -> Option<Share> {
        let (text, port) = match text.split_once('@') {
            Some((text, port)) => (text, Some(port.parse().ok()?)),
            None => (text, None),
        };
        let weight = match text.strip_prefix('*') {
            Some(weight) => weight.parse().ok()?,
            None => text.is_empty().then_some(1)?,
        };
        Some(Share { weight, port })
    }

    /// The port as P4Runtime has it.
    pub fn watch_port(&self) -> Option<Vec<u8>> {
        self.port.map(|port| bytes::shortest(&Bits::new(32, port.into())))
    }

    /// What [`Share::parse`] reads, of a weight and of a port as P4Runtime has it.
    pub fn text(weight: i32, watch_port: Option<&[u8]>) -> String {
        let port = watch_port.and_then(|port| bytes::number(port).ok());
        format!("*{weight}{}", port.map(|port| format!("@{port}")).unwrap_or_default())
    }
}
