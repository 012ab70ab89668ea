//! `strait build`.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::cli::{BuildArgs, BuildTarget};
use crate::frontend;
use crate::targets::tc;

/// Compiles for a target.
pub fn run(args: &BuildArgs) -> anyhow::Result<()> {
    let later = match args.target {
        BuildTarget::Native => Some("native"),
        BuildTarget::Xdp => Some("xdp"),
        BuildTarget::P4info => Some("p4info"),
        BuildTarget::Dot => Some("dot"),
        _ => None,
    };
    if let Some(later) = later {
        bail!("the target {later} is not in this release; tc, c and ir are");
    }
    let program = frontend::program(&args.source.program, &args.source.preprocess)?;
    if args.target == BuildTarget::Ir {
        return write(args.out.as_deref(), &ir::text::program(&program));
    }
    let output = emit::tc(&program).map_err(|limits| anyhow::anyhow!(tc::limits_text(&program, &limits)))?;
    if args.target == BuildTarget::C {
        return write(args.out.as_deref(), &output.c);
    }
    object(args, &program.name, &output)
}

fn write(out: Option<&Path>, text: &str) -> anyhow::Result<()> {
    match out {
        Some(path) => std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display())),
        None => {
            print!("{text}");
            Ok(())
        }
    }
}

/// The object, and its manifest beside it.
fn object(args: &BuildArgs, name: &str, output: &emit::Output) -> anyhow::Result<()> {
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.o")));
    let dir = std::env::temp_dir().join(format!("strait-build-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let made = tc::compile(&output.c, &dir, name);
    let copied =
        made.and_then(|o| std::fs::copy(o, &out).with_context(|| format!("cannot write {}", out.display())));
    let _ = std::fs::remove_dir_all(&dir);
    copied?;
    let manifest = out.with_extension("json");
    write(Some(&manifest), &serde_json::to_string_pretty(&output.manifest)?)?;
    println!("{} and {}", out.display(), manifest.display());
    Ok(())
}
