//! Calls: functions, actions, methods, sub-controls. What is called is walked again, in place.

use ir::{Expr, ExprKind as IrKind, HeaderRef, Place, StmtKind as Ir, Ty};
use num_traits::ToPrimitive;

use super::alias::CopyOut;
use super::scope::{Binding, Env, Object, Scope};
use super::table::named;
use super::types::{Store, T, Val};
use super::{Lower, Res, Return};
use crate::ast::{self, Direction, ExprKind};
use crate::diag::{Diagnostic, did_you_mean};
use crate::source::Span;

impl<'a> Lower<'a, '_> {
    pub(super) fn call(
        &mut self,
        e: &'a ast::Expr,
        callee: &'a ast::Expr,
        type_args: &'a [ast::Type],
        args: &'a [ast::Argument],
        env: &Env<'a>,
        want: Option<&T>,
    ) -> Res<Val> {
        if self.depth >= super::DEPTH {
            return self.error_hint("E0503", e.span, "calls nest without an end", "P4 has no recursion");
        }
        self.depth += 1;
        let result = self.call_here(e, callee, type_args, args, env, want);
        self.depth -= 1;
        result
    }

    fn call_here(
        &mut self,
        e: &'a ast::Expr,
        callee: &'a ast::Expr,
        type_args: &'a [ast::Type],
        args: &'a [ast::Argument],
        env: &Env<'a>,
        want: Option<&T>,
    ) -> Res<Val> {
        match &callee.kind {
            ExprKind::Name { name, global } => {
                let scope = if *global { env.global() } else { env.clone() };
                match scope.get(&name.text) {
                    Some(Binding::Function(decl)) => self.function(decl, type_args, args, env, e.span),
                    Some(Binding::Action(decl, home)) => self.action_call(decl, &home, args, env, e.span),
                    Some(Binding::Extern(prototypes)) => {
                        let args = self.positional(&prototypes, args)?;
                        self.extern_function(name, type_args, args, env, e.span)
                    }
                    Some(Binding::Object(Object::Table(_))) => {
                        let hint = format!("write `{}.apply()`", name.text);
                        self.error_hint(
                            "E0503",
                            e.span,
                            format!("`{}` is a table, not a function", name.text),
                            hint,
                        )
                    }
                    Some(_) => self.error("E0503", callee.span, format!("`{}` cannot be called", name.text)),
                    None => self.unknown_name(name, env),
                }
            }
            ExprKind::Member { base, member } => {
                self.method(base, member, type_args, args, env, want, e.span)
            }
            _ => self.error("E0503", callee.span, "this cannot be called"),
        }
    }

    // ---- arguments ----

    /// Arguments in the order of the parameters; `None` where one is left out.
    pub(super) fn match_args(
        &mut self,
        params: &'a [ast::Parameter],
        args: &'a [ast::Argument],
        what: &str,
        span: Span,
    ) -> Res<Vec<Option<&'a ast::Argument>>> {
        let mut found = vec![None; params.len()];
        for (i, arg) in args.iter().enumerate() {
            let at = match &arg.name {
                Some(name) => match params.iter().position(|p| p.name.text == name.text) {
                    Some(at) => at,
                    None => {
                        let d = Diagnostic::error(
                            "E0503",
                            name.span,
                            format!("{what} has no parameter `{}`", name.text),
                        );
                        let near = did_you_mean(&name.text, params.iter().map(|p| p.name.text.as_str()));
                        return match near {
                            Some(near) => self.report(d.hint(format!("did you mean `{near}`?"))),
                            None => self.report(d),
                        };
                    }
                },
                None => i,
            };
            match found.get_mut(at) {
                Some(slot) => *slot = Some(arg),
                None => return self.argument_count(params, args.len(), what, span),
            }
        }
        let optional =
            |p: &ast::Parameter| p.default.is_some() || ast::annotation(&p.annotations, "optional").is_some();
        if found.iter().zip(params).any(|(f, p)| f.is_none() && !optional(p)) {
            return self.argument_count(params, args.len(), what, span);
        }
        Ok(found)
    }

    fn argument_count<X>(
        &mut self,
        params: &[ast::Parameter],
        given: usize,
        what: &str,
        span: Span,
    ) -> Res<X> {
        let names: Vec<_> = params.iter().map(|p| p.name.text.as_str()).collect();
        let d =
            Diagnostic::error("E0503", span, format!("{what} takes {} arguments, not {given}", params.len()));
        let d =
            if names.is_empty() { d } else { d.hint(format!("its parameters are ({})", names.join(", "))) };
        match params.first() {
            Some(first) if first.span != Span::default() => self.report(d.also(first.span, "declared here")),
            _ => self.report(d),
        }
    }

    /// Binds the parameters of a function or action for one call: `in` is copied, `out` and `inout` are the argument
    /// itself or a copy, directionless ones are values. Gives the copies that must be written back.
    fn bind_params(
        &mut self,
        params: &'a [ast::Parameter],
        args: &'a [ast::Argument],
        (inner, env): (&Env<'a>, &Env<'a>),
        body: Option<(&'a ast::BlockStmt, &Env<'a>)>,
        what: &str,
        span: Span,
    ) -> Res<Vec<CopyOut>> {
        let matched = self.match_args(params, args, what, span)?;
        let reachable = self.reachable(params, &matched, body);
        let mut copies = Vec::new();
        for ((param, arg), reachable) in params.iter().zip(matched).zip(reachable) {
            let value = arg.and_then(|a| a.value.as_ref());
            if let Some(object @ Binding::Object(_)) = value.and_then(|e| named(e, env)) {
                inner.bind(&param.name.text, object);
                continue;
            }
            let ty = self.ty(&param.ty, inner)?;
            let binding = match (param.direction, value) {
                (Direction::Out | Direction::InOut, Some(e)) => {
                    let (store, copy) = self.out_param(param, e, &ty, env, reachable)?;
                    copies.extend(copy);
                    Binding::Store(store)
                }
                (Direction::Out, None) => Binding::Store(self.storage(&param.name.text, &ty, span)?),
                (_, Some(e)) => self.in_argument(param, e, &ty, env)?,
                (_, None) => match &param.default {
                    Some(e) => self.in_argument(param, e, &ty, inner)?,
                    None => {
                        return self.error("E0503", span, format!("`{}` has no value here", param.name.text));
                    }
                },
            };
            inner.bind(&param.name.text, binding);
        }
        Ok(copies)
    }

    fn in_argument(
        &mut self,
        param: &ast::Parameter,
        e: &'a ast::Expr,
        ty: &T,
        env: &Env<'a>,
    ) -> Res<Binding<'a>> {
        let val = self.expr(e, env, Some(ty))?;
        let val = self.convert(val, ty, e.span)?;
        match val {
            Val::Scalar(ref expr, _) if expr.as_const().is_some() => Ok(Binding::Value(val)),
            Val::Scalar(src, _) => {
                let store = self.storage(&param.name.text, ty, e.span)?;
                let Store::Scalar(dst, _) = &store else { return Err(super::Failed) };
                self.push(Ir::Assign { dst: dst.clone(), src });
                Ok(Binding::Store(store))
            }
            Val::Store(store) if param.direction == Direction::In => {
                let copy = self.storage(&param.name.text, ty, e.span)?;
                self.assign_val(&copy, Val::Store(store), e.span)?;
                Ok(Binding::Store(copy))
            }
            Val::List(_) | Val::Record(_) => {
                let copy = self.storage(&param.name.text, ty, e.span)?;
                self.assign_val(&copy, val, e.span)?;
                Ok(Binding::Store(copy))
            }
            other => Ok(Binding::Value(other)),
        }
    }

    // ---- functions and actions ----

    fn function(
        &mut self,
        decl: &'a ast::Decl,
        type_args: &'a [ast::Type],
        args: &'a [ast::Argument],
        env: &Env<'a>,
        span: Span,
    ) -> Res<Val> {
        let ast::DeclKind::Function { prototype, body } = &decl.kind else { return Err(super::Failed) };
        let inner = Scope::new(Some(self.global.clone()));
        self.bind_types(prototype, type_args, args, &inner, env, span)?;
        let what = format!("`{}`", decl.name.text);
        let copies = self.bind_params(&prototype.params, args, (&inner, env), None, &what, span)?;
        let ret = self.ty(&prototype.ret, &inner)?;
        let value = match ret {
            T::Void => None,
            ref ty => Some(self.storage(&format!("{}$result", decl.name.text), ty, span)?),
        };
        let saved = (self.loc, std::mem::replace(&mut self.exit, super::Exit::Nowhere));
        self.copies.push(copies.clone());
        let done = self.inline(body, &inner, value.clone());
        self.copies.pop();
        (self.loc, self.exit) = saved;
        done?;
        self.copy_out(&copies, span)?;
        Ok(value.map_or(Val::Void, |v| self.loaded(Val::Store(v))))
    }

    /// Walks a body in place; `return` leaves it.
    fn inline(&mut self, body: &'a ast::BlockStmt, env: &Env<'a>, value: Option<Store>) -> Res<()> {
        let label = self.label();
        let loops = std::mem::take(&mut self.loops);
        self.returns.push(Return { label, used: false, value });
        let (block, result) = self.in_block(|l| l.block(body, env));
        let used = self.returns.pop().is_some_and(|r| r.used);
        self.loops = loops;
        let (block, used) = without_last_break(block, label, used);
        self.splice(label, block, used);
        result
    }

    /// Type arguments as given, or as the arguments' types tell.
    fn bind_types(
        &mut self,
        prototype: &'a ast::FunctionPrototype,
        type_args: &'a [ast::Type],
        args: &'a [ast::Argument],
        inner: &Env<'a>,
        env: &Env<'a>,
        span: Span,
    ) -> Res<()> {
        for (i, param) in prototype.type_params.iter().enumerate() {
            let ty = match type_args.get(i) {
                Some(ty) => self.ty(ty, env)?,
                None => self.infer(&param.name.text, prototype, args, env, span)?,
            };
            inner.bind(&param.name.text, Binding::Alias(ty));
        }
        Ok(())
    }

    fn infer(
        &mut self,
        name: &str,
        prototype: &'a ast::FunctionPrototype,
        args: &'a [ast::Argument],
        env: &Env<'a>,
        span: Span,
    ) -> Res<T> {
        let is_it =
            |ty: &ast::Type| matches!(&ty.kind, ast::TypeKind::Named { name: n, .. } if n.text == name);
        let at = prototype.params.iter().position(|p| is_it(&p.ty));
        let arg = at.and_then(|i| args.get(i)).and_then(|a| a.value.as_ref());
        if let Some(e) = arg {
            // Evaluated for its type only: what it would do is thrown away.
            let (_, val) = self.in_block(|l| l.expr(e, env, None));
            if let Some(ty) = val?.ty() {
                return Ok(ty);
            }
        }
        self.error_hint(
            "E0503",
            span,
            format!("the type `{name}` cannot be inferred"),
            "give it: `f<bit<8>>(…)`",
        )
    }

    fn action_call(
        &mut self,
        decl: &'a ast::Decl,
        home: &Env<'a>,
        args: &'a [ast::Argument],
        env: &Env<'a>,
        span: Span,
    ) -> Res<Val> {
        let ast::DeclKind::Action { params, body } = &decl.kind else { return Err(super::Failed) };
        if self.parser.is_some() {
            return self.error("E0503", span, "a parser cannot call actions");
        }
        let inner = Scope::new(Some(home.clone()));
        let what = format!("action `{}`", decl.name.text);
        let copies = self.bind_params(params, args, (&inner, env), Some((body, home)), &what, span)?;
        let name = self.action_name(decl);
        let saved = (self.loc, std::mem::replace(&mut self.drop_name, name));
        self.copies.push(copies.clone());
        let done = self.inline(body, &inner, None);
        self.copies.pop();
        (self.loc, self.drop_name) = saved;
        done?;
        self.copy_out(&copies, span)?;
        Ok(Val::Void)
    }

    // ---- methods ----

    #[allow(clippy::too_many_arguments)] // A method call has that many parts.
    fn method(
        &mut self,
        base: &'a ast::Expr,
        member: &'a ast::Name,
        type_args: &'a [ast::Type],
        args: &'a [ast::Argument],
        env: &Env<'a>,
        want: Option<&T>,
        span: Span,
    ) -> Res<Val> {
        if let ExprKind::Name { name, .. } = &base.kind {
            match env.get(&name.text) {
                Some(Binding::Packet) => return self.packet_method(member, type_args, args, env, want, span),
                Some(Binding::Object(object)) => {
                    return self.object_method(name, object, member, args, env, span);
                }
                Some(Binding::Value(Val::Scalar(..))) | Some(Binding::Store(Store::Scalar(..))) => {
                    let message = format!("`{}` has no method `{}`", name.text, member.text);
                    return self.error("E0503", member.span, message);
                }
                _ => {}
            }
        }
        let store = match self.expr(base, env, None)? {
            Val::Store(store) => store,
            _ => {
                return self.error(
                    "E0503",
                    member.span,
                    format!("there is no method `{}` here", member.text),
                );
            }
        };
        match store {
            Store::Header(h, s) => self.header_method(h, &s.name, member, args, span),
            Store::Stack(id, _, size) => self.stack_method(&[id], size, member, args, env, span),
            Store::UnionStack(ids, _, size) => self.stack_method(&ids, size, member, args, env, span),
            Store::Union(_, members) if member.text == "isValid" && args.is_empty() => {
                Ok(Val::Scalar(self.union_is_valid(&members), T::Bool))
            }
            other => {
                let ty = other.ty();
                let hint = match ty {
                    T::Struct(_) => "only headers are valid or not; a field of this struct is meant, perhaps",
                    _ => "headers have isValid, setValid and setInvalid",
                };
                self.error_hint("E0503", member.span, format!("{ty} has no method `{}`", member.text), hint)
            }
        }
    }

    fn header_method(
        &mut self,
        h: HeaderRef,
        ty: &str,
        member: &ast::Name,
        args: &[ast::Argument],
        span: Span,
    ) -> Res<Val> {
        if !args.is_empty() {
            return self.error("E0503", span, format!("`{}` takes no arguments", member.text));
        }
        match member.text.as_str() {
            "isValid" => return Ok(Val::Scalar(self.is_valid(&h), T::Bool)),
            "setValid" => {
                self.push(Ir::SetValid(h.clone()));
                self.only_valid(&h, false);
            }
            "setInvalid" => self.push(Ir::SetInvalid(h)),
            "minSizeInBits" | "minSizeInBytes" | "maxSizeInBits" | "maxSizeInBytes" => {
                return self.not_yet(span, "the size of a header as a number");
            }
            other => {
                let d =
                    Diagnostic::error("E0503", member.span, format!("header `{ty}` has no method `{other}`"));
                let near = did_you_mean(other, ["isValid", "setValid", "setInvalid"]);
                return match near {
                    Some(near) => self.report(d.hint(format!("did you mean `{near}`?"))),
                    None => self.report(d.hint("headers have isValid, setValid and setInvalid")),
                };
            }
        }
        Ok(Val::Void)
    }

    fn stack_method(
        &mut self,
        ids: &[ir::StackId],
        size: u32,
        member: &ast::Name,
        args: &'a [ast::Argument],
        env: &Env<'a>,
        span: Span,
    ) -> Res<Val> {
        let count = match args.first().and_then(|a| a.value.as_ref()) {
            Some(e) => self.integer(e, env)?.to_u32().unwrap_or(size).min(size),
            None => 1,
        };
        match member.text.as_str() {
            "push_front" => ids.iter().for_each(|id| self.push(Ir::PushFront(*id, count))),
            "pop_front" => ids.iter().for_each(|id| self.push(Ir::PopFront(*id, count))),
            other => {
                let message = format!("a header stack has no method `{other}`");
                return self.error_hint("E0503", span, message, "it has push_front and pop_front");
            }
        }
        Ok(Val::Void)
    }

    fn packet_method(
        &mut self,
        member: &ast::Name,
        type_args: &'a [ast::Type],
        args: &'a [ast::Argument],
        env: &Env<'a>,
        want: Option<&T>,
        span: Span,
    ) -> Res<Val> {
        let first = args.first().and_then(|a| a.value.as_ref());
        match (member.text.as_str(), first) {
            ("emit", Some(e)) => {
                let val = self.expr(e, env, None)?;
                self.emit(val, e.span)?;
                Ok(Val::Void)
            }
            ("extract" | "lookahead" | "advance", _) if self.parser.is_none() => {
                self.error("E0503", span, format!("`{}` only works in a parser", member.text))
            }
            ("extract", Some(e)) => self.extract(e, args.get(1), env, span),
            // `extract<T>(_)`: read and forgotten.
            ("extract", None) if args.len() == 1 && !type_args.is_empty() => {
                let ty = self.ty(&type_args[0], env)?;
                let Store::Header(header, _) = self.storage("$skipped", &ty, span)? else {
                    return self.error("E0503", span, "only headers are extracted");
                };
                self.push(Ir::Extract { header, varbit: None });
                Ok(Val::Void)
            }
            ("extract", None) => self.error("E0503", span, "`extract` takes a header"),
            ("lookahead", None) => self.lookahead(type_args, env, want, span),
            ("advance", Some(e)) => {
                let (bits, _) = self.scalar(e, env, Some(&T::Bit(32)))?;
                self.push(Ir::Advance(bits));
                Ok(Val::Void)
            }
            ("length", None) => match self.out.standard.packet_length {
                var if self.standard.is_some() => {
                    Ok(Val::Scalar(Expr::read(Place::Var(var), Ty::Bit(32)), T::Bit(32)))
                }
                _ => self.not_yet(span, "`packet.length()`"),
            },
            (other, _) => {
                let d = Diagnostic::error("E0503", member.span, format!("a packet has no method `{other}`"));
                let near = did_you_mean(other, ["extract", "lookahead", "advance", "length", "emit"]);
                match near {
                    Some(near) => self.report(d.hint(format!("did you mean `{near}`?"))),
                    None => self.report(d),
                }
            }
        }
    }

    fn emit(&mut self, val: Val, span: Span) -> Res<()> {
        match val {
            Val::Store(Store::Header(h, _)) => {
                self.push(Ir::Emit(h));
                Ok(())
            }
            Val::Store(stack @ (Store::Stack(..) | Store::UnionStack(..))) => {
                for h in self.stack_headers(&stack) {
                    self.push(Ir::Emit(HeaderRef::Header(h)));
                }
                Ok(())
            }
            Val::Store(Store::Struct(_, parts) | Store::Tuple(parts) | Store::Union(_, parts)) => {
                parts.iter().try_for_each(|p| self.emit(Val::Store(p.clone()), span))
            }
            Val::List(items) => items.into_iter().try_for_each(|v| self.emit(v, span)),
            _ => self.error_hint(
                "E0503",
                span,
                "only headers are emitted",
                "put the value into a header's field",
            ),
        }
    }

    fn extract(
        &mut self,
        e: &'a ast::Expr,
        varbit: Option<&'a ast::Argument>,
        env: &Env<'a>,
        span: Span,
    ) -> Res<Val> {
        let Store::Header(header, s) = self.lvalue(e, env)? else {
            return self.error_hint(
                "E0503",
                e.span,
                "only headers are extracted",
                "a number is `lookahead` and `advance`",
            );
        };
        let has = s.fields.iter().any(|f| matches!(f.ty, T::Varbit(_)));
        let varbit = match varbit.and_then(|a| a.value.as_ref()) {
            Some(e) => Some(self.scalar(e, env, Some(&T::Bit(32)))?.0),
            None => None,
        };
        if has != varbit.is_some() {
            let message = match has {
                true => format!("`{}` has a varbit field, whose size is missing", s.name),
                false => format!("`{}` has no varbit field", s.name),
            };
            return self.error_hint(
                "E0503",
                span,
                message,
                "`extract(header, bits)` is for headers with a varbit field",
            );
        }
        self.push(Ir::Extract { header: header.clone(), varbit });
        self.only_valid(&header, true);
        Ok(Val::Void)
    }

    fn lookahead(
        &mut self,
        type_args: &'a [ast::Type],
        env: &Env<'a>,
        want: Option<&T>,
        span: Span,
    ) -> Res<Val> {
        let ty = match (type_args.first(), want) {
            (Some(ty), _) => self.ty(ty, env)?,
            (None, Some(want)) => want.clone(),
            (None, None) => {
                return self.error_hint(
                    "E0503",
                    span,
                    "`lookahead` of what?",
                    "write `packet.lookahead<bit<8>>()`",
                );
            }
        };
        let store = self.storage("$lookahead", &ty, span)?;
        match &store {
            Store::Scalar(place, _) => self.push(Ir::Lookahead { dst: place.clone() }),
            _ => {
                let Some(bits) = flat_width(&ty) else {
                    return self.error("E0503", span, format!("`lookahead` cannot read a {ty}"));
                };
                let var = self.var("$lookahead", Ty::Bit(bits), ir::VarKind::Local);
                self.push(Ir::Lookahead { dst: Place::Var(var) });
                self.unpack(&store, &Expr::read(Place::Var(var), Ty::Bit(bits)), &mut { bits });
            }
        }
        Ok(self.loaded(Val::Store(store)))
    }

    /// Spreads bits over the scalars of a storage, most significant first.
    fn unpack(&mut self, store: &Store, bits: &Expr, left: &mut u32) {
        match store {
            Store::Scalar(place, ty) => {
                if let Some(ty) = ty.ir() {
                    *left -= ty.width();
                    let part = super::fold::slice(bits.clone(), *left + ty.width() - 1, *left);
                    self.push(Ir::Assign { dst: place.clone(), src: super::fold::cast(part, ty) });
                }
            }
            Store::Header(h, s) => {
                self.push(Ir::SetValid(h.clone()));
                for i in 0..s.fields.len() {
                    self.unpack(&s.place(h, i), bits, left);
                }
            }
            Store::Struct(_, parts) | Store::Tuple(parts) => {
                parts.iter().for_each(|p| self.unpack(p, bits, left))
            }
            Store::Stack(..) | Store::UnionStack(..) | Store::Union(..) => {}
        }
    }

    // ---- tables ----

    /// The table that `callee` applies, if it is `t.apply`.
    pub(super) fn applied_table(&self, callee: &ast::Expr, env: &Env<'a>) -> Option<ir::TableId> {
        let ExprKind::Member { base, member } = &callee.kind else { return None };
        let ExprKind::Name { name, .. } = &base.kind else { return None };
        match env.get(&name.text) {
            Some(Binding::Object(Object::Table(id))) if member.text == "apply" => Some(id),
            _ => None,
        }
    }

    /// `t.apply().hit` and `.miss`.
    pub(super) fn apply_result(
        &mut self,
        table: ir::TableId,
        args: &[ast::Argument],
        member: &ast::Name,
        span: Span,
    ) -> Res<Val> {
        if !args.is_empty() {
            return self.error("E0503", span, "`apply` of a table takes no arguments");
        }
        let hit = self.var("$hit", Ty::Bool, ir::VarKind::Local);
        let read = Expr::read(Place::Var(hit), Ty::Bool);
        let value = match member.text.as_str() {
            "hit" => read,
            "miss" => Expr::not(read),
            "action_run" => {
                return self.error_hint(
                    "E0503",
                    span,
                    "`action_run` only stands in a `switch`",
                    "or look at `.hit`",
                );
            }
            other => {
                let message = format!("`apply()` has no result `{other}`");
                return self.error_hint("E0503", member.span, message, "it has hit, miss and action_run");
            }
        };
        self.apply_table(table, Some(hit), None);
        Ok(Val::Scalar(value, T::Bool))
    }

    pub(super) fn apply_table(
        &mut self,
        table: ir::TableId,
        hit: Option<ir::VarId>,
        action: Option<ir::VarId>,
    ) {
        for stmt in self.key_statements.get(&table).cloned().unwrap_or_default() {
            self.push(stmt.kind);
        }
        self.push(Ir::Apply { table, hit, action });
        if self.exiting.contains(&table) {
            let flag = self.flag();
            if let super::Exit::Break(label) = self.exit {
                let then = vec![ir::Stmt::new(Ir::Break(label), self.loc)];
                let cond = Expr { kind: IrKind::Read(Place::Var(flag)), ty: Ty::Bool };
                self.push(Ir::If { cond, then, otherwise: Vec::new() });
            }
        }
    }
}

/// A `return` at the very end of a body needs no jump: code without labels is easier to read on every target.
fn without_last_break(mut block: Vec<ir::Stmt>, label: ir::LabelId, used: bool) -> (Vec<ir::Stmt>, bool) {
    if !used {
        return (block, false);
    }
    if matches!(block.last().map(|s| &s.kind), Some(Ir::Break(l)) if *l == label) {
        block.pop();
    }
    let mut still = false;
    ir::visit::stmts(&block, &mut |s| still |= matches!(s.kind, Ir::Break(l) if l == label));
    (block, still)
}

/// Bits of a type that has a fixed size on the wire.
fn flat_width(ty: &T) -> Option<u32> {
    match ty {
        T::Struct(s) | T::Header(s) => s.fields.iter().map(|f| flat_width(&f.ty)).sum(),
        T::Tuple(items) => items.iter().map(flat_width).sum(),
        T::Varbit(_) => None,
        other => other.ir().map(Ty::width),
    }
}
