//! Types in the form of P4Info.

use ir::api::{DataType, NewType, Param, SerEnum};

use super::Walk;
use super::values::bytes;
use crate::ast::{self, AnnotationBody};
use crate::check::{Named, Type, Value};

impl<'a> Walk<'_, 'a> {
    /// A type, whose declaration is added to [`ir::api::Types`].
    pub(super) fn data_type(&mut self, ty: &Type) -> DataType {
        match ty {
            Type::Bit(w) => DataType::Bit(*w),
            Type::Signed(w) => DataType::Int(*w),
            Type::Varbit(w) => DataType::Varbit(*w),
            Type::Error => self.error_type(),
            Type::Tuple(items) => DataType::Tuple(items.iter().map(|t| self.data_type(t)).collect()),
            Type::Struct(n) => {
                let name = self.generic_name(n);
                if !self.api.types.structs.contains_key(&name) {
                    let fields = self.fields_of(ty);
                    self.api.types.structs.insert(name.clone(), fields);
                }
                DataType::Struct(name)
            }
            Type::Header(n) => {
                let name = self.generic_name(n);
                if !self.api.types.headers.contains_key(&name) {
                    let mut flat = Vec::new();
                    self.flatten(ty, "", &mut flat);
                    self.api.types.headers.insert(name.clone(), flat);
                }
                DataType::Header(name)
            }
            Type::Union(n) => {
                let name = self.generic_name(n);
                let members = self.fields_of(ty).into_iter();
                let members = members.filter_map(|(field, t)| match t {
                    DataType::Header(header) => Some((field, header)),
                    _ => None,
                });
                let members = members.collect();
                self.api.types.unions.insert(name.clone(), members);
                DataType::Union(name)
            }
            Type::Stack(item, n) => match self.data_type(item) {
                DataType::Union(name) => DataType::UnionStack(name, *n),
                DataType::Header(name) => DataType::HeaderStack(name, *n),
                other => DataType::Tuple(vec![other; *n as usize]),
            },
            Type::Enum(n) => {
                let name = self.type_name(n.decl, &n.name);
                let members = self.members(n.decl).into_iter().map(|(name, _)| name).collect();
                self.api.types.enums.insert(name.clone(), members);
                DataType::Enum(name)
            }
            Type::SerEnum(n, under) => {
                let name = self.type_name(n.decl, &n.name);
                let width = under.underlying().scalar_width().unwrap_or(0);
                let members = self.members(n.decl).into_iter();
                let members = members.map(|(name, value)| {
                    (
                        name,
                        value.and_then(|v| v.as_int().cloned()).map(|v| bytes(&v, width)).unwrap_or_default(),
                    )
                });
                let made = SerEnum { width, members: members.collect() };
                self.api.types.ser_enums.insert(name.clone(), made);
                DataType::SerEnum(name)
            }
            Type::New(n, under) => {
                let name = self.type_name(n.decl, &n.name);
                let deepest = under.underlying().clone();
                let syntax = self.typed.syntax(n.decl);
                let made = NewType {
                    under: self.data_type(&deepest),
                    translation: syntax.and_then(translation),
                    annotations: syntax.map(|d| self.annotations(&d.annotations)).unwrap_or_default(),
                };
                self.api.types.new_types.insert(name.clone(), made);
                DataType::New(name)
            }
            _ => DataType::Bool,
        }
    }

    fn error_type(&mut self) -> DataType {
        let names = self.typed.errors.iter().filter_map(|e| Some(self.typed.decl(*e)?.name.to_string()));
        self.api.types.errors = Some(names.collect());
        DataType::Error
    }

    /// The name of a generic type with its type arguments, as p4c writes it.
    fn generic_name(&self, n: &Named) -> String {
        let mut name = self.type_name(n.decl, &n.name);
        let said = |d: &ast::Decl| ast::annotation(&d.annotations, "name").is_some();
        let said = self.typed.syntax(n.decl).is_some_and(said);
        for arg in n.args.iter().filter(|_| !said) {
            let text = arg.to_string();
            let text = text.chars().filter(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
            name = format!("{name}_{text}");
        }
        name
    }

    fn type_name(&self, decl: crate::check::DeclId, name: &str) -> String {
        let said = self.typed.syntax(decl).and_then(|d| ast::annotation_string(&d.annotations, "name"));
        said.map_or_else(|| name.to_string(), |s| s.trim_start_matches('.').to_string())
    }

    fn members(&self, decl: crate::check::DeclId) -> Vec<(String, Option<Value>)> {
        let members = self.typed.decl(decl).map(|d| d.members.clone()).unwrap_or_default();
        let members = members.into_iter().filter_map(|m| self.typed.decl(m));
        members.map(|m| (m.name.to_string(), m.value.clone())).collect()
    }

    fn fields_of(&mut self, ty: &Type) -> Vec<(String, DataType)> {
        let fields = self.typed.fields(ty);
        fields.into_iter().map(|(name, t, _)| (name.to_string(), self.data_type(&t))).collect()
    }

    /// The fields of a header. The fields of structs in it have names with a dot.
    fn flatten(&mut self, ty: &Type, prefix: &str, out: &mut Vec<(String, DataType)>) {
        for (name, t, _) in self.typed.fields(ty) {
            match &t {
                Type::Struct(_) => self.flatten(&t, &format!("{prefix}{name}."), out),
                _ => {
                    let bits = t.underlying().clone();
                    out.push((format!("{prefix}{name}"), self.data_type(&bits)));
                }
            }
        }
    }

    /// The name of a `type` declaration that a key, parameter or index has as its type.
    pub(super) fn new_type_name(&mut self, ty: &Type) -> Option<String> {
        match self.data_type(ty) {
            DataType::New(name) => Some(name),
            _ => None,
        }
    }

    /// The number of bits of a value in P4Runtime; 0 for a string.
    pub(super) fn width(&self, ty: &Type) -> u32 {
        match ty {
            Type::New(n, under) => match self.typed.syntax(n.decl).and_then(translation) {
                Some((_, bits)) => bits.unwrap_or(0),
                None => under.underlying().scalar_width().unwrap_or(0),
            },
            Type::Bool => 1,
            // The width in p4c.
            Type::Enum(_) => 32,
            Type::SerEnum(_, under) => under.underlying().scalar_width().unwrap_or(0),
            other => other.scalar_width().unwrap_or(0),
        }
    }

    /// A parameter of an action, or a field of a controller header.
    pub(super) fn param(&mut self, name: String, list: &[ast::Annotation], ty: &Type) -> Param {
        let type_name = match ty {
            Type::Enum(n) => {
                self.data_type(ty);
                Some(self.type_name(n.decl, &n.name))
            }
            _ => self.new_type_name(ty),
        };
        let whole =
            matches!(ty, Type::Enum(_)) || ty.has_fields() || matches!(ty, Type::Stack(..) | Type::Tuple(_));
        let width = (!whole).then(|| self.width(ty));
        Param { object: ir::api::Object { name, annotations: self.annotations(list) }, width, type_name }
    }
}

/// The URI and the width of `@p4runtime_translation("uri", bit<32>)`. The width is `None` for `string`.
fn translation(d: &ast::Decl) -> Option<(String, Option<u32>)> {
    let AnnotationBody::Unstructured(tokens) =
        &ast::annotation(&d.annotations, "p4runtime_translation")?.body
    else {
        return None;
    };
    let words: Vec<&str> = tokens.iter().map(|(t, _)| t.as_str()).collect();
    let uri = words.first()?.trim_matches('"').to_string();
    let bits = match words.get(1..)? {
        [",", "bit", "<", n, ">"] => n.parse().ok(),
        [",", n] => n.parse().ok(),
        _ => None,
    };
    Some((uri, bits))
}
