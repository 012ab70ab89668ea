//! Reads what compiled programs tell the host.

use abi::id::{DigestId, MessageId};
use abi::manifest::{DigestType, MessageType};
use abi::native::digest::{HEAD, MESSAGE};
use abi::{Digest, Message};

use super::Event;

/// Reads a record that a program with these digests and messages wrote (see [`abi::native::digest`]); `None` if it is no such record.
pub fn event(digests: &[DigestType], messages: &[MessageType], record: &[u8]) -> Option<Event> {
    let (head, rest) = record.split_at_checked(HEAD)?;
    let word = |at: usize| head.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
    let (number, values) = (word(0)?, rest.get(..word(4)? as usize)?);
    Some(match number & MESSAGE {
        0 => {
            let digest = DigestId(number);
            let values = digests.get(digest.index())?.unpack(values)?;
            Event::Digest(Digest { digest, values })
        }
        _ => {
            let message = MessageId(number & !MESSAGE);
            let values = messages.get(message.index())?.unpack(values)?;
            Event::Message(Message { message, values })
        }
    })
}
