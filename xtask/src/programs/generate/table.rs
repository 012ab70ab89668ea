//! Generates tables: keys of all kinds, sizes on both sides of the emitter's thresholds, and entries in the program.

use super::Generator;
use super::callable::{Action, Body};
use super::types::Ty;

/// A table of the current control.
#[derive(Clone, Debug)]
pub struct Table {
    pub name: String,
    pub actions: Vec<String>,
    pub applied: bool,
}

/// Sizes at which structures change: keys of few bits index arrays, large tables are looked up early, and very large tables of prefixes are
/// tries.
const SIZES: &[u32] = &[1, 2, 7, 16, 64, 255, 256, 1024, 1024, 4095, 4096, 4097, 5000];

/// A field of a key.
struct Key {
    text: String,
    ty: Ty,
    kind: &'static str,
}

impl Generator {
    /// Declares a table, with the counters that it needs.
    pub fn declare_table(&mut self) {
        let name = self.fresh("t");
        let keys = self.keys();
        let counted = self.chance(40);
        if counted {
            let kind = self.choose(&["packets", "bytes", "packets_and_bytes"]);
            self.line(&format!("direct_counter(CounterType.{kind}) {name}_n;"));
        }
        let listed = self.listed();
        self.open(&format!("table {name} {{"));
        if !keys.is_empty() {
            self.open("key = {");
            for (n, key) in keys.iter().enumerate() {
                self.line(&format!("{}: {} @name(\"k{n}\");", key.text, key.kind));
            }
            self.close("}");
        }
        self.open("actions = {");
        for (action, bound) in &listed {
            let arguments = if bound.is_empty() { String::new() } else { format!("({bound})") };
            self.line(&format!("{}{arguments};", action.name));
        }
        self.line("NoAction;");
        self.close("}");
        let unbound: Vec<Action> =
            listed.iter().filter(|(a, _)| a.bound.is_empty()).map(|(a, _)| a.clone()).collect();
        self.default_action(&unbound);
        let has_entries = !keys.is_empty() && self.chance(25);
        if has_entries {
            self.entries(&keys, &unbound);
        } else if !keys.is_empty() {
            let size = SIZES[self.below(SIZES.len())];
            self.line(&format!("size = {size};"));
        }
        if counted {
            self.line(&format!("counters = {name}_n;"));
        }
        self.close("}");
        let actions = listed.into_iter().map(|(a, _)| a.name).collect();
        self.tables.push(Table { name, actions, applied: false });
    }

    /// The actions of a table, each with its bound arguments.
    fn listed(&mut self) -> Vec<(Action, String)> {
        let mut listed = Vec::new();
        for action in self.actions.clone() {
            if !self.chance(70) {
                continue;
            }
            self.calls_in_expr = 0;
            match self.arguments(&action.bound) {
                Some(bound) => listed.push((action, bound)),
                None => continue,
            }
        }
        listed
    }

    fn keys(&mut self) -> Vec<Key> {
        if self.chance(6) {
            return Vec::new();
        }
        let kinds: &[&str] = match self.below(7) {
            0 | 1 => &["exact"],
            2 => &["lpm", "exact"],
            3 => &["ternary"],
            4 => &["ternary", "exact", "lpm", "optional"],
            5 if self.features.ranges => &["range", "exact", "ternary", "lpm", "optional"],
            5 => &["exact", "lpm"],
            _ => &["optional", "exact", "ternary"],
        };
        let mut keys: Vec<Key> = Vec::new();
        for n in 0..1 + self.below(3) {
            let kind = if n == 0 { kinds[0] } else { self.choose(kinds) };
            let kind = if kind == "lpm" && keys.iter().any(|k| k.kind == "lpm") { "exact" } else { kind };
            keys.push(self.key(kind));
        }
        keys
    }

    fn key(&mut self, kind: &'static str) -> Key {
        let signs = matches!(kind, "exact" | "ternary" | "range");
        let suits = |ty: &Ty| match ty {
            Ty::Bit(w) => *w <= 128,
            Ty::Int(w) => signs && *w <= 128,
            Ty::Bool | Ty::Enum => kind == "exact",
            _ => false,
        };
        self.calls_in_expr = 0;
        match self.place(|p| suits(&p.ty)) {
            Some(place) if self.chance(75) => Key { text: place.text, ty: place.ty, kind },
            _ if kind == "exact" && self.chance(20) => {
                let header = self.place(|p| matches!(p.ty, Ty::Header(_)));
                let text = header.map_or("true".into(), |h| format!("{}.isValid()", h.text));
                Key { text, ty: Ty::Bool, kind }
            }
            _ => {
                let width = [1, 4, 8, 9, 16, 17, 24, 32][self.below(8)];
                let ty = Ty::Bit(width);
                Key { text: self.expr(&ty, 2), ty, kind }
            }
        }
    }

    fn default_action(&mut self, actions: &[Action]) {
        let word = if self.chance(30) { "const default_action" } else { "default_action" };
        match actions.len() {
            0 => self.line(&format!("{word} = NoAction();")),
            _ if self.chance(25) => self.line(&format!("{word} = NoAction();")),
            count => {
                let action = actions[self.below(count)].clone();
                let call = self.entry_call(&action);
                self.line(&format!("{word} = {call};"));
            }
        }
    }

    fn entry_call(&mut self, action: &Action) -> String {
        let data: Vec<String> = action.data.iter().map(|(_, ty)| self.literal(ty)).collect();
        format!("{}({})", action.name, data.join(", "))
    }

    /// Generates the entries of the program, from one to some dozens.
    fn entries(&mut self, keys: &[Key], actions: &[Action]) {
        let ordered = keys.iter().any(|k| matches!(k.kind, "ternary" | "range" | "optional"));
        let constant = self.chance(75);
        let priorities = ordered && !constant && self.chance(60);
        if priorities && self.chance(50) {
            self.line("largest_priority_wins = false;");
        }
        self.open(if constant { "const entries = {" } else { "entries = {" });
        let count = if self.chance(15) { 8 + self.below(30) } else { 1 + self.below(6) };
        let mut known: Vec<String> = Vec::new();
        for n in 0..count {
            let fields: Vec<String> = keys.iter().map(|k| self.keyset(&k.ty, k.kind)).collect();
            let fields = fields.join(", ");
            if known.contains(&fields) {
                continue;
            }
            let call = match actions.len() {
                0 => "NoAction()".to_string(),
                many => {
                    let action = actions[self.below(many)].clone();
                    self.entry_call(&action)
                }
            };
            let priority =
                if priorities { format!("priority = {}: ", 1 + (n * 7) % 97) } else { String::new() };
            let word = if !constant && self.chance(20) { "const " } else { "" };
            self.line(&format!("{word}{priority}({fields}) : {call};"));
            known.push(fields);
        }
        self.close("}");
    }

    /// The match of an entry for a field.
    fn keyset(&mut self, ty: &Ty, kind: &str) -> String {
        match kind {
            "ternary" if self.chance(20) => "_".into(),
            "optional" if self.chance(30) => "_".into(),
            "lpm" | "ternary" if ty.is_number() && self.chance(70) => self.masked(ty, kind == "lpm"),
            "range" if self.chance(80) => self.range(ty),
            _ => self.small(ty),
        }
    }

    /// A match of the form `value &&& mask`.
    pub fn masked(&mut self, ty: &Ty, is_prefix: bool) -> String {
        let width = ty.width().min(128);
        let all = u128::MAX >> (128 - width);
        let length = self.below(width as usize + 1) as u32;
        let mask = match is_prefix || self.chance(40) {
            true if length == 0 => 0,
            true => all & (all << (width - length)),
            false => self.rng.bits() & all,
        };
        let value = self.rng.bits() & mask;
        match ty {
            // A pattern with the sign bit set has no positive literal.
            Ty::Int(w) => {
                let positive = all >> 1;
                format!("{w}s{:#x} &&& {w}s{:#x}", value & positive, mask & positive)
            }
            _ => format!("{width}w{value:#x} &&& {width}w{mask:#x}"),
        }
    }

    /// A match of the form `low .. high`.
    pub fn range(&mut self, ty: &Ty) -> String {
        let width = ty.width().min(127);
        match ty {
            Ty::Int(w) if *w > 1 => {
                let most = (1u128 << (w - 1).min(126)) - 1;
                let (a, b) = (self.rng.bits() % (most + 1), self.rng.bits() % (most + 1));
                match self.below(3) {
                    0 => format!("-{w}s{a} .. {w}s{b}"),
                    1 => format!("-{w}s{} .. -{w}s{}", a.max(b), a.min(b)),
                    _ => format!("{w}s{} .. {w}s{}", a.min(b), a.max(b)),
                }
            }
            _ => {
                let most = (1u128 << width) - 1;
                let (a, b) = (self.rng.bits() & most, self.rng.bits() & most);
                format!("{0}w{1} .. {0}w{2}", ty.width(), a.min(b), a.max(b))
            }
        }
    }

    /// A single value. Small values are more frequent, so that packets match them. A value is always written in the same way.
    pub fn small(&mut self, ty: &Ty) -> String {
        match ty {
            Ty::Bit(w) if self.chance(60) => format!("{w}w{}", self.below(1 << w.min(&3))),
            Ty::Int(w) if *w > 3 && self.chance(60) => format!("{w}s{}", self.below(4)),
            Ty::Bit(w) => {
                let all = u128::MAX >> (128 - (*w).min(128));
                let value = [all, all >> 1, self.rng.bits() & all][self.below(3)];
                format!("{w}w{value}")
            }
            Ty::Int(w) if *w > 1 => {
                let value = 1 + self.rng.bits() % (1u128 << (w - 1).min(126)).saturating_sub(1).max(1);
                let sign = if self.chance(50) { "-" } else { "" };
                format!("{sign}{w}s{value}")
            }
            _ => self.literal(ty),
        }
    }

    /// Applies a table, and uses the result.
    pub fn apply_one(&mut self, depth: u32) {
        let again = self.chance(15);
        let known: Vec<usize> =
            (0..self.tables.len()).filter(|t| again || !self.tables[*t].applied).collect();
        if known.is_empty() {
            return;
        }
        let at = known[self.below(known.len())];
        self.tables[at].applied = true;
        let table = self.tables[at].clone();
        let depth = depth.max(1);
        match self.below(5) {
            0 | 1 => self.line(&format!("{}.apply();", table.name)),
            2 => self.by_action(&table, depth),
            _ => {
                let what = self.choose(&["hit", "miss"]);
                self.open(&format!("if ({}.apply().{what}) {{", table.name));
                self.some(depth);
                if self.chance(50) {
                    self.turn("} else {");
                    self.some(depth);
                }
                self.close("}");
            }
        }
    }

    fn some(&mut self, depth: u32) {
        self.inside(|g| g.statements(Body::Control, 1, depth - 1));
    }

    fn by_action(&mut self, table: &Table, depth: u32) {
        self.open(&format!("switch ({}.apply().action_run) {{", table.name));
        for action in &table.actions {
            match self.below(4) {
                0 => continue,
                1 if table.actions.last() != Some(action) => self.line(&format!("{action}:")),
                _ => {
                    self.open(&format!("{action}: {{"));
                    self.some(depth);
                    self.close("}");
                }
            }
        }
        // The last label must have a block.
        self.open("default: {");
        self.some(depth);
        self.close("}");
        self.close("}");
    }

    /// Applies the tables that no statement applies yet, so that all tables are used.
    pub fn apply_rest(&mut self) {
        for _ in 0..self.tables.len() {
            if self.tables.iter().any(|t| !t.applied) {
                self.apply_one(2);
            }
        }
    }
}
