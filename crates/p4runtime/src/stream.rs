//! Messages of a stream that a device causes (P4Runtime specification, sections 16.3 and 16.4), and errors (section 16.6).

use dataplane::device::TableEntry;
use proto::p4::v1::{self, stream_error, stream_message_response as response};

use super::digest::List;
use super::kept::Kept;
use super::pipeline::Pipeline;
use super::{Status, data, entry};

/// A message of the server.
pub fn response(update: response::Update) -> v1::StreamMessageResponse {
    v1::StreamMessageResponse { update: Some(update) }
}

/// A list of digests. `timestamp` is in nanoseconds since the epoch. `None` if the controller does not know the type.
pub fn digest_list(pipeline: &Pipeline, list: &List, timestamp: i64) -> Option<v1::DigestList> {
    let found =
        pipeline.info.digests.iter().find(|d| d.preamble.as_ref().is_some_and(|p| p.id == list.digest));
    let spec = found?.type_spec.as_ref()?;
    let one = |values: &Vec<abi::Bits>| data::read(&pipeline.info, spec, &mut values.iter().cloned());
    let data = list.values.iter().map(one).collect::<Option<_>>()?;
    Some(v1::DigestList { digest_id: list.digest, list_id: list.list, data, timestamp })
}

/// Entries that have become idle. `None` if the controller knows none of them.
#[allow(deprecated)]
pub fn idle(
    pipeline: &Pipeline,
    kept: &Kept,
    entries: &[&TableEntry],
    timestamp: i64,
) -> Option<v1::IdleTimeoutNotification> {
    let message = |found: &&TableEntry| {
        let (table_id, table) = pipeline.table_at(found.key.table)?;
        let note = kept.entry(&found.key).cloned().unwrap_or_default();
        let micros = found.idle.unwrap_or_default();
        let exact = Some(note.idle_ns).filter(|ns| *ns > 0);
        Some(v1::TableEntry {
            table_id,
            r#match: entry::field_matches(&table.fields, &found.key.matches, &kept.names),
            priority: found.key.priority,
            controller_metadata: note.controller_metadata,
            metadata: note.metadata,
            idle_timeout_ns: exact
                .unwrap_or_else(|| i64::try_from(micros.saturating_mul(1000)).unwrap_or(i64::MAX)),
            ..v1::TableEntry::default()
        })
    };
    let table_entry: Vec<_> = entries.iter().filter_map(message).collect();
    (!table_entry.is_empty()).then_some(v1::IdleTimeoutNotification { table_entry, timestamp })
}

/// An error about a message of a controller.
pub fn error(status: &Status, details: stream_error::Details) -> v1::StreamMessageResponse {
    response(response::Update::Error(v1::StreamError {
        canonical_code: status.code as i32,
        message: status.message.clone(),
        space: "strait".to_string(),
        code: status.code as i32,
        details: Some(details),
    }))
}
