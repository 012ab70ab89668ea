//! Tables: the key in whole words, the look-up by the table's structure, the actions.

use abi::MatchKind;
use abi::manifest::{Structure, TableLayout};
use abi::native::data_offset;
use ir::TableId;

use crate::c::table::{HIT, code, miss, run};
use crate::c::{Body, Emitter, Unit, constant, header, signed_range};

impl Emitter<'_> {
    /// The function that applies a table: returns [`HIT`] and the number of the action that ran.
    pub(super) fn native_table(&mut self, index: usize, early: bool) {
        let table = self.manifest.tables[index].clone();
        let id = TableId(index as u32);
        let definition = &self.program.tables[index];
        let name = self.names.table(id).to_string();
        let Some(layout) = table.layout.clone() else { return };
        let ranges = definition.keys.iter().any(|k| k.kind == MatchKind::Range);
        if ranges && layout.structure != Structure::Code {
            self.range_test(definition, &layout, &name);
        }
        self.function(true, &format!("apply_{name}"), Unit::Table(index as u32), |body| {
            body.comment(definition.loc);
            body.text.line("u32 result = 0;");
            body.text.line("const u8 *d = 0;");
            body.text
                .line(format!("UNUSED const struct table *table = &pkt->frame.shared->tables[{index}];"));
            match layout.structure {
                Structure::Code => code(body, definition, &table),
                Structure::Keyless => {}
                _ => lookup(body, definition, &layout, index, ranges.then_some(name.as_str()), early),
            }
            miss(body, definition, &table, &layout);
            run(body, definition, &table);
        });
    }

    /// Whether all range fields of a key lie between a row's ends. Packed fields compare as numbers: most significant byte first.
    fn range_test(&mut self, definition: &ir::Table, layout: &TableLayout, name: &str) {
        let key = layout.key_size.next_multiple_of(8);
        self.text.line("");
        self.text.open(format!("static int between_{name}(const struct row *row, const u8 *key)"));
        for (field, at) in definition.keys.iter().zip(&layout.key_offsets) {
            if field.kind == MatchKind::Range {
                let bytes = field.expr.ty.width().div_ceil(8);
                let (low, high) = (2 * key + at, 3 * key + at);
                self.text
                    .line(format!("if (__builtin_memcmp(key + {at}, row->bytes + {low}, {bytes}) < 0 ||"));
                self.text
                    .line(format!("    __builtin_memcmp(key + {at}, row->bytes + {high}, {bytes}) > 0)"));
                self.text.line("    return 0;");
            }
        }
        self.text.line("return 1;");
        self.text.close("");
    }
}

/// Writes the key into `words`, which has a word more than the key: zeros behind it.
pub(super) fn write_keys(body: &mut Body<'_>, definition: &ir::Table, layout: &TableLayout) {
    let words = layout.key_size.div_ceil(8);
    body.text.line(format!("words[{}] = 0;", words.saturating_sub(1)));
    body.text.line(format!("words[{words}] = 0;"));
    body.text.line("u8 *k = (u8 *)words;");
    for (key, at) in definition.keys.iter().zip(&layout.key_offsets) {
        body.comment(key.loc);
        let value = key_value(body, key);
        header::write_key(&value, key.expr.ty.width(), *at, body.text);
    }
}

/// A key field as it is stored. In a range of signed numbers the sign is exchanged, as [`abi::manifest::KeyField::unsigned`] does with
/// the ends of ranges, so that numbers are in the order of their bytes.
fn key_value(body: &mut Body<'_>, key: &ir::TableKey) -> String {
    let value = body.expr(&key.expr);
    match signed_range(key.kind, key.expr.ty) {
        Some(sign) => format!("({value} ^ {})", constant(&sign)),
        None => value,
    }
}

/// A key of one or two bytes as a number: its packed bytes, the first one uppermost.
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

/// Finds the entry: `d` points to its action data.
fn lookup(
    body: &mut Body<'_>,
    definition: &ir::Table,
    layout: &TableLayout,
    index: usize,
    ranges: Option<&str>,
    early: bool,
) {
    let words = layout.key_size.div_ceil(8);
    let test = ranges.map_or("0".to_string(), |name| format!("between_{name}"));
    let find = match layout.structure {
        Structure::Array => "find_indexed(table, at)".to_string(),
        Structure::Hash => format!("find_exact(table, words, {words})"),
        Structure::LpmTrie => "find_lpm(table, words)".to_string(),
        _ => format!("find_best(table, words, {words}, {test})"),
    };
    let name = body.names.table(TableId(index as u32)).to_string();
    body.text.line("const struct row *row;");
    if early {
        body.text.open(format!("if (t->{name}_early)"));
        body.text.line(format!("row = t->{name}_row;"));
        body.text.close(" else {");
        body.text.indent();
    }
    if layout.structure == Structure::Array {
        index_of(body, definition, layout);
    } else {
        body.text.line(format!("u64 words[{}];", words + 1));
        write_keys(body, definition, layout);
    }
    body.text.line(format!("row = {find};"));
    if early {
        body.text.close("");
    }
    body.text.open("if (row)");
    if layout.counter_offset.is_some() {
        let length = body.program.standard.packet_length;
        let bytes = body.var(length);
        body.text.line(format!(
            "count_packet((struct count *)pkt->frame.worker->direct[{index}].cells + row->counter, {bytes});"
        ));
    }
    if let Some(meter) = definition.direct_meter {
        let units = body.units_of(meter);
        body.text.line(format!(
            "s->colour_{0} = meter_colour(pkt->frame.shared, pkt->frame.worker, {0}, row->counter, {units});",
            meter.0
        ));
    }
    if definition.notifies_idle {
        let hit = format!("((u64 *)pkt->frame.worker->hits[{index}].cells)[row->counter]");
        body.text.line(format!("{hit} = pkt->frame.worker->clock;"));
    }
    // A trie's rows have no key.
    let data = match layout.structure {
        Structure::LpmTrie => 0,
        _ => data_offset(layout.key_size, layout.structure, ranges.is_some()),
    };
    body.text.line(format!("d = row->bytes + {data};"));
    body.text.line(format!("result = {HIT};"));
    if let Some(profile) = definition.profile {
        choose(body, definition, profile);
    }
    body.text.close("");
}

/// An entry that leads to a member, or to a group: the data of the one that this packet gets. Of an empty group nothing runs.
fn choose(body: &mut Body<'_>, definition: &ir::Table, profile: ir::ProfileId) {
    body.text.line("const struct choices *const *slot = *(const struct choices *const **)d;");
    body.text.line("const struct choices *choices = ACQUIRE(*slot);");
    body.text.line("u64 turn = 0;");
    if let Some((algorithm, bits)) = body.program.profiles[profile.index()].selector {
        body.text.open("if (choices->count > 1)");
        let hash = body.hash_value(algorithm, &definition.selector);
        let hash = if bits < 64 { format!("{hash} & {:#x}", (1u64 << bits) - 1) } else { hash };
        body.text.line(format!("turn = ({hash}) % choices->count;"));
        body.text.close("");
    }
    body.text.line("d = choices->count ? choices->data[turn] : 0;");
    body.text.line("if (!d)");
    body.text.line("    result |= 0xffff;");
}
