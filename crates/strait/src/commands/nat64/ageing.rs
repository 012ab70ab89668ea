//! Removes bindings and sessions whose time has passed from the program in the kernel. Packets add them there and restart their timers; only a
//! process removes them.
//!
//! While no process does, all work on, but nothing is removed. What a killed process has left half done, the next one completes.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use control::nat64::expire_times;
use dataplane::Device as _;
use dataplane::device::Update;
use io::bpf::{self, Instance};
use io::ebpf::KernelProgram;

use super::bundle::Bundle;
use super::log::Log;
use super::owner::Site;
use super::record::Record;

/// The interval between two looks. All rows are looked at in [`ROUND`].
const TURN: Duration = Duration::from_millis(200);
/// So an entry stays a second longer than its time at most.
const ROUND: f64 = 1.0;

/// A thread that removes entries.
#[derive(Debug)]
pub struct Ageing {
    ended: Arc<AtomicBool>,
    site: Arc<Mutex<Site>>,
    thread: Option<JoinHandle<()>>,
}

impl Ageing {
    /// Begins for a site, also if that has no sessions yet.
    pub fn start(site: &Site, log: Log) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let site = Arc::new(Mutex::new(site.clone()));
        let (stop, at) = (ended.clone(), site.clone());
        let thread = thread::spawn(move || work(&stop, &at, log));
        Self { ended, site, thread: Some(thread) }
    }

    /// Goes on with another site.
    pub fn follow(&self, site: &Site) {
        let mut now = self.site.lock().unwrap_or_else(PoisonError::into_inner);
        if now.instance != site.instance {
            *now = site.clone();
        }
    }
}

impl Drop for Ageing {
    fn drop(&mut self) {
        self.ended.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The command that keeps a translator and removes its sessions.
pub fn cure(file: &Path) -> String {
    format!(
        "`strait nat64 run --config {}` does, in the foreground, or `systemctl start strait-nat64@NAME`",
        file.display()
    )
}

fn work(ended: &AtomicBool, site: &Mutex<Site>, log: Log) {
    let mut sweeper: Option<Sweeper> = None;
    let (mut last, mut said) = (Instant::now(), None);
    while !ended.load(Relaxed) {
        let name = site.lock().unwrap_or_else(PoisonError::into_inner).instance.clone();
        let share = (last.elapsed().as_secs_f64() / ROUND).min(1.0);
        last = Instant::now();
        let result = turn(&mut sweeper, &name, share);
        let problem = result.err().map(|error| crate::out::chain(&error));
        if problem != said {
            if let Some(problem) = &problem {
                log.warning(&format!("sessions are not removed: {problem}"));
            }
            said = problem;
        }
        thread::sleep(TURN);
    }
}

/// A program whose entries are removed.
struct Sweeper {
    program: KernelProgram,
    numbers: Vec<u32>,
    note: Option<String>,
}

/// Looks at a share of the rows.
fn turn(sweeper: &mut Option<Sweeper>, name: &str, share: f64) -> anyhow::Result<()> {
    // Nobody else removes entries or replaces the program meanwhile.
    let _alone = bpf::lock()?;
    let Some(bundle) = Bundle::at(name) else {
        *sweeper = None;
        return Ok(());
    };
    let instance = Instance::open(name)?;
    let (numbers, note) = (instance.numbers()?, instance.note()?);
    if !sweeper.as_ref().is_some_and(|s| s.numbers == numbers && s.note == note) {
        *sweeper = Sweeper::open(bundle, &instance, numbers, note)?;
    }
    if let Some(sweeper) = sweeper {
        sweeper.program.expire(KernelProgram::now(), share)?;
    }
    Ok(())
}

impl Sweeper {
    /// `None` if the program has no sessions.
    fn open(
        bundle: &Bundle,
        instance: &Instance,
        numbers: Vec<u32>,
        note: Option<String>,
    ) -> anyhow::Result<Option<Self>> {
        let config = Record::of(instance).and_then(|record| record.config());
        let Some(stateful) = config.and_then(|config| config.stateful) else { return Ok(None) };
        let name = instance.path().file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let mut program = KernelProgram::open(&bundle.manifest()?, name)?;
        let times: Vec<Update> = expire_times(&stateful).into_iter().map(Update::Set).collect();
        program.write(&times).map_err(|refused| refused.error)?;
        program.reclaim()?;
        Ok(Some(Self { program, numbers, note }))
    }
}
