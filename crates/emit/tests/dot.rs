//! Tests of the pictures: a snapshot for one program, and a check that every program in `tests/cases` can be drawn.

use std::path::{Path, PathBuf};

/// Programs may include others of the folder.
struct Beside;

impl p4::SourceProvider for Beside {
    fn include(&self, name: &str, from: &str, quoted: bool) -> Option<(String, String)> {
        let own = std::fs::read_to_string(cases().join(name)).ok().filter(|_| quoted);
        own.map(|text| (name.to_string(), text)).or_else(|| p4::Embedded.include(name, from, quoted))
    }
}

fn compile(file: &Path) -> ir::Verified {
    let text = std::fs::read_to_string(file).expect("readable");
    let (mut map, mut diags) = (p4::SourceMap::default(), p4::Diagnostics::default());
    let program = p4::compile(&mut map, "test.p4", &text, &[], &Beside, &mut diags);
    program.unwrap_or_else(|| panic!("{}: {:?}", file.display(), diags.list()))
}

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases")
}

#[test]
fn picture_equals_its_snapshot() {
    insta::assert_snapshot!("route.dot", emit::dot::dot(&compile(&cases().join("route.p4")), &|_| None));
}

#[test]
fn every_program_can_be_drawn() {
    for file in std::fs::read_dir(cases()).expect("the folder is there") {
        let file = file.expect("a file").path();
        if file.extension().is_none_or(|e| e != "p4") {
            continue;
        }
        let program = compile(&file);
        let svg = emit::dot::svg(&program, &|_| None);
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        for table in program.controls.iter().flat_map(|_| &program.tables) {
            assert!(
                svg.contains(table.name.as_str()),
                "{}: {} is not drawn",
                file.display(),
                table.name.shown()
            );
        }
    }
}
