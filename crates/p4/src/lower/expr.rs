//! Expressions. Operands are evaluated from left to right. An operand may need statements, such as an inlined call;
//! then the values of the operands before it are saved in temporaries ahead of these statements.

use ir::{BinOp, Expr, ExprKind as Ir, Place, StmtKind, Ty, UnOp};
use num_traits::ToPrimitive;

use super::storage::{Store, scalar};
use super::value::{Val, cast, read, slice};
use super::{Lower, Res};
use crate::ast::{self, BinaryOp, ExprKind, Name, UnaryOp};
use crate::check::{Builtin, Callee, Res as Meaning, Type};
use crate::source::Span;

impl<'a> Lower<'_, 'a> {
    /// Evaluates an expression. The value has the type that the context needs.
    pub(super) fn expr(&mut self, e: &'a ast::Expr) -> Res<Val> {
        if let Some(value) = self.known(e) {
            let ty = self.ty(e);
            return self.constant(&value, &ty, e.span);
        }
        match &e.kind {
            ExprKind::Name { .. } => self.name(e),
            ExprKind::Member { base, .. } => self.member(e, base),
            ExprKind::Index { base, index } => self.index(base, index),
            ExprKind::Slice { base, hi, lo } => self.slice(e, [base, hi, lo]),
            ExprKind::Call { .. } => self.call(e),
            ExprKind::Unary { op, operand } => self.unary(*op, operand),
            ExprKind::Binary { op, left, right } => self.binary(e, *op, [left, right]),
            ExprKind::Ternary { cond, yes, no } => self.ternary(e, [cond, yes, no]),
            ExprKind::Cast { operand, .. } => self.cast(e, operand),
            ExprKind::List { items, .. } => self.list(e, items),
            ExprKind::Struct { fields, .. } => self.record(e, fields),
            ExprKind::DefaultValue => {
                let ty = self.ty(e);
                self.default_of(&ty, e.span)
            }
            ExprKind::InvalidHeader => Ok(Val::Invalid),
            ExprKind::This => {
                self.limit("E0518", e.span, "`this` belongs to an extern that the program defines")
            }
            ExprKind::Number { .. }
            | ExprKind::String(_)
            | ExprKind::Bool(_)
            | ExprKind::Type(_)
            | ExprKind::DontCare
            | ExprKind::Default
            | ExprKind::Error => self.bug(e.span, "an expression that has no value"),
        }
    }

    /// Evaluates an expression that is a scalar.
    pub(super) fn scalar(&mut self, e: &'a ast::Expr) -> Res<Expr> {
        match self.expr(e)? {
            Val::Scalar(expr) => Ok(expr),
            _ => self.bug(e.span, "an aggregate where a scalar should be"),
        }
    }

    /// Evaluates several expressions in the order of the source text.
    pub(super) fn values(&mut self, all: &[&'a ast::Expr]) -> Res<Vec<Val>> {
        let mut order: Vec<usize> = (0..all.len()).collect();
        order.sort_by_key(|i| all[*i].id);
        let mut vals: Vec<Option<Val>> = all.iter().map(|_| None).collect();
        let mut unsaved: Vec<usize> = Vec::new();
        for i in order {
            let position = self.position();
            vals[i] = Some(self.expr(all[i])?);
            if self.position() > position {
                for j in unsaved.drain(..) {
                    if let Some(val) = vals[j].take() {
                        vals[j] = Some(self.save_before(position, val, all[j].span)?);
                    }
                }
            }
            unsaved.push(i);
        }
        Ok(vals.into_iter().flatten().collect())
    }

    /// Evaluates `N` expressions in the order of the source text.
    pub(super) fn values_of<const N: usize>(&mut self, all: [&'a ast::Expr; N]) -> Res<[Val; N]> {
        match self.values(&all)?.try_into() {
            Ok(vals) => Ok(vals),
            Err(_) => self.bug(all[0].span, "an operand is missing"),
        }
    }

    /// Evaluates `N` scalar expressions in the order of the source text.
    pub(super) fn scalars<const N: usize>(&mut self, all: [&'a ast::Expr; N]) -> Res<[Expr; N]> {
        let scalar = |val| if let Val::Scalar(e) = val { Some(e) } else { None };
        let scalars: Option<Vec<Expr>> = self.values(&all)?.into_iter().map(scalar).collect();
        match scalars.and_then(|s| s.try_into().ok()) {
            Some(scalars) => Ok(scalars),
            None => self.bug(all[0].span, "an aggregate where a scalar should be"),
        }
    }

    /// Saves a value in a temporary, ahead of the statements from `position` of the current block on.
    pub(super) fn save_before(&mut self, position: usize, val: Val, span: Span) -> Res<Val> {
        let behind = self.blocks.last_mut().map(|b| b.split_off(position)).unwrap_or_default();
        let saved = self.save(val, span);
        if let Some(block) = self.blocks.last_mut() {
            block.extend(behind);
        }
        saved
    }

    /// Copies a value to temporaries, so that later statements do not change it. Constants are returned as they are.
    pub(super) fn save(&mut self, val: Val, span: Span) -> Res<Val> {
        let copy = match &val {
            Val::Scalar(e) if e.as_const().is_none() => {
                self.store_like("$before", &Store::Scalar(Place::Var(ir::VarId(0)), e.ty))
            }
            Val::Store(from) => self.store_like("$before", from),
            Val::Parts(parts) => {
                let saved = parts.iter().map(|p| self.save(p.clone(), span));
                return saved.collect::<Res<Vec<_>>>().map(Val::Parts);
            }
            Val::Scalar(_) | Val::Invalid | Val::Void => return Ok(val),
        };
        self.assign(&copy, val, span)?;
        Ok(copy.value())
    }

    // ---- names and members ----

    fn name(&mut self, e: &'a ast::Expr) -> Res<Val> {
        let Some(id) = self.resolved(e) else { return self.bug(e.span, "a name without a meaning") };
        if let Some(store) = self.scope.stores.get(&id) {
            return Ok(store.value());
        }
        // A constant with a part that is not compile-time known is evaluated where it is used.
        match self.typed.decl(id).and_then(|d| d.default) {
            Some(value) => self.expr(value),
            None => self.bug(e.span, "a name without storage"),
        }
    }

    fn member(&mut self, e: &'a ast::Expr, base: &'a ast::Expr) -> Res<Val> {
        match self.typed.res(e.id) {
            Some(Meaning::Decl(field)) => {
                let Some(index) = self.typed.position(*field) else {
                    return self.bug(e.span, "an unknown field");
                };
                let val = self.expr(base)?;
                self.part(val, &self.ty(base), index, e.span)
            }
            Some(Meaning::Builtin(Builtin::Hit)) => Ok(Val::Scalar(self.apply_for_hit(base)?)),
            Some(Meaning::Builtin(Builtin::Miss)) => Ok(Val::Scalar(Expr::not(self.apply_for_hit(base)?))),
            Some(Meaning::Builtin(Builtin::LastIndex)) => {
                let id = match self.expr(base)? {
                    Val::Store(Store::Stack(id, ..)) => id,
                    Val::Store(Store::UnionStack(stacks, _)) => stacks[0].0,
                    _ => return self.bug(base.span, "an index of what is no stack"),
                };
                let next = Expr { kind: Ir::NextIndex(id), ty: Ty::Bit(32) };
                Ok(Val::Scalar(Expr::binary(BinOp::Sub, next, Expr::bits(32, 1))))
            }
            Some(Meaning::Builtin(which @ (Builtin::Next | Builtin::Last))) => {
                let (val, which) = (self.expr(base)?, *which);
                self.check_next_index(&val, which);
                let element = |id| match which {
                    Builtin::Next => ir::HeaderRef::Next(id),
                    _ => ir::HeaderRef::Last(id),
                };
                match val {
                    Val::Store(stack) => self.value_of_part(self.element(&stack, element), e.span),
                    _ => self.bug(base.span, "an element of what is no stack"),
                }
            }
            _ => self.bug(e.span, "a member without a meaning"),
        }
    }

    /// Evaluating `next` of a full stack or `last` of an empty stack rejects the packet (section 8.18).
    fn check_next_index(&mut self, val: &Val, which: Builtin) {
        let (id, size) = match val {
            Val::Store(Store::Stack(id, _, size)) => (*id, *size),
            Val::Store(Store::UnionStack(stacks, size)) => (stacks[0].0, *size),
            _ => return,
        };
        let Some(error) = self.out.errors.iter().position(|e| e == "StackOutOfBounds") else { return };
        let index = Expr { kind: Ir::NextIndex(id), ty: Ty::Bit(32) };
        let cond = match which {
            Builtin::Next => Expr::binary(BinOp::Lt, index, Expr::bits(32, size.into())),
            _ => Expr::binary(BinOp::Ne, index, Expr::bits(32, 0)),
        };
        self.push(ir::StmtKind::Verify { cond, error: ir::ErrorId(error as u32) });
    }

    fn value_of_part(&mut self, store: Option<Store>, span: Span) -> Res<Val> {
        match store {
            Some(store) => Ok(store.value()),
            None => self.bug(span, "a part that is not there"),
        }
    }

    /// A field of a struct, header or union, or an element of a tuple.
    fn part(&mut self, val: Val, ty: &Type, index: usize, span: Span) -> Res<Val> {
        match val {
            Val::Store(Store::Header(h, of)) => self.value_of_part(self.header_field(&h, of, index), span),
            Val::Store(Store::Struct(parts) | Store::Union(parts)) => {
                self.value_of_part(parts.get(index).cloned(), span)
            }
            Val::Parts(mut parts) if index < parts.len() => Ok(parts.swap_remove(index)),
            Val::Invalid => match self.typed.parts(ty).get(index).cloned() {
                Some(part) => self.default_of(&part, span),
                None => self.bug(span, "a part that is not there"),
            },
            _ => self.bug(span, "a part of what has none"),
        }
    }

    fn index(&mut self, base: &'a ast::Expr, index: &'a ast::Expr) -> Res<Val> {
        let known = self.known_number(index).and_then(|n| n.to_u32());
        // The stack itself has no side effect to save: an element is read when the index is known.
        let mut vals = vec![self.expr(base)?];
        if known.is_none() {
            vals.push(self.expr(index)?);
        }
        match (vals.as_slice(), known) {
            ([Val::Store(stack @ (Store::Stack(_, _, size) | Store::UnionStack(_, size)))], Some(n)) => {
                let element = match n < *size {
                    true => self.element_at(stack, n),
                    // A read of an element beyond the stack gives zero, and a write has no effect.
                    false => self.element(stack, |id| {
                        ir::HeaderRef::Element(id, Box::new(Expr::bits(32, u128::from(n))))
                    }),
                };
                self.value_of_part(element, base.span)
            }
            ([val], Some(n)) => {
                let ty = self.ty(base);
                self.part(val.clone(), &ty, n as usize, index.span)
            }
            ([Val::Store(stack), Val::Scalar(at)], None) => {
                let at = Box::new(cast(at.clone(), Ty::Bit(32)));
                let element = self.element(stack, |id| ir::HeaderRef::Element(id, at.clone()));
                self.value_of_part(element, base.span)
            }
            _ => self.bug(base.span, "an element of what has none"),
        }
    }

    fn slice(&mut self, e: &'a ast::Expr, [base, hi, lo]: [&'a ast::Expr; 3]) -> Res<Val> {
        if let Some((hi, lo)) = self.slice_bounds(hi, lo) {
            return Ok(Val::Scalar(slice(self.scalar(base)?, hi, lo)));
        }
        // `x[low +: width]` where `low` is only known at run time.
        let [base, low] = self.scalars([base, lo])?;
        let (Some(ty), whole) = (scalar(&self.own_ty(e)), Ty::Bit(base.ty.width())) else {
            return self.bug(e.span, "bits of no type");
        };
        Ok(Val::Scalar(cast(Expr::binary(BinOp::Shr, cast(base, whole), low), ty)))
    }

    /// The bounds of a slice, if they are compile-time known.
    pub(super) fn slice_bounds(&self, hi: &'a ast::Expr, lo: &'a ast::Expr) -> Option<(u32, u32)> {
        Some((self.known_number(hi)?.to_u32()?, self.known_number(lo)?.to_u32()?))
    }

    // ---- operators ----

    fn unary(&mut self, op: UnaryOp, operand: &'a ast::Expr) -> Res<Val> {
        let e = self.scalar(operand)?;
        let op = match op {
            UnaryOp::Not => UnOp::Not,
            UnaryOp::Complement => UnOp::BitNot,
            UnaryOp::Minus => UnOp::Neg,
            UnaryOp::Plus => return Ok(Val::Scalar(e)),
        };
        let ty = e.ty;
        Ok(Val::Scalar(Expr { kind: Ir::Unary(op, Box::new(e)), ty }))
    }

    fn binary(&mut self, e: &'a ast::Expr, op: BinaryOp, [left, right]: [&'a ast::Expr; 2]) -> Res<Val> {
        if matches!(op, BinaryOp::And | BinaryOp::Or) {
            return self.short_circuit(op, left, right);
        }
        let [a, b] = self.values_of([left, right])?;
        if let BinaryOp::Eq | BinaryOp::Ne = op {
            let (lt, rt) = (self.ty(left), self.ty(right));
            let ty = if let Val::Store(_) = b { rt } else { lt };
            let equal = self.equal(&a, &b, &ty, e.span)?;
            return Ok(Val::Scalar(if op == BinaryOp::Ne { Expr::not(equal) } else { equal }));
        }
        let (Val::Scalar(a), Val::Scalar(b)) = (a, b) else {
            return self.bug(e.span, "an aggregate as an operand");
        };
        let ty = self.own_ty(e);
        self.operate(op, a, b, &ty, e.span).map(Val::Scalar)
    }

    /// The binary operation `a op b` of two scalars. `ty` is the type of the result.
    pub(super) fn operate(&mut self, op: BinaryOp, a: Expr, b: Expr, ty: &Type, span: Span) -> Res<Expr> {
        if op == BinaryOp::Concat {
            let Some(ty) = scalar(ty) else { return self.bug(span, "bits of no type") };
            return Ok(Expr { kind: Ir::Concat(Box::new(a), Box::new(b)), ty });
        }
        // A shift amount is never negative: P4 allows a signed one only if it is a constant.
        let shift = matches!(op, BinaryOp::Shl | BinaryOp::Shr);
        let b = if shift && b.ty.is_signed() { cast(b.clone(), Ty::Bit(b.ty.width())) } else { b };
        match ir_op(op) {
            Some(op) => Ok(Expr::binary(op, a, b)),
            None => self.bug(span, "a set where a value should be"),
        }
    }

    /// `&&` and `||`. The side effects of the right operand only happen if it is evaluated.
    fn short_circuit(&mut self, op: BinaryOp, left: &'a ast::Expr, right: &'a ast::Expr) -> Res<Val> {
        let a = self.scalar(left)?;
        let (mut then, b) = self.in_block(|l| l.scalar(right));
        let b = b?;
        if then.is_empty() {
            let op = if op == BinaryOp::And { BinOp::LogAnd } else { BinOp::LogOr };
            return Ok(Val::Scalar(Expr::binary(op, a, b)));
        }
        let place = self.temp("$lazy", Ty::Bool);
        self.push(StmtKind::Assign { dst: place.clone(), src: a });
        let seen = read(&place, Ty::Bool);
        let cond = if op == BinaryOp::And { seen.clone() } else { Expr::not(seen.clone()) };
        then.push(ir::Stmt::new(StmtKind::Assign { dst: place, src: b }, self.loc));
        self.push(StmtKind::If { cond, then, otherwise: Vec::new() });
        Ok(Val::Scalar(seen))
    }

    fn ternary(&mut self, e: &'a ast::Expr, [cond, yes, no]: [&'a ast::Expr; 3]) -> Res<Val> {
        if let Some(known) = self.known(cond).and_then(|v| v.as_bool()) {
            return self.expr(if known { yes } else { no });
        }
        let c = self.scalar(cond)?;
        let ty = self.ty(e);
        let (before_yes, a) = self.in_block(|l| l.expr(yes));
        let (before_no, b) = self.in_block(|l| l.expr(no));
        let (a, b) = (a?, b?);
        if let (Val::Scalar(a), Val::Scalar(b), true) =
            (&a, &b, before_yes.is_empty() && before_no.is_empty())
            && !a.ty.is_varbit()
        {
            let ty = a.ty;
            let kind = Ir::Mux(Box::new(c), Box::new(a.clone()), Box::new(b.clone()));
            return Ok(Val::Scalar(Expr { kind, ty }));
        }
        let store = self.storage("$either", &ty, e.span)?;
        let mut finish = |block: Vec<ir::Stmt>, val| {
            let (rest, done) = self.in_block(|l| l.assign(&store, val, e.span));
            done.map(|()| block.into_iter().chain(rest).collect())
        };
        let (then, otherwise) = (finish(before_yes, a)?, finish(before_no, b)?);
        self.push(StmtKind::If { cond: c, then, otherwise });
        Ok(store.value())
    }

    fn cast(&mut self, e: &'a ast::Expr, operand: &'a ast::Expr) -> Res<Val> {
        match (self.expr(operand)?, scalar(&self.ty(e))) {
            (Val::Scalar(value), Some(ty)) => Ok(Val::Scalar(cast(value, ty))),
            (Val::Scalar(_), None) => {
                self.limit("E0529", e.span, "this computes a number without width at run time")
            }
            (val, _) => Ok(val),
        }
    }

    // ---- lists ----

    fn list(&mut self, e: &'a ast::Expr, items: &'a [ast::Expr]) -> Res<Val> {
        let mut vals = self.values(&items.iter().collect::<Vec<_>>())?;
        // `...` at the end of the list stands for the default values of the remaining parts.
        for ty in self.typed.parts(&self.ty(e)).iter().skip(vals.len()) {
            vals.push(self.default_of(ty, e.span)?);
        }
        Ok(Val::Parts(vals))
    }

    fn record(&mut self, e: &'a ast::Expr, given: &'a [(Name, ast::Expr)]) -> Res<Val> {
        let mut vals: Vec<Option<Val>> =
            self.values(&given.iter().map(|(_, e)| e).collect::<Vec<_>>())?.into_iter().map(Some).collect();
        let ty = self.ty(e);
        let fields = match &ty {
            Type::Record(fields) => fields.iter().map(|(n, t)| (n.clone(), t.clone())).collect(),
            ty => self.typed.fields(ty).into_iter().map(|(n, t, _)| (n, t)).collect::<Vec<_>>(),
        };
        let parts = fields.iter().map(|(name, ty)| {
            let at = given.iter().position(|(n, _)| *n.text == **name);
            match at.and_then(|i| vals[i].take()) {
                Some(val) => Ok(val),
                None => self.default_of(ty, e.span),
            }
        });
        parts.collect::<Res<Vec<_>>>().map(Val::Parts)
    }

    /// The values of the parts of an aggregate.
    pub(super) fn parts_of_val(&self, val: &Val) -> Option<Vec<Val>> {
        match val {
            Val::Parts(parts) => Some(parts.clone()),
            Val::Store(store) => Some(self.parts_of(store).iter().map(Store::value).collect()),
            _ => None,
        }
    }

    /// `==`. Headers are equal if both are invalid, or both are valid with equal fields. Other aggregates are equal if
    /// all parts are.
    fn equal(&mut self, a: &Val, b: &Val, ty: &Type, span: Span) -> Res<Expr> {
        let both = |x, y| Expr::binary(BinOp::LogAnd, x, y);
        if let (Val::Scalar(x), Val::Scalar(y)) = (a, b) {
            return Ok(Expr::binary(BinOp::Eq, x.clone(), y.clone()));
        }
        let valid = match ty {
            Type::Header(_) => Some((self.validity(a), self.validity(b))),
            _ => None,
        };
        if let (Val::Invalid, other) | (other, Val::Invalid) = (a, b) {
            return match self.union_validity(other) {
                Some(valid) => Ok(Expr::not(valid)),
                None => self.bug(span, "validity of what has none"),
            };
        }
        let (Some(xs), Some(ys)) = (self.parts_of_val(a), self.parts_of_val(b)) else {
            return self.bug(span, "these cannot be compared");
        };
        let types = self.typed.parts(ty);
        let mut same: Option<Expr> = None;
        for (i, (x, y)) in xs.iter().zip(&ys).enumerate() {
            let one = self.equal(x, y, types.get(i).unwrap_or(&Type::Bad), span)?;
            same = Some(match same {
                Some(before) => both(before, one),
                None => one,
            });
        }
        let same = same.unwrap_or(Expr::bool(true));
        Ok(match valid {
            Some((x, y)) => {
                let agree = Expr::binary(BinOp::Eq, x.clone(), y);
                both(agree, Expr::binary(BinOp::LogOr, Expr::not(x), same))
            }
            None => same,
        })
    }

    /// Whether a header value is valid. A list that initialises a header always is.
    fn validity(&self, val: &Val) -> Expr {
        match val {
            Val::Store(Store::Header(h, _)) => self.is_valid(h),
            Val::Invalid => Expr::bool(false),
            _ => Expr::bool(true),
        }
    }

    fn union_validity(&self, val: &Val) -> Option<Expr> {
        match val {
            Val::Store(store) => self.store_is_valid(store),
            Val::Parts(_) => Some(Expr::bool(true)),
            Val::Invalid => Some(Expr::bool(false)),
            _ => None,
        }
    }

    /// A new temporary for the result of an extern, as a place to write and as a value to read.
    pub(super) fn result(&mut self, name: &str, ty: Ty) -> (Place, Val) {
        let place = self.temp(name, ty);
        let val = Val::Scalar(read(&place, ty));
        (place, val)
    }

    /// The table that an expression applies (`t.apply()`).
    pub(super) fn applied_table(&self, e: &ast::Expr) -> Option<crate::check::DeclId> {
        match self.typed.call(e.id)?.callee {
            Callee::Table(id) => Some(id),
            _ => None,
        }
    }
}

fn ir_op(op: BinaryOp) -> Option<BinOp> {
    Some(match op {
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
        BinaryOp::BitAnd => BinOp::And,
        BinaryOp::BitXor => BinOp::Xor,
        BinaryOp::BitOr => BinOp::Or,
        BinaryOp::And => BinOp::LogAnd,
        BinaryOp::Or => BinOp::LogOr,
        BinaryOp::Eq => BinOp::Eq,
        BinaryOp::Ne => BinOp::Ne,
        BinaryOp::Concat | BinaryOp::Mask | BinaryOp::Range => return None,
    })
}
