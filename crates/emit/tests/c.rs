//! The C that is emitted: snapshots of small programs, so that a change of it is looked at; and limits, which are located and
//! say what to do. Accept a change of a snapshot with `cargo insta review`, or with INSTA_UPDATE=always.

use std::path::{Path, PathBuf};

/// Programs of `tests/cases` whose C is kept; their packets are played there.
fn kept() -> Vec<(String, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases");
    ["forward", "rewrite", "route"].map(|name| (name.to_string(), folder.join(format!("{name}.p4")))).into()
}

fn limited() -> Vec<(String, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/limits");
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
fn what_is_emitted() {
    for (name, file) in kept() {
        let output = emit::tc(&compile(&name, &file)).expect("within the limits");
        // The prelude is the same for all; what comes behind it is the program's.
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
fn the_same_program_gives_the_same_bytes() {
    for (name, file) in kept() {
        let once = emit::tc(&compile(&name, &file)).expect("within the limits");
        let native = emit::native(&compile(&name, &file)).expect("within the limits");
        assert_eq!(native, emit::native(&compile(&name, &file)).expect("within the limits"));
        assert_eq!(once, emit::tc(&compile(&name, &file)).expect("within the limits"));
    }
}

/// `// unsupported: WORDS` stands on the line that a limit is reported at.
#[test]
fn limits_are_located() {
    for (name, file) in limited() {
        let text = std::fs::read_to_string(&file).expect("readable");
        let program = compile(&name, &file);
        let problems = emit::tc(&program).expect_err(&name);
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
