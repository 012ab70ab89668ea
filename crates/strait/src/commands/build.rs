//! `strait build`: compiles a program to a file.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use prost::Message as _;

use crate::cli::{BuildArgs, BuildTarget};
use crate::frontend;
use harness::targets::{Limits, kernel};

/// Compiles a program for a target.
pub fn run(args: &BuildArgs) -> anyhow::Result<()> {
    if args.target == BuildTarget::P4info {
        return p4info(args);
    }
    if args.target == BuildTarget::Dot {
        return picture(args);
    }
    let program = frontend::program(&args.source.program, &args.source.preprocess)?;
    if args.target == BuildTarget::Ir {
        return write(args.out.as_deref(), &ir::text::program(&program));
    }
    let make = match args.target {
        BuildTarget::Tc => emit::tc,
        BuildTarget::Xdp => emit::xdp,
        _ => emit::native,
    };
    let output = make(&program).map_err(|limits| Limits::of(&program, &limits))?;
    let wants_c = args.out.as_deref().is_some_and(|path| path.extension().is_some_and(|e| e == "c"));
    if args.target == BuildTarget::C || wants_c {
        return write(args.out.as_deref(), &output.c);
    }
    object(args, &program.name, &output)
}

/// Writes P4Info. This works for every correct program, even if no target can run it.
fn p4info(args: &BuildArgs) -> anyhow::Result<()> {
    let api = frontend::control_plane(&args.source.program, &args.source.preprocess)?;
    let info = frontend::p4info(&api)?;
    let binary = |path: &&Path| path.extension().is_some_and(|e| e == "bin" || e == "pb");
    match args.out.as_deref().filter(binary) {
        Some(path) => std::fs::write(path, info.encode_to_vec())
            .with_context(|| format!("cannot write {}", path.display())),
        None => write(args.out.as_deref(), &proto::text(&info)),
    }
}

/// Writes graphs: in Graphviz's language, or as SVG if OUT ends in .svg.
fn picture(args: &BuildArgs) -> anyhow::Result<()> {
    let (program, map) = frontend::with_text(&args.source.program, &args.source.preprocess)?;
    let statements = |loc: ir::Loc| frontend::statement(&map, loc);
    let drawn = args.out.as_deref().is_some_and(|path| path.extension().is_some_and(|e| e == "svg"));
    let text = match drawn {
        true => emit::dot::svg(&program, &statements),
        false => emit::dot::dot(&program, &statements),
    };
    write(args.out.as_deref(), &text)
}

fn write(out: Option<&Path>, text: &str) -> anyhow::Result<()> {
    match out.filter(|path| *path != Path::new("-")) {
        Some(path) => std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display())),
        None => {
            print!("{text}");
            Ok(())
        }
    }
}

/// Writes an object, and its manifest in a second file.
fn object(args: &BuildArgs, name: &str, output: &emit::Output) -> anyhow::Result<()> {
    let ending = if args.target == BuildTarget::Native { "so" } else { "o" };
    if args.out.as_deref() == Some(Path::new("-")) {
        bail!(
            "an object and its manifest are two files: `-o FILE` names one, and the other stands beside it"
        );
    }
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.{ending}")));
    let object = match args.target {
        BuildTarget::Native => io::native::Object::make(&output.c)?.bytes()?,
        _ => kernel::compile(&output.c, &[], &abi::Cancel::default())?,
    };
    std::fs::write(&out, object).with_context(|| format!("cannot write {}", out.display()))?;
    let manifest = out.with_extension("json");
    write(Some(&manifest), &serde_json::to_string_pretty(&output.manifest)?)?;
    println!("{} and {}", out.display(), manifest.display());
    Ok(())
}
