//! `strait gen routes`: generates routing tables with the shape of the Internet's.

use std::io::Write;

use abi::Bits;
use anyhow::{Context, ensure};
use bench::routes::{Family, routes};

use super::entries::Adding;
use crate::cli::RoutesArgs;
use crate::frontend;

/// Writes routes as `PREFIX/LENGTH NEXT-HOP`, or as entries of a program's table.
pub fn run(args: &RoutesArgs) -> anyhow::Result<()> {
    let family = if args.family == "6" { Family::V6 } else { Family::V4 };
    let program = match (&args.add, &args.program) {
        (Some(_), Some(file)) => Some(frontend::program(file, &args.preprocess)?),
        (Some(_), None) => anyhow::bail!("--add needs --program, whose table it names"),
        (None, _) => None,
    };
    let manifest = program.as_ref().map(interp::manifest::of);
    let mut adding = match (&args.add, &manifest) {
        (Some(text), Some(manifest)) => Some(Adding::parse(text, manifest)?),
        _ => None,
    };
    let routes = routes(family, args.count, args.next_hops, args.seed);
    ensure!(
        routes.len() == args.count,
        "there are only {} different prefixes of this shape, not {}",
        routes.len(),
        args.count
    );
    let file = &args.out;
    let unwritten = || format!("cannot write {}", file.display());
    let mut out = super::create(file)?;
    for route in &routes {
        let width = family.width();
        let line = match &mut adding {
            Some(adding) => {
                let value = Bits::new(width, route.bits >> (128 - width));
                adding.prefix(value, route.length, u64::from(route.next_hop) - 1)?
            }
            None => format!("{}/{} {}", family.address(route.bits), route.length, route.next_hop),
        };
        writeln!(out, "{line}").with_context(unwritten)?;
    }
    out.flush().with_context(unwritten)
}
