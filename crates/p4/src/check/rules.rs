//! Rules about declarations that need no types: annotations, and `_` where a type is required.

use crate::ast::{self, Annotation, AnnotationBody, DeclKind, TypeKind};
use crate::diag::Diagnostic;

use super::Checker;
use super::types::Type;

/// Annotations that take a string.
const NAMING: [&str; 2] = ["name", "deprecated"];

impl<'a> Checker<'a, '_> {
    /// Checks the rules that apply to a declaration of any kind.
    pub(super) fn rules(&mut self, d: &'a ast::Decl) {
        self.annotations(&d.annotations);
        match &d.kind {
            DeclKind::Const { ty, .. } | DeclKind::Variable { ty, .. } | DeclKind::Typedef(ty) => {
                self.no_dont_care(ty);
            }
            // With arguments, the type argument can be inferred.
            DeclKind::Instance { ty, args, .. } if args.is_empty() => self.no_dont_care(ty),
            DeclKind::Struct { fields, .. }
            | DeclKind::Header { fields, .. }
            | DeclKind::HeaderUnion { fields, .. } => {
                for field in fields {
                    self.annotations(&field.annotations);
                    self.no_dont_care(&field.ty);
                }
            }
            DeclKind::Extern { methods, .. } => {
                for m in methods {
                    self.annotations(&m.annotations);
                    let named_like_it = m.name.text == d.name.text;
                    if named_like_it && !m.is_constructor {
                        let text = format!("`{}` is a constructor, which has no type of result", m.name.text);
                        let hint = format!("write `{}(…);`", m.name.text);
                        self.report(Diagnostic::error("E0308", m.name.span, text).hint(hint));
                    }
                }
            }
            _ => {}
        }
    }

    /// Section 20: an element has a structured annotation only once, and its expressions have simple types.
    pub(super) fn annotations(&mut self, list: &'a [Annotation]) {
        for (i, a) in list.iter().enumerate() {
            let structured = |a: &Annotation| {
                matches!(a.body, AnnotationBody::Expressions(_) | AnnotationBody::KeyValues(_))
            };
            let twice = list[..i].iter().find(|b| b.name.text == a.name.text);
            if let Some(first) = twice.filter(|b| structured(a) || structured(b)) {
                let text = format!("`@{}` stands here twice", a.name.text);
                let d = Diagnostic::error("E0418", a.name.span, text);
                self.report(d.also(first.name.span, "here first"));
            }
            match &a.body {
                AnnotationBody::Expressions(list) => {
                    list.iter().for_each(|value| self.annotation_value(value))
                }
                AnnotationBody::KeyValues(pairs) => {
                    for (key, value) in pairs {
                        self.annotation_value(value);
                        let simple = !matches!(
                            value.kind,
                            ast::ExprKind::List { .. }
                                | ast::ExprKind::Struct { .. }
                                | ast::ExprKind::InvalidHeader
                        );
                        if !simple {
                            let text =
                                format!("`{}` of an annotation is a number, a string or a boolean", key.text);
                            self.error("E0418", value.span, text);
                        }
                    }
                }
                AnnotationBody::Unstructured(tokens) if NAMING.contains(&a.name.text.as_str()) => {
                    let string = matches!(tokens.as_slice(), [(text, _), ..] if text.starts_with('"'));
                    let all = tokens.iter().all(|(text, _)| text.starts_with('"') || text == "++");
                    self.annotation_body(a, string && all, "a string", "\"…\"");
                }
                AnnotationBody::Empty if a.name.text == "pkginfo" => {
                    self.annotation_body(a, false, "keys and values", "name = \"…\"");
                }
                AnnotationBody::Unstructured(tokens) if a.name.text == "match" => {
                    let word = |(t, _): &(String, _)| t.starts_with(|c: char| c.is_alphabetic() || c == '_');
                    let fits = matches!(tokens.as_slice(), [one] if word(one));
                    self.annotation_body(a, fits, "a match kind", "ternary");
                }
                AnnotationBody::Unstructured(tokens) if a.name.text == "p4runtime_translation" => {
                    let text: Vec<&str> = tokens.iter().map(|(t, _)| t.as_str()).collect();
                    let number = |t: &str| t.starts_with(|c: char| c.is_ascii_digit());
                    let fits = match text.as_slice() {
                        [uri, ",", "bit", "<", n, ">"] => uri.starts_with('"') && number(n),
                        [uri, ",", to] => {
                            uri.starts_with('"') && (*to == "string" || number(to) || to.starts_with('"'))
                        }
                        _ => false,
                    };
                    self.annotation_body(a, fits, "a URI and `bit<W>` or `string`", "\"…\", bit<32>");
                }
                AnnotationBody::Empty if a.name.text == "name" => {
                    self.annotation_body(a, false, "a string", "\"…\"")
                }
                _ => {}
            }
        }
    }

    /// Reports an annotation if its body does not have the expected form.
    fn annotation_body(&mut self, a: &Annotation, fits: bool, what: &str, example: &str) {
        let name = &a.name.text;
        if !fits {
            let d = Diagnostic::error("E0418", a.span, format!("`@{name}` takes {what}"));
            self.report(d.hint(format!("write `@{name}({example})`")));
        }
    }

    /// An expression in a structured annotation must be compile-time known.
    fn annotation_value(&mut self, value: &'a ast::Expr) {
        let ty = self.expr(value);
        if matches!(ty, Type::TypeName(_)) || !self.is_known(value) {
            self.error("E0306", value.span, "an expression in an annotation must be known at compile time");
        }
    }

    /// Reports `_` as a type outside of a call's type arguments: there is nothing to infer it from.
    fn no_dont_care(&mut self, ty: &'a ast::Type) {
        match &ty.kind {
            TypeKind::DontCare => {
                let d = Diagnostic::error("E0308", ty.span, "`_` is no type here");
                self.report(d.hint("say which type is meant"));
            }
            TypeKind::Named { args, .. } | TypeKind::Tuple(args) => {
                args.iter().for_each(|a| self.no_dont_care(a));
            }
            TypeKind::Stack { element, .. } => self.no_dont_care(element),
            TypeKind::List(item) => self.no_dont_care(item),
            _ => {}
        }
    }
}
