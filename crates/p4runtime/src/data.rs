//! Values of P4 types: `P4Data` from the values of a digest or a register's cell, and back (P4Runtime specification, section 8.4).

use abi::Bits;
use proto::p4::config::v1::{self as config, P4DataTypeSpec, P4Info, p4_data_type_spec::TypeSpec};
use proto::p4::v1::{self, p4_data::Data};

use super::{Status, bytes};

/// The values of the leaves of a type, in order.
pub trait Leaves {
    /// The next value. `width` is its width in bits, where the type has one.
    fn next(&mut self, width: Option<u32>) -> Option<Bits>;
}

/// The values of a digest: one for each leaf.
impl<I: Iterator<Item = Bits>> Leaves for I {
    fn next(&mut self, _width: Option<u32>) -> Option<Bits> {
        Iterator::next(self)
    }
}

/// The fields of one value, from its most significant bits on: a register's cell.
pub struct Cut {
    rest: Bits,
}

impl Cut {
    /// The fields of a value.
    pub fn of(value: Bits) -> Cut {
        Cut { rest: value }
    }
}

impl Leaves for Cut {
    fn next(&mut self, width: Option<u32>) -> Option<Bits> {
        let all = self.rest.width();
        let width = width.unwrap_or(all);
        let below = all.checked_sub(width)?;
        let value = self.rest.shr(u64::from(below)).resize(width);
        self.rest = self.rest.resize(below);
        Some(value)
    }
}

/// The most parts that a type may have, and how deep it may be.
const PARTS: usize = 4096;
const DEPTH: usize = 32;

/// Whether a type of a controller's P4Info has an end: the functions below follow its names. A type that names itself has none.
pub fn is_finite(info: &P4Info, spec: &P4DataTypeSpec) -> bool {
    has_room(info, spec, DEPTH, &mut PARTS.clone())
}

fn has_room(info: &P4Info, spec: &P4DataTypeSpec, depth: usize, parts: &mut usize) -> bool {
    let (Some(depth), Some(left)) = (depth.checked_sub(1), parts.checked_sub(1)) else { return false };
    *parts = left;
    let types = info.type_info.as_ref();
    let mut inner = |spec: &P4DataTypeSpec| has_room(info, spec, depth, parts);
    match &spec.type_spec {
        Some(TypeSpec::Tuple(tuple)) => tuple.members.iter().all(inner),
        Some(TypeSpec::Struct(named)) => {
            let found = types.and_then(|types| types.structs.get(&named.name));
            found.into_iter().flat_map(|found| &found.members).filter_map(|m| m.type_spec.as_ref()).all(inner)
        }
        Some(TypeSpec::NewType(named)) => {
            types.and_then(|types| original(types, &named.name)).is_none_or(|spec| inner(&spec))
        }
        _ => true,
    }
}

/// A value of a type, from its leaves. `None` if the type has no values in P4Runtime, or if leaves are missing.
pub fn read(info: &P4Info, spec: &P4DataTypeSpec, leaves: &mut dyn Leaves) -> Option<v1::P4Data> {
    let types = info.type_info.as_ref();
    let data = match spec.type_spec.as_ref()? {
        TypeSpec::Bitstring(bits) => match width_of(bits)? {
            (width, true) => Data::Bitstring(bytes::shortest_signed(&leaves.next(Some(width))?)),
            (width, false) => Data::Bitstring(bytes::shortest(&leaves.next(Some(width))?)),
        },
        TypeSpec::Bool(_) => Data::Bool(!leaves.next(Some(1))?.is_zero()),
        TypeSpec::Tuple(tuple) => {
            let members =
                tuple.members.iter().map(|member| read(info, member, leaves)).collect::<Option<_>>()?;
            Data::Tuple(v1::P4StructLike { members })
        }
        TypeSpec::Struct(named) => {
            let found = types?.structs.get(&named.name)?;
            let member = |m: &config::p4_struct_type_spec::Member| read(info, m.type_spec.as_ref()?, leaves);
            Data::Struct(v1::P4StructLike {
                members: found.members.iter().map(member).collect::<Option<_>>()?,
            })
        }
        TypeSpec::Header(named) => {
            let found = types?.headers.get(&named.name)?;
            let member = |m: &config::p4_header_type_spec::Member| {
                let (width, _) = width_of(m.type_spec.as_ref()?)?;
                Some(bytes::shortest(&leaves.next(Some(width))?))
            };
            let bitstrings = found.members.iter().map(member).collect::<Option<_>>()?;
            Data::Header(v1::P4Header { is_valid: true, bitstrings })
        }
        TypeSpec::Enum(named) => {
            let found = types?.enums.get(&named.name)?;
            let number = leaves.next(None)?.low_u64() as usize;
            Data::Enum(found.members.get(number)?.name.clone())
        }
        TypeSpec::Error(_) => {
            let number = leaves.next(None)?.low_u64() as usize;
            Data::Error(types?.error.as_ref()?.members.get(number)?.clone())
        }
        TypeSpec::SerializableEnum(named) => {
            let width = enum_width(types?, &named.name)?;
            Data::EnumValue(bytes::shortest(&leaves.next(Some(width))?))
        }
        TypeSpec::NewType(named) => return read(info, &original(types?, &named.name)?, leaves),
        TypeSpec::HeaderUnion(_) | TypeSpec::HeaderStack(_) | TypeSpec::HeaderUnionStack(_) => return None,
    };
    Some(v1::P4Data { data: Some(data) })
}

/// Appends a value's bits to those before it.
pub fn write(info: &P4Info, spec: &P4DataTypeSpec, data: &v1::P4Data, before: Bits) -> Result<Bits, Status> {
    let types = info.type_info.as_ref();
    let wrong = || Status::invalid("the data is not of the register's type");
    let (spec, given) = (spec.type_spec.as_ref().ok_or_else(wrong)?, data.data.as_ref().ok_or_else(wrong)?);
    let bits = match (spec, given) {
        (TypeSpec::Bitstring(bits), Data::Bitstring(given)) => match width_of(bits).ok_or_else(wrong)? {
            (width, true) => bytes::signed(given, width)?,
            (width, false) => bytes::value(given, width)?,
        },
        (TypeSpec::Bool(_), Data::Bool(given)) => Bits::bit(*given),
        (TypeSpec::SerializableEnum(named), Data::EnumValue(given)) => {
            let width = types.and_then(|t| enum_width(t, &named.name)).ok_or_else(wrong)?;
            bytes::value(given, width)?
        }
        (TypeSpec::NewType(named), _) => {
            let original = types.and_then(|t| original(t, &named.name)).ok_or_else(wrong)?;
            return write(info, &original, data, before);
        }
        (TypeSpec::Tuple(tuple), Data::Tuple(given)) if tuple.members.len() == given.members.len() => {
            let mut members = tuple.members.iter().zip(&given.members);
            return members.try_fold(before, |before, (spec, data)| write(info, spec, data, before));
        }
        (TypeSpec::Struct(named), Data::Struct(given)) => {
            let found = types.and_then(|t| t.structs.get(&named.name)).ok_or_else(wrong)?;
            if found.members.len() != given.members.len() {
                return Err(wrong());
            }
            let mut members = found.members.iter().zip(&given.members);
            return members.try_fold(before, |before, (member, data)| {
                write(info, member.type_spec.as_ref().ok_or_else(wrong)?, data, before)
            });
        }
        _ => return Err(wrong()),
    };
    Ok(before.concat(&bits))
}

/// The width of `bit<W>` or `int<W>`, and whether it has a sign. A `varbit` has no fixed width.
fn width_of(bits: &config::P4BitstringLikeTypeSpec) -> Option<(u32, bool)> {
    use config::p4_bitstring_like_type_spec::TypeSpec;
    match bits.type_spec.as_ref()? {
        TypeSpec::Bit(bit) => Some((bit.bitwidth as u32, false)),
        TypeSpec::Int(int) => Some((int.bitwidth as u32, true)),
        TypeSpec::Varbit(_) => None,
    }
}

fn enum_width(types: &config::P4TypeInfo, name: &str) -> Option<u32> {
    Some(types.serializable_enums.get(name)?.underlying_type?.bitwidth as u32)
}

/// The type on which a `type` is based. Of a translated one the values are not translated here.
fn original(types: &config::P4TypeInfo, name: &str) -> Option<P4DataTypeSpec> {
    use config::p4_new_type_spec::Representation;
    match types.new_types.get(name)?.representation.as_ref()? {
        Representation::OriginalType(spec) => Some(spec.clone()),
        Representation::TranslatedType(_) => None,
    }
}

/// The names and the widths of the leaves of a type, if all of them are numbers of a fixed width.
pub fn leaves(info: &P4Info, spec: &P4DataTypeSpec) -> Option<Vec<(String, u32)>> {
    let types = info.type_info.as_ref();
    Some(match spec.type_spec.as_ref()? {
        TypeSpec::Bitstring(bits) => vec![(String::new(), width_of(bits)?.0)],
        TypeSpec::Bool(_) => vec![(String::new(), 1)],
        TypeSpec::SerializableEnum(named) => vec![(String::new(), enum_width(types?, &named.name)?)],
        TypeSpec::NewType(named) => leaves(info, &original(types?, &named.name)?)?,
        TypeSpec::Tuple(tuple) => {
            let all = tuple.members.iter().map(|member| leaves(info, member)).collect::<Option<Vec<_>>>()?;
            all.into_iter().flatten().collect()
        }
        TypeSpec::Struct(named) => {
            let found = types?.structs.get(&named.name)?;
            let member = |m: &config::p4_struct_type_spec::Member| {
                let of = leaves(info, m.type_spec.as_ref()?)?;
                let name = |inner: String| {
                    if inner.is_empty() { m.name.clone() } else { format!("{}.{inner}", m.name) }
                };
                Some(of.into_iter().map(|(inner, width)| (name(inner), width)).collect::<Vec<_>>())
            };
            found.members.iter().map(member).collect::<Option<Vec<_>>>()?.into_iter().flatten().collect()
        }
        _ => return None,
    })
}

/// The byte strings of the leaves of a value, in order.
pub fn flatten(data: &v1::P4Data, to: &mut Vec<Vec<u8>>) {
    match &data.data {
        Some(Data::Bitstring(bytes) | Data::EnumValue(bytes)) => to.push(bytes.clone()),
        Some(Data::Bool(value)) => to.push(vec![u8::from(*value)]),
        Some(Data::Struct(of) | Data::Tuple(of)) => of.members.iter().for_each(|member| flatten(member, to)),
        Some(Data::Header(header)) => to.extend(header.bitstrings.iter().cloned()),
        _ => {}
    }
}
