//! Calls: which declaration is meant, what its type parameters stand for, which argument is for which parameter, and
//! whether the call may stand where it does (P4-16 sections 6.8, 8.20 and appendix on calls).

use std::sync::Arc;

use super::coerce::can_cast;
use super::typed::{Arg, Builtin, Call, Callee, Decl, Kind, Res};
use super::types::{DeclId, Named, Subst, Type};
use super::value::Value;
use super::{Checker, Place};
use crate::ast::{self, Argument, Direction, Expr, ExprKind, Name};
use crate::diag::{Diagnostic, did_you_mean};
use crate::source::Span;

/// Parameters and the arguments for them, in the order of the declaration.
type Matched<'a> = Vec<(DeclId, Option<&'a Argument>)>;

impl<'a> Checker<'a, '_> {
    /// `callee<types>(args)` as an expression or statement.
    pub(super) fn call(
        &mut self,
        e: &'a Expr,
        callee: &'a Expr,
        type_args: &'a [ast::Type],
        args: &'a [Argument],
    ) -> Type {
        let types: Vec<Type> = type_args.iter().map(|t| self.ty(t)).collect();
        if let ExprKind::Member { base, member } = &callee.kind {
            return self.method_call(e, callee, (base, member), &types, args);
        }
        let ty = self.expr(callee);
        let named = match &ty {
            Type::TypeName(t) => {
                let made = self.with_type_args(t, &types, callee.span);
                return match self.construct(&made, args, e.span) {
                    Some(call) => {
                        let Callee::Constructor(ty, _) = &call.callee else { return Type::Bad };
                        let ty = ty.clone();
                        self.typed.calls.insert(e.id, call);
                        ty
                    }
                    None => Type::Bad,
                };
            }
            Type::Bad => {
                self.loose(args);
                return Type::Bad;
            }
            Type::Table(n) => {
                let text = format!("`{}` is a table and cannot be called", n.name);
                let d = Diagnostic::error("E0207", e.span, text);
                return self.bad(d.hint(format!("apply it: `{}.apply()`", n.name)));
            }
            _ => self.typed.res(callee.id).cloned(),
        };
        let Some(Res::Decl(id)) = named else { return self.not_callable(callee, &ty) };
        match self.kind(id) {
            Some(Kind::Action | Kind::Function | Kind::ExternFunction) => {}
            _ => return self.not_callable(callee, &ty),
        }
        let name = self.decl(id).map(|d| d.name.to_string()).unwrap_or_default();
        let candidates = match &callee.kind {
            ExprKind::Name { global, name } => self.find(&name.text, *global),
            _ => vec![id],
        };
        let Some((id, matched)) = self.choose(&name, &candidates, args, e.span) else { return Type::Bad };
        self.typed.refs.insert(callee.id, Res::Decl(id));
        self.place_of_function(id, e.span);
        let (ret, call) = self.apply(id, Callee::Function(id), Subst::new(), &types, matched, e.span);
        self.finish(e, call, ret)
    }

    fn finish(&mut self, e: &'a Expr, call: Call<'a>, ret: Type) -> Type {
        self.typed.calls.insert(e.id, call);
        ret
    }

    fn not_callable(&mut self, callee: &'a Expr, ty: &Type) -> Type {
        let text = format!("`{}` cannot be called", self.text(callee));
        let mut d = Diagnostic::error("E0207", callee.span, text).label(format!("this is `{ty}`"));
        if let Type::Parser(_) | Type::Control(_) = ty {
            d = d.hint(format!("apply it: `{}.apply(…)`", self.text(callee)));
        }
        self.bad(d)
    }

    /// Arguments of a call that is wrong already.
    fn loose(&mut self, args: &'a [Argument]) {
        for value in args.iter().filter_map(|a| a.value.as_ref()) {
            self.expr(value);
        }
    }

    fn with_type_args(&mut self, ty: &Type, args: &[Type], span: Span) -> Type {
        let Some(named) = ty.named() else { return ty.clone() };
        if args.is_empty() {
            return ty.clone();
        }
        if args.len() != named.args.len() {
            let text =
                format!("`{}` takes {} type arguments, {} given", named.name, named.args.len(), args.len());
            return self.bad(Diagnostic::error("E0307", span, text));
        }
        super::tyref::with_args(ty, args.to_vec().into())
    }

    /// The candidate that takes these arguments.
    fn choose(
        &mut self,
        name: &str,
        ids: &[DeclId],
        args: &'a [Argument],
        span: Span,
    ) -> Option<(DeclId, Matched<'a>)> {
        let fitting = ids.iter().find_map(|id| Some((*id, self.fit(&self.params(*id), args).ok()?)));
        if fitting.is_some() {
            return fitting;
        }
        self.loose(args);
        let plural = |n: usize| if n == 1 { "argument" } else { "arguments" };
        let given = args.len();
        let mut d = match ids {
            [one] => match self.fit(&self.params(*one), args) {
                Err(Misfit::Count(wanted)) => {
                    let text = format!("`{name}` takes {wanted} {}, {given} given", plural(wanted));
                    Diagnostic::error("E0313", span, text)
                }
                Err(Misfit::Missing(p)) => {
                    Diagnostic::error("E0313", span, format!("`{name}` needs an argument for `{p}`"))
                }
                Err(Misfit::Unknown(n)) => {
                    let known: Vec<Arc<str>> = self.params(*one).iter().map(|p| p.1.name.clone()).collect();
                    let d =
                        Diagnostic::error("E0313", n.span, format!("`{name}` has no parameter `{}`", n.text));
                    match did_you_mean(&n.text, known.iter().map(AsRef::as_ref)) {
                        Some(near) => d.hint(format!("did you mean `{near}`?")),
                        None => d,
                    }
                }
                Err(Misfit::Twice(n)) => {
                    Diagnostic::error("E0313", n.span, format!("`{}` is given twice", n.text))
                }
                Err(Misfit::Mixed) => {
                    Diagnostic::error("E0313", span, "either all arguments have names or none")
                }
                Ok(_) => return None,
            },
            _ => Diagnostic::error("E0313", span, format!("no `{name}` takes {given} {}", plural(given))),
        };
        for id in ids {
            let text = self.signature(*id);
            if let Some(decl) = self.decl(*id) {
                d = d.also(decl.span, format!("`{text}`"));
            }
        }
        let shapes: Vec<String> = ids.iter().map(|id| format!("`{}`", self.signature(*id))).collect();
        if d.hint.is_none() {
            d = d.hint(format!("declared as {}", shapes.join(" and ")));
        }
        self.report(d);
        None
    }

    fn params(&self, id: DeclId) -> Vec<(DeclId, Decl<'a>)> {
        let ids = self.decl(id).map(|d| d.params.clone()).unwrap_or_default();
        ids.into_iter().filter_map(|p| Some((p, self.decl(p)?.clone()))).collect()
    }

    /// A declaration's head, for messages.
    pub(super) fn signature(&self, id: DeclId) -> String {
        let Some(d) = self.decl(id) else { return String::new() };
        let params: Vec<String> = self.params(id).iter().map(|(_, p)| parameter(p)).collect();
        let generic: Vec<&str> =
            d.type_params.iter().filter_map(|t| Some(self.decl(*t)?.name.as_ref())).collect();
        let generic = if generic.is_empty() { String::new() } else { format!("<{}>", generic.join(", ")) };
        let ret = match d.kind {
            Kind::Action => "action ".to_string(),
            Kind::Function | Kind::ExternFunction | Kind::Method => format!("{} ", d.ty),
            _ => String::new(),
        };
        format!("{ret}{}{generic}({})", d.name, params.join(", "))
    }

    /// Which argument is for which parameter.
    fn fit(&self, params: &[(DeclId, Decl<'a>)], args: &'a [Argument]) -> Result<Matched<'a>, Misfit> {
        let named = args.iter().filter(|a| a.name.is_some()).count();
        if named != 0 && named != args.len() {
            return Err(Misfit::Mixed);
        }
        let may_miss = |p: &Decl| p.optional || p.default.is_some();
        if named == 0 {
            let needed = params.iter().filter(|(_, p)| !may_miss(p)).count();
            if args.len() > params.len() || args.len() < needed {
                return Err(Misfit::Count(if args.len() > params.len() { params.len() } else { needed }));
            }
            let matched: Matched = params.iter().enumerate().map(|(i, (id, _))| (*id, args.get(i))).collect();
            let hole = matched.iter().zip(params).find(|((_, a), (_, p))| a.is_none() && !may_miss(p));
            return match hole {
                Some((_, (_, p))) => Err(Misfit::Missing(p.name.to_string())),
                None => Ok(matched),
            };
        }
        for (i, arg) in args.iter().enumerate() {
            let Some(name) = &arg.name else { continue };
            if !params.iter().any(|(_, p)| *p.name == *name.text) {
                return Err(Misfit::Unknown(name.clone()));
            }
            if args[..i].iter().any(|a| a.name.as_ref().is_some_and(|n| n.text == name.text)) {
                return Err(Misfit::Twice(name.clone()));
            }
        }
        let find = |p: &Decl| args.iter().find(|a| a.name.as_ref().is_some_and(|n| *n.text == *p.name));
        for (_, p) in params {
            if find(p).is_none() && !may_miss(p) {
                return Err(Misfit::Missing(p.name.to_string()));
            }
        }
        Ok(params.iter().map(|(id, p)| (*id, find(p))).collect())
    }

    /// Checks arguments against parameters and infers type parameters; the result's type and the record of the call.
    fn apply(
        &mut self,
        id: DeclId,
        callee: Callee,
        mut subst: Subst,
        type_args: &[Type],
        matched: Matched<'a>,
        span: Span,
    ) -> (Type, Call<'a>) {
        let Some(decl) = self.decl(id).cloned() else {
            return (Type::Bad, Call { callee, type_args: Vec::new(), args: Vec::new() });
        };
        let own: &[DeclId] = if matches!(callee, Callee::Constructor(..) | Callee::Block(..)) {
            &[]
        } else {
            &decl.type_params
        };
        if !type_args.is_empty() && type_args.len() != own.len() {
            let text =
                format!("`{}` takes {} type arguments, {} given", decl.name, own.len(), type_args.len());
            self.report(Diagnostic::error("E0307", span, text).also(decl.span, "declared here"));
        }
        for (i, p) in own.iter().enumerate() {
            let ty = match type_args.get(i) {
                Some(t) if *t != Type::DontCare => t.clone(),
                _ => self.unknowns.fresh(),
            };
            subst.insert(*p, ty);
        }
        let constructor = matches!(callee, Callee::Constructor(..));
        let args = self.arguments(&matched, &subst, constructor);
        let mut solved = true;
        for p in own {
            let ty = self.unknowns.resolve(&subst[p]);
            if ty.any(&mut |t| matches!(t, Type::Infer(_))) {
                solved = false;
            }
            subst.insert(*p, ty);
        }
        let ret = self.unknowns.resolve(&decl.ty.subst(&subst));
        if !solved && ret.any(&mut |t| matches!(t, Type::Infer(_))) {
            let text = format!("the type arguments of `{}` cannot be inferred", decl.name);
            let d = Diagnostic::error("E0310", span, text).also(decl.span, "declared here");
            self.report(d.hint(format!("write them: `{}<bit<8>>(…)`", decl.name)));
            return (Type::Bad, Call { callee, type_args: Vec::new(), args });
        }
        self.inferred(&args, &subst, own);
        let mut type_args: Vec<(DeclId, Type)> = subst.into_iter().collect();
        type_args.sort_by_key(|t| t.0);
        (ret, Call { callee, type_args, args })
    }

    /// Data of a call needs a size: numbers without width and nameless structs have none.
    fn inferred(&mut self, args: &[(DeclId, Arg<'a>)], subst: &Subst, own: &[DeclId]) {
        for (id, arg) in args {
            let (Arg::Given(value), Some(param)) = (arg, self.decl(*id).cloned()) else { continue };
            let Type::Param(p) = &param.ty else { continue };
            if !own.contains(&p.decl) {
                continue;
            }
            let d = match subst.get(&p.decl) {
                Some(Type::Int) if param.direction == Direction::In => {
                    let text =
                        format!("`{}` needs a width: `{}` may be of any type", self.text(value), param.name);
                    Diagnostic::error("E0310", value.span, text)
                        .hint(format!("write `32w{}`, for example", self.text(value)))
                }
                Some(Type::Record(_)) => {
                    let text = "the struct type of this initialiser cannot be inferred";
                    Diagnostic::error("E0310", value.span, text)
                        .hint("write its type in front: `(my_struct_t){ … }`")
                }
                Some(t @ (Type::Parser(_) | Type::Control(_) | Type::Package(_))) => {
                    Diagnostic::error("E0301", value.span, format!("`{t}` cannot be an argument"))
                }
                _ => continue,
            };
            self.report(d);
        }
    }

    /// Arguments whose type says most come first, so that `random(meta.x, 0, 7)` finds its T in `meta.x`.
    fn arguments(
        &mut self,
        matched: &Matched<'a>,
        subst: &Subst,
        constructor: bool,
    ) -> Vec<(DeclId, Arg<'a>)> {
        let given = |a: &Option<&'a Argument>| a.and_then(|a| a.value.as_ref());
        let values: Vec<Option<&'a Expr>> = matched.iter().map(|(_, a)| given(a)).collect();
        let types: Vec<Type> = values.iter().map(|v| v.map_or(Type::DontCare, |v| self.expr(v))).collect();
        let vague = |t: &Type| {
            matches!(t, Type::Int | Type::Tuple(_) | Type::Record(_) | Type::Invalid | Type::Default)
        };
        let mut order: Vec<usize> = (0..matched.len()).collect();
        order.sort_by_key(|i| vague(&types[*i]));
        for i in order {
            let (Some(value), Some(param)) = (values[i], self.decl(matched[i].0).cloned()) else { continue };
            self.argument(value, &types[i], &param, subst, constructor);
        }
        let pick = |c: &Self, id: DeclId, v: Option<&'a Expr>| match (v, c.decl(id).and_then(|p| p.default)) {
            (Some(v), _) => Arg::Given(v),
            (None, Some(d)) => Arg::Default(d),
            (None, None) => Arg::Omitted,
        };
        matched.iter().zip(values).map(|((id, _), v)| (*id, pick(self, *id, v))).collect()
    }

    fn argument(&mut self, value: &'a Expr, ty: &Type, param: &Decl<'a>, subst: &Subst, constructor: bool) {
        let want = self.unknowns.resolve(&param.ty.subst(subst));
        if matches!(value.kind, ExprKind::DontCare) || ty.is_bad() {
            return;
        }
        if matches!(
            ty,
            Type::Table(_) | Type::Action(_) | Type::Function | Type::TypeName(_) | Type::State | Type::Void
        ) {
            let text = format!("`{}` cannot be an argument: it is `{ty}`", self.text(value));
            self.report(Diagnostic::error("E0301", value.span, text));
            return;
        }
        if let Direction::Out | Direction::InOut = param.direction {
            let way = if param.direction == Direction::Out { "an `out`" } else { "an `inout`" };
            let why =
                format!("`{}` is {way} parameter: its argument must be a variable or a field", param.name);
            if !self.need_lvalue(value, &why) {
                return;
            }
            if !matches!(ty, Type::DontCare) && !self.unknowns.unify(ty, &want) {
                let (ty, want) = (self.unknowns.resolve(ty), self.unknowns.resolve(&want));
                let text = format!("expected `{want}`, found `{ty}`");
                let mut d = Diagnostic::error("E0301", value.span, text)
                    .also(param.span, format!("{way} parameter `{}`", param.name));
                if can_cast(&ty, &want) {
                    d = d.hint(format!(
                        "what is written cannot be cast: use a variable of type `{want}`, and cast afterwards"
                    ));
                }
                self.report(d);
            }
            return;
        }
        let blocks =
            matches!((ty, &want), (Type::Parser(_), Type::Parser(_)) | (Type::Control(_), Type::Control(_)));
        if blocks {
            self.conform(value, ty, &want, &param.name);
        } else if constructor
            && matches!(want, Type::Parser(_) | Type::Control(_) | Type::Package(_))
            && !self.unknowns.unify(ty, &want)
        {
            let want = self.unknowns.resolve(&want);
            let text = format!("argument `{}` must be `{want}`, found `{ty}`", param.name);
            self.report(Diagnostic::error("E0408", value.span, text).also(param.span, "the parameter"));
        } else {
            self.coerce(value, ty, &want);
            if constructor && !self.is_known(value) {
                let text =
                    format!("argument `{}` of a constructor must be known at compile time", param.name);
                self.report(Diagnostic::error("E0306", value.span, text));
            }
        }
    }

    /// Whether a parser or control has the parameters that its declared type asks for.
    fn conform(&mut self, value: &'a Expr, ty: &Type, want: &Type, param: &str) {
        let side = |c: &Self, t: &Type| -> Vec<(Decl<'a>, Type)> {
            let subst = c.typed.subst_of(t);
            let params = t.named().map(|n| c.params(n.decl)).unwrap_or_default();
            params.into_iter().map(|(_, p)| (p.clone(), p.ty.subst(&subst))).collect()
        };
        let (has, wants) = (side(self, ty), side(self, want));
        let name = want.named().map(|n| n.name.to_string()).unwrap_or_default();
        let shape = want.named().map(|n| self.signature(n.decl)).unwrap_or_default();
        let needed = wants.iter().filter(|(p, _)| !p.optional && p.default.is_none()).count();
        let mut problem = None;
        if has.len() > wants.len() || has.len() < needed {
            problem = Some(format!("it has {} parameters, `{name}` has {}", has.len(), wants.len()));
        }
        for ((p, a), (w, b)) in has.iter().zip(&wants) {
            if problem.is_some() {
                break;
            }
            if p.direction != w.direction {
                problem = Some(format!("`{}` must be `{}`", p.name, parameter(w)));
            } else if !self.unknowns.unify(a, b) {
                let b = self.unknowns.resolve(b);
                problem = Some(format!("`{}` has type `{a}`, but `{b}` is wanted here", p.name));
            }
        }
        if let Some(problem) = problem {
            let text = format!("argument `{param}` cannot be `{}`: {problem}", self.text(value));
            let mut d =
                Diagnostic::error("E0408", value.span, text).hint(format!("it must look like `{shape}`"));
            if let Some(at) = ty.named().and_then(|n| self.decl(n.decl)) {
                d = d.also(at.span, "declared here");
            }
            self.report(d);
        }
    }

    /// A constructor call: of an extern, parser, control or package.
    pub(super) fn construct(&mut self, ty: &Type, args: &'a [Argument], span: Span) -> Option<Call<'a>> {
        let named = match ty {
            Type::Extern(n) | Type::Parser(n) | Type::Control(n) | Type::Package(n) => n.clone(),
            Type::Bad => {
                self.loose(args);
                return None;
            }
            _ => {
                let text = format!("`{ty}` has no constructor");
                let d = Diagnostic::error("E0314", span, text);
                self.report(d.hint(
                    "only externs, parsers, controls and packages are instantiated; for a value write a cast",
                ));
                return None;
            }
        };
        let decl = self.decl(named.decl)?.clone();
        self.place_of_object(&decl, span);
        let subst = self.typed.subst_of(ty);
        if let Type::Extern(_) = ty {
            let is_ctor = |c: &Self, m: DeclId| c.kind(m) == Some(Kind::Constructor);
            let ctors: Vec<DeclId> = decl.members.iter().copied().filter(|m| is_ctor(self, *m)).collect();
            if ctors.is_empty() {
                if !args.is_empty() {
                    self.report(Diagnostic::error(
                        "E0313",
                        span,
                        format!("`{ty}` has no constructor with arguments"),
                    ));
                }
                return Some(Call {
                    callee: Callee::Constructor(ty.clone(), None),
                    type_args: Vec::new(),
                    args: Vec::new(),
                });
            }
            let (id, matched) = self.choose(&decl.name, &ctors, args, span)?;
            let callee = Callee::Constructor(ty.clone(), Some(id));
            let (_, mut call) = self.apply(id, callee, subst, &[], matched, span);
            call.callee = Callee::Constructor(self.unknowns.resolve(ty), Some(id));
            return Some(call);
        }
        if matches!(decl.kind, Kind::ParserType | Kind::ControlType) {
            let text = format!(
                "`{}` is only a type of {}: it has no body",
                decl.name,
                if decl.kind == Kind::ParserType { "parsers" } else { "controls" }
            );
            self.report(Diagnostic::error("E0314", span, text));
            return None;
        }
        // For the choice below, a block's constructor parameters stand in the place of its parameters.
        let params = if decl.kind == Kind::Package { decl.params.clone() } else { decl.ctor_params.clone() };
        let list: Vec<(DeclId, Decl)> =
            params.iter().filter_map(|p| Some((*p, self.decl(*p)?.clone()))).collect();
        let matched = match self.fit(&list, args) {
            Ok(matched) => matched,
            Err(misfit) => {
                self.loose(args);
                let shape: Vec<String> = list.iter().map(|(_, p)| parameter(p)).collect();
                let text = match misfit {
                    Misfit::Missing(p) => {
                        format!("the constructor of `{}` needs an argument for `{p}`", decl.name)
                    }
                    _ => format!(
                        "the constructor of `{}` takes {} arguments, {} given",
                        decl.name,
                        list.len(),
                        args.len()
                    ),
                };
                let d = Diagnostic::error("E0313", span, text).also(decl.span, "declared here");
                self.report(d.hint(format!("its parameters: ({})", shape.join(", "))));
                return None;
            }
        };
        let (_, mut call) =
            self.apply(named.decl, Callee::Constructor(ty.clone(), None), subst, &[], matched, span);
        call.callee = Callee::Constructor(self.unknowns.resolve(ty), None);
        Some(call)
    }

    /// `base.member(args)`.
    fn method_call(
        &mut self,
        e: &'a Expr,
        callee: &'a Expr,
        (base, member): (&'a Expr, &'a Name),
        types: &[Type],
        args: &'a [Argument],
    ) -> Type {
        let ty = self.expr(base);
        self.note(callee, &Type::Function);
        if let Some((builtin, ret)) = self.builtin(&ty, base, member, args) {
            let call = Call { callee: Callee::Builtin(builtin), type_args: Vec::new(), args: Vec::new() };
            self.typed.refs.insert(callee.id, Res::Builtin(builtin));
            self.size_value(e, builtin, &ty);
            return self.finish(e, call, ret);
        }
        let object = match self.typed.res(base.id) {
            Some(Res::Decl(id)) => Some(*id),
            _ => None,
        };
        match &ty {
            Type::Extern(n) => self.extern_call(e, callee, (n, &ty, object), member, types, args),
            Type::Table(n) if member.text == "apply" => self.table_apply(e, n, args),
            Type::Parser(n) | Type::Control(n) if member.text == "apply" => {
                self.block_apply(e, &ty, n, object, args)
            }
            Type::TypeName(t) if member.text == "apply" => {
                let made = self.with_type_args(t, types, base.span);
                self.direct_apply(e.span, &made, args);
                Type::Void
            }
            Type::Bad => {
                self.loose(args);
                Type::Bad
            }
            _ => {
                self.loose(args);
                let text = format!("`{ty}` has no method `{}`", member.text);
                let mut d = Diagnostic::error("E0206", member.span, text);
                let known = [
                    "isValid",
                    "setValid",
                    "setInvalid",
                    "push_front",
                    "pop_front",
                    "apply",
                    "minSizeInBits",
                ];
                if let Some(near) = did_you_mean(&member.text, known) {
                    d = d.hint(format!("did you mean `{near}`?"));
                } else if ty.is_header_like() {
                    d = d.hint("methods of a header: isValid(), setValid(), setInvalid()");
                }
                self.bad(d)
            }
        }
    }

    fn size_value(&mut self, e: &'a Expr, builtin: Builtin, ty: &Type) {
        let ty = if let Type::TypeName(t) = ty { t } else { ty };
        let bits = match builtin {
            Builtin::MinSizeInBits | Builtin::MinSizeInBytes => self.bits_of(ty, false),
            Builtin::MaxSizeInBits | Builtin::MaxSizeInBytes => self.bits_of(ty, true),
            _ => return,
        };
        let bytes = matches!(builtin, Builtin::MinSizeInBytes | Builtin::MaxSizeInBytes);
        if let Some(bits) = bits {
            self.set_value(e, Value::int(if bytes { bits.div_ceil(8) } else { bits }));
        }
    }

    fn bits_of(&self, ty: &Type, max: bool) -> Option<u64> {
        match ty.underlying() {
            Type::Varbit(w) => Some(if max { u64::from(*w) } else { 0 }),
            Type::Stack(t, n) => Some(self.bits_of(t, max)?.saturating_mul(u64::from(*n))),
            Type::Tuple(items) => items.iter().map(|t| self.bits_of(t, max)).sum(),
            t @ Type::Union(_) => {
                let sizes: Option<Vec<u64>> =
                    self.typed.fields(t).iter().map(|f| self.bits_of(&f.1, max)).collect();
                if max { sizes?.into_iter().max() } else { sizes?.into_iter().min() }
            }
            t if t.has_fields() => self.typed.fields(t).iter().map(|f| self.bits_of(&f.1, max)).sum(),
            t => t.scalar_width().map(u64::from),
        }
    }

    /// Methods of the language itself.
    fn builtin(
        &mut self,
        ty: &Type,
        base: &'a Expr,
        member: &Name,
        args: &'a [Argument],
    ) -> Option<(Builtin, Type)> {
        use Builtin::*;
        let header = ty.is_header_like();
        let stack = matches!(ty, Type::Stack(t, _) if t.is_header_like());
        let sized =
            !matches!(ty, Type::Extern(_) | Type::Bad | Type::Table(_) | Type::Parser(_) | Type::Control(_));
        let (builtin, ret, params) = match member.text.as_str() {
            "isValid" if header => (IsValid, Type::Bool, 0),
            "setValid" if matches!(ty, Type::Header(_)) => (SetValid, Type::Void, 0),
            "setInvalid" if matches!(ty, Type::Header(_)) => (SetInvalid, Type::Void, 0),
            "push_front" if stack => (PushFront, Type::Void, 1),
            "pop_front" if stack => (PopFront, Type::Void, 1),
            "minSizeInBits" if sized => (MinSizeInBits, Type::Int, 0),
            "minSizeInBytes" if sized => (MinSizeInBytes, Type::Int, 0),
            "maxSizeInBits" if sized => (MaxSizeInBits, Type::Int, 0),
            "maxSizeInBytes" if sized => (MaxSizeInBytes, Type::Int, 0),
            _ => return None,
        };
        self.loose(args);
        if args.len() != params {
            let text = format!("`{}` takes {params} arguments, {} given", member.text, args.len());
            self.report(Diagnostic::error("E0313", member.span, text));
        }
        if matches!(builtin, SetValid | SetInvalid | PushFront | PopFront) {
            self.need_lvalue(base, "");
        }
        if matches!(builtin, PushFront | PopFront) {
            if let Some(count) = args.first().and_then(|a| a.value.as_ref()) {
                self.size(count, "the count of push_front and pop_front");
            }
        }
        Some((builtin, ret))
    }

    fn extern_call(
        &mut self,
        e: &'a Expr,
        callee: &'a Expr,
        (named, ty, object): (&Named, &Type, Option<DeclId>),
        member: &'a Name,
        types: &[Type],
        args: &'a [Argument],
    ) -> Type {
        let members = self.decl(named.decl).map(|d| d.members.clone()).unwrap_or_default();
        let of_name = |c: &Self, m: &DeclId| {
            c.decl(*m).is_some_and(|d| d.kind == Kind::Method && *d.name == *member.text)
        };
        let candidates: Vec<DeclId> = members.iter().copied().filter(|m| of_name(self, m)).collect();
        if candidates.is_empty() {
            self.loose(args);
            let names: Vec<Arc<str>> =
                members.iter().filter_map(|m| Some(self.decl(*m)?.name.clone())).collect();
            let d =
                Diagnostic::error("E0206", member.span, format!("`{ty}` has no method `{}`", member.text));
            let d = match did_you_mean(&member.text, names.iter().map(AsRef::as_ref)) {
                Some(near) => d.hint(format!("did you mean `{near}`?")),
                None => d.hint(format!("methods: {}", names.join(", "))),
            };
            return self.bad(d);
        }
        let full = format!("{}.{}", named.name, member.text);
        let Some((id, matched)) = self.choose(&full, &candidates, args, e.span) else { return Type::Bad };
        if &*named.name == "packet_in" && !self.place.in_parser() && self.place != Place::Function {
            let text = format!("`{}` can only be called in a parser", member.text);
            let d = Diagnostic::error("E0402", e.span, text);
            self.report(d.hint("headers are read in parser states; here they are there already"));
        } else if self.place == Place::Top {
            self.report(Diagnostic::error("E0402", e.span, "nothing can be called here"));
        }
        self.typed.refs.insert(callee.id, Res::Decl(id));
        let subst = self.typed.subst_of(ty);
        let (ret, call) = self.apply(id, Callee::Method(id, object), subst, types, matched, e.span);
        if &*named.name == "packet_in" && member.text == "extract" {
            self.extract_rules(&call, e.span);
        }
        if &*named.name == "packet_in"
            && member.text == "lookahead"
            && self.holds(&ret, &|t| matches!(t, Type::Varbit(_)))
        {
            self.report(Diagnostic::error(
                "E0404",
                e.span,
                format!("`{ret}` has no fixed size: lookahead cannot read it"),
            ));
        }
        self.finish(e, call, ret)
    }

    /// `extract` takes one header; with a varbit field it needs the second argument (section 13.8).
    fn extract_rules(&mut self, call: &Call<'a>, span: Span) {
        let Some((_, Arg::Given(header))) = call.args.first() else { return };
        let ty = self.typed.ty(header.id).clone();
        let varbit = self.holds(&ty, &|t| matches!(t, Type::Varbit(_)));
        match &ty {
            Type::Header(_) if self.varbits(&ty) > 1 => {
                self.report(Diagnostic::error(
                    "E0404",
                    span,
                    format!("`{ty}` has more than one varbit field: it cannot be extracted"),
                ));
            }
            Type::Header(_) if varbit && call.args.len() == 1 => {
                let d = Diagnostic::error(
                    "E0404",
                    span,
                    format!("`{ty}` has a varbit field: its size in bits must be given"),
                );
                self.report(d.hint(format!("`extract({}, size_in_bits)`", self.text(header))));
            }
            Type::Header(_) if !varbit && call.args.len() == 2 => {
                self.report(Diagnostic::error(
                    "E0404",
                    span,
                    format!("`{ty}` has no varbit field: `extract` takes only the header"),
                ));
            }
            Type::Header(_) | Type::Param(_) | Type::Bad | Type::DontCare => {}
            _ => {
                let d =
                    Diagnostic::error("E0404", header.span, format!("`extract` reads a header, not `{ty}`"));
                self.report(
                    d.hint("extract the headers inside one by one; an element of a stack is `stack.next`"),
                );
            }
        }
    }

    fn varbits(&self, ty: &Type) -> usize {
        self.typed.fields(ty).iter().filter(|f| matches!(f.1, Type::Varbit(_))).count()
    }

    pub(super) fn holds(&self, ty: &Type, test: &dyn Fn(&Type) -> bool) -> bool {
        test(ty)
            || match ty {
                Type::Stack(t, _) => self.holds(t, test),
                Type::Tuple(items) => items.iter().any(|t| self.holds(t, test)),
                t if t.has_fields() => self.typed.fields(t).iter().any(|f| self.holds(&f.1, test)),
                _ => false,
            }
    }

    fn table_apply(&mut self, e: &'a Expr, table: &Named, args: &'a [Argument]) -> Type {
        self.loose(args);
        if !args.is_empty() {
            self.report(Diagnostic::error(
                "E0313",
                e.span,
                format!("`{}.apply` takes no arguments", table.name),
            ));
        }
        if self.place != Place::ControlApply {
            let place = if self.place == Place::Action { "an action" } else { "this place" };
            let d = Diagnostic::error("E0402", e.span, format!("a table cannot be applied in {place}"));
            return self.bad(d.hint("apply it in the control's `apply { }` block"));
        }
        let call = Call { callee: Callee::Table(table.decl), type_args: Vec::new(), args: Vec::new() };
        self.finish(e, call, Type::ApplyResult(table.clone()))
    }

    fn block_apply(
        &mut self,
        e: &'a Expr,
        ty: &Type,
        n: &Named,
        object: Option<DeclId>,
        args: &'a [Argument],
    ) -> Type {
        self.place_of_block(ty, e.span);
        if self.owner == Some(n.decl) {
            return self.bad(Diagnostic::error(
                "E0403",
                e.span,
                format!("`{}` calls itself; P4 has no recursion", n.name),
            ));
        }
        let Some((id, matched)) = self.choose(&format!("{}.apply", n.name), &[n.decl], args, e.span) else {
            return Type::Bad;
        };
        let subst = self.typed.subst_of(ty);
        let (_, call) = self.apply(id, Callee::Block(id, object), subst, &[], matched, e.span);
        self.finish(e, call, Type::Void)
    }

    /// `Type.apply(args);`: instantiated and applied in one go.
    pub(super) fn direct_apply(&mut self, span: Span, ty: &Type, args: &'a [Argument]) {
        let Some(n) = ty.named().filter(|_| matches!(ty, Type::Parser(_) | Type::Control(_))).cloned() else {
            if !ty.is_bad() {
                self.report(Diagnostic::error("E0206", span, format!("`{ty}` has no `apply`")));
            }
            self.loose(args);
            return;
        };
        self.construct(ty, &[], span);
        self.place_of_block(ty, span);
        if self.owner == Some(n.decl) {
            self.report(Diagnostic::error(
                "E0403",
                span,
                format!("`{}` calls itself; P4 has no recursion", n.name),
            ));
            return;
        }
        if let Some((id, matched)) = self.choose(&format!("{}.apply", n.name), &[n.decl], args, span) {
            let subst = self.typed.subst_of(ty);
            self.apply(id, Callee::Block(id, None), subst, &[], matched, span);
        }
    }

    fn place_of_block(&mut self, ty: &Type, span: Span) {
        let (ok, hint) = match ty {
            Type::Parser(_) => (self.place == Place::ParserState, "parsers are applied in parser states"),
            _ => {
                (self.place == Place::ControlApply, "controls are applied in `apply { }` blocks of controls")
            }
        };
        if !ok {
            self.report(
                Diagnostic::error("E0402", span, format!("`{ty}` cannot be applied here")).hint(hint),
            );
        }
    }

    fn place_of_function(&mut self, id: DeclId, span: Span) {
        let Some(d) = self.decl(id).cloned() else { return };
        if self.owner == Some(id) {
            let text = format!("`{}` calls itself; P4 has no recursion", d.name);
            self.report(Diagnostic::error("E0403", span, text));
        }
        let text = match (d.kind, self.place, &*d.name) {
            (Kind::Action, Place::ControlApply | Place::Action, _) => return,
            (Kind::Action, ..) => {
                format!("an action such as `{}` can only be called in a control or an action", d.name)
            }
            (_, _, "verify") if d.kind == Kind::ExternFunction && !self.place.in_parser() => {
                "`verify` can only be called in a parser".to_string()
            }
            (_, Place::Top, "static_assert") => return,
            (Kind::ExternFunction, Place::Top, _) if matches!(d.ty, Type::Extern(_)) => return,
            (_, Place::Top, _) => {
                "functions cannot be called here: the value must be known at compile time".to_string()
            }
            _ => return,
        };
        self.report(Diagnostic::error("E0402", span, text));
    }

    /// Where objects may be made (the second table of the appendix).
    fn place_of_object(&mut self, decl: &Decl<'a>, span: Span) {
        let allowed = match decl.kind {
            Kind::Extern => !matches!(self.place, Place::Function | Place::Action),
            Kind::Parser => matches!(self.place, Place::Top | Place::ParserLocals | Place::ParserState),
            Kind::Control => matches!(self.place, Place::Top | Place::ControlLocals | Place::ControlApply),
            Kind::Package => self.place == Place::Top,
            _ => true,
        };
        if !allowed {
            let text = format!("`{}` cannot be instantiated here", decl.name);
            let hint = "controls are instantiated in controls, parsers in parsers, packages at the top, nothing in actions and functions";
            self.report(Diagnostic::error("E0405", span, text).hint(hint));
        }
    }
}

/// Why arguments do not fit parameters.
enum Misfit {
    Count(usize),
    Missing(String),
    Unknown(Name),
    Twice(Name),
    Mixed,
}

/// A parameter as it was written.
fn parameter(p: &Decl<'_>) -> String {
    let direction = match p.direction {
        Direction::None => "",
        Direction::In => "in ",
        Direction::Out => "out ",
        Direction::InOut => "inout ",
    };
    format!("{direction}{} {}", p.ty, p.name)
}
