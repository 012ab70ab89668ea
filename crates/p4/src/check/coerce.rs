//! Implicit and explicit casts, and the operand types of operators (P4-16 section 8.11).

use num_bigint::BigInt;
use num_traits::{One, Zero};

use super::Checker;
use super::typed::Kind;
use super::types::Type;
use super::tyref::MAX_WIDTH;
use super::value::{Value, fits, wrap};
use crate::ast::{BinaryOp, Expr, ExprKind, Name};
use crate::diag::Diagnostic;

impl<'a> Checker<'a, '_> {
    /// Checks an expression where a type is expected, and inserts an implicit cast if one is needed.
    pub(super) fn expr_to(&mut self, e: &'a Expr, want: &Type) -> Type {
        let own = self.expr(e);
        if self.coerce(e, &own, want) { self.unknowns.resolve(want) } else { Type::Bad }
    }

    fn cast(&mut self, e: &Expr, to: &Type) {
        self.typed.casts.insert(e.id, to.clone());
    }

    /// Warns about a number that does not fit in its type.
    pub(super) fn warn_range(&mut self, e: &Expr, value: &BigInt, ty: &Type) {
        if !fits(value, ty) {
            let text = format!("{value} does not fit in `{ty}`: it becomes {}", wrap(value, ty));
            self.report(Diagnostic::warning("W0301", e.span, text));
        }
    }

    /// Casts a serializable enum to its representation.
    pub(super) fn use_underlying(&mut self, e: &'a Expr, ty: &Type) -> Type {
        let under = ty.underlying().clone();
        self.cast(e, &under);
        under
    }

    /// Converts an expression from the type `from` to the type `want` by an implicit cast, or reports a mismatch.
    pub(super) fn coerce(&mut self, e: &'a Expr, from: &Type, want: &Type) -> bool {
        let (from, want) = (self.unknowns.resolve(from), self.unknowns.resolve(want));
        if from.is_bad() || want.is_bad() {
            return true;
        }
        let taken = match (&from, &want) {
            (f, Type::Int) if f.is_fixed() => self.typed.own_value(e.id).is_some(),
            (Type::SerEnum(..), w) if w.is_integer() => from.underlying() == w,
            // Section 7.2.8 requires a cast. p4c accepts literals without one, and the programs of PINS use that.
            (Type::Int, Type::New(..)) => want.underlying().is_fixed() && self.is_known(e),
            (Type::Invalid, w) => w.is_header_like() || matches!(w, Type::Param(_)),
            _ => false,
        };
        if taken {
            self.cast(e, &want);
            return true;
        }
        match (&e.kind, &from, &want) {
            (_, Type::DontCare, _) | (_, _, Type::DontCare) => return true,
            (_, Type::Infer(_), _) | (_, _, Type::Infer(_)) => return self.unknowns.unify(&from, &want),
            (_, Type::Int, w) if w.is_fixed() => {
                if let Some(Value::Int(v)) = self.typed.own_value(e.id).cloned() {
                    self.warn_range(e, &v, w);
                }
                self.cast(e, w);
                return true;
            }
            (_, Type::Default, w) => {
                if matches!(w, Type::List(_) | Type::Extern(_) | Type::Infer(_) | Type::Set(_) | Type::Void) {
                    self.error("E0312", e.span, format!("`{w}` has no default value"));
                    return false;
                }
                self.cast(e, &want);
                return true;
            }
            (ExprKind::Ternary { yes, no, .. }, Type::Int | Type::Tuple(_) | Type::Record(_), _) => {
                let (a, b) = (self.typed.ty(yes.id).clone(), self.typed.ty(no.id).clone());
                self.cast(e, &want);
                return self.coerce(yes, &a, &want) && self.coerce(no, &b, &want);
            }
            (ExprKind::List { items, more }, Type::Tuple(_), _) => {
                if let Some(ok) = self.coerce_list(e, items, *more, &want) {
                    return ok;
                }
            }
            (ExprKind::Struct { fields, more }, Type::Record(_), w) if w.has_fields() => {
                return self.coerce_record(e, fields, *more, w);
            }
            _ => {}
        }
        if self.unknowns.unify(&from, &want) {
            return true;
        }
        self.mismatch(e, &from, &want);
        false
    }

    /// Converts `{ a, b }` to a struct, header, tuple, list or stack. `None`: `want` is none of these.
    fn coerce_list(&mut self, e: &'a Expr, items: &'a [Expr], more: bool, want: &Type) -> Option<bool> {
        let wants: Vec<Type> = match want {
            t if t.has_fields() => self.typed.fields(t).into_iter().map(|(_, t, _)| t).collect(),
            Type::Tuple(parts) => parts.to_vec(),
            Type::List(t) => vec![(**t).clone(); items.len()],
            Type::Stack(t, n) => vec![(**t).clone(); *n as usize],
            _ => return None,
        };
        let given = items.iter().filter(|i| !matches!(i.kind, ExprKind::DefaultValue)).count();
        let open = more || given < items.len();
        if given > wants.len() || (given < wants.len() && !open) {
            let what = if want.has_fields() { "fields" } else { "elements" };
            let text = format!("`{want}` has {} {what}, {given} given", wants.len());
            let mut d = Diagnostic::error("E0312", e.span, text);
            if want.has_fields() {
                d = d.hint(format!("fields: {}", self.field_names(want)));
            }
            self.report(d);
            return Some(false);
        }
        let mut ok = true;
        for (item, want) in items.iter().zip(&wants) {
            let own = self.typed.own_ty(item.id).clone();
            ok &= self.coerce(item, &own, want);
        }
        if let Some(values) = items.iter().map(|i| self.known_value(i)).collect() {
            self.set_value(e, Value::Seq(values));
        }
        self.cast(e, want);
        Some(ok)
    }

    /// Converts `{ x = a, y = b }` to a struct or header.
    fn coerce_record(&mut self, e: &'a Expr, given: &'a [(Name, Expr)], more: bool, want: &Type) -> bool {
        let fields = self.typed.fields(want);
        let mut ok = true;
        for (name, value) in given {
            let Some((_, ty, _)) = fields.iter().find(|f| *f.0 == *name.text) else {
                let names: Vec<&str> = fields.iter().map(|f| f.0.as_ref()).collect();
                let text = format!("`{want}` has no field `{}`", name.text);
                let d = Diagnostic::error("E0206", name.span, text);
                self.report(d.one_of(&name.text, "fields", &names));
                ok = false;
                continue;
            };
            let own = self.typed.own_ty(value.id).clone();
            ok &= self.coerce(value, &own, ty);
        }
        let find = |n: &str| given.iter().find(|(g, _)| g.text == n).map(|(_, v)| v);
        let missing: Vec<&str> = fields.iter().map(|f| f.0.as_ref()).filter(|f| find(f).is_none()).collect();
        if ok && !more && !missing.is_empty() {
            let text = format!("`{want}` needs a value for: {}", missing.join(", "));
            let d =
                Diagnostic::error("E0312", e.span, text).hint("end the list with `...` for default values");
            self.report(d);
            ok = false;
        }
        if let Some(values) = fields.iter().map(|f| self.known_value(find(&f.0)?)).collect() {
            self.set_value(e, Value::Seq(values));
        }
        self.cast(e, want);
        ok
    }

    fn mismatch(&mut self, e: &Expr, from: &Type, want: &Type) {
        let text = match &e.kind {
            ExprKind::Binary { .. }
            | ExprKind::Ternary { .. }
            | ExprKind::Unary { .. }
            | ExprKind::Cast { .. } => {
                format!("({})", self.text(e))
            }
            _ => self.text(e),
        };
        let plain = self.text(e);
        let d = Diagnostic::error("E0301", e.span, format!("expected `{want}`, found `{from}`"));
        let d = d.label(format!("this is `{from}`"));
        let d = match (from, want) {
            (f, Type::Bool) if f.underlying().is_integer() => d.hint(format!("compare it: `{text} != 0`")),
            (Type::Bool, Type::Bit(1)) => d.hint(format!("write the cast: `(bit<1>)({plain})`")),
            (Type::Bool, t) if t.is_integer() => {
                d.hint(format!("`{text} ? {t_w}1 : 0` makes a number of it", t_w = prefix(t)))
            }
            (Type::Signed(a), Type::Bit(b)) | (Type::Bit(a), Type::Signed(b)) if a != b => {
                let middle =
                    if let Type::Signed(_) = from { format!("bit<{a}>") } else { format!("int<{a}>") };
                d.hint(format!("a cast changes either the sign or the width: `({want})({middle})({plain})`"))
            }
            (Type::Bit(a), Type::Bit(b)) if a > b => d.hint(format!(
                "`({want})({plain})` keeps the low {b} bits; `{text}[{}:0]` says so, too",
                b.saturating_sub(1)
            )),
            (Type::Void, _) => d.hint("this call returns nothing"),
            (Type::ApplyResult(_), Type::Bool) => d.hint(format!("write `{text}.hit` or `{text}.miss`")),
            (Type::TypeName(_), _) => d.hint("this names a type, not a value"),
            (Type::Table(n), _) => d.hint(format!("a table is applied: `{n}.apply()`")),
            (f, t) if can_cast(f, t) => d.hint(format!("write the cast: `({want})({plain})`")),
            _ => d,
        };
        self.report(d);
    }

    /// Checks an explicit cast `(T) e`.
    pub(super) fn explicit_cast(&mut self, e: &'a Expr, operand: &'a Expr, from: &Type, to: &Type) -> Type {
        if from.is_bad() || to.is_bad() {
            return to.clone();
        }
        let initialiser = matches!(from, Type::Tuple(_) | Type::Record(_) | Type::Invalid | Type::Default);
        let holder = to.has_fields() || matches!(to, Type::Tuple(_) | Type::List(_) | Type::Stack(..));
        if initialiser && holder {
            if self.coerce(operand, from, to)
                && let Some(value) = self.known_value(operand)
            {
                self.set_value(e, value);
            }
            return to.clone();
        }
        let same = from == to
            && !matches!(
                to,
                Type::Extern(_) | Type::Parser(_) | Type::Control(_) | Type::Void | Type::String
            );
        if !(same || can_cast(from, to)) {
            let mut d = Diagnostic::error("E0304", e.span, format!("`{from}` cannot be cast to `{to}`"));
            if let (Type::Bit(a) | Type::Signed(a), Type::Bit(b) | Type::Signed(b)) = (from, to) {
                let middle =
                    if let Type::Signed(_) = from { format!("bit<{a}>") } else { format!("int<{a}>") };
                if a != b {
                    d = d.hint(format!("in two steps: `({to})({middle})({})`", self.text(operand)));
                }
            }
            return self.bad(d);
        }
        let number = match self.known_value(operand) {
            Some(Value::Member(m)) => self.decl(m).and_then(|d| d.value.clone()).or(Some(Value::Member(m))),
            other => other,
        };
        match (number, to.underlying()) {
            (Some(Value::Bool(b)), Type::Bit(_)) => self.set_value(e, Value::int(u8::from(b))),
            (Some(Value::Int(v)), Type::Bool) => {
                if *from == Type::Int && !v.is_zero() && !v.is_one() {
                    self.error("E0304", e.span, format!("only 0 and 1 can be cast to `bool`, not {v}"));
                }
                self.set_value(e, Value::Bool(!v.is_zero()));
            }
            (Some(Value::Int(v)), t) => {
                self.set_value(e, Value::Int(wrap(&v, t)));
            }
            (Some(v), _) => self.set_value(e, v),
            _ => {}
        }
        to.clone()
    }

    /// Casts an operand of type `int`, or a serializable enum, to the fixed-width type of the other operand.
    pub(super) fn balance(&mut self, a: &'a Expr, at: Type, b: &'a Expr, bt: Type) -> (Type, Type) {
        let (at, bt) = match (&at, &bt) {
            (Type::SerEnum(..), Type::SerEnum(..)) => (at, bt),
            (Type::SerEnum(..), t) if t.is_integer() => (self.use_underlying(a, &at), bt),
            (t, Type::SerEnum(..)) if t.is_integer() => (at.clone(), self.use_underlying(b, &bt)),
            _ => (at, bt),
        };
        match (&at, &bt) {
            (Type::Int, t) if t.is_fixed() => {
                self.coerce(a, &at, &bt);
                (bt.clone(), bt)
            }
            (t, Type::Int) if t.is_fixed() => {
                self.coerce(b, &bt, &at);
                (at.clone(), at)
            }
            _ => (at, bt),
        }
    }

    /// Checks a binary operation `a op b`.
    pub(super) fn binary(&mut self, e: &'a Expr, op: BinaryOp, left: &'a Expr, right: &'a Expr) -> Type {
        use BinaryOp::*;
        let (at, bt) = (self.expr(left), self.expr(right));
        for (side, ty) in [(left, &at), (right, &bt)] {
            if *ty == Type::Default {
                self.error("E0302", side.span, "`...` cannot be an operand");
            }
        }
        if at.is_bad() || bt.is_bad() {
            return if matches!(op, Eq | Ne | Lt | Le | Gt | Ge | And | Or) { Type::Bool } else { Type::Bad };
        }
        let ty = match op {
            And | Or => {
                let ok = self.coerce(left, &at, &Type::Bool) & self.coerce(right, &bt, &Type::Bool);
                if ok { Type::Bool } else { return Type::Bool }
            }
            Shl | Shr => self.shift(e, op, (left, at), (right, bt)),
            Concat => self.concat(e, (left, at), (right, bt)),
            Eq | Ne => self.equality(e, (left, at), (right, bt)),
            Mask | Range => self.set_of(e, (left, at), (right, bt)),
            _ => self.arithmetic(e, op, (left, at), (right, bt)),
        };
        if !ty.is_bad() {
            self.fold_binary(e, op, left, right);
        }
        ty
    }

    fn arithmetic(&mut self, e: &'a Expr, op: BinaryOp, a: (&'a Expr, Type), b: (&'a Expr, Type)) -> Type {
        use BinaryOp::*;
        let mut both = (a.1.clone(), b.1.clone());
        if let (Type::SerEnum(..), Type::SerEnum(..)) = (&a.1, &b.1) {
            both = (self.use_underlying(a.0, &a.1), self.use_underlying(b.0, &b.1));
        }
        let (at, bt) = self.balance(a.0, both.0, b.0, both.1);
        let ordering = matches!(op, Lt | Le | Gt | Ge);
        let fixed_only = matches!(op, BitAnd | BitOr | BitXor | AddSat | SubSat);
        let known = self.typed.own_value(a.0.id).is_some() && self.typed.own_value(b.0.id).is_some();
        // p4c folds bitwise operations on numbers of type `int`. They do not exist at run time.
        if at == bt && at.is_integer() && !(fixed_only && at == Type::Int && !known) {
            return if ordering { Type::Bool } else { at };
        }
        let (x, y, s) = (self.text(a.0), self.text(b.0), op.symbol());
        let d = match (&at, &bt) {
            (Type::Bit(_), Type::Signed(_)) | (Type::Signed(_), Type::Bit(_)) => {
                let d = Diagnostic::error("E0302", e.span, format!("`{s}` mixes `{at}` and `{bt}`"));
                if at.scalar_width() == bt.scalar_width() {
                    d.hint(format!("cast one: `{x} {s} ({at})({y})`"))
                } else {
                    d.hint("cast one operand, first to the other's width, then to its sign")
                }
            }
            (f, g) if f.is_fixed() && g.is_fixed() => {
                let text = format!("`{s}` needs operands of one width: `{at}` and `{bt}`");
                let d = Diagnostic::error("E0302", e.span, text);
                if at.scalar_width() > bt.scalar_width() {
                    d.hint(format!("cast the narrower one: `{x} {s} ({at})({y})`"))
                } else {
                    d.hint(format!("cast the narrower one: `({bt})({x}) {s} {y}`"))
                }
            }
            (Type::Int, Type::Int) => {
                Diagnostic::error("E0302", e.span, format!("`{s}` needs a width: both operands are `int`"))
                    .hint("give one of them a width, such as `8w1`")
            }
            (Type::Bool, Type::Bool) => {
                Diagnostic::error("E0302", e.span, format!("`{s}` is not defined on bool"))
                    .hint("for bool there are `&&`, `||`, `!`, `==` and `!=`")
            }
            (f @ (Type::Header(_) | Type::Struct(_)), _) | (_, f @ (Type::Header(_) | Type::Struct(_))) => {
                let fields: Vec<String> = self.typed.fields(f).iter().map(|f| f.0.to_string()).collect();
                Diagnostic::error("E0302", e.span, format!("`{s}` cannot be applied to `{at}` and `{bt}`"))
                    .hint(format!("choose a field: {}", fields.join(", ")))
            }
            _ => Diagnostic::error("E0302", e.span, format!("`{s}` cannot be applied to `{at}` and `{bt}`")),
        };
        let at_label = d.also(a.0.span, format!("`{at}`")).also(b.0.span, format!("`{bt}`"));
        self.report(at_label);
        if ordering { Type::Bool } else { Type::Bad }
    }

    fn shift(&mut self, e: &'a Expr, op: BinaryOp, a: (&'a Expr, Type), b: (&'a Expr, Type)) -> Type {
        let at = if let Type::SerEnum(..) = a.1 { self.use_underlying(a.0, &a.1) } else { a.1 };
        let bt = if let Type::SerEnum(..) = b.1 { self.use_underlying(b.0, &b.1) } else { b.1 };
        let s = op.symbol();
        if !at.is_integer() {
            return self.bad(Diagnostic::error("E0302", e.span, format!("`{s}` cannot shift `{at}`")));
        }
        let known = self.known_value(b.0).and_then(|v| v.as_int().cloned());
        match &bt {
            Type::Bit(_) => {}
            Type::Int | Type::Signed(_) if known.is_some() => {}
            Type::Signed(w) => {
                let d = Diagnostic::error("E0302", b.0.span, "the amount of a shift must not be signed");
                return self.bad(d.hint(format!("cast it: `(bit<{w}>)({})`", self.text(b.0))));
            }
            _ => {
                let text = format!("`{bt}` cannot be the amount of a shift");
                return self.bad(Diagnostic::error("E0302", b.0.span, text));
            }
        }
        if at == Type::Int && known.is_none() {
            let text = "a number without width can only be shifted by a known amount";
            let d = Diagnostic::error("E0302", e.span, text);
            return self.bad(d.hint(format!("give it a width, such as `32w{}`", self.text(a.0))));
        }
        at
    }

    fn concat(&mut self, e: &'a Expr, a: (&'a Expr, Type), b: (&'a Expr, Type)) -> Type {
        let at = if let Type::SerEnum(..) = a.1 { self.use_underlying(a.0, &a.1) } else { a.1 };
        let bt = if let Type::SerEnum(..) = b.1 { self.use_underlying(b.0, &b.1) } else { b.1 };
        match (&at, &bt) {
            (Type::Bit(x) | Type::Signed(x), Type::Bit(y) | Type::Signed(y))
                if x.saturating_add(*y) > MAX_WIDTH =>
            {
                self.bad(Diagnostic::error("E0305", e.span, format!("this is wider than {MAX_WIDTH} bits")))
            }
            (Type::Bit(x), Type::Bit(y) | Type::Signed(y)) => Type::Bit(x + y),
            (Type::Signed(x), Type::Bit(y) | Type::Signed(y)) => Type::Signed(x + y),
            (Type::String, Type::String) => Type::String,
            _ => {
                let d = Diagnostic::error("E0302", e.span, format!("`++` cannot join `{at}` and `{bt}`"));
                self.bad(d.hint("both sides need a width: bit<W> or int<W>, such as `8w1 ++ 8w2`"))
            }
        }
    }

    fn equality(&mut self, e: &'a Expr, a: (&'a Expr, Type), b: (&'a Expr, Type)) -> Type {
        let mut both = (a.1.clone(), b.1.clone());
        if let (Type::SerEnum(x, _), Type::SerEnum(y, _)) = (&a.1, &b.1)
            && x != y
        {
            both = (self.use_underlying(a.0, &a.1), self.use_underlying(b.0, &b.1));
        }
        let (at, bt) = self.balance(a.0, both.0, b.0, both.1);
        if let (Type::Tuple(_), Type::Tuple(_)) = (&at, &bt) {
            let written = |e: &Expr| matches!(e.kind, ExprKind::List { .. });
            if written(b.0) && !written(a.0) {
                self.coerce(b.0, &bt, &at);
                return Type::Bool;
            }
            if written(a.0) && !written(b.0) {
                self.coerce(a.0, &at, &bt);
                return Type::Bool;
            }
        }
        if let (Type::Record(_), Type::Record(_)) = (&at, &bt) {
            let text = "the struct type of these initialisers cannot be inferred";
            let d = Diagnostic::error("E0310", e.span, text);
            return self.bad(d.hint("write the type of one in front: `(my_struct_t){ … }`"));
        }
        let literal = |t: &Type| matches!(t, Type::Tuple(_) | Type::Record(_) | Type::Invalid);
        if literal(&bt) && !literal(&at) && (at.has_fields() || matches!(at, Type::Stack(..))) {
            self.coerce(b.0, &bt, &at);
            return Type::Bool;
        }
        if literal(&at) && !literal(&bt) && (bt.has_fields() || matches!(bt, Type::Stack(..))) {
            self.coerce(a.0, &at, &bt);
            return Type::Bool;
        }
        use Type::*;
        let comparable = !at.any(&mut |t| {
            let valueless = t.is_block() || t.is_only_named();
            valueless || matches!(t, Extern(_) | ApplyResult(_) | ActionList(_) | Set(_) | Invalid | Param(_))
        });
        if comparable && self.unknowns.unify(&at, &bt) {
            return Type::Bool;
        }
        let (x, y) = (self.text(a.0), self.text(b.0));
        let mut d = Diagnostic::error("E0302", e.span, format!("`{at}` and `{bt}` cannot be compared"));
        d = match (&at, &bt) {
            (f, g) if f.is_fixed() && g.is_fixed() => {
                d.hint(format!("cast one to the other's type: `{x} == ({at})({y})`"))
            }
            (Header(_) | Struct(_), g) | (g, Header(_) | Struct(_)) if g.is_integer() => {
                let holder = if at.has_fields() { &at } else { &bt };
                d.hint(format!("choose a field: {}", self.field_names(holder)))
            }
            (Header(_), Header(_)) => {
                d.hint("only headers of one type can be compared; compare their fields")
            }
            (Bool, g) | (g, Bool) if g.is_integer() => {
                d.hint("a bool is compared with true or false, a number with a number")
            }
            _ => d,
        };
        let d = d.also(a.0.span, format!("`{at}`")).also(b.0.span, format!("`{bt}`"));
        self.report(d);
        Type::Bool
    }

    /// The type of a set `a &&& b` or `a .. b`.
    fn set_of(&mut self, e: &'a Expr, a: (&'a Expr, Type), b: (&'a Expr, Type)) -> Type {
        let (at, bt) = self.balance(a.0, a.1, b.0, b.1);
        if at.underlying().is_integer() && at == bt {
            return Type::Set(std::sync::Arc::new(at));
        }
        let text = format!("both ends of a set need one type: `{at}` and `{bt}`");
        let d = Diagnostic::error("E0302", e.span, text);
        self.bad(d)
    }

    /// Whether an expression is compile-time known. Constructor parameters are.
    pub(super) fn is_known(&self, e: &Expr) -> bool {
        use super::typed::{Builtin, Res};
        if self.typed.own_value(e.id).is_some() || self.typed.own_ty(e.id).is_bad() {
            return true;
        }
        match &e.kind {
            ExprKind::Name { .. } => {
                let kind = self.typed.resolved(e.id).and_then(|id| self.kind(id));
                !matches!(kind, Some(Kind::Variable | Kind::Param))
            }
            ExprKind::Member { base, .. } => match self.typed.res(e.id) {
                Some(Res::Builtin(Builtin::Size)) => true,
                Some(Res::Builtin(_)) => false,
                _ => self.is_known(base),
            },
            ExprKind::Index { base, index } => self.is_known(base) && self.is_known(index),
            ExprKind::Slice { base, .. }
            | ExprKind::Unary { operand: base, .. }
            | ExprKind::Cast { operand: base, .. } => self.is_known(base),
            ExprKind::Binary { left, right, .. } => self.is_known(left) && self.is_known(right),
            ExprKind::Ternary { cond, yes, no } => {
                self.is_known(cond) && self.is_known(yes) && self.is_known(no)
            }
            ExprKind::List { items, .. } => items.iter().all(|i| self.is_known(i)),
            ExprKind::Struct { fields, .. } => fields.iter().all(|(_, v)| self.is_known(v)),
            // A call that returns an extern object creates it at compile time.
            ExprKind::Call { args, .. } if matches!(self.typed.own_ty(e.id), Type::Extern(_)) => {
                args.iter().filter_map(|a| a.value.as_ref()).all(|v| self.is_known(v))
            }
            ExprKind::Call { .. } => {
                use super::typed::{Builtin::*, Callee};
                let callee = self.typed.call(e.id).map(|c| &c.callee);
                matches!(
                    callee,
                    Some(
                        Callee::Constructor(..)
                            | Callee::Builtin(
                                MinSizeInBits | MinSizeInBytes | MaxSizeInBits | MaxSizeInBytes
                            )
                    )
                ) || matches!(callee, Some(Callee::Function(f)) if self.decl(*f).is_some_and(|d| &*d.name == "static_assert"))
            }
            _ => true,
        }
    }
}

fn prefix(ty: &Type) -> String {
    match ty {
        Type::Bit(w) => format!("{w}w"),
        Type::Signed(w) => format!("{w}s"),
        _ => String::new(),
    }
}

/// Whether an explicit cast is allowed (section 8.11.1).
pub(super) fn can_cast(from: &Type, to: &Type) -> bool {
    use Type::*;
    match (from, to) {
        (Bit(1), Bool) | (Bool, Bit(1)) | (Int, Bool) => true,
        (Bit(_), Bit(_)) | (Signed(_), Signed(_)) => true,
        (Bit(a), Signed(b)) | (Signed(a), Bit(b)) => a == b,
        (Int, Bit(_) | Signed(_) | Int) | (Bit(_) | Signed(_), Int) => true,
        (New(_, a), b) if **a == *b => true,
        // The number is first cast to the representation.
        (Int, New(_, b)) => can_cast(&Int, b),
        (a, New(_, b)) if *a == **b => true,
        (SerEnum(_, a), SerEnum(_, b)) => a == b,
        (SerEnum(_, a), b) => **a == *b || can_cast(a, b),
        (a, SerEnum(_, b)) => *a == **b || can_cast(a, b),
        _ => false,
    }
}
