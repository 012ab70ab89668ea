//! Table entries, actions and values as people write them, for clients: P4Info gives the names and the widths.
//!
//! An entry is one line. Words are separated by spaces, and `#` begins a comment.
//!
//! ```text
//! TABLE KEY… => ACTION ARGUMENT… [priority N] [idle TIME] [metadata TEXT]
//! TABLE default => ACTION ARGUMENT…
//! ```
//!
//! * Keys and arguments are in the order of P4Info, or `NAME=VALUE`. `*` matches everything.
//! * A value is decimal, `0x…`, `0b…`, an IPv4, IPv6 or MAC address; a name, if its type is translated to strings.
//! * lpm: `VALUE/LENGTH`, or a value alone; ternary: `VALUE&&&MASK`, `VALUE/LENGTH`, or a value alone; range: `LOW..HIGH`, or a value alone.
//! * The action of a table with an action profile: `member N`, `group N`, or `one-shot ACTION(ARGUMENT,…)*WEIGHT@PORT …`. An action with a port is left
//!   out while the port has no link.
//! * Times are like `30s`, `500ms`, `2m`.
//!
//! What [`entry_text`] prints, [`entry`] reads.

pub mod bmv2;
mod read;
mod share;
mod values;
mod write;

pub use read::{action, entry, key};
pub use share::Share;
pub use values::{parse_value, show_value};
pub use write::{action_text, entry_text, key_text};

pub use abi::show::Format;
use proto::p4::config::v1::{self as config, P4Info};

/// A mistake in what people write.
pub type Mistake = String;

/// The preamble of an object of P4Info.
pub trait Named {
    /// The preamble, if the object has one.
    fn preamble(&self) -> Option<&config::Preamble>;
}

macro_rules! named {
    ($($kind:ident)*) => {$(
        impl Named for config::$kind {
            fn preamble(&self) -> Option<&config::Preamble> {
                self.preamble.as_ref()
            }
        }
    )*};
}

named! { Table Action ActionProfile Counter DirectCounter Meter DirectMeter Register ValueSet Digest ControllerPacketMetadata }

/// The object with a name: its full name, its alias, or an end of its name that no other object has.
pub fn find<'i, T: Named>(all: &'i [T], what: &str, name: &str) -> Result<&'i T, Mistake> {
    let names = |of: &T| of.preamble().map(|p| (p.name.clone(), p.alias.clone())).unwrap_or_default();
    if let Some(found) = all.iter().find(|of| names(of).0 == name || names(of).1 == name) {
        return Ok(found);
    }
    let suffix = format!(".{name}");
    let ends: Vec<&T> = all.iter().filter(|of| names(of).0.ends_with(&suffix)).collect();
    match ends.as_slice() {
        [found] => Ok(found),
        [] => {
            let known: Vec<String> = all.iter().map(|of| names(of).1).collect();
            let near = known
                .iter()
                .max_by(|a, b| strsim::jaro_winkler(a, name).total_cmp(&strsim::jaro_winkler(b, name)));
            let near = near.filter(|near| strsim::jaro_winkler(near, name) > 0.8);
            let hint = match near {
                Some(near) => format!("; did you mean `{near}`?"),
                None if known.is_empty() => "; the program has none".to_string(),
                None => format!("; there are {}", known.join(", ")),
            };
            Err(format!("there is no {what} `{name}`{hint}"))
        }
        several => {
            let all: Vec<String> = several.iter().map(|of| names(of).0).collect();
            Err(format!("`{name}` may be {}", all.join(" or ")))
        }
    }
}

/// The object with an id.
pub fn by_id<T: Named>(all: &[T], id: u32) -> Option<&T> {
    all.iter().find(|of| of.preamble().is_some_and(|p| p.id == id))
}

/// The alias of an object, or its id.
pub fn alias<T: Named>(all: &[T], id: u32) -> String {
    by_id(all, id).and_then(Named::preamble).map_or_else(|| format!("{id:#x}"), |p| p.alias.clone())
}

/// The type of a field: its width in bits, or names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number of so many bits.
    Bits(u32),
    /// A name (`@p4runtime_translation` to a string).
    Name,
}

/// What is known of a field or parameter, to read and to show its values.
#[derive(Clone, Debug)]
pub struct Field<'i> {
    /// The id in its table, action or header.
    pub id: u32,
    /// The name in P4Info.
    pub name: &'i str,
    /// What its values are.
    pub kind: Kind,
    /// How the values are shown.
    pub format: Format,
}

/// What is known of a field.
pub fn field<'i>(
    info: &P4Info,
    id: u32,
    name: &'i str,
    bitwidth: i32,
    type_name: Option<&config::P4NamedType>,
    annotations: &[String],
) -> Field<'i> {
    use config::p4_new_type_spec::Representation;
    use config::p4_new_type_translation::SdnType;
    let new =
        type_name.and_then(|t| info.type_info.as_ref()?.new_types.get(&t.name)?.representation.as_ref());
    let kind = match new {
        Some(Representation::TranslatedType(translated)) => match translated.sdn_type {
            Some(SdnType::SdnString(_)) => Kind::Name,
            Some(SdnType::SdnBitwidth(width)) => Kind::Bits(width.max(0) as u32),
            None => Kind::Bits(bitwidth.max(0) as u32),
        },
        _ => Kind::Bits(bitwidth.max(0) as u32),
    };
    let said = |text: &str| annotations.iter().any(|a| a.contains(text));
    let format = match kind {
        Kind::Bits(32) if said("IPV4_ADDRESS") => Format::Ipv4,
        Kind::Bits(width) => Format::of(name, width),
        Kind::Name => Format::Hex,
    };
    Field { id, name, kind, format }
}

/// The parameters of an action.
pub fn params<'i>(info: &'i P4Info, action: &'i config::Action) -> Vec<Field<'i>> {
    let param = |p: &'i config::action::Param| {
        field(info, p.id, &p.name, p.bitwidth, p.type_name.as_ref(), &p.annotations)
    };
    action.params.iter().map(param).collect()
}

/// A field of a table's key.
pub fn match_field<'i>(info: &'i P4Info, f: &'i config::MatchField) -> Field<'i> {
    field(info, f.id, &f.name, f.bitwidth, f.type_name.as_ref(), &f.annotations)
}

/// How a field is matched.
pub fn match_type(f: &config::MatchField) -> config::match_field::MatchType {
    match f.r#match {
        Some(config::match_field::Match::MatchType(kind)) => kind.try_into().unwrap_or_default(),
        _ => config::match_field::MatchType::Unspecified,
    }
}

#[cfg(test)]
mod tests;
