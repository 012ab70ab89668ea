//! The packet cases of `tests/cases`, without the command line: the quickest way to try a change of the language, the IR or an emitter.
//!
//! All of them run on the interpreter. `CASES=NAME,… cargo test -p strait-harness --test cases` plays those whose names contain one of these words
//! on the interpreter and as machine code.

use std::path::{Path, PathBuf};

use harness::player::{Outcome, Played, Player};
use harness::targets::RunTarget;

/// The case files, sorted.
fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases");
    let files =
        std::fs::read_dir(folder).expect("the folder is there").map(|file| file.expect("a file").path());
    let mut files: Vec<_> = files.filter(|file| file.extension().is_some_and(|e| e == "stf")).collect();
    files.sort();
    files
}

/// What programs include: files of their folder, and Strait's.
struct Beside;

impl p4::SourceProvider for Beside {
    fn include(&self, name: &str, from: &str, quoted: bool) -> Option<(String, String)> {
        let path = Path::new(from).with_file_name(name);
        let own = std::fs::read_to_string(&path).ok().filter(|_| quoted);
        own.map(|text| (path.display().to_string(), text))
            .or_else(|| p4::Embedded.include(name, from, quoted))
    }
}

/// Compiles the program beside a case.
fn program(case: &Path) -> ir::Verified {
    let path = case.with_extension("p4");
    let text = std::fs::read_to_string(&path).expect("each case has its program");
    let (mut map, mut diags) = (p4::SourceMap::default(), p4::Diagnostics::default());
    let made = p4::compile(&mut map, &path.display().to_string(), &text, &[], &Beside, &mut diags);
    made.unwrap_or_else(|| panic!("{}", p4::render::text(&map, diags.list(), false)))
}

/// Plays a case. Returns how many targets played it, and what failed.
fn play(file: &Path, name: &str, targets: &[RunTarget]) -> (usize, Vec<String>) {
    let text = std::fs::read_to_string(file).expect("a file");
    let case = Played::read(name, &text).expect("a good case");
    let (program, mut player) = (program(file), Player::default());
    let (mut played, mut failed) = (0, Vec::new());
    for target in targets {
        match player.play(*target, (name, &program), &case, false).expect("it runs") {
            Outcome::Skipped(why) => println!("skipped: {name} on {}: {why}", target.name()),
            Outcome::Done(report) => {
                played += 1;
                let line = |failure| format!("{}: {}", target.name(), report.line(failure));
                failed.extend(report.failures.iter().map(line));
            }
        }
    }
    (played, failed)
}

#[test]
fn each_case_passes() {
    let named = std::env::var("CASES").unwrap_or_default();
    let words: Vec<&str> = named.split(',').filter(|word| !word.is_empty()).collect();
    let wanted = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word));
    let targets: &[RunTarget] =
        if words.is_empty() { &[RunTarget::Interp] } else { &[RunTarget::Interp, RunTarget::Native] };
    let (mut played, mut failed) = (0, Vec::new());
    for file in files() {
        let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
        if wanted(&name) {
            let (targets, failures) = play(&file, &name, targets);
            played += targets;
            failed.extend(failures);
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(played > 0, "no case is named `{named}`");
    println!("{played} played");
}
