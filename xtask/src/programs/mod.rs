//! Differential tests on programs: generated programs run on the interpreter and on every other target, and the results are compared.
//!
//! * `generate` generates P4 text from a number, and `compile` compiles it. `case` generates entries and packets.
//! * `play` runs a case and compares two runs.
//! * `group` compiles many programs into one object. `worker` is the process that runs them. `pool` starts these processes, and collects
//!   the results.
//! * `reduce` makes programs smaller that give different results. `save` writes programs and packet tests for people.

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

use harness::targets::RunTarget;

/// Run generated programs, or those of a directory, on the interpreter and on other targets, and compare the results.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// The number of programs.
    #[arg(long, default_value_t = 1000)]
    pub count: u64,
    /// The number of the first program.
    #[arg(long, default_value_t = 0)]
    pub first: u64,
    /// The seed of the programs.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The size of the programs, from 1 to 4.
    #[arg(long, default_value_t = 2)]
    pub size: u32,
    /// The number of packets for each program.
    #[arg(long, default_value_t = 100)]
    pub packets: usize,
    /// The targets that are compared with the interpreter; `interp` compares the interpreter before and after the passes over the IR.
    #[arg(long, value_delimiter = ',', default_value = "interp,native")]
    pub target: Vec<RunTarget>,
    /// The number of parallel processes.
    #[arg(long, default_value_t = 2)]
    pub jobs: usize,
    /// The number of programs in one object.
    #[arg(long, default_value_t = 24)]
    pub group: usize,
    /// The optimisation level of the C compiler; `mixed` compiles one group in eight with -O3, and the others with -O0.
    #[arg(long, default_value = "mixed")]
    pub level: String,
    /// The directory for programs that give different results, each with a packet test.
    #[arg(long, default_value = "target/programs")]
    pub keep: PathBuf,
    /// Run all .p4 files in this directory instead of generated programs.
    #[arg(long)]
    pub corpus: Option<PathBuf>,
    /// Write the input of every program as a packet test into this directory, with the packets that the interpreter sends, so that other
    /// implementations can run it.
    #[arg(long)]
    pub cases: Option<PathBuf>,
    /// Reduce programs as long as they still give different results; this takes minutes.
    #[arg(long)]
    pub reduce: bool,
    /// Print the counts as JSON, too.
    #[arg(long)]
    pub json: bool,
    /// Print the programs, and run nothing.
    #[arg(long)]
    pub print: bool,
    /// For child processes: the programs to run.
    #[arg(long, value_delimiter = ',', hide = true)]
    pub numbers: Vec<u64>,
    /// For the process that tries a reduced program: the file with it.
    #[arg(long, hide = true)]
    pub trial: Option<PathBuf>,
}

/// The task of a process.
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

    /// The optimisation level of the group that begins with a program.
    fn level(&self, first: u64) -> String {
        let mixed =
            || if (first / self.group.max(1) as u64).is_multiple_of(8) { "-O3" } else { "-O0" }.to_string();
        match self.level.as_str() {
            "mixed" => mixed(),
            level => format!("-O{}", level.trim_start_matches("-O")),
        }
    }
}

/// All programs in a directory and its subdirectories, in order.
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

/// Executes the command.
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
