//! Compiles files. This is the only module where the front end accesses the file system.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use p4::{Diagnostics, Embedded, SourceMap, SourceProvider};

use crate::cli::Preprocess;
use proto::p4::config::v1::P4Info;

/// A provider of included files: it searches the given directories, and then Strait's own.
struct Files<'a> {
    directories: &'a [PathBuf],
    /// The text of the file with this path.
    read: &'a dyn Fn(&Path) -> Option<String>,
}

impl SourceProvider for Files<'_> {
    fn include(&self, name: &str, from: &str, quoted: bool) -> Option<(String, String)> {
        let own = Path::new(from).parent().filter(|_| quoted).map(Path::to_path_buf);
        let read = |dir: &PathBuf| {
            let path = dir.join(name);
            Some((path.display().to_string(), (self.read)(&path)?))
        };
        own.iter().chain(self.directories).find_map(read).or_else(|| Embedded.include(name, from, quoted))
    }
}

/// The texts of a program that was compiled. They compile to the same program again, whatever happens to its files.
pub struct Texts {
    options: Preprocess,
    name: String,
    /// Each file by its name: the program and what it includes.
    files: BTreeMap<String, Arc<str>>,
}

impl Texts {
    /// The texts that the front end has read into a map.
    fn of(map: &SourceMap, options: &Preprocess) -> Texts {
        let name = map.files().first().map_or(String::new(), |file| file.name.clone());
        let files = map.files().iter().map(|file| (file.name.clone(), file.text.clone())).collect();
        Texts { options: options.clone(), name, files }
    }

    /// Calls the front end with the texts. The error has the diagnostics.
    fn made<R>(
        &self,
        then: impl FnOnce(&mut SourceMap, &Compilation<'_>, &mut Diagnostics) -> Option<R>,
    ) -> anyhow::Result<R> {
        let text = self.files.get(&self.name).context("the program has no text")?;
        let read = |path: &Path| self.files.get(&path.display().to_string()).map(ToString::to_string);
        let files = Files { directories: &self.options.include, read: &read };
        let (mut map, mut diags) = (SourceMap::default(), Diagnostics::default());
        let compilation = Compilation { text, defines: &defines(&self.options), files: &files };
        let made = then(&mut map, &compilation, &mut diags);
        made.ok_or_else(|| anyhow::anyhow!("{}", p4::render::text(&map, diags.list(), false).trim_end()))
    }

    /// Compiles the program, with the text of its files.
    pub fn program(&self) -> anyhow::Result<(ir::Verified, SourceMap)> {
        let passes = passes(&self.options)?;
        self.made(|map, c, diags| {
            let lower = |typed: &p4::check::Typed<'_>, map: &SourceMap, diags: &mut Diagnostics| {
                Some((p4::lower_verified(typed, map, &passes, diags)?, map.clone()))
            };
            p4::accept(map, &self.name, c.text, c.defines, c.files, diags, lower).flatten()
        })
    }

    /// Compiles the program with a control that only evaluates a condition, which is then in the variable.
    pub fn condition(&self, control: &str, condition: &str) -> anyhow::Result<(ir::Verified, ir::VarId)> {
        self.made(|map, c, diags| {
            let question = p4::condition::Question {
                name: &self.name,
                text: c.text,
                defines: c.defines,
                control,
                condition,
            };
            p4::condition::compile(map, &question, c.files, diags)
        })
        .map_err(|why| anyhow::anyhow!("the filter is not accepted\n{why}"))
    }
}

/// What the front end takes.
struct Compilation<'a> {
    text: &'a str,
    defines: &'a [(String, String)],
    files: &'a Files<'a>,
}

/// The macros of the command line, with their values.
fn defines(options: &Preprocess) -> Vec<(String, String)> {
    let split = options.define.iter().map(|define| define.split_once('=').unwrap_or((define, "1")));
    split.map(|(name, value)| (name.to_string(), value.to_string())).collect()
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
        let defines = defines(options);
        let read = |path: &Path| std::fs::read_to_string(path).ok();
        let files = Files { directories: &options.include, read: &read };
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

/// Compiles a file to a verified program that is to run: with its texts, and with its P4Info if a controller is to see it.
pub fn running(
    file: &Path,
    options: &Preprocess,
    describe: bool,
) -> anyhow::Result<(ir::Verified, P4Info, Texts)> {
    let passes = passes(options)?;
    let made = made(file, options, |typed, map, diags| {
        let program = p4::lower_verified(typed, map, &passes, diags)?;
        Some((program, describe.then(|| p4::api::of(typed, map)), Texts::of(map, options)))
    });
    let (program, api, texts) = made?;
    Ok((program, api.as_ref().map(p4info).transpose()?.unwrap_or_default(), texts))
}

/// The P4Info of a program.
pub fn p4info(api: &ir::api::Api) -> anyhow::Result<P4Info> {
    emit::p4info::message(api).map_err(|p| anyhow::anyhow!("P4Runtime cannot say this: {}", p.what))
}

/// Compiles what a controller has pushed: the text of a program, which may include Strait's own files only. The error has the diagnostics.
pub fn pushed(text: &str) -> Result<(ir::Verified, P4Info, Texts), String> {
    let (mut map, mut diags) = (SourceMap::default(), Diagnostics::default());
    let compiled = |typed: &p4::check::Typed<'_>, map: &SourceMap, diags: &mut Diagnostics| {
        let program = p4::lower_verified(typed, map, &p4::Passes::default(), diags)?;
        Some((program, p4::api::of(typed, map), Texts::of(map, &Preprocess::default())))
    };
    let made = p4::accept(&mut map, "pushed.p4", text, &[], &Embedded, &mut diags, compiled).flatten();
    let Some((program, api, texts)) = made else { return Err(p4::render::text(&map, diags.list(), false)) };
    let info = p4info(&api).map_err(|why| format!("{why:#}"))?;
    Ok((program, info, texts))
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
