//! Files to programs: the only place where the front end meets the file system.

use std::path::{Path, PathBuf};

use anyhow::Context;
use p4::{Diagnostics, Embedded, SourceMap, SourceProvider};

use crate::cli::Preprocess;

/// Includes from directories, then Strait's own.
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

/// What compiling a file gave.
pub struct Compiled {
    /// The program, unless there were mistakes.
    pub program: Option<ir::Verified>,
    /// Files.
    pub map: SourceMap,
    /// Mistakes and warnings.
    pub diags: Diagnostics,
}

/// Compiles a file.
pub fn compile(file: &Path, options: &Preprocess) -> anyhow::Result<Compiled> {
    let mut checked = check(file, options)?;
    let program = checked.tree.as_ref().and_then(|t| p4::lower_verified(t, &checked.map, &mut checked.diags));
    Ok(Compiled { program, map: checked.map, diags: checked.diags })
}

/// What checking a file gave.
pub struct Checked {
    /// The program's tree, unless there were mistakes.
    pub tree: Option<p4::ast::Program>,
    /// Files.
    pub map: SourceMap,
    /// Mistakes and warnings.
    pub diags: Diagnostics,
}

/// Checks a file: names, types and the rules of the language.
pub fn check(file: &Path, options: &Preprocess) -> anyhow::Result<Checked> {
    let text = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let text = String::from_utf8_lossy(&text);
    let defines: Vec<_> = options.define.iter().map(|d| d.split_once('=').unwrap_or((d, "1"))).collect();
    let defines: Vec<_> = defines.into_iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
    let (mut map, mut diags) = (SourceMap::default(), Diagnostics::default());
    let name = file.display().to_string();
    let tree = p4::accept(&mut map, &name, &text, &defines, &Files(&options.include), &mut diags);
    if let (Some(tree), Some(wanted)) = (&tree, options.arch) {
        let (wanted, found) = (wanted.name(), p4::api::architecture(&p4::check(tree, &map).0));
        anyhow::ensure!(
            found == wanted,
            "{} is written for {}, not for {wanted}",
            file.display(),
            if found.is_empty() { "no architecture that is known" } else { found }
        );
    }
    Ok(Checked { tree, map, diags })
}

/// What the control plane sees of a file's program; mistakes go to stderr and become the error.
pub fn control_plane(file: &Path, options: &Preprocess) -> anyhow::Result<ir::api::Api> {
    let checked = check(file, options)?;
    print(&checked.map, &checked.diags);
    let tree = checked.tree.as_ref();
    let tree = tree.ok_or_else(|| anyhow::anyhow!("{} is not accepted", file.display()))?;
    Ok(p4::api::of(&p4::check(tree, &checked.map).0, &checked.map))
}

/// Compiles a file; mistakes go to stderr and become the error.
pub fn program(file: &Path, options: &Preprocess) -> anyhow::Result<ir::Verified> {
    let compiled = compile(file, options)?;
    print(&compiled.map, &compiled.diags);
    compiled.program.ok_or_else(|| anyhow::anyhow!("{} is not accepted", file.display()))
}

/// Mistakes and warnings to stderr.
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
