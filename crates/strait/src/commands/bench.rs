//! `strait bench`: measures. The measurements are in the crate `bench`; here are their arguments, and what is printed.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use anyhow::Context;
use bench::over_memory::{floods, learn, lpm, nat44_sessions, pipeline, sessions, tables};
use bench::routes::Family;
use serde::Serialize;

use crate::cli::{
    BenchCommand, FloodsArgs, LearnArgs, LpmArgs, PipelineArgs, SessionsApp, SessionsArgs, TablesArgs,
};
use crate::frontend;

/// Runs a benchmark.
pub fn run(command: &BenchCommand) -> anyhow::Result<()> {
    let own = || std::env::current_exe().context("where is this program?");
    match command {
        BenchCommand::Nat64(options) => drop(bench::nat64::run(options, &own()?)?),
        BenchCommand::Io(options) => drop(bench::drivers::run(options, &own()?)?),
        BenchCommand::Xdp(options) => drop(bench::xdp::run(options, &own()?)?),
        BenchCommand::Beside(options) => drop(bench::beside::run(options, &own()?)?),
        BenchCommand::Pipeline(args) => measure_pipeline(args)?,
        BenchCommand::Lpm(args) => measure_lpm(args)?,
        BenchCommand::Tables(args) => measure_tables(args)?,
        BenchCommand::Learn(args) => measure_learn(args)?,
        BenchCommand::Sessions(args) => measure_sessions(args)?,
        BenchCommand::Floods(args) => measure_floods(args)?,
    }
    Ok(())
}

/// Runs a benchmark and prints its figures: lines as soon as there are some, or JSON at the end.
fn shown<F: Display + Serialize>(
    json: bool,
    measure: impl FnOnce(&mut dyn FnMut(&F)) -> anyhow::Result<Vec<F>>,
) -> anyhow::Result<Vec<F>> {
    let all = measure(&mut |figures| {
        if !json {
            println!("{figures}");
        }
    })?;
    if json {
        println!("{}", serde_json::to_string_pretty(&all)?);
    }
    Ok(all)
}

/// Draws the figures if a file for them is given.
fn drawn<F>(
    all: &[F],
    file: Option<&Path>,
    draw: fn(&[F], &Path) -> bench::Result<()>,
) -> anyhow::Result<()> {
    Ok(file.map_or(Ok(()), |file| draw(all, file))?)
}

fn measure_pipeline(args: &PipelineArgs) -> anyhow::Result<()> {
    let program = frontend::program(&args.program, &args.preprocess)?;
    let read = |file: &PathBuf| Ok(super::test::read(file)?.case);
    let cases = args.cases.iter().map(read).collect::<anyhow::Result<Vec<_>>>()?;
    shown(args.json, |each| pipeline::run(&program, &cases, each))?;
    Ok(())
}

fn measure_lpm(args: &LpmArgs) -> anyhow::Result<()> {
    let wanted = |family: &Family| args.families.as_ref().is_none_or(|all| all.contains(&family.version()));
    let options = lpm::Options {
        families: [Family::V4, Family::V6].into_iter().filter(wanted).collect(),
        routes: args.routes.clone(),
        workers: args.workers.clone(),
        seed: args.seed,
    };
    let all = shown(args.json, |each| lpm::run(&options, each))?;
    drawn(&all, args.svg.as_deref(), lpm::draw)
}

fn measure_tables(args: &TablesArgs) -> anyhow::Result<()> {
    let options = tables::Options {
        kinds: args.kinds.clone(),
        entries: args.entries.clone(),
        workers: args.workers.clone(),
        seed: args.seed,
    };
    let all = shown(args.json, |each| tables::run(&options, each))?;
    drawn(&all, args.svg.as_deref(), tables::draw)
}

fn measure_learn(args: &LearnArgs) -> anyhow::Result<()> {
    shown(args.json, |each| learn::run(&args.entries, each))?;
    Ok(())
}

fn measure_sessions(args: &SessionsArgs) -> anyhow::Result<()> {
    let options =
        sessions::Options { sessions: args.sessions.clone(), workers: args.workers.clone(), seed: args.seed };
    match args.app {
        SessionsApp::Nat64 => {
            shown(args.json, |each| sessions::run(args.target, &options, each))?;
            Ok(())
        }
        SessionsApp::Nat44 => {
            let all = shown(args.json, |each| nat44_sessions::run(&options, each))?;
            drawn(&all, args.svg.as_deref(), nat44_sessions::draw)
        }
    }
}

fn measure_floods(args: &FloodsArgs) -> anyhow::Result<()> {
    let options = floods::Options {
        floods: args.floods.clone(),
        rate: args.rate,
        established: args.established,
        new_sessions: args.new_sessions,
        seconds: args.seconds,
        seed: args.seed,
    };
    shown(args.json, |each| floods::run(&options, each))?;
    Ok(())
}
