//! Tests of the emitted C. Snapshots of small programs make every change visible; accept changes with `cargo insta review`, or with
//! INSTA_UPDATE=always. Other tests check that each limit is reported at its line.

use std::path::{Path, PathBuf};

/// The programs whose C has a snapshot. They are in `tests/cases`, with packets that test what they do.
fn kept() -> Vec<(String, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases");
    ["forward", "rewrite", "route"].map(|name| (name.to_string(), folder.join(format!("{name}.p4")))).into()
}

fn limited(folder: &str) -> Vec<(String, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let files = std::fs::read_dir(folder).expect("the folder is there");
    let mut all: Vec<_> = files.map(|f| f.expect("a file").path()).collect();
    all.retain(|f| f.extension().is_some_and(|e| e == "p4"));
    all.sort();
    let name = |f: &PathBuf| f.file_stem().expect("a name").to_string_lossy().into_owned();
    all.into_iter().map(|f| (name(&f), f)).collect()
}

fn compile(name: &str, file: &Path) -> ir::Verified {
    let text = std::fs::read_to_string(file).expect("readable");
    let (mut map, mut diags) = (p4::SourceMap::default(), p4::Diagnostics::default());
    let program = p4::compile(&mut map, &format!("{name}.p4"), &text, &[], &p4::Embedded, &mut diags);
    program.unwrap_or_else(|| panic!("{name}: {:?}", diags.list()))
}

#[test]
fn emitted_c_equals_its_snapshot() {
    for (name, file) in kept() {
        let output = emit::tc(&compile(&name, &file)).expect("within the limits");
        // The prelude is the same for all programs, so the snapshot has only the text after it.
        let own = output.c.split_once("struct state {").map_or(output.c.as_str(), |(_, own)| own);
        insta::assert_snapshot!(format!("{name}.c"), format!("struct state {{{own}"));
        let native = emit::native(&compile(&name, &file)).expect("within the limits");
        let own = native.c.split_once("struct state {").map_or(native.c.as_str(), |(_, own)| own);
        insta::assert_snapshot!(format!("{name}.native.c"), format!("struct state {{{own}"));
        let manifest = serde_json::to_string_pretty(&output.manifest).expect("JSON");
        insta::assert_snapshot!(format!("{name}.json"), manifest);
    }
}

#[test]
fn equal_programs_give_equal_text() {
    for (name, file) in kept() {
        let once = emit::tc(&compile(&name, &file)).expect("within the limits");
        let native = emit::native(&compile(&name, &file)).expect("within the limits");
        assert_eq!(native, emit::native(&compile(&name, &file)).expect("within the limits"));
        assert_eq!(once, emit::tc(&compile(&name, &file)).expect("within the limits"));
    }
}

/// Each program in `tests/limits` marks the lines where tc must report limits with `// unsupported: WORDS`; each program in
/// `tests/limits/native`, where native must.
#[test]
fn limits_are_reported_at_their_lines() {
    let all = limited("tests/limits").into_iter().map(|p| (p, false));
    for ((name, file), native) in all.chain(limited("tests/limits/native").into_iter().map(|p| (p, true))) {
        let text = std::fs::read_to_string(&file).expect("readable");
        let program = compile(&name, &file);
        let result = if native { emit::native(&program) } else { emit::tc(&program) };
        let problems = result.expect_err(&name);
        let found: Vec<_> =
            problems.iter().map(|p| (p.loc.line as usize, p.to_string(), p.hint.is_empty())).collect();
        for (number, line) in text.lines().enumerate() {
            let Some((_, words)) = line.split_once("// unsupported: ") else { continue };
            let hit = found.iter().any(|(at, text, _)| *at == number + 1 && text.contains(words));
            assert!(hit, "{name}: line {} with `{words}` expected in {found:#?}", number + 1);
        }
        assert!(found.iter().all(|(line, _, no_hint)| *line > 0 && !no_hint), "{name}: {found:#?}");
    }
}
