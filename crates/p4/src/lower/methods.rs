//! Methods of extern objects.

use ir::{BinOp, Call, Expr, HashAlgorithm, Place, StmtKind as Ir, Ty, UnOp};

use super::object::{Object, given};
use super::value::{Val, cast, constant, read};
use super::{Lower, Res};
use crate::ast::{self, ExprKind};
use crate::check::{DeclId, Type};

impl<'a> Lower<'_, 'a> {
    /// The call `base.method(args)` of an extern object.
    pub(super) fn method(&mut self, id: DeclId, e: &'a ast::Expr) -> Res<Val> {
        let (Some(call), ExprKind::Member { base, .. }) = (self.typed.call(e.id), &e.called().0.kind) else {
            return self.bug(e.span, "a method of nothing");
        };
        let name = self.name_of(id);
        if let Type::Extern(n) = self.own_ty(base)
            && matches!(&*n.name, "packet_in" | "packet_out")
        {
            return self.packet_method(&name, e, call);
        }
        let object = self.object_of(base)?;
        let args = given(&call.args);
        match (object, name.as_str(), args.as_slice()) {
            (Object::Counter(counter), "count", [index, ..]) => {
                let index = self.number_of(index, 32)?;
                self.push(Ir::Call(Call::Count { counter, index }));
            }
            (Object::DirectCounter(counter), "count", _) => self.push(Ir::Call(Call::DirectCount(counter))),
            (Object::Register(register, ty), "read", [index]) => {
                let index = self.number_of(index, 32)?;
                let (dst, val) = self.result("$read", ty);
                self.push(Ir::Call(Call::RegisterRead { register, dst, index }));
                return Ok(val);
            }
            (Object::Register(register, _), "read", [to, index]) => {
                self.with_result_place(to, |l, dst, _| {
                    let index = l.number_of(index, 32)?;
                    l.push(Ir::Call(Call::RegisterRead { register, dst, index }));
                    Ok(())
                })?
            }
            (Object::Register(register, ty), "write", [index, value]) => {
                let [index, value] = self.scalars([index, value])?;
                let value = cast(value, ty);
                self.push(Ir::Call(Call::RegisterWrite { register, index, value }));
            }
            (Object::Meter(meter), "execute_meter", [index, to]) => {
                let index = self.number_of(index, 32)?;
                self.write_colour(to, |dst| Call::Meter { meter, index, dst })?;
            }
            (Object::DirectMeter(meter), "read", [to]) => {
                self.write_colour(to, |dst| Call::DirectMeter { meter, dst })?
            }
            (Object::Meter(meter), "execute", [index, ..]) => {
                let index = self.number_of(index, 32)?;
                let (dst, colour) = self.result("$colour", Ty::Bit(32));
                self.push(Ir::Call(Call::Meter { meter, index, dst }));
                return Ok(psa_colour(colour));
            }
            (Object::DirectMeter(meter), "execute", _) => {
                let (dst, colour) = self.result("$colour", Ty::Bit(32));
                self.push(Ir::Call(Call::DirectMeter { meter, dst }));
                return Ok(psa_colour(colour));
            }
            (Object::DirectRegister(_, ty), "read", []) => {
                let table = self.own_table(e)?;
                let (dst, val) = self.result("$read", ty);
                self.push(Ir::Call(Call::DirectRegisterRead { table, dst }));
                return Ok(val);
            }
            (Object::DirectRegister(_, ty), "write", [value]) => {
                let table = self.own_table(e)?;
                let [value] = self.scalars([value])?;
                self.push(Ir::Call(Call::DirectRegisterWrite { table, value: cast(value, ty) }));
            }
            (Object::Hash(algorithm, ty), "get_hash", args) => return self.get_hash(algorithm, ty, args),
            (Object::InternetChecksum(var), method, args) => {
                return self.internet_checksum(Place::Var(var), method, args);
            }
            (Object::Checksum(var, algorithm, ty), method, args) => {
                return self.running_checksum(Place::Var(var), algorithm, ty, method, args);
            }
            (Object::Random(lo, hi, ty), "read", []) => {
                let (dst, val) = self.result("$random", ty);
                self.push(Ir::Call(Call::Random { dst, lo: constant(lo, ty), hi: constant(hi, ty) }));
                return Ok(val);
            }
            (Object::Digest(name), "pack", [data]) => {
                let ty = self.ty(data);
                self.digest(data, &ty, Some(name))?;
            }
            _ => return self.limit("E0510", e.span, &format!("this calls `{name}` of an extern object")),
        }
        Ok(Val::Void)
    }

    /// The table whose action is being lowered, which has the direct register that `e` uses.
    fn own_table(&mut self, e: &'a ast::Expr) -> Res<ir::TableId> {
        match &self.learning {
            Some(learning) if learning.learns => Ok(learning.id),
            _ => self.limit("E0528", e.span, "a direct register is used here outside of a table that learns"),
        }
    }

    /// Calls a meter of v1model, whose colours are numbers of two bits or more.
    fn write_colour(&mut self, to: &'a ast::Expr, call: impl FnOnce(Place) -> Call) -> Res<()> {
        self.with_result_place(to, |l, dst, ty| {
            if ty.width() < 2 {
                return l.limit("E0512", to.span, "a colour is written to one bit");
            }
            l.push(Ir::Call(call(dst)));
            Ok(())
        })
    }

    /// PSA's `get_hash(data)` and `get_hash(base, data, max)`.
    fn get_hash(&mut self, algorithm: HashAlgorithm, ty: Ty, args: &[&'a ast::Expr]) -> Res<Val> {
        let width = ty.width();
        let mut vals = self.values(args)?.into_iter();
        let (base, list, max) = match (vals.next(), vals.next(), vals.next()) {
            (Some(list), None, None) => {
                let whole = Expr::bits(width + 1, 1 << width.min(126));
                (constant(abi::Bits::zero(width), Ty::Bit(width)), list, whole)
            }
            (Some(Val::Scalar(base)), Some(list), Some(Val::Scalar(max))) => (base, list, max),
            _ => return self.bug(args.first().map(|e| e.span).unwrap_or_default(), "a hash of nothing"),
        };
        let data = self.flatten(list, args.first().map(|e| e.span).unwrap_or_default())?;
        let (dst, val) = self.result("$hash", ty);
        self.push(Ir::Call(Call::Hash { dst, algorithm, base, data, max }));
        Ok(val)
    }

    /// The methods of `InternetChecksum`. The variable holds the sum in one's complement (RFC 1624); `get` returns its
    /// complement.
    fn internet_checksum(&mut self, var: Place, method: &str, args: &[&'a ast::Expr]) -> Res<Val> {
        let not = |e: Expr| {
            let ty = e.ty;
            Expr { kind: ir::ExprKind::Unary(UnOp::BitNot, Box::new(e)), ty }
        };
        let sum = || read(&var, Ty::Bit(16));
        let new = match (method, args) {
            ("get", _) => return Ok(Val::Scalar(not(sum()))),
            ("get_state", _) => return Ok(Val::Scalar(sum())),
            ("set_state", [e]) => self.scalar(e)?,
            ("add" | "subtract", [e]) => {
                let (data, subtract) = (self.data(e)?, method == "subtract");
                self.push(Ir::Call(Call::AddToSum { dst: var, data, subtract }));
                return Ok(Val::Void);
            }
            _ => Expr::bits(16, 0),
        };
        self.push(Ir::Assign { dst: var, src: new });
        Ok(Val::Void)
    }

    /// The methods of `Checksum`: `get` is the hash of all data since the last `clear`, one piece after the other.
    fn running_checksum(
        &mut self,
        var: Place,
        algorithm: HashAlgorithm,
        ty: Ty,
        method: &str,
        args: &[&'a ast::Expr],
    ) -> Res<Val> {
        let running = algorithm.running().unwrap_or(ty);
        match (method, args) {
            ("update", [e]) => {
                let data = self.data(e)?;
                let bits: u32 = data.iter().filter(|e| !e.ty.is_varbit()).map(|e| e.ty.width()).sum();
                if !bits.is_multiple_of(8) {
                    // The specification hashes a stream of bytes, and does not say where the missing bits of a byte would be.
                    let what = format!("a checksum is updated with {bits} bits, no whole number of bytes");
                    return self.limit("E0522", e.span, &what);
                }
                self.push(Ir::Call(Call::UpdateHash { dst: var, algorithm, data }));
                Ok(Val::Void)
            }
            ("get", _) => {
                let state = read(&var, running);
                Ok(Val::Scalar(cast(hash_of(state, algorithm), ty)))
            }
            _ => {
                self.push(Ir::Assign { dst: var, src: constant(abi::Bits::zero(running.width()), running) });
                Ok(Val::Void)
            }
        }
    }
}

/// The hash of the data whose state this is.
fn hash_of(state: Expr, algorithm: HashAlgorithm) -> Expr {
    match algorithm {
        HashAlgorithm::Csum16 => {
            let kind = ir::ExprKind::Unary(UnOp::BitNot, Box::new(cast(state, Ty::Bit(16))));
            Expr { kind, ty: Ty::Bit(16) }
        }
        HashAlgorithm::Identity => cast(state, Ty::Bit(64)),
        _ => state,
    }
}

/// The IR numbers colours from green on (0, 1, 2). `PSA_MeterColor_t` declares RED, GREEN, YELLOW.
fn psa_colour(colour: Val) -> Val {
    let Val::Scalar(colour) = colour else { return Val::Void };
    let red = Expr::binary(BinOp::Eq, colour.clone(), Expr::bits(32, 2));
    let next = Expr::binary(BinOp::Add, colour, Expr::bits(32, 1));
    let kind = ir::ExprKind::Mux(Box::new(red), Box::new(Expr::bits(32, 0)), Box::new(next));
    Val::Scalar(Expr { kind, ty: Ty::Bit(32) })
}
