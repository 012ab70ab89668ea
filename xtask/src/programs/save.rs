//! Writes programs that give different results for people: the program, and a packet test that shows the difference.

use std::path::Path;

use interp::{Interpreter, Silent};
use ir::Verified;

use super::case::Case;
use super::play::bytes;
use super::pool::{Verdict, name};
use super::{Job, Options, compile, reduce, worker};

/// Prints the result of a program, saves the program, and reduces it if that was requested.
pub fn report(job: &Job, options: &Options, number: u64, target: &str, verdict: &Verdict) {
    let Some((title, text)) = worker::text_of(job, number) else { return };
    println!("{target}: {title}: {}\n    {}", name(verdict.class), verdict.text.trim_end());
    let stem = match &job.corpus {
        None => format!("{}-{number}-{target}", options.seed),
        Some(_) => {
            format!("{}-{target}", Path::new(&title).file_stem().unwrap_or_default().to_string_lossy())
        }
    };
    let from = match &options.corpus {
        None => format!("--first {number} --count 1 --size {}", options.size),
        Some(dir) => format!("--corpus {} --first {number}", dir.display()),
    };
    println!(
        "    cargo xtask programs --seed {} {from} --packets {} --target {target}",
        options.seed, options.packets
    );
    if let Err(why) = keep(job, options, number, &title, &text, &stem) {
        println!("    not kept: {why:#}");
    }
    if options.reduce
        && let Err(why) = reduce::run(job, number, target, &options.keep.join(stem))
    {
        println!("    not made smaller: {why:#}");
    }
}

fn keep(
    job: &Job,
    options: &Options,
    number: u64,
    title: &str,
    text: &str,
    stem: &str,
) -> anyhow::Result<()> {
    std::fs::create_dir_all(&options.keep)?;
    let file = options.keep.join(format!("{stem}.p4"));
    std::fs::write(&file, text)?;
    if let Ok(forms) = compile::program(title, text)
        && let Ok(case) = Case::of(&forms.literal, text, job.seed ^ number, job.packets)
    {
        std::fs::write(file.with_extension("stf"), stf(&forms.literal, &case))?;
    }
    println!("    kept as {}", file.display());
    Ok(())
}

/// Writes a packet test with a program's name.
pub fn case(dir: &Path, name: &str, program: &Verified, case: &Case) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir)?;
    let name = Path::new(name).file_name().unwrap_or_default();
    Ok(std::fs::write(dir.join(name).with_extension("stf"), stf(program, case))?)
}

/// A packet test with the packets that the interpreter sends.
pub fn stf(program: &Verified, case: &Case) -> String {
    let Ok(mut interpreter) = Interpreter::new(program) else { return String::new() };
    let mut text = case.stf(interpreter.manifest());
    if case.load(&mut interpreter).is_err() {
        return text;
    }
    for (port, packet) in &case.packets {
        text += &format!("packet {port} {}\n", bytes(packet));
        let outcome = interpreter.process(*port, packet, &mut Silent);
        for (port, packet) in outcome.sent {
            text += &format!("expect {port} {}$\n", bytes(&packet));
        }
    }
    text
}
