//! The types of data in P4Info messages.

use ir::api::{self, DataType, NewType, Types};

use super::annotations::split;
use super::proto;
use super::proto::p4_data_type_spec::TypeSpec;

/// A reference to a type by its name.
pub fn named(name: impl Into<String>) -> proto::P4NamedType {
    proto::P4NamedType { name: name.into() }
}

/// The specification of a type.
pub fn data_type(ty: &DataType) -> proto::P4DataTypeSpec {
    let spec = match ty {
        DataType::Bit(_) | DataType::Int(_) | DataType::Varbit(_) => TypeSpec::Bitstring(bits(ty)),
        DataType::Bool => TypeSpec::Bool(proto::P4BoolType {}),
        DataType::Error => TypeSpec::Error(proto::P4ErrorType {}),
        DataType::Tuple(items) => {
            TypeSpec::Tuple(proto::P4TupleTypeSpec { members: items.iter().map(data_type).collect() })
        }
        DataType::Struct(name) => TypeSpec::Struct(named(name)),
        DataType::Header(name) => TypeSpec::Header(named(name)),
        DataType::Union(name) => TypeSpec::HeaderUnion(named(name)),
        DataType::HeaderStack(name, n) => {
            TypeSpec::HeaderStack(proto::P4HeaderStackTypeSpec { header: Some(named(name)), size: *n as i32 })
        }
        DataType::UnionStack(name, n) => TypeSpec::HeaderUnionStack(proto::P4HeaderUnionStackTypeSpec {
            header_union: Some(named(name)),
            size: *n as i32,
        }),
        DataType::Enum(name) => TypeSpec::Enum(named(name)),
        DataType::SerEnum(name) => TypeSpec::SerializableEnum(named(name)),
        DataType::New(name) => TypeSpec::NewType(named(name)),
    };
    proto::P4DataTypeSpec { type_spec: Some(spec) }
}

fn bits(ty: &DataType) -> proto::P4BitstringLikeTypeSpec {
    use proto::p4_bitstring_like_type_spec::TypeSpec;
    let spec = match ty {
        DataType::Int(w) => TypeSpec::Int(proto::P4IntTypeSpec { bitwidth: *w as i32 }),
        DataType::Varbit(w) => TypeSpec::Varbit(proto::P4VarbitTypeSpec { max_bitwidth: *w as i32 }),
        DataType::Bit(w) => TypeSpec::Bit(proto::P4BitTypeSpec { bitwidth: *w as i32 }),
        DataType::Bool
        | DataType::Error
        | DataType::Tuple(_)
        | DataType::Struct(_)
        | DataType::Header(_)
        | DataType::Union(_)
        | DataType::HeaderStack(..)
        | DataType::UnionStack(..)
        | DataType::Enum(_)
        | DataType::SerEnum(_)
        | DataType::New(_) => TypeSpec::Bit(proto::P4BitTypeSpec { bitwidth: 1 }),
    };
    proto::P4BitstringLikeTypeSpec { type_spec: Some(spec), ..Default::default() }
}

/// The definitions of all named types.
pub fn type_info(types: &Types) -> proto::P4TypeInfo {
    let structs = types.structs.iter().map(|(name, fields)| {
        let member = |(name, ty): &(String, DataType)| proto::p4_struct_type_spec::Member {
            name: name.clone(),
            type_spec: Some(data_type(ty)),
        };
        let members = fields.iter().map(member).collect();
        (name.clone(), proto::P4StructTypeSpec { members, ..Default::default() })
    });
    let headers = types.headers.iter().map(|(name, fields)| {
        let member = |(name, ty): &(String, DataType)| proto::p4_header_type_spec::Member {
            name: name.clone(),
            type_spec: Some(bits(ty)),
        };
        let members = fields.iter().map(member).collect();
        (name.clone(), proto::P4HeaderTypeSpec { members, ..Default::default() })
    });
    let unions = types.unions.iter().map(|(name, fields)| {
        let member = |(name, header): &(String, String)| proto::p4_header_union_type_spec::Member {
            name: name.clone(),
            header: Some(named(header)),
        };
        let members = fields.iter().map(member).collect();
        (name.clone(), proto::P4HeaderUnionTypeSpec { members, ..Default::default() })
    });
    let enums = types.enums.iter().map(|(name, names)| {
        let member =
            |name: &String| proto::p4_enum_type_spec::Member { name: name.clone(), ..Default::default() };
        let members = names.iter().map(member).collect();
        (name.clone(), proto::P4EnumTypeSpec { members, ..Default::default() })
    });
    let ser_enums = types.ser_enums.iter().map(|(name, api::SerEnum { width, members })| {
        let member = |(name, value): &(String, Vec<u8>)| proto::p4_serializable_enum_type_spec::Member {
            name: name.clone(),
            value: value.clone(),
            ..Default::default()
        };
        let made = proto::P4SerializableEnumTypeSpec {
            underlying_type: Some(proto::P4BitTypeSpec { bitwidth: *width as i32 }),
            members: members.iter().map(member).collect(),
            ..Default::default()
        };
        (name.clone(), made)
    });
    proto::P4TypeInfo {
        structs: structs.collect(),
        headers: headers.collect(),
        header_unions: unions.collect(),
        enums: enums.collect(),
        error: types.errors.clone().map(|members| proto::P4ErrorTypeSpec { members }),
        serializable_enums: ser_enums.collect(),
        new_types: types.new_types.iter().map(|(name, ty)| (name.clone(), new_type(ty))).collect(),
    }
}

fn new_type(ty: &NewType) -> proto::P4NewTypeSpec {
    use proto::p4_new_type_spec::Representation;
    use proto::p4_new_type_translation::{SdnString, SdnType};
    let representation = match &ty.translation {
        Some((uri, bits)) => Representation::TranslatedType(proto::P4NewTypeTranslation {
            uri: uri.clone(),
            sdn_type: Some(match bits {
                Some(w) => SdnType::SdnBitwidth(*w as i32),
                None => SdnType::SdnString(SdnString {}),
            }),
        }),
        None => Representation::OriginalType(data_type(&ty.under)),
    };
    let (annotations, structured_annotations) = split(&ty.annotations, &["p4runtime_translation"]);
    proto::P4NewTypeSpec {
        annotations,
        structured_annotations,
        annotation_locations: Vec::new(),
        representation: Some(representation),
    }
}
