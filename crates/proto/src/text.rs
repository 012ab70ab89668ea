//! Protobuf's text format, written as protobuf's own library writes it.
//!
//! prost supports only the binary format. `prost-reflect` provides the names of fields, and reads the text format. This module writes it,
//! because maps in `prost-reflect` have no order, and equal programs must give equal text.

use std::fmt::Write as _;
use std::sync::LazyLock;

use prost::{Message, Name};
use prost_reflect::{
    DescriptorPool, DynamicMessage, Kind, MapKey, MessageDescriptor, ReflectMessage as _, Value,
};

static DESCRIPTORS: LazyLock<DescriptorPool> = LazyLock::new(|| {
    let pool = DescriptorPool::decode(&include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"))[..]);
    pool.expect("the build wrote the descriptors")
});

/// The descriptor of a message type.
fn descriptor<M: Name>() -> MessageDescriptor {
    let found = DESCRIPTORS.get_message_by_name(&M::full_name());
    found.expect("the build wrote the descriptors of all messages")
}

/// The message as text. The first two lines tell tools the file and the type of its message.
pub fn text<M: Message + Name>(info: &M) -> String {
    let kind = descriptor::<M>();
    let file = kind.parent_file();
    let mut out = format!("# proto-file: {}\n# proto-message: {}\n\n", file.name(), kind.full_name());
    if let Ok(dynamic) = DynamicMessage::decode(kind, info.encode_to_vec().as_slice()) {
        message(&dynamic, 0, &mut out);
    }
    out
}

/// The message as JSON, in protobuf's mapping.
pub fn json<M: Message + Name>(message: &M) -> String {
    let dynamic = DynamicMessage::decode(descriptor::<M>(), message.encode_to_vec().as_slice());
    dynamic.ok().and_then(|dynamic| serde_json::to_string(&dynamic).ok()).unwrap_or_default()
}

/// Appends the fields of a message, in the order of their numbers.
fn message(m: &DynamicMessage, depth: usize, out: &mut String) {
    let mut fields: Vec<_> = m.descriptor().fields().filter(|f| m.has_field(f)).collect();
    fields.sort_by_key(prost_reflect::FieldDescriptor::number);
    for field in fields {
        match &*m.get_field(&field) {
            Value::List(list) => list.iter().for_each(|v| value(field.name(), v, &field.kind(), depth, out)),
            Value::Map(map) => {
                let mut pairs: Vec<(String, &Value)> = map.iter().map(|(k, v)| (key(k), v)).collect();
                pairs.sort_by(|a, b| a.0.cmp(&b.0));
                let Kind::Message(entry) = field.kind() else { continue };
                for (name, v) in pairs {
                    let pad = "  ".repeat(depth);
                    let _ = writeln!(out, "{pad}{} {{\n{pad}  key: {name}", field.name());
                    value("value", v, &entry.map_entry_value_field().kind(), depth + 1, out);
                    let _ = writeln!(out, "{pad}}}");
                }
            }
            single => value(field.name(), single, &field.kind(), depth, out),
        }
    }
}

fn value(name: &str, v: &Value, kind: &Kind, depth: usize, out: &mut String) {
    let pad = "  ".repeat(depth);
    let _ = match v {
        Value::Message(m) => {
            let _ = writeln!(out, "{pad}{name} {{");
            message(m, depth + 1, out);
            writeln!(out, "{pad}}}")
        }
        Value::String(s) => writeln!(out, "{pad}{name}: {}", quoted(s.as_bytes(), true)),
        Value::Bytes(b) => writeln!(out, "{pad}{name}: {}", quoted(b, false)),
        Value::EnumNumber(n) => {
            let named = kind.as_enum().and_then(|e| e.get_value(*n));
            let named = named.map_or_else(|| n.to_string(), |v| v.name().to_string());
            writeln!(out, "{pad}{name}: {named}")
        }
        Value::Bool(b) => writeln!(out, "{pad}{name}: {b}"),
        Value::I32(n) => writeln!(out, "{pad}{name}: {n}"),
        Value::I64(n) => writeln!(out, "{pad}{name}: {n}"),
        Value::U32(n) => writeln!(out, "{pad}{name}: {n}"),
        Value::U64(n) => writeln!(out, "{pad}{name}: {n}"),
        // P4Runtime has no floating-point numbers, and `message` writes the elements of lists and maps one by one.
        Value::F32(_) | Value::F64(_) | Value::List(_) | Value::Map(_) => Ok(()),
    };
}

fn key(k: &MapKey) -> String {
    match k {
        MapKey::String(s) => quoted(s.as_bytes(), true),
        MapKey::Bool(b) => b.to_string(),
        MapKey::I32(n) => n.to_string(),
        MapKey::I64(n) => n.to_string(),
        MapKey::U32(n) => n.to_string(),
        MapKey::U64(n) => n.to_string(),
    }
}

/// A string literal. Characters outside ASCII are octal escapes in `bytes` fields, and unchanged in `string` fields (`text`).
fn quoted(bytes: &[u8], text: bool) -> String {
    let mut out = "\"".to_string();
    if let Some(text) = std::str::from_utf8(bytes).ok().filter(|_| text) {
        for c in text.chars() {
            match c {
                '"' | '\\' => out.extend(['\\', c]),
                '\n' => out.push_str("\\n"),
                c => out.push(c),
            }
        }
    } else {
        for b in bytes {
            match b {
                b'"' | b'\\' | b'\'' => out.extend(['\\', *b as char]),
                b' '..=b'~' => out.push(*b as char),
                b => drop(write!(out, "\\{b:03o}")),
            }
        }
    }
    out + "\""
}

/// Reads a message from text.
pub fn parse<M: Message + Name + Default>(text: &str) -> Result<M, String> {
    let dynamic = DynamicMessage::parse_text_format(descriptor::<M>(), text).map_err(|e| e.to_string())?;
    M::decode(dynamic.encode_to_vec().as_slice()).map_err(|e| e.to_string())
}
