//! Reduces a program that gives different results: it removes packets, entries, statements and expressions one by one, as long as the
//! results still differ.
//!
//! It works on text, so that it can reduce programs of any origin. The checker rejects a text that is no longer a program, and that change
//! is undone.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use io::native::guarded::CHECKED;
use serde::{Deserialize, Serialize};

use super::case::Case;
use super::compile::Forms;
use super::play::Sums;
use super::{Job, compile, play, pool, save, worker};
use harness::targets::{Compiled, Limits, Object, kernel, native};

/// The time limit for one program.
const BUDGET: Duration = Duration::from_secs(300);
/// The exit status of a process whose program gives different results.
const DIFFERS: i32 = 7;

/// The exit status of a process if the target's compiler or the kernel rejects the emitted code.
const NO_OBJECT: i32 = 8;

/// The reduction of one program. Each attempt runs in a process of its own, because a reduced program may crash it.
#[derive(Clone, Serialize, Deserialize)]
struct Trial {
    name: String,
    target: String,
    text: String,
    case: Case,
    /// The optimisation level of the C compiler. A difference that occurs without optimisation is found faster.
    level: String,
}

/// A program and a case with different results.
struct Smaller {
    now: Trial,
    file: PathBuf,
    /// The exit status of the process: it reports a difference, or a signal ended it.
    fault: Option<i32>,
    until: Instant,
}

/// Reduces a program, and writes the result beside the original.
pub fn run(job: &Job, number: u64, target: &str, stem: &Path) -> anyhow::Result<()> {
    let (name, text) = worker::text_of(job, number).context("no such program")?;
    let forms = compile::program(&name, &text).map_err(|why| anyhow::anyhow!("{}", why.text))?;
    let case = Case::of(&forms.literal, &text, job.seed ^ number, job.packets).map_err(anyhow::Error::msg)?;
    let now = Trial { name, target: target.into(), text, case, level: "-O0".into() };
    let file = pool::scratch().join("trial.json");
    let mut smaller = Smaller { now, file, fault: Some(DIFFERS), until: Instant::now() + BUDGET };
    let mut ended = smaller.ends(&smaller.now)?;
    if ended == Some(0) {
        smaller.now.level = "-O3".into();
        ended = smaller.ends(&smaller.now)?;
    }
    anyhow::ensure!(ended != Some(0), "it does not go wrong in a process of its own");
    smaller.fault = ended;
    smaller.all();
    let _ = std::fs::remove_file(&smaller.file);
    let forms = compile::program(&smaller.now.name, &smaller.now.text)
        .map_err(|why| anyhow::anyhow!("{}", why.text))?;
    let file =
        stem.with_file_name(format!("{}-small.p4", stem.file_name().unwrap_or_default().to_string_lossy()));
    std::fs::write(&file, &smaller.now.text)?;
    std::fs::write(file.with_extension("stf"), save::stf(&forms.optimised, &smaller.now.case))?;
    println!("    made smaller: {} lines, {}", smaller.now.text.lines().count(), file.display());
    Ok(())
}

/// The process that tries a program. It exits with [`DIFFERS`] if the results differ.
pub fn trial(file: &Path) -> anyhow::Result<()> {
    let trial: Trial = serde_json::from_str(&std::fs::read_to_string(file)?)?;
    let Ok(Forms { literal, optimised: program }) = compile::program(&trial.name, &trial.text) else {
        return Ok(());
    };
    let object = match trial.target.as_str() {
        "interp" => {
            let differs = play::passes_differ(&literal, &program, &trial.case);
            std::process::exit(if matches!(differs, Ok(None)) { 0 } else { DIFFERS });
        }
        "tc" => kernel::Object::make(kernel::At::Tc, &program).map(Object::Kernel),
        "xdp" => kernel::Object::make(kernel::At::Xdp, &program).map(Object::Kernel),
        _ => machine_code(&program, &trial.level).map(Object::Native),
    };
    let object = match object {
        Ok(object) => object,
        Err(error) if error.is::<Limits>() => return Ok(()),
        Err(_) => std::process::exit(NO_OBJECT),
    };
    let differs = object.apart(|| {
        let Ok(mut target) = object.load() else { std::process::exit(NO_OBJECT) };
        let differs = differs(&program, &trial.case, &mut *target);
        let _ = target.end();
        differs
    })?;
    if differs {
        drop(object);
        std::process::exit(DIFFERS);
    }
    Ok(())
}

fn machine_code(program: &ir::Verified, level: &str) -> anyhow::Result<native::Object> {
    let output = emit::native(program).map_err(|limits| Limits::of(program, &limits))?;
    let object = io::native::Object::make_with(&output.c, &[level.to_string(), CHECKED.to_string()])?;
    Ok(native::Object::shared(Arc::new(object), output.manifest, program))
}

impl Smaller {
    /// Applies all reductions until none succeeds.
    fn all(&mut self) {
        self.fewer_packets();
        self.fewer_entries();
        let mut before = usize::MAX;
        while self.now.text.len() < before && Instant::now() < self.until {
            before = self.now.text.len();
            // Whole declarations are removed first, then their parts.
            for depth in 0..8 {
                self.fewer_lines(depth);
            }
            self.shorter_expressions();
        }
    }

    /// The exit status of a process that tries this program.
    fn ends(&self, trial: &Trial) -> anyhow::Result<Option<i32>> {
        std::fs::write(&self.file, serde_json::to_string(trial)?)?;
        let mut command = Command::new(std::env::current_exe()?);
        pool::quiet(&mut command);
        command.arg("programs").arg("--trial").arg(&self.file).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(command.status()?.code())
    }

    /// Keeps a change if the program still fails in the same way. A text that is not a program is rejected without a process.
    fn keep(&mut self, trial: Trial) -> bool {
        let keeps = Instant::now() < self.until
            && (trial.text == self.now.text || compile::program(&trial.name, &trial.text).is_ok())
            && self.ends(&trial).is_ok_and(|ended| ended == self.fault);
        if keeps {
            self.now = trial;
        }
        keeps
    }

    fn keep_text(&mut self, text: String) -> bool {
        self.keep(Trial { text, ..self.now.clone() })
    }

    fn keep_case(&mut self, case: Case) -> bool {
        self.keep(Trial { case, ..self.now.clone() })
    }

    /// Keeps a single packet if that is enough. Otherwise removes halves and then single packets.
    fn fewer_packets(&mut self) {
        for packet in self.now.case.packets.clone() {
            let alone = Case { packets: vec![packet], ..self.now.case.clone() };
            if self.keep_case(alone) {
                return;
            }
        }
        self.without(|case| &mut case.packets);
    }

    fn fewer_entries(&mut self) {
        self.without(|case| &mut case.entries);
        self.without(|case| &mut case.defaults);
        self.without(|case| &mut case.value_sets);
    }

    /// Removes smaller and smaller parts of a list.
    fn without<T>(&mut self, list: impl Fn(&mut Case) -> &mut Vec<T>) {
        let mut step = list(&mut self.now.case).len();
        while step > 0 {
            let mut at = 0;
            while at < list(&mut self.now.case).len() {
                let mut fewer = self.now.case.clone();
                let end = (at + step).min(list(&mut fewer).len());
                list(&mut fewer).drain(at..end);
                if !self.keep_case(fewer) {
                    at += step;
                }
            }
            step /= 2;
        }
    }

    /// Removes lines, each with the block that it opens; or removes the lines around a block.
    fn fewer_lines(&mut self, depth: usize) {
        let mut at = self.now.text.lines().count();
        while at > 0 {
            at -= 1;
            let lines: Vec<String> = self.now.text.lines().map(str::to_string).collect();
            let is_so_deep = |l: &&String| l.len() - l.trim_start().len() == 4 * depth;
            if lines.get(at).filter(is_so_deep).is_none() {
                continue;
            }
            let Some(end) = block_end(&lines, at) else { continue };
            let without = |skip: &dyn Fn(usize) -> bool| -> String {
                let kept = lines.iter().enumerate().filter(|(n, _)| !skip(*n));
                kept.map(|(_, l)| format!("{l}\n")).collect()
            };
            if self.keep_text(without(&|n| (at..=end).contains(&n))) {
                continue;
            }
            if end > at {
                self.keep_text(without(&|n| n == at || n == end));
            }
        }
    }

    /// Replaces an expression by a part of it.
    fn shorter_expressions(&mut self) {
        let mut at = 0;
        while let Some(open) = self.now.text[at..].find('(').map(|n| at + n) {
            at = open + 1;
            let Some(close) = partner(&self.now.text, open) else { continue };
            for part in parts(&self.now.text, open, close) {
                let text = format!("{}{part}{}", &self.now.text[..open], &self.now.text[close + 1..]);
                if self.keep_text(text) {
                    at = open;
                    break;
                }
            }
        }
    }
}

fn differs(program: &ir::Verified, case: &Case, target: &mut dyn Compiled) -> bool {
    let Ok(got) = play::compiled(target, case) else { return false };
    let entries = play::counted(target.device()).unwrap_or_default();
    let Ok(expected) = play::interpreted(program, case, Sums::Carried, Some(&got), &entries) else {
        return false;
    };
    play::difference(case, &expected, &got).is_some()
}

/// The line that closes what a line opens; the line itself if it opens nothing; `None` for a line that closes something.
fn block_end(lines: &[String], at: usize) -> Option<usize> {
    let mut depth = 0i32;
    for (n, line) in lines.iter().enumerate().skip(at) {
        for c in line.chars() {
            depth += i32::from(c == '{') - i32::from(c == '}');
            if depth < 0 {
                return None;
            }
        }
        if depth == 0 {
            return Some(n);
        }
    }
    None
}

/// The position of the parenthesis that closes this one.
fn partner(text: &str, open: usize) -> Option<usize> {
    let mut depth = 0;
    for (n, c) in text[open..].char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 1 => return Some(open + n),
            ')' => depth -= 1,
            ';' | '{' => return None,
            _ => {}
        }
    }
    None
}

/// The parts between parentheses at the top level, split at operators: groups and names.
fn parts(text: &str, open: usize, close: usize) -> Vec<String> {
    let inner = &text[open + 1..close];
    let (mut depth, mut all, mut part) = (0, Vec::new(), String::new());
    for c in inner.chars() {
        depth += i32::from(matches!(c, '(' | '[')) - i32::from(matches!(c, ')' | ']'));
        if c == ' ' && depth == 0 {
            all.push(std::mem::take(&mut part));
        } else {
            part.push(c);
        }
    }
    all.push(part);
    all.retain(|p| p.starts_with(|c: char| c.is_alphanumeric() || c == '('));
    if all.len() > 1 { all } else { Vec::new() }
}
