//! Removes bindings and sessions whose time has passed from the program in the kernel. Packets add them there and restart their timers; only a
//! process removes them. It also passes on what of them is to be reported ([`crate::logger`]).
//!
//! While no process does, all work on, but nothing is removed. What a killed process has left half done, the next one completes.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use dataplane::Device as _;
use dataplane::device::{self, Update};
use io::bpf::{self, Instance};
use io::ebpf::{EgressPort, KernelProgram, Learnt};
use nat64::flows::{Binding, Flows, Session};
use nat64::report::Report;
use nat64::{Log as What, expire_times};

use crate::bundle::Bundle;
use crate::counting::Counting;
use crate::holder::{self, Holder};
use crate::log::Log;
use crate::logger::Logger;
use crate::owner::Site;
use crate::record::Record;

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
    pub fn start(site: &Site, log: &Log) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let site = Arc::new(Mutex::new(site.clone()));
        let (stop, at, log) = (ended.clone(), site.clone(), log.clone());
        let thread = thread::spawn(move || work(&stop, &at, &log));
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
            thread.thread().unpark();
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

impl Drop for Sweeper {
    fn drop(&mut self) {
        // Nobody holds packets any more. The program may be gone already.
        if self.holder.is_some() {
            let _ = self.hold(None);
        }
    }
}

fn work(ended: &AtomicBool, site: &Mutex<Site>, log: &Log) {
    let mut state = State::default();
    let (mut last, mut said) = (Instant::now(), None);
    while !ended.load(Relaxed) {
        let name = site.lock().unwrap_or_else(PoisonError::into_inner).instance.clone();
        let begun = Instant::now();
        let share = (begun.duration_since(last).as_secs_f64() / ROUND).min(1.0);
        let result = state.turn(&name, share, log);
        // A turn that was left out is made up for.
        last = if matches!(result, Ok(false)) { last } else { begun };
        let problem = result.err().map(|error| abi::text::chain(&*error));
        if problem != said {
            if let Some(problem) = &problem {
                log.warning(&format!("sessions are not removed: {problem}"));
            }
            said = problem;
        }
        thread::park_timeout(TURN);
    }
    state.end();
}

/// What runs at a site: the kernel's numbers of its programs, and its note.
type Seen = (Vec<u32>, Option<String>);

/// What was seen last, and what removes entries, if that has sessions.
#[derive(Default)]
struct State {
    seen: Option<Seen>,
    sweeper: Option<Sweeper>,
}

/// A program whose entries are removed.
struct Sweeper {
    program: KernelProgram,
    flows: Option<Flows>,
    /// Where packets and this process report to, and what.
    logger: Option<Logger>,
    what: What,
    /// The number of reports for which the kernel had no room.
    lost: u64,
    /// Counts what subscribers have.
    counting: Option<Counting>,
    /// What holds packets that the program cannot translate yet. `None` if there can be none, which is said once.
    holder: Option<Holder>,
}

impl State {
    /// Looks at a share of the rows. Returns whether it could: while another process changes the translator, this one waits for its next turn.
    fn turn(&mut self, name: &str, share: f64, log: &Log) -> anyhow::Result<bool> {
        // What has no sessions costs a look at its pins.
        if self.sweeper.is_none() && self.seen.is_some() && seen(name) == self.seen {
            return Ok(true);
        }
        // Nobody else removes entries or replaces the program meanwhile.
        let Some(_alone) = bpf::try_lock(name)? else { return Ok(false) };
        let now = seen(name);
        if now != self.seen {
            let before = self.sweeper.take();
            if let (Some(bundle), Ok(instance)) = (Bundle::at(name), Instance::open(name)) {
                self.sweeper = Sweeper::open(bundle, &instance, before, log)?;
            }
            self.seen = now;
        }
        self.sweeper.as_mut().map_or(Ok(()), |sweeper| sweeper.turn(share))?;
        Ok(true)
    }

    /// Writes what is reported already, as far as somebody takes it.
    fn end(self) {
        let Some(mut sweeper) = self.sweeper else { return };
        let mut logger = sweeper.logger.take();
        logger.iter_mut().for_each(Logger::close);
        // The holder ends while others write.
        drop(sweeper);
        if let Some(logger) = logger {
            logger.finish();
        }
    }
}

/// What runs at a site, if its pins are there.
fn seen(name: &str) -> Option<Seen> {
    let instance = Instance::open(name).ok()?;
    Some((instance.numbers().ok()?, instance.note().ok()?))
}

impl Sweeper {
    /// `None` if the program has no sessions.
    fn open(
        bundle: &Bundle,
        instance: &Instance,
        before: Option<Sweeper>,
        log: &Log,
    ) -> anyhow::Result<Option<Self>> {
        let (logger, holder) = match before {
            // Its drop must not end the holder.
            Some(mut before) => (before.logger.take(), before.holder.take()),
            None => (None, None),
        };
        let record = Record::of(instance);
        let device = record.as_ref().map(|record| record.device.clone()).unwrap_or_default();
        let config = record.and_then(|record| record.config());
        let prefix = config.as_ref().and_then(|config| config.prefix);
        let Some(stateful) = config.and_then(|config| config.stateful) else { return Ok(None) };
        let name = instance.path().file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let mut program = KernelProgram::open(&bundle.manifest()?, name)?;
        let times: Vec<Update> = expire_times(&stateful).into_iter().map(Update::Set).collect();
        program.write(&times).map_err(|refused| refused.error)?;
        program.reclaim()?;
        let counting = Counting::new(&stateful, program.manifest());
        let mut logger = logger.unwrap_or_else(|| Logger::new(log.clone()));
        let to = if stateful.log == What::Nothing { &[][..] } else { &stateful.log_to[..] };
        logger.follow(to, prefix);
        let (flows, lost) = (Flows::of(program.manifest()), program.events_lost()?);
        let longest = Duration::from_secs(stateful.timeouts.fragments.into());
        let holder = holder.map_or_else(|| Holder::start(&device, longest, log), Ok);
        let holder = holder.inspect_err(|error| {
            log.warning(&format!("fragments and SYNs are not held: {error}"));
        });
        let mut sweeper = Self {
            program,
            flows,
            logger: Some(logger),
            what: stateful.log,
            lost,
            counting,
            holder: holder.ok(),
        };
        sweeper.hold(sweeper.holder.as_ref().map(Holder::index))?;
        Ok(Some(sweeper))
    }

    /// Tells the program whether somebody holds packets, and where.
    fn hold(&mut self, interface: Option<u32>) -> anyhow::Result<()> {
        if let Some(ifindex) = interface {
            self.program.set_egress_port(holder::PORT, EgressPort { ifindex, flags: 0 })?;
        }
        let (table, action) =
            nat64::holder(self.program.manifest(), interface.is_some()).map_err(anyhow::Error::msg)?;
        let update = Update::Modify(device::Entity::Default { table, action });
        self.program.write(&[update]).map_err(|refused| refused.error)?;
        Ok(())
    }

    /// Passes on what packets have reported, and looks at a share of the rows.
    fn turn(&mut self, share: f64) -> anyhow::Result<()> {
        if let Some(counting) = &mut self.counting {
            counting.turn(&mut self.program)?;
        }
        let now = KernelProgram::now();
        let (Some(logger), Some(flows), true) = (&mut self.logger, self.flows, self.what != What::Nothing)
        else {
            self.program.expire(now, share)?;
            return Ok(());
        };
        for event in self.program.events()? {
            if let device::Event::Digest(digest) = event {
                Report::of_digest(&digest.values).into_iter().for_each(|report| logger.report(report));
            }
        }
        let lost = self.program.events_lost()?;
        logger.lost(lost.saturating_sub(self.lost));
        self.lost = lost;
        logger.tell();
        let what = self.what;
        let mut told = |table, learnt: Learnt| {
            if table == flows.bib4 {
                let binding = Binding::read(&learnt.entry, learnt.register, learnt.timer);
                binding.iter().for_each(|binding| logger.report(Report::binding_deleted(binding)));
            } else if table == flows.sessions && what == What::Sessions {
                let session = Session::read(&learnt.entry, learnt.register, learnt.timer);
                session.iter().for_each(|session| logger.report(Report::session_deleted(session)));
            }
        };
        self.program.expire_and_tell(now, share, Some(&mut told))?;
        Ok(())
    }
}
