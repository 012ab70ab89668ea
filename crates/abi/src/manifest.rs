//! What a compiled program has, as its host sees it, and the byte layout of its tables.
//!
//! A compiled target's manifest has a [`TableLayout`] for each table; [`crate::layout`] uses it to turn entries into the bytes of a map's
//! keys and values. The interpreter's manifest has no layouts (`layout: None`), because its host passes [`crate::Entry`] values.
//!
//! The layout rules are the same for every compiled target:
//! * A table *key* is packed. Each field takes `ceil(width / 8)` bytes in network order. Fields are in the order of the P4 key, except that
//!   an lpm field is last. The key of a Linux LPM trie begins with a 32-bit prefix length in native order.
//! * *Action data* is a C struct: a `u32` action number, then each parameter in native order at its natural alignment. A parameter takes 1,
//!   2, 4, 8 or 16 bytes, the smallest size that holds its width. The structs of a table's actions form one union.
//! * A direct counter is two `u64` (packets, bytes) before the action data.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::Bits;
use crate::entry::{ActionCall, Entry, MatchKind, MatchValue};
use crate::id::ActionId;

/// Everything that a host needs to know about a compiled program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of this format.
    pub version: u32,
    /// The P4 program's file name, without its directory and its extension.
    pub program: String,
    /// The target that the program was compiled for: `tc`, `xdp`, `native` or `interp`.
    pub target: String,
    /// Name of the entry function (for eBPF: the program's symbol).
    pub entry: String,
    /// The tables, in the order of the program.
    pub tables: Vec<Table>,
    /// The indexed counters. Direct counters belong to their tables.
    pub counters: Vec<Counter>,
    /// The register arrays.
    pub registers: Vec<Register>,
    /// The meters, indexed and direct.
    #[serde(default)]
    pub meters: Vec<Meter>,
    /// The value sets of the parser.
    #[serde(default)]
    pub value_sets: Vec<ValueSet>,
    /// The action profiles and action selectors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<ActionProfile>,
    /// The types of the digests that the program sends to the control plane.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub digests: Vec<DigestType>,
    /// The messages that the program logs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<MessageType>,
    /// The maps of a program in the kernel that belong to no table, counter or register.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelMaps>,
    /// The reasons for which packets are dropped. A reason's index is its number in the target's drop counters.
    pub drops: Vec<DropReason>,
}

/// The names of an eBPF program's maps that belong to no table, counter or register. All numbers are in native order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelMaps {
    /// The ports where packets arrive. The key is a `u32`, the index of an interface. The value is `{u32 port, u32 lane, u32 flags, u8
    /// mac[6], u16 number}`; flag 1 says that packets of a lane go to the next hop directly, flag 2 that the interface has no Ethernet
    /// header, and flag 8 that a packet that is to leave as fragments goes on unchanged. `number` is that of a lane in `lanes`.
    pub ingress: String,
    /// The same for interfaces with small indices, if the program has this array: those beyond its size are in `ingress`. Flag 4 says that the
    /// interface is a port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub near_ingress: Option<String>,
    /// The ports where packets leave. The key is a `u32`, the port. The value is `{u32 ifindex, u32 flags}`.
    pub egress: String,
    /// The number of ports where packets may leave: from 0 to this number less 1.
    pub egress_ports: u32,
    /// The drop counts. The key is a `u32`, the index of a [`DropReason`]. The value for each processor is `{u64 packets, u64 bytes}`.
    pub drops: String,
    /// The cells of all indexed counters, one counter after the other, if there are any: a program may have 64 maps. The key is a `u32`. The value for
    /// each processor is `{u64 packets, u64 bytes}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters: Option<String>,
    /// The versions of the tables. The key is a `u32`, the index of a table. The value is `{u64 writes, u32 default_action, u32 tuples}`.
    pub versions: String,
    /// The state of a packet. The key is a `u32`, 0. The value for each processor begins with the result of its last packet, `{u32 verdict, u32
    /// port, u32 reason, u32 tag}`: the verdict is 0 before the packet has been processed, 1 if it was sent, 2 if it was dropped.
    pub packet: String,
    /// The maps of groups and sessions of a program whose packets may leave several times. The verdict is then 3 when a packet and all its
    /// copies have been processed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<CopyMaps>,
    /// The ports to the host, if the program is one for PNA. The key is a `u32`, the port. The value is a `u32`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_ports: Option<String>,
    /// The maps of what packets tell the host, if they tell anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<EventMaps>,
    /// The packets of each lane, if an ingress port may be a lane: a shortcut past another interface. The key is a `u32`, the number of the
    /// lane. The value for each processor is `{u64 packets, u64 bytes}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lanes: Option<String>,
    /// Whether a packet may leave as several fragments. Its verdict is then about the last one.
    #[serde(default)]
    pub fragments: bool,
}

/// The maps of what packets tell the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventMaps {
    /// The ring buffer. Its records are digests and messages, in the form of [`crate::native::digest`].
    pub ring: String,
    /// An array with one value, `{u64 lost, u64 listens}`: the number of records for which the ring had no room, and whether the host wants
    /// messages (1, or 0).
    pub state: String,
}

/// The maps that say where copies of packets go. Each key of the first two is a `u32`, less than `numbers`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyMaps {
    /// The multicast groups. The value is a `u64`: the number of the group's list of copies in the low half, and the number of copies in it
    /// in the high half.
    pub groups: String,
    /// The mirroring sessions. The value is a `u64`: 0 for no session; otherwise the port (1 in the high half) or the multicast group (2 in
    /// the high half) in the low half.
    pub sessions: String,
    /// The copies of all lists. The key is a `u64`: the number of the list in the low half, and the place in it in the high half. The value
    /// is a `u64`: the port in the low half, and the replication id in the high half.
    pub copies: String,
    /// The number of possible groups, and of possible sessions.
    pub numbers: u32,
    /// The program at a tc hook that sends the copies of a program at the XDP hook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<Sender>,
}

/// A second program of an object for the XDP hook. It is attached to the ingress of tc of every port before the first one, and sends packets of which
/// several leave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sender {
    /// The name of the program in the object.
    pub program: String,
    /// The map of packets that are to be sent. The loader multiplies its size by the number of processors.
    pub kept: String,
    /// The number of such packets for each processor.
    pub each: u32,
}

/// An action profile or action selector: a set of actions that table entries refer to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionProfile {
    /// Full control-plane name.
    pub name: String,
    /// Largest number of members; 0 means no limit.
    pub size: u64,
    /// Whether this is an action selector, which also has groups of members.
    pub selector: bool,
}

/// The type of a digest: a notification that packets send to the control plane.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DigestType {
    /// The name of the P4 type of the data.
    pub name: String,
    /// The name and the width in bits of each value.
    pub fields: Vec<(String, u32)>,
}

impl DigestType {
    /// The values that a program packed: `ceil(width / 8)` bytes each in network order. `None` if there are too few bytes.
    pub fn unpack(&self, packed: &[u8]) -> Option<Vec<Bits>> {
        unpack(self.fields.iter().map(|(_, width)| *width), packed)
    }
}

/// A message that the program logs (v1model's `log_msg`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MessageType {
    /// The text, with `{}` for each value.
    pub format: String,
    /// The width in bits of each value.
    pub widths: Vec<u32>,
    /// The place of the statement in the P4 source as `file:line`.
    pub location: Option<String>,
}

impl MessageType {
    /// The values that a program packed, as in [`DigestType::unpack`].
    pub fn unpack(&self, packed: &[u8]) -> Option<Vec<Bits>> {
        unpack(self.widths.iter().copied(), packed)
    }

    /// The text with its values.
    pub fn text(&self, values: &[Bits]) -> String {
        let mut pieces = self.format.split("{}");
        let mut text = pieces.next().unwrap_or_default().to_string();
        for (piece, value) in pieces.zip(values) {
            text.push_str(&value.to_string());
            text.push_str(piece);
        }
        text
    }
}

fn unpack(widths: impl Iterator<Item = u32>, mut packed: &[u8]) -> Option<Vec<Bits>> {
    let value = |width: u32| {
        let (bytes, rest) = packed.split_at_checked(width.div_ceil(8) as usize)?;
        packed = rest;
        Some(Bits::from_bytes_be(width, bytes))
    };
    widths.map(value).collect()
}

/// A parser value set: the values that a `select` compares with, set by a controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueSet {
    /// Full control-plane name.
    pub name: String,
    /// Largest number of members.
    pub size: u64,
    /// The fields of a member. If members are plain values, there is one field with an empty name.
    pub keys: Vec<KeyField>,
    /// The name of the eBPF map: an array with three values of the same size. The first `u64` of element 0 is the number of the element in use, 1 or 2,
    /// or 0 for an empty set. That element has the number of members (a `u64`), then four words for each field of each member
    /// ([`KeyField::member_words`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map: Option<String>,
}

/// A match-action table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Full control-plane name, such as `MyIngress.ipv4_lpm`.
    pub name: String,
    /// Key fields in P4 order.
    pub keys: Vec<KeyField>,
    /// The actions that an entry or the default action may call. An action's index is its number in the action data.
    pub actions: Vec<Action>,
    /// Largest number of entries.
    pub size: u64,
    /// The action that runs on a miss until a controller sets another one.
    pub default_action: Option<ActionCall>,
    /// Whether the default action is const: a controller cannot change it.
    pub const_default: bool,
    /// Whether the entries are const: a controller can neither change nor add entries.
    pub const_entries: bool,
    /// The entries that the program declares. The host inserts them, unless they are code ([`Table::is_code`]).
    pub initial_entries: Vec<Entry>,
    /// The name of the direct counter, if the table has one.
    pub direct_counter: Option<String>,
    /// The name of the action profile or selector, if the table has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub implementation: Option<String>,
    /// Whether the table has idle timeouts: the control plane may ask to be notified of entries that no packet hits.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub notifies_idle: bool,
    /// Whether entries that packets added are removed when their time has passed (PNA).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ages: bool,
    /// The name of the direct meter, if the table has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direct_meter: Option<String>,
    /// How a compiled target stores the table; `None` for the interpreter.
    pub layout: Option<TableLayout>,
}

/// One field of a table's key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyField {
    /// Control-plane name, such as `hdr.ipv4.dstAddr`.
    pub name: String,
    /// Width in bits.
    pub width: u32,
    /// How the field is compared with an entry.
    pub kind: MatchKind,
    /// Its values are `int<W>`: ranges compare them as signed numbers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub signed: bool,
}

impl KeyField {
    /// This field of a value set's member as four words: value and mask, or the lowest and highest value of a range. Each takes two words,
    /// the low word first. The field has at most 128 bits.
    pub fn member_words(&self, part: &MatchValue) -> [u64; 4] {
        let (a, b) = match self.unsigned(part) {
            MatchValue::Exact(v) | MatchValue::Optional(Some(v)) => (v, Bits::ones(self.width)),
            MatchValue::Optional(None) => (Bits::zero(self.width), Bits::zero(self.width)),
            MatchValue::Lpm(v, len) => {
                let mask = Bits::prefix_mask(self.width, len);
                (v.and(&mask), mask)
            }
            MatchValue::Ternary(v, mask) => (v.and(&mask), mask),
            MatchValue::Range(low, high) => (low, high),
        };
        let [a, b] = [a, b].map(|v| v.to_u128().unwrap_or(u128::MAX));
        [a as u64, (a >> 64) as u64, b as u64, (b >> 64) as u64]
    }

    /// The part of a member with these words, which [`KeyField::member_words`] made.
    pub fn member_part(&self, words: [u64; 4]) -> MatchValue {
        let bits = |low: u64, high: u64| Bits::new(self.width, u128::from(high) << 64 | u128::from(low));
        let (a, b) = (bits(words[0], words[1]), bits(words[2], words[3]));
        match self.kind {
            MatchKind::Lpm => {
                let length = (words[2].count_ones() + words[3].count_ones()).min(self.width);
                MatchValue::Lpm(a, length)
            }
            MatchKind::Ternary => MatchValue::Ternary(a, b),
            MatchKind::Range => self.unsigned(&MatchValue::Range(a, b)),
            MatchKind::Optional => {
                MatchValue::Optional((self.width == 0 || words[2..] != [0, 0]).then_some(a))
            }
            MatchKind::Exact | MatchKind::Selector => MatchValue::Exact(a),
        }
    }

    /// Whether a key satisfies this field of an entry.
    pub fn matches(&self, value: &MatchValue, key: &Bits) -> bool {
        if let MatchValue::Range(lo, hi) = value
            && self.signed
        {
            lo.cmp_signed(key).is_le() && key.cmp_signed(hi).is_le()
        } else {
            value.matches(key)
        }
    }

    /// A value of an entry as a target stores it that compares unsigned numbers only: the ends of a signed range with their signs
    /// exchanged, which puts signed numbers in the order of unsigned ones. Done twice it is undone. The same is done to the key.
    pub fn unsigned(&self, value: &MatchValue) -> MatchValue {
        if let MatchValue::Range(lo, hi) = value
            && self.signed
            && self.width > 0
        {
            let sign = Bits::new(1, 1).resize(self.width).shl(u64::from(self.width) - 1);
            MatchValue::Range(lo.xor(&sign), hi.xor(&sign))
        } else {
            value.clone()
        }
    }
}

/// An action as a table sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Action {
    /// Full control-plane name.
    pub name: String,
    /// The parameters that the control plane provides.
    pub params: Vec<Param>,
    /// Whether only the default action may call it (`@defaultonly`).
    pub default_only: bool,
    /// Whether only entries may call it (`@tableonly`).
    pub table_only: bool,
}

/// A parameter of an action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Param {
    /// The name in the P4 program, without the action's name.
    pub name: String,
    /// Width in bits.
    pub width: u32,
    /// Offset in bytes in the action data of a compiled target; 0 for the interpreter.
    pub offset: u32,
}

impl Param {
    /// The number of bytes that a value of `width` bits takes in action data: 1, 2, 4, 8 or 16.
    pub fn size_of(width: u32) -> u32 {
        match width {
            0..=8 => 1,
            9..=16 => 2,
            17..=32 => 4,
            33..=64 => 8,
            _ => 16,
        }
    }
}

impl Table {
    /// Whether each entry has a cell: an index in the direct counter, the direct meter and the last hits.
    pub fn has_cells(&self) -> bool {
        self.direct_counter.is_some() || self.direct_meter.is_some() || self.notifies_idle
    }
}

/// Where the direct register of an entry is in its action data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterPlace {
    /// Offset in bytes.
    pub offset: u32,
    /// Size in bytes: 1, 2, 4 or 8.
    pub size: u32,
}

impl RegisterPlace {
    /// The bytes that it takes.
    fn range(self) -> std::ops::Range<usize> {
        self.offset as usize..(self.offset + self.size) as usize
    }

    /// The register in action data, or `None` if the data is too short.
    pub fn read(self, data: &[u8]) -> Option<u64> {
        let mut bytes = [0; 8];
        let from = if cfg!(target_endian = "big") { 8 - self.size as usize } else { 0 };
        bytes[from..from + self.size as usize].copy_from_slice(data.get(self.range())?);
        Some(u64::from_ne_bytes(bytes))
    }

    /// Writes the register into action data. Returns `None` if the data is too short.
    pub fn write(self, data: &mut [u8], value: u64) -> Option<()> {
        let from = if cfg!(target_endian = "big") { 8 - self.size as usize } else { 0 };
        data.get_mut(self.range())?.copy_from_slice(&value.to_ne_bytes()[from..from + self.size as usize]);
        Some(())
    }
}

/// A meter: an array of cells, each of which gives packets a colour by their rate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meter {
    /// Full control-plane name.
    pub name: String,
    /// Number of cells; `None` for a direct meter, which has a cell for each entry of its table.
    pub size: Option<u64>,
    /// The name of the map of cells on kernel targets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map: Option<String>,
}

/// How a compiled target finds an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Structure {
    /// The table has no key, so only its default action runs. It has no map of entries.
    Keyless,
    /// The key, of at most two bytes, is the index into an array: the packed key as a number. On eBPF an element is a `u64` and two copies of
    /// the action data. Bit 0 of the word is the number of the copy that counts, bit 1 says whether there is an entry, and the rest of it
    /// grows with each write.
    Array,
    /// A hash table finds the whole key.
    Hash,
    /// A hash table of a fixed size finds the whole key. Packets may add entries to it (PNA's `add_on_miss`).
    Flow,
    /// A longest-prefix-match trie finds the key. The lpm field is last in the key.
    LpmTrie,
    /// Tuple-space search. A list of masks is ordered by the best priority of each. On eBPF one hash table holds all entries: its key is
    /// `{u32 tuple, masked key}`, and its values begin with an `i32` priority (padded to 8 bytes).
    TupleSpace,
    /// The entries are const and compiled into code; there is no map.
    Code,
}

/// The maps and the byte layout of a compiled table. The native target has no maps and ignores their names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableLayout {
    /// The structure that finds an entry.
    pub structure: Structure,
    /// The name of the map of entries, if there is one.
    pub map: Option<String>,
    /// For [`Structure::TupleSpace`]: the array of tuples, and how many a version of it may hold. Each element is
    /// `{i32 best_priority, u32 tuple, u8 mask[key_size]}` padded to a multiple of 8 bytes; the tuple's number is at least 1 and
    /// begins the keys of its entries. There are [`VERSIONS`] versions one after the other; after the last tuple of each
    /// comes an element of zeros.
    pub tuples: Option<(String, u32)>,
    /// Name of the array map that holds [`VERSIONS`] versions of the default action's data, of which one counts.
    pub default_map: Option<String>,
    /// Size of the packed key in bytes, without the LPM trie's prefix length or the tuple number.
    pub key_size: u32,
    /// The offset in bytes of each P4 key field in the packed key.
    pub key_offsets: Vec<u32>,
    /// Size in bytes of the action data at the end of a value.
    pub data_size: u32,
    /// Where the direct register is in the action data, if the table has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub register: Option<RegisterPlace>,
    /// For a [`Structure::TupleSpace`] with range keys on eBPF: offset in the action data of the bounds. Those of a range key are two `u64`, the lowest
    /// and the highest value of the field. The sign bit of signed values is inverted. Mask and key have the leading bits that both bounds
    /// have in common, and several tuples may have the same mask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounds_offset: Option<u32>,
    /// Offset in bytes of the action data in a value. The priority and the direct counter come before it.
    pub data_offset: u32,
    /// Offset in bytes of the direct counter in a value, if there is one.
    pub counter_offset: Option<u32>,
    /// Kernel targets: offset in bytes of the number of the entry's meter cell (a `u32`) in a value, if the table has a direct meter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meter_offset: Option<u32>,
    /// For eBPF: offset in bytes of the time of the entry's last hit in a value, if the table tells of idle entries. It is a `u64` in microseconds
    /// of the kernel's monotonic clock, up to [`HIT`] microseconds too early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hit_offset: Option<u32>,
    /// Size of a whole value in bytes.
    pub value_size: u32,
    /// Kernel targets, for a table with an action profile: the map of the lists of actions that entries may run. The action data of an
    /// entry is then the number of its list and the number of actions in it (a `u32` each). The key of an action is the list's number and
    /// its place in the list (a `u32` each), and its value is the action data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lists: Option<String>,
    /// For [`Structure::Flow`] on eBPF: the rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learning: Option<LearningMaps>,
}

/// The maps of a table that learns, on eBPF. The map of entries has a `u32` as its value, the number of a row, padded to 8 bytes. The row has
/// the value that [`TableLayout`] describes, and before it a timer of 8 bytes ([`crate::native::flow`]). Row 0 is not used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LearningMaps {
    /// The name of the array of rows, which can be mapped into memory.
    pub rows: String,
    /// The number of rows.
    pub count: u32,
    /// The name of the queue of free rows.
    pub free: String,
    /// Offset in bytes of the packed key in a row.
    pub key_offset: u32,
}

/// How precise the time of an entry's last hit is on eBPF, in microseconds. Packets that hit an entry in between do not write it, so that
/// processors do not contend for its cache line.
pub const HIT: u64 = 1000;

/// Versions that arrays of tuples and of default actions have on tc. A version that packets may still read is not written, so
/// more versions mean fewer grace periods to wait for.
pub const VERSIONS: u32 = 32;

/// An indexed counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    /// Full control-plane name.
    pub name: String,
    /// Number of cells.
    pub size: u64,
    /// On eBPF: the element of [`KernelMaps::counters`] that is its first cell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<u64>,
}

/// A register array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Register {
    /// Full control-plane name.
    pub name: String,
    /// Number of cells.
    pub size: u64,
    /// Width of a cell in bits.
    pub width: u32,
    /// The value of all cells at the start; zero if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial: Option<Bits>,
    /// The name of the eBPF map: an array of `u64`, or of two of them (the low one first) if a cell has more than 64 bits.
    pub map: Option<String>,
}

/// A reason for which packets are dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropReason {
    /// The control-plane name of the action or control that drops, or one of [`crate::drops`].
    pub name: String,
    /// One sentence that explains the reason to an operator.
    pub help: String,
    /// The place in the P4 source as `file:line`, if a P4 statement drops.
    pub location: Option<String>,
}

/// Why a table does not accept an entry or a default action. The error text explains each variant's fields.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum EntryError {
    /// There is no table of this name.
    #[error("there is no table `{0}`")]
    NoTable(String),
    /// The table has no action with this number.
    #[error("table `{table}` has no action number {action}; it has {known}")]
    NoAction { table: String, action: ActionId, known: String },
    /// The action is `@defaultonly` or `@tableonly`, and was used in the other place.
    #[error("action `{action}` of table `{table}` is {only}")]
    ActionPlace { table: String, action: String, only: &'static str },
    /// The entry has the wrong number of key fields, or the call has the wrong number of arguments.
    #[error("{what} takes {expected} {unit}, not {found}")]
    Count { what: String, expected: usize, unit: &'static str, found: usize },
    /// A match value has the wrong kind, the wrong width, or a prefix longer than the field.
    #[error("key `{key}` of table `{table}`: {problem}")]
    Key { table: String, key: String, problem: String },
    /// An argument does not have the width of its parameter.
    #[error("argument `{param}` of action `{action}` has {found} bits, not {expected}")]
    Arg { action: String, param: String, expected: u32, found: u32 },
    /// The table's entries are const.
    #[error("table `{0}` has const entries, which cannot be changed")]
    ConstEntries(String),
    /// The table's default action is const.
    #[error("table `{0}` has a const default action, which cannot be changed")]
    ConstDefault(String),
}

impl Manifest {
    /// The table with this full control-plane name.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|t| t.name == name)
    }

    /// Gives a table another size than its program declares. The program must be loaded with this manifest.
    pub fn resize(&mut self, name: &str, size: u64) -> bool {
        let Some(table) = self.tables.iter_mut().find(|t| t.name == name) else { return false };
        table.size = size;
        if let Some(learning) = table.layout.as_mut().and_then(|layout| layout.learning.as_mut()) {
            learning.count = learning_rows(size);
        }
        true
    }
}

/// The number of rows of a table that learns on eBPF: a row of a removed entry awaits its grace period.
pub fn learning_rows(size: u64) -> u32 {
    (size + size / 4 + 64) as u32
}

impl Table {
    /// A call of the action with this full control-plane name; `None` if the table has no such action.
    pub fn call(&self, action: &str, args: Vec<Bits>) -> Option<ActionCall> {
        Some(ActionCall { action: self.action_id(action)?, args })
    }

    /// The action that a call names.
    pub fn action(&self, call: &ActionCall) -> Option<&Action> {
        self.actions.get(call.action.index())
    }

    /// The call as another table numbers its actions; `None` if the other table has no action of this name.
    pub fn call_for(&self, other: &Table, call: &ActionCall) -> Option<ActionCall> {
        other.call(&self.action(call)?.name, call.args.clone())
    }

    /// What distinguishes an entry from others: its match, don't-care bits zero, and its priority if the table uses priorities (0 otherwise).
    pub fn identity(&self, entry: &Entry) -> (Vec<MatchValue>, i32) {
        let priority = if self.needs_priority() { entry.priority } else { 0 };
        (entry.matches.iter().map(MatchValue::canonical).collect(), priority)
    }

    /// Whether the entries are const and compiled into the program. There is nothing to insert, and what they are stands in the manifest only.
    pub fn is_code(&self) -> bool {
        self.layout.as_ref().is_some_and(|layout| layout.structure == Structure::Code)
    }

    /// Whether entries are ordered by priority.
    pub fn needs_priority(&self) -> bool {
        self.keys.iter().any(|k| k.kind.needs_priority())
    }

    /// The rank of an entry. Of several matching entries, the one with the largest rank wins; of equal ranks the oldest entry wins.
    ///
    /// In a table with ternary, range or optional keys the rank is the priority; prefix lengths do not count there, as in BMv2. In other
    /// tables it is the sum of the prefix lengths. With one lpm key that is longest-prefix match. P4-16 leaves several lpm keys to the
    /// architecture, and BMv2 refuses them; here the longest total wins.
    pub fn rank(&self, entry: &Entry) -> i64 {
        if self.needs_priority() {
            return entry.priority as i64;
        }
        let lens = entry.matches.iter().map(|m| match m {
            MatchValue::Lpm(_, len) => *len as i64,
            MatchValue::Exact(_)
            | MatchValue::Ternary(..)
            | MatchValue::Range(..)
            | MatchValue::Optional(_) => 0,
        });
        lens.sum()
    }

    /// Checks an entry that a controller adds: its action, and the number, kinds and widths of its values. Every target calls this before
    /// it writes the entry.
    pub fn check_entry(&self, entry: &Entry) -> Result<(), EntryError> {
        if self.const_entries {
            return Err(EntryError::ConstEntries(self.name.clone()));
        }
        self.check_shape(entry)
    }

    /// Does the checks of [`Table::check_entry`], but also accepts entries of a table with const entries: those that the program declares.
    pub fn check_shape(&self, entry: &Entry) -> Result<(), EntryError> {
        self.check_matches(&entry.matches)?;
        self.check_action(&entry.action, false)
    }

    /// Checks the number, kinds and widths of an entry's match values.
    pub fn check_matches(&self, matches: &[MatchValue]) -> Result<(), EntryError> {
        if matches.len() != self.keys.len() {
            return Err(EntryError::Count {
                what: format!("table `{}`", self.name),
                expected: self.keys.len(),
                unit: "key fields",
                found: matches.len(),
            });
        }
        self.keys.iter().zip(matches).try_for_each(|(key, value)| self.check_match(key, value))
    }

    /// Checks a call in an entry, or (`as_default`) in the default action.
    pub fn check_action(&self, call: &ActionCall, as_default: bool) -> Result<(), EntryError> {
        let Some(action) = self.action(call) else {
            let known = self.actions.iter().map(|a| a.name.as_str()).collect::<Vec<_>>().join(", ");
            return Err(EntryError::NoAction { table: self.name.clone(), action: call.action, known });
        };
        let misplaced = match as_default {
            true => action.table_only.then_some("for entries only"),
            false => action.default_only.then_some("for the default action only"),
        };
        if let Some(only) = misplaced {
            return Err(EntryError::ActionPlace {
                table: self.name.clone(),
                action: action.name.clone(),
                only,
            });
        }
        if call.args.len() != action.params.len() {
            return Err(EntryError::Count {
                what: format!("action `{}`", action.name),
                expected: action.params.len(),
                unit: "arguments",
                found: call.args.len(),
            });
        }
        match action.params.iter().zip(&call.args).find(|(p, a)| p.width != a.width()) {
            None => Ok(()),
            Some((param, arg)) => Err(EntryError::Arg {
                action: action.name.clone(),
                param: param.name.clone(),
                expected: param.width,
                found: arg.width(),
            }),
        }
    }

    fn check_match(&self, key: &KeyField, value: &MatchValue) -> Result<(), EntryError> {
        let bad =
            |problem: String| EntryError::Key { table: self.name.clone(), key: key.name.clone(), problem };
        let width_is = |v: &Bits| match v.width() == key.width {
            true => Ok(()),
            false => Err(bad(format!("the value has {} bits, not {}", v.width(), key.width))),
        };
        match (key.kind, value) {
            (MatchKind::Exact, MatchValue::Exact(v))
            | (MatchKind::Optional, MatchValue::Optional(Some(v))) => width_is(v),
            (MatchKind::Optional, MatchValue::Optional(None)) => Ok(()),
            (MatchKind::Lpm, MatchValue::Lpm(v, len)) => {
                width_is(v)?;
                match *len <= key.width {
                    true => Ok(()),
                    false => Err(bad(format!("a prefix of {len} bits in a field of {}", key.width))),
                }
            }
            (MatchKind::Ternary, MatchValue::Ternary(v, m)) | (MatchKind::Range, MatchValue::Range(v, m)) => {
                width_is(v)?;
                width_is(m)
            }
            (kind, _) => Err(bad(
                format!("it is matched as {kind:?}, and the value is of another kind").to_lowercase()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_of_a_value_set_is_what_its_words_say() {
        let bits = |width, value: u128| Bits::new(width, value);
        let parts = [
            (MatchKind::Exact, false, MatchValue::Exact(bits(128, 7 << 100))),
            (MatchKind::Ternary, false, MatchValue::Ternary(bits(12, 0xa00), bits(12, 0xf0f))),
            (MatchKind::Lpm, false, MatchValue::Lpm(bits(128, 5 << 120), 70)),
            (MatchKind::Lpm, false, MatchValue::Lpm(bits(16, 0), 0)),
            (MatchKind::Range, false, MatchValue::Range(bits(65, 1), bits(65, 1 << 64))),
            (MatchKind::Range, true, MatchValue::Range(bits(8, 0xf0), bits(8, 0x10))),
            (MatchKind::Optional, false, MatchValue::Optional(None)),
            (MatchKind::Optional, false, MatchValue::Optional(Some(bits(9, 0)))),
        ];
        for (kind, signed, part) in parts {
            let width = part.width().unwrap_or(9);
            let key = KeyField { name: "k".to_string(), width, kind, signed };
            assert_eq!(key.member_part(key.member_words(&part)), part);
        }
    }
}
