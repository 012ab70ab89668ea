//! What statements of an ingress control become, before any pass: each case is P4 text and the IR text it lowers to.

use p4::{Diagnostics, Embedded, SourceMap};

const FRAME: &str = r#"
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; bit<8> b; bit<16> c; }
header wide_t { bit<128> w; int<16> s; bit<16> rest; }
struct headers { h_t h; h_t g; wide_t w; h_t[2] hs; }
struct meta_t { bit<8> x; bool flag; bit<16> y; }
DECLS
parser P(packet_in p, out headers hdr, inout meta_t m, inout standard_metadata_t sm) {
    state start { transition accept; }
}
control V(inout headers hdr, inout meta_t m) { apply {} }
control I(inout headers hdr, inout meta_t m, inout standard_metadata_t sm) { LOCALS apply { BODY } }
control E(inout headers hdr, inout meta_t m, inout standard_metadata_t sm) { apply {} }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"#;

/// The lines of the ingress control's block, without their indentation.
fn lower(decls: &str, locals: &str, body: &str) -> Result<Vec<String>, Vec<String>> {
    let text = FRAME.replace("DECLS", decls).replace("LOCALS", locals).replace("BODY", body);
    let mut map = SourceMap::default();
    let mut diags = Diagnostics::default();
    let program = p4::accept(&mut map, "case.p4", &text, &[], &Embedded, &mut diags, p4::lower::lower);
    let Some(program) = program.flatten() else {
        return Err(diags.list().iter().map(|d| format!("{} {}", d.code, d.message)).collect());
    };
    let text = ir::text::program(&program);
    let control = text.split("control I (Ingress) {\n").nth(1).and_then(|t| t.split("\n}").next());
    let lines = control.expect("the control is there").lines().map(|l| l.trim().to_string());
    let inner: Vec<_> = lines.collect();
    Ok(inner[1..inner.len() - 1].iter().map(|line| unnumbered(line)).collect())
}

/// Labels without their numbers, which say nothing.
fn unnumbered(line: &str) -> String {
    match line.split_once('#') {
        Some((before, after)) => {
            format!("{before}#{}", after.trim_start_matches(|c: char| c.is_ascii_digit()))
        }
        None => line.to_string(),
    }
}

fn check(decls: &str, locals: &str, body: &str, expect: &[&str]) {
    match lower(decls, locals, body) {
        Ok(lines) => assert_eq!(lines, expect, "{body}"),
        Err(errors) => panic!("{body}: {errors:?}"),
    }
}

#[test]
fn numbers_take_the_width_of_their_context_and_constants_fold() {
    check("", "", "m.x = 1 + 2 * 3;", &["m.x = 8w7"]);
    check("const bit<8> N = 4;", "", "m.x = N << 1;", &["m.x = 8w8"]);
    check("", "", "m.y = (bit<16>) m.x;", &["m.y = (bit<16>)m.x"]);
    check("", "", "m.y = hdr.h.a ++ 8w1;", &["m.y = (hdr.h.a ++ 8w1)"]);
    check("", "", "m.x = ~m.x & 0xf0;", &["m.x = (~m.x & 8w0xf0)"]);
    check("", "", "hdr.w.s = -5;", &["hdr.w.s = 16w0xfffb"]);
}

#[test]
fn a_slice_on_the_left_keeps_the_other_bits() {
    check("", "", "m.y[11:4] = m.x;", &["m.y = ((m.y[15:12] ++ m.x) ++ m.y[3:0])"]);
    check("", "", "m.x[7:0] = 3;", &["m.x = 8w3"]);
}

#[test]
fn functions_are_inlined_and_an_early_return_leaves_a_block() {
    let f = "bit<8> f(in bit<8> v) { if (v == 0) { return 1; } return v; }";
    let body = ["v = m.x", "block # {", "if (v == 8w0) {", "f$result = 8w1", "break #", "}"];
    let body = body.into_iter().chain(["f$result = v", "break #", "}"]);
    let expect: Vec<_> = body.chain(["m.y = (bit<16>)f$result"]).collect();
    check(f, "", "m.y = (bit<16>) f(m.x);", &expect);
}

#[test]
fn parameters_are_copied_in_and_out() {
    let f = "void f(inout bit<8> v, in bit<8> by) { v = v + by; }";
    check(f, "", "f(m.x, 3);", &["v = m.x", "by = 8w3", "v = (v + by)", "m.x = v"]);
}

#[test]
fn the_right_side_of_a_lazy_operator_acts_only_when_it_is_reached() {
    let f = "bool f(inout bit<8> v) { v = 7; return true; }";
    let call = ["v = m.x", "block # {", "v = 8w7", "f$result = true", "break #", "}", "m.x = v"];
    let expect = ["$lazy = m.flag", "if $lazy {"].into_iter().chain(call);
    let expect = expect.chain(["$lazy = f$result", "}", "if $lazy {", "m.y = 16w1", "}"]).collect::<Vec<_>>();
    check(f, "", "if (m.flag && f(m.x)) { m.y = 1; }", &expect);
}

#[test]
fn exit_leaves_the_control_and_drop_sites_are_named_by_their_action() {
    let locals = "action gone() { mark_to_drop(sm); exit; }";
    let dropped = ["drop I.gone", "sm.egress_spec = 9w0x1ff", "sm.mcast_grp = 16w0"];
    let expect: Vec<_> = dropped.into_iter().chain(["break #", "m.x = 8w1"]).collect();
    check("", locals, "gone(); m.x = 1;", &expect);
}

#[test]
fn headers_compare_assign_and_copy_as_wholes() {
    check("", "", "hdr.h = hdr.g;", &["hdr.h = hdr.g"]);
    let swapped = ["$before = hdr.h.b", "$before_1 = hdr.h.a", "hdr.h.setValid()", "hdr.h.a = $before"];
    let expect: Vec<_> = swapped.into_iter().chain(["hdr.h.b = $before_1", "hdr.h.c = 16w5"]).collect();
    check("", "", "hdr.h = { hdr.h.b, hdr.h.a, 5 };", &expect);
    check("", "", "hdr.h.setInvalid();", &["hdr.h.setInvalid()"]);
}

#[test]
fn switch_on_action_run_goes_by_the_number_of_the_action() {
    let locals = "action a() {} action b() {} table t { actions = { a; b; } default_action = a; }";
    let body = "switch (t.apply().action_run) { a: b: { m.x = 1; } default: { m.x = 2; } }";
    let expect = ["(_, $action) = I.t.apply()", "switch $action {", "case [32w0, 32w1] {", "m.x = 8w1", "}"];
    let expect: Vec<_> = expect.into_iter().chain(["default {", "m.x = 8w2", "}", "}"]).collect();
    check("", locals, body, &expect);
}

#[test]
fn sub_controls_are_inlined_with_their_own_names() {
    let sub = "control S(in bit<8> v, out bit<8> w) { action a() {} table t { key = { v : exact; } actions = { a; } \
               default_action = a; } apply { t.apply(); w = v; } }";
    let expect = ["I.s.v = m.x", "(_, _) = I.s.t.apply()", "I.s.w = I.s.v", "m.x = I.s.w"];
    check(sub, "S() s;", "s.apply(m.x, m.x);", &expect);
}

#[test]
fn loops_have_a_bound_where_their_range_is_known() {
    let expect =
        ["$last = 8w3", "i = 8w1", "loop # at most 3 {", "if (i > $last) {", "break #", "}", "block # {"];
    let rest = ["m.x = i", "}", "if (i == $last) {", "break #", "}", "i = (i + 8w1)", "}"];
    let expect: Vec<_> = expect.into_iter().chain(rest).collect();
    check("", "", "for (bit<8> i in 1 .. 3) { m.x = i; }", &expect);
}

#[test]
fn mistakes_are_said_and_not_lowered() {
    let cases = [
        ("m.z = 1;", "E0206"),
        ("m.x = m.y;", "E0301"),
        ("if (m.x) {}", "E0301"),
        ("hdr.h.isvalid();", "E0206"),
        ("1 = m.x;", "E0118"),
        ("m.x = m.x / 0;", "E0311"),
        ("m.x = m.y[8:0];", "E0301"),
        ("m.y = m.y[3:16] ++ 8w0;", "E0305"),
        ("hdr.hs[2].a = 1;", "E0305"),
        ("nothing();", "E0201"),
        ("mark_to_drop();break;", "E0409"),
    ];
    for (body, code) in cases {
        let errors = lower("", "", body).expect_err(body);
        assert!(errors.iter().any(|e| e.starts_with(code)), "{body}: {errors:?}");
    }
}

/// The specification does not say where half a byte would be among the bytes that a checksum is of.
#[test]
fn a_checksum_takes_whole_bytes() {
    let errors = |update: &str| {
        let text = include_str!("../../../tests/cases/psa_checksums.p4");
        let text = text.replace("crc16.update(hdr.d.middle);", update);
        let (mut map, mut diags) = (SourceMap::default(), Diagnostics::default());
        p4::accept(&mut map, "case.p4", &text, &[], &Embedded, &mut diags, p4::lower::lower);
        diags.list().iter().map(|d| format!("{} {}", d.code, d.message)).collect::<Vec<_>>()
    };
    assert_eq!(errors("crc16.update({ hdr.d.high, hdr.d.low });"), [""; 0]);
    let refused =
        "E0522 a checksum is updated with 4 bits, no whole number of bytes, which this release cannot run";
    assert_eq!(errors("crc16.update(hdr.d.high);"), [refused]);
    let refused =
        "E0522 a checksum is updated with 33 bits, no whole number of bytes, which this release cannot run";
    assert_eq!(errors("crc16.update({ hdr.d.middle, 1w1 });"), [refused]);
}

/// The call has no meaning in PSA, and was ignored there.
#[test]
fn fragments_are_for_v1model() {
    let text = include_str!("../../../tests/cases/psa_digests.p4");
    let text = text.replace("#include <psa.p4>", "#include <psa.p4>\n#include <strait.p4>");
    let text = text.replace("stations.apply();", "stations.apply(); fragment_ipv6(1280, 0);");
    let (mut map, mut diags) = (SourceMap::default(), Diagnostics::default());
    p4::accept(&mut map, "case.p4", &text, &[], &Embedded, &mut diags, p4::lower::lower);
    let refused: Vec<_> = diags.list().iter().map(|d| format!("{} {}", d.code, d.message)).collect();
    assert_eq!(
        refused,
        ["E0510 this calls `fragment_ipv6` outside of v1model, which this release cannot run"]
    );
}

/// What the checker accepts is lowered, or meets a limit of this release that has a code of its own; never a mistake.
#[test]
fn accepted_programs_meet_limits_only() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut folders = vec![root.join("tests/accept"), root.join("tests/cases"), root.join("tests/lints")];
    folders.extend(std::fs::read_dir(root.join("apps")).unwrap().map(|e| e.unwrap().path()));
    let files = folders.iter().filter(|f| f.is_dir()).flat_map(|f| std::fs::read_dir(f).unwrap());
    let programs = files.map(|e| e.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "p4"));
    let mut seen = 0;
    for path in programs {
        let text = std::fs::read_to_string(&path).unwrap();
        let (mut map, mut diags) = (SourceMap::default(), Diagnostics::default());
        let name = path.display().to_string();
        p4::accept(&mut map, &name, &text, &[], &Embedded, &mut diags, |typed, map, _| {
            let mut limits = Diagnostics::default();
            p4::lower_verified(typed, map, &p4::Passes::none(), &mut limits);
            seen += 1;
            for limit in limits.list() {
                let code = limit.code;
                assert!(("E0502".."E0599").contains(&code), "{name}: {code} {}", limit.message);
            }
        });
    }
    assert!(seen > 20, "{seen} programs");
}
