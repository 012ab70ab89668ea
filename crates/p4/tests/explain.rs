//! The catalogue of diagnostics: every code has a text, and every example shows what it says.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use p4::{Diagnostics, Embedded, SourceMap, explain};

/// The codes that a program gets.
fn said(text: &str) -> Vec<&'static str> {
    let (mut map, mut diags) = (SourceMap::default(), Diagnostics::default());
    p4::accept(&mut map, "example.p4", text, &[], &Embedded, &mut diags, |typed, map, diags| {
        diags.extend(p4::lint(typed, map));
    });
    diags.list().iter().map(|d| d.code).collect()
}

/// The example under a heading.
fn example<'a>(text: &'a str, heading: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("## {heading}\n\n```p4\n"))?;
    rest.split_once("```").map(|(code, _)| code)
}

#[test]
fn examples_show_what_they_say() {
    let mut failures = Vec::new();
    for code in explain::codes() {
        let text = explain::explain(code).expect("listed");
        assert!(text.starts_with(&format!("# {code}: ")), "{code} begins with its code");
        let Some(wrong) = example(text, "Wrong") else { continue };
        let right = example(text, "Right").unwrap_or_else(|| panic!("{code} has no right example"));
        let (bad, good) = (said(wrong), said(right));
        if !bad.contains(&code) {
            failures.push(format!("{code}: its wrong example gets {bad:?}"));
        }
        let mistakes: Vec<_> = good.iter().filter(|c| c.starts_with('E') || **c == code).collect();
        if !mistakes.is_empty() {
            failures.push(format!("{code}: its right example gets {mistakes:?}"));
        }
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

#[test]
fn every_code_is_explained() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut used = BTreeSet::new();
    collect(&source, &mut used);
    let known: BTreeSet<String> = explain::codes().map(str::to_string).collect();
    assert_eq!(used, known);
}

/// The codes in the sources of a folder: strings of a letter and four digits.
fn collect(dir: &Path, used: &mut BTreeSet<String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, used);
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let code = |s: &&str| {
            s.len() == 5
                && (s.starts_with('E') || s.starts_with('W'))
                && s[1..].bytes().all(|b| b.is_ascii_digit())
        };
        used.extend(text.split('"').filter(code).map(str::to_string));
    }
}

#[test]
fn the_page_is_up_to_date() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/diagnostics.md");
    let found = fs::read_to_string(page).unwrap_or_default();
    assert!(found == explain::page(), "run `cargo xtask diagnostics`");
}
