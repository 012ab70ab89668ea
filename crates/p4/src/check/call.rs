//! Calls: overload resolution, inference of type arguments, and matching of arguments with parameters (P4-16 sections
//! 6.8 and 8.20).

use super::Checker;
use super::coerce::can_cast;
use super::typed::{Arg, Args, Call, Callee, Decl, Kind, Res};
use super::types::{DeclId, Subst, Type};
use super::value::Value;
use crate::ast::{self, Argument, Direction, Expr, ExprKind, Name};
use crate::diag::{Diagnostic, did_you_mean};
use crate::source::Span;

/// Each parameter with its argument, in the order of the declaration.
type Matched<'a> = Vec<(DeclId, Option<&'a Argument>)>;

impl<'a> Checker<'a, '_> {
    /// Checks a call `callee<types>(args)`.
    pub(super) fn call(
        &mut self,
        e: &'a Expr,
        callee: &'a Expr,
        type_args: &'a [ast::Type],
        args: &'a [Argument],
    ) -> Type {
        let types: Vec<Type> = type_args.iter().map(|t| self.ty(t)).collect();
        for (ty, written) in types.iter().zip(type_args).filter(|(t, _)| **t == Type::Void) {
            let text = format!("`{ty}` has no values: it cannot be a type argument of a call");
            self.error("E0308", written.span, text);
        }
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
                        self.no_abstract_methods(&ty, e.span);
                        self.typed.calls.insert(e.id, call);
                        ty
                    }
                    None => Type::Bad,
                };
            }
            Type::Bad => {
                self.check_unmatched(args);
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
        let (ret, call) = self.apply(id, Callee::Function(id), Subst::default(), &types, matched, e.span);
        if name == "static_assert" {
            self.static_assert(e, &call);
        }
        self.finish(e, call, ret)
    }

    pub(super) fn finish(&mut self, e: &'a Expr, call: Call<'a>, ret: Type) -> Type {
        let (callee, owner, place) = (call.callee.clone(), self.owner, self.place);
        self.call_sites.push(super::arch::CallSite { callee, call: e.id, owner, place, span: e.span });
        self.typed.spans.insert(e.id, e.span);
        self.typed.calls.insert(e.id, call);
        ret
    }

    /// Section 5.3.5 of the core library: reports an assertion that is false, with the message of the program.
    fn static_assert(&mut self, e: &'a Expr, call: &Call<'a>) {
        let value = |i: usize| match call.args.get(i) {
            Some((_, Arg::Given(v))) => self.known_value(v),
            _ => None,
        };
        let Some(holds) = value(0).and_then(|v| v.as_bool()) else { return };
        let said = match value(1) {
            Some(Value::Str(text)) => format!(": {text}"),
            _ => String::new(),
        };
        self.set_value(e, Value::Bool(holds));
        if !holds {
            self.error("E0317", e.span, format!("this assertion does not hold{said}"));
        }
    }

    fn not_callable(&mut self, callee: &'a Expr, ty: &Type) -> Type {
        let text = format!("`{}` cannot be called", self.text(callee));
        let mut d = Diagnostic::error("E0207", callee.span, text).label(format!("this is `{ty}`"));
        if let Type::Parser(_) | Type::Control(_) = ty {
            d = d.hint(format!("apply it: `{}.apply(…)`", self.text(callee)));
        }
        self.bad(d)
    }

    /// Reports an instance without a body of an extern with abstract methods.
    fn no_abstract_methods(&mut self, ty: &Type, span: Span) {
        let members = ty.named().map_or(Vec::new(), |n| self.members(n.decl));
        let open = |m: &DeclId| {
            self.decl(*m).filter(|d| d.optional && d.kind == Kind::Method).map(|d| d.name.clone())
        };
        if let Some(name) = members.iter().find_map(open).filter(|_| matches!(ty, Type::Extern(_))) {
            let text = format!("`{ty}` has the abstract method `{name}`, which is not defined here");
            let d = Diagnostic::error("E0406", span, text);
            self.report(d.hint(format!("declare it: `{ty}(…) name = {{ … }};`")));
        }
    }

    /// Checks the arguments of a call that has a mistake already.
    pub(super) fn check_unmatched(&mut self, args: &'a [Argument]) {
        for value in args.iter().filter_map(|a| a.value.as_ref()) {
            self.expr(value);
        }
    }

    pub(super) fn with_type_args(&mut self, ty: &Type, args: &[Type], span: Span) -> Type {
        let Some(named) = ty.named() else { return ty.clone() };
        if args.is_empty() {
            return ty.clone();
        }
        if args.len() != named.args.len() {
            let text =
                format!("`{}` takes {} type arguments, {} given", named.name, named.args.len(), args.len());
            return self.bad(Diagnostic::error("E0307", span, text));
        }
        ty.with_args(args.to_vec().into())
    }

    /// Overload resolution: the candidate that takes these arguments.
    pub(super) fn choose(
        &mut self,
        name: &str,
        ids: &[DeclId],
        args: &'a [Argument],
        span: Span,
    ) -> Option<(DeclId, Matched<'a>)> {
        let mut fitting: Vec<(DeclId, Matched<'a>)> =
            ids.iter().filter_map(|id| Some((*id, self.fit(&self.params(*id), args).ok()?))).collect();
        // In the body of a function, its own name refers to earlier functions of that name.
        if fitting.len() > 1 {
            fitting.retain(|(id, _)| self.owner != Some(*id));
        }
        if let [first, second, ..] = &fitting[..] {
            let mut d =
                Diagnostic::error("E0313", span, format!("more than one `{name}` takes these arguments"));
            for id in [first.0, second.0] {
                let text = format!("`{}`", self.signature(id));
                d = d.also(self.decl(id).map_or(span, |x| x.span), text);
            }
            self.report(d.hint("name the arguments: `parameter = value`"));
        }
        if !fitting.is_empty() {
            return Some(fitting.swap_remove(0));
        }
        self.check_unmatched(args);
        let plural = |n: usize| if n == 1 { "argument" } else { "arguments" };
        let given = args.len();
        let misfit = match ids {
            [one] => self.fit(&self.params(*one), args).err(),
            _ => None,
        };
        let mut near = None;
        let (at, text) = match misfit {
            Some(Misfit::Count(n)) => (span, format!("`{name}` takes {n} {}, {given} given", plural(n))),
            Some(Misfit::Missing(p)) => (span, format!("`{name}` needs an argument for `{p}`")),
            Some(Misfit::Unknown(n)) => {
                let params = self.params(ids[0]);
                let known = params.iter().map(|(_, p)| &*p.name);
                near = did_you_mean(&n.text, known).map(|near| format!("did you mean `{near}`?"));
                (n.span, format!("`{name}` has no parameter `{}`", n.text))
            }
            Some(Misfit::Twice(n)) => (n.span, format!("`{}` is given twice", n.text)),
            Some(Misfit::Mixed) => (span, "either all arguments have names or none".to_string()),
            None => (span, format!("no `{name}` takes {given} {}", plural(given))),
        };
        let mut d = Diagnostic { hint: near, ..Diagnostic::error("E0313", at, text) };
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

    pub(super) fn params(&self, id: DeclId) -> Vec<(DeclId, Decl<'a>)> {
        self.decl(id).map(|d| self.with_decls(&d.params)).unwrap_or_default()
    }

    /// Each declaration with its number.
    pub(super) fn with_decls(&self, ids: &[DeclId]) -> Vec<(DeclId, Decl<'a>)> {
        ids.iter().filter_map(|p| Some((*p, self.decl(*p)?.clone()))).collect()
    }

    /// The declaration of a function, method or action without its body, for messages.
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

    /// Matches arguments with parameters.
    pub(super) fn fit(
        &self,
        params: &[(DeclId, Decl<'a>)],
        args: &'a [Argument],
    ) -> Result<Matched<'a>, Misfit> {
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

    /// Checks arguments against parameters, and infers type arguments. Returns the type of the result, and the call.
    pub(super) fn apply(
        &mut self,
        id: DeclId,
        callee: Callee,
        mut subst: Subst,
        type_args: &[Type],
        matched: Matched<'a>,
        span: Span,
    ) -> (Type, Call<'a>) {
        let Some(decl) = self.decl(id).cloned() else {
            return (Type::Bad, Call::plain(callee));
        };
        let own: &[DeclId] = match callee {
            Callee::Constructor(..) | Callee::Block(..) => &[],
            _ => &decl.type_params,
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
        let skipped = matched.iter().any(|(_, a)| a.is_some_and(|a| a.value.is_none()));
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
        // An argument `_` must have a known type, too: `extract(_)` must know what to skip.
        if !solved && (skipped || ret.any(&mut |t| matches!(t, Type::Infer(_)))) {
            let text = format!("the type arguments of `{}` cannot be inferred", decl.name);
            let d = Diagnostic::error("E0310", span, text).also(decl.span, "declared here");
            self.report(d.hint(format!("write them: `{}<bit<8>>(…)`", decl.name)));
            return (Type::Bad, Call { callee, type_args: Vec::new(), args });
        }
        self.inferred(&args, &subst, own, decl.kind == Kind::Function);
        if matches!(decl.kind, Kind::Function | Kind::ExternFunction | Kind::Method) {
            self.directionless_known(&args);
        }
        let mut type_args: Vec<(DeclId, Type)> = subst.into_iter().collect();
        type_args.sort_by_key(|t| t.0);
        (ret, Call { callee, type_args, args })
    }

    /// Section 6.8: the argument of a directionless parameter must be compile-time known. As in p4c, it may also be
    /// action data.
    fn directionless_known(&mut self, args: &Args<'a>) {
        for (id, arg) in args {
            let (Arg::Given(value), Some(param)) = (arg, self.decl(*id)) else { continue };
            let name = param.name.clone();
            let object = matches!(param.ty, Type::Extern(_) | Type::Bad);
            if param.direction == Direction::None && !object && !self.is_known(value) && !self.is_data(value)
            {
                let text = format!("`{name}` has no direction: its argument must be known at compile time");
                let d = Diagnostic::error("E0306", value.span, text);
                self.report(d.hint("a parameter that takes what packets bring is declared `in`"));
            }
        }
    }

    /// Whether an expression consists of action data, or of casts of it.
    fn is_data(&self, e: &Expr) -> bool {
        match &e.kind {
            ExprKind::Name { .. } => {
                let meant = self.typed.resolved(e.id).and_then(|id| self.decl(id));
                meant.is_some_and(|d| d.kind == Kind::Param && d.direction == Direction::None)
            }
            ExprKind::Cast { operand, .. } => self.is_known(operand) || self.is_data(operand),
            _ => false,
        }
    }

    /// Reports inferred type arguments that a call cannot have, such as types without a width.
    fn inferred(&mut self, args: &Args<'a>, subst: &Subst, own: &[DeclId], bodied: bool) {
        for (id, arg) in args {
            let (Arg::Given(value), Some(param)) = (arg, self.decl(*id).cloned()) else { continue };
            let Type::Param(p) = &param.ty else { continue };
            if !own.contains(&p.decl) {
                continue;
            }
            let d = match subst.get(&p.decl) {
                Some(Type::String) if param.direction != Direction::None => {
                    let text =
                        format!("parameter `{}` has a direction, so it cannot be a string", param.name);
                    Diagnostic::error("E0301", value.span, text)
                }
                Some(Type::Int) if bodied || param.direction == Direction::In => {
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
                Some(t) if t.is_block() => {
                    Diagnostic::error("E0301", value.span, format!("`{t}` cannot be an argument"))
                }
                _ => continue,
            };
            self.report(d);
        }
    }

    /// Checks the arguments. Those with a definite type come first, so that `random(meta.x, 0, 7)` infers T from
    /// `meta.x`.
    fn arguments(
        &mut self,
        matched: &Matched<'a>,
        subst: &Subst,
        constructor: bool,
    ) -> Vec<(DeclId, Arg<'a>)> {
        let given = |a: &Option<&'a Argument>| a.and_then(|a| a.value.as_ref());
        let values: Vec<Option<&'a Expr>> = matched.iter().map(|(_, a)| given(a)).collect();
        for (id, arg) in matched {
            let Some(arg) = arg.filter(|a| a.value.is_none()) else { continue };
            if self.decl(*id).is_some_and(|p| p.direction != Direction::Out) {
                self.error("E0301", arg.span, "`_` can only be the argument of an `out` parameter");
            }
        }
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
        if ty.is_only_named() {
            let text = format!("`{}` cannot be an argument: it is `{ty}`", self.text(value));
            self.error("E0301", value.span, text);
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
        } else if constructor && want.is_block() && !self.unknowns.unify(ty, &want) {
            let want = self.unknowns.resolve(&want);
            let text = format!("argument `{}` must be `{want}`, found `{ty}`", param.name);
            self.report(Diagnostic::error("E0408", value.span, text).also(param.span, "the parameter"));
        } else {
            self.coerce(value, ty, &want);
            if constructor {
                self.need_known(value, &format!("argument `{}` of a constructor", param.name));
            }
        }
    }
}

/// Why arguments do not match the parameters.
pub(super) enum Misfit {
    Count(usize),
    Missing(String),
    Unknown(Name),
    Twice(Name),
    Mixed,
}

/// A parameter as the program declares it.
pub(super) fn parameter(p: &Decl<'_>) -> String {
    let direction = match p.direction {
        Direction::None => "",
        Direction::In => "in ",
        Direction::Out => "out ",
        Direction::InOut => "inout ",
    };
    format!("{direction}{} {}", p.ty, p.name)
}
