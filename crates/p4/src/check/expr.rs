//! Expressions: their types, their values, and what names refer to (P4-16 section 8).

use std::sync::Arc;

use num_traits::ToPrimitive;

use super::Checker;
use super::fold::{self, Fault};
use super::scope::is_type;
use super::typed::{Builtin, Kind, Res};
use super::types::{DeclId, Named, Type};
use super::tyref::MAX_WIDTH;
use super::value::Value;
use crate::ast::{BinaryOp, Expr, ExprId, ExprKind, Name, UnaryOp};
use crate::diag::Diagnostic;

impl<'a> Checker<'a, '_> {
    /// Checks an expression, and records its type.
    pub(super) fn expr(&mut self, e: &'a Expr) -> Type {
        let ty = self.nested(e.span, Type::Bad, |c| c.expr_inner(e));
        let ty = self.unknowns.resolve(&ty);
        self.note(e, &ty);
        ty
    }

    pub(super) fn note(&mut self, e: &Expr, ty: &Type) {
        self.note_type(e.id, ty);
    }

    pub(super) fn note_type(&mut self, e: ExprId, ty: &Type) {
        if let Some(slot) = self.typed.types.get_mut(e.0 as usize) {
            *slot = Some(ty.clone());
        }
    }

    pub(super) fn set_value(&mut self, e: &Expr, value: Value) {
        self.typed.values.insert(e.id, value);
    }

    /// The value of an expression after its implicit cast, if it is compile-time known.
    pub(super) fn known_value(&self, e: &Expr) -> Option<Value> {
        self.typed.value(e.id)
    }

    fn expr_inner(&mut self, e: &'a Expr) -> Type {
        match &e.kind {
            ExprKind::Number { value, width } => self.number(e, value, *width),
            ExprKind::String(s) => {
                self.set_value(e, Value::Str(s.as_str().into()));
                Type::String
            }
            ExprKind::Bool(b) => {
                self.set_value(e, Value::Bool(*b));
                Type::Bool
            }
            ExprKind::This => match self.this.clone() {
                Some(ty) => ty,
                None => {
                    self.bad(Diagnostic::error("E0205", e.span, "`this` is only known in abstract methods"))
                }
            },
            ExprKind::DefaultValue => Type::Default,
            ExprKind::DontCare | ExprKind::Default => Type::DontCare,
            ExprKind::Name { global, name } => self.name(e, *global, name),
            ExprKind::Type(t) => {
                let ty = self.ty_open(t);
                self.typed.refs.insert(e.id, Res::Type(ty.clone()));
                Type::TypeName(Arc::new(ty))
            }
            ExprKind::Member { base, member } => self.member(e, base, member),
            ExprKind::Index { base, index } => self.index(e, base, index),
            ExprKind::Slice { base, hi, lo } => self.slice(e, base, hi, lo),
            ExprKind::Call { callee, type_args, args } => self.call(e, callee, type_args, args),
            ExprKind::Unary { op, operand } => self.unary(e, *op, operand),
            ExprKind::Binary { op, left, right } => self.binary(e, *op, left, right),
            ExprKind::Ternary { cond, yes, no } => self.ternary(e, cond, yes, no),
            ExprKind::Cast { ty, operand } => {
                let to = self.ty(ty);
                let from = self.expr(operand);
                self.explicit_cast(e, operand, &from, &to)
            }
            ExprKind::List { items, .. } => {
                let types: Vec<Type> = items.iter().map(|i| self.expr(i)).collect();
                if let Some(values) = items.iter().map(|i| self.known_value(i)).collect() {
                    self.set_value(e, Value::Seq(values));
                }
                Type::tuple(types)
            }
            ExprKind::Struct { fields, .. } => self.record_ty(fields),
            ExprKind::InvalidHeader => {
                self.set_value(e, Value::Invalid);
                Type::Invalid
            }
            ExprKind::Error => Type::Bad,
        }
    }

    fn record_ty(&mut self, fields: &'a [(Name, Expr)]) -> Type {
        for (i, (name, _)) in fields.iter().enumerate() {
            if let Some((first, _)) = fields[..i].iter().find(|(n, _)| n.text == name.text) {
                let text = format!("field `{}` is given twice", name.text);
                self.report(Diagnostic::error("E0202", name.span, text).also(first.span, "given here first"));
            }
        }
        let typed = fields.iter().map(|(n, v)| (n.text.as_str().into(), self.expr(v)));
        Type::Record(typed.collect::<Vec<(Arc<str>, Type)>>().into())
    }

    fn number(&mut self, e: &'a Expr, value: &num_bigint::BigInt, width: Option<(u32, bool)>) -> Type {
        let ty = match width {
            None => Type::Int,
            Some((w, true)) => Type::Signed(w),
            Some((w, false)) => Type::Bit(w),
        };
        if let Some((w, _)) = width.filter(|(w, _)| *w > MAX_WIDTH) {
            let text = format!("a width of {w} bits is not possible");
            return self
                .bad(Diagnostic::error("E0305", e.span, text).hint(format!("widths go up to {MAX_WIDTH}")));
        }
        if ty == Type::Signed(0) {
            return self.bad(Diagnostic::error("E0305", e.span, "a signed number needs at least one bit"));
        }
        self.warn_range(e, value, &ty);
        self.set_value(e, Value::Int(super::value::wrap(value, &ty)));
        ty
    }

    fn name(&mut self, e: &'a Expr, global: bool, name: &'a Name) -> Type {
        let found = self.find(&name.text, global);
        let Some(id) = found.first().copied() else {
            // A table that is declared later may have the name of a match kind.
            let later = self.declared_later.contains_key(name.text.as_str());
            if let Some(kind) = self.match_kind_named(&name.text).filter(|_| !later) {
                self.typed.refs.insert(e.id, Res::Decl(kind));
                self.set_value(e, Value::Member(kind));
                return Type::MatchKind;
            }
            return self.undeclared(name, "", |k| !matches!(k, Kind::Member));
        };
        self.typed.refs.insert(e.id, Res::Decl(id));
        self.typed.used.extend(found);
        self.type_of_use(e, id)
    }

    fn match_kind_named(&self, name: &str) -> Option<DeclId> {
        let mut kinds = self.typed.match_kinds.iter().copied();
        kinds.find(|m| self.decl(*m).is_some_and(|d| *d.name == *name))
    }

    /// The type of a declaration that is used as an expression.
    fn type_of_use(&mut self, e: &'a Expr, id: DeclId) -> Type {
        let Some(decl) = self.decl(id).cloned() else { return Type::Bad };
        if let Some(value) = decl.value.clone().filter(|_| decl.kind == Kind::Const) {
            self.set_value(e, value);
        }
        match decl.kind {
            Kind::Action => Type::Action(Named::plain(id, &decl.name)),
            Kind::Function | Kind::ExternFunction | Kind::Method | Kind::Constructor => Type::Function,
            Kind::Table => Type::Table(Named::plain(id, &decl.name)),
            Kind::State => Type::State,
            Kind::Member => {
                self.set_value(e, Value::Member(id));
                decl.ty
            }
            k if is_type(k) => {
                let ty = if decl.type_params.is_empty() {
                    decl.ty
                } else {
                    let fresh: Vec<Type> = decl.type_params.iter().map(|_| self.unknowns.fresh()).collect();
                    decl.ty.with_args(fresh.into())
                };
                self.typed.refs.insert(e.id, Res::Type(ty.clone()));
                Type::TypeName(Arc::new(ty))
            }
            _ => decl.ty,
        }
    }

    fn member(&mut self, e: &'a Expr, base: &'a Expr, member: &'a Name) -> Type {
        let ty = self.expr(base);
        match &ty {
            Type::Bad => Type::Bad,
            Type::TypeName(t) => self.type_member(e, t, member),
            Type::Struct(_) | Type::Header(_) | Type::Union(_) => self.field(e, base, &ty, member),
            Type::Stack(item, n) => self.stack_member(e, item, *n, member),
            Type::ApplyResult(n) => self.result_member(e, n, member),
            _ => {
                let text = format!("`{}` has no members: its type is `{ty}`", self.text(base));
                let mut d = Diagnostic::error("E0206", member.span, text);
                if let Type::Table(n) = &ty {
                    d = d.hint(format!("tables are applied: `{n}.apply()`"));
                }
                self.bad(d)
            }
        }
    }

    fn field(&mut self, e: &'a Expr, base: &'a Expr, ty: &Type, member: &'a Name) -> Type {
        let fields = self.typed.fields(ty);
        if let Some(i) = fields.iter().position(|(n, _, _)| **n == *member.text) {
            self.typed.refs.insert(e.id, Res::Decl(fields[i].2));
            if let Some(Value::Seq(values)) = self.known_value(base)
                && let Some(value) = values.get(i)
            {
                self.set_value(e, value.clone());
            }
            return fields[i].1.clone();
        }
        let names: Vec<&str> = fields.iter().map(|(n, _, _)| n.as_ref()).collect();
        let text = format!("`{ty}` has no field `{}`", member.text);
        let mut d = Diagnostic::error("E0206", member.span, text).label("no such field");
        if ty.is_header_like() && member.text.eq_ignore_ascii_case("valid") {
            d = d.hint(
                "a header's validity is read with `isValid()` and set with `setValid()` and `setInvalid()`",
            );
        } else if ty.is_header_like() && matches!(member.text.as_str(), "isValid" | "setValid" | "setInvalid")
        {
            d = d.hint(format!("`{0}` is a method: `{0}()`", member.text));
        } else {
            d = d.one_of(&member.text, "fields", &names);
        }
        if let Some(decl) = ty.named().and_then(|n| self.decl(n.decl)) {
            d = d.also(decl.span, format!("`{ty}` is declared here"));
        }
        self.bad(d)
    }

    fn type_member(&mut self, e: &'a Expr, ty: &Type, member: &'a Name) -> Type {
        let members = match ty {
            Type::Error => self.typed.errors.clone(),
            Type::MatchKind => self.typed.match_kinds.clone(),
            Type::Enum(n) | Type::SerEnum(n, _) => self.members(n.decl),
            Type::Bad => return Type::Bad,
            _ => {
                let text = format!("type `{ty}` has no member `{}`", member.text);
                let d = Diagnostic::error("E0206", member.span, text);
                return self
                    .bad(d.hint("this names a type, not a value; perhaps a variable or parameter is meant"));
            }
        };
        let known = members.iter().filter_map(|m| Some((*m, &*self.decl(*m)?.name)));
        let (ids, names): (Vec<DeclId>, Vec<&str>) = known.unzip();
        if let Some(i) = names.iter().position(|n| *n == member.text) {
            self.typed.refs.insert(e.id, Res::Decl(ids[i]));
            self.set_value(e, Value::Member(ids[i]));
            return ty.clone();
        }
        let text = format!("`{ty}` has no member `{}`", member.text);
        let d = Diagnostic::error("E0206", member.span, text).one_of(&member.text, "members", &names);
        self.bad(d)
    }

    fn stack_member(&mut self, e: &'a Expr, item: &Type, n: u32, member: &'a Name) -> Type {
        let (builtin, ty) = match member.text.as_str() {
            "next" => (Builtin::Next, item.clone()),
            "last" => (Builtin::Last, item.clone()),
            "lastIndex" => (Builtin::LastIndex, Type::Bit(32)),
            "size" => {
                self.set_value(e, Value::int(n));
                (Builtin::Size, Type::Bit(32))
            }
            _ => {
                let text = format!("a header stack has no member `{}`", member.text);
                let d = Diagnostic::error("E0206", member.span, text);
                return self.bad(d.hint("members: next, last, lastIndex, size; an element is `stack[0]`"));
            }
        };
        if builtin != Builtin::Size && !item.is_header_like() {
            let text = format!("`{}` needs a stack of headers", member.text);
            return self.bad(Diagnostic::error("E0206", member.span, text));
        }
        if builtin != Builtin::Size && !self.place.in_parser() {
            let text = format!("`{}` of a header stack can only be used in a parser", member.text);
            return self
                .bad(Diagnostic::error("E0401", member.span, text).hint("elsewhere, index it: `stack[0]`"));
        }
        self.typed.refs.insert(e.id, Res::Builtin(builtin));
        ty
    }

    fn result_member(&mut self, e: &'a Expr, table: &Named, member: &'a Name) -> Type {
        let (builtin, ty) = match member.text.as_str() {
            "hit" => (Builtin::Hit, Type::Bool),
            "miss" => (Builtin::Miss, Type::Bool),
            "action_run" => (Builtin::ActionRun, Type::ActionList(table.clone())),
            _ => {
                let text = format!("the result of a table has no member `{}`", member.text);
                return self.bad(
                    Diagnostic::error("E0206", member.span, text).hint("members: hit, miss, action_run"),
                );
            }
        };
        self.typed.refs.insert(e.id, Res::Builtin(builtin));
        ty
    }

    fn index(&mut self, e: &'a Expr, base: &'a Expr, index: &'a Expr) -> Type {
        let ty = self.expr(base);
        let by = self.expr(index);
        let known = self.known_value(index).and_then(|v| v.as_int().cloned());
        let (item, len) = match &ty {
            Type::Stack(item, n) => (Some((**item).clone()), *n as usize),
            Type::Tuple(items) => match known.as_ref().and_then(ToPrimitive::to_usize) {
                Some(i) => (items.get(i).cloned(), items.len()),
                None => {
                    let text = "a tuple's index must be known at compile time";
                    let d = Diagnostic::error("E0306", index.span, text);
                    return self.bad(d);
                }
            },
            Type::Bad => return Type::Bad,
            _ => {
                let text = format!("`{}` cannot be indexed: its type is `{ty}`", self.text(base));
                let d = Diagnostic::error("E0309", e.span, text);
                return self
                    .bad(d.hint("header stacks and tuples have an index; bits are taken with `[high:low]`"));
            }
        };
        if !by.is_bad() && !by.underlying().is_integer() {
            let text = format!("an index is a number, not `{by}`");
            return self.bad(Diagnostic::error("E0301", index.span, text));
        }
        if let Some(i) = &known {
            if len > 0 && i.to_usize().is_none_or(|i| i >= len) {
                let text = format!("index {i} is outside: there are {len} elements");
                return self.bad(Diagnostic::error("E0305", index.span, text).hint("elements count from 0"));
            }
            if let (Some(Value::Seq(values)), Some(i)) = (self.known_value(base), i.to_usize())
                && let Some(value) = values.get(i)
            {
                self.set_value(e, value.clone());
            }
        }
        item.unwrap_or(Type::Bad)
    }

    fn slice(&mut self, e: &'a Expr, base: &'a Expr, hi: &'a Expr, lo: &'a Expr) -> Type {
        let ty = self.expr(base);
        if let Some(w) = self.plus_slice(hi, lo) {
            if !ty.is_bad() && !ty.underlying().is_fixed() {
                let text = format!("bits can be taken from bit<W> and int<W>, not from `{ty}`");
                return self.bad(Diagnostic::error("E0309", base.span, text));
            }
            return Type::Bit(w);
        }
        let (h, l) = (self.size(hi, "a bit number of a slice"), self.size(lo, "a bit number of a slice"));
        let width = match ty.underlying() {
            Type::Bit(w) | Type::Signed(w) => Some(*w),
            Type::Int => None,
            Type::Bad => return Type::Bad,
            _ => {
                let text = format!("bits can be taken from bit<W> and int<W>, not from `{ty}`");
                return self.bad(Diagnostic::error("E0309", base.span, text));
            }
        };
        let (Some(h), Some(l)) = (h, l) else { return Type::Bad };
        if h < l {
            let text = format!("a slice is written [high:low]: [{l}:{h}], not [{h}:{l}]");
            return self.bad(Diagnostic::error("E0305", hi.span.to(lo.span), text));
        }
        if h >= MAX_WIDTH && width.is_none() {
            let text = format!("bit {h} is beyond the widest number");
            return self.bad(Diagnostic::error("E0305", hi.span, text));
        }
        if let Some(w) = width.filter(|w| h >= *w) {
            let text =
                format!("bit {h} is outside: the bits of `{ty}` count from 0 to {}", w.saturating_sub(1));
            return self.bad(Diagnostic::error("E0305", hi.span, text));
        }
        if let Some(Value::Int(v)) = self.known_value(base) {
            self.set_value(e, Value::Int(fold::slice(&v, h, l)));
        }
        Type::Bit(h - l + 1)
    }

    /// The width of `x[low +: width]` if `low` is only known at run time. The parser writes it as `x[low + width - 1 :
    /// low]`.
    fn plus_slice(&mut self, hi: &'a Expr, lo: &'a Expr) -> Option<u32> {
        let ExprKind::Binary { op: BinaryOp::Sub, left, .. } = &hi.kind else { return None };
        let ExprKind::Binary { op: BinaryOp::Add, right: width, .. } = &left.kind else { return None };
        let low = self.expr(lo);
        if hi.span != lo.span.to(width.span) || self.is_known(lo) {
            return None;
        }
        if !matches!(low.underlying(), Type::Bit(_) | Type::Bad) {
            let text = format!("the low bit of a slice is a number without sign, not `{low}`");
            self.error("E0301", lo.span, text);
        }
        self.expr(hi);
        self.size(width, "the width of a slice").filter(|w| (1..=MAX_WIDTH).contains(w))
    }

    fn unary(&mut self, e: &'a Expr, op: UnaryOp, operand: &'a Expr) -> Type {
        let own = self.expr(operand);
        let ty = if let Type::SerEnum(..) = own { self.use_underlying(operand, &own) } else { own };
        let ok = match op {
            UnaryOp::Not => ty == Type::Bool,
            UnaryOp::Complement => ty.is_fixed(),
            UnaryOp::Minus | UnaryOp::Plus => ty.is_integer(),
        };
        if ty.is_bad() {
            return Type::Bad;
        }
        if !ok {
            let symbol = match op {
                UnaryOp::Not => "!",
                UnaryOp::Complement => "~",
                UnaryOp::Minus => "-",
                UnaryOp::Plus => "+",
            };
            let mut d = Diagnostic::error("E0302", e.span, format!("`{symbol}` cannot be applied to `{ty}`"));
            d = match (op, &ty) {
                (UnaryOp::Not, t) if t.is_integer() => {
                    d.hint("`!` is for bool: compare with `== 0`, or use `~` for bits")
                }
                (UnaryOp::Complement, Type::Bool) => d.hint("for bool, write `!`"),
                (UnaryOp::Complement, Type::Int) => d.hint("give the number a width, such as `8w1`"),
                _ => d,
            };
            return self.bad(d);
        }
        if let Some(value) = self.known_value(operand).and_then(|v| fold::unary(op, &v, &ty)) {
            self.set_value(e, value);
        }
        ty
    }

    fn ternary(&mut self, e: &'a Expr, cond: &'a Expr, yes: &'a Expr, no: &'a Expr) -> Type {
        self.expr_to(cond, &Type::Bool);
        let (a, b) = (self.expr(yes), self.expr(no));
        let (a, b) = self.balance(yes, a, no, b);
        if a.is_bad() || b.is_bad() {
            return Type::Bad;
        }
        let ty = match (&a, &b) {
            (Type::Invalid | Type::Tuple(_) | Type::Record(_), t) if t.has_fields() => t.clone(),
            _ => a.clone(),
        };
        if !(self.coerce(no, &b, &ty) && self.coerce(yes, &a, &ty)) {
            return Type::Bad;
        }
        let known = self.known_value(cond).and_then(|v| v.as_bool());
        if ty == Type::Int && known.is_none() {
            let d =
                Diagnostic::error("E0310", e.span, "this has no width: both sides are numbers of type `int`");
            return self.bad(d.hint("give one of them a width, such as `8w1`"));
        }
        if let Some(value) = known.and_then(|k| self.known_value(if k { yes } else { no })) {
            self.set_value(e, value);
        }
        ty
    }

    /// Folds a binary operation whose operand types are right, and reports operations without a result.
    pub(super) fn fold_binary(&mut self, e: &'a Expr, op: BinaryOp, left: &'a Expr, right: &'a Expr) {
        let (lt, rt) =
            (self.typed.ty(left.id).underlying().clone(), self.typed.ty(right.id).underlying().clone());
        let divides = matches!(op, BinaryOp::Div | BinaryOp::Mod);
        let (a, b) = (self.known_value(left), self.known_value(right));
        if divides && matches!(lt, Type::Signed(_)) {
            self.error("E0311", e.span, format!("`{}` is not defined for signed numbers", op.symbol()));
            return;
        }
        // An implicit cast may have removed the sign of a literal.
        let minus = |e: &Expr| match &e.kind {
            ExprKind::Unary { op: UnaryOp::Minus, operand } => {
                matches!(operand.kind, ExprKind::Number { .. })
            }
            _ => false,
        };
        let negative = |v: &Option<Value>| {
            v.as_ref().and_then(Value::as_int).is_some_and(num_traits::Signed::is_negative)
        };
        let fault = match op {
            BinaryOp::Shl | BinaryOp::Shr if negative(&b) => Some(Fault::NegativeShift),
            _ if divides && (negative(&a) || negative(&b) || minus(left) || minus(right)) => {
                Some(Fault::NegativeDivision)
            }
            _ => None,
        };
        let zero = b.as_ref().and_then(Value::as_int).is_some_and(num_traits::Zero::is_zero);
        let result = match (fault, &a, &b) {
            (Some(fault), ..) => Err(fault),
            (None, Some(a), Some(b)) => fold::binary(op, a, b, &lt, &rt),
            _ if divides && zero => Err(Fault::DivideByZero),
            _ => return,
        };
        let text = match result {
            Ok(Some(value)) => return self.set_value(e, value),
            Ok(None) => return,
            Err(Fault::DivideByZero) => "this divides by zero",
            Err(Fault::NegativeDivision) => "`/` and `%` are not defined for negative numbers",
            Err(Fault::NegativeShift) => "a shift by a negative amount",
            Err(Fault::TooLarge) => "this value is too large to be meant",
        };
        self.error("E0311", e.span, text);
    }

    /// Whether an expression is an lvalue. If it is not: the reason, and a hint.
    pub(super) fn lvalue(&self, e: &Expr) -> Result<(), (String, Option<String>)> {
        let text = self.text(e);
        match &e.kind {
            ExprKind::Error => Ok(()),
            ExprKind::Name { .. } => {
                let Some(Res::Decl(id)) = self.typed.res(e.id) else {
                    return if self.typed.ty(e.id).is_bad() { Ok(()) } else { Err((String::new(), None)) };
                };
                self.writable(*id)
            }
            ExprKind::Member { base, .. } => match self.typed.res(e.id) {
                Some(Res::Builtin(Builtin::Next | Builtin::Last)) | Some(Res::Decl(_)) => self.lvalue(base),
                None => Ok(()),
                _ => Err((format!("`{text}` is computed, not stored"), None)),
            },
            ExprKind::Index { base, .. } => self.lvalue(base),
            ExprKind::Slice { base, .. } => self.lvalue(base),
            _ => Err((format!("`{text}` is not a variable"), None)),
        }
    }

    fn writable(&self, id: DeclId) -> Result<(), (String, Option<String>)> {
        use crate::ast::Direction;
        let Some(d) = self.decl(id) else { return Ok(()) };
        match d.kind {
            Kind::Variable => Ok(()),
            Kind::Param => match d.direction {
                Direction::Out | Direction::InOut => Ok(()),
                Direction::In => Err((
                    format!("`{}` is an `in` parameter, which is read-only", d.name),
                    Some(format!("declare it `inout {} {}`, or copy it to a variable first", d.ty, d.name)),
                )),
                // Action data is read-only, as in p4c.
                Direction::None => Err((
                    format!("`{}` is a parameter without direction, which is read-only", d.name),
                    Some(format!("copy it to a variable first: `{} copy = {};`", d.ty, d.name)),
                )),
            },
            Kind::CtorParam => Err((format!("`{}` is a parameter of the constructor", d.name), None)),
            Kind::Const => Err((format!("`{}` is a constant", d.name), None)),
            _ => Err((format!("`{}` is not a variable", d.name), None)),
        }
    }

    /// Reports an expression that is not an lvalue.
    pub(super) fn need_lvalue(&mut self, e: &'a Expr, why: &str) -> bool {
        if self.typed.own_ty(e.id).is_bad() {
            return false;
        }
        let found = self.lvalue(e);
        let ok = found.is_ok();
        if let Err((reason, hint)) = found {
            let verb = if matches!(e.kind, ExprKind::Name { .. } | ExprKind::Member { .. }) {
                "changed"
            } else {
                "written"
            };
            let mut d = Diagnostic::error("E0303", e.span, format!("`{}` cannot be {verb}", self.text(e)))
                .label(reason);
            if let Some(hint) = hint.or_else(|| (!why.is_empty()).then(|| why.to_string())) {
                d = d.hint(hint);
            }
            self.report(d);
        }
        ok
    }
}
