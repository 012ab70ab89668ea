//! Objects that a controller reads and writes: counters, meters, registers, action profiles, digests, value sets, and
//! the headers of packet-in and packet-out.

use ir::api::{ControllerHeader, Counter, Digest, Key, Object, Profile, Register, Unit, ValueSet};

use super::{Place, Walk};
use crate::ast::{self, ControlDecl, DeclKind, Expr, ExprKind};
use crate::check::{Arg, Call, Callee, DeclId, Named, Type};

impl<'a> Walk<'_, 'a> {
    /// Adds a declared instance of an extern.
    pub(super) fn object(&mut self, d: &'a ast::Decl, place: &Place<'a>) {
        let Some(call) = self.typed.instance(d.id).cloned() else { return };
        let Callee::Constructor(Type::Extern(n), _) = &call.callee else { return };
        let n = n.clone();
        self.extern_object(self.named(d, &place.path), &n, &call, place);
    }

    /// Adds an instance of an extern: a declared one, or one that a table property creates.
    pub(super) fn extern_object(&mut self, object: Object, n: &Named, call: &Call<'a>, place: &Place<'a>) {
        let arg = |name: &str| {
            call.args.iter().find_map(|(param, arg)| match arg {
                Arg::Given(e) | Arg::Default(e)
                    if self.typed.decl(*param).is_some_and(|p| *p.name == *name) =>
                {
                    Some(*e)
                }
                _ => None,
            })
        };
        let number = |name: &str| arg(name).map_or(0, |e| self.size(e, place));
        let unit = || {
            let given = call.args.iter().find_map(|(_, a)| match a {
                Arg::Given(Expr { kind: ExprKind::Member { member, .. }, .. }) => {
                    Some(member.text.to_lowercase())
                }
                _ => None,
            });
            match given.as_deref() {
                Some("bytes") => Unit::Bytes,
                Some("packets_and_bytes") => Unit::Both,
                _ => Unit::Packets,
            }
        };
        let arg_type = |i: usize| n.args.get(i).map(|t| t.subst(&place.types));
        match &*n.name {
            "counter" | "Counter" | "meter" | "Meter" => {
                // v1model indexes by `bit<32>`, PSA and PNA by a type argument.
                let (size, at) = match &*n.name {
                    "Counter" => ("n_counters", Some(1)),
                    "Meter" => ("n_meters", Some(0)),
                    _ => ("size", None),
                };
                let (unit, size) = (unit(), number(size));
                let index = at.and_then(arg_type).and_then(|t| self.new_type_name(&t));
                self.cells(n, Counter { object, unit, size, table: None, index });
            }
            "direct_counter" | "DirectCounter" | "direct_meter" | "DirectMeter" => {
                let made = Counter { object, unit: unit(), size: 0, table: Some(String::new()), index: None };
                self.cells(n, made);
            }
            "register" | "Register" => {
                let size = number("size");
                let ty = arg_type(0).map_or(ir::api::DataType::Bool, |t| self.data_type(&t));
                let index = arg_type(1).and_then(|t| self.new_type_name(&t));
                self.api.registers.push(Register { object, size, ty, index });
            }
            "action_profile" | "ActionProfile" | "action_selector" | "ActionSelector" => {
                let selector = n.name.to_lowercase().contains("selector");
                let size = number("size");
                self.api.profiles.push(Profile { object, selector, size });
            }
            "Digest" => {
                let ty = arg_type(0).map_or(ir::api::DataType::Bool, |t| self.data_type(&t));
                self.api.digests.push(Digest { object, ty });
            }
            _ => {}
        }
    }

    fn cells(&mut self, of: &Named, made: Counter) {
        let meter = of.name.to_lowercase().contains("meter");
        if meter { self.api.meters.push(made) } else { self.api.counters.push(made) }
    }

    /// Adds the digests of v1model. They are calls, and have the name of their data's type.
    pub(super) fn digest_calls(&mut self, c: &'a ControlDecl, place: &Place<'a>) {
        let mut spans = vec![c.apply.span];
        let actions = c.locals.iter().filter(|l| self.called.contains(&l.id) || self.listed.contains(&l.id));
        spans.extend(actions.filter(|l| matches!(l.kind, DeclKind::Action { .. })).map(|l| l.span));
        let mut types: Vec<Type> = Vec::new();
        for (at, call) in self.typed.calls_by_place() {
            let Callee::Function(id) = &call.callee else { continue };
            let digest = self.typed.decl(*id).is_some_and(|d| &*d.name == "digest");
            if digest && spans.iter().any(|s| s.contains(at)) {
                types.extend(call.type_args.first().map(|(_, t)| t.subst(&place.types)));
            }
        }
        for ty in types {
            let name = match &ty {
                Type::Struct(n) | Type::Header(n) => n.name.to_string(),
                _ => {
                    self.digests += 1;
                    format!("digest_{}", self.digests - 1)
                }
            };
            if !self.api.digests.iter().any(|d| d.object.name == name) {
                let ty = self.data_type(&ty);
                self.api.digests.push(Digest { object: Object { name, annotations: Vec::new() }, ty });
            }
        }
    }

    pub(super) fn value_set(&mut self, d: &'a ast::Decl, size: &'a Expr, place: &Place<'a>) {
        let Some(Type::Set(item)) = self.typed.decl(d.id).map(|d| d.ty.subst(&place.types)) else { return };
        let exact = |name: String, width: u32, list: Vec<ir::api::Annotation>| Key {
            object: Object { name, annotations: list },
            match_kind: "exact".into(),
            width,
            type_name: None,
        };
        let keys = match &*item {
            Type::Struct(_) => {
                let fields = self.typed.fields(&item);
                fields
                    .into_iter()
                    .map(|(name, ty, id)| {
                        let list = self.field_annotations(id);
                        let mut key = exact(name.to_string(), self.width(&ty), self.annotations(list));
                        if let Some(ast::AnnotationBody::Unstructured(tokens)) =
                            ast::annotation(list, "match").map(|a| &a.body)
                            && let Some((kind, _)) = tokens.first()
                        {
                            key.match_kind = kind.clone();
                        }
                        key
                    })
                    .collect()
            }
            Type::SerEnum(n, under) => {
                let width = self.width(under);
                let members = self.typed.decl(n.decl).map(|d| d.members.clone()).unwrap_or_default();
                let names = members.into_iter().filter_map(|m| Some(self.typed.decl(m)?.name.to_string()));
                names.map(|name| exact(name, width, Vec::new())).collect()
            }
            other => vec![exact(String::new(), self.width(other), Vec::new())],
        };
        let size = self.size(size, place);
        self.api.value_sets.push(ValueSet { object: self.named(d, &place.path), size, keys });
    }

    /// Adds the headers with `@controller_header("packet_in")` or `("packet_out")`.
    pub(super) fn controller_headers(&mut self) {
        for d in &self.typed.program.decls {
            let DeclKind::Header { .. } = &d.kind else { continue };
            let Some(role) = ast::annotation_string(&d.annotations, "controller_header") else { continue };
            let Some(ty) = self.typed.decl(d.id).map(|d| d.ty.clone()) else { continue };
            let mut fields = Vec::new();
            self.header_fields(&ty, "", &mut fields);
            self.api.controller_headers.push(ControllerHeader { object: self.named(d, ""), role, fields });
        }
    }

    fn header_fields(&mut self, ty: &Type, prefix: &str, out: &mut Vec<ir::api::Param>) {
        for (name, t, id) in self.typed.fields(ty) {
            if let Type::Struct(_) = &t {
                self.header_fields(&t, &format!("{prefix}{name}."), out);
                continue;
            }
            let list = self.field_annotations(id);
            if ast::annotation(list, "hidden").is_none() {
                out.push(self.param(format!("{prefix}{name}"), list, &t));
            }
        }
    }

    /// The annotations of a field.
    fn field_annotations(&self, id: DeclId) -> &'a [ast::Annotation] {
        self.typed.field(id).map_or(&[], |f| &f.annotations)
    }
}
