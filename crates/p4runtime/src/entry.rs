//! Matches and actions: P4Runtime's messages to the values of a device, and back (specification, sections 9.1.1 and 9.1.2).

use abi::id::ActionId;
use abi::{ActionCall, Bits, MatchKind, MatchValue};
use proto::p4::v1::{self, field_match as fm};

use super::bytes;
use super::names::Names;
use super::pipeline::{Action, Field, Param, Table, Translation, no_such};
use super::{Code, Status};

/// A value of the controller as the program has it.
fn value(
    bytes: &[u8],
    width: u32,
    signed: bool,
    translation: &Translation,
    names: &mut Names,
) -> Result<Bits, Status> {
    match translation {
        Translation::Names(of) => names.number(of, bytes, width),
        Translation::Same if signed => bytes::signed(bytes, width),
        Translation::Same => bytes::value(bytes, width),
    }
}

/// A value of the program as the controller has it.
fn bytes_of(value: &Bits, signed: bool, translation: &Translation, names: &Names) -> Vec<u8> {
    match translation {
        Translation::Names(of) => names.name(of, value),
        Translation::Same if signed => bytes::shortest_signed(value),
        Translation::Same => bytes::shortest(value),
    }
}

/// A parameter's value from the controller's bytes.
pub fn param_value(bytes: &[u8], param: &Param, names: &mut Names) -> Result<Bits, Status> {
    value(bytes, param.width, false, &param.translation, names).map_err(|e| e.at(format!("`{}`", param.name)))
}

/// A parameter's value as the controller's bytes.
pub fn param_bytes(value: &Bits, param: &Param, names: &Names) -> Vec<u8> {
    bytes_of(value, false, &param.translation, names)
}

/// The values of a key, from the matches of a message. A field that is omitted matches everything.
pub fn matches(
    fields: &[Field],
    given: &[v1::FieldMatch],
    names: &mut Names,
) -> Result<Vec<MatchValue>, Status> {
    // Most keys have few fields, so each is searched.
    for (at, one) in given.iter().enumerate() {
        if !fields.iter().any(|f| f.id == one.field_id) {
            return Err(no_such("match field", one.field_id));
        }
        if given[..at].iter().any(|other| other.field_id == one.field_id) {
            return Err(Status::invalid(format!("match field {} is given twice", one.field_id)));
        }
    }
    let field = |field: &Field| match given.iter().find(|m| m.field_id == field.id) {
        Some(given) => {
            match_value(field, given, names).map_err(|e| e.at(format!("match field `{}`", field.key.name)))
        }
        None => any(field),
    };
    fields.iter().map(field).collect()
}

/// The value that matches everything.
fn any(field: &Field) -> Result<MatchValue, Status> {
    let width = field.key.width;
    Ok(match field.key.kind {
        MatchKind::Exact | MatchKind::Selector => {
            return Err(Status::invalid(format!("match field `{}` is exact, and missing", field.key.name)));
        }
        MatchKind::Lpm => MatchValue::Lpm(Bits::zero(width), 0),
        MatchKind::Ternary => MatchValue::Ternary(Bits::zero(width), Bits::zero(width)),
        MatchKind::Range => {
            let (low, high) = whole(width, field.key.signed);
            MatchValue::Range(low, high)
        }
        MatchKind::Optional => MatchValue::Optional(None),
    })
}

/// The lowest and the highest value of a field.
fn whole(width: u32, signed: bool) -> (Bits, Bits) {
    match signed && width > 0 {
        true => {
            let lowest = Bits::new(1, 1).resize(width).shl(u64::from(width) - 1);
            (lowest.clone(), lowest.not())
        }
        false => (Bits::zero(width), Bits::ones(width)),
    }
}

fn match_value(field: &Field, given: &v1::FieldMatch, names: &mut Names) -> Result<MatchValue, Status> {
    let (width, signed) = (field.key.width, field.key.signed);
    let mut value = |bytes: &[u8]| value(bytes, width, signed, &field.translation, names);
    let given = given.field_match_type.as_ref();
    let given = given.ok_or_else(|| Status::invalid("no match is set"))?;
    match (field.key.kind, given) {
        (MatchKind::Exact, fm::FieldMatchType::Exact(m)) => Ok(MatchValue::Exact(value(&m.value)?)),
        (MatchKind::Optional, fm::FieldMatchType::Optional(m)) => {
            Ok(MatchValue::Optional(Some(value(&m.value)?)))
        }
        (MatchKind::Lpm, fm::FieldMatchType::Lpm(m)) => {
            let (value, length) = (value(&m.value)?, u32::try_from(m.prefix_len).unwrap_or(u32::MAX));
            if length == 0 {
                return Err(Status::invalid(
                    "a prefix of 0 bits matches everything: the field must be omitted",
                ));
            }
            if length > width {
                return Err(Status::invalid(format!("a prefix of {} bits in {width}", m.prefix_len)));
            }
            match value.and(&Bits::prefix_mask(width, length)) == value {
                true => Ok(MatchValue::Lpm(value, length)),
                false => Err(Status::invalid(format!("{value} has bits behind its prefix of {length} bits"))),
            }
        }
        (MatchKind::Ternary, fm::FieldMatchType::Ternary(m)) => {
            let (value, mask) = (value(&m.value)?, bytes::value(&m.mask, width)?);
            if mask.is_zero() {
                return Err(Status::invalid("a mask of zeros matches everything: the field must be omitted"));
            }
            match value.and(&mask) == value {
                true => Ok(MatchValue::Ternary(value, mask)),
                false => Err(Status::invalid(format!("{value} has bits that its mask {mask} does not have"))),
            }
        }
        (MatchKind::Range, fm::FieldMatchType::Range(m)) => {
            let (low, high) = (value(&m.low)?, value(&m.high)?);
            let ordered = if signed { low.cmp_signed(&high) } else { low.cmp_unsigned(&high) };
            if ordered.is_gt() {
                return Err(Status::invalid(format!("the range begins at {low}, and ends at {high}")));
            }
            match (low.clone(), high.clone()) == whole(width, signed) {
                true => Err(Status::invalid("the range has all values: the field must be omitted")),
                false => Ok(MatchValue::Range(low, high)),
            }
        }
        (kind, _) => Err(Status::invalid(format!(
            "the field is matched as {kind:?}, and the match is of another kind"
        ))),
    }
}

/// The message of a key: what matches everything is omitted.
pub fn field_matches(fields: &[Field], values: &[MatchValue], names: &Names) -> Vec<v1::FieldMatch> {
    let field = |(field, value): (&Field, &MatchValue)| {
        let bytes = |v: &Bits| bytes_of(v, field.key.signed, &field.translation, names);
        let given = match value {
            MatchValue::Exact(v) => fm::FieldMatchType::Exact(fm::Exact { value: bytes(v) }),
            MatchValue::Lpm(_, 0) | MatchValue::Optional(None) => return None,
            MatchValue::Lpm(v, length) => {
                let value = bytes(&v.and(&Bits::prefix_mask(v.width(), *length)));
                fm::FieldMatchType::Lpm(fm::Lpm { value, prefix_len: *length as i32 })
            }
            MatchValue::Ternary(_, mask) if mask.is_zero() => return None,
            MatchValue::Ternary(v, mask) => fm::FieldMatchType::Ternary(fm::Ternary {
                value: bytes(&v.and(mask)),
                mask: bytes::shortest(mask),
            }),
            MatchValue::Range(low, high) => {
                if (low.clone(), high.clone()) == whole(field.key.width, field.key.signed) {
                    return None;
                }
                fm::FieldMatchType::Range(fm::Range { low: bytes(low), high: bytes(high) })
            }
            MatchValue::Optional(Some(v)) => fm::FieldMatchType::Optional(fm::Optional { value: bytes(v) }),
        };
        Some(v1::FieldMatch { field_id: field.id, field_match_type: Some(given) })
    };
    fields.iter().zip(values).filter_map(field).collect()
}

/// A call of a table's action.
pub fn call(table: &Table, action: &v1::Action, names: &mut Names) -> Result<ActionCall, Status> {
    let found = table.actions.get(&action.action_id);
    let found =
        found.ok_or_else(|| no_such(&format!("action of table `{}`", table.name), action.action_id))?;
    let args = args(found, &action.params, names).map_err(|e| e.at(format!("action `{}`", found.name)))?;
    Ok(ActionCall { action: found.at, args })
}

fn args(action: &Action, given: &[v1::action::Param], names: &mut Names) -> Result<Vec<Bits>, Status> {
    if let Some(unknown) = given.iter().find(|g| !action.params.iter().any(|p| p.id == g.param_id)) {
        return Err(no_such("parameter", unknown.param_id));
    }
    if given.len() > action.params.len() {
        return Err(Status::invalid("a parameter is given twice"));
    }
    let arg = |param: &Param| {
        let given = given.iter().find(|g| g.param_id == param.id);
        let given = given.ok_or_else(|| Status::invalid(format!("parameter `{}` is missing", param.name)))?;
        param_value(&given.value, param, names)
    };
    action.params.iter().map(arg).collect()
}

/// The message of a call; `None` for an action that the controller does not know.
pub fn action(table: &Table, call: &ActionCall, names: &Names) -> Option<v1::Action> {
    let action_id = table.action_ids.get(call.action.index()).copied().flatten()?;
    let params = table.actions.get(&action_id)?.params.iter().zip(&call.args);
    let param = |(p, value): (&Param, &Bits)| v1::action::Param {
        param_id: p.id,
        value: param_bytes(value, p, names),
    };
    Some(v1::Action { action_id, params: params.map(param).collect() })
}

/// The ids of actions, as one table numbers them.
pub fn action_of(table: &Table, id: u32) -> Result<ActionId, Status> {
    let found = table.actions.get(&id).map(|action| action.at);
    found.ok_or_else(|| no_such(&format!("action of table `{}`", table.name), id))
}

/// A code with which an action in the wrong place is refused: `@tableonly` and `@defaultonly` (section 9.1.2).
pub fn check_scope(
    manifest: &abi::manifest::Table,
    call: &ActionCall,
    as_default: bool,
) -> Result<(), Status> {
    let Some(action) = manifest.action(call) else { return Ok(()) };
    let wrong = if as_default { action.table_only } else { action.default_only };
    match wrong {
        false => Ok(()),
        true => {
            let only = if as_default { "entries" } else { "the default action" };
            Err(Status::new(
                Code::PermissionDenied,
                format!("action `{}` of table `{}` is for {only} only", action.name, manifest.name),
            ))
        }
    }
}
