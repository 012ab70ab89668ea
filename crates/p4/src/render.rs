//! Formats diagnostics: as text for users and as JSON for tools. Both are strings; there is no I/O here.
//!
//! `annotate-snippets` formats the text. It is the library of rustc, so users know its layout. It takes byte ranges,
//! returns a `String` and has few dependencies.

use std::ops::Range;

use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Renderer, Snippet};
use serde_json::{Value, json};

use crate::diag::{Diagnostic, Label, Severity};
use crate::source::{Expansion, SourceFile, SourceMap, Span};

/// The diagnostics as text with their source lines, and their number at the end. `colour` adds ANSI escapes.
pub fn text(map: &SourceMap, diagnostics: &[Diagnostic], colour: bool) -> String {
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
    let mut out = String::new();
    for diagnostic in diagnostics {
        let explained = with_macro(map, diagnostic);
        let rendered = renderer.render(&[group(map, &explained)]);
        // Sources, names and file names may hold commands for terminals. Colours stay.
        out.push_str(&if colour {
            abi::text::printed(&rendered).into_owned()
        } else {
            abi::text::lines(&rendered)
        });
        out.push_str("\n\n");
    }
    out.push_str(&summary(diagnostics));
    out
}

/// The diagnostics as a JSON array. Lines and columns count from 1, and columns count characters. The end is exclusive.
pub fn json(map: &SourceMap, diagnostics: &[Diagnostic]) -> String {
    let all = diagnostics.iter().map(|d| {
        let d = with_macro(map, d);
        let mut object = place(map, &d.primary);
        object["code"] = json!(d.code);
        object["severity"] = json!(severity_name(d.severity));
        object["message"] = json!(d.message);
        object["hint"] = json!(d.hint);
        object["secondary"] = d.secondary.iter().map(|l| place(map, l)).collect();
        object["notes"] = json!(includes(map, d.primary.span));
        object
    });
    abi::text::json(&Value::Array(all.collect()).to_string())
}

fn summary(diagnostics: &[Diagnostic]) -> String {
    let errors = diagnostics.iter().filter(|d| d.severity == Severity::Error).count();
    let count = |n: usize, what: &str| match n {
        0 => None,
        1 => Some(format!("1 {what}")),
        n => Some(format!("{n} {what}s")),
    };
    let parts = [count(errors, "error"), count(diagnostics.len() - errors, "warning")];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { String::new() } else { parts.join(", ") + "\n" }
}

fn severity_name(severity: Severity) -> &'static str {
    match severity {
        Severity::Warning => "warning",
        Severity::Error => "error",
    }
}

fn place(map: &SourceMap, label: &Label) -> Value {
    let (start, end) = (map.position(label.span), map.end_position(label.span));
    json!({
        "file": start.file, "line": start.line, "column": start.column,
        "end_line": end.line, "end_column": end.column, "label": label.text,
    })
}

fn group<'a>(map: &'a SourceMap, d: &'a Diagnostic) -> Group<'a> {
    let level = match d.severity {
        Severity::Warning => Level::WARNING,
        Severity::Error => Level::ERROR,
    };
    let mut group = Group::with_title(level.primary_title(&*d.message).id(d.code));
    // The file of the problem comes first, then each other file once.
    let mut files = vec![map.file_index(d.primary.span.start)];
    for label in &d.secondary {
        let file = map.file_index(label.span.start);
        if !files.contains(&file) {
            files.push(file);
        }
    }
    for index in files {
        if let Some(file) = map.files().get(index) {
            group = group.element(snippet(map, file, index, d));
        }
    }
    if let Some(hint) = &d.hint {
        group = group.element(Level::HELP.message(&**hint));
    }
    for note in includes(map, d.primary.span) {
        group = group.element(Level::NOTE.message(note));
    }
    group
}

/// The source lines of one file that a diagnostic marks.
fn snippet<'a>(
    map: &SourceMap,
    file: &'a SourceFile,
    index: usize,
    d: &'a Diagnostic,
) -> Snippet<'a, Annotation<'a>> {
    let here = |span: Span| map.file_index(span.start) == index;
    let mut marks: Vec<(AnnotationKind, Range<usize>, &str)> = Vec::new();
    if here(d.primary.span) {
        marks.push((AnnotationKind::Primary, range(file, d.primary.span), &d.primary.text));
    }
    for label in d.secondary.iter().filter(|l| here(l.span)) {
        marks.push((AnnotationKind::Context, range(file, label.span), &label.text));
    }
    // Only the lines between the first and the last mark are read, even in a large file.
    let first = marks.iter().map(|(_, r, _)| r.start).min().unwrap_or(0);
    let last = marks.iter().map(|(_, r, _)| r.end).max().unwrap_or(0);
    let begin = file.text[..first].rfind('\n').map_or(0, |n| n + 1);
    let end = file.text[last..].find('\n').map_or(file.text.len(), |n| last + n);
    // A very long line is cut around the mark.
    let begin = boundary(&file.text, begin.max(first.saturating_sub(MAX_CONTEXT)));
    let end = boundary(&file.text, end.min(last.saturating_add(MAX_CONTEXT)));
    let (line, _) = file.position(file.start.saturating_add(begin as u32));
    let mut snippet =
        Snippet::source(&file.text[begin..end]).line_start(line).path(abi::text::shown(&file.name));
    for (kind, range, text) in marks {
        let mut annotation = kind.span(range.start - begin..range.end - begin);
        if !text.is_empty() {
            annotation = annotation.label(text);
        }
        snippet = snippet.annotation(annotation);
    }
    snippet
}

/// How many bytes of a line are shown before and after the marks.
const MAX_CONTEXT: usize = 1000;

/// The start of the character that contains the byte `at`.
fn boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// A span as a byte range of its file. It is cut at the end of the file and at whole characters.
fn range(file: &SourceFile, span: Span) -> Range<usize> {
    let inside = |offset: u32| boundary(&file.text, offset.saturating_sub(file.start) as usize);
    let start = inside(span.start);
    start..inside(span.end).max(start)
}

/// If a macro produced the location, its definition is marked, too.
fn with_macro(map: &SourceMap, d: &Diagnostic) -> Diagnostic {
    match map.expansion(d.primary.span) {
        Some(Expansion { defined: Some(defined), name, .. }) if d.primary.span != *defined => {
            d.clone().also(*defined, format!("in the expansion of macro `{name}`, defined here"))
        }
        _ => d.clone(),
    }
}

/// The most levels of includes that are shown.
const MAX_INCLUDES: usize = 8;

/// The includes that lead to the file of a span. The innermost is the first.
fn includes(map: &SourceMap, span: Span) -> Vec<String> {
    let mut found = Vec::new();
    let mut from = map.file(span).and_then(|f| f.included_at);
    while let Some(at) = from.filter(|_| found.len() < MAX_INCLUDES) {
        let file = map.position(at);
        found.push(format!("included from {}:{}", file.file, file.line));
        from = map.file(at).and_then(|f| f.included_at);
    }
    found
}
