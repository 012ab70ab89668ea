//! Checksums and hashes over lists of values: computed in full, whatever a target may derive.

use abi::Bits;
use dataplane::checksum::csum16;
use dataplane::hash::Hash;
use ir::{Expr, HashAlgorithm, Program};

use crate::eval::eval;
use crate::packet::{BitWriter, PacketState};

/// The listed values' bits one after the other, behind the zero bits that make whole bytes of them.
pub fn bytes(p: &Program, s: &PacketState, data: &[Expr]) -> Vec<u8> {
    let values: Vec<Bits> = data.iter().map(|e| eval(p, s, e)).collect();
    let bits: u32 = values.iter().map(Bits::width).sum();
    let mut writer = BitWriter::default();
    writer.push(&Bits::zero((8 - bits % 8) % 8));
    values.iter().for_each(|v| writer.push(v));
    writer.finish()
}

/// The Internet checksum over the list and, if asked for, the payload behind it.
pub fn checksum(p: &Program, s: &PacketState, data: &[Expr], payload: bool) -> u16 {
    let mut all = bytes(p, s, data);
    if payload {
        all.extend_from_slice(s.payload());
    }
    csum16(&all)
}

/// A hash of bytes.
pub fn hash_of(algorithm: HashAlgorithm, bytes: &[u8]) -> u64 {
    let function = match algorithm {
        // BMv2's custom CRCs are the plain ones until a controller changes their parameters, which is not in this release.
        HashAlgorithm::Crc32 | HashAlgorithm::Crc32Custom => Hash::Crc32,
        HashAlgorithm::Crc16 | HashAlgorithm::Crc16Custom => Hash::Crc16,
        HashAlgorithm::Identity | HashAlgorithm::Random => Hash::Identity,
        HashAlgorithm::Csum16 => Hash::Csum16,
        HashAlgorithm::Xor16 => Hash::Xor16,
    };
    function.of(bytes)
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
    let value = Bits::new(64, hash_of(algorithm, &bytes(p, s, data)) as u128);
    match value.resize(64.max(max.width())).rem(&max.resize(64.max(max.width()))) {
        Some(rest) => base.add(&rest.resize(width)),
        None => base,
    }
}
