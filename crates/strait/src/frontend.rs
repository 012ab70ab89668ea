//! Files to programs: the only place where the front end meets the file system.

use std::path::{Path, PathBuf};

use anyhow::Context;
use p4::{Diagnostics, Embedded, SourceMap, SourceProvider};

use crate::cli::{Arch, Preprocess};

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
    if let Some(arch @ (Arch::Psa | Arch::Pna)) = options.arch {
        anyhow::bail!("the architecture {arch:?} is not in this release; v1model is");
    }
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let defines: Vec<_> = options.define.iter().map(|d| d.split_once('=').unwrap_or((d, "1"))).collect();
    let defines: Vec<_> = defines.into_iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
    let (mut map, mut diags) = (SourceMap::default(), Diagnostics::default());
    let name = file.display().to_string();
    let program = p4::compile(&mut map, &name, &text, &defines, &Files(&options.include), &mut diags);
    Ok(Compiled { program, map, diags })
}

/// Compiles a file; mistakes go to stderr and become the error.
pub fn program(file: &Path, options: &Preprocess) -> anyhow::Result<ir::Verified> {
    let compiled = compile(file, options)?;
    print(&compiled);
    compiled.program.ok_or_else(|| anyhow::anyhow!("{} is not accepted", file.display()))
}

/// Mistakes and warnings to stderr.
pub fn print(compiled: &Compiled) {
    use std::io::IsTerminal as _;
    if !compiled.diags.list().is_empty() {
        let colour = std::io::stderr().is_terminal();
        eprint!("{}", p4::render::text(&compiled.map, compiled.diags.list(), colour));
    }
}
