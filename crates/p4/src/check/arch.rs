//! Rules of the architectures about their externs: which object may belong to which table, and where extern functions
//! and methods may be called. These rules need all tables and calls, so they are checked at the end of the program.

use crate::map::Map;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use super::typed::{Arg, Callee, Decl, Kind};
use super::types::{DeclId, Type};
use super::value::Value;
use super::{Checker, Place};
use crate::ast::{self, DeclKind, Expr, ExprId, ExprKind, PropertyValue, TableDecl};
use crate::diag::Diagnostic;
use crate::source::Span;

/// A call, and where it is.
pub(super) struct CallSite {
    pub callee: Callee,
    pub call: ExprId,
    /// The action, control, parser or function that contains the call.
    pub owner: Option<DeclId>,
    pub place: Place,
    pub span: Span,
}

/// Counters, meters and registers with a cell for each entry of their table.
const DIRECT: [&str; 5] =
    ["direct_counter", "direct_meter", "DirectCounter", "DirectMeter", "DirectRegister"];

/// Functions of PNA that change the expiry time of the entry that was hit.
const EXPIRY: [&str; 2] = ["restart_expire_timer", "set_entry_expire_time"];

/// A table: its declaration and its syntax.
struct TableInfo<'a> {
    id: DeclId,
    name: String,
    syntax: &'a TableDecl,
    actions: Vec<DeclId>,
}

impl<'a> Checker<'a, '_> {
    /// Checks all these rules.
    pub(super) fn architecture(&mut self) {
        let tables = self.tables();
        self.direct_objects(&tables);
        self.single_implementation(&tables);
        self.meter_results();
        for site in std::mem::take(&mut self.call_sites) {
            let Callee::Function(id) = &site.callee else { continue };
            let name = self.decl(*id).filter(|d| d.kind == Kind::ExternFunction).map(|d| d.name.to_string());
            match name.as_deref() {
                Some("add_entry") => self.add_entry(&site, &tables),
                Some(name) if EXPIRY.contains(&name) => self.expiry(&site, name, &tables),
                Some("mirror_packet") => self.mirror_packet(&site),
                _ => {}
            }
        }
    }

    fn tables(&self) -> Vec<TableInfo<'a>> {
        let decls = self.typed.decls.iter().enumerate();
        let all = decls.filter_map(|(i, d)| Some((DeclId(i as u32), d.as_ref()?)));
        all.filter_map(|(id, d)| {
            Some(TableInfo { id, name: d.name.to_string(), syntax: d.table?, actions: d.members.clone() })
        })
        .collect()
    }

    /// Whether a table property is `true`.
    fn is_true(&self, table: &TableDecl, name: &str) -> bool {
        table.value(name).and_then(|e| self.known_value(e)?.as_bool()) == Some(true)
    }

    /// The object that an expression refers to.
    fn object_of(&self, e: &Expr) -> Option<(DeclId, &Decl<'a>)> {
        let id = self.typed.resolved(e.id)?;
        Some((id, self.decl(id)?))
    }

    /// Checks that a direct counter or meter belongs to one table, and is used in actions of that table.
    fn direct_objects(&mut self, tables: &[TableInfo<'a>]) {
        let direct = |d: &Decl<'_>| match &d.ty {
            Type::Extern(n) => DIRECT.contains(&&*n.name),
            _ => false,
        };
        let mut owners: Vec<(DeclId, &TableInfo<'a>)> = Vec::new();
        let mut problems = Vec::new();
        for table in tables {
            for p in &table.syntax.properties {
                let PropertyValue::Expr(e) = &p.value else { continue };
                for e in e.items() {
                    let Some((id, d)) = self.object_of(e).filter(|(_, d)| direct(d)) else { continue };
                    if let Some((_, first)) = owners.iter().find(|(o, t)| *o == id && t.id != table.id) {
                        let text = format!("`{}` belongs to table `{}` already", d.name, first.name);
                        let d = Diagnostic::error("E0419", e.span, text);
                        problems
                            .push(d.hint("a direct counter or meter has a cell for each entry of one table"));
                    }
                    owners.push((id, table));
                }
            }
        }
        for site in &self.call_sites {
            let Callee::Method(_, Some(object)) = &site.callee else { continue };
            let Some(d) = self.decl(*object).filter(|d| direct(d)) else { continue };
            let owner = owners.iter().find(|(id, _)| id == object).map(|(_, t)| *t);
            problems.extend(self.direct_use(site, d, owner, tables));
        }
        problems.into_iter().for_each(|d| self.report(d));
    }

    /// A use of a direct counter or meter outside of its table's actions. As in p4c, it is a warning for direct
    /// counters of v1model, which count nothing there, and an error for those of PSA and PNA.
    fn direct_use(
        &self,
        site: &CallSite,
        d: &Decl<'a>,
        owner: Option<&TableInfo<'a>>,
        tables: &[TableInfo<'a>],
    ) -> Option<Diagnostic> {
        let hint =
            "a direct counter or meter is named by a property of its table, and used in that table's actions";
        let (counter, v1model) = match &d.ty {
            Type::Extern(n) => (&*n.name == "direct_counter", n.name.starts_with("direct")),
            _ => (false, false),
        };
        let action = site.owner.filter(|_| site.place == Place::Action);
        let others =
            |a: DeclId| tables.iter().find(|t| t.actions.contains(&a) && owner.is_none_or(|o| o.id != t.id));
        let of_owner = |a: DeclId| owner.is_some_and(|o| o.actions.contains(&a));
        let (text, wrong) = match (owner, action) {
            (_, None) => (format!("`{}` is direct: it can only be used in an action", d.name), !counter),
            (None, _) => (format!("`{}` is direct, and no table names it", d.name), !counter),
            (Some(t), Some(a)) if !of_owner(a) && others(a).is_some() => {
                (format!("`{}` belongs to table `{}`, and this is no action of it", d.name, t.name), !v1model)
            }
            _ => return None,
        };
        let problem = if wrong {
            Diagnostic::error("E0419", site.span, text)
        } else {
            Diagnostic::warning("W0419", site.span, format!("{text}: this does nothing"))
        };
        Some(problem.also(d.span, "declared here").hint(hint))
    }

    /// Checks that a table has at most one action profile or selector.
    fn single_implementation(&mut self, tables: &[TableInfo<'a>]) {
        for table in tables {
            for name in ["implementation", "psa_implementation", "pna_implementation"] {
                if let Some(e) = table.syntax.value(name).filter(|e| matches!(e.kind, ExprKind::List { .. }))
                {
                    self.error("E0414", e.span, format!("`{name}` names one action profile or selector"));
                }
            }
        }
    }

    /// v1model: the result of a `direct_meter<T>` is a number, or an enum whose members stand for numbers.
    fn meter_results(&mut self) {
        let wrong = |d: &Decl<'_>| match &d.ty {
            Type::Extern(n) if &*n.name == "direct_meter" => {
                let result = n.args.first().map(Type::underlying);
                result.is_some_and(|t| {
                    !matches!(t, Type::Bit(_) | Type::Enum(_) | Type::Bad | Type::Param(_) | Type::Infer(_))
                })
            }
            _ => false,
        };
        let all: Vec<Decl<'a>> = self.typed.decls.iter().flatten().filter(|d| wrong(d)).cloned().collect();
        for d in all.into_iter().filter(|d| d.kind == Kind::Instance) {
            let text = format!("`{}` gives a number, `bit<W>`: 0 green, 1 yellow, 2 red", d.name);
            self.report(Diagnostic::error("E0419", d.span, text).hint("write `direct_meter<bit<2>>`"));
        }
    }

    /// PNA: `add_entry` must be called in the default action of the table that gets the entry.
    fn add_entry(&mut self, site: &CallSite, tables: &[TableInfo<'a>]) {
        let default = |c: &Self, t: &TableInfo<'a>| -> Option<DeclId> {
            let (callee, _) = t.syntax.value("default_action")?.called();
            c.typed.resolved(callee.id)
        };
        let own = site.owner.filter(|_| site.place == Place::Action);
        let homes: Vec<&TableInfo<'a>> =
            tables.iter().filter(|t| own.is_some() && default(self, t) == own).collect();
        let adding = homes.iter().all(|t| self.is_true(t.syntax, "add_on_miss"));
        if homes.is_empty() || !adding {
            let text =
                "`add_entry` can only be called in the default action of a table with `add_on_miss = true`";
            self.error("E0419", site.span, text);
            return;
        }
        let args = self.typed.call(site.call).map(|c| c.args.clone()).unwrap_or_default();
        let Some((_, Arg::Given(e))) = args.first() else { return };
        let Some(Value::Str(wanted)) = self.known_value(e) else { return };
        for table in homes {
            let found = table.actions.iter().find(|a| self.decl(**a).is_some_and(|d| d.name == wanted));
            let text = match found {
                None => format!("table `{}` has no action `{wanted}`", table.name),
                Some(id) if default(self, table) == Some(*id) => {
                    format!(
                        "`{wanted}` is the default action of table `{}`: entries need another",
                        table.name
                    )
                }
                Some(id) if self.listed_with(table, *id, "defaultonly") => {
                    format!("`{wanted}` is `@defaultonly` in table `{}`: entries need another", table.name)
                }
                Some(id) => {
                    let data = args.get(1);
                    self.entry_data(*id, data);
                    continue;
                }
            };
            self.error("E0419", e.span, text);
        }
    }

    /// Whether a table lists an action with an annotation.
    fn listed_with(&self, table: &TableInfo<'a>, action: DeclId, annotation: &str) -> bool {
        let Some(PropertyValue::Actions(refs)) = table.syntax.property("actions").map(|p| &p.value) else {
            return false;
        };
        let is = |a: &&ast::ActionRef| self.typed.resolved(a.expr.called().0.id) == Some(action);
        refs.iter().find(is).is_some_and(|a| ast::annotation(&a.annotations, annotation).is_some())
    }

    /// PNA: the data of `add_entry` has one value for each parameter of the action that the control plane sets, of the same type. As in p4c, a
    /// `type` and the type that it stands for are the same here. A struct also
    /// has their names.
    fn entry_data(&mut self, action: DeclId, data: Option<&(DeclId, Arg<'a>)>) {
        let Some((_, Arg::Given(e))) = data else { return };
        let params = self.free_parameters(action);
        let given = self.typed.own_ty(e.id);
        // Without a name, any name fits.
        let none: Arc<str> = "".into();
        let fields: Vec<(Arc<str>, Type)> = match &given {
            Type::Struct(_) => self.typed.fields(given).into_iter().map(|(name, ty, _)| (name, ty)).collect(),
            Type::Record(all) => all.to_vec(),
            Type::Tuple(all) => all.iter().map(|ty| (none.clone(), ty.clone())).collect(),
            Type::Bad => return,
            _ => vec![(none, given.clone())],
        };
        let same = |a: &Type, b: &Type| a.is_bad() || b.is_bad() || a.underlying() == b.underlying();
        let mut pairs = fields.iter().zip(&params);
        if fields.len() == params.len()
            && pairs.all(|((name, ty), (wanted, of))| (name.is_empty() || name == wanted) && same(ty, of))
        {
            return;
        }
        let list = params.iter().map(|(name, ty)| format!("{ty} {name}")).collect::<Vec<_>>().join(", ");
        let name = self.decl(action).map_or(String::new(), |d| d.name.to_string());
        let d = Diagnostic::error(
            "E0419",
            e.span,
            format!("this is not the data of `{name}`, which takes ({list})"),
        );
        self.report(d.hint("write a struct with these fields, or `{ value, … }` with values of these types"));
    }

    /// The parameters of an action that the control plane sets: their names and types.
    fn free_parameters(&self, action: DeclId) -> Vec<(Arc<str>, Type)> {
        let Some(DeclKind::Action { params, .. }) = self.typed.syntax(action).map(|d| &d.kind) else {
            return Vec::new();
        };
        let free = params.iter().filter(|p| p.direction == ast::Direction::None);
        free.filter_map(|p| self.decl(p.id)).map(|d| (d.name.clone(), d.ty.clone())).collect()
    }

    /// PNA: the expiry time can only be changed in actions of a table whose entries expire.
    fn expiry(&mut self, site: &CallSite, name: &str, tables: &[TableInfo<'a>]) {
        let own = site.owner.filter(|_| site.place == Place::Action);
        let homes = tables.iter().filter(|t| own.is_some_and(|a| t.actions.contains(&a)));
        let ages = |t: &&TableInfo<'a>| {
            self.is_true(t.syntax, "idle_timeout_with_auto_delete")
                || t.syntax.value("pna_idle_timeout").is_some()
        };
        if homes.filter(ages).count() == 0 {
            let text = format!("`{name}` can only be called in an action of a table whose entries age");
            let d = Diagnostic::error("E0419", site.span, text);
            self.report(d.hint("give the table `idle_timeout_with_auto_delete = true`"));
        }
    }

    /// PNA: `mirror_packet` must be called in the main control, with another session than 0, which is reserved.
    fn mirror_packet(&mut self, site: &CallSite) {
        let args = self.typed.call(site.call).map(|c| c.args.clone()).unwrap_or_default();
        if let Some((_, Arg::Given(e))) = args.get(1)
            && self.known_value(e).and_then(|v| v.as_int().cloned()) == Some(0.into())
        {
            let d = Diagnostic::error("E0305", e.span, "mirror session 0 is reserved for the architecture");
            self.report(d);
        }
        let control = match site.place {
            Place::Action => site.owner.and_then(|a| self.control_with(a)),
            _ => site.owner,
        };
        let Some(control) = control else { return };
        for (param, block) in self.main_blocks() {
            if block == control && param != "main_control" {
                let text = format!(
                    "`mirror_packet` can only be called in the main control, not in the {}",
                    param.replace('_', " ")
                );
                self.error("E0402", site.span, text);
            }
        }
    }

    /// The control that contains a declaration.
    fn control_with(&self, member: DeclId) -> Option<DeclId> {
        let decls = self.typed.decls.iter().enumerate();
        let mut all = decls.filter_map(|(i, d)| Some((DeclId(i as u32), d.as_ref()?)));
        all.find(|(_, d)| d.kind == Kind::Control && d.members.contains(&member)).map(|(id, _)| id)
    }

    /// The parsers and controls that are arguments of `main`, each with the name of the package's parameter.
    fn main_blocks(&self) -> Vec<(String, DeclId)> {
        let Some(call) = self.typed.main.and_then(|m| self.typed.instance(m)) else { return Vec::new() };
        let given = call.args.iter().filter_map(|(param, arg)| match arg {
            Arg::Given(e) => {
                Some((self.decl(*param)?.name.to_string(), self.typed.own_ty(e.id).named()?.decl))
            }
            _ => None,
        });
        given.collect()
    }

    /// Section 18.3: tables and actions must have different control-plane names. A name with a leading dot is complete,
    /// others are prefixed with the control's. p4c checks this only when it writes P4Info, so here it is a warning;
    /// writing P4Info fails.
    pub(super) fn unique_names(&mut self) {
        let mut seen: Map<(bool, String), Span> = Map::default();
        let mut problems = Vec::new();
        for (d, control) in controlled(self.typed.program) {
            let table = matches!(d.kind, DeclKind::Table(_));
            let whole = crate::api::full_name(d, control.unwrap_or_default());
            // p4c copies actions of core.p4 into each control, with annotations such as `@name(".NoAction")`.
            if whole == "NoAction" {
                continue;
            }
            match seen.entry((table, whole)) {
                Entry::Vacant(place) => drop(place.insert(d.name.span)),
                Entry::Occupied(first) => {
                    let what = if table { "table" } else { "action" };
                    let text =
                        format!("another {what} has the control-plane name `{}` already", first.key().1);
                    let d = Diagnostic::warning("W0420", d.name.span, text).also(*first.get(), "this one");
                    problems.push(d.hint("P4Info cannot have both: give one of them another `@name`"));
                }
            }
        }
        problems.into_iter().for_each(|d| self.report(d));
    }
}

/// The tables and actions of a program, each with the control that declares it.
fn controlled(program: &ast::Program) -> impl Iterator<Item = (&ast::Decl, Option<&str>)> {
    program.decls.iter().flat_map(|d| {
        let locals = match &d.kind {
            DeclKind::Control(c) => c.locals.iter().map(|l| (l, Some(d.name.text.as_str()))).collect(),
            _ => vec![(d, None)],
        };
        locals.into_iter().filter(|(d, _)| matches!(d.kind, DeclKind::Table(_) | DeclKind::Action { .. }))
    })
}
