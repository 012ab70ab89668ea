//! Tables: keys, actions, default action, entries.

use std::rc::Rc;

use abi::{Bits, MatchKind, MatchValue};
use ir::{KeySet, VarKind};
use num_traits::ToPrimitive;

use super::scope::{Binding, Env, Object, Scope};
use super::types::T;
use super::{Exit, Lower, Res, Return};
use crate::ast::{self, Direction, ExprKind, PropertyValue};
use crate::diag::{Diagnostic, did_you_mean};
use crate::source::Span;

/// v1model's size of a table that declares none.
const DEFAULT_SIZE: u64 = 1024;

/// How the priorities of a table's entries are meant.
#[derive(Clone, Copy)]
struct Priorities {
    /// `largest_priority_wins`
    largest_wins: bool,
    /// `priority_delta`
    delta: i64,
}

impl<'a> Lower<'a, '_> {
    pub(super) fn table(
        &mut self,
        decl: &'a ast::Decl,
        table: &'a ast::TableDecl,
        env: &Env<'a>,
    ) -> Res<ir::TableId> {
        let mut out = ir::Table {
            name: self.full_name(decl, &self.path.clone()),
            loc: self.at(decl.name.span),
            keys: Vec::new(),
            actions: Vec::new(),
            default: (0, Vec::new()),
            const_default: false,
            size: DEFAULT_SIZE,
            size_declared: false,
            entries: Vec::new(),
            const_entries: false,
            direct_counter: None,
            direct_meter: None,
            profile: None,
            selector: Vec::new(),
            add_on_miss: false,
            ages: false,
            notifies_idle: false,
        };
        let property = |name: &str| table.properties.iter().find(|p| p.name.text == name);
        let mut types = Vec::new();
        let mut before = Vec::new();
        if let Some(PropertyValue::Key(keys)) = property("key").map(|p| &p.value) {
            let mut made = Vec::new();
            let (statements, result) = self.in_block(|l| {
                for key in keys {
                    made.push(l.key(key, env)?);
                }
                Ok(())
            });
            result?;
            before = statements;
            for (key, ty) in made {
                // A selector's key is no part of an entry: it chooses a member of the entry's group.
                if key.kind == MatchKind::Selector {
                    out.selector.push(key.expr);
                } else {
                    out.keys.push(key);
                    types.push(ty);
                }
            }
        }
        let Some(PropertyValue::Actions(refs)) = property("actions").map(|p| &p.value) else {
            let message = format!("table `{}` has no actions", decl.name.text);
            return self.error_hint("E0503", decl.name.span, message, "add `actions = { NoAction; }`");
        };
        let mut exits = false;
        for action in refs {
            exits |= self.table_action(action, &mut out, env)?;
        }
        self.default_action(property("default_action"), &mut out, env)?;
        if let Some(list) = property("entries") {
            out.const_entries = list.is_const;
            if let PropertyValue::Entries(entries) = &list.value {
                let rules = Priorities {
                    largest_wins: match property("largest_priority_wins").map(|p| &p.value) {
                        Some(PropertyValue::Expr(e)) => {
                            self.condition(e, env)?.as_const().is_none_or(|v| !v.is_zero())
                        }
                        _ => true,
                    },
                    delta: match property("priority_delta").map(|p| &p.value) {
                        Some(PropertyValue::Expr(e)) => self.integer(e, env)?.to_i64().unwrap_or(1).max(1),
                        _ => 1,
                    },
                };
                self.entries(entries, &mut out, &types, rules, env)?;
            }
        }
        for p in &table.properties {
            self.other_property(p, &mut out, env)?;
        }
        let id = ir::TableId(self.out.tables.len() as u32);
        self.out.tables.push(out);
        if !before.is_empty() {
            self.key_statements.insert(id, before);
        }
        if exits {
            self.exiting.push(id);
        }
        Ok(id)
    }

    fn other_property(&mut self, p: &'a ast::TableProperty, out: &mut ir::Table, env: &Env<'a>) -> Res<()> {
        match (p.name.text.as_str(), &p.value) {
            ("key" | "actions" | "entries" | "default_action", _) => Ok(()),
            ("size", PropertyValue::Expr(e)) => match self.integer(e, env)?.to_u64() {
                Some(size) if size > 0 && size <= 1 << 30 => {
                    out.size = size;
                    out.size_declared = true;
                    Ok(())
                }
                _ => self.error("E0503", e.span, "this is not a sensible table size"),
            },
            ("counters" | "psa_direct_counter" | "pna_direct_counter", PropertyValue::Expr(e)) => {
                match named(e, env) {
                    Some(Binding::Object(Object::DirectCounter(id))) => {
                        out.direct_counter = Some(id);
                        Ok(())
                    }
                    _ => self.not_direct(e, "counters", "direct_counter"),
                }
            }
            ("meters" | "psa_direct_meter" | "pna_direct_meter", PropertyValue::Expr(e)) => {
                match named(e, env) {
                    Some(Binding::Object(Object::DirectMeter(id))) => {
                        out.direct_meter = Some(id);
                        Ok(())
                    }
                    _ => self.not_direct(e, "meters", "direct_meter"),
                }
            }
            ("implementation" | "psa_implementation" | "pna_implementation", PropertyValue::Expr(e)) => {
                out.profile = Some(self.implementation(p, e, env)?);
                Ok(())
            }
            ("largest_priority_wins" | "priority_delta", _) => Ok(()),
            ("add_on_miss", PropertyValue::Expr(e)) => {
                out.add_on_miss = matches!(e.kind, ExprKind::Bool(true));
                let inexact = out.keys.iter().find(|k| k.kind != MatchKind::Exact);
                if inexact.is_some() && out.add_on_miss {
                    return self.error("E0503", e.span, "a table with `add_on_miss` has exact keys only");
                }
                Ok(())
            }
            ("idle_timeout_with_auto_delete", PropertyValue::Expr(e)) => {
                out.ages |= matches!(e.kind, ExprKind::Bool(true));
                Ok(())
            }
            ("psa_idle_timeout" | "pna_idle_timeout", PropertyValue::Expr(e)) => {
                let kind = self.enum_member(e, env)?;
                out.ages |= kind.as_deref() == Some("AUTO_DELETE");
                out.notifies_idle = kind.as_deref() == Some("NOTIFY_CONTROL");
                Ok(())
            }
            ("support_timeout", PropertyValue::Expr(e)) => {
                out.notifies_idle = matches!(e.kind, ExprKind::Bool(true));
                Ok(())
            }
            // Every `add_entry` says the profile of its own entry.
            ("default_idle_timeout_for_data_plane_added_entries", _) => Ok(()),
            ("psa_empty_group_action", _) => {
                self.not_yet(p.span, &format!("the table property `{}`", p.name.text))
            }
            (other, _) => {
                let known = ["key", "actions", "entries", "default_action", "size", "counters"];
                let d =
                    Diagnostic::warning("W0402", p.name.span, format!("unknown table property `{other}`"));
                self.diags.push(match did_you_mean(other, known) {
                    Some(near) => d.hint(format!("did you mean `{near}`?")),
                    None => d.hint("it is passed over"),
                });
                Ok(())
            }
        }
    }

    /// The action profile that a property names, or makes in its place.
    fn implementation(
        &mut self,
        p: &'a ast::TableProperty,
        e: &'a ast::Expr,
        env: &Env<'a>,
    ) -> Res<ir::ProfileId> {
        if let Some(Binding::Object(Object::ActionProfile(id))) = named(e, env) {
            return Ok(id);
        }
        if let ExprKind::Call { callee, args, .. } = &e.kind
            && let ExprKind::Name { name: ty, .. } = &callee.kind
        {
            let own = ast::annotation_string(&p.annotations, "name");
            let name = own.unwrap_or_else(|| p.name.text.clone());
            return self.profile(&ty.text, name, args, env, e.span);
        }
        self.not_direct(e, &p.name.text, "action_profile or action_selector")
    }

    fn not_direct<X>(&mut self, e: &ast::Expr, property: &str, what: &str) -> Res<X> {
        let message = format!("`{property}` names a {what}");
        self.error_hint("E0503", e.span, message, "declare one before the table")
    }

    fn key(&mut self, key: &'a ast::KeyElement, env: &Env<'a>) -> Res<(ir::TableKey, T)> {
        let (expr, ty) = self.scalar(&key.expr, env, None)?;
        let kind = self.match_kind(&key.match_kind.text, key.match_kind.span)?;
        let own = ast::annotation_string(&key.annotations, "name");
        let name = own.unwrap_or_else(|| key_name(self.map.text(key.expr.span)));
        Ok((ir::TableKey { name, expr, kind, loc: self.at(key.expr.span) }, ty))
    }

    pub(super) fn match_kind(&mut self, name: &str, span: Span) -> Res<MatchKind> {
        let known = [
            ("exact", MatchKind::Exact),
            ("lpm", MatchKind::Lpm),
            ("ternary", MatchKind::Ternary),
            ("range", MatchKind::Range),
            ("optional", MatchKind::Optional),
            ("selector", MatchKind::Selector),
        ];
        if let Some((_, kind)) = known.iter().find(|(known, _)| *known == name) {
            return Ok(*kind);
        }
        let d = Diagnostic::error("E0503", span, format!("there is no match kind `{name}`"));
        let names = known.map(|(name, _)| name);
        match did_you_mean(name, names) {
            Some(near) => self.report(d.hint(format!("did you mean `{near}`?"))),
            None => self.report(d.hint(format!("v1model has {}", names.join(", ")))),
        }
    }

    /// An action's declaration and the scope it sees, by name.
    fn find_action(
        &mut self,
        e: &'a ast::Expr,
        env: &Env<'a>,
    ) -> Res<(&'a ast::Decl, Env<'a>, &'a [ast::Argument])> {
        let (name, args, global): (_, &'a [ast::Argument], _) = match &e.kind {
            ExprKind::Name { name, global } => (name, &[], *global),
            ExprKind::Call { callee, args, .. } => match &callee.kind {
                ExprKind::Name { name, global } => (name, args, *global),
                _ => return self.error("E0503", e.span, "this is no action"),
            },
            _ => return self.error("E0503", e.span, "this is no action"),
        };
        let scope = if global { env.global() } else { env.clone() };
        match scope.get(&name.text) {
            Some(Binding::Action(decl, home)) => Ok((decl, home, args)),
            Some(_) => self.error("E0503", name.span, format!("`{}` is not an action", name.text)),
            None => self.unknown_name(name, env),
        }
    }

    /// Adds an action to a table; whether it may exit.
    fn table_action(&mut self, action: &'a ast::ActionRef, out: &mut ir::Table, env: &Env<'a>) -> Res<bool> {
        let (decl, home, args) = self.find_action(&action.expr, env)?;
        let (id, exits) = self.make_action(decl, &home, args, env, action.expr.span)?;
        out.actions.push(ir::TableAction {
            action: id,
            default_only: ast::annotation(&action.annotations, "defaultonly").is_some(),
            table_only: ast::annotation(&action.annotations, "tableonly").is_some(),
        });
        Ok(exits)
    }

    /// The IR's action for a table; with directional arguments it is made for this table alone.
    fn make_action(
        &mut self,
        decl: &'a ast::Decl,
        home: &Env<'a>,
        args: &'a [ast::Argument],
        env: &Env<'a>,
        span: Span,
    ) -> Res<(ir::ActionId, bool)> {
        let ast::DeclKind::Action { params, body } = &decl.kind else { return Err(super::Failed) };
        let key = (decl as *const ast::Decl, Rc::as_ptr(home));
        let shared = params.iter().all(|p| p.direction == Direction::None);
        if let (true, Some(known)) = (shared, self.actions.get(&key)) {
            return Ok(*known);
        }
        let id = ir::ActionId(self.out.actions.len() as u32);
        let name = self.action_name(decl);
        let loc = self.at(decl.name.span);
        // Takes its number now: actions made on the way come behind it.
        self.out.actions.push(ir::Action { name: name.clone(), loc, params: Vec::new(), body: Vec::new() });
        let inner = Scope::new(Some(home.clone()));
        let bound: Vec<_> = params.iter().filter(|p| p.direction != Direction::None).collect();
        if bound.len() != args.len() {
            let message =
                format!("action `{}` takes {} arguments in a table's list", decl.name.text, bound.len());
            return self.error_hint("E0503", span, message, "parameters with a direction are bound there");
        }
        let made = self.action_params(params, id, &inner)?;
        for (param, arg) in bound.into_iter().zip(args) {
            let Some(e) = &arg.value else { return self.error("E0503", arg.span, "an argument is missing") };
            let ty = self.ty(&param.ty, &inner)?;
            let val = self.expr(e, env, Some(&ty))?;
            let val = self.convert(val.clone(), &ty, e.span).map(|v| match self.store_of(&val) {
                Some(store) => Binding::Store(store),
                None => Binding::Value(v),
            })?;
            inner.bind(&param.name.text, val);
        }
        let (block, exits) = self.action_body(name, body, &inner)?;
        let slot = &mut self.out.actions[id.index()];
        (slot.params, slot.body) = (made, block);
        if shared {
            self.actions.insert(key, (id, exits));
        }
        Ok((id, exits))
    }

    fn action_params(
        &mut self,
        params: &'a [ast::Parameter],
        id: ir::ActionId,
        inner: &Env<'a>,
    ) -> Res<Vec<ir::Param>> {
        let mut made = Vec::new();
        for param in params.iter().filter(|p| p.direction == Direction::None) {
            let ty = self.ty(&param.ty, inner)?;
            let kind = std::mem::replace(&mut self.kind, VarKind::Param(id));
            let store = self.storage(&param.name.text, &ty, param.span);
            self.kind = kind;
            let store = store?;
            let super::types::Store::Scalar(ir::Place::Var(var), _) = &store else {
                return self.not_yet(param.span, "an action parameter that is no scalar");
            };
            made.push(ir::Param { name: param.name.text.clone(), var: *var });
            inner.bind(&param.name.text, Binding::Store(store));
        }
        Ok(made)
    }

    fn action_body(
        &mut self,
        name: String,
        body: &'a ast::BlockStmt,
        inner: &Env<'a>,
    ) -> Res<(Vec<ir::Stmt>, bool)> {
        let label = self.label();
        let saved = (
            std::mem::replace(&mut self.exit, Exit::Flag(label)),
            std::mem::replace(&mut self.drop_name, name),
            std::mem::take(&mut self.loops),
            self.loc,
        );
        self.returns.push(Return { label, used: false, value: None });
        let (inner_block, result) = self.in_block(|l| l.block(body, inner));
        self.returns.pop();
        (self.exit, self.drop_name, self.loops, self.loc) = saved;
        result?;
        let (mut leaves, mut exits) = (false, false);
        ir::visit::stmts(&inner_block, &mut |s| match &s.kind {
            ir::StmtKind::Break(l) if *l == label => leaves = true,
            ir::StmtKind::Assign { dst: ir::Place::Var(v), .. } if Some(*v) == self.exit_flag => exits = true,
            _ => {}
        });
        let (block, ()) = self.in_block(|l| l.splice(label, inner_block, leaves));
        Ok((block, exits))
    }

    fn default_action(
        &mut self,
        property: Option<&'a ast::TableProperty>,
        out: &mut ir::Table,
        env: &Env<'a>,
    ) -> Res<()> {
        let Some(property) = property else {
            // core.p4's NoAction is what a table without a default does (section 14.2.1.3).
            let (decl, home) = match self.global.get("NoAction") {
                Some(Binding::Action(decl, home)) => (decl, home),
                _ => {
                    return self.error(
                        "E0503",
                        Span::default(),
                        "core.p4's NoAction is missing: include <core.p4>",
                    );
                }
            };
            let (id, _) = self.make_action(decl, &home, &[], env, decl.span)?;
            out.default = (self.index_in(out, id), Vec::new());
            return Ok(());
        };
        out.const_default = property.is_const;
        let PropertyValue::Expr(e) = &property.value else { return Err(super::Failed) };
        let (decl, _, args) = self.find_action(e, env)?;
        let listed =
            out.actions.iter().any(|a| self.out.actions[a.action.index()].name == self.action_name(decl));
        if !listed {
            let message = format!("the default action `{}` is not in the table's `actions`", decl.name.text);
            let hint = format!("add `@defaultonly {};` to the list", decl.name.text);
            return self.error_hint("E0503", e.span, message, hint);
        }
        out.default = self.action_with_values(decl, args, out, env, e.span)?;
        Ok(())
    }

    /// Position of an action in a table's list; one that is not listed is added for the default alone.
    fn index_in(&self, out: &mut ir::Table, id: ir::ActionId) -> u32 {
        match out.actions.iter().position(|a| a.action == id) {
            Some(index) => index as u32,
            None => {
                out.actions.push(ir::TableAction { action: id, default_only: true, table_only: false });
                out.actions.len() as u32 - 1
            }
        }
    }

    /// `a(1, 2)` of an entry or default: which of the table's actions, and the control plane's arguments.
    fn action_with_values(
        &mut self,
        decl: &'a ast::Decl,
        args: &'a [ast::Argument],
        out: &ir::Table,
        env: &Env<'a>,
        span: Span,
    ) -> Res<(u32, Vec<Bits>)> {
        let ast::DeclKind::Action { params, .. } = &decl.kind else { return Err(super::Failed) };
        let name = self.action_name(decl);
        let index = out.actions.iter().position(|a| self.out.actions[a.action.index()].name == name);
        let Some(index) = index else {
            let known: Vec<_> =
                out.actions.iter().map(|a| self.out.actions[a.action.index()].name.clone()).collect();
            let message = format!("`{}` is not one of the table's actions", decl.name.text);
            return self.error_hint("E0503", span, message, format!("they are {}", known.join(", ")));
        };
        // Arguments for parameters with a direction repeat those of the list; the others are values.
        let free: Vec<_> = params.iter().filter(|p| p.direction == Direction::None).collect();
        let args = match args.len() == params.len() {
            true => &args[params.len() - free.len()..],
            false => args,
        };
        if args.len() != free.len() {
            let message = format!(
                "action `{}` takes {} arguments here, not {}",
                decl.name.text,
                free.len(),
                args.len()
            );
            return self.error("E0503", span, message);
        }
        let mut values = Vec::new();
        for (param, arg) in free.into_iter().zip(args) {
            let Some(e) = &arg.value else { return self.error("E0503", arg.span, "an argument is missing") };
            let global = self.global.clone();
            let ty = self.ty(&param.ty, &global)?;
            values.push(self.known(e, &ty, env)?);
        }
        Ok((index as u32, values))
    }

    fn entries(
        &mut self,
        entries: &'a [ast::EntryDecl],
        out: &mut ir::Table,
        types: &[T],
        rules: Priorities,
        env: &Env<'a>,
    ) -> Res<()> {
        let priorities = self.priorities(entries, rules, env)?;
        for (entry, priority) in entries.iter().zip(priorities) {
            let sets = self.keysets(&entry.keyset, types, env)?;
            let matches = out.keys.iter().zip(sets).map(|(k, s)| self.match_value(k, s, entry.span));
            let matches = matches.collect::<Res<Vec<_>>>()?;
            let (decl, _, args) = self.find_action(&entry.action, env)?;
            let (action, args) = self.action_with_values(decl, args, out, env, entry.action.span)?;
            out.entries.push(ir::TableEntry { loc: self.at(entry.span), matches, priority, action, args });
        }
        // Best first, whatever the order of the source; entries of one priority keep it.
        out.entries.sort_by_key(|e| std::cmp::Reverse(e.priority));
        Ok(())
    }

    /// Section 14.2.1.4: as given, or counted on from the one before; the larger wins in the result.
    fn priorities(
        &mut self,
        entries: &'a [ast::EntryDecl],
        rules: Priorities,
        env: &Env<'a>,
    ) -> Res<Vec<i32>> {
        let step = if rules.largest_wins { -rules.delta } else { rules.delta };
        let mut given = Vec::new();
        for entry in entries {
            given.push(match &entry.priority {
                Some(e) => {
                    match self.integer(e, env)?.to_i64().filter(|p| (0..i32::MAX.into()).contains(p)) {
                        Some(priority) => Some(priority),
                        None => return self.error("E0503", e.span, "this is no sensible priority"),
                    }
                }
                None => None,
            });
        }
        if given.iter().any(Option::is_some) && given.first().is_some_and(Option::is_none) {
            let span = entries.first().map_or(Span::default(), |e| e.span);
            let hint = "give it one, or none to any";
            return self.error_hint("E0503", span, "the first entry has no priority, and others have", hint);
        }
        // The annotation of older programs: the smaller wins, and an entry without one has its position.
        if entries.iter().any(|e| ast::annotation(&e.annotations, "priority").is_some()) {
            let number =
                |e: &ast::EntryDecl| match ast::annotation(&e.annotations, "priority").map(|a| &a.body) {
                    Some(ast::AnnotationBody::Unstructured(t)) => {
                        t.first().and_then(|(t, _)| t.parse::<i32>().ok())
                    }
                    _ => None,
                };
            let all = entries.iter().zip(1..).map(|(e, at)| i32::MAX - number(e).unwrap_or(at));
            return Ok(all.collect());
        }
        let first = if rules.largest_wins { 1 + rules.delta * (entries.len() as i64 - 1).max(0) } else { 1 };
        let mut next = first;
        let mut all = Vec::new();
        for priority in given {
            let priority = priority.unwrap_or(next);
            next = priority + step;
            let larger_wins = if rules.largest_wins { priority } else { i64::from(i32::MAX) - priority };
            all.push(larger_wins.clamp(0, i32::MAX.into()) as i32);
        }
        Ok(all)
    }

    fn match_value(&mut self, key: &ir::TableKey, set: KeySet, span: Span) -> Res<MatchValue> {
        let width = key.expr.ty.width();
        Ok(match (key.kind, set) {
            (MatchKind::Exact, KeySet::Value(v)) => MatchValue::Exact(v),
            (MatchKind::Optional, KeySet::Value(v)) => MatchValue::Optional(Some(v)),
            (MatchKind::Optional, KeySet::Any) => MatchValue::Optional(None),
            (MatchKind::Lpm, KeySet::Value(v)) => MatchValue::Lpm(v, width),
            (MatchKind::Lpm, KeySet::Any) => MatchValue::Lpm(Bits::zero(width), 0),
            (MatchKind::Lpm, KeySet::Mask(v, m)) => {
                let len = (0..width).filter(|&b| m.get(b)).count() as u32;
                if m != Bits::prefix_mask(width, len) {
                    return self.error("E0503", span, "the mask of an lpm key has its ones at the front");
                }
                MatchValue::Lpm(v.and(&m), len)
            }
            (MatchKind::Ternary, KeySet::Value(v)) => MatchValue::Ternary(v, Bits::ones(width)),
            (MatchKind::Ternary, KeySet::Mask(v, m)) => MatchValue::Ternary(v.and(&m), m),
            (MatchKind::Ternary, KeySet::Any) => MatchValue::Ternary(Bits::zero(width), Bits::zero(width)),
            (MatchKind::Range, KeySet::Range { lo, hi, .. }) => MatchValue::Range(lo, hi),
            (MatchKind::Range, KeySet::Value(v)) => MatchValue::Range(v.clone(), v),
            (MatchKind::Range, KeySet::Any) => MatchValue::Range(Bits::zero(width), Bits::ones(width)),
            (kind, _) => {
                let message =
                    format!("key `{}` is matched as {kind:?}, which this set does not fit", key.name);
                return self.error("E0503", span, message.to_lowercase());
            }
        })
    }

    /// The number of an action in a table's list, by the name a `switch` uses.
    pub(super) fn action_index(
        &mut self,
        table: ir::TableId,
        name: &'a ast::Name,
        env: &Env<'a>,
    ) -> Option<usize> {
        let Some(Binding::Action(decl, _)) = env.get(&name.text) else { return None };
        let full = self.action_name(decl);
        let table = &self.out.tables[table.index()];
        table.actions.iter().position(|a| self.out.actions[a.action.index()].name == full)
    }
}

/// What an expression names, if it is a name.
/// What a plain name stands for.
pub(super) fn named<'a>(e: &ast::Expr, env: &Env<'a>) -> Option<Binding<'a>> {
    match &e.kind {
        ExprKind::Name { name, .. } => env.get(&name.text),
        _ => None,
    }
}

/// The control plane's name of a key: its text, with `isValid()` as `$valid$` (as P4Runtime has it).
fn key_name(text: &str) -> String {
    let text: String = text.split_whitespace().collect();
    match text.strip_suffix(".isValid()") {
        Some(header) => format!("{header}.$valid$"),
        None => text,
    }
}
