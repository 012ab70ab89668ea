//! Tables as maps: declarations of the maps, construction of the key, and lookups.
//!
//! The host writes the maps of a table while packets read them, and the kernel immediately reuses the memory of a hash element that was
//! deleted or replaced. `struct version` in the prelude explains why a packet still sees an entry either whole or not at all. The program
//! copies action data from a hash, and uses the copy only if no write began in the meantime. The host does not overwrite default
//! actions and tuples while a packet may read them. The kernel keeps removed values of an LPM trie for a grace period.

use abi::MatchKind;
use abi::manifest::HIT as HIT_TIME;
use abi::manifest::{LearningMaps, Structure, Table, TableLayout, VERSIONS};
use ir::TableId;

use super::Ebpf;
use crate::c::layout::{elements, learning_layout};
use crate::c::table::{HIT, choose_member, code, miss, reads_version, run, store_action, version};
use crate::c::{Body, Unit, header, signed_range};

/// How often a lookup is repeated because the table is being written. After that, the packet is dropped.
const TRIES: u32 = 16;

/// The most actions in all lists of a table with an action profile. They take memory only when they are added.
const LISTED: u64 = 1 << 20;

/// Whether the entries are in a hash map, whose elements the kernel reuses immediately.
fn is_hashed(structure: Structure) -> bool {
    matches!(structure, Structure::Hash | Structure::TupleSpace)
}

/// Whether a lookup copies the action data, because the host may overwrite it.
fn is_copied(structure: Structure) -> bool {
    is_hashed(structure) || structure == Structure::Array
}

impl Ebpf<'_> {
    /// The size of the longest action data that a lookup copies, in words of 64 bits.
    pub(super) fn copied_data(&self) -> u32 {
        let layouts = self.c.manifest.tables.iter().filter_map(|t| t.layout.as_ref());
        layouts.filter(|l| is_copied(l.structure)).map(|l| l.data_size / 8).max().unwrap_or(0)
    }

    /// Declares the maps of a table: its entries, its tuples, and its default action.
    pub(super) fn table_maps(&mut self, id: TableId, table: &Table) {
        let Some(layout) = &table.layout else { return };
        let name = self.c.names.table(id).to_string();
        let value = self.bytes_type("value", &name, layout.value_size);
        if let Some(map) = &layout.map {
            let size = table.size.max(1);
            if let Some(learning) = &layout.learning {
                let key = self.bytes_type("key", &name, layout.key_size);
                self.learning_maps(learning, map, size, &key, &value);
            }
            match layout.structure {
                Structure::Flow => {}
                Structure::Array => {
                    let cell = self.bytes_type("cell", &name, 8 + 2 * layout.data_size);
                    self.map(map, "BPF_MAP_TYPE_ARRAY", elements(table, layout), "u32", &cell, false);
                }
                Structure::LpmTrie => {
                    let key = self.bytes_type("key", &name, layout.key_size + 4);
                    self.map(map, "BPF_MAP_TYPE_LPM_TRIE", size, &key, &value, true);
                }
                Structure::TupleSpace => {
                    let key = self.bytes_type("key", &name, layout.key_size + 4);
                    self.map(map, "BPF_MAP_TYPE_HASH", size, &key, &value, false);
                }
                Structure::Keyless | Structure::Hash | Structure::Code => {
                    let key = self.bytes_type("key", &name, layout.key_size);
                    self.map(map, "BPF_MAP_TYPE_HASH", size, &key, &value, false);
                }
            }
        }
        if let Some((map, tuples)) = &layout.tuples {
            let element = self.bytes_type("tuple", &name, (8 + layout.key_size).next_multiple_of(8));
            let elements = u64::from(VERSIONS) * u64::from(*tuples + 1);
            self.map(map, "BPF_MAP_TYPE_ARRAY", elements, "u32", &element, false);
        }
        if let Some(map) = &layout.lists {
            let data = self.bytes_type("member", &name, layout.data_size);
            self.map(map, "BPF_MAP_TYPE_HASH", LISTED, "u64", &data, true);
        }
        if let Some(map) = &layout.default_map {
            let data = self.bytes_type("data", &name, layout.data_size);
            self.map(map, "BPF_MAP_TYPE_ARRAY", VERSIONS.into(), "u32", &data, false);
        }
    }

    /// Whether a lookup may find its table busy.
    pub(super) fn can_be_busy(&self) -> bool {
        let mut layouts = self.c.manifest.tables.iter().filter_map(|t| t.layout.as_ref());
        layouts.any(|l| is_copied(l.structure) || l.structure == Structure::Flow)
    }

    /// Declares the entries and the rows of a table that learns, which the host maps into its memory, and the queue of free rows. These maps are pinned by name,
    /// so that a new program can have those of an older one.
    fn learning_maps(&mut self, learning: &LearningMaps, entries: &str, size: u64, key: &str, row: &str) {
        let LearningMaps { rows, count, free, .. } = learning;
        self.c.text.line(format!(
            "struct {{ __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, {size}); __uint(pinning, LIBBPF_PIN_BY_NAME); __type(key, {key}); __type(value, u64); }} {entries} SEC(\".maps\");"
        ));
        self.c.text.line(format!(
            "struct {{ __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, {}); __uint(map_flags, BPF_F_MMAPABLE); __uint(pinning, LIBBPF_PIN_BY_NAME); __type(key, u32); __type(value, {row}); }} {rows} SEC(\".maps\");",
            count + 1
        ));
        self.c.text.line(format!(
            "struct {{ __uint(type, BPF_MAP_TYPE_QUEUE); __uint(max_entries, {count}); __uint(pinning, LIBBPF_PIN_BY_NAME); __uint(key_size, 0); __uint(value_size, 4); }} {free} SEC(\".maps\");"
        ));
    }

    /// Declares `struct what_table { u8 bytes[n]; }`, and returns its name.
    fn bytes_type(&mut self, what: &str, table: &str, bytes: u32) -> String {
        let name = format!("struct {what}_{table}");
        self.c.text.line(format!("{name} {{ u8 bytes[{bytes}]; }};"));
        name
    }

    /// Emits the function that applies a table. It returns the number of the action that ran, plus [`HIT`] on a hit.
    pub(super) fn table(&mut self, index: usize) {
        let table = self.c.manifest.tables[index].clone();
        let id = TableId(index as u32);
        let definition = &self.c.program.tables[index];
        let name = format!("apply_{}", self.c.names.table(id));
        let Some(layout) = table.layout.clone() else { return };
        self.c.function(&name, Unit::Table(index as u32), |body| {
            body.comment(definition.loc);
            body.text.line("u32 result = 0;");
            body.text.line("u8 *d = 0;");
            if reads_version(layout.structure) {
                version(body, index);
            }
            if layout.structure == Structure::Code {
                code(body, definition, &table);
            } else {
                lookup(body, definition, &layout);
            }
            miss(body, definition, &table, &layout);
            run(body, definition);
        });
    }
}

/// Emits the lookup. On a hit, `d` points to the entry's action data.
fn lookup(body: &mut Body<'_>, definition: &ir::Table, layout: &TableLayout) {
    let Some(map) = &layout.map else { return };
    let skip = match layout.structure {
        Structure::LpmTrie | Structure::TupleSpace => 4,
        Structure::Keyless | Structure::Array | Structure::Hash | Structure::Flow | Structure::Code => 0,
    };
    body.text.line(format!("u8 *k = t->key + {skip};"));
    if definition.keys.iter().all(|k| k.expr.ty.width() == 0) {
        body.text.line("k[0] = 0;");
    }
    for (key, at) in definition.keys.iter().zip(&layout.key_offsets) {
        body.comment(key.loc);
        let value = body.expr(&key.expr);
        header::write_key(&value, key.expr.ty.width(), *at, body.text);
    }
    match layout.structure {
        Structure::TupleSpace => {
            let bounds = bounds(body, definition, layout);
            tuples(body, layout, map, &bounds);
        }
        Structure::LpmTrie => {
            body.text.line(format!("*(u32 *)t->key = {};", layout.key_size * 8));
            body.text.line(format!("u8 *v = bpf_map_lookup_elem(&{map}, t->key);"));
        }
        Structure::Flow => flow(body, layout, map),
        Structure::Array => array(body, layout, map),
        Structure::Keyless | Structure::Hash | Structure::Code => hash(body, layout, map),
    }
    body.text.open("if (v)");
    if let Some(at) = layout.counter_offset {
        let length = body.program.standard.packet_length;
        let bytes = body.var(length);
        body.text.line(format!("__sync_fetch_and_add((u64 *)(v + {at}), 1);"));
        body.text.line(format!("__sync_fetch_and_add((u64 *)(v + {}), {bytes});", at + 8));
    }
    if let (Some(at), Some(meter)) = (layout.meter_offset, definition.direct_meter) {
        let units = body.units_of(meter);
        body.text.line(format!("u32 cell = *(u32 *)(v + {at});"));
        let cell = format!("bpf_map_lookup_elem(&strait_meter_{}, &cell)", meter.0);
        body.text.line(format!("s->colour_{} = execute_meter({cell}, {units});", meter.0));
    }
    if let Some(at) = layout.hit_offset {
        body.text.line("u64 now = micros();");
        body.text.line(format!("if (now - READ_ONCE(*(u64 *)(v + {at})) >= RARELY({HIT_TIME}))"));
        body.text.line(format!("    *(volatile u64 *)(v + {at}) = now;"));
    }
    match is_copied(layout.structure) {
        true => body.text.line("d = (u8 *)t->data;"),
        false => body.text.line(format!("d = v + {};", layout.data_offset)),
    }
    body.text.line(format!("result = {HIT};"));
    if let (Some(lists), Some(profile)) = (&layout.lists, definition.profile) {
        choose(body, definition, profile, lists);
    }
    body.text.close("");
}

/// Emits the choice of an action profile's member for an entry: `d` points to the action data of the member that the selector chooses. If
/// the group is empty, no action runs. The host never changes a list, and keeps a list that entries no longer name for a grace period.
fn choose(body: &mut Body<'_>, definition: &ir::Table, profile: ir::ProfileId, lists: &str) {
    body.text.line("u32 list = *(u32 *)d, count = *(u32 *)(d + 4);");
    choose_member(body, definition, profile, "count");
    body.text.line("member = member << 32 | list;");
    body.text.line(format!("d = bpf_map_lookup_elem(&{lists}, &member);"));
    body.text.line("if (!d)");
    body.text.line("    result |= 0xffff;");
}

/// Emits a lookup in a hash map. It sets `v` to the entry or 0, and `t->data` to the entry's action data.
fn hash(body: &mut Body<'_>, layout: &TableLayout, map: &str) {
    let t = &mut *body.text;
    t.line("u8 *v = 0;");
    t.line("u64 missed = 0;");
    t.line("u32 i;");
    t.open(format!("for (i = 0; i < {TRIES}; i++)"));
    t.line("u64 writes = READ_ONCE(version->writes), read = 0;");
    t.line(format!("u8 *found = bpf_map_lookup_elem(&{map}, with_dependency(t->key, writes));"));
    t.line("if (found)");
    t.line(format!("    read = copy_words(t->data, found + {}, {});", layout.data_offset, layout.data_size));
    t.line("if (READ_ONCE(((struct version *)with_dependency(version, read))->writes) != writes)");
    t.line("    continue;");
    t.line("/* While an element is being replaced, one walk of its bucket may miss both the old and the new one. A second walk does not. */");
    t.open("if (!found && writes & 1 && missed != writes)");
    t.line("missed = writes;");
    t.line("continue;");
    t.close("");
    t.line("v = found;");
    t.line("break;");
    t.close("");
    t.line(format!("if (i == {TRIES})"));
    t.line("    t->busy = 1;");
}

/// Emits a lookup in an array. It sets `v` if there is an entry, and `t->data` to the entry's action data. The host writes the copy of the data
/// that does not count before it changes the word. It may overwrite the other copy in its next write, which changes the word again.
fn array(body: &mut Body<'_>, layout: &TableLayout, map: &str) {
    let size = layout.data_size;
    let t = &mut *body.text;
    t.line("u8 *v = 0;");
    t.line(format!("u32 i, index = {};", if layout.key_size == 1 { "k[0]" } else { "rd16(k)" }));
    t.open(format!("for (i = 0; i < {TRIES}; i++)"));
    t.line(format!("u8 *found = bpf_map_lookup_elem(&{map}, &index);"));
    t.line("u64 word = found ? READ_ONCE(*(u64 *)found) : 0;");
    t.line("if (!found || !(word & 2))");
    t.line("    break;");
    t.line(format!("u8 *from = with_dependency(found, word) + (word & 1 ? 8 + {size} : 8);"));
    t.line(format!("u64 read = copy_words(t->data, from, {size});"));
    t.line("if (READ_ONCE(*(u64 *)with_dependency(found, read)) != word)");
    t.line("    continue;");
    t.line("v = found;");
    t.line("break;");
    t.close("");
    t.line(format!("if (i == {TRIES})"));
    t.line("    t->busy = 1;");
}

/// Emits a lookup in a table that learns. It sets `v` to the entry's row or 0. An element has the number of a row, which is one word. The kernel
/// reuses an element immediately, but the host keeps a row for a grace period. A row whose key is not that of the lookup shows that the element
/// was reused meanwhile.
fn flow(body: &mut Body<'_>, layout: &TableLayout, map: &str) {
    let Some(learning) = &layout.learning else { return };
    let t = &mut *body.text;
    t.line("u8 *v = 0;");
    t.line("u64 missed = 0;");
    t.line("u32 i;");
    t.open(format!("for (i = 0; i < {TRIES}; i++)"));
    t.line("u64 writes = READ_ONCE(version->writes);");
    t.line(format!("u32 *found = bpf_map_lookup_elem(&{map}, with_dependency(t->key, writes));"));
    t.open("if (found)");
    t.line("u32 at = READ_ONCE(*found);");
    t.line(format!("u8 *row = bpf_map_lookup_elem(&{}, &at);", learning.rows));
    t.line("if (!row)");
    t.line("    break;");
    let pieces = pieces(layout.key_size);
    let differ = pieces.iter().map(|(at, bits)| {
        format!("*(u{bits} *)(row + {}) ^ *(u{bits} *)(t->key + {at})", learning.key_offset + at)
    });
    let differ = differ.map(|d| format!("({d})")).collect::<Vec<_>>().join(" | ");
    t.line(format!("if ({differ})"));
    t.line("    continue;");
    t.line("v = row;");
    t.line("break;");
    t.close("");
    t.line("if (READ_ONCE(version->writes) != writes)");
    t.line("    continue;");
    t.line("/* While an element is being replaced, one walk of its bucket may miss both the old and the new one. A second walk does not. */");
    t.open("if (writes & 1 && missed != writes)");
    t.line("missed = writes;");
    t.line("continue;");
    t.close("");
    t.line("break;");
    t.close("");
    t.line(format!("if (i == {TRIES})"));
    t.line("    t->busy = 1;");
}

/// The offsets and sizes in bits of the words that a key of `size` bytes consists of.
fn pieces(size: u32) -> Vec<(u32, u32)> {
    let (mut at, mut all) = (0, Vec::new());
    while at < size {
        let bytes = [8, 4, 2, 1].into_iter().find(|s| at + s <= size).unwrap_or(1);
        all.push((at, bytes * 8));
        at += bytes;
    }
    all
}

impl Body<'_> {
    /// Emits the addition of an entry in an action of `table`. The function of the table has the key in `t->key` and its result in `result`.
    pub fn bpf_add_entry(
        &mut self,
        done: Option<&ir::Place>,
        table: TableId,
        action: u32,
        args: &[ir::Expr],
        profile: &ir::Expr,
    ) {
        let definition = &self.program.tables[table.index()];
        let Some((layout, map)) = learning_layout(self.program, table, self.names) else { return };
        let Some(learning) = &layout.learning else { return };
        let (rows, free) = (&learning.rows, &learning.free);
        let profile = self.expr(profile);
        let values: Vec<String> = args.iter().map(|arg| self.expr(arg)).collect();
        self.text.open("");
        self.text.line("u32 added = 0, fresh = 0;");
        self.text.open(format!("if (!(result & {HIT}) && !bpf_map_pop_elem(&{free}, &fresh))"));
        self.text.line(format!("u8 *row = bpf_map_lookup_elem(&{rows}, &fresh);"));
        self.text.open("if (row)");
        if let Some(at) = layout.counter_offset {
            self.text.line(format!("*(u64 *)(row + {at}) = 0;"));
            self.text.line(format!("*(u64 *)(row + {}) = 0;", at + 8));
        }
        for (at, bits) in pieces(layout.key_size) {
            self.text.line(format!(
                "*(u{bits} *)(row + {}) = *(u{bits} *)(t->key + {at});",
                learning.key_offset + at
            ));
        }
        let data = layout.data_offset;
        store_action(self, table, action, &values, &format!("row + {data}"));
        self.text.line("u64 number = fresh;");
        self.text.open(format!("if (!bpf_map_update_elem(&{map}, t->key, &number, BPF_NOEXIST))"));
        // Only now the row is an entry: before, the host must not delete its key.
        let timer = match definition.ages {
            true => format!("flow_timer({profile})"),
            false => "FLOW_ENTRY".to_string(),
        };
        self.text.line(format!("*(volatile u64 *)row = {timer};"));
        self.text.line("added = 1;");
        self.text.close(" else {");
        self.text.indent();
        self.text.line(format!("bpf_map_push_elem(&{free}, &fresh, 0);"));
        self.text.close("");
        self.text.close("");
        self.text.close("");
        if let Some(done) = done {
            self.assign(done, "added");
        }
        self.text.close("");
    }

    /// Emits the restart of the timer of the entry that was hit, if a packet added it.
    pub fn bpf_restart_timer(&mut self, profile: Option<&ir::Expr>) {
        let Unit::Table(index) = self.unit else { return };
        let definition = &self.program.tables[index as usize];
        if !definition.learns() || !definition.ages {
            return;
        }
        let profile = profile.map_or("old".to_string(), |e| self.expr(e));
        self.text.open("if (v)");
        self.text.line("u64 old = READ_ONCE(*(u64 *)v);");
        self.text.line("if (old & FLOW_TIMED)");
        self.text.line(format!("    *(volatile u64 *)v = flow_timer({profile});"));
        self.text.close("");
    }
}

/// Emits the values of range keys as unsigned numbers. Returns the C of the conditions that those of the candidate's ranges contain them.
fn bounds(body: &mut Body<'_>, definition: &ir::Table, layout: &TableLayout) -> String {
    let Some(offset) = layout.bounds_offset else { return String::new() };
    let mut conditions = String::new();
    let ranges = definition.keys.iter().filter(|k| k.kind == MatchKind::Range);
    for (i, key) in ranges.enumerate() {
        let value = body.expr(&key.expr);
        let sign = signed_range(key.kind, key.expr.ty).and_then(|sign| sign.to_u64()).unwrap_or(0);
        body.text.line(format!("u64 bounded_{i} = (u64)({value}) ^ {sign:#x}ULL;"));
        let word = offset as usize / 8 + 2 * i;
        conditions.push_str(&format!(
            " && t->candidate[{word}] <= bounded_{i} && bounded_{i} <= t->candidate[{}]",
            word + 1
        ));
    }
    conditions
}

/// Emits a tuple-space search (Srinivasan, Suri, Varghese 1999). The tuples are sorted by their best priority in descending order, so the
/// search ends when no further tuple can hold a better entry. The element after the last tuple is all zeros.
fn tuples(body: &mut Body<'_>, layout: &TableLayout, map: &str, bounds: &str) {
    let Some((array, count)) = &layout.tuples else { return };
    let steps = count + 1 + TRIES;
    let t = &mut *body.text;
    t.line("u8 *v = 0;");
    t.line("s32 best = 0;");
    t.line("u64 missed = 0;");
    t.line("u32 i, at = version->tuples;");
    t.open(format!("for (i = 0; i < {steps}; i++)"));
    t.line("u32 index = at;");
    t.line(format!("u8 *tuple = bpf_map_lookup_elem(&{array}, &index);"));
    t.line("if (!tuple || !*(u32 *)(tuple + 4) || (v && *(s32 *)tuple <= best))");
    t.line("    break;");
    t.line("u64 writes = READ_ONCE(version->writes), read = 0;");
    t.line("*(u32 *)t->masked = *(u32 *)(tuple + 4);");
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
    t.line(format!("u8 *found = bpf_map_lookup_elem(&{map}, with_dependency(t->masked, writes));"));
    t.line("s32 priority = 0;");
    t.open("if (found)");
    t.line("priority = *(s32 *)found;");
    t.line(format!("read = copy_words(t->candidate, found + {}, {});", layout.data_offset, layout.data_size));
    t.line("read |= (u32)priority;");
    t.close("");
    t.line("if (READ_ONCE(((struct version *)with_dependency(version, read))->writes) != writes)");
    t.line("    continue;");
    t.open("if (!found && writes & 1 && missed != writes)");
    t.line("missed = writes;");
    t.line("continue;");
    t.close("");
    t.line("at++;");
    t.line("missed = 0;");
    t.open(format!("if (found && (!v || priority > best){bounds})"));
    t.line("v = found;");
    t.line("best = priority;");
    t.line(format!("copy_words(t->data, (u8 *)t->candidate, {});", layout.data_size));
    t.close("");
    t.close("");
    t.line(format!("if (i == {steps})"));
    t.line("    t->busy = 1;");
}
