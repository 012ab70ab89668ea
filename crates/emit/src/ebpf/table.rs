//! Tables as maps: their declarations, the key, the look-up by the table's structure.

use abi::manifest::{Structure, Table, TableLayout};
use ir::TableId;

use crate::c::table::{HIT, code, miss, run};
use crate::c::{Body, Emitter, Unit, header};

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
        let alone = self.facts.applications[index] != 1;
        self.function(alone, &name, Unit::Table(index as u32), |body| {
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
fn lookup(body: &mut Body<'_>, definition: &ir::Table, layout: &TableLayout) {
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
fn tuples(body: &mut Body<'_>, layout: &TableLayout, map: &str) {
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
