//! Tables of native programs: the function that builds the key, looks it up in the table's structure, and runs the action.

use abi::MatchKind;
use abi::manifest::{Structure, TableLayout};
use abi::native::data_offset;
use ir::TableId;

use super::Native;
use crate::c::layout::FlowRow;
use crate::c::table::{HIT, choose_member, code, miss, run, store_action};
use crate::c::{Body, Unit, c_type, flipped, header, signed_range};

impl Native<'_> {
    /// Emits the function that applies a table. It returns the number of the action that ran, plus [`HIT`] on a hit.
    pub(super) fn native_table(&mut self, index: usize, early: Option<EarlyKey>) {
        let table = self.c.manifest.tables[index].clone();
        let id = TableId(index as u32);
        let definition = &self.c.program.tables[index];
        let name = self.c.names.table(id).to_string();
        let Some(layout) = table.layout.clone() else { return };
        let ranges = definition.keys.iter().any(|k| k.kind == MatchKind::Range);
        if ranges && layout.structure != Structure::Code {
            self.range_test(definition, &layout, &name);
        }
        self.c.function(&format!("apply_{name}"), Unit::Table(index as u32), |body| {
            body.comment(definition.loc);
            body.text.line("u32 result = 0;");
            body.text.line("const u8 *d = 0;");
            body.text
                .line(format!("UNUSED const struct table *table = &pkt->frame.shared->tables[{index}];"));
            match layout.structure {
                Structure::Code => code(body, definition, &table),
                Structure::Keyless => {}
                Structure::Array
                | Structure::Hash
                | Structure::Flow
                | Structure::LpmTrie
                | Structure::TupleSpace => {
                    lookup(body, definition, &layout, index, ranges.then_some(name.as_str()), early)
                }
            }
            miss(body, definition, &table, &layout);
            run(body, definition);
        });
    }

    /// Emits `between_T(row, key)`: whether each range field of a key lies between the row's lowest and highest values. Packed fields are
    /// in network order, so they compare as bytes.
    fn range_test(&mut self, definition: &ir::Table, layout: &TableLayout, name: &str) {
        let key = layout.key_size.next_multiple_of(8);
        self.c.text.line("");
        self.c.text.open(format!("static int between_{name}(const struct row *row, const u8 *key)"));
        for (field, at) in definition.keys.iter().zip(&layout.key_offsets) {
            if field.kind == MatchKind::Range {
                let bytes = field.expr.ty.width().div_ceil(8);
                let (low, high) = (2 * key + at, 3 * key + at);
                self.c
                    .text
                    .line(format!("if (__builtin_memcmp(key + {at}, row->bytes + {low}, {bytes}) < 0 ||"));
                self.c
                    .text
                    .line(format!("    __builtin_memcmp(key + {at}, row->bytes + {high}, {bytes}) > 0)"));
                self.c.text.line("    return 0;");
            }
        }
        self.c.text.line("return 1;");
        self.c.text.close("");
    }
}

/// Emits the packed key into `words`. It has one zero word more than the key, because the trie reads eight bytes at any offset of the key.
pub(super) fn write_keys(body: &mut Body<'_>, definition: &ir::Table, layout: &TableLayout) {
    let words = layout.key_size.div_ceil(8);
    body.text.line(format!("words[{words}] = 0;"));
    if definition.keys.iter().any(|key| key.expr.ty.width() > 128) {
        body.text.line(format!("words[{}] = 0;", words.saturating_sub(1)));
        body.text.line("u8 *k = (u8 *)words;");
        for (key, at) in definition.keys.iter().zip(&layout.key_offsets) {
            body.comment(key.loc);
            let value = key_value(body, key);
            header::write_key(&value, key.expr.ty.width(), *at, body.text);
        }
        return;
    }
    body.text.open("");
    let mut parts = vec![Vec::new(); words as usize];
    for (number, (key, at)) in definition.keys.iter().zip(&layout.key_offsets).enumerate() {
        body.comment(key.loc);
        let (value, width) = (key_value(body, key), key.expr.ty.width());
        let ty = c_type(ir::Ty::Bit(width.max(8))).unwrap_or("u128");
        body.text.line(format!("{ty} part_{number} = {value};"));
        if width > 0 {
            let all = parts_of_key(&format!("part_{number}"), *at, width.div_ceil(8));
            all.into_iter().for_each(|(word, part)| parts[word as usize].push(part));
        }
    }
    for (word, parts) in parts.iter().enumerate() {
        let value = if parts.is_empty() { "0".to_string() } else { parts.join(" | ") };
        body.text.line(format!("wr64(words + {word}, {value});"));
    }
    body.text.close("");
}

/// The words that hold a field of `bytes` bytes (1 or more) at an offset of a key in network order, and what they hold of it. Words are put together in
/// registers: a load of a word waits until the stores of its bytes have reached the cache.
fn parts_of_key(value: &str, at: u32, bytes: u32) -> Vec<(u32, String)> {
    let end = at + bytes;
    let part = |word: u32| {
        let (from, to) = (at.max(8 * word), end.min(8 * word + 8));
        let shifted = if to == end { value.to_string() } else { format!("({value} >> {})", 8 * (end - to)) };
        let cut = match to - from {
            bytes if bytes < 8 && from > at => {
                format!("((u64){shifted} & {:#x}ULL)", (1u64 << (8 * bytes)) - 1)
            }
            _ => format!("(u64){shifted}"),
        };
        match 8 * (8 * word + 8 - to) {
            0 => (word, cut),
            shift => (word, format!("{cut} << {shift}")),
        }
    };
    (at / 8..end.div_ceil(8)).map(part).collect()
}

/// The value of a key field as it is packed. The sign bit of a signed range field is inverted, as
/// [`abi::manifest::KeyField::unsigned`] does for the ends of ranges, so that byte order equals numeric order.
fn key_value(body: &mut Body<'_>, key: &ir::TableKey) -> String {
    let value = body.expr(&key.expr);
    match signed_range(key.kind, key.expr.ty) {
        Some(sign) => format!("({})", flipped(&value, &sign)),
        None => value,
    }
}

/// Emits `at`: a packed key of one or two bytes as a number in network order.
fn index_of(body: &mut Body<'_>, definition: &ir::Table, layout: &TableLayout) {
    body.text.line("u32 at = 0;");
    for (key, offset) in definition.keys.iter().zip(&layout.key_offsets) {
        let bytes = key.expr.ty.width().div_ceil(8);
        if bytes > 0 {
            body.comment(key.loc);
            let value = body.expr(&key.expr);
            body.text.line(format!("at |= (u32)({value}) << {};", 8 * (layout.key_size - offset - bytes)));
        }
    }
}

/// What an early lookup was made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EarlyKey {
    /// The key.
    Key,
    /// What may be the key.
    Guess,
}

/// Emits the lookup, and what follows it.
fn lookup(
    body: &mut Body<'_>,
    definition: &ir::Table,
    layout: &TableLayout,
    index: usize,
    ranges: Option<&str>,
    early: Option<EarlyKey>,
) {
    let words = layout.key_size.div_ceil(8);
    let test = ranges.map_or("0".to_string(), |name| format!("between_{name}"));
    let find = match layout.structure {
        Structure::Array => "find_indexed(table, at)".to_string(),
        Structure::Hash => format!("find_exact(table, words, {words})"),
        Structure::Flow => format!("find_flow(table, words, {words}, {})", FlowRow::of(definition).key),
        Structure::LpmTrie => "find_lpm(table, words)".to_string(),
        Structure::Keyless | Structure::TupleSpace | Structure::Code => {
            format!("find_best(table, words, {words}, {test})")
        }
    };
    let name = body.names.table(TableId(index as u32)).to_string();
    body.text.line("const struct row *row;");
    let learns = layout.structure == Structure::Flow;
    if learns {
        // The key must last until the action has run, because the action may add an entry for it.
        body.text.line(format!("u64 words[{}];", words + 1));
    }
    if early == Some(EarlyKey::Guess) {
        write_keys(body, definition, layout);
        body.text.line("row = 0;");
        body.text
            .line(format!("if (t->{name}_early && !__builtin_memcmp(words, t->{name}_key, {}))", 8 * words));
        body.text.line(format!("    row = t->{name}_row;"));
        // A packet of the same burst may have added the entry since, also this one.
        body.text.line("if (!row)");
        body.text.line(format!("    row = {find};"));
        found(body, definition, layout, index, ranges.is_some());
        return;
    }
    if early.is_some() {
        body.text.open(format!("if (t->{name}_early)"));
        if learns {
            // A packet of the same burst may have added the entry since.
            body.text.line(format!("__builtin_memcpy(words, t->{name}_key, sizeof words);"));
            body.text.line(format!("row = t->{name}_row ? t->{name}_row : {find};"));
        } else {
            body.text.line(format!("row = t->{name}_row;"));
        }
        body.text.close(" else {");
        body.text.indent();
    }
    if layout.structure == Structure::Array {
        index_of(body, definition, layout);
    } else {
        if !learns {
            body.text.line(format!("u64 words[{}];", words + 1));
        }
        write_keys(body, definition, layout);
    }
    body.text.line(format!("row = {find};"));
    if early.is_some() {
        body.text.close("");
    }
    found(body, definition, layout, index, ranges.is_some());
}

/// Emits what follows a lookup. On a hit, it updates the entry's cells, and `d` points to its action data.
fn found(body: &mut Body<'_>, definition: &ir::Table, layout: &TableLayout, index: usize, ranges: bool) {
    let cell = cell_of(layout.structure, "row");
    body.text.open("if (row)");
    if layout.counter_offset.is_some() {
        let length = body.program.standard.packet_length;
        let bytes = body.var(length);
        body.text.line(format!(
            "count_packet((struct count *)pkt->frame.worker->direct[{index}].cells + {cell}, {bytes});"
        ));
    }
    if let Some(meter) = definition.direct_meter {
        let units = body.units_of(meter);
        body.text.line(format!(
            "s->colour_{0} = meter_colour(pkt->frame.shared, pkt->frame.worker, {0}, {cell}, {units});",
            meter.0
        ));
    }
    if definition.notifies_idle {
        let hit = format!("((u64 *)pkt->frame.worker->hits[{index}].cells)[{cell}]");
        body.text.line(format!("{hit} = pkt->frame.worker->clock;"));
    }
    body.text.line(match layout.structure {
        Structure::Flow => format!("d = (const u8 *)row + {};", FlowRow::of(definition).data),
        // A trie's rows have no key.
        Structure::LpmTrie => "d = row->bytes;".to_string(),
        of @ (Structure::Keyless
        | Structure::Array
        | Structure::Hash
        | Structure::TupleSpace
        | Structure::Code) => format!("d = row->bytes + {};", data_offset(layout.key_size, of, ranges)),
    });
    body.text.line(format!("result = {HIT};"));
    if let Some(profile) = definition.profile {
        choose(body, definition, profile);
    }
    body.text.close("");
}

/// The C of the cell of an entry.
pub(super) fn cell_of(structure: Structure, row: &str) -> String {
    match structure {
        Structure::Flow => format!("((const struct flow_row *){row})->rest[0]"),
        Structure::Keyless
        | Structure::Array
        | Structure::Hash
        | Structure::LpmTrie
        | Structure::TupleSpace
        | Structure::Code => format!("{row}->counter"),
    }
}

/// Emits the choice of an action profile's member for an entry: `d` points to the action data of the member that the selector chooses. If
/// the group is empty, no action runs.
fn choose(body: &mut Body<'_>, definition: &ir::Table, profile: ir::ProfileId) {
    body.text.line("const struct members *const *slot = *(const struct members *const **)d;");
    body.text.line("const struct members *members = ACQUIRE(*slot);");
    choose_member(body, definition, profile, "members->count");
    body.text.line("d = members->count ? members->data[member] : 0;");
    body.text.line("if (!d)");
    body.text.line("    result |= 0xffff;");
}

impl Body<'_> {
    /// Emits the addition of an entry in an action of `table`. The function of the table has the key in `words` and its result in `result`.
    pub fn add_entry(
        &mut self,
        done: Option<&ir::Place>,
        table: TableId,
        action: u32,
        args: &[ir::Expr],
        profile: &ir::Expr,
    ) {
        let definition = &self.program.tables[table.index()];
        let key: u32 = definition.keys.iter().map(|k| k.expr.ty.width().div_ceil(8)).sum();
        let (words, at) = (key.div_ceil(8), FlowRow::of(definition));
        let timer = match definition.ages {
            true => {
                let profile = self.expr(profile);
                format!("flow_timer(pkt->frame.worker->clock, {profile})")
            }
            false => "0".to_string(),
        };
        let values: Vec<String> = args.iter().map(|arg| self.expr(arg)).collect();
        self.text.open("");
        self.text.line("u32 added = 0;");
        self.text.line(format!("struct flow_cache *cache = &pkt->frame.worker->flows[{}];", table.0));
        self.text.line(format!(
            "struct flow_row *fresh = result & {HIT} ? 0 : new_flow(table, cache, words, {words}, {});",
            at.key
        ));
        self.text.open("if (fresh)");
        self.text.line(format!("u8 *data = (u8 *)fresh + {};", at.data));
        store_action(self, table, action, &values, "data");
        self.text
            .line(format!("added = add_flow(table, cache, fresh, words, {words}, {}, {timer});", at.key));
        self.text.close("");
        if let Some(done) = done {
            self.assign(done, "added");
        }
        self.text.close("");
    }

    /// Emits the restart of the timer of the entry that was hit, if a packet added it.
    pub fn restart_timer(&mut self, profile: Option<&ir::Expr>) {
        let Unit::Table(index) = self.unit else { return };
        let definition = &self.program.tables[index as usize];
        if !definition.learns() || !definition.ages {
            return;
        }
        let profile = profile.map_or("-1".to_string(), |e| format!("(s32)({})", self.expr(e)));
        self.text.line(format!("if (result & {HIT})"));
        self.text.line(format!("    restart_flow(row, pkt->frame.worker->clock, {profile});"));
    }
}
