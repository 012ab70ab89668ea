//! Conversion of entries to the bytes in a compiled target's maps, and back. [`crate::manifest`] states the layout rules.

use crate::Bits;
use crate::entry::{ActionCall, MatchKind, MatchValue};
use crate::id::ActionId;
use crate::manifest::{KeyField, Param, Structure, Table, TableLayout};

/// The key of an entry, as a map stores it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PackedKey {
    /// The packed fields, don't-care bits zero.
    pub value: Vec<u8>,
    /// The bits that must match: all ones for exact keys.
    pub mask: Vec<u8>,
    /// The number of leading bits of `value` that must match, for a longest-prefix-match trie.
    pub prefix_len: u32,
    /// The bounds of range keys, as [`TableLayout::bounds_offset`] says.
    pub bounds: Vec<u8>,
}

impl Table {
    /// The packed key of match values that [`Table::check_entry`] has accepted. Returns `None` for range keys of a layout without bounds: native
    /// stores those in its own way.
    pub fn pack_key(&self, layout: &TableLayout, matches: &[MatchValue]) -> Option<PackedKey> {
        let mut value = vec![0; layout.key_size as usize];
        let mut mask = value.clone();
        let mut prefix_len = layout.key_size * 8;
        let mut bounds = Vec::new();
        for ((key, &offset), field) in self.keys.iter().zip(&layout.key_offsets).zip(matches) {
            let (v, m) = match field {
                MatchValue::Exact(v) | MatchValue::Optional(Some(v)) => (v.clone(), Bits::ones(key.width)),
                MatchValue::Optional(None) => (Bits::zero(key.width), Bits::zero(key.width)),
                MatchValue::Ternary(v, m) => (v.and(m), m.clone()),
                MatchValue::Lpm(v, len) => {
                    // The lpm field is last, right-aligned in whole bytes. The padding bits before it are part of the prefix.
                    let pad = key.width.div_ceil(8) * 8 - key.width;
                    prefix_len = offset * 8 + pad + len;
                    let m = Bits::prefix_mask(key.width, *len);
                    (v.and(&m), m)
                }
                MatchValue::Range(low, high) => {
                    layout.bounds_offset?;
                    let same = (0..key.width).rev().take_while(|&bit| low.get(bit) == high.get(bit)).count();
                    for bound in [low, high] {
                        bounds.extend((bound.to_u64()? ^ sign(key)).to_ne_bytes());
                    }
                    let m = Bits::prefix_mask(key.width, same as u32);
                    (low.and(&m), m)
                }
            };
            put(&mut value, offset, &v);
            put(&mut mask, offset, &m);
        }
        Some(PackedKey { value, mask, prefix_len, bounds })
    }

    /// The match values of a packed key.
    pub fn unpack_key(&self, layout: &TableLayout, packed: &PackedKey) -> Vec<MatchValue> {
        let mut bounds = packed.bounds.chunks_exact(8);
        let mut bound = |key: &KeyField| {
            let word = bounds.next().and_then(|word| word.first_chunk()).copied().unwrap_or_default();
            Bits::new(key.width, u128::from(u64::from_ne_bytes(word) ^ sign(key)))
        };
        let field = |(key, &offset): (&KeyField, &u32)| {
            let at = |bytes: &[u8]| {
                let start = offset as usize;
                Bits::from_bytes_be(key.width, &bytes[start..start + key.width.div_ceil(8) as usize])
            };
            let (v, m) = (at(&packed.value), at(&packed.mask));
            match key.kind {
                MatchKind::Exact | MatchKind::Selector => MatchValue::Exact(v),
                MatchKind::Optional if m.is_zero() => MatchValue::Optional(None),
                MatchKind::Optional => MatchValue::Optional(Some(v)),
                MatchKind::Range if layout.bounds_offset.is_some() => {
                    MatchValue::Range(bound(key), bound(key))
                }
                MatchKind::Ternary | MatchKind::Range => MatchValue::Ternary(v, m),
                MatchKind::Lpm if layout.structure == Structure::LpmTrie => {
                    let pad = key.width.div_ceil(8) * 8 - key.width;
                    MatchValue::Lpm(v, packed.prefix_len.saturating_sub(offset * 8 + pad).min(key.width))
                }
                MatchKind::Lpm => MatchValue::Lpm(v, (0..key.width).filter(|&b| m.get(b)).count() as u32),
            }
        };
        self.keys.iter().zip(&layout.key_offsets).map(field).collect()
    }

    /// The action data of a checked call: the action number and the parameters, in native byte order. Returns `None` if the call does not
    /// fit the layout.
    pub fn pack_action(&self, layout: &TableLayout, call: &ActionCall) -> Option<Vec<u8>> {
        let action = self.action(call)?;
        let mut data = vec![0; layout.data_size as usize];
        data[..2].copy_from_slice(&u16::try_from(call.action.0).ok()?.to_ne_bytes());
        for (param, arg) in action.params.iter().zip(&call.args) {
            let size = Param::size_of(param.width) as usize;
            let start = param.offset as usize;
            let bytes = arg.to_u128()?.to_ne_bytes();
            let from = if cfg!(target_endian = "big") { 16 - size } else { 0 };
            data.get_mut(start..start + size)?.copy_from_slice(&bytes[from..from + size]);
        }
        Some(data)
    }

    /// The call in action data that [`Table::pack_action`] wrote; `None` if the data does not hold a call of this table.
    pub fn unpack_action(&self, data: &[u8]) -> Option<ActionCall> {
        let number = u16::from_ne_bytes(*data.first_chunk()?);
        let action = self.actions.get(usize::from(number))?;
        let arg = |param: &Param| {
            let size = Param::size_of(param.width) as usize;
            let mut bytes = [0; 16];
            let to = if cfg!(target_endian = "big") { 16 - size } else { 0 };
            let start = param.offset as usize;
            bytes[to..to + size].copy_from_slice(data.get(start..start + size)?);
            Some(Bits::new(param.width, u128::from_ne_bytes(bytes)))
        };
        let args = action.params.iter().map(arg).collect::<Option<_>>()?;
        Some(ActionCall { action: ActionId(number.into()), args })
    }

    /// The bytes of a map value: the priority (in a tuple space), a direct counter of zero (if there is one), the action data.
    pub fn value_of(&self, layout: &TableLayout, priority: i32, data: &[u8]) -> Option<Vec<u8>> {
        let mut value = vec![0; layout.value_size as usize];
        if layout.structure == Structure::TupleSpace {
            value[..4].copy_from_slice(&priority.to_ne_bytes());
        }
        let start = layout.data_offset as usize;
        value.get_mut(start..start + data.len())?.copy_from_slice(data);
        Some(value)
    }
}

/// What is inverted in the bounds of a range: the sign bit, so that they can be compared as unsigned numbers.
fn sign(key: &KeyField) -> u64 {
    if key.signed && key.width > 0 { 1 << (key.width - 1) } else { 0 }
}

/// Writes a field at an offset, right-aligned in whole bytes.
fn put(bytes: &mut [u8], offset: u32, value: &Bits) {
    let field = value.to_bytes_be();
    let start = offset as usize;
    bytes[start..start + field.len()].copy_from_slice(&field);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Action;

    fn table(kinds: &[(u32, MatchKind, u32)]) -> (Table, TableLayout) {
        let keys = kinds
            .iter()
            .map(|(w, k, _)| KeyField { name: "k".into(), width: *w, kind: *k, signed: false })
            .collect();
        let param = |width, offset| Param { name: "p".into(), width, offset };
        let action = Action {
            name: "set".into(),
            params: vec![param(9, 4), param(128, 16), param(1, 32)],
            default_only: false,
            table_only: false,
        };
        let layout = TableLayout {
            structure: if kinds.iter().any(|k| k.1 == MatchKind::Lpm) {
                Structure::LpmTrie
            } else {
                Structure::TupleSpace
            },
            map: None,
            tuples: None,
            default_map: None,
            key_size: kinds.iter().map(|k| k.0.div_ceil(8)).sum(),
            key_offsets: kinds.iter().map(|k| k.2).collect(),
            data_size: 48,
            register: None,
            bounds_offset: None,
            data_offset: 8,
            counter_offset: None,
            meter_offset: None,
            hit_offset: None,
            value_size: 56,
            lists: None,
            learning: None,
        };
        let table = Table {
            name: "t".into(),
            keys,
            actions: vec![action],
            size: 1024,
            default_action: None,
            const_default: false,
            const_entries: false,
            initial_entries: Vec::new(),
            direct_counter: None,
            implementation: None,
            notifies_idle: false,
            ages: false,
            direct_meter: None,
            layout: Some(layout.clone()),
        };
        (table, layout)
    }

    #[test]
    fn keys_and_actions_come_back_as_they_were() {
        let call = ActionCall {
            action: ActionId(0),
            args: vec![Bits::new(9, 300), Bits::new(128, u128::MAX - 5), Bits::new(1, 1)],
        };
        let (lpm, lpm_layout) = table(&[(20, MatchKind::Lpm, 2), (9, MatchKind::Exact, 0)]);
        let (tern, tern_layout) = table(&[(20, MatchKind::Ternary, 0), (9, MatchKind::Optional, 3)]);
        let lpm_key = vec![MatchValue::Lpm(Bits::new(20, 0xabc00), 12), MatchValue::Exact(Bits::new(9, 257))];
        let tern_key = vec![
            MatchValue::Ternary(Bits::new(20, 0xa0c00), Bits::new(20, 0xf0f00)),
            MatchValue::Optional(None),
        ];
        for (table, layout, key) in [(lpm, lpm_layout, lpm_key), (tern, tern_layout, tern_key)] {
            let packed = table.pack_key(&layout, &key).expect("packs");
            assert_eq!(table.unpack_key(&layout, &packed), key);
            let data = table.pack_action(&layout, &call).expect("packs");
            assert_eq!(table.unpack_action(&data), Some(call.clone()));
        }
    }

    #[test]
    fn an_lpm_prefix_counts_the_padding_and_the_exact_fields_before_it() {
        let (table, layout) = table(&[(9, MatchKind::Exact, 0), (20, MatchKind::Lpm, 2)]);
        let key = [MatchValue::Exact(Bits::new(9, 1)), MatchValue::Lpm(Bits::new(20, 0xfffff), 4)];
        let packed = table.pack_key(&layout, &key).expect("packs");
        assert_eq!((packed.prefix_len, packed.value), (16 + 4 + 4, vec![0, 1, 0x0f, 0, 0]));
    }
}
