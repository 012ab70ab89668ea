//! Types as written to types as meant; constants.

use std::rc::Rc;

use num_bigint::BigInt;
use num_traits::ToPrimitive;

use super::scope::{Binding, Env, Scope};
use super::types::{EnumT, FieldT, StructT, T, Val, from_bits};
use super::{Lower, Res};
use crate::ast::{self, TypeKind};
use crate::diag::{Diagnostic, did_you_mean};
use crate::source::Span;

impl<'a> Lower<'a, '_> {
    /// The type that is written there.
    pub(super) fn ty(&mut self, ty: &'a ast::Type, env: &Env<'a>) -> Res<T> {
        Ok(match &ty.kind {
            TypeKind::Bool => T::Bool,
            TypeKind::Error => T::Error,
            TypeKind::String => T::Str,
            TypeKind::Void => T::Void,
            TypeKind::Int => T::Integer,
            TypeKind::Bit(None) => T::Bit(1),
            TypeKind::Bit(Some(width)) => T::Bit(self.width(width, env)?),
            TypeKind::SignedInt(width) => T::Int(self.width(width, env)?),
            TypeKind::Varbit(width) => T::Varbit(self.width(width, env)?),
            TypeKind::Tuple(items) => {
                T::Tuple(Rc::new(items.iter().map(|t| self.ty(t, env)).collect::<Res<Vec<_>>>()?))
            }
            TypeKind::Stack { element, size } => {
                let element = self.ty(element, env)?;
                let size = self.width(size, env)?;
                T::Stack(Rc::new(element), size)
            }
            TypeKind::Named { name, args, .. } => {
                let args = args.iter().map(|t| self.ty(t, env)).collect::<Res<Vec<_>>>()?;
                return self.named_type(name, args, env);
            }
            TypeKind::List(_) => return self.not_yet(ty.span, "`list`"),
            TypeKind::MatchKind => {
                return self.error("E0503", ty.span, "there are no values of type match_kind here");
            }
            TypeKind::DontCare => return self.not_yet(ty.span, "inferring this type argument"),
        })
    }

    fn width(&mut self, expr: &'a ast::Expr, env: &Env<'a>) -> Res<u32> {
        match self.integer(expr, env)?.to_u32() {
            Some(width) if width <= 1 << 20 => Ok(width),
            _ => self.error("E0503", expr.span, "this width or size is not a sensible number"),
        }
    }

    /// A number that is known when compiled.
    pub(super) fn integer(&mut self, expr: &'a ast::Expr, env: &Env<'a>) -> Res<BigInt> {
        match self.expr(expr, env, None)? {
            Val::Integer(value) => Ok(value),
            Val::Scalar(e, ty) if e.as_const().is_some() => {
                let signed = ty.underlying() == &T::Int(e.ty.width());
                Ok(e.as_const().map(|v| from_bits(v, signed)).unwrap_or_default())
            }
            _ => self.error_hint(
                "E0503",
                expr.span,
                "this is not known when the program is compiled",
                "widths, sizes and the like are constants or constructor parameters",
            ),
        }
    }

    fn named_type(&mut self, name: &'a ast::Name, args: Vec<T>, env: &Env<'a>) -> Res<T> {
        match env.get(&name.text) {
            Some(Binding::Alias(ty)) => Ok(ty),
            Some(Binding::Type(decl)) => self.declared_type(decl, args, name),
            Some(_) => {
                let message = format!("`{}` is not a type", name.text);
                self.error("E0503", name.span, message)
            }
            None => self.unknown_type(name, env),
        }
    }

    fn unknown_type(&mut self, name: &ast::Name, env: &Env<'a>) -> Res<T> {
        let d = Diagnostic::error("E0503", name.span, format!("there is no type `{}`", name.text));
        let known = env.names();
        let d = match (name.text.as_str(), did_you_mean(&name.text, known)) {
            ("uint8_t" | "u8" | "byte" | "char", _) => d.hint("write `bit<8>`"),
            ("uint16_t" | "u16" | "short", _) => d.hint("write `bit<16>`"),
            ("uint32_t" | "u32" | "unsigned", _) => d.hint("write `bit<32>`"),
            ("uint64_t" | "u64" | "long", _) => d.hint("write `bit<64>`"),
            (_, Some(near)) => d.hint(format!("did you mean `{near}`?")),
            _ => d.hint("types are declared before they are used; is an `#include` missing?"),
        };
        self.report(d)
    }

    /// The type that a declaration without type arguments declares.
    pub(super) fn declared(&mut self, decl: &'a ast::Decl, at: &ast::Name) -> Res<T> {
        self.declared_type(decl, Vec::new(), at)
    }

    fn declared_type(&mut self, decl: &'a ast::Decl, args: Vec<T>, at: &ast::Name) -> Res<T> {
        use ast::DeclKind::*;
        let shown: Vec<_> = args.iter().map(T::to_string).collect();
        let key = (decl as *const ast::Decl, shown.join(","));
        if let Some(known) = self.struct_cache.get(&key) {
            return Ok(known.clone());
        }
        let name =
            if shown.is_empty() { decl.name.text.clone() } else { format!("{}<{}>", decl.name.text, key.1) };
        let env = Scope::new(Some(self.global.clone()));
        if let Struct { type_params, .. } | Header { type_params, .. } | HeaderUnion { type_params, .. } =
            &decl.kind
        {
            if type_params.len() != args.len() {
                let message = format!(
                    "`{}` takes {} type arguments, not {}",
                    decl.name.text,
                    type_params.len(),
                    args.len()
                );
                return self.error("E0503", at.span, message);
            }
            for (param, arg) in type_params.iter().zip(&args) {
                env.bind(&param.name.text, Binding::Alias(arg.clone()));
            }
        }
        let ty = match &decl.kind {
            Typedef(ty) => self.ty(ty, &env)?,
            NewType(ty) => T::New(Rc::from(decl.name.text.as_str()), Rc::new(self.ty(ty, &env)?)),
            Struct { fields, .. } => T::Struct(self.fields(name, fields, &env)?),
            Header { fields, .. } => {
                let s = self.fields(name, fields, &env)?;
                self.check_header(decl, &s)?;
                T::Header(s)
            }
            Enum { members } => T::Enum(Rc::new(EnumT {
                name,
                members: members.iter().map(|m| m.name.text.clone()).collect(),
                values: Vec::new(),
            })),
            SerEnum { ty, members } => {
                let under = self.ty(ty, &env)?;
                let mut values = Vec::new();
                for member in members {
                    match &member.value {
                        Some(value) => values.push(self.integer(value, &env)?),
                        None => {
                            let hint = format!("write `{} = 1`", member.name.text);
                            return self.error_hint(
                                "E0503",
                                member.name.span,
                                "a member without its value",
                                hint,
                            );
                        }
                    }
                }
                let members = members.iter().map(|m| m.name.text.clone()).collect();
                T::SerEnum(Rc::new(EnumT { name, members, values }), Rc::new(under))
            }
            Extern { .. } => match decl.name.text.as_str() {
                "packet_in" => T::PacketIn,
                "packet_out" => T::PacketOut,
                other => T::Extern(Rc::from(other), Rc::new(args)),
            },
            HeaderUnion { fields, .. } => T::Union(self.fields(name, fields, &env)?),
            _ => return self.error("E0503", at.span, format!("`{}` is not a type of values", at.text)),
        };
        self.struct_cache.insert(key, ty.clone());
        Ok(ty)
    }

    fn fields(&mut self, name: String, fields: &'a [ast::FieldDecl], env: &Env<'a>) -> Res<Rc<StructT>> {
        let mut list: Vec<FieldT> = Vec::new();
        for field in fields {
            let ty = self.ty(&field.ty, env)?;
            if list.iter().any(|f| f.name == field.name.text) {
                let message = format!("`{name}` has two fields `{}`", field.name.text);
                return self.error("E0503", field.name.span, message);
            }
            let checksum_nonzero = ast::annotation(&field.annotations, "checksum_nonzero").is_some();
            let field_lists = match ast::annotation(&field.annotations, "field_list") {
                Some(annotation) => self.field_lists(annotation, env)?,
                None => Vec::new(),
            };
            let match_kind = match ast::annotation(&field.annotations, "match").map(|a| &a.body) {
                Some(ast::AnnotationBody::Unstructured(tokens)) => match tokens.as_slice() {
                    [(kind, span)] => Some(self.match_kind(kind, *span)?),
                    _ => None,
                },
                _ => None,
            };
            let name = field.name.text.clone();
            list.push(FieldT { name, ty, checksum_nonzero, field_lists, match_kind });
        }
        Ok(Rc::new(StructT { name, fields: list }))
    }

    /// The numbers of `@field_list(1, TWO)`.
    fn field_lists(&mut self, annotation: &'a ast::Annotation, env: &Env<'a>) -> Res<Vec<u64>> {
        let ast::AnnotationBody::Unstructured(tokens) = &annotation.body else {
            return self.error_hint("E0503", annotation.span, "which field lists?", "write `@field_list(1)`");
        };
        let mut lists = Vec::new();
        for item in tokens.split(|(text, _)| text == ",") {
            let Some((text, span)) = item.first() else { continue };
            let known = match (env.get(text), item.get(2)) {
                (Some(Binding::Value(Val::Integer(n))), None) => n.to_u64(),
                (Some(Binding::Value(Val::Scalar(e, _))), None) => e.as_const().and_then(|v| v.to_u64()),
                (Some(Binding::Type(decl)), Some((member, _))) => self.member_number(decl, member, *span)?,
                _ => text.rsplit('w').next().and_then(|digits| digits.parse().ok()),
            };
            match known {
                Some(number) => lists.push(number),
                None => {
                    return self.error("E0503", *span, format!("`{text}` is not the number of a field list"));
                }
            }
        }
        Ok(lists)
    }

    /// The number of an enum's member.
    fn member_number(&mut self, decl: &'a ast::Decl, member: &str, span: Span) -> Res<Option<u64>> {
        let name = ast::Name { text: decl.name.text.clone(), span };
        let number = match self.declared(decl, &name)? {
            T::Enum(en) => en.members.iter().position(|m| m == member).map(|i| i as u64),
            T::SerEnum(en, _) => {
                let at = en.members.iter().position(|m| m == member);
                at.and_then(|at| en.values[at].to_u64())
            }
            _ => None,
        };
        Ok(number)
    }

    fn check_header(&mut self, decl: &ast::Decl, s: &StructT) -> Res<()> {
        let mut bits = 0;
        for (name, field) in s.scalars() {
            match field.ty.ir() {
                Some(ir::Ty::Varbit(_)) => {}
                Some(ty) => bits += ty.width(),
                None => {
                    let message = format!("field `{}` of header `{}` is a {}", name, s.name, field.ty);
                    let hint = "a header's fields are bits, bools and varbits";
                    return self.error_hint("E0503", decl.name.span, message, hint);
                }
            }
        }
        if bits % 8 != 0 {
            let message =
                format!("header `{}` has {bits} bits, which is not a whole number of bytes", s.name);
            let hint = format!("add a field of {} bits", 8 - bits % 8);
            return self.error_hint("E0503", decl.name.span, message, hint);
        }
        Ok(())
    }

    /// The value of a `const`.
    pub(super) fn constant(&mut self, ty: &'a ast::Type, value: &'a ast::Expr, env: &Env<'a>) -> Res<Val> {
        let ty = self.ty(ty, env)?;
        let val = self.expr(value, env, Some(&ty))?;
        let val = self.convert(val, &ty, value.span)?;
        let known = match &val {
            Val::Scalar(e, _) => e.as_const().is_some(),
            _ => true,
        };
        if known {
            return Ok(val);
        }
        self.error("E0503", value.span, "the value of a constant is not known when the program is compiled")
    }
}
