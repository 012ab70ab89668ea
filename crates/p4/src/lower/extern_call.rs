//! Extern functions and methods of v1model: each becomes a statement of the IR. The place to add the next one.

use ir::{Call, Expr, HashAlgorithm, Place, StmtKind as Ir, Ty};
use num_traits::ToPrimitive;

use super::scope::{Env, Object};
use super::types::{Store, T, Val};
use super::{Lower, Res};
use crate::ast;
use crate::diag::{Diagnostic, did_you_mean};
use crate::source::Span;

/// Arguments in the order of the parameters.
pub(super) struct Args<'a>(Vec<Option<&'a ast::Expr>>);

impl<'a> Args<'a> {
    fn get(&self, index: usize) -> Option<&'a ast::Expr> {
        self.0.get(index).copied().flatten()
    }
}

impl<'a> Lower<'a, '_> {
    /// Arguments that are given by name are put where the function has them.
    pub(super) fn positional(
        &mut self,
        prototypes: &[&'a ast::FunctionPrototype],
        args: &'a [ast::Argument],
    ) -> Res<Args<'a>> {
        let Some(named) = args.iter().find_map(|a| a.name.as_ref()) else {
            return Ok(Args(args.iter().map(|a| a.value.as_ref()).collect()));
        };
        let index = |p: &ast::FunctionPrototype, arg: &ast::Argument| {
            let name = arg.name.as_ref()?;
            p.params.iter().position(|q| q.name.text == name.text)
        };
        let fits = |p: &&&ast::FunctionPrototype| {
            p.params.len() == args.len() && args.iter().all(|a| index(p, a).is_some())
        };
        let Some(prototype) = prototypes.iter().find(fits) else {
            let message = format!("there is no form of this function with a parameter `{}`", named.text);
            return self.error("E0503", named.span, message);
        };
        let mut placed = vec![None; args.len()];
        for arg in args {
            if let Some(at) = index(prototype, arg) {
                placed[at] = arg.value.as_ref();
            }
        }
        Ok(Args(placed))
    }

    pub(super) fn extern_function(
        &mut self,
        name: &'a ast::Name,
        type_args: &'a [ast::Type],
        a: Args<'a>,
        env: &Env<'a>,
        span: Span,
    ) -> Res<Val> {
        match name.text.as_str() {
            "mark_to_drop" => self.drop_call(span),
            "verify" => self.verify(&a, env, span)?,
            "verify_checksum"
            | "update_checksum"
            | "verify_checksum_with_payload"
            | "update_checksum_with_payload" => self.checksum(&name.text, &a, env, span)?,
            "hash" => self.hash(&a, env, span)?,
            "random" => self.random(&a, env, span)?,
            "log_msg" => self.log_msg(&a, env, span)?,
            "assert" | "assume" => {
                let cond = {
                    let e = self.need(&a, 0, span)?;
                    self.condition(e, env)
                }?;
                let text = self.map.text(span).to_string();
                self.push(Ir::Call(Call::Assert { cond, text }));
            }
            "static_assert" => return self.static_assert(&a, env, span),
            "digest" => self.digest(type_args, &a, env, span)?,
            "psa_clone_i2e" | "psa_clone_e2e" | "psa_resubmit" | "psa_normal" | "psa_recirculate" => {
                let answer = self.psa_question(&name.text, &a.0, env, span)?;
                return Ok(Val::Scalar(answer, T::Bool));
            }
            "drop_packet" => self.drop_call(span),
            "send_to_port"
            | "mirror_packet"
            | "add_entry"
            | "allocate_flow_id"
            | "set_entry_expire_time"
            | "restart_expire_timer"
            | "SelectByDirection" => {
                return self.pna_call(&name.text, &a, env, span);
            }
            "truncate" => {
                let e = self.need(&a, 0, span)?;
                let length = self.number_of(e, env, 32)?;
                self.push(Ir::Call(Call::Truncate(length)));
            }
            "clone" | "clone_preserving_field_list" | "clone3" => {
                self.clone_call(&name.text, &a, env, span)?
            }
            "resubmit" | "resubmit_preserving_field_list" => {
                let keep = self.kept(&name.text, a.get(0), env)?;
                self.push(Ir::Call(Call::Resubmit { keep }));
            }
            "recirculate" | "recirculate_preserving_field_list" => {
                let keep = self.kept(&name.text, a.get(0), env)?;
                self.push(Ir::Call(Call::Recirculate { keep }));
            }
            other => return self.not_yet(span, &format!("the extern `{other}`")),
        }
        Ok(Val::Void)
    }

    fn clone_call(&mut self, name: &str, args: &Args<'a>, env: &Env<'a>, span: Span) -> Res<()> {
        let e = self.need(args, 0, span)?;
        let egress = match self.enum_member(e, env)?.as_deref() {
            Some("I2E") => false,
            Some("E2E") => true,
            _ => {
                let hint = "write `CloneType.I2E` or `CloneType.E2E`";
                return self.error_hint("E0503", e.span, "which clone is this?", hint);
            }
        };
        let e = self.need(args, 1, span)?;
        let session = self.number_of(e, env, 32)?;
        let keep = self.kept(name, args.get(2), env)?;
        self.push(Ir::Call(Call::Clone { egress, session, keep }));
        Ok(())
    }

    /// The variables that a further round of the packet takes along: those of a field list, or those that are named.
    fn kept(&mut self, name: &str, arg: Option<&'a ast::Expr>, env: &Env<'a>) -> Res<Vec<ir::VarId>> {
        let Some(e) = arg else { return Ok(Vec::new()) };
        let mut keep = Vec::new();
        if name.ends_with("_preserving_field_list") {
            let list = self.integer(e, env)?.to_u64();
            if let (Some(list), Some(metadata)) = (list, self.metadata.clone()) {
                in_field_list(&metadata, list, false, &mut keep);
            }
        } else {
            let val = self.expr(e, env, None)?;
            variables(&val, &mut keep);
        }
        Ok(keep)
    }

    fn digest(&mut self, type_args: &'a [ast::Type], args: &Args<'a>, env: &Env<'a>, span: Span) -> Res<()> {
        self.count(args, 2, "digest", span)?;
        let e = self.need(args, 1, span)?;
        let ty = match type_args.first() {
            Some(ty) => Some(self.ty(ty, env)?),
            None => None,
        };
        self.digest_of(ty, e, env)
    }

    fn digest_of(&mut self, ty: Option<T>, e: &'a ast::Expr, env: &Env<'a>) -> Res<()> {
        let val = self.expr(e, env, ty.as_ref())?;
        let ty = ty.or_else(|| val.ty());
        let mut data = Vec::new();
        self.flatten(val, e.span, &mut data)?;
        let (name, mut fields) = match &ty {
            Some(T::Struct(s)) => (s.name.clone(), s.fields.iter().map(|f| f.name.clone()).collect()),
            _ => ("digest".to_string(), Vec::new()),
        };
        if fields.len() != data.len() {
            fields = (0..data.len()).map(|i| format!("f{i}")).collect();
        }
        self.push(Ir::Call(Call::Digest { name, fields, data }));
        Ok(())
    }

    pub(super) fn need(&mut self, args: &Args<'a>, index: usize, span: Span) -> Res<&'a ast::Expr> {
        match args.get(index) {
            Some(e) => Ok(e),
            None => self.error("E0503", span, format!("argument {} is missing", index + 1)),
        }
    }

    /// Checks that an extern got as many arguments as it takes.
    fn count(&mut self, args: &Args<'a>, expected: usize, what: &str, span: Span) -> Res<()> {
        match args.0.len() == expected {
            true => Ok(()),
            false => self.error(
                "E0503",
                span,
                format!("`{what}` takes {expected} arguments, not {}", args.0.len()),
            ),
        }
    }

    fn drop_call(&mut self, span: Span) {
        let site = self.drop_site(span);
        self.push(Ir::Drop(site));
    }

    /// Inlining meets one place of the source several times: it is one site only where the name is the same, too.
    fn drop_site(&mut self, span: Span) -> ir::DropSiteId {
        let loc = self.at(span);
        let own = self.drop_name.clone();
        let with_line = format!("{own} line {}", loc.line);
        let sites = &self.out.drop_sites;
        let known = sites.iter().position(|s| s.loc == loc && (s.name == own || s.name == with_line));
        if let Some(index) = known {
            return ir::DropSiteId(index as u32);
        }
        let name = if sites.iter().any(|s| s.name == own) { with_line } else { own };
        self.out.drop_sites.push(ir::DropSite { name, loc });
        ir::DropSiteId(self.out.drop_sites.len() as u32 - 1)
    }

    fn verify(&mut self, args: &Args<'a>, env: &Env<'a>, span: Span) -> Res<()> {
        self.count(args, 2, "verify", span)?;
        if self.parser.is_none() {
            return self.error("E0503", span, "`verify` only works in a parser");
        }
        let cond = {
            let e = self.need(args, 0, span)?;
            self.condition(e, env)
        }?;
        let e = self.need(args, 1, span)?;
        let (error, _) = self.scalar(e, env, Some(&T::Error))?;
        match error.as_const().and_then(|v| v.to_u64()) {
            Some(error) => {
                self.push(Ir::Verify { cond, error: ir::ErrorId(error as u32) });
                Ok(())
            }
            // One check for each error that it may be.
            None => {
                let fails = |l: &Self, error: u32| {
                    let error = ir::ErrorId(error);
                    vec![ir::Stmt::new(Ir::Verify { cond: Expr::bool(false), error }, l.loc)]
                };
                let all = 0..self.out.errors.len() as u32;
                let arms = all.map(|i| (vec![abi::Bits::new(32, i.into())], fails(self, i))).collect();
                let check = Ir::Switch { on: error, arms, default: Vec::new() };
                let otherwise = vec![ir::Stmt::new(check, self.loc)];
                self.push(Ir::If { cond, then: Vec::new(), otherwise });
                Ok(())
            }
        }
    }

    fn checksum(&mut self, name: &str, args: &Args<'a>, env: &Env<'a>, span: Span) -> Res<()> {
        self.count(args, 4, name, span)?;
        let cond = {
            let e = self.need(args, 0, span)?;
            self.condition(e, env)
        }?;
        let data = {
            let e = self.need(args, 1, span)?;
            self.data(e, env)
        }?;
        let target = self.need(args, 2, span)?;
        let Store::Scalar(checksum, ty) = self.lvalue(target, env)? else {
            return self.error("E0503", target.span, "a checksum is a field of bits");
        };
        let algorithm = {
            let e = self.need(args, 3, span)?;
            self.algorithm(e, env)
        }?;
        let width = ty.ir().map_or(0, Ty::width);
        if algorithm != HashAlgorithm::Csum16 && !name.ends_with("with_payload") {
            self.hash_sum(name, cond, data, checksum, algorithm, width);
            return Ok(());
        }
        if algorithm != HashAlgorithm::Csum16 {
            return self.not_yet(span, "a checksum over the payload that is not csum16");
        }
        if width != 16 {
            return self.error(
                "E0503",
                target.span,
                format!("a checksum of 16 bits goes into bit<16>, not {ty}"),
            );
        }
        let payload = name.ends_with("with_payload");
        let nonzero = self.nonzero(&checksum);
        self.push(Ir::Call(match name.starts_with("verify") {
            true => Call::VerifyChecksum { cond, data, checksum, algorithm, payload },
            false => Call::UpdateChecksum { cond, data, checksum, algorithm, payload, nonzero },
        }));
        Ok(())
    }

    /// A checksum that is another hash than the Internet's: verified and updated like any value.
    fn hash_sum(
        &mut self,
        name: &str,
        cond: Expr,
        data: Vec<Expr>,
        checksum: Place,
        algorithm: HashAlgorithm,
        width: u32,
    ) {
        let (base, max) = (Expr::bits(width, 0), Expr::bits(width + 1, 1 << width.min(127)));
        let (then, ()) = self.in_block(|l| match name.starts_with("verify") {
            false => l.push(Ir::Call(Call::Hash { dst: checksum, algorithm, base, data, max })),
            true => {
                let sum = Place::Var(l.var("$sum", Ty::Bit(width), ir::VarKind::Local));
                l.push(Ir::Call(Call::Hash { dst: sum.clone(), algorithm, base, data, max }));
                let read = |place: Place| Expr::read(place, Ty::Bit(width));
                let error = Place::Var(l.out.standard.checksum_error);
                let wrong = ir::Stmt::new(Ir::Assign { dst: error, src: Expr::bits(1, 1) }, l.loc);
                let cond = Expr::binary(ir::BinOp::Ne, read(sum), read(checksum));
                l.push(Ir::If { cond, then: vec![wrong], otherwise: Vec::new() });
            }
        });
        self.push(Ir::If { cond, then, otherwise: Vec::new() });
    }

    fn nonzero(&self, place: &Place) -> bool {
        match place {
            Place::Field(ir::HeaderRef::Header(h), field) => {
                self.out.header_type(*h).fields.get(*field as usize).is_some_and(|f| f.checksum_nonzero)
            }
            _ => false,
        }
    }

    pub(super) fn algorithm(&mut self, e: &'a ast::Expr, env: &Env<'a>) -> Res<HashAlgorithm> {
        if let Val::Scalar(value, T::Enum(en)) = self.expr(e, env, None)? {
            let index = value.as_const().and_then(|v| v.to_u64()).unwrap_or(u64::MAX) as usize;
            match en.members.get(index).map(String::as_str) {
                Some("IDENTITY") => return Ok(HashAlgorithm::Identity),
                Some("CRC32" | "TARGET_DEFAULT") => return Ok(HashAlgorithm::Crc32),
                Some("CRC32_CUSTOM") => return Ok(HashAlgorithm::Crc32Custom),
                Some("CRC16") => return Ok(HashAlgorithm::Crc16),
                Some("CRC16_CUSTOM") => return Ok(HashAlgorithm::Crc16Custom),
                Some("ONES_COMPLEMENT16") => return Ok(HashAlgorithm::Csum16),
                Some("crc32") => return Ok(HashAlgorithm::Crc32),
                Some("crc32_custom") => return Ok(HashAlgorithm::Crc32Custom),
                Some("crc16") => return Ok(HashAlgorithm::Crc16),
                Some("crc16_custom") => return Ok(HashAlgorithm::Crc16Custom),
                Some("random") => return Ok(HashAlgorithm::Random),
                Some("identity") => return Ok(HashAlgorithm::Identity),
                Some("csum16") => return Ok(HashAlgorithm::Csum16),
                Some("xor16") => return Ok(HashAlgorithm::Xor16),
                _ => {}
            }
        }
        self.error_hint(
            "E0503",
            e.span,
            "this is no hash algorithm",
            "write `HashAlgorithm.csum16` or another member",
        )
    }

    /// A list of data to hash or sum, spelt out to scalars.
    pub(super) fn data(&mut self, e: &'a ast::Expr, env: &Env<'a>) -> Res<Vec<Expr>> {
        let val = self.expr(e, env, None)?;
        let mut data = Vec::new();
        self.flatten(val, e.span, &mut data)?;
        Ok(data)
    }

    fn flatten(&mut self, val: Val, span: Span, out: &mut Vec<Expr>) -> Res<()> {
        match self.loaded(val) {
            Val::Scalar(e, _) => {
                out.push(e);
                Ok(())
            }
            Val::Integer(_) => self.error_hint(
                "E0503",
                span,
                "a number in this list has no width",
                "write `8w0` for one byte of zeros",
            ),
            val => match super::expr::parts(&val) {
                Some(parts) => parts.into_iter().try_for_each(|p| self.flatten(p, span, out)),
                None => self.error("E0503", span, "this cannot be hashed or summed"),
            },
        }
    }

    fn hash(&mut self, args: &Args<'a>, env: &Env<'a>, span: Span) -> Res<()> {
        self.count(args, 5, "hash", span)?;
        let target = self.need(args, 0, span)?;
        let Store::Scalar(dst, ty) = self.lvalue(target, env)? else {
            return self.error("E0503", target.span, "the result of `hash` is bits");
        };
        let algorithm = {
            let e = self.need(args, 1, span)?;
            self.algorithm(e, env)
        }?;
        let width = ty.ir().map_or(32, Ty::width);
        let base = {
            let e = self.need(args, 2, span)?;
            self.number_of(e, env, width)
        }?;
        let data = {
            let e = self.need(args, 3, span)?;
            self.data(e, env)
        }?;
        // `max` may be one more than the result holds: 2^16 for a bit<16>.
        let max = {
            let e = self.need(args, 4, span)?;
            self.number_of(e, env, width.max(64))
        }?;
        self.push(Ir::Call(Call::Hash { dst, algorithm, base, data, max }));
        Ok(())
    }

    /// A number of any type, which gets `width` bits if it has none.
    pub(super) fn number_of(&mut self, e: &'a ast::Expr, env: &Env<'a>, width: u32) -> Res<Expr> {
        match self.expr(e, env, None)? {
            Val::Integer(n) => match self.number(&n, &T::Bit(width), e.span)? {
                Val::Scalar(e, _) => Ok(e),
                _ => Err(super::Failed),
            },
            val => match self.loaded(val) {
                Val::Scalar(e, _) => Ok(e),
                _ => self.error("E0503", e.span, "expected a number"),
            },
        }
    }

    fn random(&mut self, args: &Args<'a>, env: &Env<'a>, span: Span) -> Res<()> {
        self.count(args, 3, "random", span)?;
        let target = self.need(args, 0, span)?;
        let Store::Scalar(dst, ty) = self.lvalue(target, env)? else {
            return self.error("E0503", target.span, "the result of `random` is bits");
        };
        let (lo, _) = {
            let e = self.need(args, 1, span)?;
            self.scalar(e, env, Some(&ty))
        }?;
        let (hi, _) = {
            let e = self.need(args, 2, span)?;
            self.scalar(e, env, Some(&ty))
        }?;
        self.push(Ir::Call(Call::Random { dst, lo, hi }));
        Ok(())
    }

    fn log_msg(&mut self, args: &Args<'a>, env: &Env<'a>, span: Span) -> Res<()> {
        let first = self.need(args, 0, span)?;
        let Val::Str(format) = self.expr(first, env, Some(&T::Str))? else {
            return self.error("E0503", first.span, "a message is a string");
        };
        let data = match args.get(1) {
            Some(e) => self.data(e, env)?,
            None => Vec::new(),
        };
        if format.matches("{}").count() != data.len() {
            let message = format!("{} values for {} places `{{}}`", data.len(), format.matches("{}").count());
            return self.error("E0503", span, message);
        }
        self.push(Ir::Call(Call::LogMsg { format, args: data }));
        Ok(())
    }

    fn static_assert(&mut self, args: &Args<'a>, env: &Env<'a>, span: Span) -> Res<Val> {
        let cond = {
            let e = self.need(args, 0, span)?;
            self.condition(e, env)
        }?;
        let text = match args.get(1) {
            Some(e) => match self.expr(e, env, Some(&T::Str))? {
                Val::Str(text) => format!(": {text}"),
                _ => String::new(),
            },
            None => String::new(),
        };
        match cond.as_const().map(|v| !v.is_zero()) {
            Some(true) => Ok(Val::Scalar(Expr::bool(true), T::Bool)),
            Some(false) => self.error("E0503", span, format!("this does not hold{text}")),
            None => self.error("E0503", span, "the condition of `static_assert` is not known when compiled"),
        }
    }

    // ---- objects of PSA ----

    /// Our colours count up from green; those of `PSA_MeterColor_t` are RED, GREEN, YELLOW.
    fn psa_colour(&mut self, dst: Place, env: &Env<'a>, span: Span) -> Res<Val> {
        let colour = Expr::read(dst, Ty::Bit(32));
        let red = Expr::binary(ir::BinOp::Eq, colour.clone(), Expr::bits(32, 2));
        let next = Expr::binary(ir::BinOp::Add, colour, Expr::bits(32, 1));
        let kind = ir::ExprKind::Mux(Box::new(red), Box::new(Expr::bits(32, 0)), Box::new(next));
        match env.get("PSA_MeterColor_t") {
            Some(super::scope::Binding::Type(decl)) => {
                let name = ast::Name { text: decl.name.text.clone(), span };
                let ty = self.declared(decl, &name)?;
                Ok(Val::Scalar(Expr { kind, ty: Ty::Bit(32) }, ty))
            }
            _ => self.error("E0503", span, "there is no `PSA_MeterColor_t`"),
        }
    }

    fn get_hash(
        &mut self,
        algorithm: HashAlgorithm,
        ty: &T,
        args: &Args<'a>,
        env: &Env<'a>,
        span: Span,
    ) -> Res<Val> {
        let width = ty.ir().map_or(32, Ty::width);
        let (base, at, max) = match args.0.len() {
            1 => (Expr::bits(width, 0), 0, Expr::bits(width + 1, 1 << width.min(126))),
            _ => {
                let base = self.need(args, 0, span)?;
                let base = self.number_of(base, env, width)?;
                let max = self.need(args, 2, span)?;
                (base, 1, self.number_of(max, env, width.max(64))?)
            }
        };
        let e = self.need(args, at, span)?;
        let data = self.data(e, env)?;
        let Some(Store::Scalar(dst, ty)) = self.temp("$hash", ty) else { return Err(super::Failed) };
        self.push(Ir::Call(Call::Hash { dst: dst.clone(), algorithm, base, data, max }));
        let (e, ty) = self.read(dst, ty);
        Ok(Val::Scalar(e, ty))
    }

    /// The sum so far, in one's complement (RFC 1624); `get` gives its complement.
    fn internet_checksum(
        &mut self,
        var: ir::VarId,
        method: &str,
        args: &Args<'a>,
        env: &Env<'a>,
        span: Span,
    ) -> Res<Val> {
        let ty = T::Bit(16);
        let sum = || Expr::read(Place::Var(var), Ty::Bit(16));
        let new = match method {
            "get" => {
                let value = super::fold::unary(ir::UnOp::BitNot, sum());
                return Ok(Val::Scalar(value, ty));
            }
            "get_state" => return Ok(Val::Scalar(sum(), ty)),
            "clear" => Expr::bits(16, 0),
            "set_state" => {
                let e = self.need(args, 0, span)?;
                self.scalar(e, env, Some(&ty))?.0
            }
            _ => {
                let e = self.need(args, 0, span)?;
                let data = self.data(e, env)?;
                // The complement of the data's sum: what `subtract` adds.
                let part = Place::Var(self.var("$sum", Ty::Bit(16), ir::VarKind::Local));
                let (base, max) = (Expr::bits(16, 0), Expr::bits(17, 1 << 16));
                let algorithm = HashAlgorithm::Csum16;
                self.push(Ir::Call(Call::Hash { dst: part.clone(), algorithm, base, data, max }));
                let part = Expr::read(part, Ty::Bit(16));
                let part = if method == "add" { super::fold::unary(ir::UnOp::BitNot, part) } else { part };
                let wide = |e| super::fold::cast(e, Ty::Bit(17));
                let carry = Place::Var(self.var("$carry", Ty::Bit(17), ir::VarKind::Local));
                let src = Expr::binary(ir::BinOp::Add, wide(sum()), wide(part));
                self.push(Ir::Assign { dst: carry.clone(), src });
                let total = || Expr::read(carry.clone(), Ty::Bit(17));
                let low = super::fold::slice(total(), 15, 0);
                let high = super::fold::cast(super::fold::slice(total(), 16, 16), Ty::Bit(16));
                Expr::binary(ir::BinOp::Add, low, high)
            }
        };
        self.push(Ir::Assign { dst: Place::Var(var), src: new });
        Ok(Val::Void)
    }

    // ---- objects ----

    /// Where a meter's colour goes.
    fn colour(&mut self, args: &Args<'a>, index: usize, env: &Env<'a>, span: Span) -> Res<Place> {
        let e = self.need(args, index, span)?;
        match self.lvalue(e, env)? {
            Store::Scalar(place, ty) if ty.ir().is_some_and(|ty| ty.width() >= 2) => Ok(place),
            _ => self.error("E0503", e.span, "a colour needs a place of two bits or more"),
        }
    }

    pub(super) fn object_method(
        &mut self,
        name: &'a ast::Name,
        object: Object<'a>,
        member: &'a ast::Name,
        args: &'a [ast::Argument],
        env: &Env<'a>,
        span: Span,
    ) -> Res<Val> {
        let a = Args(args.iter().map(|a| a.value.as_ref()).collect());
        let known: &[&str] = match &object {
            Object::Counter(_) | Object::DirectCounter(_) => &["count"],
            Object::Register(..) => &["read", "write"],
            Object::Meter(_) => &["execute_meter", "execute"],
            Object::DirectMeter(_) => &["read", "execute"],
            Object::Hash(..) => &["get_hash"],
            Object::InternetChecksum(_) => &["clear", "add", "subtract", "get", "get_state", "set_state"],
            Object::Random(..) => &["read"],
            Object::Digest => &["pack"],
            Object::ActionProfile(_) | Object::ValueSet(..) | Object::Package(_) | Object::Engine => &[],
            Object::Table(_) | Object::Block(_) => &["apply"],
        };
        match (object, member.text.as_str()) {
            (Object::Counter(counter), "count") => {
                self.count(&a, 1, "count", span)?;
                let index = {
                    let e = self.need(&a, 0, span)?;
                    self.number_of(e, env, 32)
                }?;
                self.push(Ir::Call(Call::Count { counter, index }));
            }
            (Object::DirectCounter(counter), "count") => self.push(Ir::Call(Call::DirectCount(counter))),
            (Object::Register(register, ty), "read") if a.0.len() == 1 => {
                let e = self.need(&a, 0, span)?;
                let index = self.number_of(e, env, 32)?;
                let Some(Store::Scalar(dst, ty)) = self.temp("$read", &ty) else { return Err(super::Failed) };
                self.push(Ir::Call(Call::RegisterRead { register, dst: dst.clone(), index }));
                let (e, ty) = self.read(dst, ty);
                return Ok(Val::Scalar(e, ty));
            }
            (Object::Meter(meter), "execute") => {
                let e = self.need(&a, 0, span)?;
                let index = self.number_of(e, env, 32)?;
                let dst = Place::Var(self.var("$colour", Ty::Bit(32), ir::VarKind::Local));
                self.push(Ir::Call(Call::Meter { meter, index, dst: dst.clone() }));
                return self.psa_colour(dst, env, span);
            }
            (Object::DirectMeter(meter), "execute") => {
                let dst = Place::Var(self.var("$colour", Ty::Bit(32), ir::VarKind::Local));
                self.push(Ir::Call(Call::DirectMeter { meter, dst: dst.clone() }));
                return self.psa_colour(dst, env, span);
            }
            (Object::Hash(algorithm, ty), "get_hash") => return self.get_hash(algorithm, &ty, &a, env, span),
            (
                Object::InternetChecksum(var),
                method @ ("clear" | "add" | "subtract" | "get" | "get_state" | "set_state"),
            ) => {
                return self.internet_checksum(var, method, &a, env, span);
            }
            (Object::Random(lo, hi, ty), "read") => {
                let Some(Store::Scalar(dst, ty)) = self.temp("$random", &ty) else {
                    return Err(super::Failed);
                };
                let constant = |v: abi::Bits| {
                    let width = v.width();
                    Expr { kind: ir::ExprKind::Const(v), ty: Ty::Bit(width) }
                };
                self.push(Ir::Call(Call::Random { dst: dst.clone(), lo: constant(lo), hi: constant(hi) }));
                let (e, ty) = self.read(dst, ty);
                return Ok(Val::Scalar(e, ty));
            }
            (Object::Digest, "pack") => {
                let e = self.need(&a, 0, span)?;
                self.digest_of(None, e, env)?;
            }
            (Object::Register(register, ty), "read") => {
                self.count(&a, 2, "read", span)?;
                let target = self.need(&a, 0, span)?;
                let store = self.lvalue(target, env)?;
                let Store::Scalar(dst, _) = &store else {
                    return self.error("E0503", target.span, "a register is read into bits");
                };
                if store.ty() != ty {
                    let message = format!("the register holds {ty}, and this is {}", store.ty());
                    return self.error("E0503", target.span, message);
                }
                let index = {
                    let e = self.need(&a, 1, span)?;
                    self.number_of(e, env, 32)
                }?;
                self.push(Ir::Call(Call::RegisterRead { register, dst: dst.clone(), index }));
            }
            (Object::Register(register, ty), "write") => {
                self.count(&a, 2, "write", span)?;
                let index = {
                    let e = self.need(&a, 0, span)?;
                    self.number_of(e, env, 32)
                }?;
                let (value, _) = {
                    let e = self.need(&a, 1, span)?;
                    self.scalar(e, env, Some(&ty))
                }?;
                self.push(Ir::Call(Call::RegisterWrite { register, index, value }));
            }
            (Object::Meter(meter), "execute_meter") => {
                self.count(&a, 2, "execute_meter", span)?;
                let e = self.need(&a, 0, span)?;
                let index = self.number_of(e, env, 32)?;
                let dst = self.colour(&a, 1, env, span)?;
                self.push(Ir::Call(Call::Meter { meter, index, dst }));
            }
            (Object::DirectMeter(meter), "read") => {
                self.count(&a, 1, "read", span)?;
                let dst = self.colour(&a, 0, env, span)?;
                self.push(Ir::Call(Call::DirectMeter { meter, dst }));
            }
            (Object::Table(table), "apply") => {
                self.count(&a, 0, "apply", span)?;
                self.apply_table(table, None, None);
            }
            (Object::Block(block), "apply") => self.apply_block(&block, args, env, span)?,
            (_, other) => {
                let d = Diagnostic::error(
                    "E0503",
                    member.span,
                    format!("`{}` has no method `{other}`", name.text),
                );
                let hint = match did_you_mean(other, known.iter().copied()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("it has {}", known.join(" and ")),
                };
                return self.report(d.hint(hint));
            }
        }
        Ok(Val::Void)
    }
}

/// The variables of a list of metadata fields.
fn variables(val: &Val, out: &mut Vec<ir::VarId>) {
    match val {
        Val::Store(store) => in_field_list(store, 0, true, out),
        Val::List(items) => items.iter().for_each(|v| variables(v, out)),
        Val::Record(fields) => fields.iter().for_each(|(_, v)| variables(v, out)),
        Val::Scalar(e, _) => {
            if let ir::ExprKind::Read(Place::Var(var)) = &e.kind {
                out.push(*var);
            }
        }
        _ => {}
    }
}

/// The variables of all fields that are in that field list, or of all where everything is taken.
fn in_field_list(store: &Store, list: u64, all: bool, out: &mut Vec<ir::VarId>) {
    match store {
        Store::Scalar(Place::Var(var), _) if all => out.push(*var),
        Store::Struct(s, parts) => {
            for (field, part) in s.fields.iter().zip(parts.iter()) {
                in_field_list(part, list, all || field.field_lists.contains(&list), out);
            }
        }
        Store::Tuple(parts) => parts.iter().for_each(|p| in_field_list(p, list, all, out)),
        _ => {}
    }
}
