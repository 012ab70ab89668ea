//! Resolves the names and numbers of a case against a manifest: suffixes to tables, actions, keys and counters, and digits to [`abi::Bits`]
//! of the right width. The rules are those of p4c's STF runner.

use abi::id::{ActionId, CounterId, MeterId, ProfileId, RegisterId, TableId, ValueSetId};
use abi::manifest::{KeyField, Manifest, Table};
use abi::{ActionCall, Bits, MatchKind, MatchValue};
use dataplane::Indirect;
use num_bigint::BigUint;

use super::{Call, Number, Value};

/// The item with exactly this name, or else the only item whose name ends in `.name`.
pub fn pick<'a, T>(
    items: &'a [T],
    name: &str,
    name_of: impl Fn(&T) -> &str,
    what: &str,
) -> Result<&'a T, String> {
    if let Some(item) = items.iter().find(|i| name_of(i) == name) {
        return Ok(item);
    }
    let found: Vec<&T> = items.iter().filter(|i| is_suffix(name_of(i), name)).collect();
    let list = |items: &mut dyn Iterator<Item = &T>| {
        items.map(|i| format!("`{}`", name_of(i))).collect::<Vec<_>>().join(", ")
    };
    match found[..] {
        [item] => Ok(item),
        [] if items.is_empty() => Err(format!("there is no {what} `{name}`: the program has none")),
        [] => Err(unknown(name, items.iter().map(name_of), what)),
        _ => Err(format!("{what} `{name}` may mean {}", list(&mut found.iter().copied()))),
    }
}

/// The message about a name that is none of those that are known. It has the nearest one: first by the last component, then by the whole name.
pub fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str>, what: &str) -> String {
    let nearness = |k: &str| (strsim::jaro_winkler(last(k), last(name)), strsim::jaro_winkler(k, name));
    let near = known
        .map(|k| (nearness(k), k))
        .max_by(|((a, b), _), ((c, d), _)| a.total_cmp(c).then(b.total_cmp(d)));
    let hint = near.map(|(_, k)| format!("; did you mean `{k}`?")).unwrap_or_default();
    format!("there is no {what} `{name}`{hint}")
}

/// Whether `full` is `name` or ends in `.name`.
pub fn is_suffix(full: &str, name: &str) -> bool {
    full.strip_suffix(name).is_some_and(|head| head.is_empty() || head.ends_with('.'))
}

fn last(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// The number of the only item with this name or suffix.
fn number<T, I: From<usize>>(
    items: &[T],
    name: &str,
    name_of: impl Fn(&T) -> &str,
    what: &str,
) -> Result<I, String> {
    let found = pick(items, name, name_of, what)?;
    Ok(I::from(items.iter().position(|item| std::ptr::eq(item, found)).unwrap_or(0)))
}

/// The table with this name or suffix.
pub fn table(manifest: &Manifest, name: &str) -> Result<TableId, String> {
    number(&manifest.tables, name, |t| &t.name, "table")
}

/// The indexed counter with this name or suffix.
pub fn counter(manifest: &Manifest, name: &str) -> Result<CounterId, String> {
    number(&manifest.counters, name, |c| &c.name, "counter")
}

/// The register with this name or suffix.
pub fn register(manifest: &Manifest, name: &str) -> Result<RegisterId, String> {
    number(&manifest.registers, name, |r| &r.name, "register")
}

/// The meter with this name or suffix.
pub fn meter(manifest: &Manifest, name: &str) -> Result<MeterId, String> {
    number(&manifest.meters, name, |m| &m.name, "meter")
}

/// The action profile with this name or suffix.
pub fn profile(manifest: &Manifest, name: &str) -> Result<ProfileId, String> {
    number(&manifest.profiles, name, |p| &p.name, "action profile")
}

/// The match values of an entry, and its priority.
pub fn place(
    table: &Table,
    priority: Option<i32>,
    keys: &[(String, Value)],
) -> Result<(Vec<MatchValue>, i32), String> {
    if let (Some(number), [], false, [first, ..]) = (priority, keys, table.needs_priority(), &table.keys[..])
    {
        return Err(format!(
            "table `{}` has no priorities, and no key field is given: write `{}:{number}`",
            table.name, first.name
        ));
    }
    let mut values: Vec<Option<MatchValue>> = vec![None; table.keys.len()];
    for (name, value) in keys {
        let at = key_index(table, name)?;
        let key = &table.keys[at];
        if values[at].is_some() {
            return Err(format!("key field `{}` is given twice", key.name));
        }
        values[at] = Some(match_value(key, value).map_err(|e| format!("key field `{}`: {e}", key.name))?);
    }
    let matches = table.keys.iter().zip(values).map(|(key, v)| v.unwrap_or_else(|| omitted(key))).collect();
    let priority = match (table.needs_priority(), priority) {
        (true, None) => {
            return Err(format!("table `{}` needs a priority: `add {} PRIORITY …`", table.name, table.name));
        }
        (true, Some(priority)) => priority,
        (false, _) => 0,
    };
    Ok((matches, priority))
}

/// The reference in `member(id:N)` or `group(id:N)`, if the table has an action profile.
pub fn indirect(table: &Table, call: &Call) -> Option<Indirect> {
    table.implementation.as_ref()?;
    let [(name, number)] = call.args.as_slice() else { return None };
    let id = number.to_u64().and_then(|n| u32::try_from(n).ok()).filter(|_| name == "id")?;
    match call.name.as_str() {
        "member" => Some(Indirect::Member(id)),
        "group" => Some(Indirect::Group(id)),
        _ => None,
    }
}

/// A value set with this name or suffix, and its members.
pub fn value_set(
    manifest: &Manifest,
    name: &str,
    members: &[Vec<Value>],
) -> Result<(ValueSetId, Vec<Vec<MatchValue>>), String> {
    let id: ValueSetId = number(&manifest.value_sets, name, |s| &s.name, "value set")?;
    let set = &manifest.value_sets[id.index()];
    let member = |parts: &Vec<Value>| {
        if parts.len() != set.keys.len() {
            let (wanted, given) = (set.keys.len(), parts.len());
            return Err(format!("a member of value set `{}` has {wanted} parts, not {given}", set.name));
        }
        set.keys.iter().zip(parts).map(|(key, part)| match_value(key, part)).collect()
    };
    Ok((id, members.iter().map(member).collect::<Result<_, _>>()?))
}

/// The action profile with this name or suffix, and the call of one of its members. The profile's first table lists the possible actions.
pub fn member(manifest: &Manifest, name: &str, call: &Call) -> Result<(ProfileId, ActionCall), String> {
    let id = profile(manifest, name)?;
    let user = manifest.profile_table(id).map(|table| &manifest.tables[table.index()]);
    let user = user.ok_or_else(|| format!("no table uses the action profile `{name}`"))?;
    Ok((id, action(user, call)?))
}

/// Builds an action call from its name and arguments.
pub fn action(table: &Table, call: &Call) -> Result<ActionCall, String> {
    let number: ActionId = number(&table.actions, &call.name, |a| &a.name, "action")
        .map_err(|e| format!("table `{}`: {e}", table.name))?;
    let action = &table.actions[number.index()];
    if let Some((name, _)) = call.args.iter().find(|(name, _)| action.params.iter().all(|p| p.name != *name))
    {
        let known = action.params.iter().map(|p| p.name.as_str()).collect::<Vec<_>>().join(", ");
        return Err(format!("action `{}` has no parameter `{name}`; it has ({known})", action.name));
    }
    let mut args = Vec::new();
    for param in &action.params {
        let given = call.args.iter().find(|(name, _)| *name == param.name);
        let (_, number) =
            given.ok_or_else(|| format!("action `{}` needs an argument `{}`", action.name, param.name))?;
        args.push(number.to_bits(param.width).map_err(|e| format!("argument `{}`: {e}", param.name))?);
    }
    Ok(ActionCall { action: number, args })
}

/// The number of the key with this name: `a$0b` means `a[0]b`, `x.valid` and `x` may mean `x.$valid$` and `x$`; otherwise a suffix of a
/// name.
fn key_index(table: &Table, name: &str) -> Result<usize, String> {
    let name = stack_index(name);
    let position = |wanted: &str| table.keys.iter().position(|k| k.name == wanted);
    let exact = [name.clone(), format!("{name}$"), format!("{name}.$valid$"), format!("{name}.isValid()")];
    if let Some(at) = exact.iter().find_map(|n| position(n)) {
        return Ok(at);
    }
    if let Some(head) = name.strip_suffix("valid").map(|h| h.trim_end_matches('$')) {
        let forms = [format!("{head}$valid$"), format!("{head}isValid()")];
        let known = |k: &KeyField| forms.iter().any(|f| is_suffix(&k.name, f));
        if let Some(at) = table.keys.iter().position(known) {
            return Ok(at);
        }
    }
    if let Some(at) = table.keys.iter().position(|k| is_suffix(k.name.trim_end_matches('$'), &name)) {
        return Ok(at);
    }
    // An expression may be written as in P4Info or as in the program.
    let plain = plain_expression(&name);
    if let Some(at) = table.keys.iter().position(|k| plain_expression(&k.name) == plain) {
        return Ok(at);
    }
    let key = pick(&table.keys, &name, |k| &k.name, "key field");
    key.map(|k| position(&k.name).unwrap_or(0)).map_err(|e| format!("table `{}`: {e}", table.name))
}

/// An expression without the parts that P4Info omits: spaces, casts to `bit`, `int` and `bool`, and parentheses around operands.
fn plain_expression(text: &str) -> String {
    let mut text: String = text.split_whitespace().collect();
    for (open, close) in [("(bit<", ">)"), ("(int<", ">)"), ("(bool", ")")] {
        while let Some(from) = text.find(open)
            && let Some(length) = text[from..].find(close)
        {
            text.replace_range(from..from + length + close.len(), "");
        }
    }
    let text = text.replace(".isValid()", ".$valid$");
    text.replace(['(', ')'], "")
}

fn stack_index(name: &str) -> String {
    let Some(dollar) = name.find('$') else { return name.to_string() };
    let digits = name[dollar + 1..].bytes().take_while(u8::is_ascii_digit).count();
    match digits {
        0 => name.to_string(),
        n => format!("{}[{}]{}", &name[..dollar], &name[dollar + 1..=dollar + n], &name[dollar + 1 + n..]),
    }
}

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

fn match_value(key: &KeyField, value: &Value) -> Result<MatchValue, String> {
    let width = key.width;
    Ok(match (key.kind, value) {
        (MatchKind::Exact | MatchKind::Selector, Value::Number(n)) => MatchValue::Exact(n.to_bits(width)?),
        (MatchKind::Optional, Value::Number(n)) => MatchValue::Optional(Some(n.to_bits(width)?)),
        (MatchKind::Lpm, Value::Number(n)) => MatchValue::Lpm(n.masked(width)?.0, n.prefix_len(width)),
        (MatchKind::Lpm, Value::Prefix(n, len)) if *len <= width => MatchValue::Lpm(n.to_bits(width)?, *len),
        (MatchKind::Lpm, Value::Prefix(_, len)) => {
            return Err(format!("a prefix of {len} bits in a field of {width}"));
        }
        (MatchKind::Ternary, Value::Number(n)) => {
            let (value, mask) = n.masked(width)?;
            MatchValue::Ternary(value, mask)
        }
        (MatchKind::Ternary, Value::Prefix(n, len)) => {
            MatchValue::Ternary(n.to_bits(width)?, Bits::prefix_mask(width, *len))
        }
        (MatchKind::Ternary, Value::Masked(n, mask)) => {
            MatchValue::Ternary(n.to_bits(width)?, mask.to_bits(width)?)
        }
        (MatchKind::Range, Value::Range(lo, hi)) => MatchValue::Range(lo.to_bits(width)?, hi.to_bits(width)?),
        (MatchKind::Range, Value::Number(n)) => {
            let value = n.to_bits(width)?;
            MatchValue::Range(value.clone(), value)
        }
        (kind, Value::Any) if kind != MatchKind::Exact => omitted(key),
        (kind, _) => {
            return Err(format!("it is matched as {kind:?}, and the value is of another kind").to_lowercase());
        }
    })
}

impl Number {
    /// The value in `width` bits. A `*` or a number that does not fit is an error.
    pub fn to_bits(&self, width: u32) -> Result<Bits, String> {
        match self.digits.contains('*') {
            true => Err(format!("`{self}` has `*` digits, and one value is meant here")),
            false => self.masked(width).map(|(value, _)| value),
        }
    }

    /// The value; `None` if it does not fit or has a `*`.
    pub fn to_u64(&self) -> Option<u64> {
        self.to_bits(64).ok().and_then(|b| b.to_u64())
    }

    /// The value and the mask. `*` digits are zero in both.
    fn masked(&self, width: u32) -> Result<(Bits, Bits), String> {
        if let Some((written, own)) = &self.address
            && *own != width
        {
            return Err(format!("`{written}` has {own} bits, and {width} are needed"));
        }
        let radix = match self.digit_bits {
            4 => 16,
            1 => 2,
            _ => 10,
        };
        let value = self.digits.replace('*', "0");
        let value = BigUint::parse_bytes(value.as_bytes(), radix)
            .ok_or_else(|| format!("`{self}` is not a number"))?;
        if value.bits() > width as u64 {
            return Err(format!("`{self}` does not fit {width} bits"));
        }
        let mut mask = Bits::ones(width);
        for (place, digit) in self.digits.bytes().rev().enumerate() {
            let low = place as u64 * self.digit_bits as u64;
            if digit == b'*' && low < width as u64 {
                let digit_mask =
                    Bits::new(self.digit_bits, u128::MAX).resize(width.max(self.digit_bits)).shl(low);
                mask = mask.and(&digit_mask.resize(width).not());
            }
        }
        Ok((Bits::from_big(width, &value), mask))
    }

    /// The prefix length of a value without `/`: the bits of its digits, less those of `*`. A decimal number is a full value.
    fn prefix_len(&self, width: u32) -> u32 {
        let stars = self.digits.bytes().filter(|d| *d == b'*').count();
        match self.digit_bits {
            0 => width,
            bits => ((self.digits.len() - stars) as u32 * bits).min(width),
        }
    }
}

#[cfg(test)]
mod tests {
    use abi::Entry;
    use abi::manifest::Action;

    use super::*;
    use crate::stf::{Kind, parse};

    fn manifest() -> Manifest {
        let key = |name: &str, width, kind| KeyField { name: name.into(), width, kind, signed: false };
        let table = |name: &str, keys| Table {
            name: name.into(),
            keys,
            actions: vec![Action {
                name: "c.set".into(),
                params: vec![abi::manifest::Param { name: "port".into(), width: 9, offset: 0 }],
                default_only: false,
                table_only: false,
            }],
            size: 8,
            default_action: None,
            const_default: false,
            const_entries: false,
            initial_entries: vec![],
            direct_counter: None,
            implementation: None,
            notifies_idle: false,
            ages: false,
            direct_meter: None,
            layout: None,
        };
        Manifest {
            tables: vec![
                table(
                    "c.route",
                    vec![key("hdr.ip.dst", 32, MatchKind::Lpm), key("hdr.ip.isValid()", 1, MatchKind::Exact)],
                ),
                table(
                    "c.acl",
                    vec![key("hdr.v[0].vid", 12, MatchKind::Ternary), key("meta.p", 9, MatchKind::Range)],
                ),
                table("d.acl", vec![]),
            ],
            ..Manifest::default()
        }
    }

    fn read(line: &str) -> Result<Entry, String> {
        let case = parse("t", line).unwrap();
        let Kind::Add { table: name, priority, keys, action, .. } = &case.statements[0].kind else {
            panic!()
        };
        let manifest = manifest();
        let found = &manifest.tables[table(&manifest, name)?.index()];
        let (matches, priority) = place(found, *priority, keys)?;
        let entry = Entry { matches, priority, action: super::action(found, action)? };
        found.check_entry(&entry).map_err(|e| e.to_string())?;
        Ok(entry)
    }

    #[test]
    fn prefixes_and_masks_come_from_digits() {
        let first = |line: &str| read(line).unwrap().matches[0].clone();
        let lpm = |v, len| MatchValue::Lpm(Bits::new(32, v), len);
        assert_eq!(first("add route dst:0x0a010065 set(port:1)"), lpm(0x0a010065, 32));
        assert_eq!(first("add route ip.dst:0x0a01**** set(port:1)"), lpm(0x0a010000, 16));
        assert_eq!(first("add route dst:0x0a000000/8 set(port:1)"), lpm(0x0a000000, 8));
        assert_eq!(first("add route ip.valid:1 set(port:1)"), lpm(0, 0));
        assert_eq!(first("add route dst:10.1.0.101 set(port:1)"), lpm(0x0a010065, 32));
        assert_eq!(first("add route dst:10.0.0.0/8 set(port:1)"), lpm(0x0a000000, 8));
        let acl = read("add c.acl 5 v$0.vid:0x*1* p:1..3 c.set(port:1)").unwrap();
        assert_eq!(acl.matches[0], MatchValue::Ternary(Bits::new(12, 0x10), Bits::new(12, 0xf0)));
        assert_eq!(
            (acl.priority, &acl.matches[1]),
            (5, &MatchValue::Range(Bits::new(9, 1), Bits::new(9, 3)))
        );
    }

    /// The last component decides, and of equal ones the rest.
    #[test]
    fn unknown_names_come_with_the_nearest_one() {
        let known = [
            "ingress.Nat64.six_to_four.ttl_expired",
            "Nat64.four_to_six.ttl_expired",
            "loopback",
            "no_buffer",
        ];
        for (name, near) in [
            ("ttl_expird", "Nat64.four_to_six.ttl_expired"),
            ("six_to_four.ttl_expird", "ingress.Nat64.six_to_four.ttl_expired"),
            ("source.loopbck", "loopback"),
        ] {
            let said = unknown(name, known.into_iter(), "drop reason");
            assert_eq!(said, format!("there is no drop reason `{name}`; did you mean `{near}`?"));
        }
    }

    #[test]
    fn mistakes_are_explained() {
        let error = |line: &str| read(line).unwrap_err();
        assert!(error("add rout dst:1 set(port:1)").contains("did you mean `c.route`"));
        assert!(error("add acl 1 set(port:1)").contains("may mean `c.acl`, `d.acl`"));
        assert!(error("add c.acl set(port:1)").contains("needs a priority"));
        assert!(error("add route dst:1 set(prt:1)").contains("no parameter `prt`; it has (port)"));
        assert!(error("add route dst:1 set()").contains("needs an argument `port`"));
        assert!(error("add route dst:1 set(port:512)").contains("does not fit 9 bits"));
        assert!(error("add route src:1 set(port:1)").contains("no key field `src`"));
        assert!(error("add route dst:1/40 set(port:1)").contains("a prefix of 40 bits"));
        assert!(error("add route dst:2001:db8::1 set(port:1)").contains("has 128 bits, and 32 are needed"));
        assert!(error("add route dst:1 set(port:10.0.0.1)").contains("has 32 bits, and 9 are needed"));
        assert!(error("add route 5 set(port:1)").contains("no key field is given: write `hdr.ip.dst:5`"));
    }

    #[test]
    fn keys_that_are_expressions_are_known_as_p4info_names_them() {
        for (own, p4info) in [
            ("hdr.h.b&0xf", "hdr.h.b & 0xf"),
            ("(bit<4>)hdr.h.a", "hdr.h.a"),
            ("(bit<8>)(hdr.h.a&m.x)", "hdr.h.a & m.x"),
            ("hdr.h.isValid()", "hdr.h.$valid$"),
        ] {
            assert_eq!(plain_expression(own), plain_expression(p4info));
        }
    }
}
