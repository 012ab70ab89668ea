//! Tests of P4Info: a snapshot for a program with all kinds of objects, ids equal to those of p4c, and programs that P4Runtime cannot describe.

use emit::p4info;
use proto::p4::config::v1::{P4Info, Preamble};

fn info(text: &str) -> Result<P4Info, p4info::Problem> {
    let (mut map, mut diags) = (p4::SourceMap::default(), p4::Diagnostics::default());
    let api = |typed: &p4::check::Typed<'_>, map: &p4::SourceMap, _: &mut _| p4::api::of(typed, map);
    let api = p4::accept(&mut map, "test.p4", text, &[], &p4::Embedded, &mut diags, api);
    p4info::message(&api.unwrap_or_else(|| panic!("{}", p4::render::text(&map, diags.list(), false))))
}

#[test]
fn message_equals_its_snapshot() {
    let made = info(include_str!("control-plane/features.p4")).expect("P4Runtime can say it");
    let text = proto::text(&made);
    insta::assert_snapshot!("features.p4info", text);
    assert_eq!(proto::parse(&text).as_ref(), Ok(&made), "what is written can be read");
}

fn control(locals: &str) -> String {
    format!(
        "#include <core.p4>\ncontrol c(inout bit<8> x) {{ {locals} apply {{ t.apply(); }} }}\n\
         control p(inout bit<8> x); package top(p a); top(c()) main;"
    )
}

#[test]
fn ids_are_those_of_p4c() {
    let made = info(&control("table t { actions = { NoAction; } }")).expect("a program");
    let head = |p: &Option<Preamble>| p.clone().map(|p| (p.id, p.name, p.alias));
    // p4c gives NoAction this id in every program.
    assert_eq!(head(&made.actions[0].preamble), Some((21257015, "NoAction".into(), "NoAction".into())));
    assert_eq!(made.tables[0].size, 1024);
}

#[test]
fn short_names_are_as_long_as_they_must_be() {
    let made = info(&control(
        "action a() {} @name(\"x.a\") action b() {} table t { actions = { a; b; NoAction; } }",
    ));
    let mut names: Vec<_> =
        made.expect("a program").actions.into_iter().filter_map(|a| Some(a.preamble?.alias)).collect();
    names.sort();
    assert_eq!(names, ["NoAction", "c.a", "x.a"]);
}

#[test]
fn impossible_ids_are_reported() {
    let twice = "@id(5) action a() {} @id(5) action b() {} table t { actions = { a; b; NoAction; } }";
    let prefix = "@id(0x02000001) action a() {} table t { actions = { a; NoAction; } }";
    let whole = "action a(tuple<bit<8>, bit<8>> y) {} table t { actions = { a; NoAction; } }";
    let zero = "action a(@id(0) bit<8> y) {} table t { actions = { a; NoAction; } }";
    let cases = [
        (whole, "is no number"),
        (twice, "another's already"),
        (prefix, "does not begin with"),
        (zero, "@id(0)"),
    ];
    for (locals, wanted) in cases {
        let problem = info(&control(locals)).expect_err("an error");
        assert!(problem.what.contains(wanted), "{}", problem.what);
    }
}
