//! Expressions.

use ir::{BinOp, Expr, ExprKind as IrKind, HeaderRef, Place, StmtKind, Ty, UnOp};
use num_bigint::BigInt;
use num_traits::{ToPrimitive, Zero};

use super::scope::{Binding, Env, Object};
use super::types::{Store, StructT, T, Val, to_bits};
use super::{Lower, Res, fold};
use crate::ast::{self, BinaryOp, ExprKind, UnaryOp};
use crate::diag::{Diagnostic, did_you_mean};
use crate::source::Span;

impl<'a> Lower<'a, '_> {
    /// What an expression comes to. `want` is the type its context would like: it gives numbers and lists theirs.
    pub(super) fn expr(&mut self, e: &'a ast::Expr, env: &Env<'a>, want: Option<&T>) -> Res<Val> {
        match &e.kind {
            ExprKind::Number { value, width: None } => Ok(Val::Integer(value.clone())),
            ExprKind::Number { value, width: Some((width, signed)) } => {
                let ty = if *signed { T::Int(*width) } else { T::Bit(*width) };
                self.number(value, &ty, e.span)
            }
            ExprKind::String(text) => Ok(Val::Str(text.clone())),
            ExprKind::Bool(value) => Ok(Val::Scalar(Expr::bool(*value), T::Bool)),
            ExprKind::Name { global, name } => {
                let env = if *global { env.global() } else { env.clone() };
                self.name(name, &env)
            }
            ExprKind::Member { base, member } => self.member(e, base, member, env),
            ExprKind::Index { base, index } => self.index(base, index, env),
            ExprKind::Slice { base, hi, lo } => self.slice(base, hi, lo, env),
            ExprKind::Call { callee, type_args, args } => self.call(e, callee, type_args, args, env, want),
            ExprKind::Unary { op, operand } => self.unary(*op, operand, env, want),
            ExprKind::Binary { op, left, right } => self.binary(*op, left, right, env, want, e.span),
            ExprKind::Ternary { cond, yes, no } => self.ternary(cond, yes, no, env, want),
            ExprKind::Cast { ty, operand } => {
                let ty = self.ty(ty, env)?;
                let val = self.expr(operand, env, Some(&ty))?;
                self.cast(val, &ty, e.span)
            }
            ExprKind::List { items, more: false } => self.list(items, env, want),
            ExprKind::Struct { fields, more: false } => self.record(fields, env, want),
            ExprKind::List { .. } | ExprKind::Struct { .. } => {
                self.not_yet(e.span, "`...` in an initialiser")
            }
            ExprKind::InvalidHeader => Ok(Val::Invalid),
            ExprKind::DefaultValue => Ok(Val::Default),
            ExprKind::Type(_) => self.error("E0503", e.span, "a type stands where a value should"),
            ExprKind::This => self.not_yet(e.span, "`this`"),
            ExprKind::DontCare | ExprKind::Default => {
                self.error("E0503", e.span, "this means \"anything\", which only a keyset can say")
            }
            ExprKind::Error => Err(super::Failed),
        }
    }

    /// A scalar of type `want`, or of its own type.
    pub(super) fn scalar(&mut self, e: &'a ast::Expr, env: &Env<'a>, want: Option<&T>) -> Res<(Expr, T)> {
        let val = self.expr(e, env, want)?;
        match (val, want) {
            (val, Some(want)) => match self.convert(val, want, e.span)? {
                Val::Scalar(expr, ty) => Ok((expr, ty)),
                _ => self.error("E0503", e.span, format!("expected a {want}")),
            },
            (Val::Scalar(expr, ty), None) => Ok((expr, ty)),
            (Val::Store(Store::Scalar(place, ty)), None) => Ok(self.read(place, ty)),
            (Val::Integer(_), None) => self.error_hint(
                "E0503",
                e.span,
                "this number has no width here",
                "give it one: `8w10`, or a cast `(bit<8>) 10`",
            ),
            (other, None) => {
                let what = other.ty().map_or("a list".to_string(), |t| t.to_string());
                self.error("E0503", e.span, format!("expected bits or a bool, found {what}"))
            }
        }
    }

    /// A condition.
    pub(super) fn condition(&mut self, e: &'a ast::Expr, env: &Env<'a>) -> Res<Expr> {
        let val = self.expr(e, env, Some(&T::Bool))?;
        match val {
            Val::Scalar(expr, T::Bool) => Ok(expr),
            Val::Store(Store::Scalar(place, T::Bool)) => Ok(self.read(place, T::Bool).0),
            other => {
                let ty = other.ty().map_or("a list".to_string(), |t| t.to_string());
                let d =
                    Diagnostic::error("E0503", e.span, format!("a condition is a bool, and this is {ty}"));
                self.report(d.hint("compare it: `x != 0`"))
            }
        }
    }

    pub(super) fn read(&self, place: Place, ty: T) -> (Expr, T) {
        let scalar = ty.ir().unwrap_or(Ty::Bool);
        (Expr::read(place, scalar), ty)
    }

    pub(super) fn number(&mut self, value: &BigInt, ty: &T, span: Span) -> Res<Val> {
        let (width, signed) = match ty.underlying() {
            T::Bit(w) => (*w, false),
            T::Int(w) => (*w, true),
            _ => {
                return self.error("E0503", span, format!("a number stands where a {ty} should"));
            }
        };
        let (bits, fits) = to_bits(value, width, signed);
        if !fits {
            let d = Diagnostic::warning("W0301", span, format!("{value} does not fit {ty}"));
            self.diags.push(
                d.label(format!("it becomes {bits}")).hint("use a wider type, or the number that is meant"),
            );
        }
        let scalar = ty.ir().unwrap_or(Ty::Bit(width));
        Ok(Val::Scalar(Expr { kind: IrKind::Const(bits), ty: scalar }, ty.clone()))
    }

    /// An implicit conversion (P4-16 section 8.12.2): numbers get a width, lists the shape of a struct; all else must
    /// have the type already.
    pub(super) fn convert(&mut self, val: Val, want: &T, span: Span) -> Res<Val> {
        match (&val, want) {
            (Val::Integer(value), T::Bit(_) | T::Int(_) | T::New(..)) => {
                self.number(&value.clone(), want, span)
            }
            (Val::Integer(_), T::Integer) | (Val::Str(_), T::Str) | (Val::Default, _) => Ok(val),
            (Val::Store(Store::Scalar(place, ty)), _) => {
                let (e, ty) = self.read(place.clone(), ty.clone());
                self.convert(Val::Scalar(e, ty), want, span)
            }
            (Val::Scalar(_, ty), _) if ty == want => Ok(val),
            // A serializable enum stands for its representation (section 7.2.2).
            (Val::Scalar(e, T::SerEnum(_, under)), _) if **under == *want => {
                Ok(Val::Scalar(e.clone(), want.clone()))
            }
            (Val::Store(store), _) if store.ty() == *want => Ok(val),
            (Val::List(_) | Val::Record(_) | Val::Invalid, T::Struct(_) | T::Header(_) | T::Tuple(_)) => {
                Ok(val)
            }
            _ => self.mismatch(&val, want, span),
        }
    }

    fn mismatch(&mut self, val: &Val, want: &T, span: Span) -> Res<Val> {
        let found = val.ty().map_or("a list".to_string(), |t| t.to_string());
        let d = Diagnostic::error("E0503", span, format!("expected {want}, found {found}"));
        let hint = match (val.ty().as_ref().map(|t| t.underlying().clone()), want.underlying()) {
            (Some(T::Bit(_) | T::Int(_)), T::Bit(_) | T::Int(_)) => {
                format!("a cast says what is meant: `({want}) …`")
            }
            (Some(T::Bool), T::Bit(1)) => "a cast says what is meant: `(bit<1>) …`".to_string(),
            (Some(T::Bit(_)), T::Bool) => "compare it: `… != 0`".to_string(),
            _ => return self.report(d),
        };
        self.report(d.hint(hint))
    }

    /// An explicit cast (P4-16 section 8.12.1).
    fn cast(&mut self, val: Val, want: &T, span: Span) -> Res<Val> {
        let val = match val {
            Val::Store(Store::Scalar(place, ty)) => {
                let (e, ty) = self.read(place, ty);
                Val::Scalar(e, ty)
            }
            other => other,
        };
        match (&val, want.underlying()) {
            (Val::Integer(value), T::Bool) => Ok(Val::Scalar(Expr::bool(!value.is_zero()), T::Bool)),
            (Val::Integer(value), T::Bit(_) | T::Int(_)) => self.number(&value.clone(), want, span),
            (Val::Scalar(e, ty), T::Integer) => match e.as_const() {
                Some(v) => Ok(Val::Integer(super::types::from_bits(v, matches!(ty.underlying(), T::Int(_))))),
                None => self.mismatch(&val, want, span),
            },
            (Val::Scalar(e, from), to) => {
                let good = match (from.underlying(), to) {
                    (T::Bit(_), T::Bit(_)) | (T::Int(_), T::Int(_)) => true,
                    (T::Bit(a), T::Int(b)) | (T::Int(a), T::Bit(b)) => a == b,
                    (T::Bool, T::Bit(1)) | (T::Bit(1), T::Bool) | (T::Bool, T::Bool) => true,
                    (a, b) => a == b,
                };
                match want.ir() {
                    Some(ty) if good => Ok(Val::Scalar(fold::cast(e.clone(), ty), want.clone())),
                    _ => {
                        let d = Diagnostic::error("E0503", span, format!("{from} cannot be cast to {want}"));
                        let hint = match (from.underlying(), to) {
                            (T::Bit(w), T::Int(_)) => {
                                format!("change the sign first: `({want}) (int<{w}>) …`")
                            }
                            (T::Int(w), T::Bit(_)) => {
                                format!("change the sign first: `({want}) (bit<{w}>) …`")
                            }
                            _ => return self.report(d),
                        };
                        self.report(d.hint(hint))
                    }
                }
            }
            _ => self.convert(val, want, span),
        }
    }

    fn name(&mut self, name: &'a ast::Name, env: &Env<'a>) -> Res<Val> {
        match env.get(&name.text) {
            Some(Binding::Store(store)) => Ok(Val::Store(store)),
            Some(Binding::Value(val)) => Ok(val),
            Some(Binding::Type(_) | Binding::Alias(_)) => self.error(
                "E0503",
                name.span,
                format!("`{}` is a type, and a value should stand here", name.text),
            ),
            Some(Binding::Object(Object::Table(_))) => {
                let d = Diagnostic::error("E0503", name.span, format!("`{}` is a table", name.text));
                self.report(d.hint(format!("apply it: `{}.apply()`", name.text)))
            }
            Some(Binding::Action(..) | Binding::Function(_) | Binding::Extern(_)) => {
                let d = Diagnostic::error("E0503", name.span, format!("`{}` is not a value", name.text));
                self.report(d.hint(format!("call it: `{}(…)`", name.text)))
            }
            Some(_) => self.error("E0503", name.span, format!("`{}` is not a value", name.text)),
            None => self.unknown_name(name, env),
        }
    }

    pub(super) fn unknown_name<X>(&mut self, name: &ast::Name, env: &Env<'a>) -> Res<X> {
        let d =
            Diagnostic::error("E0503", name.span, format!("there is nothing called `{}` here", name.text));
        match did_you_mean(&name.text, env.names()) {
            Some(near) => self.report(d.hint(format!("did you mean `{near}`?"))),
            None => self.report(d.hint("names are declared before they are used")),
        }
    }

    fn member(
        &mut self,
        e: &'a ast::Expr,
        base: &'a ast::Expr,
        member: &'a ast::Name,
        env: &Env<'a>,
    ) -> Res<Val> {
        if let Some(val) = self.type_member(base, member, env)? {
            return Ok(val);
        }
        if let ExprKind::Call { callee, args, .. } = &base.kind
            && let Some(table) = self.applied_table(callee, env)
        {
            return self.apply_result(table, args, member, e.span);
        }
        match self.expr(base, env, None)? {
            Val::Store(store) => self.store_member(store, member),
            Val::Record(fields) => match fields.into_iter().find(|(n, _)| *n == member.text) {
                Some((_, val)) => Ok(val),
                None => self.error("E0503", member.span, format!("there is no field `{}` here", member.text)),
            },
            other => {
                let ty = other.ty().map_or("a list".to_string(), |t| t.to_string());
                self.error("E0503", member.span, format!("{ty} has no field `{}`", member.text))
            }
        }
    }

    /// `E.member` of an enum, `error.member`.
    fn type_member(&mut self, base: &'a ast::Expr, member: &'a ast::Name, env: &Env<'a>) -> Res<Option<Val>> {
        let ty = match &base.kind {
            ExprKind::Type(ty) => self.ty(ty, env)?,
            ExprKind::Name { name, .. } => match env.get(&name.text) {
                Some(Binding::Type(decl)) => match &decl.kind {
                    ast::DeclKind::Enum { .. }
                    | ast::DeclKind::SerEnum { .. }
                    | ast::DeclKind::Typedef(_) => {
                        let global = self.global.clone();
                        self.ty_by_name(name, &global)?
                    }
                    _ => return self.error("E0503", name.span, format!("`{}` has no members", name.text)),
                },
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        let (members, width) = match &ty {
            T::Error => (self.out.errors.clone(), 32),
            T::Enum(en) => (en.members.clone(), 32),
            T::SerEnum(en, under) => {
                let index = en.members.iter().position(|m| *m == member.text);
                return match index.map(|i| en.values[i].clone()) {
                    Some(value) => {
                        let val = self.number(&value, under, member.span)?;
                        match val {
                            Val::Scalar(e, _) => Ok(Some(Val::Scalar(e, ty))),
                            other => Ok(Some(other)),
                        }
                    }
                    None => self.unknown_member(&ty, &en.members.clone(), member),
                };
            }
            _ => return Ok(None),
        };
        match members.iter().position(|m| *m == member.text) {
            Some(i) => Ok(Some(Val::Scalar(Expr::bits(width, i as u128), ty))),
            None => self.unknown_member(&ty, &members, member),
        }
    }

    fn ty_by_name(&mut self, name: &'a ast::Name, env: &Env<'a>) -> Res<T> {
        match env.get(&name.text) {
            Some(Binding::Type(_)) => self.named(name, env),
            _ => self.error("E0503", name.span, format!("`{}` is not a type", name.text)),
        }
    }

    fn unknown_member<X>(&mut self, ty: &T, members: &[String], member: &ast::Name) -> Res<X> {
        let d = Diagnostic::error("E0503", member.span, format!("{ty} has no member `{}`", member.text));
        match did_you_mean(&member.text, members.iter().map(String::as_str)) {
            Some(near) => self.report(d.hint(format!("did you mean `{near}`?"))),
            None => self.report(d.hint(format!("its members are {}", members.join(", ")))),
        }
    }

    fn store_member(&mut self, store: Store, member: &ast::Name) -> Res<Val> {
        match &store {
            Store::Struct(s, fields) => match s.field(&member.text) {
                Some(i) => Ok(Val::Store(fields[i].clone())),
                None => self.unknown_field(s, member),
            },
            Store::Header(h, s) => match s.field(&member.text) {
                Some(i) => Ok(Val::Store(s.place(h, i))),
                None => self.unknown_field(s, member),
            },
            Store::Union(s, parts) => match s.field(&member.text) {
                Some(i) => Ok(Val::Store(parts[i].clone())),
                None => self.unknown_field(s, member),
            },
            Store::Stack(_, _, size) | Store::UnionStack(_, _, size) => match member.text.as_str() {
                "next" => Ok(Val::Store(self.element(&store, HeaderRef::Next)?)),
                "last" => Ok(Val::Store(self.element(&store, HeaderRef::Last)?)),
                "lastIndex" => {
                    let id = match &store {
                        Store::UnionStack(ids, ..) => ids[0],
                        Store::Stack(id, ..) => *id,
                        _ => return Err(super::Failed),
                    };
                    let next = Expr { kind: IrKind::NextIndex(id), ty: Ty::Bit(32) };
                    Ok(Val::Scalar(Expr::binary(BinOp::Sub, next, Expr::bits(32, 1)), T::Bit(32)))
                }
                "size" => Ok(Val::Scalar(Expr::bits(32, *size as u128), T::Bit(32))),
                other => {
                    let message = format!("a header stack has no `{other}`");
                    self.error_hint("E0503", member.span, message, "it has next, last, lastIndex and size")
                }
            },
            other => {
                let message = format!("{} has no field `{}`", other.ty(), member.text);
                self.error("E0503", member.span, message)
            }
        }
    }

    /// An element of a stack, by what makes the reference.
    fn element(&self, stack: &Store, reference: impl Fn(ir::StackId) -> HeaderRef) -> Res<Store> {
        match stack {
            Store::Stack(id, element, _) => match &**element {
                T::Header(s) => Ok(Store::Header(reference(*id), s.clone())),
                _ => Err(super::Failed),
            },
            Store::UnionStack(ids, element, _) => self.union_element(ids, element, reference),
            _ => Err(super::Failed),
        }
    }

    fn element_at(&self, stack: &Store, index: u32) -> Res<Store> {
        let first = |id: ir::StackId| self.out.stacks[id.index()].first.0;
        self.element(stack, |id| HeaderRef::Header(ir::HeaderId(first(id) + index)))
    }

    fn unknown_field<X>(&mut self, s: &StructT, member: &ast::Name) -> Res<X> {
        let names: Vec<_> = s.fields.iter().map(|f| f.name.as_str()).collect();
        let d =
            Diagnostic::error("E0503", member.span, format!("`{}` has no field `{}`", s.name, member.text));
        match did_you_mean(&member.text, names.iter().copied()) {
            Some(near) => self.report(d.hint(format!("did you mean `{near}`?"))),
            None => self.report(d.hint(format!("its fields are {}", names.join(", ")))),
        }
    }

    fn index(&mut self, base: &'a ast::Expr, index: &'a ast::Expr, env: &Env<'a>) -> Res<Val> {
        let store = match self.expr(base, env, None)? {
            Val::Store(store) => store,
            Val::List(items) => {
                let at = self.integer(index, env)?.to_usize();
                return match at.and_then(|i| items.into_iter().nth(i)) {
                    Some(item) => Ok(item),
                    None => self.error("E0503", index.span, "there is no such element"),
                };
            }
            _ => return self.error("E0503", base.span, "only header stacks and tuples have elements"),
        };
        match store {
            Store::Stack(_, _, size) | Store::UnionStack(_, _, size) => {
                let val = self.expr(index, env, Some(&T::Bit(32)))?;
                let known = match self.loaded(val) {
                    Val::Integer(n) => n.to_u32(),
                    Val::Scalar(e, _) => match e.as_const().and_then(|v| v.to_u64()) {
                        Some(n) => u32::try_from(n).ok(),
                        None => {
                            let at = Box::new(fold::cast(e, Ty::Bit(32)));
                            let element = self.element(&store, |id| HeaderRef::Element(id, at.clone()))?;
                            return Ok(Val::Store(element));
                        }
                    },
                    _ => None,
                };
                match known.filter(|n| *n < size) {
                    Some(n) => Ok(Val::Store(self.element_at(&store, n)?)),
                    None => {
                        let message =
                            format!("the stack has {size} elements, 0 to {}", size.saturating_sub(1));
                        self.error("E0503", index.span, message)
                    }
                }
            }
            Store::Tuple(items) => {
                let at = self.integer(index, env)?.to_usize();
                match at.and_then(|i| items.get(i)) {
                    Some(item) => Ok(Val::Store(item.clone())),
                    None => self.error("E0503", index.span, "the tuple has no such element"),
                }
            }
            other => {
                let message = format!("{} has no elements; a slice is `x[hi:lo]`", other.ty());
                self.error("E0503", base.span, message)
            }
        }
    }

    fn slice(
        &mut self,
        base: &'a ast::Expr,
        hi: &'a ast::Expr,
        lo: &'a ast::Expr,
        env: &Env<'a>,
    ) -> Res<Val> {
        let (e, _) = self.scalar(base, env, None)?;
        let (hi, lo) = self.slice_bounds(hi, lo, e.ty.width(), env)?;
        Ok(Val::Scalar(fold::slice(e, hi, lo), T::Bit(hi - lo + 1)))
    }

    pub(super) fn slice_bounds(
        &mut self,
        hi: &'a ast::Expr,
        lo: &'a ast::Expr,
        width: u32,
        env: &Env<'a>,
    ) -> Res<(u32, u32)> {
        let (h, l) = (self.integer(hi, env)?.to_u32(), self.integer(lo, env)?.to_u32());
        match (h, l) {
            (Some(h), Some(l)) if h >= l && h < width => Ok((h, l)),
            _ => {
                let message = format!(
                    "a slice of {width} bits is [hi:lo] with {} >= hi >= lo >= 0",
                    width.saturating_sub(1)
                );
                self.error("E0503", hi.span.to(lo.span), message)
            }
        }
    }

    fn unary(&mut self, op: UnaryOp, operand: &'a ast::Expr, env: &Env<'a>, want: Option<&T>) -> Res<Val> {
        let val = self.expr(operand, env, want)?;
        if let Val::Integer(value) = &val {
            return match op {
                UnaryOp::Minus => Ok(Val::Integer(-value)),
                UnaryOp::Plus => Ok(val),
                UnaryOp::Complement => match want {
                    Some(want @ (T::Bit(_) | T::Int(_))) => {
                        let Val::Scalar(e, ty) = self.number(&value.clone(), want, operand.span)? else {
                            return Err(super::Failed);
                        };
                        Ok(Val::Scalar(fold::unary(UnOp::BitNot, e), ty))
                    }
                    _ => self.error_hint("E0503", operand.span, "`~` needs a width", "write `~8w1`"),
                },
                UnaryOp::Not => self.error("E0503", operand.span, "`!` takes a bool; `~` flips bits"),
            };
        }
        let (e, ty) = match val {
            Val::Scalar(e, ty) => (e, ty),
            Val::Store(Store::Scalar(place, ty)) => self.read(place, ty),
            _ => return self.error("E0503", operand.span, "this operator takes bits or a bool"),
        };
        let op = match (op, ty.underlying()) {
            (UnaryOp::Not, T::Bool) => UnOp::Not,
            (UnaryOp::Complement, T::Bit(_) | T::Int(_)) => UnOp::BitNot,
            (UnaryOp::Minus, T::Bit(_) | T::Int(_)) => UnOp::Neg,
            (UnaryOp::Plus, T::Bit(_) | T::Int(_)) => return Ok(Val::Scalar(e, ty)),
            (UnaryOp::Not, _) => {
                return self.error_hint(
                    "E0503",
                    operand.span,
                    format!("`!` takes a bool, not {ty}"),
                    "`~` flips bits",
                );
            }
            _ => return self.error("E0503", operand.span, format!("this operator does not take {ty}")),
        };
        Ok(Val::Scalar(fold::unary(op, e), ty))
    }

    fn binary(
        &mut self,
        op: BinaryOp,
        left: &'a ast::Expr,
        right: &'a ast::Expr,
        env: &Env<'a>,
        want: Option<&T>,
        span: Span,
    ) -> Res<Val> {
        match op {
            BinaryOp::And | BinaryOp::Or => return self.lazy(op, left, right, env),
            BinaryOp::Mask | BinaryOp::Range => {
                return self.error("E0503", span, format!("`{}` only stands in a keyset", op.symbol()));
            }
            _ => {}
        }
        let predicate = matches!(
            op,
            BinaryOp::Eq | BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge
        );
        let hint = if predicate || op == BinaryOp::Concat { None } else { want };
        let a = self.expr(left, env, hint)?;
        let a = self.loaded(a);
        let position = self.position();
        // A shift's amount has nothing to do with the width of what is shifted.
        let hint = if matches!(op, BinaryOp::Shl | BinaryOp::Shr) { None } else { hint };
        let b = self.expr(right, env, hint)?;
        let b = self.loaded(b);
        let a = self.read_before(position, a, left.span)?;
        match op {
            BinaryOp::Shl | BinaryOp::Shr => self.shift(op, a, b, span, right.span),
            BinaryOp::Concat => self.concat(a, b, left.span, right.span),
            BinaryOp::Eq | BinaryOp::Ne if !matches!((&a, &b), (Val::Scalar(..) | Val::Integer(_), _)) => {
                let equal = self.aggregates_equal(a, b, span)?;
                let e = if op == BinaryOp::Ne { fold::unary(UnOp::Not, equal) } else { equal };
                Ok(Val::Scalar(e, T::Bool))
            }
            _ => self.arithmetic(op, a, b, left.span, right.span, span),
        }
    }

    /// The operator of `a op= b`.
    pub(super) fn compound(&mut self, op: BinaryOp, a: Val, b: Val, ls: Span, rs: Span) -> Res<Val> {
        match op {
            BinaryOp::Shl | BinaryOp::Shr => self.shift(op, a, b, ls, rs),
            _ => self.arithmetic(op, a, b, ls, rs, ls.to(rs)),
        }
    }

    /// A scalar variable as the expression that reads it.
    pub(super) fn loaded(&self, val: Val) -> Val {
        match val {
            Val::Store(Store::Scalar(place, ty)) => {
                let (e, ty) = self.read(place, ty);
                Val::Scalar(e, ty)
            }
            other => other,
        }
    }

    fn arithmetic(&mut self, op: BinaryOp, a: Val, b: Val, ls: Span, rs: Span, span: Span) -> Res<Val> {
        if let (Val::Integer(x), Val::Integer(y)) = (&a, &b) {
            return self.integers(op, x, y, span);
        }
        let (a, b) = match (a, b) {
            (Val::Integer(x), Val::Scalar(e, ty)) => {
                let under = ty.underlying().clone();
                (self.number(&x, &under, ls)?, Val::Scalar(e, under))
            }
            (Val::Scalar(e, ty), Val::Integer(y)) => {
                let under = ty.underlying().clone();
                (Val::Scalar(e, under.clone()), self.number(&y, &under, rs)?)
            }
            pair => pair,
        };
        let (Val::Scalar(x, xt), Val::Scalar(y, yt)) = (a, b) else {
            return self.error("E0503", span, format!("`{}` does not take these operands", op.symbol()));
        };
        let compatible = xt == yt
            || xt.underlying() == yt.underlying()
                && matches!((&xt, &yt), (T::SerEnum(..), _) | (_, T::SerEnum(..)));
        if !compatible {
            let d = Diagnostic::error("E0503", span, format!("`{}` between {xt} and {yt}", op.symbol()))
                .also(ls, format!("this is {xt}"))
                .also(rs, format!("this is {yt}"));
            return self.report(d.hint(format!("both sides have one type; a cast says which: `({xt}) …`")));
        }
        let op_ir = ir_op(op);
        let numeric = matches!(xt.underlying(), T::Bit(_) | T::Int(_));
        let fits = match op {
            BinaryOp::Eq | BinaryOp::Ne => true,
            _ => numeric,
        };
        if !fits {
            return self.error("E0503", span, format!("`{}` does not take {xt}", op.symbol()));
        }
        let ty = if op_ir.is_predicate() { T::Bool } else { xt };
        match fold::binary(op_ir, x, y) {
            Some(e) => Ok(Val::Scalar(e, ty)),
            None => self.error("E0503", rs, "a division by zero"),
        }
    }

    fn integers(&mut self, op: BinaryOp, x: &BigInt, y: &BigInt, span: Span) -> Res<Val> {
        let predicate = |b: bool| Ok(Val::Scalar(Expr::bool(b), T::Bool));
        let value = match op {
            BinaryOp::Add => x + y,
            BinaryOp::Sub => x - y,
            BinaryOp::Mul if x.bits() + y.bits() < 1 << 16 => x * y,
            BinaryOp::Div | BinaryOp::Mod if y.is_zero() => {
                return self.error("E0503", span, "a division by zero");
            }
            BinaryOp::Div => x / y,
            BinaryOp::Mod => x % y,
            BinaryOp::BitAnd => x & y,
            BinaryOp::BitOr => x | y,
            BinaryOp::BitXor => x ^ y,
            BinaryOp::Eq => return predicate(x == y),
            BinaryOp::Ne => return predicate(x != y),
            BinaryOp::Lt => return predicate(x < y),
            BinaryOp::Le => return predicate(x <= y),
            BinaryOp::Gt => return predicate(x > y),
            BinaryOp::Ge => return predicate(x >= y),
            _ => return self.error("E0503", span, format!("`{}` needs numbers with a width", op.symbol())),
        };
        Ok(Val::Integer(value))
    }

    fn shift(&mut self, op: BinaryOp, a: Val, b: Val, span: Span, rs: Span) -> Res<Val> {
        let amount = match &b {
            Val::Integer(n) => match n.to_u32() {
                Some(n) => Expr::bits(32, n as u128),
                None => return self.error("E0503", rs, "a shift by a negative or enormous number"),
            },
            Val::Scalar(e, ty) if matches!(ty.underlying(), T::Bit(_)) => e.clone(),
            _ => {
                return self.error_hint(
                    "E0503",
                    rs,
                    "a shift's amount is not negative",
                    "cast it to `bit<8>`",
                );
            }
        };
        match a {
            Val::Integer(x) => match amount.as_const().and_then(|n| n.to_u64()) {
                Some(n) if n < 1 << 16 => Ok(Val::Integer(if op == BinaryOp::Shl { x << n } else { x >> n })),
                _ => self.error_hint("E0503", span, "this shift needs a width", "write `32w1 << n`"),
            },
            Val::Scalar(x, ty) if matches!(ty.underlying(), T::Bit(_) | T::Int(_)) => {
                match fold::binary(ir_op(op), x, amount) {
                    Some(e) => Ok(Val::Scalar(e, ty)),
                    None => Err(super::Failed),
                }
            }
            _ => self.error("E0503", span, "only bits are shifted"),
        }
    }

    fn concat(&mut self, a: Val, b: Val, ls: Span, rs: Span) -> Res<Val> {
        if let (Val::Str(x), Val::Str(y)) = (&a, &b) {
            return Ok(Val::Str(format!("{x}{y}")));
        }
        let mut parts = Vec::new();
        for (val, span) in [(a, ls), (b, rs)] {
            match val {
                Val::Scalar(e, ty) if matches!(ty.underlying(), T::Bit(_) | T::Int(_)) => parts.push(e),
                Val::Integer(_) => {
                    return self.error_hint(
                        "E0503",
                        span,
                        "`++` needs to know how wide this is",
                        "write `8w0`",
                    );
                }
                _ => return self.error("E0503", span, "only bits are concatenated"),
            }
        }
        let (Some(low), Some(high)) = (parts.pop(), parts.pop()) else { return Err(super::Failed) };
        let e = fold::concat(high, low);
        let ty = if e.ty.is_signed() { T::Int(e.ty.width()) } else { T::Bit(e.ty.width()) };
        Ok(Val::Scalar(e, ty))
    }

    /// `&&` and `||`: what the right side does besides its value happens only if it is looked at.
    fn lazy(&mut self, op: BinaryOp, left: &'a ast::Expr, right: &'a ast::Expr, env: &Env<'a>) -> Res<Val> {
        let a = self.condition(left, env)?;
        let (before, b) = self.in_block(|l| l.condition(right, env));
        let b = b?;
        if before.is_empty() {
            return match fold::binary(ir_op(op), a, b) {
                Some(e) => Ok(Val::Scalar(e, T::Bool)),
                None => Err(super::Failed),
            };
        }
        let Some(Store::Scalar(place, _)) = self.temp("$lazy", &T::Bool) else { return Err(super::Failed) };
        self.push(StmtKind::Assign { dst: place.clone(), src: a });
        let seen = Expr::read(place.clone(), Ty::Bool);
        let cond = if op == BinaryOp::And { seen.clone() } else { fold::unary(UnOp::Not, seen.clone()) };
        let mut then = before;
        then.push(ir::Stmt::new(StmtKind::Assign { dst: place, src: b }, self.loc));
        self.push(StmtKind::If { cond, then, otherwise: Vec::new() });
        Ok(Val::Scalar(seen, T::Bool))
    }

    fn ternary(
        &mut self,
        cond: &'a ast::Expr,
        yes: &'a ast::Expr,
        no: &'a ast::Expr,
        env: &Env<'a>,
        want: Option<&T>,
    ) -> Res<Val> {
        let c = self.condition(cond, env)?;
        let (before_yes, a) = self.in_block(|l| l.expr(yes, env, want));
        let (before_no, b) = self.in_block(|l| l.expr(no, env, want));
        let (a, b) = (self.loaded(a?), self.loaded(b?));
        let ty = match (want, a.ty(), b.ty()) {
            (_, Some(T::Integer), Some(T::Integer)) => match (want, c.as_const()) {
                (Some(want), _) if want.ir().is_some() => want.clone(),
                (_, Some(known)) => return Ok(if known.is_zero() { b } else { a }),
                _ => {
                    return self.error_hint(
                        "E0503",
                        yes.span,
                        "these numbers have no width here",
                        "write `8w1`",
                    );
                }
            },
            (_, Some(T::Integer), Some(ty)) | (_, Some(ty), _) => ty,
            (Some(want), ..) => want.clone(),
            _ => return self.not_yet(yes.span, "`?:` between lists"),
        };
        let (Val::Scalar(x, _), Val::Scalar(y, _)) =
            (self.convert(a, &ty, yes.span)?, self.convert(b, &ty, no.span)?)
        else {
            return self.not_yet(yes.span, "`?:` between headers and structs");
        };
        if before_yes.is_empty() && before_no.is_empty() {
            return Ok(Val::Scalar(fold::mux(c, x, y), ty));
        }
        let Some(Store::Scalar(place, _)) = self.temp("$either", &ty) else { return Err(super::Failed) };
        let loc = self.loc;
        let finish = |mut block: Vec<ir::Stmt>, src| {
            block.push(ir::Stmt::new(StmtKind::Assign { dst: place.clone(), src }, loc));
            block
        };
        let (then, otherwise) = (finish(before_yes, x), finish(before_no, y));
        self.push(StmtKind::If { cond: c, then, otherwise });
        let (e, ty) = self.read(place, ty);
        Ok(Val::Scalar(e, ty))
    }

    fn list(&mut self, items: &'a [ast::Expr], env: &Env<'a>, want: Option<&T>) -> Res<Val> {
        let wants: Vec<Option<T>> = match want {
            Some(T::Struct(s) | T::Header(s)) => s.fields.iter().map(|f| Some(f.ty.clone())).collect(),
            Some(T::Tuple(types)) => types.iter().cloned().map(Some).collect(),
            _ => vec![None; items.len()],
        };
        if wants.len() != items.len() {
            let span = items.first().map_or(Span::default(), |i| i.span);
            let message = format!("{} values where {} are wanted", items.len(), wants.len());
            return self.error("E0503", span, message);
        }
        let mut vals = Vec::new();
        for (item, want) in items.iter().zip(&wants) {
            let position = self.position();
            let val = self.expr(item, env, want.as_ref())?;
            let val = match want {
                Some(want) => self.convert(val, want, item.span)?,
                None => val,
            };
            let val = self.loaded(val);
            for earlier in &mut vals {
                *earlier = self.read_before(position, std::mem::replace(earlier, Val::Void), item.span)?;
            }
            vals.push(val);
        }
        Ok(Val::List(vals))
    }

    fn record(&mut self, fields: &'a [(ast::Name, ast::Expr)], env: &Env<'a>, want: Option<&T>) -> Res<Val> {
        let mut vals: Vec<(String, Val)> = Vec::new();
        for (name, e) in fields {
            let position = self.position();
            let ty = match want {
                Some(T::Struct(s) | T::Header(s)) => match s.field(&name.text) {
                    Some(i) => Some(s.fields[i].ty.clone()),
                    None => return self.unknown_field(&s.clone(), name),
                },
                _ => None,
            };
            let val = self.expr(e, env, ty.as_ref())?;
            let val = match &ty {
                Some(ty) => self.convert(val, ty, e.span)?,
                None => val,
            };
            let val = self.loaded(val);
            for (_, earlier) in &mut vals {
                *earlier = self.read_before(position, std::mem::replace(earlier, Val::Void), e.span)?;
            }
            vals.push((name.text.clone(), val));
        }
        Ok(Val::Record(vals))
    }

    /// `==` on headers (both invalid, or both valid with equal fields), structs, tuples and lists.
    fn aggregates_equal(&mut self, a: Val, b: Val, span: Span) -> Res<Expr> {
        let equal = |x: Expr, y: Expr| fold::binary(BinOp::Eq, x, y);
        let both = |x: Expr, y: Expr| fold::binary(BinOp::LogAnd, x, y).unwrap_or(Expr::bool(false));
        match (a, b) {
            (Val::Store(Store::Header(g, s)), Val::Store(Store::Header(h, t))) if s == t => {
                let valid = |h: &HeaderRef| Expr { kind: IrKind::IsValid(h.clone()), ty: Ty::Bool };
                let mut same = Expr::bool(true);
                for (i, (_, field)) in s.scalars().into_iter().enumerate() {
                    let of = |h: &HeaderRef| self.read(Place::Field(h.clone(), i as u32), field.ty.clone()).0;
                    same = both(same, equal(of(&g), of(&h)).unwrap_or(Expr::bool(false)));
                }
                let agree = equal(valid(&g), valid(&h)).unwrap_or(Expr::bool(false));
                let empty = fold::unary(UnOp::Not, valid(&g));
                let either = fold::binary(BinOp::LogOr, empty, same).unwrap_or(Expr::bool(false));
                Ok(both(agree, either))
            }
            (Val::Store(Store::Header(h, _)), Val::Invalid)
            | (Val::Invalid, Val::Store(Store::Header(h, _))) => {
                Ok(fold::unary(UnOp::Not, Expr { kind: IrKind::IsValid(h), ty: Ty::Bool }))
            }
            (Val::Store(a @ (Store::Stack(..) | Store::UnionStack(..))), Val::Store(b))
                if a.ty() == b.ty() =>
            {
                let T::Stack(element, size) = a.ty() else { return Err(super::Failed) };
                let mut same = Expr::bool(true);
                for i in 0..size {
                    let (x, y) = (self.element_at(&a, i)?, self.element_at(&b, i)?);
                    debug_assert_eq!(x.ty(), *element);
                    same = both(same, self.aggregates_equal(Val::Store(x), Val::Store(y), span)?);
                }
                Ok(same)
            }
            (a, b) => {
                let (Some(xs), Some(ys)) = (parts(&a), parts(&b)) else {
                    return self.error("E0503", span, "these cannot be compared");
                };
                if xs.len() != ys.len() {
                    return self.error("E0503", span, "these have different lengths");
                }
                let mut same = Expr::bool(true);
                for (x, y) in xs.into_iter().zip(ys) {
                    let (x, y) = (self.loaded(x), self.loaded(y));
                    let one = match (&x, &y) {
                        (Val::Scalar(..) | Val::Integer(_), _) => {
                            match self.arithmetic(BinaryOp::Eq, x, y, span, span, span)? {
                                Val::Scalar(e, _) => e,
                                _ => return Err(super::Failed),
                            }
                        }
                        _ => self.aggregates_equal(x, y, span)?,
                    };
                    same = both(same, one);
                }
                Ok(same)
            }
        }
    }

    pub(super) fn named(&mut self, name: &'a ast::Name, env: &Env<'a>) -> Res<T> {
        match env.get(&name.text) {
            Some(Binding::Type(decl)) => self.declared(decl, name),
            Some(Binding::Alias(ty)) => Ok(ty),
            _ => self.error("E0503", name.span, format!("`{}` is not a type", name.text)),
        }
    }
}

/// The parts of a struct, tuple or list.
pub(super) fn parts(val: &Val) -> Option<Vec<Val>> {
    match val {
        Val::List(items) => Some(items.clone()),
        Val::Record(fields) => Some(fields.iter().map(|(_, v)| v.clone()).collect()),
        Val::Store(Store::Struct(_, fields)) | Val::Store(Store::Tuple(fields)) => {
            Some(fields.iter().cloned().map(Val::Store).collect())
        }
        Val::Store(Store::Union(_, members)) => Some(members.iter().cloned().map(Val::Store).collect()),
        Val::Store(Store::Header(h, s)) => {
            Some((0..s.fields.len()).map(|i| Val::Store(s.place(h, i))).collect())
        }
        _ => None,
    }
}

fn ir_op(op: BinaryOp) -> BinOp {
    match op {
        BinaryOp::Mul => BinOp::Mul,
        BinaryOp::Div => BinOp::Div,
        BinaryOp::Mod => BinOp::Mod,
        BinaryOp::Add => BinOp::Add,
        BinaryOp::Sub => BinOp::Sub,
        BinaryOp::AddSat => BinOp::AddSat,
        BinaryOp::SubSat => BinOp::SubSat,
        BinaryOp::Shl => BinOp::Shl,
        BinaryOp::Shr => BinOp::Shr,
        BinaryOp::Le => BinOp::Le,
        BinaryOp::Ge => BinOp::Ge,
        BinaryOp::Lt => BinOp::Lt,
        BinaryOp::Gt => BinOp::Gt,
        BinaryOp::Ne => BinOp::Ne,
        BinaryOp::BitAnd => BinOp::And,
        BinaryOp::BitXor => BinOp::Xor,
        BinaryOp::BitOr => BinOp::Or,
        BinaryOp::And => BinOp::LogAnd,
        BinaryOp::Or => BinOp::LogOr,
        // Concatenations, masks and ranges have been dealt with.
        BinaryOp::Eq | BinaryOp::Concat | BinaryOp::Mask | BinaryOp::Range => BinOp::Eq,
    }
}
