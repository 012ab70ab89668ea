//! The manifest's layouts of tables, counters and registers in the target's memory.

use std::collections::HashSet;

use abi::id::ActionId;
use abi::manifest::{
    Action, Counter, KeyField, LearningMaps, Param, Register, RegisterPlace, Structure, Table, TableLayout,
    learning_rows,
};
use abi::native::{data_offset, flow};
use abi::{ActionCall, Bits, Entry, MatchKind, MatchValue};
use ir::Program;

use super::{Machine, Names};
use crate::unsupported::Unsupported;

/// The size in bytes of the timer at the beginning of a row.
const TIMER: u32 = 8;
/// The most const entries that become code.
const CODE_ENTRIES: usize = 64;
/// The largest number of different masks in a ternary table on tc.
const TUPLES: u32 = 64;

/// All tables with their layouts, and the limits of the target that they exceed.
pub fn tables(program: &Program, names: &Names, machine: Machine) -> (Vec<Table>, Vec<Unsupported>) {
    let mut problems = Vec::new();
    let ids = (0..program.tables.len() as u32).map(ir::TableId);
    let tables = ids.map(|id| table(program, id, names, machine, &mut problems)).collect();
    (tables, problems)
}

fn table(
    program: &Program,
    id: ir::TableId,
    names: &Names,
    machine: Machine,
    problems: &mut Vec<Unsupported>,
) -> Table {
    let t = &program.tables[id.index()];
    let mut actions: Vec<Action> = Vec::new();
    for listed in &t.actions {
        actions.push(action(program, id, listed, problems));
    }
    let structure = structure(t, machine);
    for key in &t.keys {
        let is_range = key.kind == MatchKind::Range && structure != Structure::Code;
        if machine == Machine::Bpf && is_range && key.expr.ty.width() > 64 {
            let what = "a range key of more than 64 bits in a table that can be written";
            problems.push(Unsupported::new(
                key.loc,
                what,
                "split it, or use const entries, which become code",
            ));
        }
        if machine == Machine::Bpf && key.expr.ty.width() > 128 {
            problems.push(Unsupported::new(key.loc, "a key of more than 128 bits", "split it into two keys"));
        }
    }
    if machine == Machine::Bpf && t.notifies_idle && structure == Structure::Flow {
        let hint = "entries that packets added can expire; or run it on the native target";
        let what = "telling the control plane of idle entries of a table to which packets add entries";
        problems.push(Unsupported::new(t.loc, what, hint));
    }
    if structure == Structure::Code && has_cells(t) {
        let hint = "give each entry another match, and use at most 64 different masks";
        problems.push(Unsupported::new(
            t.loc,
            "a direct counter or meter of const entries that no table in the kernel can hold",
            hint,
        ));
    }
    let layout = layout(program, id, names.table(id), structure, machine);
    Table {
        name: String::from(&t.name),
        keys: t
            .keys
            .iter()
            .map(|k| KeyField {
                name: String::from(&k.name),
                width: k.expr.ty.width(),
                kind: k.kind,
                signed: k.expr.ty.is_signed(),
            })
            .collect(),
        actions,
        size: t.size,
        default_action: Some(ActionCall { action: ActionId(t.default.0), args: t.default.1.clone() }),
        const_default: t.const_default,
        const_entries: t.const_entries,
        initial_entries: t.entries.iter().map(|e| entry(t, e)).collect(),
        direct_counter: t.direct_counter.map(|c| String::from(&program.direct_counters[c.index()].name)),
        implementation: t.profile.map(|p| String::from(&program.profiles[p.index()].name)),
        notifies_idle: t.notifies_idle,
        ages: t.ages,
        direct_meter: t.direct_meter.map(|m| String::from(&program.meters[m.index()].name)),
        layout: Some(layout),
    }
}

fn entry(t: &ir::Table, entry: &ir::TableEntry) -> Entry {
    Entry {
        matches: entry.matches.clone(),
        priority: if t.keys.iter().any(|k| k.kind.needs_priority()) { entry.priority } else { 0 },
        action: ActionCall { action: ActionId(entry.action), args: entry.args.clone() },
    }
}

fn action(
    program: &Program,
    table: ir::TableId,
    listed: &ir::TableAction,
    problems: &mut Vec<Unsupported>,
) -> Action {
    let action = &program.actions[listed.action.index()];
    let offsets = offsets(program, table, listed.action);
    let mut params = Vec::new();
    for (param, offset) in action.params.iter().zip(offsets) {
        let width = program.var(param.var).ty.width();
        if width > 128 {
            let hint = "split it into two parameters";
            problems.push(Unsupported::new(action.loc, "an action parameter of more than 128 bits", hint));
        }
        params.push(Param { name: String::from(&param.name), width, offset });
    }
    Action {
        name: String::from(&action.name),
        params,
        default_only: listed.default_only,
        table_only: listed.table_only,
    }
}

/// The size in bytes of the action's number at the beginning of action data.
const NUMBER: u32 = 2;

/// The bytes of action data that have an owner.
struct Taken(Vec<std::ops::Range<u32>>);

impl Taken {
    /// What every entry of a table has: the number of its action, and its direct register.
    fn of(t: &ir::Table) -> Taken {
        let register = register_of(t).map(|place| place.offset..place.offset + place.size);
        Taken(std::iter::once(0..NUMBER).chain(register).collect())
    }

    /// Takes the first free place of a size. Values of 16 bytes are aligned to 8, as the kernel aligns those of maps.
    fn take(&mut self, size: u32) -> u32 {
        let align = size.min(8);
        let mut at = 0;
        while let Some(other) = self.0.iter().find(|other| other.start < at + size && at < other.end) {
            at = other.end.next_multiple_of(align);
        }
        self.0.push(at..at + size);
        at
    }

    /// The number of bytes up to the end of the last owner's.
    fn size(&self) -> u32 {
        self.0.iter().map(|taken| taken.end).max().unwrap_or(0)
    }
}

/// The offset of each parameter in an action's data. Large parameters are placed first, and small ones into the holes: a row of a table that
/// learns should take one cache line.
pub fn offsets(program: &Program, table: ir::TableId, action: ir::ActionId) -> Vec<u32> {
    placed(program, &program.tables[table.index()], action).0
}

fn placed(program: &Program, table: &ir::Table, action: ir::ActionId) -> (Vec<u32>, Taken) {
    let mut taken = Taken::of(table);
    let params = &program.actions[action.index()].params;
    let sizes: Vec<u32> =
        params.iter().map(|param| Param::size_of(program.var(param.var).ty.width())).collect();
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(sizes[*at]));
    let mut offsets = vec![0; sizes.len()];
    order.into_iter().for_each(|at| offsets[at] = taken.take(sizes[at]));
    (offsets, taken)
}

/// Where the key and the action data are in a row of a table that learns on the native target, in bytes.
pub struct FlowRow {
    /// Where the packed key begins.
    pub key: u32,
    /// Where the action's number begins.
    pub data: u32,
}

impl FlowRow {
    /// The places in the rows of a table.
    pub fn of(t: &ir::Table) -> FlowRow {
        let key = 8 * flow::key(has_cells(t) || t.notifies_idle) as u32;
        FlowRow { key, data: key + data_offset(key_bytes(t), Structure::Flow, false) }
    }
}

/// The size in bytes of the action data of a table's entries.
fn data_size(program: &Program, table: &ir::Table) -> u32 {
    let sizes = table.actions.iter().map(|listed| placed(program, table, listed.action).1.size());
    sizes.max().unwrap_or(NUMBER).next_multiple_of(8)
}

/// Where the direct register of a table's entries is in their action data. The host, which writes the data whole and fills it with zeros, need
/// not know of it.
pub fn register_of(table: &ir::Table) -> Option<RegisterPlace> {
    let size = Param::size_of(table.direct_register.as_ref()?.ty.width());
    Some(RegisterPlace { offset: NUMBER.next_multiple_of(size), size })
}

/// Whether the const entries of a table become code. Code is quicker to look through than a table while the entries are few; many take the
/// compiler minutes, and a packet a comparison each. Entries that are compiled to code have no cells, so those with a direct counter or meter are
/// data. A table in the kernel that cannot hold them is refused.
fn is_code(t: &ir::Table, machine: Machine) -> bool {
    t.const_entries
        && match has_cells(t) {
            true => machine == Machine::Bpf && !are_data(t, machine),
            false => t.entries.len() <= CODE_ENTRIES || !are_data(t, machine),
        }
}

/// Whether each entry has a counter or a meter.
fn has_cells(t: &ir::Table) -> bool {
    t.direct_counter.is_some() || t.direct_meter.is_some()
}

/// Whether the const entries of a table can be those of a table that the host fills.
fn are_data(t: &ir::Table, machine: Machine) -> bool {
    // A range of the kernel's tables needs more than a comparison, so ranges become data only if they must.
    let ranges = t.keys.iter().any(|k| k.kind == MatchKind::Range) && !has_cells(t);
    let mut known = HashSet::new();
    // Of two entries with the same match the first one counts, which a table in the kernel does not express.
    let canonical = |e: &ir::TableEntry| e.matches.iter().map(MatchValue::canonical).collect::<Vec<_>>();
    let distinct = t.entries.iter().all(|e| known.insert(canonical(e)));
    let masks: HashSet<_> =
        t.entries.iter().map(|entry| entry.matches.iter().map(mask_of).collect::<Vec<_>>()).collect();
    distinct && (machine == Machine::Native || !ranges && masks.len() <= TUPLES as usize)
}

/// The bits of a key field that a match looks at.
fn mask_of(value: &MatchValue) -> Option<Bits> {
    match value {
        MatchValue::Exact(_) | MatchValue::Optional(Some(_)) | MatchValue::Range(..) => None,
        MatchValue::Optional(None) => Some(Bits::zero(0)),
        MatchValue::Ternary(_, mask) => Some(mask.clone()),
        MatchValue::Lpm(value, len) => Some(Bits::prefix_mask(value.width(), *len)),
    }
}

fn structure(t: &ir::Table, machine: Machine) -> Structure {
    let lpm = t.keys.iter().filter(|k| k.kind == MatchKind::Lpm).count();
    let exact = t.keys.iter().all(|k| k.kind == MatchKind::Exact);
    match () {
        () if t.keys.is_empty() => Structure::Keyless,
        () if is_code(t, machine) => Structure::Code,
        () if t.learns() => Structure::Flow,
        () if exact && key_bytes(t) <= 2 && (machine == Machine::Native || is_full_array(t)) => {
            Structure::Array
        }
        () if exact => Structure::Hash,
        () if (machine == Machine::Bpf || worth_a_trie(t))
            && lpm == 1
            && t.keys.iter().all(|k| matches!(k.kind, MatchKind::Exact | MatchKind::Lpm)) =>
        {
            Structure::LpmTrie
        }
        () => Structure::TupleSpace,
    }
}

/// Whether a table gets a trie on native. A trie takes 64 MB of address space, and a page for each part of it that is used. In a table with
/// few prefixes, tuple-space search by prefix length is as fast.
fn worth_a_trie(t: &ir::Table) -> bool {
    t.size > 4096 && key_bytes(t) >= 3
}

/// Whether an array on eBPF can hold the entries of a table with short keys. It has an element for every key, so the table must be as large.
/// The host writes whole elements, so packets must not write to them.
fn is_full_array(t: &ir::Table) -> bool {
    let bits: u32 = t.keys.iter().map(|k| k.expr.ty.width()).sum();
    let written = t.direct_counter.is_some() || t.direct_meter.is_some() || t.notifies_idle;
    t.size >= 1 << bits && !written
}

/// The number of elements of an array that has one for every key.
pub fn elements(table: &Table, layout: &TableLayout) -> u64 {
    let largest = |(key, offset): (&KeyField, &u32)| {
        let behind = layout.key_size - offset - key.width.div_ceil(8);
        ((1u64 << key.width) - 1) << (8 * behind)
    };
    table.keys.iter().zip(&layout.key_offsets).map(largest).sum::<u64>() + 1
}

/// The layout of a table that learns on eBPF, and the name of its map of entries.
pub fn learning_layout(program: &Program, id: ir::TableId, names: &Names) -> Option<(TableLayout, String)> {
    let structure = structure(&program.tables[id.index()], Machine::Bpf);
    let layout = layout(program, id, names.table(id), structure, Machine::Bpf);
    let map = layout.map.clone()?;
    Some((layout, map))
}

/// The size of a packed key in bytes.
fn key_bytes(t: &ir::Table) -> u32 {
    t.keys.iter().map(|k| k.expr.ty.width().div_ceil(8)).sum()
}

fn layout(
    program: &Program,
    id: ir::TableId,
    map: &str,
    structure: Structure,
    machine: Machine,
) -> TableLayout {
    let t = &program.tables[id.index()];
    let bytes = |k: &ir::TableKey| k.expr.ty.width().div_ceil(8);
    // The lpm field of a trie comes last. The other fields keep their order.
    let last = |k: &ir::TableKey| structure == Structure::LpmTrie && k.kind == MatchKind::Lpm;
    let mut at = 0;
    let mut key_offsets = vec![0; t.keys.len()];
    for turn in [false, true] {
        for (key, offset) in t.keys.iter().zip(&mut key_offsets).filter(|(k, _)| last(k) == turn) {
            *offset = at;
            at += bytes(key);
        }
    }
    let stored = !matches!(structure, Structure::Keyless | Structure::Code);
    // On native, the priority and the cell's index are in the head of `struct row`.
    let mapped = machine == Machine::Bpf;
    let priority = if mapped && structure == Structure::TupleSpace { 8 } else { 0 };
    let learns = mapped && structure == Structure::Flow;
    let first = if learns { TIMER } else { priority };
    let counter_offset = t.direct_counter.map(|_| first);
    let counted = first + if mapped && counter_offset.is_some() { 16 } else { 0 };
    let meter_offset = (mapped && stored && t.direct_meter.is_some()).then_some(counted);
    let metered = counted + if meter_offset.is_some() { 8 } else { 0 };
    let hit_offset = (mapped && stored && t.notifies_idle).then_some(metered);
    let timed = metered + if hit_offset.is_some() { 8 } else { 0 };
    let data_offset = timed + if learns { u32::next_multiple_of(at, 8) } else { 0 };
    let data_size = data_size(program, t);
    let ranges = t.keys.iter().filter(|k| mapped && k.kind == MatchKind::Range).count() as u32;
    let bounds_offset = (stored && ranges > 0).then_some(data_size);
    let data_size = data_size + if stored { 16 * ranges } else { 0 };
    TableLayout {
        structure,
        map: stored.then(|| format!("t_{map}")),
        tuples: (structure == Structure::TupleSpace).then(|| (format!("m_{map}"), TUPLES)),
        default_map: (!t.const_default).then(|| format!("d_{map}")),
        // A map cannot have keys of zero bytes, so a key of zero bits is stored as a zero byte.
        key_size: at.max(u32::from(!t.keys.is_empty())),
        key_offsets,
        data_size,
        bounds_offset,
        data_offset,
        counter_offset,
        meter_offset,
        hit_offset,
        value_size: data_offset + data_size,
        register: register_of(t).filter(|_| stored),
        lists: (mapped && t.profile.is_some()).then(|| format!("l_{map}")),
        learning: learns.then(|| LearningMaps {
            rows: format!("f_{map}"),
            count: learning_rows(t.size),
            free: format!("q_{map}"),
            key_offset: timed,
        }),
    }
}

/// The layouts of the indexed counters.
pub fn counters(program: &Program) -> Vec<Counter> {
    let mut next = 0;
    let counter = |c: &ir::IndexedCounter| {
        let first = next;
        next += c.size;
        Counter { name: String::from(&c.name), size: c.size, first: Some(first) }
    };
    program.counters.iter().map(counter).collect()
}

/// The layouts of the registers. A cell has 64 bits, or 128 in the kernel. If two processors write one cell at the same time, one write is lost,
/// as on any multi-core switch without locks; of a cell of 128 bits it may be half of a write.
pub fn registers(
    program: &Program,
    names: &Names,
    machine: Machine,
    problems: &mut Vec<Unsupported>,
) -> Vec<Register> {
    let mut register = |(i, r): (usize, &ir::Register)| {
        let most = if machine == Machine::Bpf { 128 } else { 64 };
        if r.ty.width() > most {
            let (what, hint) = (format!("a register of more than {most} bits"), "use two registers");
            problems.push(Unsupported::new(r.loc, what, hint));
        }
        let map = Some(format!("r_{}", names.register(ir::RegisterId(i as u32))));
        let initial = (!r.initial.is_zero()).then(|| r.initial.clone());
        Register { name: String::from(&r.name), size: r.size, width: r.ty.width(), initial, map }
    };
    program.registers.iter().enumerate().map(&mut register).collect()
}
