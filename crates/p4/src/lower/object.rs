//! Instances: counters, registers, sub-controls and sub-parsers; and how a sub-control is applied.

use std::cell::RefCell;
use std::rc::Rc;

use abi::MatchKind;
use num_traits::ToPrimitive;

use super::alias::CopyOut;
use super::scope::{Applied, Binding, BlockInstance, Bound, Env, Object, Scope};
use super::table::named;
use super::types::{Store, T, Val};
use super::{Lower, Res};
use crate::ast::{self, DeclKind, Direction, ExprKind, TypeKind};
use crate::source::Span;

impl<'a> Lower<'a, '_> {
    /// The control-plane name of a declaration inside `path`: `@name` gives another, with a leading dot a global one.
    pub(super) fn full_name(&self, decl: &ast::Decl, path: &str) -> String {
        let own = ast::annotation_string(&decl.annotations, "name").unwrap_or(decl.name.text.clone());
        match own.strip_prefix('.') {
            Some(global) => global.to_string(),
            None if path.is_empty() => own,
            None => format!("{path}.{own}"),
        }
    }

    /// `T(args) name;`
    pub(super) fn object(
        &mut self,
        decl: &'a ast::Decl,
        ty: &'a ast::Type,
        args: &'a [ast::Argument],
        env: &Env<'a>,
        path: &str,
    ) -> Res<Object<'a>> {
        let name = self.full_name(decl, path);
        let TypeKind::Named { name: type_name, args: type_args, .. } = &ty.kind else {
            return self.error("E0503", ty.span, "only externs, parsers and controls have instances");
        };
        match env.get(&type_name.text) {
            Some(Binding::Type(found)) => match &found.kind {
                DeclKind::Extern { .. } => self.extern_object(decl, name, type_name, type_args, args, env),
                DeclKind::Package { .. } => Ok(Object::Package(args)),
                DeclKind::Parser(_) | DeclKind::Control(_) => {
                    let types = type_args.iter().map(|t| self.ty(t, env)).collect::<Res<Vec<_>>>()?;
                    Ok(Object::Block(self.block_instance(found, name, types, args, env, ty.span)?))
                }
                _ => {
                    let message = format!("`{}` has no instances", type_name.text);
                    self.error_hint("E0503", ty.span, message, "a variable is declared `T name;`")
                }
            },
            _ => self.error("E0503", ty.span, format!("there is no type `{}`", type_name.text)),
        }
    }

    fn extern_object(
        &mut self,
        decl: &'a ast::Decl,
        name: String,
        ty: &'a ast::Name,
        type_args: &'a [ast::Type],
        args: &'a [ast::Argument],
        env: &Env<'a>,
    ) -> Res<Object<'a>> {
        let loc = self.at(decl.span);
        let first = args.first().and_then(|a| a.value.as_ref());
        match (ty.text.as_str(), first) {
            ("counter" | "Counter", Some(size)) => {
                let size = self.size(size, env)?;
                let kind = self.counter_kind(args.get(1), env, decl.span)?;
                self.out.counters.push(ir::IndexedCounter { name, loc, size, kind });
                Ok(Object::Counter(ir::CounterId(self.out.counters.len() as u32 - 1)))
            }
            ("direct_counter" | "DirectCounter", Some(_)) => {
                let kind = self.counter_kind(args.first(), env, decl.span)?;
                self.out.direct_counters.push(ir::DirectCounter { name, loc, kind });
                Ok(Object::DirectCounter(ir::DirectCounterId(self.out.direct_counters.len() as u32 - 1)))
            }
            ("register" | "Register", Some(size)) => {
                let size = self.size(size, env)?;
                let Some(cell) = type_args.first() else {
                    return self.error_hint(
                        "E0503",
                        ty.span,
                        "a register of what?",
                        "write `register<bit<32>>(16) r;`",
                    );
                };
                let cell_ty = self.ty(cell, env)?;
                match cell_ty.ir() {
                    Some(scalar) if !scalar.is_varbit() => {
                        let initial = match args.get(1).and_then(|a| a.value.as_ref()) {
                            Some(value) => self.known(value, &cell_ty, env)?,
                            None => abi::Bits::zero(scalar.width()),
                        };
                        self.out.registers.push(ir::Register { name, loc, size, ty: scalar, initial });
                        Ok(Object::Register(ir::RegisterId(self.out.registers.len() as u32 - 1), cell_ty))
                    }
                    _ => self.not_yet(cell.span, "a register of structs"),
                }
            }
            ("meter" | "Meter", Some(size)) => {
                let size = Some(self.size(size, env)?);
                let bytes = self.meter_kind(args.get(1), env, decl.span)?;
                Ok(Object::Meter(self.meter(ir::Meter { name, loc, size, bytes })))
            }
            ("direct_meter" | "DirectMeter", Some(_)) => {
                let bytes = self.meter_kind(args.first(), env, decl.span)?;
                Ok(Object::DirectMeter(self.meter(ir::Meter { name, loc, size: None, bytes })))
            }
            ("action_profile" | "ActionProfile" | "action_selector" | "ActionSelector", Some(_)) => {
                Ok(Object::ActionProfile(self.profile(&ty.text, name, args, env, decl.span)?))
            }
            ("Hash", Some(algorithm)) => {
                let algorithm = self.algorithm(algorithm, env)?;
                match type_args.first() {
                    Some(result) => Ok(Object::Hash(algorithm, self.ty(result, env)?)),
                    None => {
                        self.error_hint("E0503", ty.span, "a hash of what?", "write `Hash<bit<16>>(…) h;`")
                    }
                }
            }
            ("InternetChecksum", None) => {
                Ok(Object::InternetChecksum(self.var(&name, ir::Ty::Bit(16), ir::VarKind::Local)))
            }
            ("Random", Some(_)) => {
                let Some(of) = type_args.first() else {
                    return self.error_hint(
                        "E0503",
                        ty.span,
                        "a number of what type?",
                        "write `Random<bit<16>>(…) r;`",
                    );
                };
                let of = self.ty(of, env)?;
                let mut bounds = Vec::new();
                for e in args.iter().filter_map(|a| a.value.as_ref()) {
                    bounds.push(self.known(e, &of, env)?);
                }
                match bounds.as_slice() {
                    [lo, hi] => Ok(Object::Random(lo.clone(), hi.clone(), of)),
                    _ => self.error("E0503", decl.span, "`Random` takes its least and its greatest number"),
                }
            }
            ("Digest", None) => Ok(Object::Digest),
            ("PacketReplicationEngine" | "BufferingQueueingEngine", None) => Ok(Object::Engine),
            ("counter" | "direct_counter" | "register" | "meter" | "direct_meter", None) => {
                self.error("E0503", decl.span, format!("the constructor of `{}` takes arguments", ty.text))
            }
            (other, _) => self.not_yet(ty.span, &format!("the extern `{other}`")),
        }
    }

    /// `action_profile(size)`, `action_selector(algorithm, size, width)`.
    pub(super) fn profile(
        &mut self,
        ty: &str,
        name: String,
        args: &'a [ast::Argument],
        env: &Env<'a>,
        span: Span,
    ) -> Res<ir::ProfileId> {
        let given: Vec<&'a ast::Expr> = args.iter().filter_map(|a| a.value.as_ref()).collect();
        let (size, selector) = match (ty.to_ascii_lowercase().contains("selector"), given.as_slice()) {
            (false, [size]) => (self.size(size, env)?, None),
            (true, [algorithm, size, width]) => {
                let bits = self.size(width, env)?.min(64) as u32;
                (self.size(size, env)?, Some((self.algorithm(algorithm, env)?, bits)))
            }
            _ => {
                return self.error("E0503", span, format!("the constructor of `{ty}` takes other arguments"));
            }
        };
        let loc = self.at(span);
        self.out.profiles.push(ir::ActionProfile { name, loc, size, selector });
        Ok(ir::ProfileId(self.out.profiles.len() as u32 - 1))
    }

    fn size(&mut self, e: &'a ast::Expr, env: &Env<'a>) -> Res<u64> {
        match self.integer(e, env)?.to_u64() {
            Some(size) if size <= 1 << 28 => Ok(size),
            _ => self.error("E0503", e.span, "this size is not a sensible number"),
        }
    }

    fn meter(&mut self, meter: ir::Meter) -> ir::MeterId {
        self.out.meters.push(meter);
        ir::MeterId(self.out.meters.len() as u32 - 1)
    }

    /// Whether a meter measures bytes.
    fn meter_kind(&mut self, arg: Option<&'a ast::Argument>, env: &Env<'a>, span: Span) -> Res<bool> {
        let member = match arg.and_then(|a| a.value.as_ref()) {
            Some(e) => self.enum_member(e, env)?,
            None => None,
        };
        match member.map(|m| m.to_ascii_lowercase()).as_deref() {
            Some("packets") => Ok(false),
            Some("bytes") => Ok(true),
            _ => self.error_hint("E0503", span, "what does this meter measure?", "write `MeterType.bytes`"),
        }
    }

    /// The name of the enum's member that an expression is, if it is known to be one.
    pub(super) fn enum_member(&mut self, e: &'a ast::Expr, env: &Env<'a>) -> Res<Option<String>> {
        let val = self.expr(e, env, None)?;
        Ok(match self.loaded(val) {
            Val::Scalar(value, T::Enum(en)) => {
                let index = value.as_const().and_then(|v| v.to_u64()).unwrap_or(u64::MAX) as usize;
                en.members.get(index).cloned()
            }
            _ => None,
        })
    }

    /// `value_set<T>(size) name;`
    pub(super) fn value_set(
        &mut self,
        decl: &'a ast::Decl,
        ty: &'a ast::Type,
        size: &'a ast::Expr,
        env: &Env<'a>,
    ) -> Res<Object<'a>> {
        let size = self.size(size, env)?;
        let member = self.ty(ty, env)?;
        let mut keys = Vec::new();
        self.value_set_keys("", &member, None, ty.span, &mut keys)?;
        let (name, loc) = (self.full_name(decl, &self.path.clone()), self.at(decl.span));
        let parts = keys.len();
        self.out.value_sets.push(ir::ValueSet { name, loc, size, keys });
        Ok(Object::ValueSet(ir::ValueSetId(self.out.value_sets.len() as u32 - 1), parts))
    }

    fn value_set_keys(
        &mut self,
        name: &str,
        ty: &T,
        kind: Option<MatchKind>,
        span: Span,
        keys: &mut Vec<ir::ValueSetKey>,
    ) -> Res<()> {
        match ty {
            T::Struct(s) => s.fields.iter().try_for_each(|f| {
                let name = if name.is_empty() { f.name.clone() } else { format!("{name}.{}", f.name) };
                self.value_set_keys(&name, &f.ty, f.match_kind, span, keys)
            }),
            T::Tuple(items) => items
                .iter()
                .enumerate()
                .try_for_each(|(i, item)| self.value_set_keys(&format!("f{i}"), item, None, span, keys)),
            scalar => match scalar.ir().filter(|ty| !ty.is_varbit()) {
                Some(ty) => {
                    let kind = kind.unwrap_or(MatchKind::Exact);
                    keys.push(ir::ValueSetKey { name: name.to_string(), width: ty.width(), kind });
                    Ok(())
                }
                None => self.error("E0503", span, format!("a value set cannot hold a {scalar}")),
            },
        }
    }

    fn counter_kind(
        &mut self,
        arg: Option<&'a ast::Argument>,
        env: &Env<'a>,
        span: Span,
    ) -> Res<ir::CounterKind> {
        if let Some(e) = arg.and_then(|a| a.value.as_ref()) {
            match self.enum_member(e, env)?.map(|m| m.to_ascii_lowercase()).as_deref() {
                Some("packets") => return Ok(ir::CounterKind::Packets),
                Some("bytes") => return Ok(ir::CounterKind::Bytes),
                Some("packets_and_bytes") => return Ok(ir::CounterKind::Both),
                _ => {}
            }
        }
        self.error_hint(
            "E0503",
            span,
            "what does this counter count?",
            "write `CounterType.packets_and_bytes`",
        )
    }

    /// `MyControl(args)` as an expression.
    pub(super) fn construct_block(
        &mut self,
        callee: &'a ast::Expr,
        type_args: &'a [ast::Type],
        args: &'a [ast::Argument],
        env: &Env<'a>,
    ) -> Res<Option<Rc<BlockInstance<'a>>>> {
        let (name, types) = match &callee.kind {
            ExprKind::Name { name, .. } => (name, type_args),
            ExprKind::Type(ast::Type { kind: TypeKind::Named { name, args, .. }, .. }) => {
                (name, args.as_slice())
            }
            _ => return Ok(None),
        };
        match env.get(&name.text) {
            Some(Binding::Type(decl)) if matches!(decl.kind, DeclKind::Parser(_) | DeclKind::Control(_)) => {
                let types = types.iter().map(|t| self.ty(t, env)).collect::<Res<Vec<_>>>()?;
                let path = self.full_name(decl, "");
                Ok(Some(self.block_instance(decl, path, types, args, env, callee.span)?))
            }
            Some(_) => Ok(None),
            None => self.unknown_name(name, env),
        }
    }

    fn block_instance(
        &mut self,
        decl: &'a ast::Decl,
        path: String,
        types: Vec<T>,
        args: &'a [ast::Argument],
        env: &Env<'a>,
        span: Span,
    ) -> Res<Rc<BlockInstance<'a>>> {
        let params = match &decl.kind {
            DeclKind::Parser(p) => &p.ctor_params,
            DeclKind::Control(c) => &c.ctor_params,
            _ => return Err(super::Failed),
        };
        let matched =
            self.match_args(params, args, &format!("the constructor of `{}`", decl.name.text), span)?;
        let mut ctor_args = Vec::new();
        for (param, arg) in params.iter().zip(matched) {
            let value = arg.and_then(|a| a.value.as_ref()).or(param.default.as_ref());
            let Some(e) = value else { return self.error("E0503", span, "an argument is missing") };
            if self.is_block_type(&param.ty) {
                let block = self.block_value(e, env)?;
                ctor_args.push(Binding::Object(Object::Block(block)));
                continue;
            }
            let global = self.global.clone();
            let ty = self.ty(&param.ty, &global)?;
            let val = self.expr(e, env, Some(&ty))?;
            ctor_args.push(Binding::Value(self.convert(val, &ty, e.span)?));
        }
        Ok(Rc::new(BlockInstance { decl, path, ctor_args, types, body: RefCell::new(None) }))
    }

    /// Whether a type is that of parsers or controls.
    fn is_block_type(&self, ty: &ast::Type) -> bool {
        let TypeKind::Named { name, .. } = &ty.kind else { return false };
        matches!(self.global.get(&name.text), Some(Binding::Type(decl))
            if matches!(decl.kind, DeclKind::ControlType { .. } | DeclKind::ParserType { .. }))
    }

    /// `MyParser()`, or the name of an instance.
    pub(super) fn block_value(&mut self, e: &'a ast::Expr, env: &Env<'a>) -> Res<Rc<BlockInstance<'a>>> {
        let found = match &e.kind {
            ExprKind::Call { callee, type_args, args } => {
                self.construct_block(callee, type_args, args, env)?
            }
            ExprKind::Name { name, .. } => match env.get(&name.text) {
                Some(Binding::Object(Object::Block(block))) => Some(block),
                _ => None,
            },
            _ => None,
        };
        match found {
            Some(block) => Ok(block),
            None => self.error_hint("E0503", e.span, "this is no parser or control", "write `MyIngress()`"),
        }
    }

    /// Binds constructor parameters and type parameters of an instance.
    pub(super) fn bind_ctor(&mut self, block: &BlockInstance<'a>, env: &Env<'a>) -> Res<()> {
        let (types, params) = match &block.decl.kind {
            DeclKind::Parser(p) => (&p.type_params, &p.ctor_params),
            DeclKind::Control(c) => (&c.type_params, &c.ctor_params),
            _ => return Err(super::Failed),
        };
        if types.len() != block.types.len() {
            return self.error(
                "E0503",
                block.decl.name.span,
                "the type arguments of this instance are missing",
            );
        }
        for (param, ty) in types.iter().zip(&block.types) {
            env.bind(&param.name.text, Binding::Alias(ty.clone()));
        }
        for (param, arg) in params.iter().zip(&block.ctor_args) {
            env.bind(&param.name.text, arg.clone());
        }
        Ok(())
    }

    /// `sub.apply(args)`. Tables, actions and locals are made at the first application; `in` parameters are copied at
    /// each, the others are the argument itself.
    pub(super) fn apply_block(
        &mut self,
        block: &Rc<BlockInstance<'a>>,
        args: &'a [ast::Argument],
        env: &Env<'a>,
        span: Span,
    ) -> Res<()> {
        let (params, is_parser) = match &block.decl.kind {
            DeclKind::Parser(p) => (&p.params, true),
            DeclKind::Control(c) => (&c.params, false),
            _ => return Err(super::Failed),
        };
        if is_parser != self.parser.is_some() {
            let what = if is_parser { "a parser" } else { "a control" };
            return self.error("E0503", span, format!("{what} cannot be applied here"));
        }
        let what = format!("`{}`", block.decl.name.text);
        let matched = self.match_args(params, args, &what, span)?;
        let first = block.body.borrow().is_none();
        let inner = match block.body.borrow().as_ref() {
            Some(applied) => applied.env.clone(),
            None => Scope::new(Some(self.global.clone())),
        };
        if first {
            self.bind_ctor(block, &inner)?;
        }
        let mut bound = Vec::new();
        let mut copies = Vec::new();
        let reachable = self.reachable(params, &matched, None);
        for (i, (param, arg)) in params.iter().zip(matched).enumerate() {
            let known = block.body.borrow().as_ref().and_then(|b| b.params.get(i).cloned());
            let value = arg.and_then(|a| a.value.as_ref()).or(param.default.as_ref());
            let Some(e) = value else { return self.error("E0503", span, "an argument is missing") };
            let place = (&inner, env);
            bound.push(self.bind_block_param(block, param, e, known, reachable[i], place, &mut copies)?);
        }
        if first {
            *block.body.borrow_mut() = Some(Applied { env: inner.clone(), params: bound });
        }
        self.copies.push(copies.clone());
        let done = self.apply_inner(block, &inner, first);
        self.copies.pop();
        done?;
        self.copy_out(&copies, span)
    }

    /// An extern's instance as an argument. A block's tables and actions are made once, so it has the same one whenever it is
    /// applied.
    fn bind_object(
        &mut self,
        param: &'a ast::Parameter,
        object: Binding<'a>,
        again: bool,
        inner: &Env<'a>,
        span: Span,
    ) -> Res<Bound> {
        match (inner.get(&param.name.text), &object) {
            (Some(Binding::Object(before)), Binding::Object(now)) if again && !before.is(now) => {
                self.not_yet(span, "applying one instance to several externs")
            }
            _ => {
                inner.bind(&param.name.text, object);
                Ok(Bound::Fixed)
            }
        }
    }

    #[allow(clippy::too_many_arguments)] // One call is all that there is.
    fn bind_block_param(
        &mut self,
        block: &BlockInstance<'a>,
        param: &'a ast::Parameter,
        e: &'a ast::Expr,
        known: Option<Bound>,
        reachable: bool,
        (inner, env): (&Env<'a>, &Env<'a>),
        copies: &mut Vec<CopyOut>,
    ) -> Res<Bound> {
        if let Some(object @ Binding::Object(_)) = named(e, env) {
            return self.bind_object(param, object, known.is_some(), inner, e.span);
        }
        let ty = self.ty(&param.ty, inner)?;
        if matches!(ty, T::PacketIn | T::PacketOut) {
            inner.bind(&param.name.text, Binding::Packet);
            return Ok(Bound::Fixed);
        }
        if matches!(param.direction, Direction::Out | Direction::InOut) {
            let (store, copy) = self.out_param(param, e, &ty, env, reachable)?;
            let store = match known {
                Some(Bound::Reference(first)) if first != store => {
                    copies.extend(self.stand_in(param, &first, &store, e.span)?);
                    first
                }
                _ => store,
            };
            copies.extend(copy);
            inner.bind(&param.name.text, Binding::Store(store.clone()));
            return Ok(Bound::Reference(store));
        }
        let val = self.expr(e, env, Some(&ty))?;
        let val = self.convert(val, &ty, e.span)?;
        let store = match known {
            Some(Bound::Copy(store)) => store,
            _ => {
                let name = format!("{}.{}", block.path, param.name.text);
                self.storage(&name, &ty, e.span)?
            }
        };
        self.assign_val(&store, val, e.span)?;
        inner.bind(&param.name.text, Binding::Store(store.clone()));
        Ok(Bound::Copy(store))
    }

    fn apply_inner(&mut self, block: &Rc<BlockInstance<'a>>, inner: &Env<'a>, first: bool) -> Res<()> {
        let saved = (
            std::mem::replace(&mut self.path, block.path.clone()),
            std::mem::replace(&mut self.drop_name, block.path.clone()),
            self.loc,
        );
        let loops = std::mem::take(&mut self.loops);
        let result = match &block.decl.kind {
            DeclKind::Control(control) => {
                let made = match first {
                    true => self.locals(&control.locals, inner),
                    // Tables and actions stand; variables get their initial values again.
                    false => self.variables_again(&control.locals, inner),
                };
                made.and_then(|()| self.apply_body(&control.apply, inner))
            }
            DeclKind::Parser(parser) => self.sub_parser(block, parser, inner),
            _ => Err(super::Failed),
        };
        self.loops = loops;
        (self.path, self.drop_name, self.loc) = saved;
        result
    }

    fn variables_again(&mut self, locals: &'a [ast::Decl], env: &Env<'a>) -> Res<()> {
        for decl in locals {
            let DeclKind::Variable { init, .. } = &decl.kind else { continue };
            let Some(Binding::Store(store)) = env.get(&decl.name.text) else { continue };
            match init {
                Some(e) => {
                    let ty = store.ty();
                    let val = self.expr(e, env, Some(&ty))?;
                    self.assign_val(&store, val, e.span)?;
                }
                None => self.invalidate(&store),
            }
        }
        Ok(())
    }

    /// `T.apply(args)`: an instance of its own for this one place.
    pub(super) fn direct_apply(
        &mut self,
        ty: &'a ast::Type,
        args: &'a [ast::Argument],
        env: &Env<'a>,
        span: Span,
    ) -> Res<()> {
        let TypeKind::Named { name, args: type_args, .. } = &ty.kind else {
            return self.error("E0503", ty.span, "only parsers and controls are applied");
        };
        let Some(Binding::Type(decl)) = env.get(&name.text) else {
            return self.error("E0503", ty.span, format!("there is no parser or control `{}`", name.text));
        };
        let types = type_args.iter().map(|t| self.ty(t, env)).collect::<Res<Vec<_>>>()?;
        let path = self.full_name(decl, &self.path.clone());
        let block = self.block_instance(decl, path, types, &[], env, span)?;
        self.apply_block(&block, args, env, span)
    }

    /// What an action is called in the control plane.
    pub(super) fn action_name(&self, decl: &ast::Decl) -> String {
        let top =
            matches!(self.global.get(&decl.name.text), Some(Binding::Action(d, _)) if std::ptr::eq(d, decl));
        self.full_name(decl, if top { "" } else { &self.path })
    }

    /// The storage behind a name, for tables' bound arguments.
    pub(super) fn store_of(&self, val: &Val) -> Option<Store> {
        match val {
            Val::Store(store) => Some(store.clone()),
            _ => None,
        }
    }
}
