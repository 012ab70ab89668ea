//! Entries from words.

use abi::Bits;
use proto::p4::config::v1::{self as config, P4Info, match_field::MatchType};
use proto::p4::v1::{self, action_profile_action, field_match as fm, table_action};

use super::values::number;
use super::{Field, Kind, Mistake, Share, by_id, find, match_field, match_type, params, parse_value};
use crate::bytes;

/// A table entry, or a default action.
pub fn entry(info: &P4Info, words: &[&str]) -> Result<v1::TableEntry, Mistake> {
    let arrow = words.iter().position(|word| *word == "=>");
    let arrow = arrow.ok_or("`=>` and an action are missing: TABLE KEY… => ACTION ARGUMENT…")?;
    let (mut entry, table) = head(info, &words[..arrow])?;
    let (action, rest) = table_action(info, table, &words[arrow + 1..])?;
    entry.action = Some(action);
    options(&mut entry, rest)?;
    Ok(entry)
}

/// A table entry's key, with nothing behind it but a priority.
pub fn key(info: &P4Info, words: &[&str]) -> Result<v1::TableEntry, Mistake> {
    let end = words.iter().position(|word| ["priority", "=>"].contains(word)).unwrap_or(words.len());
    let (mut entry, _) = head(info, &words[..end])?;
    let rest = match words[end..].iter().position(|word| *word == "priority") {
        Some(at) => &words[end + at..],
        None => &[],
    };
    options(&mut entry, rest)?;
    Ok(entry)
}

fn head<'i>(info: &'i P4Info, words: &[&str]) -> Result<(v1::TableEntry, &'i config::Table), Mistake> {
    let (name, keys) = words.split_first().ok_or("the table is missing")?;
    let table = find(&info.tables, "table", name)?;
    let table_id = table.preamble.as_ref().map_or(0, |p| p.id);
    if keys == ["default"] {
        return Ok((
            v1::TableEntry { table_id, is_default_action: true, ..v1::TableEntry::default() },
            table,
        ));
    }
    let r#match = matches(info, table, keys)?;
    Ok((v1::TableEntry { table_id, r#match, ..v1::TableEntry::default() }, table))
}

/// The values of named or positional words, in the order of the fields.
fn assign<'w>(names: &[&str], words: &[&'w str], what: &str) -> Result<Vec<Option<&'w str>>, Mistake> {
    let mut given: Vec<Option<&'w str>> = vec![None; names.len()];
    let mut next = 0;
    for word in words {
        let named = word.split_once('=').and_then(|(name, value)| {
            let is = |n: &&str| *n == name || n.ends_with(&format!(".{name}"));
            Some((names.iter().position(is)?, value))
        });
        let (at, value) = match named {
            Some(named) => named,
            None => {
                while given.get(next).is_some_and(Option::is_some) {
                    next += 1;
                }
                (next, *word)
            }
        };
        let place = given.get_mut(at);
        let place = place.ok_or_else(|| {
            format!("`{word}` is too much: {what} takes {} ({})", names.len(), names.join(", "))
        })?;
        if place.replace(value).is_some() {
            return Err(format!("`{}` is given twice", names[at]));
        }
    }
    Ok(given)
}

fn matches(info: &P4Info, table: &config::Table, words: &[&str]) -> Result<Vec<v1::FieldMatch>, Mistake> {
    let names: Vec<&str> = table.match_fields.iter().map(|f| f.name.as_str()).collect();
    let given = assign(&names, words, "the key")?;
    let mut all = Vec::new();
    for (f, text) in table.match_fields.iter().zip(given) {
        let (field, kind) = (match_field(info, f), match_type(f));
        let text = match text {
            Some("*" | "_") | None if kind == MatchType::Exact => {
                return Err(format!("the key `{}` is missing: it is exact", f.name));
            }
            Some("*" | "_") | None => continue,
            Some(text) => text,
        };
        all.extend(field_match(&field, kind, text)?);
    }
    Ok(all)
}

/// The match of one field; `None` if it matches everything.
fn field_match(field: &Field<'_>, kind: MatchType, text: &str) -> Result<Option<v1::FieldMatch>, Mistake> {
    let width = match field.kind {
        Kind::Bits(width) => width,
        Kind::Name => 0,
    };
    let made = match kind {
        MatchType::Exact => fm::FieldMatchType::Exact(fm::Exact { value: parse_value(field, text)? }),
        MatchType::Optional => {
            fm::FieldMatchType::Optional(fm::Optional { value: parse_value(field, text)? })
        }
        MatchType::Lpm => {
            let (value, length) = prefix(field.name, text, width)?;
            if length == 0 {
                return Ok(None);
            }
            let value = value.and(&Bits::prefix_mask(width, length));
            fm::FieldMatchType::Lpm(fm::Lpm { value: bytes::shortest(&value), prefix_len: length as i32 })
        }
        MatchType::Ternary => {
            let (value, mask) = match text.split_once("&&&") {
                Some((value, mask)) => (number(field.name, value, width)?, number(field.name, mask, width)?),
                None => {
                    let (value, length) = prefix(field.name, text, width)?;
                    (value, Bits::prefix_mask(width, length))
                }
            };
            if mask.is_zero() {
                return Ok(None);
            }
            let value = bytes::shortest(&value.and(&mask));
            fm::FieldMatchType::Ternary(fm::Ternary { value, mask: bytes::shortest(&mask) })
        }
        MatchType::Range => {
            let ends = text.split_once("..").or_else(|| text.split_once("->"));
            let (low, high) = ends.unwrap_or((text, text));
            let (low, high) = (number(field.name, low, width)?, number(field.name, high, width)?);
            if low.is_zero() && high == Bits::ones(width) {
                return Ok(None);
            }
            fm::FieldMatchType::Range(fm::Range { low: bytes::shortest(&low), high: bytes::shortest(&high) })
        }
        MatchType::Unspecified => return Err(format!("how `{}` is matched is not known", field.name)),
    };
    Ok(Some(v1::FieldMatch { field_id: field.id, field_match_type: Some(made) }))
}

/// `VALUE/LENGTH`; without a length the prefix is the whole value.
fn prefix(name: &str, text: &str, width: u32) -> Result<(Bits, u32), Mistake> {
    let Some((value, length)) = text.split_once('/') else { return Ok((number(name, text, width)?, width)) };
    let length = length.parse().ok().filter(|length| *length <= width);
    let length = length.ok_or_else(|| format!("`{text}`: the length of the prefix is 0 to {width}"))?;
    Ok((number(name, value, width)?, length))
}

fn table_action<'w, 't>(
    info: &P4Info,
    table: &config::Table,
    words: &'t [&'w str],
) -> Result<(v1::TableAction, &'t [&'w str]), Mistake> {
    let number =
        |text: Option<&&str>| text.and_then(|text| text.parse::<u32>().ok()).ok_or("the number is missing");
    let (made, rest) = match words.split_first() {
        None => return Err("the action is missing".to_string()),
        Some((&"member", rest)) if table.implementation_id != 0 => (
            table_action::Type::ActionProfileMemberId(number(rest.first())?),
            rest.get(1..).unwrap_or_default(),
        ),
        Some((&"group", rest)) if table.implementation_id != 0 => (
            table_action::Type::ActionProfileGroupId(number(rest.first())?),
            rest.get(1..).unwrap_or_default(),
        ),
        Some((&"one-shot", rest)) => {
            let end = rest.iter().position(|word| !word.contains('(')).unwrap_or(rest.len());
            let one = |word: &&str| weighted(info, Some(table), word);
            let actions = rest[..end].iter().map(one).collect::<Result<_, _>>()?;
            let set = v1::ActionProfileActionSet { action_profile_actions: actions, ..Default::default() };
            (table_action::Type::ActionProfileActionSet(set), &rest[end..])
        }
        Some((name, rest)) => {
            let (made, rest) = named_action(info, Some(table), name, rest)?;
            (table_action::Type::Action(made), rest)
        }
    };
    Ok((v1::TableAction { r#type: Some(made) }, rest))
}

/// The action of a one-shot that a word names, as `ACTION(ARGUMENT,…)[*WEIGHT][@PORT]`.
fn weighted(
    info: &P4Info,
    table: Option<&config::Table>,
    word: &str,
) -> Result<v1::ActionProfileAction, Mistake> {
    let wrong = || format!("`{word}` is not ACTION(ARGUMENT,…)[*WEIGHT][@PORT]");
    let (name, rest) = word.split_once('(').ok_or_else(wrong)?;
    let (args, share) = rest.split_once(')').ok_or_else(wrong)?;
    let share = Share::parse(share).ok_or_else(wrong)?;
    let watch_kind = share.watch_port().map(action_profile_action::WatchKind::WatchPort);
    let args: Vec<&str> = args.split(',').map(str::trim).filter(|arg| !arg.is_empty()).collect();
    let (action, rest) = named_action(info, table, name, &args)?;
    match rest {
        [] => Ok(v1::ActionProfileAction { action: Some(action), weight: share.weight, watch_kind }),
        _ => Err(wrong()),
    }
}

/// An action of a program: ACTION ARGUMENT…
pub fn action(info: &P4Info, words: &[&str]) -> Result<v1::Action, Mistake> {
    let (name, args) = words.split_first().ok_or("the action is missing")?;
    let (made, rest) = named_action(info, None, name, args)?;
    match rest.first() {
        None => Ok(made),
        Some(word) => Err(format!("`{word}` is too much")),
    }
}

fn named_action<'w, 't>(
    info: &P4Info,
    table: Option<&config::Table>,
    name: &str,
    words: &'t [&'w str],
) -> Result<(v1::Action, &'t [&'w str]), Mistake> {
    let of_table = |table: &config::Table| {
        table.action_refs.iter().filter_map(|r| by_id(&info.actions, r.id)).cloned().collect::<Vec<_>>()
    };
    let known = table.map_or_else(|| info.actions.clone(), of_table);
    let what = match table.and_then(|table| table.preamble.as_ref()) {
        Some(table) => format!("action of table `{}`", table.alias),
        None => "action".to_string(),
    };
    let found = find(&known, &what, name)?;
    let fields = params(info, found);
    if words.len() < fields.len() {
        let names: Vec<&str> = fields.iter().map(|f| f.name).collect();
        return Err(format!(
            "action `{name}` takes {} arguments ({}), not {}",
            fields.len(),
            names.join(", "),
            words.len()
        ));
    }
    let (args, rest) = words.split_at(fields.len());
    let names: Vec<&str> = fields.iter().map(|f| f.name).collect();
    let args = assign(&names, args, &format!("action `{name}`"))?;
    let param = |(field, text): (&Field<'_>, Option<&str>)| {
        let text = text.ok_or_else(|| format!("the argument `{}` is missing", field.name))?;
        Ok::<_, Mistake>(v1::action::Param { param_id: field.id, value: parse_value(field, text)? })
    };
    let params = fields.iter().zip(args).map(param).collect::<Result<_, _>>()?;
    let action_id = found.preamble.as_ref().map_or(0, |p| p.id);
    Ok((v1::Action { action_id, params }, rest))
}

fn options(entry: &mut v1::TableEntry, mut words: &[&str]) -> Result<(), Mistake> {
    while let Some((name, rest)) = words.split_first() {
        let (value, rest) = rest.split_first().ok_or_else(|| format!("`{name}` has no value"))?;
        match *name {
            "priority" => {
                let priority = value.parse().ok().filter(|priority| *priority > 0);
                entry.priority =
                    priority.ok_or_else(|| format!("`{value}` is no priority: they are above 0"))?;
            }
            "idle" => entry.idle_timeout_ns = time(value)?,
            "metadata" => entry.metadata = metadata(value)?,
            other => return Err(format!("`{other}` is too much; known are priority, idle, metadata")),
        }
        words = rest;
    }
    Ok(())
}

/// A time in nanoseconds.
fn time(text: &str) -> Result<i64, Mistake> {
    let units = [("ns", 1f64), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];
    let number = |(unit, ns): &(&str, f64)| Some(text.strip_suffix(unit)?.parse::<f64>().ok()? * ns);
    let ns = units.iter().find_map(number).filter(|ns| *ns >= 0.0 && *ns < i64::MAX as f64);
    ns.map(|ns| ns.round() as i64).ok_or_else(|| format!("`{text}` is no time, such as 30s or 500ms"))
}

/// Text, or bytes as `0x…`.
fn metadata(text: &str) -> Result<Vec<u8>, Mistake> {
    let Some(hex) = text.strip_prefix("0x") else { return Ok(text.as_bytes().to_vec()) };
    let wrong = || format!("`{text}` is no metadata: bytes are pairs of hexadecimal digits");
    if hex.len() % 2 != 0 || !hex.is_ascii() {
        return Err(wrong());
    }
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).map_err(|_| wrong()))
        .collect()
}
