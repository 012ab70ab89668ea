//! Starts and supervises the processes that run programs, and collects the results.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Serialize;

use super::worker::{self, Class, Said};
use super::{Job, Options, save};

/// The time without output after which a process counts as hung.
const PATIENCE: Duration = Duration::from_secs(180);
/// The number of programs that one process runs.
const CHUNK: usize = 240;
/// The largest number of differences that are saved and printed.
const SHOWN: usize = 200;

/// The result of a program on a target.
#[derive(Clone, Debug)]
pub struct Verdict {
    pub class: Class,
    pub text: String,
}

/// The results of all programs.
#[derive(Default)]
pub struct Results {
    /// The result for each number and target.
    pub verdicts: BTreeMap<(u64, String), Verdict>,
    times: BTreeMap<String, f64>,
}

/// The counts of the results, for people and as JSON.
#[derive(Serialize)]
struct Summary {
    seed: u64,
    programs: usize,
    seconds: f64,
    packets: u64,
    classes: BTreeMap<String, BTreeMap<Class, u64>>,
    reasons: BTreeMap<String, BTreeMap<String, u64>>,
    times: BTreeMap<String, f64>,
}

/// The directory for files of the child processes, which is removed even if they are killed.
pub fn scratch() -> PathBuf {
    worker::scratch().join(format!("strait-programs-{}", std::process::id()))
}

/// Runs all programs in child processes, and reports the results.
pub fn run(job: &Job, options: &Options, numbers: Vec<u64>) -> anyhow::Result<()> {
    let begun = Instant::now();
    std::fs::DirBuilder::new().mode(0o700).create(scratch()).context("a directory for objects")?;
    let chunk = CHUNK.min(numbers.len().div_ceil(options.jobs.max(1)).max(1));
    let count = numbers.len();
    let queue: Mutex<VecDeque<Vec<u64>>> = Mutex::new(numbers.chunks(chunk).map(<[u64]>::to_vec).collect());
    let results = Mutex::new(Results::default());
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().ok().and_then(|mut q| q.pop_front());
                    let Some(numbers) = next else { break };
                    if let Err(why) = chunk_of(options, numbers, &results) {
                        eprintln!("{why:#}");
                    }
                }
            });
        }
    });
    let results = results.into_inner().unwrap_or_default();
    let reported = report(job, options, &results, count, begun.elapsed().as_secs_f64());
    let _ = std::fs::remove_dir_all(scratch());
    reported
}

/// Runs some programs. If a process ends early, another one continues after the program that ended it.
fn chunk_of(options: &Options, numbers: Vec<u64>, results: &Mutex<Results>) -> anyhow::Result<()> {
    let mut left = numbers;
    while !left.is_empty() {
        let mut child = start(options, &left)?;
        let ended = listen(&mut child, results)?;
        let Some((number, target, class)) = ended else { break };
        note(results, number, &target, class, "the process ended while it ran this program".into());
        // Other programs of its group may already have results on some targets. They run again, with the same results.
        left.retain(|n| *n != number && !is_complete(results, *n, options));
    }
    Ok(())
}

fn is_complete(results: &Mutex<Results>, number: u64, options: &Options) -> bool {
    let Ok(results) = results.lock() else { return true };
    let has = |target: &str| results.verdicts.contains_key(&(number, target.to_string()));
    has("check") || has(worker::CASE) || options.target.iter().all(|t| has(t.name()))
}

fn note(results: &Mutex<Results>, number: u64, target: &str, class: Class, text: String) {
    if let Ok(mut results) = results.lock() {
        results.verdicts.insert((number, target.to_string()), Verdict { class, text });
    }
}

/// Starts a process of this command with some of its options.
fn command(options: &Options) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("the name of this command")?);
    let targets: Vec<&str> = options.target.iter().map(|t| t.name()).collect();
    command.arg("programs");
    for (name, value) in [
        ("--seed", options.seed.to_string()),
        ("--size", options.size.to_string()),
        ("--packets", options.packets.to_string()),
        ("--group", options.group.to_string()),
        ("--level", options.level.clone()),
        ("--target", targets.join(",")),
    ] {
        command.args([name, &value]);
    }
    if let Some(corpus) = &options.corpus {
        command.arg("--corpus").arg(corpus);
    }
    if let Some(cases) = &options.cases {
        command.arg("--cases").arg(cases);
    }
    quiet(&mut command);
    Ok(command)
}

/// The objects are temporary: they are written to memory, and not to the cache.
pub fn quiet(command: &mut Command) {
    command.env("TMPDIR", scratch()).env("STRAIT_CACHE", "/dev/null/none").stdin(Stdio::null());
}

fn start(options: &Options, numbers: &[u64]) -> anyhow::Result<Child> {
    let list: Vec<String> = numbers.iter().map(u64::to_string).collect();
    let mut command = command(options)?;
    command.arg("--numbers").arg(list.join(",")).stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().context("cannot start a process")
}

/// Reads the output of a process until it ends. If the process failed, returns the program and target at which it failed.
fn listen(child: &mut Child, results: &Mutex<Results>) -> anyhow::Result<Option<(u64, String, Class)>> {
    let out = child.stdout.take().context("a process without output")?;
    let (sender, lines) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let mut at = None;
    let hung = loop {
        match lines.recv_timeout(PATIENCE) {
            Ok(line) => match serde_json::from_str(&line) {
                Ok(Said::At { number, target }) => at = Some((number, target)),
                Ok(Said::Is { number, target, class, text }) => note(results, number, &target, class, text),
                Ok(Said::Took(times)) => {
                    if let Ok(mut results) = results.lock() {
                        times.into_iter().for_each(|(name, s)| *results.times.entry(name).or_default() += s);
                    }
                }
                Err(_) => {}
            },
            Err(RecvTimeoutError::Disconnected) => break false,
            Err(RecvTimeoutError::Timeout) => break true,
        }
    };
    if hung {
        let _ = child.kill();
    }
    let status = child.wait().context("a process")?;
    let _ = reader.join();
    let class = if hung { Class::Hung } else { Class::Crashed };
    Ok(at.filter(|_| hung || !status.success()).map(|(number, target)| (number, target, class)))
}

fn report(
    job: &Job,
    options: &Options,
    results: &Results,
    programs: usize,
    seconds: f64,
) -> anyhow::Result<()> {
    let mut summary = Summary {
        seed: options.seed,
        programs,
        seconds,
        packets: 0,
        classes: BTreeMap::new(),
        reasons: BTreeMap::new(),
        times: results.times.clone(),
    };
    let mut bad = Vec::new();
    for ((number, target), verdict) in &results.verdicts {
        *summary.classes.entry(target.clone()).or_default().entry(verdict.class).or_default() += 1;
        match verdict.class {
            Class::Equal => summary.packets += verdict.text.parse::<u64>().unwrap_or(0),
            Class::Refused | Class::Rejected | Class::Limit => {
                let reason = verdict.text.split(" (line ").next().unwrap_or_default();
                *summary.reasons.entry(target.clone()).or_default().entry(reason.into()).or_default() += 1;
            }
            Class::Different | Class::Crashed | Class::Hung => {}
        }
        // A corpus may contain wrong programs, but a generated program must be correct.
        let wrong = verdict.class == Class::Rejected && options.corpus.is_none();
        if wrong || matches!(verdict.class, Class::Different | Class::Crashed | Class::Hung) {
            bad.push((*number, target.as_str(), verdict));
        }
    }
    for (number, target, verdict) in bad.iter().take(SHOWN) {
        save::report(job, options, *number, target, verdict);
    }
    println!(
        "{programs} programs, seed {}, {seconds:.1} s, {:.1} programs/s",
        options.seed,
        programs as f64 / seconds
    );
    for (target, classes) in &summary.classes {
        let text: Vec<String> = classes.iter().map(|(class, n)| format!("{n} {}", name(*class))).collect();
        println!("{target:8} {}", text.join(", "));
        for (reason, count) in summary.reasons.get(target).into_iter().flatten() {
            println!("    {count:6} {reason}");
        }
    }
    let times: Vec<String> = summary.times.iter().map(|(name, s)| format!("{name} {s:.1} s")).collect();
    println!("{} packets compared; {}", summary.packets, times.join(", "));
    if options.json {
        println!("{}", serde_json::to_string(&summary)?);
    }
    anyhow::ensure!(bad.is_empty(), "{} programs are not as they should be", bad.len());
    Ok(())
}

/// The name of a result.
pub fn name(class: Class) -> &'static str {
    match class {
        Class::Equal => "equal",
        Class::Refused => "refused",
        Class::Different => "different",
        Class::Crashed => "crashed",
        Class::Hung => "hung",
        Class::Rejected => "rejected",
        Class::Limit => "rejected for a limit",
    }
}
