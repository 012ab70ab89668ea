//! Tables: keys, actions, default action and entries, and their application.

use abi::{Bits, MatchKind, MatchValue};
use ir::{Expr, KeySet, Place, StmtKind as Ir, Ty, VarId, VarKind};
use num_traits::ToPrimitive;

use super::object::Object;
use super::storage::{Store, scalar};
use super::value::{Val, read};
use super::{Exit, Learning, Lower, MadeAction, Res};
use crate::ast::{self, Direction, KeyElement, PropertyValue, TableDecl};
use crate::check::{Arg, Args, DeclId, Type};
use crate::source::Span;

/// The size of a table that declares none, as in v1model.
const DEFAULT_SIZE: u64 = 1024;
/// The most entries of a table.
const MAX_ENTRIES: u64 = 1 << 30;

/// What the application of a table needs to know about it.
#[derive(Clone)]
pub struct TableInfo<'a> {
    /// For each key of a table whose keys need statements: the variable that gets the value before the table is
    /// applied.
    keys: Vec<(VarId, &'a ast::Expr)>,
    /// Whether some action may execute `exit`.
    exits: bool,
}

/// The variables that are set to whether the table was hit, and to the number of the action that ran.
type Applied = (Option<VarId>, Option<VarId>);

/// How the priorities of a table's entries are interpreted.
#[derive(Clone, Copy)]
struct Priorities {
    /// The table property `largest_priority_wins`.
    largest_wins: bool,
    /// The table property `priority_delta`.
    delta: i64,
}

impl<'a> Lower<'_, 'a> {
    pub(super) fn table(&mut self, decl: &'a ast::Decl, table: &'a TableDecl) -> Res<()> {
        let mut out = ir::Table {
            name: self.full_name(decl, &self.path.clone()).into(),
            loc: self.at(decl.name.span),
            size: DEFAULT_SIZE,
            ..ir::Table::default()
        };
        let mut made = TableInfo { keys: Vec::new(), exits: false };
        let mut types = Vec::new();
        if let Some(PropertyValue::Key(keys)) = table.property("key").map(|p| &p.value) {
            made.keys = self.keys(keys, &mut out)?;
            // A key with match kind `selector` is not matched by entries. It chooses a member of the entry's group.
            let of_entries = keys.iter().filter(|k| k.match_kind.text != "selector");
            types = of_entries.map(|k| self.ty(&k.expr)).collect();
        }
        for p in &table.properties {
            if let PropertyValue::Expr(e) = &p.value {
                self.other_property(p, e, &mut out)?;
            }
        }
        if let Some(PropertyValue::Actions(refs)) = table.property("actions").map(|p| &p.value) {
            let const_entries = table.property("entries").is_some_and(|p| p.is_const);
            let learns = out.learns() && !const_entries;
            if out.direct_register.is_some() && !learns {
                let what = "a direct register belongs to a table that does not learn (`add_on_miss = true`, exact keys)";
                return self.limit("E0528", decl.span, what);
            }
            self.learning =
                Some(Learning { id: ir::TableId(self.out.tables.len() as u32), learns, actions: refs });
            for action in refs {
                made.exits |= self.table_action(action, &mut out)?;
            }
            self.learning = None;
        }
        self.default_action(table, &mut out, decl.span)?;
        if let Some(list) = table.property("entries")
            && let PropertyValue::Entries(entries) = &list.value
        {
            out.const_entries = list.is_const;
            self.entries(entries, table, &mut out, &types)?;
            // Nothing is ever added to const entries, so all of them have room.
            if list.is_const {
                out.size = out.size.max(out.entries.len() as u64);
            }
        }
        let id = ir::TableId(self.out.tables.len() as u32);
        self.out.tables.push(out);
        self.tables.insert(id, made);
        self.scope.objects.insert(decl.id, Object::Table(id));
        Ok(())
    }

    // ---- applying ----

    /// Applies a table. Returns the variables of the results that the caller asks for.
    pub(super) fn apply_table(&mut self, id: DeclId, hit: bool, action: bool, span: Span) -> Res<Applied> {
        let Some(Object::Table(table)) = self.scope.objects.get(&id).cloned() else {
            // The table was left out because a limit was reported in it.
            return if self.failed {
                Err(super::Failed)
            } else {
                self.bug(span, "a table that was never made")
            };
        };
        use ir::Role::{Egress, Ingress, PreControl};
        if !matches!(self.role, Ingress | Egress | PreControl) {
            let what = "a table is applied in a control that only handles checksums or headers";
            return self.limit("E0524", span, what);
        }
        let made = self.tables.get(&table).cloned().unwrap_or(TableInfo { keys: Vec::new(), exits: false });
        self.set_keys(&made.keys)?;
        let hit = hit.then(|| self.var("$hit", Ty::Bool, VarKind::Local));
        let action = action.then(|| self.var("$action", Ty::Bit(32), VarKind::Local));
        if !made.exits {
            self.push(Ir::Apply { table, hit, action });
            return Ok((hit, action));
        }
        let flag = self.exit_flag();
        self.push(Ir::Assign { dst: Place::Var(flag), src: Expr::bool(false) });
        self.push(Ir::Apply { table, hit, action });
        let (then, left) = self.in_block(|l| l.exit(span));
        left?;
        self.push(Ir::If { cond: read(&Place::Var(flag), Ty::Bool), then, otherwise: Vec::new() });
        Ok((hit, action))
    }

    fn set_keys(&mut self, keys: &[(VarId, &'a ast::Expr)]) -> Res<()> {
        let vals = self.values(&keys.iter().map(|(_, e)| *e).collect::<Vec<_>>())?;
        for ((var, e), val) in keys.iter().zip(vals) {
            match val {
                Val::Scalar(src) => self.push(Ir::Assign { dst: Place::Var(*var), src }),
                _ => return self.bug(e.span, "a key that is no scalar"),
            }
        }
        Ok(())
    }

    // ---- keys ----

    /// The keys of a table. If one of them needs statements, all are assigned to variables before the table is applied.
    fn keys(&mut self, keys: &'a [KeyElement], out: &mut ir::Table) -> Res<Vec<(VarId, &'a ast::Expr)>> {
        let (statements, vals) =
            self.in_block(|l| l.values(&keys.iter().map(|k| &k.expr).collect::<Vec<_>>()));
        let mut evaluated = Vec::new();
        for (key, val) in keys.iter().zip(vals?) {
            let Val::Scalar(mut expr) = val else {
                return self.bug(key.expr.span, "a key that is no scalar");
            };
            let kind = self.match_kind(&key.match_kind.text, key.match_kind.span)?;
            let own = ast::annotation_string(&key.annotations, "name");
            let name = own.unwrap_or_else(|| key_name(self.map.text(key.expr.span)));
            if !statements.is_empty() {
                let var = self.var("$key", expr.ty, VarKind::Local);
                evaluated.push((var, &key.expr));
                expr = read(&Place::Var(var), expr.ty);
            }
            if kind == MatchKind::Selector {
                out.selector.push(expr);
                continue;
            }
            out.keys.push(ir::TableKey { name: name.into(), expr, kind, loc: self.at(key.expr.span) });
        }
        Ok(evaluated)
    }

    pub(super) fn match_kind(&mut self, name: &str, span: Span) -> Res<MatchKind> {
        Ok(match name {
            "exact" => MatchKind::Exact,
            "lpm" => MatchKind::Lpm,
            "ternary" => MatchKind::Ternary,
            "range" => MatchKind::Range,
            "optional" => MatchKind::Optional,
            "selector" => MatchKind::Selector,
            other => {
                return self.limit("E0526", span, &format!("`{other}` is a match kind of the program's own"));
            }
        })
    }

    // ---- actions ----

    /// The control-plane name of an action.
    pub(super) fn action_name(&self, decl: &ast::Decl) -> String {
        self.full_name(decl, if self.is_global(decl) { "" } else { &self.path })
    }

    fn is_global(&self, decl: &ast::Decl) -> bool {
        self.typed.program.decls.iter().any(|d| d.id == decl.id)
    }

    /// The action that `a`, `.a` or `a(x)` refers to, and its arguments.
    fn named_action(&mut self, e: &'a ast::Expr) -> Res<(&'a ast::Decl, &'a [ast::Argument])> {
        let (callee, args) = e.called();
        match self.resolved(callee).and_then(|id| self.typed.syntax(id)) {
            Some(decl) if matches!(decl.kind, ast::DeclKind::Action { .. }) => Ok((decl, args)),
            _ => self.bug(e.span, "this is no action"),
        }
    }

    /// Adds an action to a table. Returns whether the action may execute `exit`.
    fn table_action(&mut self, action: &'a ast::ActionRef, out: &mut ir::Table) -> Res<bool> {
        let (decl, args) = self.named_action(&action.expr)?;
        let (id, exits) = self.make_action(decl, args, action.expr.span)?;
        out.actions.push(ir::TableAction {
            action: id,
            default_only: ast::annotation(&action.annotations, "defaultonly").is_some(),
            table_only: ast::annotation(&action.annotations, "tableonly").is_some(),
        });
        Ok(exits)
    }

    /// The IR's action for an action of a table. An action with bound arguments is created for each table anew.
    fn make_action(&mut self, decl: &'a ast::Decl, args: &'a [ast::Argument], span: Span) -> Res<MadeAction> {
        let ast::DeclKind::Action { params, body } = &decl.kind else {
            return self.bug(span, "this is no action");
        };
        let key = (decl.id, if self.is_global(decl) { 0 } else { self.instance });
        let shared = params.iter().all(|p| p.direction == Direction::None);
        if let (true, Some(known)) = (shared, self.actions.get(&key)) {
            return Ok(*known);
        }
        let id = ir::ActionId(self.out.actions.len() as u32);
        let (name, loc) = (self.action_name(decl), self.at(decl.name.span));
        // The number is taken now, because lowering the body may create further actions.
        self.out.actions.push(ir::Action {
            name: name.clone().into(),
            loc,
            params: Vec::new(),
            body: Vec::new(),
        });
        let made = self.action_data(params, id)?;
        let bound = bound_arguments(params, args);
        let (block, exits) = self.action_body(name, body, &bound, span)?;
        let slot = &mut self.out.actions[id.index()];
        (slot.params, slot.body) = (made, block);
        // An action that adds entries or uses a direct register knows its table, so each table has its own.
        let mut knows = false;
        ir::visit::stmts(&self.out.actions[id.index()].body, &mut |s| {
            use ir::Call::{AddEntry, DirectRegisterRead, DirectRegisterWrite};
            let Ir::Call(call) = &s.kind else { return };
            knows |= matches!(call, AddEntry { .. } | DirectRegisterRead { .. } | DirectRegisterWrite { .. });
        });
        if shared && !knows {
            self.actions.insert(key, (id, exits));
        }
        Ok((id, exits))
    }

    /// The directionless parameters of an action, which the control plane sets.
    fn action_data(&mut self, params: &'a [ast::Parameter], id: ir::ActionId) -> Res<Vec<ir::Param>> {
        let mut made = Vec::new();
        for param in params.iter().filter(|p| p.direction == Direction::None) {
            let ty = self.decl_ty(param.id);
            let Some(ty) = scalar(&ty).filter(|t| !t.is_varbit()) else {
                return self.limit("E0527", param.span, &format!("the data of this action is a `{ty}`"));
            };
            let var = self.var(&param.name.text, ty, VarKind::Param(id));
            // The control plane uses the name in P4Info.
            let annotated = ast::annotation_string(&param.annotations, "name");
            made.push(ir::Param { name: annotated.unwrap_or_else(|| param.name.text.clone()).into(), var });
            self.scope.stores.insert(param.id, Store::Scalar(Place::Var(var), ty));
        }
        Ok(made)
    }

    /// The body of a table's action. Arguments in the action list are evaluated and copied in and out each time the
    /// action runs.
    fn action_body(
        &mut self,
        name: String,
        body: &'a ast::BlockStmt,
        bound: &Args<'a>,
        span: Span,
    ) -> Res<(Vec<ir::Stmt>, bool)> {
        let label = self.label();
        let saved = (
            std::mem::replace(&mut self.exit, Exit::Flag(label)),
            std::mem::replace(&mut self.drop_name, name),
            std::mem::take(&mut self.copies),
            self.loc,
        );
        let (block, result) = self.in_block(|l| {
            let copies = l.copy_in(bound, &crate::check::Subst::default(), span)?;
            l.copies.push(copies.clone());
            l.body(body, None)?;
            l.copies.pop();
            l.copy_out(&copies, span)
        });
        (self.exit, self.drop_name, self.copies, self.loc) = saved;
        result?;
        let (mut leaves, flag) = (false, self.exit_flag);
        ir::visit::stmts(&block, &mut |s| leaves |= matches!(&s.kind, Ir::Break(l) if *l == label));
        if !leaves || flag.is_none() {
            return Ok((block, false));
        }
        let (block, ()) = self.in_block(|l| l.push(Ir::Block { label, body: block }));
        Ok((block, true))
    }

    fn default_action(&mut self, table: &'a TableDecl, out: &mut ir::Table, span: Span) -> Res<()> {
        if let Some(e) = table.value("default_action") {
            out.const_default = table.property("default_action").is_some_and(|p| p.is_const);
            out.default = self.action_with_values(e, out)?;
            return Ok(());
        }
        // The default action of a table that declares none is core.p4's `NoAction` (section 14.2.1.3).
        let named =
            |d: &&ast::Decl| d.name.text == "NoAction" && matches!(d.kind, ast::DeclKind::Action { .. });
        let Some(decl) = self.typed.program.decls.iter().find(named) else {
            return self.bug(span, "a table without a default action");
        };
        let (id, _) = self.make_action(decl, &[], decl.span)?;
        let at = out.actions.iter().position(|a| a.action == id).unwrap_or_else(|| {
            out.actions.push(ir::TableAction { action: id, default_only: true, table_only: false });
            out.actions.len() - 1
        });
        out.default = (at as u32, Vec::new());
        Ok(())
    }

    /// The action of an entry or of `default_action`, such as `a(1, 2)`: its index in the table, and the directionless
    /// arguments.
    fn action_with_values(&mut self, e: &'a ast::Expr, out: &ir::Table) -> Res<(u32, Vec<Bits>)> {
        let ((decl, args), span) = (self.named_action(e)?, e.span);
        let ast::DeclKind::Action { params, .. } = &decl.kind else {
            return self.bug(span, "this is no action");
        };
        let name = self.action_name(decl);
        let index = out.actions.iter().position(|a| self.out.actions[a.action.index()].name == name);
        let Some(index) = index else { return self.bug(span, "an action that the table does not list") };
        // An entry may repeat the arguments for parameters with a direction. They come first.
        let free: Vec<_> = params.iter().filter(|p| p.direction == Direction::None).collect();
        let bound = args.len().saturating_sub(free.len());
        let mut values = Vec::new();
        for (i, param) in free.into_iter().enumerate() {
            let named = args.iter().find(|a| a.name.as_ref().is_some_and(|n| n.text == param.name.text));
            let given = named.or(args.get(bound + i)).and_then(|a| a.value.as_ref());
            let ty = self.decl_ty(param.id);
            let value = given.or(param.default.as_ref()).and_then(|e| self.bits(&self.known(e)?, &ty));
            match value {
                Some(bits) => values.push(bits),
                None => return self.bug(span, "an argument that is not known"),
            }
        }
        Ok((index as u32, values))
    }

    // ---- entries ----

    fn entries(
        &mut self,
        entries: &'a [ast::EntryDecl],
        table: &'a TableDecl,
        out: &mut ir::Table,
        types: &[Type],
    ) -> Res<()> {
        let rules = Priorities {
            largest_wins: table
                .value("largest_priority_wins")
                .and_then(|e| self.known(e)?.as_bool())
                .unwrap_or(true),
            delta: table
                .value("priority_delta")
                .and_then(|e| self.known_number(e)?.to_i64())
                .unwrap_or(1)
                .max(1),
        };
        let priorities = self.priorities(entries, rules)?;
        for (entry, priority) in entries.iter().zip(priorities) {
            let sets = self.keysets(&entry.keyset, types)?;
            let matches = out.keys.iter().zip(sets).map(|(k, s)| self.match_value(k, s, entry.span));
            let matches = matches.collect::<Res<Vec<_>>>()?;
            let (action, args) = self.action_with_values(&entry.action, out)?;
            out.entries.push(ir::TableEntry { loc: self.at(entry.span), matches, priority, action, args });
        }
        // The entry with the best priority comes first. Entries of equal priority keep the order of the source.
        out.entries.sort_by_key(|e| std::cmp::Reverse(e.priority));
        Ok(())
    }

    /// Section 14.2.1.4: an entry has the priority that it gives, or the next one after the entry before it. In the
    /// result, the larger wins.
    fn priorities(&mut self, entries: &'a [ast::EntryDecl], rules: Priorities) -> Res<Vec<i32>> {
        // Older programs use `@priority`: the smaller number wins, and an entry without it has its position.
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
        let step = if rules.largest_wins { -rules.delta } else { rules.delta };
        let count = i64::try_from(entries.len()).unwrap_or(i64::MAX).saturating_sub(1);
        let mut next =
            if rules.largest_wins { rules.delta.saturating_mul(count).saturating_add(1) } else { 1 };
        let mut all = Vec::new();
        for entry in entries {
            let priority = match &entry.priority {
                Some(e) => self.size(e, i32::MAX as u64)? as i64,
                None => next,
            };
            next = priority.saturating_add(step);
            let larger_wins =
                if rules.largest_wins { priority } else { i64::from(i32::MAX).saturating_sub(priority) };
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
                MatchValue::Lpm(v.and(&m), len)
            }
            (MatchKind::Ternary, KeySet::Value(v)) => MatchValue::Ternary(v, Bits::ones(width)),
            (MatchKind::Ternary, KeySet::Mask(v, m)) => MatchValue::Ternary(v.and(&m), m),
            (MatchKind::Ternary, KeySet::Any) => MatchValue::Ternary(Bits::zero(width), Bits::zero(width)),
            (MatchKind::Range, KeySet::Range { lo, hi, .. }) => MatchValue::Range(lo, hi),
            (MatchKind::Range, KeySet::Value(v)) => MatchValue::Range(v.clone(), v),
            (MatchKind::Range, KeySet::Any) => MatchValue::Range(Bits::zero(width), Bits::ones(width)),
            _ => return self.bug(span, "a set that its match kind does not take"),
        })
    }

    // ---- other properties ----

    fn other_property(&mut self, p: &ast::TableProperty, e: &'a ast::Expr, out: &mut ir::Table) -> Res<()> {
        // NIKSS takes lists of direct counters and meters, so programs for it have lists of one.
        let e = match &e.kind {
            ast::ExprKind::List { items, .. } if items.len() == 1 => &items[0],
            _ => e,
        };
        let known = |l: &Self| l.known(e).and_then(|v| v.as_bool()).unwrap_or(false);
        match p.name.text.as_str() {
            "size" => {
                let size = self.size(e, MAX_ENTRIES)?;
                (out.size, out.size_declared) = if size == 0 { (DEFAULT_SIZE, false) } else { (size, true) };
            }
            "counters" | "psa_direct_counter" | "pna_direct_counter" => {
                match self.object_of_property(p, e)? {
                    Object::DirectCounter(id) => out.direct_counter = Some(id),
                    _ => return self.limit("E0528", e.span, "this is no direct counter"),
                }
            }
            "meters" | "psa_direct_meter" | "pna_direct_meter" => match self.object_of_property(p, e)? {
                Object::DirectMeter(id) => out.direct_meter = Some(id),
                _ => return self.limit("E0528", e.span, "this is no direct meter"),
            },
            "strait_direct_register" => match self.object_of_property(p, e)? {
                Object::DirectRegister(name, ty) => {
                    out.direct_register = Some(ir::DirectRegister { name: name.into(), ty });
                }
                _ => return self.limit("E0528", e.span, "this is no direct register"),
            },
            "implementation" | "psa_implementation" | "pna_implementation" => {
                match self.object_of_property(p, e)? {
                    Object::ActionProfile(id) => out.profile = Some(id),
                    _ => return self.limit("E0528", e.span, "this is no action profile or selector"),
                }
            }
            "strait_early_lookup" => out.early_lookup = known(self),
            "add_on_miss" => out.add_on_miss = known(self),
            "idle_timeout_with_auto_delete" => out.ages |= known(self),
            "psa_idle_timeout" | "pna_idle_timeout" => {
                let kind = self.known_member(e);
                out.ages |= kind.as_deref() == Some("AUTO_DELETE");
                out.notifies_idle = kind.as_deref() == Some("NOTIFY_CONTROL");
            }
            "support_timeout" => out.notifies_idle = known(self),
            "psa_empty_group_action" | "pna_empty_group_action" => {
                return self.limit("E0528", p.span, &format!("this table has a `{}`", p.name.text));
            }
            _ => {}
        }
        Ok(())
    }
}

/// The arguments in a table's action list, with their parameters.
fn bound_arguments<'a>(params: &'a [ast::Parameter], args: &'a [ast::Argument]) -> Vec<(DeclId, Arg<'a>)> {
    let directed = params.iter().filter(|p| p.direction != Direction::None);
    let find = |i: usize, p: &ast::Parameter| {
        let named = args.iter().find(|a| a.name.as_ref().is_some_and(|n| n.text == p.name.text));
        named.or(args.get(i).filter(|a| a.name.is_none())).and_then(|a| a.value.as_ref())
    };
    let bound = directed.enumerate().map(|(i, p)| match find(i, p) {
        Some(e) => (p.id, Arg::Given(e)),
        None => (p.id, p.default.as_ref().map_or(Arg::Omitted, Arg::Default)),
    });
    bound.collect()
}

/// The control-plane name of a key: its text. P4Runtime writes `isValid()` as `$valid$`.
fn key_name(text: &str) -> String {
    let text: String = text.split_whitespace().collect();
    match text.strip_suffix(".isValid()") {
        Some(header) => format!("{header}.$valid$"),
        None => text,
    }
}
