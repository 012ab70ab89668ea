//! Checksums and hashes over lists of values. They are always computed in full; compiled targets may update them incrementally.

use abi::Bits;
use dataplane::checksum::csum16;
use dataplane::hash::{Hash, update_crc16, update_crc32, update_csum16, update_identity};
use ir::{Expr, HashAlgorithm, Program};

use crate::eval::eval;
use crate::packet::{BitWriter, PacketState};

/// The bits of the values, concatenated. Zero bits after the last value fill up to whole bytes, as in BMv2.
pub fn bytes(p: &Program, s: &PacketState, data: &[Expr]) -> Vec<u8> {
    written(BitWriter::default(), p, s, data)
}

/// What a hash is of: on PSA zero bits fill up the first byte, as in BMv2's psa_switch.
fn hashed(p: &Program, s: &PacketState, data: &[Expr]) -> Vec<u8> {
    let mut writer = BitWriter::default();
    if p.arch == ir::Arch::Psa {
        // A varbit is a whole number of bytes.
        let bits: u32 = data.iter().filter(|e| !e.ty.is_varbit()).map(|e| e.ty.width()).sum();
        writer.push(&Bits::zero(bits.next_multiple_of(8) - bits));
    }
    written(writer, p, s, data)
}

fn written(mut writer: BitWriter, p: &Program, s: &PacketState, data: &[Expr]) -> Vec<u8> {
    data.iter().for_each(|e| writer.push(&eval(p, s, e)));
    writer.finish()
}

/// The Internet checksum over the values and, with `payload`, the packet's payload after them.
pub fn checksum(p: &Program, s: &PacketState, data: &[Expr], payload: bool) -> u16 {
    let mut all = bytes(p, s, data);
    if payload {
        all.extend_from_slice(s.payload());
    }
    csum16(&all)
}

/// Computes a hash function over bytes.
pub fn hash_of(algorithm: HashAlgorithm, bytes: &[u8]) -> u64 {
    let function = match algorithm {
        // BMv2's custom CRCs equal the plain ones until a controller changes their parameters. This release has no such function.
        HashAlgorithm::Crc32 | HashAlgorithm::Crc32Custom => Hash::Crc32,
        HashAlgorithm::Crc16 | HashAlgorithm::Crc16Custom => Hash::Crc16,
        HashAlgorithm::Identity => Hash::Identity,
        // A function of nothing: BMv2 has none of that name either. Compiled targets refuse it.
        HashAlgorithm::Random => Hash::Identity,
        HashAlgorithm::Csum16 => Hash::Csum16,
        HashAlgorithm::Xor16 => Hash::Xor16,
    };
    function.of(bytes)
}

/// Continues a hash with bytes: what is known of it after them (see [`HashAlgorithm::running`]).
pub fn update(algorithm: HashAlgorithm, state: u128, bytes: &[u8]) -> u128 {
    match algorithm {
        HashAlgorithm::Crc32 | HashAlgorithm::Crc32Custom => update_crc32(state as u32, bytes).into(),
        HashAlgorithm::Crc16 | HashAlgorithm::Crc16Custom => update_crc16(state as u16, bytes).into(),
        HashAlgorithm::Csum16 => update_csum16(state as u32, bytes).into(),
        HashAlgorithm::Identity => update_identity(state, bytes),
        // The verifier accepts none of these.
        HashAlgorithm::Random | HashAlgorithm::Xor16 => state,
    }
}

/// v1model's `hash`: `base + H(data) % max`, and `base` where `max` is 0.
pub fn hash(
    p: &Program,
    s: &PacketState,
    algorithm: HashAlgorithm,
    base: &Expr,
    data: &[Expr],
    max: &Expr,
    width: u32,
) -> Bits {
    let base = eval(p, s, base).resize(width);
    let max = eval(p, s, max);
    let value = Bits::new(64, hash_of(algorithm, &hashed(p, s, data)) as u128);
    match value.resize(64.max(max.width())).rem(&max.resize(64.max(max.width()))) {
        Some(rest) => base.add(&rest.resize(width)),
        None => base,
    }
}
