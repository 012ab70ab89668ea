//! Tables and their properties (P4-16 section 14.2).

use num_traits::ToPrimitive;

use super::typed::{Callee, Decl, Kind, Res};
use super::types::{DeclId, Named, Type};
use super::value::Value;
use super::{Checker, Place};
use crate::ast::{
    self, ActionRef, Direction, EntryDecl, Expr, ExprKind, KeyElement, PropertyValue, TableDecl,
    TableProperty,
};
use crate::diag::{Diagnostic, did_you_mean};
use crate::map::Map;

/// An action in a table's list: its name as cases and entries write it, its declaration, and its syntax.
type ListedAction<'a> = (String, DeclId, &'a ActionRef);

impl<'a> Checker<'a, '_> {
    pub(super) fn table(&mut self, d: &'a ast::Decl, t: &'a TableDecl) {
        let place = std::mem::replace(&mut self.place, Place::ControlApply);
        self.duplicates(t);
        let at = |name: &str| t.properties.iter().position(|p| p.name.text == name);
        if let (Some(default), Some(listed)) = (at("default_action"), at("actions"))
            && default < listed
        {
            let span = t.properties[default].name.span;
            let e = Diagnostic::error("E0414", span, "`default_action` stands before `actions`");
            self.report(e.hint("the actions come first: it is one of them (section 14.2.1.3)"));
        }
        for late in ["key", "actions"] {
            if let (Some(entries), Some(listed)) = (at("entries"), at(late))
                && entries < listed
            {
                let text = format!("`entries` stands before `{late}`");
                let e = Diagnostic::error("E0414", t.properties[entries].name.span, text);
                self.report(e.hint("entries come last: they are made of keys and actions"));
            }
        }
        if t.property("default_action").is_none()
            && let Some(id) = self.find("NoAction", true).first().copied()
            && self.decl(id).is_some_and(|d| d.kind != Kind::Action || !d.params.is_empty())
        {
            let text =
                "this table needs `NoAction` for what misses, and that is no action without parameters here";
            let e = Diagnostic::error("E0416", d.name.span, text);
            self.report(e.hint("give the table a `default_action`"));
        }
        let mut keys: Vec<(Type, &'a KeyElement)> = Vec::new();
        if let Some(PropertyValue::Key(elements)) = t.property("key").map(|p| &p.value) {
            keys = elements.iter().map(|k| (self.key(k), k)).collect();
        }
        let actions = match t.property("actions").map(|p| &p.value) {
            Some(PropertyValue::Actions(list)) => self.action_list(list),
            _ => {
                let text = format!("table `{}` has no `actions`", d.name.text);
                let e = Diagnostic::error("E0414", d.name.span, text);
                self.report(e.hint("add `actions = { … }`; it may list `NoAction`"));
                Vec::new()
            }
        };
        let members = actions.iter().map(|a| a.1).collect();
        for p in &t.properties {
            self.property(d, p, &keys, &actions);
        }
        if let Some(TableProperty { value: PropertyValue::Entries(list), is_const, .. }) =
            t.property("entries")
            && !keys.is_empty()
        {
            self.priorities(t, *is_const, list);
        }
        self.place = place;
        let ty = Type::Table(Named::plain(d.id, &d.name.text));
        let made =
            Decl { members, parent: self.owner, table: Some(t), ..Decl::new(&d.name, Kind::Table, ty) };
        self.declare(d.id, &d.name, made);
    }

    fn duplicates(&mut self, t: &'a TableDecl) {
        for (i, p) in t.properties.iter().enumerate() {
            if let Some(first) = t.properties[..i].iter().find(|q| q.name.text == p.name.text) {
                let text = format!("property `{}` is given twice", p.name.text);
                let e = Diagnostic::error("E0414", p.name.span, text);
                self.report(e.also(first.name.span, "given here first"));
            }
        }
    }

    fn key(&mut self, k: &'a KeyElement) -> Type {
        self.annotations(&k.annotations);
        let ty = self.expr(&k.expr);
        let kinds = self.typed.match_kinds.clone();
        let names: Vec<&str> =
            kinds.iter().filter_map(|m| Some(self.typed.decl(*m)?.name.as_ref())).collect();
        let known = names.contains(&k.match_kind.text.as_str());
        if names.is_empty() && !self.missing_includes.is_empty() {
            // The missing include, which was reported, declares the match kinds.
        } else if !k.match_kind.text.is_empty() && !known {
            let text = format!("there is no match kind `{}`", k.match_kind.text);
            let e = Diagnostic::error("E0415", k.match_kind.span, text);
            self.report(e.one_of(&k.match_kind.text, "match kinds", &names));
        }
        let inner = ty.underlying();
        let simple =
            inner.is_fixed() || matches!(inner, Type::Bool | Type::Enum(_) | Type::Error | Type::Varbit(_));
        let arithmetic =
            matches!(k.expr.kind, ExprKind::Binary { op: ast::BinaryOp::Add | ast::BinaryOp::Sub, .. });
        if arithmetic && ast::annotation(&k.annotations, "name").is_none() {
            let e =
                Diagnostic::error("E0415", k.expr.span, "a computed key needs a name for the control plane");
            let (key, kind) = (self.text(&k.expr), &k.match_kind.text);
            self.report(e.hint(format!("write `{key} : {kind} @name(\"key\");`")));
        }
        if k.match_kind.text == "lpm" && simple && !inner.is_fixed() {
            let text = format!("an lpm key is bit<W> or int<W>: `{ty}` has no prefixes");
            self.report(Diagnostic::error("E0415", k.expr.span, text).hint("make it `exact`"));
        }
        if !simple && !matches!(inner, Type::Bad | Type::Param(_)) {
            let mut e = Diagnostic::error("E0415", k.expr.span, format!("`{ty}` cannot be a key"));
            if ty.has_fields() {
                e = e.hint(format!("choose a field: {}", self.field_names(&ty)));
            } else if *inner == Type::Int {
                e = e.hint("a number needs a width here, such as `8w1`");
            }
            self.report(e);
        }
        ty
    }

    /// The name, declaration and arguments of an action reference: `a`, `.a` or `a(x)`.
    fn action_name(&mut self, e: &'a Expr) -> Option<(String, DeclId, &'a [ast::Argument])> {
        let (callee, args) = e.called();
        let ExprKind::Name { name, global } = &callee.kind else {
            if !matches!(callee.kind, ExprKind::Error) {
                self.error("E0416", e.span, "this must be the name of an action");
            }
            return None;
        };
        let Some(id) = self.find(&name.text, *global).first().copied() else {
            self.undeclared(name, "", |k| k == Kind::Action);
            return None;
        };
        if self.kind(id) != Some(Kind::Action) {
            let d = Diagnostic::error("E0416", name.span, format!("`{}` is not an action", name.text));
            let at = self.decl(id).map(|d| d.span).unwrap_or_default();
            self.report(d.also(at, "declared here"));
            return None;
        }
        self.typed.refs.insert(callee.id, Res::Decl(id));
        self.typed.used.insert(id);
        let full = if *global { format!(".{}", name.text) } else { name.text.clone() };
        Some((full, id, args))
    }

    fn action_list(&mut self, list: &'a [ActionRef]) -> Vec<ListedAction<'a>> {
        let mut listed: Vec<ListedAction<'a>> = Vec::new();
        for a in list {
            self.annotations(&a.annotations);
            let Some((name, id, args)) = self.action_name(&a.expr) else { continue };
            if let Some(first) = listed.iter().find(|l| l.1 == id) {
                let e = Diagnostic::error("E0416", a.expr.span, format!("action `{name}` is listed twice"));
                self.report(e.also(first.2.expr.span, "listed here first"));
                continue;
            }
            self.action_arguments(&a.expr, id, args, false);
            listed.push((name, id, a));
        }
        listed
    }

    /// Checks the arguments of an action. The action list binds parameters with a direction; entries and default
    /// actions (`all`) also give the directionless ones.
    fn action_arguments(&mut self, e: &'a Expr, id: DeclId, args: &'a [ast::Argument], all: bool) {
        let params = self.params(id);
        let directed = params.iter().filter(|(_, p)| p.direction != Direction::None).count();
        // Entries and default actions may repeat the arguments that the list binds, or leave them out.
        let wanted: Vec<&(DeclId, Decl<'a>)> = match all {
            false => params.iter().take(directed).collect(),
            true if args.len() + directed == params.len() => params.iter().skip(directed).collect(),
            true => params.iter().collect(),
        };
        if args.len() != wanted.len() {
            let name = self.decl(id).map(|d| d.name.to_string()).unwrap_or_default();
            let n = wanted.len();
            let s = if n == 1 { "" } else { "s" };
            let text = format!("`{name}` takes {n} argument{s} here, {} given", args.len());
            let d = Diagnostic::error("E0416", e.span, text);
            let hint = match all {
                true => format!("declared as `{}`", self.signature(id)),
                false => {
                    "parameters without direction are filled by the control plane; the others are bound here"
                        .to_string()
                }
            };
            self.report(d.hint(hint));
        }
        for (i, arg) in args.iter().enumerate() {
            let Some(value) = &arg.value else { continue };
            let own = self.expr(value);
            let param = match &arg.name {
                Some(n) => wanted.iter().find(|(_, p)| *p.name == *n.text),
                None => wanted.get(i),
            };
            let Some((_, param)) = param else {
                if let Some(name) = &arg.name {
                    self.error("E0416", name.span, format!("there is no parameter `{}`", name.text));
                }
                continue;
            };
            self.coerce(value, &own, &param.ty);
            if matches!(param.direction, Direction::Out | Direction::InOut) {
                let why = "this parameter is written: its argument must be a variable or a field";
                self.need_lvalue(value, why);
            }
            if all && param.direction == Direction::None && !self.is_known(value) {
                let d = Diagnostic::error("E0306", value.span, "this argument must be known at compile time");
                self.report(d.hint("pass what changes from packet to packet as an `in` parameter"));
            }
            let table = self.calls(value, |c| matches!(c, Callee::Table(_)));
            if table {
                self.error("E0402", value.span, "a table cannot be applied here");
            }
        }
    }

    fn property(
        &mut self,
        d: &'a ast::Decl,
        p: &'a TableProperty,
        keys: &[(Type, &'a KeyElement)],
        actions: &[ListedAction<'a>],
    ) {
        match (p.name.text.as_str(), &p.value) {
            ("default_action", PropertyValue::Expr(e)) => self.action_use(d, e, actions, "tableonly"),
            ("entries", PropertyValue::Entries(list)) => self.entries(d, p, list, keys, actions),
            ("size", PropertyValue::Expr(e)) => {
                let ty = self.expr(e);
                if !ty.is_bad() && !ty.underlying().is_integer() {
                    self.error("E0301", e.span, format!("a table's size is a number, not `{ty}`"));
                } else {
                    self.need_known(e, "a table's size");
                }
            }
            ("largest_priority_wins", PropertyValue::Expr(e)) => {
                let ty = self.expr(e);
                if !ty.is_bad() && (ty != Type::Bool || !self.is_known(e)) {
                    self.error("E0414", e.span, format!("`{}` is `true` or `false`", p.name.text));
                }
            }
            ("priority_delta", PropertyValue::Expr(e)) => {
                self.expr(e);
                let positive = |v: Value| v.as_int().is_some_and(num_traits::Signed::is_positive);
                if !self.known_value(e).is_some_and(positive) {
                    let text =
                        format!("`{}` is a number above zero that is known at compile time", p.name.text);
                    self.error("E0414", e.span, text);
                }
            }
            (name, PropertyValue::Expr(e)) => {
                let list = matches!(name, "key" | "actions" | "entries");
                if list {
                    self.error("E0414", p.span, format!("`{name}` needs a list: `{name} = {{ … }}`"));
                    return;
                }
                let near = did_you_mean(name, ["key", "actions", "default_action", "entries", "size"]);
                if let Some(near) = near {
                    let text = format!("`{name}` is not a property that P4 knows");
                    let e = Diagnostic::warning("W0402", p.name.span, text);
                    self.report(e.hint(format!("did you mean `{near}`?")));
                }
                if name == "default_idle_timeout_for_data_plane_added_entries" {
                    let text = format!(
                        "`{name}` has no effect: `add_entry` gives each entry its expire time profile"
                    );
                    self.report(Diagnostic::warning("W0402", p.name.span, text));
                }
                let place = std::mem::replace(&mut self.place, Place::ControlLocals);
                self.expr(e);
                self.place = place;
            }
            _ => {}
        }
    }

    /// Checks the action of an entry or of `default_action`. The table must list it.
    fn action_use(&mut self, d: &'a ast::Decl, e: &'a Expr, actions: &[ListedAction<'a>], forbidden: &str) {
        let Some((name, id, args)) = self.action_name(e) else { return };
        let Some(listed) = actions.iter().find(|a| a.1 == id) else {
            if actions.is_empty() {
                return;
            }
            let text = format!("`{name}` is not in the `actions` of table `{}`", d.name.text);
            let mut all: Vec<&str> = actions.iter().map(|a| a.0.as_str()).collect();
            all.push(&name);
            let hint = format!("list it: `actions = {{ {}; }}`", all.join("; "));
            self.report(Diagnostic::error("E0416", e.span, text).hint(hint));
            return;
        };
        if ast::annotation(&listed.2.annotations, forbidden).is_some() {
            let text = format!("`{name}` is @{forbidden}: it cannot be used here");
            self.report(Diagnostic::error("E0416", e.span, text).also(listed.2.expr.span, "listed here"));
        }
        self.action_arguments(e, id, args, true);
        self.repeats_bound(args, listed.2);
    }

    /// Checks that arguments which the action list binds are repeated as they are written there.
    fn repeats_bound(&mut self, args: &'a [ast::Argument], listed: &'a ActionRef) {
        let ExprKind::Call { args: bound, .. } = &listed.expr.kind else { return };
        let Some(action) = self.typed.resolved(listed.expr.called().0.id).and_then(|id| self.decl(id)) else {
            return;
        };
        if args.len() != action.params.len() {
            return;
        }
        let squeeze = |span| self.map.text(span).chars().filter(|c| !c.is_whitespace()).collect::<String>();
        for (given, listed) in args.iter().zip(bound) {
            // Named fields may be in another order.
            let fields = |a: &ast::Argument| match a.value.as_ref().map(|v| &v.kind) {
                Some(ExprKind::Struct { fields, .. }) => {
                    let mut all: Vec<(String, String)> =
                        fields.iter().map(|(n, v)| (n.text.clone(), squeeze(v.span))).collect();
                    all.sort();
                    Some(all)
                }
                _ => None,
            };
            let same = match (fields(given), fields(listed)) {
                (Some(a), Some(b)) => a == b,
                _ => squeeze(given.span) == squeeze(listed.span),
            };
            if !same {
                let text = "this differs from what the list of actions binds";
                let d = Diagnostic::error("E0416", given.span, text);
                self.report(d.also(listed.span, "bound here"));
            }
        }
    }

    fn entries(
        &mut self,
        d: &'a ast::Decl,
        p: &'a TableProperty,
        list: &'a [EntryDecl],
        keys: &[(Type, &'a KeyElement)],
        actions: &[ListedAction<'a>],
    ) {
        if keys.is_empty() && !list.is_empty() {
            let text = format!("table `{}` has no key, so it cannot have entries", d.name.text);
            self.error("E0417", p.name.span, text);
            return;
        }
        let types: Vec<Type> = keys.iter().map(|k| k.0.clone()).collect();
        let ordered =
            keys.iter().any(|k| matches!(k.1.match_kind.text.as_str(), "ternary" | "range" | "optional"));
        let mut seen: Map<String, crate::source::Span> = Map::default();
        let exact = keys.iter().all(|k| k.1.match_kind.text == "exact");
        for entry in list {
            self.keyset(&entry.keyset, &types);
            self.entry_keys(&entry.keyset, keys);
            if let Some(key) = self.exact_key(&entry.keyset).filter(|_| exact) {
                match seen.get(&key) {
                    Some(first) => {
                        let d = Diagnostic::error("E0417", entry.keyset.span, "this key stands here twice");
                        self.report(d.also(*first, "here first"));
                    }
                    None => drop(seen.insert(key, entry.keyset.span)),
                }
            }
            self.action_use(d, &entry.action, actions, "defaultonly");
            if let Some(priority) = &entry.priority {
                self.size(priority, "a priority");
                if !ordered {
                    let text =
                        "entries of this table have no priorities: no key is ternary, range or optional";
                    self.error("E0417", priority.span, text);
                }
            }
        }
    }

    /// The key of an entry with exact keys, as a text that is equal for equal keys.
    fn exact_key(&self, keyset: &Expr) -> Option<String> {
        keyset.items().into_iter().map(|i| self.known_value(i).map(|v| format!("{v:?} "))).collect()
    }

    /// Section 14.2.1.4: the first entry must have a priority if any has, and constant entries have none.
    fn priorities(&mut self, table: &'a TableDecl, is_const: bool, list: &'a [EntryDecl]) {
        let first = list.iter().find_map(|e| e.priority.as_ref());
        let Some(given) = first else { return };
        if is_const {
            let text = "constant entries have no priorities: the first that matches wins";
            self.report(Diagnostic::error("E0417", given.span, text).hint("write `entries` without `const`"));
        } else if list.first().is_some_and(|e| e.priority.is_none()) {
            let e =
                Diagnostic::error("E0417", list[0].span, "the first entry has no priority, and others have");
            self.report(e.hint("give it one, or none to any"));
        }
        let number = |e: &Expr| self.known_value(e)?.as_int()?.to_i64();
        let largest = table.value("largest_priority_wins").and_then(|e| self.known_value(e)?.as_bool());
        let falls = largest != Some(false);
        let delta = table.value("priority_delta").and_then(number).unwrap_or(1);
        let mut next = None;
        for entry in list {
            let own = entry.priority.as_ref().and_then(number);
            next = own.or(next.map(|n: i64| if falls { n - delta } else { n + delta }));
            if next.is_some_and(|n| n < 0) {
                let text = "the priority that follows for this entry is negative";
                let e = Diagnostic::error("E0417", entry.span, text);
                self.report(e.hint("begin with a larger one"));
                return;
            }
        }
    }

    /// Checks that the sets of an entry fit the match kinds of the keys.
    fn entry_keys(&mut self, keyset: &'a Expr, keys: &[(Type, &'a KeyElement)]) {
        let items = keyset.items();
        if items.len() != keys.len() {
            return;
        }
        for (item, (_, key)) in items.into_iter().zip(keys) {
            let wrong = match (&item.kind, key.match_kind.text.as_str()) {
                (ExprKind::Binary { op: ast::BinaryOp::Mask, .. }, "exact" | "range" | "optional") => {
                    Some("a mask")
                }
                (
                    ExprKind::Binary { op: ast::BinaryOp::Range, .. },
                    "exact" | "lpm" | "ternary" | "optional",
                ) => Some("a range"),
                (ExprKind::DontCare | ExprKind::Default, "exact") => Some("`_`"),
                _ => None,
            };
            if let Some(what) = wrong {
                let text = format!("{what} cannot be a value of an {} key", key.match_kind.text);
                self.report(Diagnostic::error("E0417", item.span, text).also(key.match_kind.span, "the key"));
            }
            if let (ExprKind::Binary { op: ast::BinaryOp::Mask, right, .. }, "lpm") =
                (&item.kind, key.match_kind.text.as_str())
                && self.known_value(right).is_some_and(|v| !is_prefix(&v, self.typed.ty(right.id)))
            {
                let d = Diagnostic::error("E0417", right.span, "this mask is not a prefix");
                let d = d.hint("an lpm mask is ones, then zeros; for other masks make the key `ternary`");
                self.report(d);
            }
            self.need_known(item, "the key of an entry");
        }
    }

    /// The actions of a table, by name.
    pub(super) fn actions_of(&self, table: DeclId) -> Vec<(String, DeclId)> {
        let members = self.members(table);
        members.into_iter().filter_map(|m| Some((self.decl(m)?.name.to_string(), m))).collect()
    }
}

/// Whether a mask is a prefix: ones, followed by zeros.
fn is_prefix(mask: &Value, ty: &Type) -> bool {
    let (Some(mask), Some(width)) = (mask.as_int(), ty.underlying().scalar_width()) else { return true };
    let bits: Vec<bool> = (0..width).rev().map(|i| mask.bit(u64::from(i))).collect();
    bits.windows(2).all(|pair| pair[0] || !pair[1])
}
