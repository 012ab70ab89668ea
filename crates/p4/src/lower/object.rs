//! Objects of extern types: counters, registers, meters, hashes and others.

use std::rc::Rc;

use abi::Bits;
use ir::{CounterId, DirectCounterId, HashAlgorithm, MeterId, RegisterId, Ty, ValueSetId, VarId};

use super::block::Block;
use super::storage::scalar;
use super::{Lower, Res};
use crate::ast;
use crate::check::{Args, Callee, Type};
use crate::source::Span;

/// The most elements of a counter, register or meter, members of an action profile, and values of a value set.
pub const MAX_CELLS: u64 = 1 << 28;

/// The object that a declaration stands for.
#[derive(Clone, PartialEq)]
pub enum Object<'a> {
    Counter(CounterId),
    DirectCounter(DirectCounterId),
    Register(RegisterId, Ty),
    Meter(MeterId),
    DirectMeter(MeterId),
    /// `DirectRegister` of strait.p4: its name and the type of its cells.
    DirectRegister(String, Ty),
    /// An action profile or selector, which a table's `implementation` names.
    ActionProfile(ir::ProfileId),
    /// `Hash<O>` of PSA.
    Hash(HashAlgorithm, Ty),
    /// `InternetChecksum` of PSA. The variable holds the sum, which is the complement of the checksum.
    InternetChecksum(VarId),
    /// `Checksum<W>` of PSA. The variable holds what is known of the hash so far ([`HashAlgorithm::running`]).
    Checksum(VarId, HashAlgorithm, Ty),
    /// `Random` of PSA: the least and the greatest value.
    Random(Bits, Bits, Ty),
    /// `Digest` of PSA, with its name.
    Digest(String),
    /// `PacketReplicationEngine` and `BufferingQueueingEngine` of PSA.
    Engine,
    ValueSet(ValueSetId),
    Table(ir::TableId),
    /// An instance of a control or parser.
    Block(Rc<Block<'a>>),
}

/// The arguments of a call in the order of the parameters, with default values filled in. Omitted arguments are left
/// out.
pub fn given<'a>(args: &Args<'a>) -> Vec<&'a ast::Expr> {
    args.iter().filter_map(|(_, arg)| arg.expr()).collect()
}

impl<'a> Lower<'_, 'a> {
    /// The object that an expression refers to.
    pub(super) fn object_of(&mut self, e: &'a ast::Expr) -> Res<Object<'a>> {
        match self.resolved(e).and_then(|id| self.scope.objects.get(&id)) {
            Some(object) => Ok(object.clone()),
            None => self.limit("E0510", e.span, "this is no object of a declared extern"),
        }
    }

    /// The object that a table property refers to, or creates by a constructor call. A created object is named after
    /// the property.
    pub(super) fn object_of_property(&mut self, p: &ast::TableProperty, e: &'a ast::Expr) -> Res<Object<'a>> {
        if let Some(call) = self.typed.call(e.id)
            && let Callee::Constructor(ty, _) = &call.callee
        {
            let own = ast::annotation_string(&p.annotations, "name");
            let name = own.unwrap_or_else(|| p.name.text.clone());
            let ty = ty.subst(&self.scope.types);
            return self.extern_object(name, &ty, &call.args, e.span);
        }
        self.object_of(e)
    }

    /// Creates an object of an extern type.
    pub(super) fn extern_object(
        &mut self,
        name: String,
        ty: &Type,
        args: &Args<'a>,
        span: Span,
    ) -> Res<Object<'a>> {
        let Type::Extern(of) = ty else { return self.bug(span, "an object of no extern") };
        let (loc, args) = (self.at(span), given(args));
        let type_arg =
            |l: &mut Self, i: usize| match of.args.get(i).and_then(scalar).filter(|t| !t.is_varbit()) {
                Some(ty) => Ok(ty),
                None => l.limit("E0512", span, &format!("`{ty}` holds no single number")),
            };
        Ok(match (&*of.name, args.as_slice()) {
            ("counter" | "Counter", [size, kind]) => {
                let (size, kind) = (self.size(size, MAX_CELLS)?, self.counter_kind(kind)?);
                self.out.counters.push(ir::IndexedCounter { name: name.into(), loc, size, kind });
                Object::Counter(CounterId(self.out.counters.len() as u32 - 1))
            }
            ("direct_counter" | "DirectCounter", [kind]) => {
                let kind = self.counter_kind(kind)?;
                self.out.direct_counters.push(ir::DirectCounter { name: name.into(), loc, kind });
                Object::DirectCounter(DirectCounterId(self.out.direct_counters.len() as u32 - 1))
            }
            ("register" | "Register", [size, rest @ ..]) => {
                let (ty, size) = (type_arg(self, 0)?, self.size(size, MAX_CELLS)?);
                let first = rest.first().and_then(|e| self.known_bits(e));
                let initial = first.unwrap_or(Bits::zero(ty.width()));
                self.out.registers.push(ir::Register { name: name.into(), loc, size, ty, initial });
                Object::Register(RegisterId(self.out.registers.len() as u32 - 1), ty)
            }
            ("meter" | "Meter", [size, kind]) => {
                let size = Some(self.size(size, MAX_CELLS)?);
                let bytes = self.meter_kind(kind)?;
                Object::Meter(self.meter(ir::Meter { name: name.into(), loc, size, bytes }))
            }
            ("direct_meter" | "DirectMeter", [kind]) => {
                let bytes = self.meter_kind(kind)?;
                Object::DirectMeter(self.meter(ir::Meter { name: name.into(), loc, size: None, bytes }))
            }
            ("DirectRegister", []) => {
                let ty = type_arg(self, 0)?;
                if ty.width() > ir::MAX_DIRECT_REGISTER {
                    return self.limit("E0512", span, "a direct register of more than 64 bits");
                }
                Object::DirectRegister(name, ty)
            }
            ("action_profile" | "ActionProfile", [size]) => {
                let size = self.size(size, MAX_CELLS)?;
                self.profile(ir::ActionProfile { name: name.into(), loc, size, selector: None })
            }
            ("action_selector" | "ActionSelector", [algorithm, size, width]) => {
                let selector = Some((self.algorithm(algorithm)?, self.size(width, 64)? as u32));
                let size = self.size(size, MAX_CELLS)?;
                self.profile(ir::ActionProfile { name: name.into(), loc, size, selector })
            }
            ("Hash", [algorithm]) => Object::Hash(self.algorithm(algorithm)?, type_arg(self, 0)?),
            ("InternetChecksum", []) => {
                Object::InternetChecksum(self.var(&name, Ty::Bit(16), ir::VarKind::Local))
            }
            ("Checksum", [algorithm]) => {
                let (of, ty) = (self.algorithm(algorithm)?, type_arg(self, 0)?);
                match of.running() {
                    Some(running) => Object::Checksum(self.var(&name, running, ir::VarKind::Local), of, ty),
                    None => return self.bug(span, "a checksum that cannot be continued"),
                }
            }
            ("Random", [least, greatest]) => {
                let ty = type_arg(self, 0)?;
                match (self.known_bits(least), self.known_bits(greatest)) {
                    (Some(least), Some(greatest)) => Object::Random(least, greatest, ty),
                    _ => return self.bug(span, "bounds that are not known"),
                }
            }
            ("Digest", []) => Object::Digest(name),
            ("PacketReplicationEngine" | "BufferingQueueingEngine", []) => Object::Engine,
            (other, _) => {
                return self.limit("E0510", span, &format!("this is an object of the extern `{other}`"));
            }
        })
    }

    fn profile(&mut self, profile: ir::ActionProfile) -> Object<'a> {
        self.out.profiles.push(profile);
        Object::ActionProfile(ir::ProfileId(self.out.profiles.len() as u32 - 1))
    }

    fn meter(&mut self, meter: ir::Meter) -> MeterId {
        self.out.meters.push(meter);
        MeterId(self.out.meters.len() as u32 - 1)
    }

    fn counter_kind(&mut self, e: &'a ast::Expr) -> Res<ir::CounterKind> {
        match self.known_member(e).map(|m| m.to_ascii_lowercase()).as_deref() {
            Some("packets") => Ok(ir::CounterKind::Packets),
            Some("bytes") => Ok(ir::CounterKind::Bytes),
            Some("packets_and_bytes") => Ok(ir::CounterKind::Both),
            _ => self.limit("E0515", e.span, "the type of this counter is not compile-time known"),
        }
    }

    /// Whether a meter measures bytes.
    fn meter_kind(&mut self, e: &'a ast::Expr) -> Res<bool> {
        match self.known_member(e).map(|m| m.to_ascii_lowercase()).as_deref() {
            Some("packets") => Ok(false),
            Some("bytes") => Ok(true),
            _ => self.limit("E0515", e.span, "the type of this meter is not compile-time known"),
        }
    }

    /// The hash algorithm that an expression refers to, by the name of the enum member.
    pub(super) fn algorithm(&mut self, e: &'a ast::Expr) -> Res<HashAlgorithm> {
        Ok(match self.known_member(e).as_deref() {
            Some("crc32" | "CRC32" | "TARGET_DEFAULT") => HashAlgorithm::Crc32,
            Some("crc32_custom" | "CRC32_CUSTOM") => HashAlgorithm::Crc32Custom,
            Some("crc16" | "CRC16") => HashAlgorithm::Crc16,
            Some("crc16_custom" | "CRC16_CUSTOM") => HashAlgorithm::Crc16Custom,
            Some("random") => HashAlgorithm::Random,
            Some("identity" | "IDENTITY") => HashAlgorithm::Identity,
            Some("csum16" | "ONES_COMPLEMENT16") => HashAlgorithm::Csum16,
            Some("xor16") => HashAlgorithm::Xor16,
            Some(other) => {
                return self.limit("E0515", e.span, &format!("`{other}` is a hash function of its own"));
            }
            None => {
                let what = "this hash function is not known when the program is compiled";
                return self.limit("E0515", e.span, what);
            }
        })
    }
}
