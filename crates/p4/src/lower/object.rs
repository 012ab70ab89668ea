//! Objects of the architectures' externs: counters, registers, meters, hashes and the like.

use std::rc::Rc;

use abi::Bits;
use ir::{CounterId, DirectCounterId, HashAlgorithm, MeterId, RegisterId, Ty, ValueSetId, VarId};

use super::block::Block;
use super::storage::scalar;
use super::{Lower, Res};
use crate::ast;
use crate::check::{Args, Callee, Type};
use crate::source::Span;

/// Most cells of an array, members of a profile, values of a set.
pub const MOST_CELLS: u64 = 1 << 28;

/// What a declared object is. Those are equal that nothing tells apart.
#[derive(Clone, PartialEq)]
pub enum Object<'a> {
    Counter(CounterId),
    DirectCounter(DirectCounterId),
    Register(RegisterId, Ty),
    Meter(MeterId),
    DirectMeter(MeterId),
    /// An action profile or selector, which a table's `implementation` names.
    ActionProfile(ir::ProfileId),
    /// PSA: `Hash<O>`.
    Hash(HashAlgorithm, Ty),
    /// PSA: the sum so far, without its last complement.
    InternetChecksum(VarId),
    /// PSA: from, to.
    Random(Bits, Bits, Ty),
    /// PSA.
    Digest,
    /// PSA: packet replication, buffering and queueing.
    Engine,
    ValueSet(ValueSetId),
    Table(ir::TableId),
    /// A control or parser.
    Block(Rc<Block<'a>>),
}

/// Arguments of a constructor or call that are given or have a default, in the order of the parameters.
pub fn given<'a>(args: &Args<'a>) -> Vec<&'a ast::Expr> {
    args.iter().filter_map(|(_, arg)| arg.expr()).collect()
}

impl<'a> Lower<'_, 'a> {
    /// The object that an expression names.
    pub(super) fn object_of(&mut self, e: &'a ast::Expr) -> Res<Object<'a>> {
        match self.meant(e).and_then(|id| self.scope.objects.get(&id)) {
            Some(object) => Ok(object.clone()),
            None => self.limit("E0510", e.span, "this is no object of a declared extern"),
        }
    }

    /// The object that a table's property names, or makes in its place under the property's name.
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

    /// An object of an extern.
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
                let (size, kind) = (self.size(size, MOST_CELLS)?, self.counter_kind(kind)?);
                self.out.counters.push(ir::IndexedCounter { name, loc, size, kind });
                Object::Counter(CounterId(self.out.counters.len() as u32 - 1))
            }
            ("direct_counter" | "DirectCounter", [kind]) => {
                let kind = self.counter_kind(kind)?;
                self.out.direct_counters.push(ir::DirectCounter { name, loc, kind });
                Object::DirectCounter(DirectCounterId(self.out.direct_counters.len() as u32 - 1))
            }
            ("register" | "Register", [size, rest @ ..]) => {
                let (ty, size) = (type_arg(self, 0)?, self.size(size, MOST_CELLS)?);
                let first = rest.first().and_then(|e| self.known_bits(e));
                let initial = first.unwrap_or(Bits::zero(ty.width()));
                self.out.registers.push(ir::Register { name, loc, size, ty, initial });
                Object::Register(RegisterId(self.out.registers.len() as u32 - 1), ty)
            }
            ("meter" | "Meter", [size, kind]) => {
                let size = Some(self.size(size, MOST_CELLS)?);
                let bytes = self.meter_kind(kind)?;
                Object::Meter(self.meter(ir::Meter { name, loc, size, bytes }))
            }
            ("direct_meter" | "DirectMeter", [kind]) => {
                let bytes = self.meter_kind(kind)?;
                Object::DirectMeter(self.meter(ir::Meter { name, loc, size: None, bytes }))
            }
            ("action_profile" | "ActionProfile", [size]) => {
                let size = self.size(size, MOST_CELLS)?;
                self.profile(ir::ActionProfile { name, loc, size, selector: None })
            }
            ("action_selector" | "ActionSelector", [algorithm, size, width]) => {
                let selector = Some((self.algorithm(algorithm)?, self.size(width, 64)? as u32));
                let size = self.size(size, MOST_CELLS)?;
                self.profile(ir::ActionProfile { name, loc, size, selector })
            }
            ("Hash", [algorithm]) => Object::Hash(self.algorithm(algorithm)?, type_arg(self, 0)?),
            ("InternetChecksum", []) => {
                Object::InternetChecksum(self.var(&name, Ty::Bit(16), ir::VarKind::Local))
            }
            ("Random", [least, greatest]) => {
                let ty = type_arg(self, 0)?;
                match (self.known_bits(least), self.known_bits(greatest)) {
                    (Some(least), Some(greatest)) => Object::Random(least, greatest, ty),
                    _ => return self.bug(span, "bounds that are not known"),
                }
            }
            ("Digest", []) => Object::Digest,
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
            _ => self.limit("E0515", e.span, "what this counter counts is not known"),
        }
    }

    /// Whether a meter measures bytes.
    fn meter_kind(&mut self, e: &'a ast::Expr) -> Res<bool> {
        match self.known_member(e).map(|m| m.to_ascii_lowercase()).as_deref() {
            Some("packets") => Ok(false),
            Some("bytes") => Ok(true),
            _ => self.limit("E0515", e.span, "what this meter measures is not known"),
        }
    }

    /// A hash function, by the name of the enum's member.
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
