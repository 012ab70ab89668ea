//! Differential tests on programs: whole programs that nobody wrote, on the interpreter and on every other target.
//!
//! * `generate`: P4 text from a number. `compile`: from text to IR. `case`: entries and packets. `play`: a run, and what tells two apart.
//! * `group`: many programs in one object. `worker`: the process that runs them. `pool`: processes, and what came of them.
//! * `reduce`: smaller programs that differ still. `save`: programs and packet tests for people.

mod case;
mod compile;
mod generate;
mod group;
mod play;
mod pool;
mod reduce;
mod save;
mod worker;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;

use crate::targets::RunTarget;

/// Run generated programs, or those of a directory, on the interpreter and on other targets, and compare.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// How many programs.
    #[arg(long, default_value_t = 1000)]
    pub count: u64,
    /// The number of the first one.
    #[arg(long, default_value_t = 0)]
    pub first: u64,
    /// Other seeds, other programs.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How large programs are: 1 to 4.
    #[arg(long, default_value_t = 2)]
    pub size: u32,
    /// Packets for each program.
    #[arg(long, default_value_t = 100)]
    pub packets: usize,
    /// Targets that are held against the interpreter; `interp` is the interpreter before and after the passes over the IR.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "interp,native")]
    pub target: Vec<RunTarget>,
    /// Processes at a time.
    #[arg(long, default_value_t = 2)]
    pub jobs: usize,
    /// Programs in one object.
    #[arg(long, default_value_t = 24)]
    pub group: usize,
    /// The C compiler's level of optimisation; `mixed` has one group in eight with -O3, the others with -O0.
    #[arg(long, default_value = "mixed")]
    pub level: String,
    /// Where programs that differ are kept, each with a packet test.
    #[arg(long, default_value = "target/programs")]
    pub keep: PathBuf,
    /// The programs of a directory instead of generated ones: all .p4 files there.
    #[arg(long)]
    pub corpus: Option<PathBuf>,
    /// Write what every program is run with as a packet test into this directory, with what the interpreter sends: other judges can play it.
    #[arg(long)]
    pub cases: Option<PathBuf>,
    /// Make programs that differ smaller, as long as they still differ; this takes minutes.
    #[arg(long)]
    pub reduce: bool,
    /// Print the counts as JSON, too.
    #[arg(long)]
    pub json: bool,
    /// Print the programs, and run nothing.
    #[arg(long)]
    pub print: bool,
    /// For the processes that this command starts: their programs.
    #[arg(long, value_delimiter = ',', hide = true)]
    pub numbers: Vec<u64>,
    /// For the process that tries a smaller program: the file with it.
    #[arg(long, hide = true)]
    pub trial: Option<PathBuf>,
}

/// What a process has to do.
pub struct Job {
    pub seed: u64,
    pub size: u32,
    pub packets: usize,
    pub group: usize,
    pub level: String,
    pub targets: Vec<RunTarget>,
    pub corpus: Option<Vec<PathBuf>>,
    pub cases: Option<PathBuf>,
}

impl Job {
    fn of(options: &Options) -> anyhow::Result<Job> {
        Ok(Job {
            seed: options.seed,
            size: options.size,
            packets: options.packets,
            group: options.group,
            level: options.level.clone(),
            targets: options.target.clone(),
            corpus: options.corpus.as_deref().map(files).transpose()?,
            cases: options.cases.clone(),
        })
    }

    /// The level of optimisation for a group that begins with a program.
    fn level(&self, first: u64) -> String {
        let mixed =
            || if (first / self.group.max(1) as u64).is_multiple_of(8) { "-O3" } else { "-O0" }.to_string();
        match self.level.as_str() {
            "mixed" => mixed(),
            level => format!("-O{}", level.trim_start_matches("-O")),
        }
    }
}

/// All programs of a directory and below, in order.
fn files(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![dir.to_path_buf()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).with_context(|| dir.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == "p4") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Runs what the options say.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let job = Job::of(options)?;
    if let Some(file) = &options.trial {
        return reduce::trial(file);
    }
    if !options.numbers.is_empty() {
        worker::run(&job, &options.numbers);
        return Ok(());
    }
    let numbers: Vec<u64> = match &job.corpus {
        Some(files) => (0..files.len() as u64).skip(options.first as usize).collect(),
        None => (options.first..options.first + options.count).collect(),
    };
    if options.print {
        for number in numbers {
            print!("{}", worker::text_of(&job, number).unwrap_or_default().1);
        }
        return Ok(());
    }
    pool::run(&job, options, numbers)
}
