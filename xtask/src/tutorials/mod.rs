//! `cargo xtask tutorials`: the solutions of the exercises of p4lang/tutorials, which are not part of this repository, in `strait lab`. Their own
//! programs, entries, senders, receivers and controllers run unmodified, and what their READMEs say must be seen. Needs root.
//!
//! * `net`: a lab that runs, and processes in it. `exercises`: what is done and seen in each.

mod exercises;
mod net;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, ensure};
use clap::Args;
use io::workdir::WorkDir;

use exercises::EXERCISES;
use net::Place;

/// The options of the task.
#[derive(Args)]
pub struct Options {
    /// A checkout of p4lang/tutorials.
    #[arg(long)]
    path: PathBuf,
    /// The targets, separated by commas.
    #[arg(long = "target", value_delimiter = ',', default_values = ["interp", "native"])]
    targets: Vec<String>,
    /// Run these exercises only.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// The `strait` to test.
    #[arg(long, default_value = "target/debug/strait")]
    strait: PathBuf,
    /// A Python that has scapy and p4runtime-shell (`scripts/prepare test` installs one).
    #[arg(long, default_value = "target/clients/bin/python")]
    python: PathBuf,
    /// Build all links without delay, loss and rate.
    #[arg(long)]
    ideal_links: bool,
}

/// Runs the exercises, and prints a table.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let absolute = |path: &Path| std::path::absolute(path).with_context(|| path.display().to_string());
    let copy = WorkDir::named("st-tutorials-")?;
    let mut failed = Vec::new();
    for exercise in
        EXERCISES.iter().filter(|e| options.only.is_empty() || options.only.iter().any(|o| o == e.name))
    {
        for target in &options.targets {
            let place = Place {
                strait: absolute(&options.strait)?,
                python: absolute(&options.python)?,
                shim: absolute(Path::new("scripts/p4tmp"))?,
                ideal_links: options.ideal_links,
                directory: copy.path().join(target).join("exercises").join(exercise.name),
                target: target.clone(),
            };
            let begun = Instant::now();
            let done = prepare(options, &place, exercise.name).and_then(|()| (exercise.check)(&place));
            let time = begun.elapsed().as_secs_f64();
            match done {
                Ok(seen) => println!("{:<15} {target:<7} passed in {time:.0} s: {seen}", exercise.name),
                Err(why) => {
                    println!("{:<15} {target:<7} FAILED after {time:.0} s: {why:#}", exercise.name);
                    failed.push(format!("{} on {target}", exercise.name));
                }
            }
        }
    }
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

/// Makes a copy of an exercise with its solution in place, and what `make` puts into `build`, as docs/lab.md says.
fn prepare(options: &Options, place: &Place, name: &str) -> anyhow::Result<()> {
    let exercises = place.directory.parent().context("a directory")?;
    let root = exercises.parent().context("a directory")?;
    std::fs::create_dir_all(exercises)?;
    let given = options.path.join("exercises").join(name);
    ensure!(given.is_dir(), "{} is not there", given.display());
    net::shell(
        root,
        &format!(
            "cp -a '{}' exercises/ && cp -a '{}' .",
            given.display(),
            options.path.join("utils").display()
        ),
    )?;
    // The solution of multicast has entries, too.
    net::shell(
        &place.directory,
        "mkdir -p build logs; for f in solution/*.json; do [ ! -e $f ] || cp $f *-topo/; done; cp solution/*.p4 solution/*.py . 2>/dev/null; true",
    )?;
    for program in std::fs::read_dir(&place.directory)?.flatten().map(|entry| entry.path()) {
        if program.extension().is_none_or(|end| end != "p4") {
            continue;
        }
        let stem = program.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let strait = place.strait.display();
        net::shell(
            &place.directory,
            &format!(
                "'{strait}' build {stem}.p4 --target p4info -o build/{stem}.p4.p4info.txtpb && cp {stem}.p4 build/{stem}.json"
            ),
        )?;
    }
    Ok(())
}
