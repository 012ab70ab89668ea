//! Compiles files. This is the only module where the front end accesses the file system.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use p4::{Diagnostics, Embedded, SourceMap, SourceProvider};

use crate::cli::Preprocess;
use proto::p4::config::v1::P4Info;

/// A provider of included files: it searches the given directories, and then Strait's own.
struct Files<'a>(&'a [PathBuf]);

impl SourceProvider for Files<'_> {
    fn include(&self, name: &str, from: &str, quoted: bool) -> Option<(String, String)> {
        let own = Path::new(from).parent().filter(|_| quoted).map(Path::to_path_buf);
        let read = |dir: &PathBuf| {
            let path = dir.join(name);
            let text = std::fs::read_to_string(&path).ok()?;
            Some((path.display().to_string(), text))
        };
        own.iter().chain(self.0).find_map(read).or_else(|| Embedded.include(name, from, quoted))
    }
}

/// The state of the front end for one file: the source files that it read, and the diagnostics.
#[derive(Default)]
pub struct Front {
    /// The source files.
    pub map: SourceMap,
    /// The diagnostics: mistakes and warnings.
    pub diags: Diagnostics,
}

impl Front {
    /// Checks a file: names, types and the rules of the language. Calls `then` with the result, or with `None` after a mistake.
    pub fn check<R>(
        &mut self,
        file: &Path,
        options: &Preprocess,
        then: impl FnOnce(&p4::check::Typed<'_>, &SourceMap, &mut Diagnostics) -> R,
    ) -> anyhow::Result<Option<R>> {
        let (name, text) = read(file)?;
        let defines: Vec<_> = options.define.iter().map(|d| d.split_once('=').unwrap_or((d, "1"))).collect();
        let defines: Vec<_> = defines.into_iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
        let files = Files(&options.include);
        let then = |typed: &p4::check::Typed<'_>, map: &SourceMap, diags: &mut Diagnostics| {
            architecture(file, options, typed)?;
            Ok(then(typed, map, diags))
        };
        p4::accept(&mut self.map, &name, &text, &defines, &files, &mut self.diags, then).transpose()
    }
}

/// The bytes of a file.
pub fn contents(file: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))
}

/// The bytes of a file. `-` is the standard input, which one file of a command can be.
pub fn bytes(file: &Path) -> anyhow::Result<Vec<u8>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if file != Path::new("-") {
        return contents(file);
    }
    anyhow::ensure!(
        !TAKEN.swap(true, Ordering::Relaxed),
        "`-` is given twice, but there is one standard input"
    );
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes).context("cannot read the standard input")?;
    Ok(bytes)
}

/// The name and the text of a file. `-` is the standard input.
pub fn read(file: &Path) -> anyhow::Result<(String, String)> {
    let name = if file == Path::new("-") { "<stdin>".to_string() } else { file.display().to_string() };
    Ok((name, String::from_utf8_lossy(&bytes(file)?).into_owned()))
}

/// Checks that a program is written for the requested architecture.
fn architecture(file: &Path, options: &Preprocess, typed: &p4::check::Typed<'_>) -> anyhow::Result<()> {
    let Some(wanted) = options.arch.map(|a| a.name()) else { return Ok(()) };
    let found = p4::api::architecture(typed);
    anyhow::ensure!(
        found == wanted,
        "{} is written for {}, not for {wanted}",
        file.display(),
        if found.is_empty() { "no architecture that is known" } else { found }
    );
    Ok(())
}

/// Runs the front end on a file. Prints the diagnostics to stderr, and turns mistakes into the error.
fn made<R>(
    file: &Path,
    options: &Preprocess,
    then: impl FnOnce(&p4::check::Typed<'_>, &SourceMap, &mut Diagnostics) -> Option<R>,
) -> anyhow::Result<R> {
    let mut front = Front::default();
    let made = front.check(file, options, then)?.flatten();
    print(&front.map, &front.diags);
    made.ok_or_else(|| anyhow::anyhow!("{} is not accepted", file.display()))
}

/// The control plane's view of the program in a file.
pub fn control_plane(file: &Path, options: &Preprocess) -> anyhow::Result<ir::api::Api> {
    let api = made(file, options, |typed, map, diags| {
        let twice = diags.list().iter().any(|d| d.code == "W0420");
        Some((!twice).then(|| p4::api::of(typed, map)))
    })?;
    // Here this is an error and not a warning, because a controller could not distinguish the two objects.
    api.with_context(|| format!("no P4Info can be made of {}: see W0420 above", file.display()))
}

/// Compiles a file to a verified program.
pub fn program(file: &Path, options: &Preprocess) -> anyhow::Result<ir::Verified> {
    let passes = passes(options)?;
    made(file, options, |typed, map, diags| p4::lower_verified(typed, map, &passes, diags))
}

/// Compiles a file to a verified program, with the text of its files.
pub fn with_text(file: &Path, options: &Preprocess) -> anyhow::Result<(ir::Verified, SourceMap)> {
    let passes = passes(options)?;
    made(file, options, |typed, map, diags| {
        Some((p4::lower_verified(typed, map, &passes, diags)?, map.clone()))
    })
}

/// The text of the `if` or `switch` at a place, up to the end of its condition.
pub fn statement(map: &SourceMap, loc: ir::Loc) -> Option<String> {
    map.condition_at(loc.file as usize, loc.line as usize, loc.col as usize)
}

/// Compiles a file to a verified program, with its P4Info.
pub fn described(file: &Path, options: &Preprocess) -> anyhow::Result<(ir::Verified, P4Info)> {
    let passes = passes(options)?;
    let made = made(file, options, |typed, map, diags| {
        let program = p4::lower_verified(typed, map, &passes, diags)?;
        Some((program, p4::api::of(typed, map)))
    });
    let (program, api) = made?;
    Ok((program, p4info(&api)?))
}

/// The P4Info of a program.
pub fn p4info(api: &ir::api::Api) -> anyhow::Result<P4Info> {
    emit::p4info::message(api).map_err(|p| anyhow::anyhow!("P4Runtime cannot say this: {}", p.what))
}

/// Compiles what a controller has pushed: the text of a program, which may include Strait's own files only. The error has the diagnostics.
pub fn pushed(text: &str) -> Result<(ir::Verified, P4Info), String> {
    let (mut map, mut diags) = (SourceMap::default(), Diagnostics::default());
    let compiled = |typed: &p4::check::Typed<'_>, map: &SourceMap, diags: &mut Diagnostics| {
        let program = p4::lower_verified(typed, map, &p4::Passes::default(), diags)?;
        Some((program, p4::api::of(typed, map)))
    };
    let made = p4::accept(&mut map, "pushed.p4", text, &[], &Embedded, &mut diags, compiled).flatten();
    let Some((program, api)) = made else { return Err(p4::render::text(&map, diags.list(), false)) };
    let info = p4info(&api).map_err(|why| format!("{why:#}"))?;
    Ok((program, info))
}

/// The passes that the options do not switch off.
fn passes(options: &Preprocess) -> anyhow::Result<p4::Passes> {
    let all = p4::Passes::default();
    options.without_pass.iter().try_fold(all, |passes, name| {
        let names = || ir::pass::names().collect::<Vec<_>>().join(", ");
        passes
            .without(name)
            .with_context(|| format!("there is no pass `{name}`: there are {}, and `all`", names()))
    })
}

/// Prints diagnostics to stderr.
pub fn print(map: &SourceMap, diags: &Diagnostics) {
    use std::io::IsTerminal as _;
    if !diags.list().is_empty() {
        let colour = std::io::stderr().is_terminal();
        eprint!("{}", p4::render::text(map, diags.list(), colour));
        if let Some(error) = diags.list().iter().find(|d| d.severity == p4::Severity::Error) {
            eprintln!("`strait explain {}` says more", error.code);
        }
    }
}
