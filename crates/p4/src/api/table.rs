//! Tables and actions.

use std::collections::HashSet;

use ir::api::{Action, ActionRef, Annotation, AnnotationBody, Direct, Key, Object, Table};

use super::values::bytes;
use super::{Place, Walk, full_name};
use crate::ast::{self, DeclKind, Direction, Expr, ExprKind, PropertyValue, TableDecl};
use crate::check::{Callee, DeclId, Type, Value};

impl<'a> Walk<'_, 'a> {
    /// Adds an action of a control.
    pub(super) fn action(&mut self, d: &'a ast::Decl, place: &Place<'a>) {
        if self.listed.contains(&d.id) || self.called.contains(&d.id) {
            self.one_action(d, &place.path, place);
        }
    }

    pub(super) fn one_action(&mut self, d: &'a ast::Decl, path: &str, place: &Place<'a>) {
        let DeclKind::Action { params, .. } = &d.kind else { return };
        let object = self.named(d, path);
        if self.api.actions.iter().any(|a| a.object.name == object.name) {
            return;
        }
        let listed = self.listed.contains(&d.id);
        let mut made = Action { object, params: Vec::new() };
        // The program sets parameters with a direction, and all parameters of an action that it calls itself.
        for p in params.iter().filter(|p| listed && p.direction == Direction::None) {
            let Some(ty) = self.typed.decl(p.id).map(|p| p.ty.subst(&place.types)) else { continue };
            let name = ast::annotation_string(&p.annotations, "name").unwrap_or_else(|| p.name.text.clone());
            made.params.push(self.param(name, &p.annotations, &ty));
        }
        self.api.actions.push(made);
    }

    /// The control-plane name of the action that an expression refers to.
    fn action_of(
        &mut self,
        e: &'a Expr,
        place: &Place<'a>,
    ) -> Option<(String, &'a ast::Decl, &'a [ast::Argument])> {
        let (callee, args) = e.called();
        let decl = self.typed.syntax(self.typed.resolved(callee.id)?)?;
        let top = self.typed.program.decls.iter().any(|d| d.id == decl.id);
        let path = if top { "" } else { place.path.as_str() };
        self.one_action(decl, path, place);
        Some((full_name(decl, path), decl, args))
    }

    /// Adds a table that is applied.
    pub(super) fn table(&mut self, d: &'a ast::Decl, t: &'a TableDecl, place: &Place<'a>) {
        let mut made = Table { object: self.named(d, &place.path), ..Table::default() };
        if self.api.tables.iter().any(|t| t.object.name == made.object.name) {
            return;
        }
        let mut own_default = None;
        for p in &t.properties {
            match (p.name.text.as_str(), &p.value) {
                (_, PropertyValue::Key(keys)) => {
                    made.keys = keys.iter().map(|k| self.key(k, place)).collect();
                }
                (_, PropertyValue::Actions(list)) => {
                    for a in list {
                        if let Some((action, ..)) = self.action_of(&a.expr, place) {
                            made.actions
                                .push(ActionRef { action, annotations: self.annotations(&a.annotations) });
                        }
                    }
                }
                (_, PropertyValue::Entries(list)) => {
                    made.is_const = p.is_const;
                    made.has_entries = !list.is_empty();
                }
                ("default_action", PropertyValue::Expr(e)) => {
                    own_default = Some(e);
                    made.const_default = p.is_const;
                }
                ("size", PropertyValue::Expr(e)) => made.size = self.size(e, place),
                ("support_timeout", PropertyValue::Expr(e)) => {
                    made.notifies_idle = self.value(e, place) == Some(Value::Bool(true));
                }
                ("psa_idle_timeout" | "pna_idle_timeout", PropertyValue::Expr(e)) => {
                    made.notifies_idle =
                        matches!(&e.kind, ExprKind::Member { member, .. } if member.text == "NOTIFY_CONTROL");
                }
                (_, PropertyValue::Expr(e)) => self.resource(d, p, e, &mut made, place),
            }
        }
        made.default = match own_default {
            Some(e) => self.default_action(e, place),
            None => self.no_action(&mut made, place),
        };
        self.api.tables.push(made);
    }

    fn default_action(&mut self, e: &'a Expr, place: &Place<'a>) -> (String, Vec<Vec<u8>>) {
        let Some((name, decl, args)) = self.action_of(e, place) else { return Default::default() };
        let DeclKind::Action { params, .. } = &decl.kind else { return Default::default() };
        let free: Vec<_> = params.iter().filter(|p| p.direction == Direction::None).collect();
        // Bound arguments may be repeated first. The directionless ones are the last.
        let skip = args.len().saturating_sub(free.len());
        let mut given = Vec::new();
        for (arg, param) in args.iter().skip(skip).zip(free) {
            let width = self.typed.decl(param.id).map_or(0, |p| self.width(&p.ty.subst(&place.types)));
            if let Some(value) = arg.value.as_ref().and_then(|v| self.int(v, place)) {
                given.push(bytes(&value, width));
            }
        }
        (name, given)
    }

    /// Adds the default action `NoAction` to a table without one. It is only for the default.
    fn no_action(&mut self, made: &mut Table, place: &Place<'a>) -> (String, Vec<Vec<u8>>) {
        let decls = self.typed.program.decls.iter();
        let found =
            decls.filter(|d| matches!(d.kind, DeclKind::Action { .. })).find(|d| d.name.text == "NoAction");
        let Some(d) = found else { return Default::default() };
        self.one_action(d, "", place);
        let name = full_name(d, "");
        if !made.actions.iter().any(|a| a.action == name) {
            let only = Annotation { name: "defaultonly".into(), body: AnnotationBody::Empty };
            made.actions.push(ActionRef { action: name.clone(), annotations: vec![only] });
        }
        (name, Vec::new())
    }

    fn key(&mut self, k: &'a ast::KeyElement, place: &Place<'a>) -> Key {
        let ty = self.typed.ty(k.expr.id).subst(&place.types);
        let said = ast::annotation_string(&k.annotations, "name");
        Key {
            object: Object {
                name: said.unwrap_or_else(|| self.key_text(&k.expr, place)),
                annotations: self.annotations(&k.annotations),
            },
            match_kind: k.match_kind.text.clone(),
            width: self.width(&ty),
            type_name: self.new_type_name(&ty),
        }
    }

    /// Section 18.3.2: the name of a key without `@name`.
    fn key_text(&self, e: &'a Expr, place: &Place<'a>) -> String {
        match &e.kind {
            ExprKind::Name { name, .. } => name.text.clone(),
            ExprKind::Member { base, member } => {
                let field = self.typed.resolved(e.id).and_then(|id| self.typed.field(id));
                let said = field.and_then(|f| ast::annotation_string(&f.annotations, "name"));
                match said.as_deref().map(|s| (s.strip_prefix('.'), s)) {
                    Some((Some(whole), _)) => whole.to_string(),
                    Some((None, own)) => format!("{}.{own}", self.key_text(base, place)),
                    None => format!("{}.{}", self.key_text(base, place), member.text),
                }
            }
            ExprKind::Call { callee, .. } => match &callee.kind {
                ExprKind::Member { base, member } if member.text == "isValid" => {
                    format!("{}.$valid$", self.key_text(base, place))
                }
                _ => format!("{}()", self.key_text(callee, place)),
            },
            ExprKind::Number { value, .. } => {
                let value = self.int(e, place).unwrap_or_else(|| value.clone());
                match self.map.text(e.span).to_lowercase().contains("0x") {
                    true => format!("0x{value:x}"),
                    false => value.to_string(),
                }
            }
            ExprKind::Index { base, index } => {
                let at =
                    self.int(index, place).map_or_else(|| self.key_text(index, place), |i| i.to_string());
                format!("{}[{at}]", self.key_text(base, place))
            }
            ExprKind::Slice { base, hi, lo } => {
                let bit = |e: &'a Expr| self.int(e, place).map(|i| i.to_string()).unwrap_or_default();
                format!("{}[{}:{}]", self.key_text(base, place), bit(hi), bit(lo))
            }
            ExprKind::Cast { operand, .. } => self.key_text(operand, place),
            ExprKind::Binary { op: ast::BinaryOp::BitAnd, left, right } => {
                format!("{} & {}", self.key_text(left, place), self.key_text(right, place))
            }
            _ => self.int(e, place).map(|i| i.to_string()).unwrap_or_default(),
        }
    }

    /// The object that a table property refers to, or creates.
    fn resource(
        &mut self,
        d: &'a ast::Decl,
        p: &'a ast::TableProperty,
        e: &'a Expr,
        made: &mut Table,
        place: &Place<'a>,
    ) {
        let mut seen: HashSet<DeclId> = HashSet::new();
        for e in e.items() {
            let Type::Extern(n) = self.typed.ty(e.id).clone() else { continue };
            let name = match (self.typed.resolved(e.id), self.typed.call(e.id)) {
                (Some(id), _) => {
                    // A constructor parameter stands for its argument.
                    let id = place.given.get(&id).and_then(|e| self.typed.resolved(e.id)).unwrap_or(id);
                    let Some(decl) = self.typed.syntax(id).filter(|_| seen.insert(id)) else {
                        continue;
                    };
                    let top = self.typed.program.decls.iter().any(|d| d.id == id);
                    full_name(decl, if top { "" } else { &place.path })
                }
                (_, Some(call)) if matches!(call.callee, Callee::Constructor(..)) => {
                    let said = ast::annotation_string(&p.annotations, "name");
                    let name = said.unwrap_or_else(|| p.name.text.clone());
                    let object = Object { name: name.clone(), annotations: self.annotations(&p.annotations) };
                    let call = call.clone();
                    self.extern_object(object, &n, &call, place);
                    name
                }
                _ => continue,
            };
            let direct = match &*n.name {
                "action_profile" | "action_selector" | "ActionProfile" | "ActionSelector" => {
                    made.implementation = Some(name);
                    continue;
                }
                "direct_counter" | "DirectCounter" => Direct::Counter(name.clone()),
                "direct_meter" | "DirectMeter" => Direct::Meter(name.clone()),
                _ => continue,
            };
            self.owned_by(&name, d, place);
            made.direct.push(direct);
        }
    }

    /// Records the table of a direct counter or meter.
    fn owned_by(&mut self, name: &str, table: &'a ast::Decl, place: &Place<'a>) {
        let all = self.api.counters.iter_mut().chain(&mut self.api.meters);
        for object in all.filter(|o| o.object.name == name && o.table.is_some()) {
            object.table = Some(full_name(table, &place.path));
        }
    }
}
