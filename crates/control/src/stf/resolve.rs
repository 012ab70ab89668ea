//! STF's names and numbers against a manifest: suffixes to full names, digits to match values.

use abi::manifest::{Action, KeyField, Manifest, Table};
use abi::{ActionCall, Bits, Entry, MatchKind, MatchValue};
use num_bigint::BigUint;

use super::{Call, Number, Value};

/// A problem in words; the caller knows the line.
pub type Resolved<T> = Result<T, String>;

/// The one item whose name is `name` or ends in `.name`.
pub fn find<'a, T>(what: &str, name: &str, items: &'a [T], full: impl Fn(&T) -> &str) -> Resolved<&'a T> {
    if let Some(exact) = items.iter().find(|i| full(i) == name) {
        return Ok(exact);
    }
    let suffix = format!(".{name}");
    let mut found = items.iter().filter(|i| full(i).ends_with(&suffix));
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        (Some(_), Some(_)) => Err(format!("{what} `{name}` is ambiguous: {}", names(items, full, &suffix))),
        (None, _) => Err(format!("there is no {what} `{name}`; there is {}", names(items, full, ""))),
    }
}

fn names<T>(items: &[T], full: impl Fn(&T) -> &str, suffix: &str) -> String {
    let all: Vec<_> = items.iter().map(full).filter(|n| n.ends_with(suffix)).collect();
    if all.is_empty() { "none".to_string() } else { all.join(", ") }
}

/// A table by name or suffix.
pub fn table<'m>(manifest: &'m Manifest, name: &str) -> Resolved<&'m Table> {
    find("table", name, &manifest.tables, |t| &t.name)
}

/// An `add` line.
pub fn entry(table: &Table, priority: Option<i32>, keys: &[(String, Value)], call: &Call) -> Resolved<Entry> {
    let mut matches: Vec<Option<MatchValue>> = vec![None; table.keys.len()];
    for (name, value) in keys {
        let at = key_index(table, name)?;
        matches[at] = Some(match_value(&table.keys[at], value)?);
    }
    let filled = matches.into_iter().zip(&table.keys).map(|(m, k)| m.unwrap_or_else(|| omitted(k)));
    let entry = Entry {
        matches: filled.collect(),
        priority: if table.needs_priority() { priority.unwrap_or(1) } else { 0 },
        action: action(table, call)?,
    };
    table.check_entry(&entry).map_err(|e| e.to_string())?;
    Ok(entry)
}

/// An action call of one of the table's actions.
pub fn action(table: &Table, call: &Call) -> Resolved<ActionCall> {
    let action = find("action", &call.name, &table.actions, |a| &a.name)?;
    let args = action.params.iter().map(|p| argument(action, call, &p.name, p.width));
    let args = args.collect::<Resolved<Vec<_>>>()?;
    if let Some((name, _)) = call.args.iter().find(|(n, _)| !action.params.iter().any(|p| p.name == *n)) {
        return Err(format!("action `{}` has no parameter `{name}`", action.name));
    }
    Ok(ActionCall { action: action.name.clone(), args })
}

fn argument(action: &Action, call: &Call, name: &str, width: u32) -> Resolved<Bits> {
    match call.args.iter().find(|(n, _)| n == name) {
        Some((_, number)) => exact(number, width),
        None => Err(format!("argument `{name}` of action `{}` is missing", action.name)),
    }
}

/// A key by its name, as `k$`, `k.$valid$`, `k.valid`, with `a$0` for `a[0]`, or by suffix.
fn key_index(table: &Table, name: &str) -> Resolved<usize> {
    let plain = name.strip_suffix('$').unwrap_or(name).to_string();
    let valid = plain.strip_suffix(".valid").map(|p| format!("{p}.$valid$"));
    let indexed = dollar_index(&plain);
    for candidate in [Some(plain.clone()), valid, indexed].into_iter().flatten() {
        let suffix = format!(".{candidate}");
        let exact = table.keys.iter().position(|k| k.name == candidate);
        let found = exact.or_else(|| table.keys.iter().position(|k| k.name.ends_with(&suffix)));
        if let Some(at) = found {
            return Ok(at);
        }
    }
    Err(format!("table `{}` has no key `{name}`; it has {}", table.name, names(&table.keys, |k| &k.name, "")))
}

fn dollar_index(name: &str) -> Option<String> {
    let (before, after) = name.split_once('$')?;
    let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
    (digits > 0).then(|| format!("{before}[{}]{}", &after[..digits], &after[digits..]))
}

/// What a key that an entry does not mention stands for.
fn omitted(key: &KeyField) -> MatchValue {
    let zero = Bits::zero(key.width);
    match key.kind {
        MatchKind::Exact | MatchKind::Selector => MatchValue::Exact(zero),
        MatchKind::Lpm => MatchValue::Lpm(zero, 0),
        MatchKind::Ternary => MatchValue::Ternary(zero.clone(), zero),
        MatchKind::Range => MatchValue::Range(zero, Bits::ones(key.width)),
        MatchKind::Optional => MatchValue::Optional(None),
    }
}

fn match_value(key: &KeyField, value: &Value) -> Resolved<MatchValue> {
    let width = key.width;
    Ok(match (key.kind, value) {
        (_, Value::Any) => omitted(key),
        (MatchKind::Exact | MatchKind::Selector, Value::Number(n)) => MatchValue::Exact(exact(n, width)?),
        (MatchKind::Optional, Value::Number(n)) => MatchValue::Optional(Some(exact(n, width)?)),
        (MatchKind::Lpm, Value::Prefix(n, len)) => MatchValue::Lpm(exact(n, width)?, *len),
        (MatchKind::Lpm, Value::Number(n)) => {
            let (v, m) = masked(n, width)?;
            let len = (0..width).filter(|&b| m.get(b)).count() as u32;
            // Hexadecimal and binary numbers tell their prefix by the digits that are there.
            let len = if n.digit_bits == 0 { width } else { len.min(width) };
            MatchValue::Lpm(v, len)
        }
        (MatchKind::Ternary, Value::Number(n)) => {
            let (v, m) = masked(n, width)?;
            MatchValue::Ternary(v, m)
        }
        (MatchKind::Ternary, Value::Masked(v, m)) => MatchValue::Ternary(exact(v, width)?, exact(m, width)?),
        (MatchKind::Ternary, Value::Prefix(v, len)) => {
            MatchValue::Ternary(exact(v, width)?, Bits::prefix_mask(width, *len))
        }
        (MatchKind::Range, Value::Range(lo, hi)) => MatchValue::Range(exact(lo, width)?, exact(hi, width)?),
        (MatchKind::Range, Value::Number(n)) => MatchValue::Range(exact(n, width)?, exact(n, width)?),
        (kind, _) => {
            return Err(format!("key `{}` is matched as {kind:?}, which this value does not fit", key.name));
        }
    })
}

/// A number without `*`.
pub fn exact(number: &Number, width: u32) -> Resolved<Bits> {
    let (value, _) = masked(number, width)?;
    if number.digits.contains('*') {
        return Err(format!("`{number}` has `*` digits where a number should stand"));
    }
    Ok(value)
}

impl Number {
    /// The number, where it is a plain one of 64 bits.
    pub fn to_u64(&self) -> Option<u64> {
        exact(self, 64).ok().and_then(|v| v.to_u64())
    }
}

/// A number and a mask whose `*` digits are zero.
fn masked(number: &Number, width: u32) -> Resolved<(Bits, Bits)> {
    let radix = match number.digit_bits {
        4 => 16,
        1 => 2,
        _ => 10,
    };
    let zeros = number.digits.replace('*', "0");
    let value =
        BigUint::parse_bytes(zeros.as_bytes(), radix).ok_or_else(|| format!("`{number}` is not a number"))?;
    if value.bits() > width as u64 {
        return Err(format!("`{number}` does not fit {width} bits"));
    }
    let mut mask = BigUint::default();
    for digit in number.digits.chars() {
        mask <<= number.digit_bits;
        if digit != '*' && number.digit_bits > 0 {
            mask |= BigUint::from((1u32 << number.digit_bits) - 1);
        }
    }
    let digits = number.digits.chars().count() as u32 * number.digit_bits;
    let mut mask = Bits::from_big(width, &mask);
    // Leading zeros that are not written count, unless the number begins with `*`.
    if digits < width && !number.digits.starts_with('*') || number.digit_bits == 0 {
        let high = Bits::ones(width).shl(digits.min(width) as u64);
        mask = if number.digit_bits == 0 { Bits::ones(width) } else { mask.or(&high) };
    }
    Ok((Bits::from_big(width, &value), mask))
}
