//! The process that runs programs. If machine code crashes, it ends only this process.
//!
//! It prints lines of JSON: the program that it runs now, and the result of each program. Programs are compiled in groups.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use io::native::guarded::CHECKED;
use serde::{Deserialize, Serialize};

use super::case::Case;
use super::compile::Forms;
use super::group::{self, Emitted};
use super::play::{self, Sums};
use super::{Job, compile, generate, save};
use harness::targets::kernel::{self, At, KernelTarget};
use harness::targets::{Compiled, RunTarget, native};

/// A line that a worker prints.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Said {
    /// The worker begins a step of a program.
    At { number: u64, target: String },
    /// The result of a program on a target. For the front end, the target is `check`; for the program's entries and packets, it is
    /// [`CASE`].
    Is { number: u64, target: String, class: Class, text: String },
    /// The time in seconds that each kind of work took.
    Took(BTreeMap<String, f64>),
}

/// The name that stands for a target in results about the entries and packets of a program.
pub const CASE: &str = "case";

/// The result of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Every packet and every cell is equal.
    Equal,
    /// The target reports that it does not support the program.
    Refused,
    Different,
    /// The process ended, or the compiler rejected the emitted code.
    Crashed,
    Hung,
    /// The checker rejected the program, or lowering did because of a limit of this release.
    Rejected,
    /// The program was rejected with E05xx.
    Limit,
}

/// A program with its input.
struct Ready {
    number: u64,
    literal: ir::Verified,
    program: ir::Verified,
    case: Case,
}

/// Runs programs, one group at a time.
pub fn run(job: &Job, numbers: &[u64]) {
    let mut times = Times::default();
    for group in numbers.chunks(job.group.max(1)) {
        let ready: Vec<Ready> =
            times.take("compile P4", || group.iter().filter_map(|n| prepare(job, *n)).collect());
        for target in &job.targets {
            match target {
                RunTarget::Native => natives(job, &ready, &mut times),
                RunTarget::Tc => kernels(At::Tc, &ready, &mut times),
                RunTarget::Xdp => kernels(At::Xdp, &ready, &mut times),
                RunTarget::Interp => times.take("run interp", || ready.iter().for_each(passes)),
            }
        }
    }
    say(&Said::Took(times.0));
}

fn say(line: &Said) {
    let mut out = std::io::stdout().lock();
    let text = serde_json::to_string(line).unwrap_or_default();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

fn is(number: u64, target: &str, class: Class, text: impl Into<String>) {
    say(&Said::Is { number, target: target.into(), class, text: text.into() });
}

fn at(number: u64, target: &str) {
    say(&Said::At { number, target: target.into() });
}

/// The text of a program, which is generated or read from a file.
pub fn text_of(job: &Job, number: u64) -> Option<(String, String)> {
    match &job.corpus {
        None => Some((format!("g{number}.p4"), generate::program(job.seed, number, job.size))),
        Some(files) => {
            let file = files.get(number as usize)?;
            let text = std::fs::read(file).ok()?;
            Some((file.display().to_string(), String::from_utf8_lossy(&text).into_owned()))
        }
    }
}

fn prepare(job: &Job, number: u64) -> Option<Ready> {
    at(number, "check");
    let (name, text) = text_of(job, number)?;
    match compile::program(&name, &text) {
        Err(why) => {
            is(number, "check", if why.limit { Class::Limit } else { Class::Rejected }, why.text);
            None
        }
        Ok(Forms { literal, optimised: program }) => {
            at(number, CASE);
            match Case::of(&literal, &text, job.seed ^ number, job.packets) {
                Ok(case) => {
                    if let Some(dir) = &job.cases
                        && let Err(why) = save::case(dir, &name, &literal, &case)
                    {
                        is(number, CASE, Class::Crashed, format!("the case is not written: {why:#}"));
                    }
                    Some(Ready { number, literal, program, case })
                }
                Err(why) => {
                    is(number, CASE, Class::Refused, kind_of(&why));
                    None
                }
            }
        }
    }
}

/// Compares the interpreter's run of the optimised program with that of the literal one.
fn passes(one: &Ready) {
    at(one.number, "interp");
    match play::passes_differ(&one.literal, &one.program, &one.case) {
        Ok(None) => is(one.number, "interp", Class::Equal, one.case.packets.len().to_string()),
        Ok(Some(difference)) => is(one.number, "interp", Class::Different, difference.text),
        Err(why) => is(one.number, "interp", Class::Different, why),
    }
}

/// Compiles a group to machine code, and then runs each program.
fn natives(job: &Job, ready: &[Ready], times: &mut Times) {
    let mut emitted = Vec::new();
    for (n, one) in ready.iter().enumerate() {
        at(one.number, "native");
        match times.take("emit C", || emit::native(&one.program)) {
            Ok(output) => {
                emitted.push(Emitted { number: n, output, program: &one.program });
            }
            Err(limits) => is(one.number, "native", Class::Refused, kind_of(&limits[0].what)),
        }
    }
    let level = job.level(ready.first().map_or(0, |r| r.number));
    let objects = times.take("cc", || group::compile(emitted, &[level, CHECKED.to_string()]));
    for (n, object) in objects {
        let one = &ready[n];
        at(one.number, "native");
        match object {
            Err(why) => is(one.number, "native", Class::Crashed, why),
            Ok(object) => times.take("run native", || match native::NativeTarget::load(&object) {
                Ok(mut target) => judge(one, &one.case, "native", &mut target),
                Err(why) => is(one.number, "native", Class::Crashed, format!("{why:#}")),
            }),
        }
    }
}

/// Runs the programs on the kernel, one after the other. Short frames go over an interface, in a network namespace of its own.
fn kernels(hook: At, ready: &[Ready], times: &mut Times) {
    if let Err(why) = io::netns::run_in_fresh(|| in_namespace(hook, ready, times)) {
        ready.iter().for_each(|one| is(one.number, hook.name(), Class::Crashed, why.to_string()));
    }
}

fn in_namespace(hook: At, ready: &[Ready], times: &mut Times) {
    for one in ready {
        at(one.number, hook.name());
        match hook.emit(&one.program) {
            Err(limits) => {
                is(one.number, hook.name(), Class::Refused, kind_of(&limits[0].what));
                continue;
            }
            Ok(output) if kernel::makes_copies(&output.manifest) => {
                is(one.number, hook.name(), Class::Refused, "copies, which test runs do not see");
                continue;
            }
            Ok(_) => {}
        }
        let loaded = times.take("clang, verifier", || {
            let object = kernel::Object::make(hook, &one.program)?;
            KernelTarget::load_named(&object, &format!("test-programs-{}", std::process::id()))?.open_door()
        });
        match loaded {
            Ok(mut target) => {
                let case = long_frames(hook, one);
                times.take("run in the kernel", || judge(one, &case, hook.name(), &mut target));
                if let Err(why) = target.remove() {
                    is(one.number, hook.name(), Class::Crashed, format!("{why:#}"));
                }
            }
            Err(why) if format!("{why:#}").contains(TOO_LARGE) => {
                is(one.number, hook.name(), Class::Refused, TOO_LARGE)
            }
            Err(why) if format!("{why:#}").contains(UNIMPLEMENTED) => {
                is(one.number, hook.name(), Class::Refused, kind_of(&format!("{why:#}")))
            }
            Err(why) => is(one.number, hook.name(), Class::Crashed, format!("{why:#}")),
        }
    }
}

/// What the program declares and the kernel cannot hold.
const UNIMPLEMENTED: &str = "(UNIMPLEMENTED)";
/// The category of a limit of the kernel.
const TOO_LARGE: &str = "larger than this kernel takes";

/// The case with only those packets that do not become too short for the kernel, which drops and counts the others.
fn long_frames(hook: At, one: &Ready) -> Case {
    let mut case = one.case.clone();
    loop {
        let Ok(outcome) = play::interpreted(&one.program, &case, Sums::Carried, None, &[]) else {
            return case;
        };
        let Ok(between) = play::lengths_between(&one.program, &case) else { return case };
        let packets = case.packets.iter().zip(&outcome.sent).zip(&between);
        let mut keep = packets.map(|(((_, arrived), sent), between)| {
            let sent = sent.iter().flat_map(|s| &s.packets).map(|(_, packet)| packet.len());
            let mut lengths = sent.chain(between.iter().copied());
            !arrived.is_empty() && lengths.all(|length| hook.can_send(arrived, length))
        });
        let before = case.packets.len();
        // Registers depend on earlier packets, so without some of these others may become too short.
        case.packets = case.packets.clone().into_iter().filter(|_| keep.next() == Some(true)).collect();
        if case.packets.len() == before {
            return case;
        }
    }
}

fn judge(one: &Ready, case: &Case, name: &str, target: &mut dyn Compiled) {
    let got = match play::compiled(target, case) {
        Ok(got) => got,
        Err(why) => return is(one.number, name, Class::Refused, format!("a table write: {}", kind_of(&why))),
    };
    let entries = play::counted(target.device()).unwrap_or_default();
    let expected = match play::interpreted(&one.program, case, Sums::Carried, Some(&got), &entries) {
        Ok(expected) => expected,
        Err(why) => return is(one.number, name, Class::Different, format!("the interpreter: {why}")),
    };
    match play::difference(case, &expected, &got) {
        None => is(one.number, name, Class::Equal, got.sent.iter().flatten().count().to_string()),
        Some(difference) => is(one.number, name, Class::Different, difference.text),
    }
}

/// A refusal without the names and widths in it, so that similar ones are counted together.
fn kind_of(why: &str) -> String {
    let text = why.split('`').step_by(2).collect::<Vec<_>>().join("…");
    let text = text.rsplit(": ").next().unwrap_or_default();
    text.split('<')
        .map(|part| part.split_once('>').map_or(part, |(_, rest)| rest))
        .collect::<Vec<_>>()
        .join("<W>")
}

/// The directory for objects and sources, which is in memory if possible.
pub fn scratch() -> &'static Path {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory } else { Path::new("/tmp") }
}

/// The time that each kind of work took.
#[derive(Default)]
struct Times(BTreeMap<String, f64>);

impl Times {
    fn take<T>(&mut self, name: &str, run: impl FnOnce() -> T) -> T {
        let begun = std::time::Instant::now();
        let result = run();
        *self.0.entry(name.into()).or_default() += begun.elapsed().as_secs_f64();
        result
    }
}
