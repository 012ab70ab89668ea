//! Entries as words.

use abi::Bits;
use proto::p4::config::v1::{self as config, P4Info};
use proto::p4::v1::{self, action_profile_action, field_match as fm, table_action};

use super::{Field, Kind, Share, alias, by_id, match_field, params, show_value};

/// An entry or a default action as a line.
pub fn entry_text(info: &P4Info, entry: &v1::TableEntry) -> String {
    let mut words = vec![key_text(info, entry)];
    if let Some(action) = &entry.action {
        words.push(format!("=> {}", table_action(info, action)));
    }
    if entry.priority != 0 {
        words.push(format!("priority {}", entry.priority));
    }
    if entry.idle_timeout_ns != 0 {
        words.push(format!("idle {}", time(entry.idle_timeout_ns)));
    }
    if !entry.metadata.is_empty() {
        words.push(format!("metadata {}", metadata(&entry.metadata)));
    }
    words.join(" ")
}

/// The table and the key of an entry.
pub fn key_text(info: &P4Info, entry: &v1::TableEntry) -> String {
    let mut words = vec![alias(&info.tables, entry.table_id)];
    if entry.is_default_action {
        words.push("default".to_string());
    } else if let Some(table) = by_id(&info.tables, entry.table_id) {
        words.extend(table.match_fields.iter().map(|f| match_text(info, f, entry)));
    }
    words.join(" ")
}

fn match_text(info: &P4Info, f: &config::MatchField, entry: &v1::TableEntry) -> String {
    let field = match_field(info, f);
    let found = entry.r#match.iter().find(|m| m.field_id == field.id);
    let Some(found) = found.and_then(|m| m.field_match_type.as_ref()) else { return "*".to_string() };
    let value = |bytes: &[u8]| show_value(&field, bytes);
    match found {
        fm::FieldMatchType::Exact(m) => value(&m.value),
        fm::FieldMatchType::Optional(m) => value(&m.value),
        fm::FieldMatchType::Lpm(m) => format!("{}/{}", value(&m.value), m.prefix_len),
        fm::FieldMatchType::Ternary(m) => format!("{}&&&{}", value(&m.value), mask(&field, &m.mask)),
        fm::FieldMatchType::Range(m) => format!("{}..{}", value(&m.low), value(&m.high)),
        fm::FieldMatchType::Other(_) => "?".to_string(),
    }
}

/// Masks are shown like values, but for numbers, where hexadecimal says more.
fn mask(field: &Field<'_>, bytes: &[u8]) -> String {
    use super::Format;
    match field.kind {
        Kind::Bits(width) => {
            let format = if field.format == Format::Decimal { Format::Hex } else { field.format };
            format.show(&Bits::from_bytes_be(width, bytes))
        }
        Kind::Name => show_value(field, bytes),
    }
}

fn table_action(info: &P4Info, action: &v1::TableAction) -> String {
    match &action.r#type {
        None => "?".to_string(),
        Some(table_action::Type::Action(action)) => action_text(info, action),
        Some(table_action::Type::ActionProfileMemberId(id)) => format!("member {id}"),
        Some(table_action::Type::ActionProfileGroupId(id)) => format!("group {id}"),
        Some(table_action::Type::ActionProfileActionSet(set)) => {
            let one = |a: &v1::ActionProfileAction| {
                let (name, args) = a.action.as_ref().map(|a| parts(info, a)).unwrap_or_default();
                let port = match &a.watch_kind {
                    Some(action_profile_action::WatchKind::WatchPort(port)) => Some(port.as_slice()),
                    _ => None,
                };
                format!("{name}({}){}", args.join(","), Share::text(a.weight, port))
            };
            let all: Vec<String> = set.action_profile_actions.iter().map(one).collect();
            format!("one-shot {}", all.join(" "))
        }
    }
}

/// An action with its arguments.
pub fn action_text(info: &P4Info, action: &v1::Action) -> String {
    let (name, args) = parts(info, action);
    std::iter::once(name).chain(args).collect::<Vec<_>>().join(" ")
}

fn parts(info: &P4Info, action: &v1::Action) -> (String, Vec<String>) {
    let found = by_id(&info.actions, action.action_id);
    let fields = found.map(|found| params(info, found)).unwrap_or_default();
    let arg = |field: &Field<'_>| {
        let given = action.params.iter().find(|p| p.param_id == field.id);
        given.map_or_else(|| "?".to_string(), |p| show_value(field, &p.value))
    };
    (alias(&info.actions, action.action_id), fields.iter().map(arg).collect())
}

/// A time with the largest unit that needs no fraction.
fn time(ns: i64) -> String {
    let units = [
        (3_600_000_000_000, "h"),
        (60_000_000_000, "m"),
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1000, "us"),
    ];
    let whole = units.iter().find(|(unit, _)| ns % unit == 0);
    whole.map_or_else(|| format!("{ns}ns"), |(unit, name)| format!("{}{name}", ns / unit))
}

/// Metadata as text if it is one word, otherwise as bytes.
fn metadata(bytes: &[u8]) -> String {
    let plain = |byte: &u8| byte.is_ascii_graphic() && *byte != b'#';
    match std::str::from_utf8(bytes) {
        Ok(text) if bytes.iter().all(plain) && !text.starts_with("0x") => text.to_string(),
        _ => format!("0x{}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
    }
}
