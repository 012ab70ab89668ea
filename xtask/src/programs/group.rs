//! Compiles many programs in one C file, so that the compiler starts only once and reads the common part only once.
//!
//! The preprocessor adds a prefix to everything that a program declares at the top level. After the program, its macros are removed again.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

use emit::Output;

use harness::targets::native::Object;

/// A program that waits for compilation.
pub struct Emitted<'p> {
    pub number: usize,
    pub output: Output,
    pub program: &'p ir::Program,
}

/// Compiles programs together. If that fails, compiles them separately.
pub fn compile(programs: Vec<Emitted<'_>>, flags: &[String]) -> Vec<(usize, Result<Object, String>)> {
    let mut sizes: BTreeSet<String> = BTreeSet::new();
    sizes.extend(programs.iter().filter_map(|p| split(&p.output.c)).map(|(burst, _)| burst));
    let mut rest = programs;
    let mut done = Vec::new();
    for size in sizes {
        let (these, others): (Vec<_>, Vec<_>) =
            rest.into_iter().partition(|p| split(&p.output.c).is_some_and(|(burst, _)| burst == size));
        rest = others;
        halves(these, &size, flags, &mut done);
    }
    done.extend(rest.into_iter().map(|p| alone(p, flags)));
    done
}

/// Compiles all programs into one object. After a failure, compiles each half into an object, down to single programs.
fn halves(
    mut these: Vec<Emitted<'_>>,
    burst: &str,
    flags: &[String],
    done: &mut Vec<(usize, Result<Object, String>)>,
) {
    if let Some(object) = together(&these, burst, flags) {
        return done.extend(these.into_iter().map(|p| {
            let mut manifest = p.output.manifest;
            manifest.entry = format!("p{}_{}", p.number, manifest.entry);
            (p.number, Ok(Object::shared(object.clone(), manifest, p.program)))
        }));
    }
    if these.len() == 1 {
        return done.extend(these.into_iter().map(|p| alone(p, flags)));
    }
    let second = these.split_off(these.len() / 2);
    halves(these, burst, flags, done);
    halves(second, burst, flags, done);
}

fn alone(program: Emitted<'_>, flags: &[String]) -> (usize, Result<Object, String>) {
    let made = io::native::Object::make_with(&program.output.c, flags);
    let object = made.map(|o| Object::shared(Arc::new(o), program.output.manifest, program.program));
    (program.number, object.map_err(|e| e.to_string()))
}

/// The burst size of a program, and the part of its C that is not the common prelude.
fn split(c: &str) -> Option<(String, &str)> {
    let (head, body) = c.split_once(&emit::native_prelude())?;
    let burst = head.lines().find(|l| l.starts_with("#define BURST"))?;
    Some((burst.to_string(), body))
}

fn together(programs: &[Emitted<'_>], burst: &str, flags: &[String]) -> Option<Arc<io::native::Object>> {
    let mut c = format!("{burst}\n{}", emit::native_prelude());
    for program in programs {
        let (_, body) = split(&program.output.c)?;
        let names = declared(body);
        for name in &names {
            let _ = writeln!(c, "#define {name} p{}_{name}", program.number);
        }
        c += body;
        c.push('\n');
        for name in names.iter().chain(&macros(body)) {
            let _ = writeln!(c, "#undef {name}");
        }
    }
    io::native::Object::make_with(&c, flags).ok().map(Arc::new)
}

/// The names of functions, structures and constants at the top level, whose declarations begin at the start of a line.
fn declared(body: &str) -> BTreeSet<String> {
    let begins = |l: &&str| l.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let name = |line: &str| {
        let end = match line.strip_prefix("struct ") {
            Some(rest) if rest.ends_with(" {") && !rest.contains('(') => {
                return rest.strip_suffix(" {").map(str::to_string);
            }
            _ => line.find(['(', '[', '=', ';'])?,
        };
        let head = line[..end].trim_end();
        let start = head.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_').map_or(0, |n| n + 1);
        Some(head[start..].to_string())
    };
    // An attribute before the function's name has parentheses of its own.
    let plain = |l: &str| l.replace("__attribute__((visibility(\"default\")))", "");
    let mut all = BTreeSet::new();
    for line in body.lines().filter(begins) {
        match line.strip_prefix("enum {") {
            Some(members) => {
                let members = members.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                all.extend(
                    members.filter(|m| m.starts_with(|c: char| c.is_ascii_alphabetic())).map(str::to_string),
                );
            }
            None => all.extend(name(plain(line).trim_start()).filter(|n| !n.is_empty())),
        }
    }
    all
}

/// The macros that a program defines.
fn macros(body: &str) -> BTreeSet<String> {
    let defined = body.lines().filter_map(|l| l.strip_prefix("#define "));
    let name = |l: &str| l.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().map(str::to_string);
    defined.filter_map(name).collect()
}
