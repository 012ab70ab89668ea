//! The parts of tables that the targets share: const entries as code, the parameters of actions, and the actions.

use abi::MatchValue;
use abi::manifest::{RegisterPlace, Structure, Table, TableLayout};
use ir::TableId;

use super::layout::{offsets, register_of};
use super::{Body, Machine, Text, Unit, c_type, constant, parser};

/// The bit that is set in the result of a table on a hit. The bits below it are the number of the action that ran.
pub const HIT: u32 = 1 << 16;

/// Emits const entries as code. The first entry that matches wins.
pub fn code(body: &mut Body<'_>, definition: &ir::Table, table: &Table) {
    let keys: Vec<_> = definition.keys.iter().map(|k| (body.expr(&k.expr), k.expr.ty.is_signed())).collect();
    let mut order: Vec<&ir::TableEntry> = definition.entries.iter().collect();
    if !table.needs_priority() {
        // Longest prefix first.
        let length = |e: &&ir::TableEntry| {
            let bits = e.matches.iter().map(|m| if let MatchValue::Lpm(_, len) = m { *len } else { 0 });
            std::cmp::Reverse(bits.sum::<u32>())
        };
        order.sort_by_key(length);
    }
    for (i, entry) in order.iter().enumerate() {
        let tests: Vec<String> =
            entry.matches.iter().zip(&keys).filter_map(|(m, (k, signed))| test(m, k, *signed)).collect();
        let tests = if tests.is_empty() { "1".to_string() } else { tests.join(" && ") };
        let head = format!("if ({tests})");
        if i == 0 {
            body.text.open(head);
        } else {
            body.text.close(&format!(" else {head} {{"));
            body.text.indent();
        }
        arguments(body, definition, entry.action, &entry.args);
        body.text.line(format!("result = {};", HIT | entry.action));
    }
    if !order.is_empty() {
        body.text.close("");
    }
}

fn test(m: &MatchValue, k: &str, signed: bool) -> Option<String> {
    let set = match m {
        MatchValue::Exact(v) | MatchValue::Optional(Some(v)) => ir::KeySet::Value(v.clone()),
        MatchValue::Optional(None) => return None,
        MatchValue::Lpm(v, len) => ir::KeySet::Mask(v.clone(), abi::Bits::prefix_mask(v.width(), *len)),
        MatchValue::Ternary(v, m) => ir::KeySet::Mask(v.clone(), m.clone()),
        MatchValue::Range(lo, hi) => ir::KeySet::Range { lo: lo.clone(), hi: hi.clone(), signed },
    };
    parser::test(k, &set)
}

/// Emits assignments of constants to an action's parameters.
fn arguments(body: &mut Body<'_>, definition: &ir::Table, action: u32, args: &[abi::Bits]) {
    let id = definition.actions[action as usize].action;
    let params = body.program.actions[id.index()].params.clone();
    for (param, arg) in params.iter().zip(args) {
        body.assign(&ir::Place::Var(param.var), &constant(arg));
    }
}

/// Whether a lookup on eBPF needs the table's version. Otherwise only a miss reads it, for the default action.
pub fn reads_version(structure: Structure) -> bool {
    matches!(structure, Structure::Hash | Structure::TupleSpace | Structure::Flow)
}

/// Emits the declaration of `version`, the version of the table with this number.
pub fn version(body: &mut Body<'_>, index: usize) {
    body.text.line(format!("u32 number = {index};"));
    body.text.line("struct version *version = bpf_map_lookup_elem(&strait_versions, &number);");
    body.text.line("if (!version)");
    body.text.line("    return -1;");
}

/// The C of a value of a type at an offset of action data, which is aligned to 8 bytes and not to 16.
pub fn load(ty: &str, data: &str, at: u32) -> String {
    match ty {
        "u128" => format!("U128(*(u64 *)({data} + {}), *(u64 *)({data} + {at}))", at + 8),
        _ => format!("*({ty} *)({data} + {at})"),
    }
}

/// Emits the store of a value of a type at an offset of action data.
pub fn store(text: &mut Text, ty: &str, data: &str, at: u32, value: &str) {
    if ty != "u128" {
        return text.line(format!("*({ty} *)({data} + {at}) = {value};"));
    }
    text.open("");
    text.line(format!("u128 value = {value};"));
    text.line(format!("*(u64 *)({data} + {at}) = (u64)value;"));
    text.line(format!("*(u64 *)({data} + {}) = (u64)(value >> 64);", at + 8));
    text.close("");
}

/// Emits the stores of an action of new action data at `data`: its number, its arguments, and a direct register of 0.
pub fn store_action(body: &mut Body<'_>, table: TableId, action: u32, values: &[String], data: &str) {
    let definition = &body.program.tables[table.index()];
    let id = definition.actions[action as usize].action;
    body.text.line(format!("*(u16 *)({data}) = {action};"));
    if let Some(register) = register_of(definition) {
        store(body.text, register_type(register), data, register.offset, "0");
    }
    let offsets = offsets(body.program, table, id);
    for ((param, value), at) in body.program.actions[id.index()].params.iter().zip(values).zip(offsets) {
        let ty = c_type(ir::Ty::Bit(body.program.var(param.var).ty.width())).unwrap_or("u64");
        store(body.text, ty, data, at, value);
    }
}

/// The C type of a direct register.
pub fn register_type(place: RegisterPlace) -> &'static str {
    c_type(ir::Ty::Bit(place.size * 8)).unwrap_or("u64")
}

/// Emits the choice of the default action on a miss, and the assignment of the parameters from the action data.
pub fn miss(body: &mut Body<'_>, definition: &ir::Table, table: &Table, layout: &TableLayout) {
    let (action, args) = &definition.default;
    match &layout.default_map {
        Some(_) if body.facts.machine() == Machine::Native => {
            body.text.line(format!("if (!(result & {HIT}))"));
            body.text.line("    d = ACQUIRE(table->miss);");
        }
        Some(map) => {
            body.text.open(format!("if (!(result & {HIT}))"));
            if let (Unit::Table(index), false) = (body.unit, reads_version(layout.structure)) {
                version(body, index as usize);
            }
            body.text.line("u32 at = version->default_action;");
            body.text.line(format!("d = bpf_map_lookup_elem(&{map}, &at);"));
            body.text.line("if (!d)");
            body.text.line("    return -1;");
            body.text.close("");
        }
        None => {
            body.text.open(format!("if (!(result & {HIT}))"));
            arguments(body, definition, *action, args);
            body.text.line(format!("result = {action};"));
            body.text.close("");
        }
    }
    body.text.open("if (d)");
    body.text.line("u32 action = *(u16 *)d;");
    body.text.line("result |= action;");
    for (number, action) in table.actions.iter().enumerate() {
        if action.params.is_empty() {
            continue;
        }
        let id = definition.actions[number].action;
        let vars: Vec<_> = body.program.actions[id.index()].params.iter().map(|p| p.var).collect();
        body.text.open(format!("if (action == {number})"));
        for (param, var) in action.params.iter().zip(vars) {
            let ty = c_type(ir::Ty::Bit(param.width)).unwrap_or("u64");
            body.assign(&ir::Place::Var(var), &load(ty, "d", param.offset));
        }
        body.text.close("");
    }
    body.text.close("");
}

/// Emits the declaration of `member`: the place of the action that a selector chooses among `count` ones, or 0 without a selector.
pub fn choose_member(body: &mut Body<'_>, definition: &ir::Table, profile: ir::ProfileId, count: &str) {
    body.text.line("u64 member = 0;");
    let Some((algorithm, bits)) = body.program.profiles[profile.index()].selector else { return };
    body.text.open(format!("if ({count} > 1)"));
    let hash = body.hash_value(algorithm, &definition.selector);
    let hash = if bits < 64 { format!("({hash} & {:#x})", (1u64 << bits) - 1) } else { hash };
    body.text.line(format!("member = {hash} % {count};"));
    body.text.close("");
}

/// Emits the actions. The low 16 bits of `result` select the one that runs.
pub fn run(body: &mut Body<'_>, definition: &ir::Table) {
    let mut first = true;
    for (number, listed) in definition.actions.iter().enumerate() {
        let action = body.program.actions[listed.action.index()].clone();
        if action.body.is_empty() {
            continue;
        }
        let head = format!("if ((result & 0xffff) == {number}) {{ /* {} */", action.name.comment());
        if std::mem::take(&mut first) {
            body.text.line(head);
        } else {
            body.text.close(&format!(" else {head}"));
        }
        body.text.indent();
        body.comment(action.loc);
        body.block(&action.body);
    }
    if !first {
        body.text.close("");
    }
    body.text.line("return result;");
}
