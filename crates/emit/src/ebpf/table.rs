//! Tables: the key, the look-up by the table's structure, the actions.

use abi::MatchValue;
use abi::manifest::{Structure, Table, TableLayout};
use ir::TableId;

use super::special::Ebpf;
use super::{Emitter, header, parser};
use crate::c::{Body, Unit, c_type, constant};

/// Set in the result of a look-up that found an entry.
const HIT: u32 = 1 << 16;

impl Emitter<'_> {
    /// The maps of a table.
    pub(super) fn table_maps(&mut self, table: &Table) {
        let Some(layout) = &table.layout else { return };
        let value = self.bytes_type("value", &table.name, layout.value_size);
        if let Some(map) = &layout.map {
            let size = table.size.max(1);
            match layout.structure {
                Structure::LpmTrie => {
                    let key = self.bytes_type("key", &table.name, layout.key_size + 4);
                    self.map(map, "MAP_LPM_TRIE", size, &key, &value, true);
                }
                Structure::TupleSpace => {
                    let key = self.bytes_type("key", &table.name, layout.key_size + 4);
                    self.map(map, "MAP_HASH", size, &key, &value, false);
                }
                _ => {
                    let key = self.bytes_type("key", &table.name, layout.key_size);
                    self.map(map, "MAP_HASH", size, &key, &value, false);
                }
            }
        }
        if let Some((map, tuples)) = &layout.tuples {
            let element = self.bytes_type("tuple", &table.name, (8 + layout.key_size).next_multiple_of(8));
            self.map(map, "MAP_ARRAY", *tuples as u64, "u32", &element, false);
        }
        if let Some(map) = &layout.default_map {
            let data = self.bytes_type("data", &table.name, layout.data_size);
            self.map(map, "MAP_ARRAY", 1, "u32", &data, false);
        }
    }

    /// Declares `struct what_table { u8 bytes[n]; }`, 8-byte aligned where its size allows.
    fn bytes_type(&mut self, what: &str, table: &str, bytes: u32) -> String {
        let name = format!("struct {what}_{}", crate::c::c_name(table));
        self.text.line(format!("{name} {{ u8 bytes[{bytes}]; }};"));
        name
    }

    /// The function that applies a table: returns [`HIT`] and the number of the action that ran.
    pub(super) fn table(&mut self, index: usize) {
        let table = self.manifest.tables[index].clone();
        let id = TableId(index as u32);
        let definition = &self.program.tables[index];
        let name = format!("apply_{}", self.names.table(id));
        let Some(layout) = table.layout.clone() else { return };
        // Code that stands in one place only is verified there as well as by itself.
        let linkage = if self.ebpf.applications[index] == 1 { "INLINE" } else { "NOINLINE" };
        self.function(linkage, &name, Unit::Table(index as u32), |body| {
            body.comment(definition.loc);
            body.text.line("u32 result = 0;");
            body.text.line("u8 *d = 0;");
            if layout.structure == Structure::Code {
                code(body, definition, &table);
            } else {
                lookup(body, definition, &layout);
            }
            miss(body, definition, &table, &layout);
            run(body, definition, &table);
        });
    }
}

/// Finds the entry: `d` points to its action data.
fn lookup(body: &mut Body<'_, Ebpf>, definition: &ir::Table, layout: &TableLayout) {
    let Some(map) = &layout.map else { return };
    let skip = match layout.structure {
        Structure::LpmTrie | Structure::TupleSpace => 4,
        _ => 0,
    };
    body.text.line(format!("u8 *k = t->key + {skip};"));
    for (key, at) in definition.keys.iter().zip(&layout.key_offsets) {
        body.comment(key.loc);
        let value = body.expr(&key.expr);
        header::write_key(&value, key.expr.ty.width(), *at, body.text);
    }
    match layout.structure {
        Structure::TupleSpace => tuples(body, layout, map),
        _ => {
            if layout.structure == Structure::LpmTrie {
                body.text.line(format!("*(u32 *)t->key = {};", layout.key_size * 8));
            }
            body.text.line(format!("u8 *v = bpf_map_lookup_elem(&{map}, t->key);"));
        }
    }
    body.text.open("if (v)");
    if let Some(at) = layout.counter_offset {
        let length = body.program.standard.packet_length;
        let bytes = body.var(length);
        body.text.line(format!("__sync_fetch_and_add((u64 *)(v + {at}), 1);"));
        body.text.line(format!("__sync_fetch_and_add((u64 *)(v + {}), {bytes});", at + 8));
    }
    body.text.line(format!("d = v + {};", layout.data_offset));
    body.text.line(format!("result = {HIT};"));
    body.text.close("");
}

/// Tuple-space search (Srinivasan, Suri, Varghese 1999): the tuples stand best priority first, so the search ends as soon
/// as no tuple can hold a better entry than the one found.
fn tuples(body: &mut Body<'_, Ebpf>, layout: &TableLayout, map: &str) {
    let Some((array, count)) = &layout.tuples else { return };
    let t = &mut *body.text;
    t.line("u8 *v = 0;");
    t.line("s32 best = 0;");
    t.open(format!("for (u32 i = 0; i < {count}; i++)"));
    t.line("u32 index = i;");
    t.line(format!("u8 *tuple = bpf_map_lookup_elem(&{array}, &index);"));
    t.line("if (!tuple || !*(u32 *)(tuple + 4) || (v && *(s32 *)tuple <= best))");
    t.line("    break;");
    t.line("*(u32 *)t->masked = i;");
    let mut at = 0;
    while at < layout.key_size {
        let size = [4, 2, 1].into_iter().find(|s| at + s <= layout.key_size).unwrap_or(1);
        let bits = size * 8;
        t.line(format!(
            "*(u{bits} *)(t->masked + {}) = *(u{bits} *)(k + {at}) & *(u{bits} *)(tuple + {});",
            at + 4,
            at + 8
        ));
        at += size;
    }
    t.line(format!("u8 *found = bpf_map_lookup_elem(&{map}, t->masked);"));
    t.open("if (found && (!v || *(s32 *)found > best))");
    t.line("v = found;");
    t.line("best = *(s32 *)found;");
    t.close("");
    t.close("");
}

/// Const entries as code: the first that matches wins.
fn code(body: &mut Body<'_, Ebpf>, definition: &ir::Table, table: &Table) {
    let keys: Vec<String> = definition.keys.iter().map(|k| body.expr(&k.expr)).collect();
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
        let tests: Vec<String> = entry.matches.iter().zip(&keys).filter_map(|(m, k)| test(m, k)).collect();
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

fn test(m: &MatchValue, k: &str) -> Option<String> {
    let set = match m {
        MatchValue::Exact(v) | MatchValue::Optional(Some(v)) => ir::KeySet::Value(v.clone()),
        MatchValue::Optional(None) => return None,
        MatchValue::Lpm(v, len) => ir::KeySet::Mask(v.clone(), abi::Bits::prefix_mask(v.width(), *len)),
        MatchValue::Ternary(v, m) => ir::KeySet::Mask(v.clone(), m.clone()),
        MatchValue::Range(lo, hi) => ir::KeySet::Range { lo: lo.clone(), hi: hi.clone(), signed: false },
    };
    parser::test(k, &set)
}

/// Sets an action's parameters to constants.
fn arguments(body: &mut Body<'_, Ebpf>, definition: &ir::Table, action: u32, args: &[abi::Bits]) {
    let id = definition.actions[action as usize].action;
    let params = body.program.actions[id.index()].params.clone();
    for (param, arg) in params.iter().zip(args) {
        body.assign(&ir::Place::Var(param.var), &constant(arg));
    }
}

/// What happens without an entry: the default action's data, or its constants.
fn miss(body: &mut Body<'_, Ebpf>, definition: &ir::Table, table: &Table, layout: &TableLayout) {
    let (action, args) = &definition.default;
    match &layout.default_map {
        Some(map) => {
            body.text.open(format!("if (!(result & {HIT}))"));
            body.text.line("u32 zero = 0;");
            body.text.line(format!("d = bpf_map_lookup_elem(&{map}, &zero);"));
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
    body.text.line("u32 action = *(u32 *)d;");
    body.text.line("result |= action & 0xffff;");
    for (number, action) in table.actions.iter().enumerate() {
        if action.params.is_empty() {
            continue;
        }
        let id = definition.actions[number].action;
        let vars: Vec<_> = body.program.actions[id.index()].params.iter().map(|p| p.var).collect();
        body.text.open(format!("if (action == {number})"));
        for (param, var) in action.params.iter().zip(vars) {
            let ty = c_type(ir::Ty::Bit(param.width)).unwrap_or("u64");
            let at = param.offset;
            let value = match ty {
                // The kernel aligns values to 8 bytes, not to 16.
                "u128" => format!("U128(*(u64 *)(d + {}), *(u64 *)(d + {at}))", at + 8),
                _ => format!("*({ty} *)(d + {at})"),
            };
            body.assign(&ir::Place::Var(var), &value);
        }
        body.text.close("");
    }
    body.text.close("");
}

/// Runs the action that `result` names.
fn run(body: &mut Body<'_, Ebpf>, definition: &ir::Table, table: &Table) {
    let mut first = true;
    for (number, listed) in definition.actions.iter().enumerate() {
        let action = body.program.actions[listed.action.index()].clone();
        if action.body.is_empty() {
            continue;
        }
        let head = format!("if ((result & 0xffff) == {number}) {{ /* {} */", table.actions[number].name);
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
