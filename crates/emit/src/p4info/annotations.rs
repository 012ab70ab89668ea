//! Annotations. P4Runtime has fields for some of them, and takes the others as text.

use ir::api::{Annotation, AnnotationBody, Api, Literal, Object, annotation};

use super::ids::{Kind, Symbols};
use super::proto;

/// Annotations that have fields of their own in every message, and do not appear as text.
const SAID: [&str; 4] = ["name", "id", "brief", "description"];

/// The preamble of an object. It omits the annotations in `hidden`, which have fields of their own in the object's message.
pub fn preamble(object: &Object, symbols: &Symbols, kind: Kind, hidden: &[&str]) -> proto::Preamble {
    let (annotations, structured_annotations) = split(&object.annotations, hidden);
    proto::Preamble {
        id: symbols.id(kind, &object.name),
        name: object.name.clone(),
        alias: symbols.alias(&object.name),
        annotations,
        annotation_locations: Vec::new(),
        doc: documentation(&object.annotations),
        structured_annotations,
    }
}

/// Separates annotations into unstructured ones, as texts, and structured ones. Omits those in `hidden`.
pub fn split(all: &[Annotation], hidden: &[&str]) -> (Vec<String>, Vec<proto::StructuredAnnotation>) {
    let (mut texts, mut structured) = (Vec::new(), Vec::new());
    for a in all {
        let plain = matches!(a.body, AnnotationBody::Empty | AnnotationBody::Tokens(_));
        if plain && !SAID.contains(&a.name.as_str()) && !hidden.contains(&a.name.as_str()) {
            texts.push(text(a));
        }
        structured.extend(structure(a));
    }
    (texts, structured)
}

fn text(a: &Annotation) -> String {
    match &a.body {
        AnnotationBody::Tokens(tokens) => format!("@{}({})", a.name, tokens.join(" ")),
        AnnotationBody::Empty | AnnotationBody::List(_) | AnnotationBody::Pairs(_) => format!("@{}", a.name),
    }
}

fn structure(a: &Annotation) -> Option<proto::StructuredAnnotation> {
    use proto::structured_annotation::Body;
    let value = |l: &Literal| proto::Expression {
        value: Some(match l {
            Literal::Int(n) => proto::expression::Value::Int64Value(*n),
            Literal::Bool(b) => proto::expression::Value::BoolValue(*b),
            Literal::Text(t) => proto::expression::Value::StringValue(t.clone()),
        }),
    };
    let body = match &a.body {
        AnnotationBody::List(list) if list.is_empty() => None,
        AnnotationBody::List(list) => {
            let expressions = list.iter().map(value).collect();
            Some(Body::ExpressionList(proto::ExpressionList { expressions }))
        }
        AnnotationBody::Pairs(pairs) => {
            let pair = |(key, l): &(String, Literal)| proto::KeyValuePair {
                key: key.clone(),
                value: Some(value(l)),
            };
            Some(Body::KvPairList(proto::KeyValuePairList { kv_pairs: pairs.iter().map(pair).collect() }))
        }
        AnnotationBody::Empty | AnnotationBody::Tokens(_) => return None,
    };
    Some(proto::StructuredAnnotation { name: a.name.clone(), source_location: None, body })
}

/// The documentation from `@brief` and `@description`.
pub fn documentation(all: &[Annotation]) -> Option<proto::Documentation> {
    let say = |name: &str| annotation(all, name).and_then(string);
    let (brief, description) = (say("brief"), say("description"));
    if brief.is_none() && description.is_none() {
        return None;
    }
    let description = description.unwrap_or_default();
    Some(proto::Documentation { brief: brief.unwrap_or_default(), description })
}

/// The argument of an annotation with one string: `@a("text")`.
pub fn string(a: &Annotation) -> Option<String> {
    match &a.body {
        AnnotationBody::Tokens(tokens) => {
            let parts = tokens.iter().filter_map(|t| t.strip_prefix('"')?.strip_suffix('"'));
            Some(parts.collect())
        }
        AnnotationBody::List(list) => match list.first()? {
            Literal::Text(text) => Some(text.clone()),
            Literal::Int(_) | Literal::Bool(_) => None,
        },
        AnnotationBody::Empty | AnnotationBody::Pairs(_) => None,
    }
}

/// The argument of an annotation with one number: `@a(1)`.
pub fn number(a: &Annotation) -> Option<i64> {
    match &a.body {
        AnnotationBody::Tokens(tokens) => {
            let digits: String = tokens.concat().replace('_', "");
            // A literal may have a width before the number: 32w1.
            let digits = digits.split_once('w').map_or(digits.as_str(), |(_, n)| n);
            match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
                Some(hex) => i64::from_str_radix(hex, 16).ok(),
                None => digits.parse().ok(),
            }
        }
        AnnotationBody::List(list) => match list.first()? {
            Literal::Int(n) => Some(*n),
            Literal::Bool(_) | Literal::Text(_) => None,
        },
        AnnotationBody::Empty | AnnotationBody::Pairs(_) => None,
    }
}

/// The argument of an object's `@id`, if it has one.
pub fn id(object: &Object) -> Option<u32> {
    annotation(&object.annotations, "id").and_then(number).and_then(|n| u32::try_from(n).ok())
}

/// The description of the whole program, from `@pkginfo(…)` and `@platform_property[…]` of `main`.
pub fn package(program: &Api) -> proto::PkgInfo {
    let hidden = ["pkginfo", "platform_property"];
    let rest: Vec<Annotation> =
        program.package.iter().filter(|a| !hidden.contains(&a.name.as_str())).cloned().collect();
    let (annotations, structured_annotations) = split(&rest, &[]);
    let mut info = proto::PkgInfo {
        arch: program.arch.clone(),
        annotations,
        structured_annotations,
        doc: documentation(&program.package),
        ..Default::default()
    };
    for (key, value) in program.package.iter().filter(|a| a.name == "pkginfo").flat_map(pairs) {
        let Literal::Text(value) = value else { continue };
        match key.as_str() {
            "name" => info.name = value,
            "version" => info.version = value,
            "organization" => info.organization = value,
            "contact" => info.contact = value,
            "url" => info.url = value,
            "arch" => info.arch = value,
            _ => {}
        }
    }
    for a in program.package.iter().filter(|a| a.name == "platform_property") {
        let made = info.platform_properties.get_or_insert_default();
        for (key, value) in pairs(a) {
            let Literal::Int(value) = value else { continue };
            let value = i32::try_from(value).unwrap_or(i32::MAX);
            match key.as_str() {
                "multicast_group_table_size" => made.multicast_group_table_size = value,
                "multicast_group_table_total_replicas" => made.multicast_group_table_total_replicas = value,
                "multicast_group_table_max_replicas_per_entry" => {
                    made.multicast_group_table_max_replicas_per_entry = value;
                }
                _ => {}
            }
        }
    }
    info
}

/// The `key = value` pairs of an annotation, structured or not.
fn pairs(a: &Annotation) -> Vec<(String, Literal)> {
    match &a.body {
        AnnotationBody::Pairs(pairs) => pairs.clone(),
        AnnotationBody::Tokens(tokens) => tokens
            .split(|t| t == ",")
            .filter_map(|pair| match pair {
                [key, eq, value @ ..] if eq == "=" => {
                    let text = value.concat();
                    let literal = match text.strip_prefix('"').and_then(|t| t.strip_suffix('"')) {
                        Some(text) => Literal::Text(text.to_string()),
                        None => Literal::Int(text.parse().ok()?),
                    };
                    Some((key.clone(), literal))
                }
                _ => None,
            })
            .collect(),
        AnnotationBody::Empty | AnnotationBody::List(_) => Vec::new(),
    }
}
