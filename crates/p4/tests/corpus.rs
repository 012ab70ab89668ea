//! Every program of the p4c corpus must parse. The corpus is not part of this repository:
//! `P4C=DIR cargo test -p strait-p4 --test corpus -- --nocapture` with a checkout of p4lang/p4c.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use p4::{Diagnostics, Severity, SourceMap, SourceProvider};

/// Programs that are no complete P4-16 text on their own, or need what the specification does not have.
const EXPECTED_FAILURES: &[&str] = &[];

/// Includes from the directory of the file that asks, then from p4c's own directories.
struct Disk {
    dirs: Vec<PathBuf>,
}

impl SourceProvider for Disk {
    fn include(&self, name: &str, from: &str, _quoted: bool) -> Option<(String, String)> {
        let beside = Path::new(from).parent().map(Path::to_path_buf);
        beside.iter().chain(&self.dirs).find_map(|dir| {
            let path = dir.join(name);
            let text = std::fs::read(&path).ok()?;
            Some((path.display().to_string(), String::from_utf8_lossy(&text).into_owned()))
        })
    }
}

#[test]
fn corpus() {
    let Ok(p4c) = std::env::var("P4C") else {
        eprintln!("skipped: P4C names no checkout of p4lang/p4c");
        return;
    };
    let root = Path::new(&p4c);
    let samples = root.join("testdata/p4_16_samples");
    let disk = Disk { dirs: vec![root.join("p4include"), samples.clone()] };
    let mut programs = Vec::new();
    collect(&samples, &mut programs);
    programs.sort();
    let (mut bad, mut times) = (Vec::new(), Vec::new());
    for path in &programs {
        let (problem, time) = parse(path, &disk);
        times.push(time);
        if let Some(problem) = problem {
            bad.push((path.strip_prefix(&samples).unwrap_or(path).display().to_string(), problem));
        }
    }
    times.sort();
    let at = |n: usize| times.get(times.len() * n / 100).copied().unwrap_or_default();
    println!("{} of {} programs parse", programs.len() - bad.len(), programs.len());
    println!("median {:?}, 95 % {:?}, slowest {:?}", at(50), at(95), times.last());
    bad.iter().for_each(|(name, problem)| println!("{name}: {problem}"));
    bad.retain(|(name, _)| !EXPECTED_FAILURES.contains(&name.as_str()));
    assert!(bad.is_empty(), "{} programs do not parse", bad.len());
}

fn collect(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("the corpus can be read").flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.exists() && path.extension().is_some_and(|e| e == "p4") {
            found.push(path);
        }
    }
}

/// The first error of a program, and how long it took.
fn parse(path: &Path, disk: &Disk) -> (Option<String>, Duration) {
    let text = String::from_utf8_lossy(&std::fs::read(path).expect("readable")).into_owned();
    let (mut map, mut diags) = (SourceMap::default(), Diagnostics::default());
    let start = Instant::now();
    p4::parse(&mut map, &path.display().to_string(), &text, &[], disk, &mut diags);
    let time = start.elapsed();
    let first = diags.list().iter().find(|d| d.severity == Severity::Error);
    let problem = first.map(|d| {
        let at = map.position(d.primary.span);
        format!("{}:{}:{}: {} {}", at.file, at.line, at.column, d.code, d.message)
    });
    (problem, time)
}
