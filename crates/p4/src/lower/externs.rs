//! Extern functions of v1model, PSA and PNA. Each call becomes a statement of the IR. Add support for another extern
//! function here.

use ir::{BinOp, Call, Expr, HashAlgorithm, Place, Role, StmtKind as Ir, Ty};
use num_traits::ToPrimitive;

use super::lvalue::Lvalue;
use super::object::given;
use super::request::Again;
use super::storage::{Store, scalar};
use super::value::{Val, constant, read};
use super::{Lower, Res};
use crate::ast::{self, AnnotationBody};
use crate::check::{DeclId, Kind, Type, Value};
use crate::source::Span;

/// A call of a checksum function: whether to do it, the data, the checksum's place and type, and the algorithm.
struct ChecksumCall {
    cond: Expr,
    data: Vec<Expr>,
    place: Place,
    ty: Ty,
    algorithm: HashAlgorithm,
    payload: bool,
}

impl<'a> Lower<'_, 'a> {
    pub(super) fn extern_function(&mut self, id: DeclId, e: &'a ast::Expr) -> Res<Val> {
        let Some(call) = self.typed.call(e.id) else { return self.bug(e.span, "a call of nothing") };
        let (name, args, span) = (self.name_of(id), given(&call.args), e.span);
        match (name.as_str(), args.as_slice()) {
            ("mark_to_drop" | "drop_packet", args) => self.drop_call(args.first().copied(), span)?,
            ("verify", [cond, error]) => self.verify(cond, error)?,
            (
                "verify_checksum"
                | "update_checksum"
                | "verify_checksum_with_payload"
                | "update_checksum_with_payload",
                [cond, data, checksum, algorithm],
            ) => self.checksum(&name, [cond, data, checksum, algorithm], span)?,
            ("hash", [to, algorithm, base, data, max]) => self.hash([to, algorithm, base, data, max])?,
            ("random", [to, lo, hi]) => {
                self.with_result_place(to, |l, dst, _| {
                    let [lo, hi] = l.scalars([lo, hi])?;
                    l.push(Ir::Call(Call::Random { dst, lo, hi }));
                    Ok(())
                })?;
            }
            ("log_msg", [format, data @ ..]) => self.log_msg(format, data, span)?,
            ("assert" | "assume", [cond]) => {
                let cond = self.scalar(cond)?;
                let text = self.map.text(span).to_string();
                let site = self.drop_site_named(span, &name);
                self.push(Ir::Call(Call::Assert { cond, site, text }));
            }
            ("static_assert", _) => return Ok(Val::Scalar(Expr::bool(true))),
            ("digest", [_, data]) => {
                let ty = self.ty(data);
                self.digest(data, &ty, None)?;
            }
            ("fragment_ipv6", _) if crate::api::architecture(self.typed) != "v1model" => {
                return self.limit("E0510", span, "this calls `fragment_ipv6` outside of v1model");
            }
            ("fragment_ipv6", [size, identification]) => {
                let size = self.number_of(size, 16)?;
                let identification = self.number_of(identification, 32)?;
                self.ask_fragments(size, identification);
            }
            ("truncate", [length]) => {
                let length = self.number_of(length, 32)?;
                self.ask_truncation(length);
            }
            ("clone" | "clone_preserving_field_list" | "clone3", [kind, session, rest @ ..]) => {
                let what = match self.known_member(kind).as_deref() {
                    Some("I2E") => Again::CloneI2E,
                    Some("E2E") => Again::CloneE2E,
                    _ => {
                        return self.limit(
                            "E0515",
                            kind.span,
                            "the type of this clone is not compile-time known",
                        );
                    }
                };
                let session = self.number_of(session, 32)?;
                let keep = self.kept_variables(&name, rest.first().copied())?;
                self.ask("clone_session", session);
                self.ask_again(what, keep);
            }
            ("resubmit" | "resubmit_preserving_field_list", rest) => {
                let keep = self.kept_variables(&name, rest.first().copied())?;
                self.ask_again(Again::Resubmit, keep);
            }
            ("recirculate" | "recirculate_preserving_field_list", rest) => {
                let keep = self.kept_variables(&name, rest.first().copied())?;
                self.ask_again(Again::Recirculate, keep);
            }
            ("psa_clone_i2e" | "psa_clone_e2e" | "psa_resubmit" | "psa_normal" | "psa_recirculate", _) => {
                return self.psa_predicate(&name, &args, span);
            }
            (
                "send_to_port"
                | "mirror_packet"
                | "add_entry"
                | "allocate_flow_id"
                | "set_entry_expire_time"
                | "restart_expire_timer"
                | "SelectByDirection",
                _,
            ) => return self.pna_call(&name, &args, e),
            (other, _) => return self.limit("E0510", span, &format!("this calls the extern `{other}`")),
        }
        Ok(Val::Void)
    }

    /// Runs `f` with the place that the argument `to` names. If `to` is a slice, `f` gets a temporary that is copied to
    /// the slice.
    pub(super) fn with_result_place(
        &mut self,
        to: &'a ast::Expr,
        f: impl FnOnce(&mut Self, Place, Ty) -> Res<()>,
    ) -> Res<()> {
        if matches!(to.kind, ast::ExprKind::DontCare) {
            return self.limit("E0515", to.span, "this call writes its result to `_`");
        }
        match self.lvalue(to)? {
            Lvalue::Store(Store::Scalar(place, ty)) => f(self, place, ty),
            Lvalue::Store(_) => {
                self.limit("E0512", to.span, "the result of this call goes into no single number")
            }
            bits => {
                let Some(ty) = scalar(&self.ty(to)) else { return self.bug(to.span, "bits of no type") };
                let place = self.temp("$bits", ty);
                f(self, place.clone(), ty)?;
                self.store(&bits, Val::Scalar(read(&place, ty)), to.span)
            }
        }
    }

    // ---- drops ----

    /// Drops the packet. `metadata` may be a parameter of an inlined control, which is copied out later: it must get
    /// the values that mark a dropped packet, too.
    fn drop_call(&mut self, metadata: Option<&'a ast::Expr>, span: Span) -> Res<()> {
        if !matches!(self.role, Role::Ingress | Role::Egress | Role::PreControl) {
            let what = "a packet is dropped outside of the ingress, egress and pre control";
            return self.limit("E0524", span, what);
        }
        let site = self.drop_site(span);
        self.push(Ir::Drop(site));
        match self.out.arch {
            ir::Arch::V1Model => {}
            ir::Arch::Pna => {
                self.ask("send", Expr::bits(32, 0));
                return Ok(());
            }
            ir::Arch::Psa => return self.limit("E0510", span, "PSA has no such call"),
        }
        let own = self.v1model;
        for (var, value) in [(own.egress_spec, 511), (own.mcast_grp, 0)] {
            let width = self.out.var(var).ty.width();
            self.push(Ir::Assign { dst: Place::Var(var), src: Expr::bits(width, value) });
        }
        let Some(e) = metadata else { return Ok(()) };
        let (Lvalue::Store(store), ty) = (self.lvalue(e)?, self.ty(e)) else { return Ok(()) };
        for (field, own, value) in [("egress_spec", own.egress_spec, 511), ("mcast_grp", own.mcast_grp, 0)] {
            if let Some(var) = self.field_var(&store, &ty, field).filter(|var| *var != own) {
                let width = self.out.var(var).ty.width();
                self.push(Ir::Assign { dst: Place::Var(var), src: Expr::bits(width, value) });
            }
        }
        Ok(())
    }

    /// The drop site of a call. Inlining makes several statements of one location. Those with different names are
    /// different sites.
    fn drop_site(&mut self, span: Span) -> ir::DropSiteId {
        let name = self.drop_name.clone();
        self.drop_site_named(span, &name)
    }

    fn drop_site_named(&mut self, span: Span, own: &str) -> ir::DropSiteId {
        let loc = self.at(span);
        let own = own.to_string();
        let with_line = format!("{own} line {}", loc.line);
        let sites = &self.out.drop_sites;
        let known = sites.iter().position(|s| s.loc == loc && (s.name == own || s.name == with_line));
        if let Some(index) = known {
            return ir::DropSiteId(index as u32);
        }
        let name = if sites.iter().any(|s| s.name == own) { with_line } else { own };
        self.out.drop_sites.push(ir::DropSite { name: name.into(), loc });
        ir::DropSiteId(self.out.drop_sites.len() as u32 - 1)
    }

    // ---- checks ----

    fn verify(&mut self, cond: &'a ast::Expr, error: &'a ast::Expr) -> Res<()> {
        if let Some(error) = self.known_bits(error).and_then(|v| v.to_u64()) {
            let cond = self.scalar(cond)?;
            self.push(Ir::Verify { cond, error: ir::ErrorId(error as u32) });
            return Ok(());
        }
        // The error is only known at run time: the IR checks each error separately.
        let [cond, error] = self.scalars([cond, error])?;
        let loc = self.loc;
        let fails =
            |i: u32| vec![ir::Stmt::new(Ir::Verify { cond: Expr::bool(false), error: ir::ErrorId(i) }, loc)];
        let all = 0..self.out.errors.len() as u32;
        let arms = all.map(|i| (vec![abi::Bits::new(32, i.into())], fails(i))).collect();
        let check = Ir::Switch { on: error, arms, default: Vec::new() };
        self.push(Ir::If { cond, then: Vec::new(), otherwise: vec![ir::Stmt::new(check, loc)] });
        Ok(())
    }

    fn checksum(&mut self, name: &str, args: [&'a ast::Expr; 4], span: Span) -> Res<()> {
        let [cond, data, checksum, algorithm] = args;
        let verifies = name.starts_with("verify");
        if self.role != if verifies { Role::VerifyChecksum } else { Role::ComputeChecksum } {
            let control = if verifies { "verifies" } else { "computes" };
            let what = format!("`{name}` is called outside of the control that {control} checksums");
            return self.limit("E0524", span, &what);
        }
        let (payload, algorithm) = (name.ends_with("with_payload"), self.algorithm(algorithm)?);
        if payload && algorithm != HashAlgorithm::Csum16 {
            return self.limit("E0525", span, "this checksum over the payload is not csum16");
        }
        if verifies {
            let vals = self.values(&[cond, data, checksum])?;
            let (cond, data, sum) = self.checksum_operands(vals, span)?;
            // The IR compares the checksum at a place. A value without one gets a temporary.
            let (place, ty) = match sum {
                Expr { kind: ir::ExprKind::Read(place), ty } => (place, ty),
                value => {
                    let (ty, place) = (value.ty, self.temp("$sum", value.ty));
                    self.push(Ir::Assign { dst: place.clone(), src: value });
                    (place, ty)
                }
            };
            let sum = ChecksumCall { cond, data, place, ty, algorithm, payload };
            return self.verify_checksum(sum);
        }
        self.with_result_place(checksum, |l, place, ty| {
            let vals = l.values(&[cond, data])?;
            let (cond, data, _) = l.checksum_operands(vals, span)?;
            l.update_checksum(ChecksumCall { cond, data, place, ty, algorithm, payload });
            Ok(())
        })
    }

    /// The condition, the data as scalars, and the checksum if it is among the values.
    fn checksum_operands(&mut self, vals: Vec<Val>, span: Span) -> Res<(Expr, Vec<Expr>, Expr)> {
        let mut vals = vals.into_iter();
        let (Some(Val::Scalar(cond)), Some(list)) = (vals.next(), vals.next()) else {
            return self.bug(span, "a condition that is no bool");
        };
        let data = self.flatten(list, span)?;
        match vals.next() {
            Some(Val::Scalar(sum)) => Ok((cond, data, sum)),
            None => Ok((cond, data, Expr::bool(false))),
            Some(_) => self.limit("E0512", span, "this checksum is no single number"),
        }
    }

    /// The elements of a checksum's list as they count: the fields of a header that is invalid add nothing, as in BMv2, so that one list can have
    /// the pseudo-headers of IPv4 and IPv6, or an option. (P4-16 leaves it undefined what an invalid header's fields are.) Without its fields
    /// the others must keep their places within 16-bit words, so this holds for whole words only. Without the header of the checksum itself the
    /// sum does not matter.
    fn present(&self, cond: &Expr, checksum: &Place, data: Vec<Expr>) -> Vec<Expr> {
        let mut valid = ir::checksum::valid_where(cond);
        if let Place::Field(ir::HeaderRef::Header(own), _) = checksum {
            valid.push(*own);
        }
        let header = |e: &Expr| match &e.kind {
            ir::ExprKind::Read(Place::Field(ir::HeaderRef::Header(h), _)) if !valid.contains(h) => Some(*h),
            _ => None,
        };
        let (mut at, mut present) = (0, Vec::new());
        for run in data.chunk_by(|a, b| header(a) == header(b)) {
            let bits: u32 = run.iter().map(|e| e.ty.width()).sum();
            let words = at % 16 == 0 && bits.is_multiple_of(16) && !run.iter().any(|e| e.ty.is_varbit());
            at += bits;
            match header(&run[0]).filter(|_| words) {
                Some(h) => present.extend(run.iter().map(|e| self.unless_invalid(h, e))),
                None => present.extend_from_slice(run),
            }
        }
        present
    }

    /// A field of a header, or zero if the header is invalid.
    fn unless_invalid(&self, header: ir::HeaderId, field: &Expr) -> Expr {
        let zero = Expr { ty: field.ty, kind: ir::ExprKind::Const(abi::Bits::zero(field.ty.width())) };
        let valid = self.is_valid(&ir::HeaderRef::Header(header));
        Expr {
            ty: field.ty,
            kind: ir::ExprKind::Mux(Box::new(valid), Box::new(field.clone()), Box::new(zero)),
        }
    }

    fn verify_checksum(&mut self, sum: ChecksumCall) -> Res<()> {
        let ChecksumCall { cond, data, place: checksum, ty, algorithm, payload } = sum;
        if algorithm == HashAlgorithm::Csum16 && ty.width() == 16 {
            let (id, data) = (self.checksum_id(), self.present(&cond, &checksum, data));
            self.push(Ir::Call(Call::VerifyChecksum { id, cond, data, checksum, payload }));
            return Ok(());
        }
        // Only the Internet checksum has a statement of its own. Other hashes are computed and compared.
        let (then, ()) = self.in_block(|l| {
            let sum = l.temp("$sum", ty);
            l.push(hash_of_width(sum.clone(), ty, algorithm, data));
            let error = Place::Var(l.out.standard.checksum_error);
            let wrong = ir::Stmt::new(Ir::Assign { dst: error, src: Expr::bits(1, 1) }, l.loc);
            let cond = Expr::binary(BinOp::Ne, read(&sum, ty), read(&checksum, ty));
            l.push(Ir::If { cond, then: vec![wrong], otherwise: Vec::new() });
        });
        self.push(Ir::If { cond, then, otherwise: Vec::new() });
        Ok(())
    }

    fn update_checksum(&mut self, sum: ChecksumCall) {
        let ChecksumCall { cond, data, place: checksum, ty, algorithm, payload } = sum;
        if algorithm == HashAlgorithm::Csum16 && ty.width() == 16 {
            let nonzero = self.is_nonzero(&checksum);
            let (id, data) = (self.checksum_id(), self.present(&cond, &checksum, data));
            self.push(Ir::Call(Call::UpdateChecksum { id, cond, data, checksum, payload, nonzero }));
            return;
        }
        let (then, ()) = self.in_block(|l| l.push(hash_of_width(checksum, ty, algorithm, data)));
        self.push(Ir::If { cond, then, otherwise: Vec::new() });
    }

    // ---- values ----

    fn hash(&mut self, [to, algorithm, base, data, max]: [&'a ast::Expr; 5]) -> Res<()> {
        let algorithm = self.algorithm(algorithm)?;
        self.with_result_place(to, |l, dst, _| {
            let [Val::Scalar(base), list, Val::Scalar(max)] = l.values_of([base, data, max])? else {
                return l.bug(to.span, "bounds of a hash that are no numbers");
            };
            let data = l.flatten(list, data.span)?;
            l.push(Ir::Call(Call::Hash { dst, algorithm, base, data, max }));
            Ok(())
        })
    }

    fn log_msg(&mut self, format: &'a ast::Expr, data: &[&'a ast::Expr], span: Span) -> Res<()> {
        let format = self.known_text(format)?;
        let mut args = Vec::new();
        for val in self.values(data)? {
            args.extend(self.flatten(val, span)?);
        }
        if format.matches("{}").count() != args.len() {
            let what = format!("{} values for {} places `{{}}`", args.len(), format.matches("{}").count());
            return self.limit("E0515", span, &what);
        }
        self.push(Ir::Call(Call::LogMsg { format: format.into(), args }));
        Ok(())
    }

    /// Sends a digest to the control plane. It has the name that P4Info gives it: that of the extern object, or else that of the type of its data.
    pub(super) fn digest(&mut self, e: &'a ast::Expr, ty: &Type, object: Option<String>) -> Res<()> {
        let data = self.data(e)?;
        // A digest in v1model's egress has no effect.
        if self.out.arch == ir::Arch::V1Model && self.role == Role::Egress {
            return Ok(());
        }
        let (name, mut fields) = match ty {
            Type::Struct(_) | Type::Header(_) => {
                let fields = self.typed.fields(ty).into_iter().map(|(name, ..)| name.to_string());
                (ty.to_string(), fields.collect())
            }
            _ => {
                let unnamed = self.unnamed_digests;
                self.unnamed_digests += usize::from(object.is_none());
                (format!("digest_{unnamed}"), Vec::new())
            }
        };
        let name = object.unwrap_or(name);
        if fields.len() != data.len() {
            fields = (0..data.len()).map(|i| format!("f{i}")).collect();
        }
        self.push(Ir::Call(Call::Digest {
            name: name.into(),
            fields: fields.into_iter().map(ir::Name::from).collect(),
            data,
        }));
        Ok(())
    }

    // ---- what resubmitted, recirculated and cloned packets keep ----

    /// The variables that a packet keeps. `_preserving_field_list` takes the number of a field list, other functions a
    /// list of data.
    fn kept_variables(&mut self, name: &str, arg: Option<&'a ast::Expr>) -> Res<Vec<ir::VarId>> {
        let Some(e) = arg else { return Ok(Vec::new()) };
        let mut keep = Vec::new();
        if !name.ends_with("_preserving_field_list") {
            let data = self.data(e)?;
            keep.extend(data.iter().filter_map(|e| match &e.kind {
                ir::ExprKind::Read(Place::Var(var)) => Some(self.origin(*var)),
                _ => None,
            }));
            return Ok(keep);
        }
        let Some(list) = self.known_number(e).and_then(|n| n.to_u64()) else {
            return self.limit("E0515", e.span, "this field list is not known when the program is compiled");
        };
        if let Some((store, ty)) = self.metadata.clone() {
            keep = self.in_field_list(&store, &ty, list, false)?;
        }
        Ok(keep)
    }

    /// The variables of all fields in a field list. With `all`, every field of this storage is in it.
    fn in_field_list(&mut self, store: &Store, ty: &Type, list: u64, all: bool) -> Res<Vec<ir::VarId>> {
        let mut found = Vec::new();
        match store {
            Store::Scalar(Place::Var(var), _) if all => found.push(*var),
            Store::Struct(parts) => {
                let fields = self.typed.fields(ty);
                for (i, (part, ty)) in parts.iter().zip(self.typed.parts(ty)).enumerate() {
                    let field = fields.get(i).and_then(|(_, _, id)| self.typed.field(*id));
                    let lists = match field.and_then(|f| ast::annotation(&f.annotations, "field_list")) {
                        Some(annotation) => self.field_lists(annotation)?,
                        None => Vec::new(),
                    };
                    found.extend(self.in_field_list(part, &ty, list, all || lists.contains(&list))?);
                }
            }
            _ => {}
        }
        Ok(found)
    }

    /// The numbers in an annotation such as `@field_list(1, TWO, E.three)`.
    fn field_lists(&mut self, annotation: &'a ast::Annotation) -> Res<Vec<u64>> {
        let tokens = match &annotation.body {
            AnnotationBody::Unstructured(tokens) => tokens,
            _ => return self.limit("E0515", annotation.span, "this annotation does not list numbers"),
        };
        let mut lists = Vec::new();
        for item in tokens.split(|(text, _)| text == ",") {
            let Some((text, span)) = item.first() else { continue };
            let known = match self.typed.program.decls.iter().find(|d| d.name.text == *text) {
                Some(decl) => self.global_number(decl, item.get(2).map(|(member, _)| member.as_str())),
                None => text.rsplit('w').next().and_then(|digits| digits.parse().ok()),
            };
            match known {
                Some(number) => lists.push(number),
                None => return self.limit("E0515", *span, &format!("`{text}` is no number of a field list")),
            }
        }
        Ok(lists)
    }

    /// The value of a global constant or of an enum member.
    fn global_number(&self, decl: &ast::Decl, member: Option<&str>) -> Option<u64> {
        let known = self.typed.decl(decl.id)?;
        let value = match known.kind {
            Kind::Const => known.value.clone()?,
            _ => {
                let found = known.members.iter().find(|m| self.name_of(**m) == member.unwrap_or_default())?;
                let position = || Some(Value::int(self.typed.position(*found)? as u64));
                self.typed.decl(*found)?.value.clone().or_else(position)?
            }
        };
        value.as_int()?.to_u64()
    }
}

/// A hash over the data that has the width of its destination.
fn hash_of_width(dst: Place, ty: Ty, algorithm: HashAlgorithm, data: Vec<Expr>) -> Ir {
    let width = ty.width();
    let base = constant(abi::Bits::zero(width), Ty::Bit(width));
    let max = Expr::bits(width + 1, 1 << width.min(127));
    Ir::Call(Call::Hash { dst, algorithm, base, data, max })
}
