//! Tasks for maintainers, such as `cargo xtask conformance --p4c DIR` and `cargo xtask speed CASE.stf…`.
#![forbid(unsafe_code)]

mod cases;
mod compliance;
mod conformance;
mod include;
mod judge;
mod p4info;
mod programs;
mod report;
mod speed;
mod tutorials;

use std::path::{Path, PathBuf};

use clap::Parser;

/// The tasks of `cargo xtask`.
#[derive(Parser)]
enum Task {
    /// Test the front end and every target with p4c's test corpus, which is not part of this repository. Tc needs root.
    Conformance {
        /// A checkout of p4lang/p4c.
        #[arg(long)]
        p4c: PathBuf,
        /// Run only the programs whose names contain this, and print details about each; no file is written.
        #[arg(long)]
        only: Option<String>,
        /// The file for the tables.
        #[arg(long, default_value = "docs/reference/conformance.md")]
        out: PathBuf,
    },
    /// Write the manual's page about diagnostics.
    Diagnostics {
        /// The file to write.
        #[arg(long, default_value = "docs/reference/diagnostics.md")]
        out: PathBuf,
    },
    /// Write the manual's pages about what the RFCs demand of a translator, and P4Runtime of a server.
    Compliance {
        /// The file about the RFCs.
        #[arg(long, default_value = "docs/reference/rfc-compliance.md")]
        out: PathBuf,
        /// The file about P4Runtime.
        #[arg(long, default_value = "docs/reference/p4runtime.md")]
        p4runtime: PathBuf,
    },
    /// Compile a program with p4c, and play its packet tests on BMv2's simple_switch. Needs root, for a network namespace.
    Judge(judge::Options),
    /// Run generated programs, or those of a directory, on the interpreter and on other targets, and compare the results.
    Programs(Box<programs::Options>),
    /// Run the solutions of p4lang/tutorials, which are not part of this repository, in `strait lab`. Needs root.
    Tutorials(tutorials::Options),
    /// Measure the packet rate of the interpreter for each case.
    Speed {
        /// The program of all cases.
        #[arg(long, default_value = "apps/nat64/nat64.p4")]
        program: PathBuf,
        /// The packet tests (STF) to run.
        #[arg(required = true)]
        cases: Vec<PathBuf>,
    },
}

fn main() -> anyhow::Result<()> {
    match Task::parse() {
        Task::Conformance { p4c, only, out } => conform(&p4c, only.as_deref(), &out),
        Task::Diagnostics { out } => Ok(std::fs::write(out, p4::explain::page())?),
        Task::Compliance { out, p4runtime } => {
            std::fs::write(out, compliance::page(Path::new("."))?)?;
            Ok(std::fs::write(p4runtime, compliance::p4runtime(Path::new("."))?)?)
        }
        Task::Judge(options) => judge::run(&options),
        Task::Programs(options) => programs::run(&options),
        Task::Tutorials(options) => tutorials::run(&options),
        Task::Speed { program, cases } => speed::run(&program, &cases),
    }
}

fn conform(p4c: &Path, only: Option<&str>, out: &Path) -> anyhow::Result<()> {
    let exceptions = report::Exceptions::read()?;
    let results = conformance::run(p4c, only.unwrap_or(""))?;
    let text = report::markdown(&results, &exceptions);
    match only {
        Some(_) => results.iter().for_each(|r| println!("{}", report::whole(r))),
        None => {
            std::fs::write(out, &text)?;
            println!("{}\nwritten to {}", report::summary(&results), out.display());
        }
    }
    println!("{} exceptions have no reason yet", report::unexplained(&results, &exceptions));
    let broken = report::broken(&results, &exceptions);
    anyhow::ensure!(
        broken.is_empty(),
        "these do not parse, panic, or fail their case: {}",
        broken.join(", ")
    );
    Ok(())
}
