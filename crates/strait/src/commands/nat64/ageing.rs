//! Removes bindings and sessions whose time has passed from the program in the kernel. Packets add them there and restart their timers; only a
//! process removes them. It also passes on what of them is to be reported ([`super::logger`]).
//!
//! While no process does, all work on, but nothing is removed. What a killed process has left half done, the next one completes.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use control::nat64::flows::{self, Binding, Flows, Session};
use control::nat64::report::Report;
use control::nat64::{Log as What, LogTarget, expire_times};
use dataplane::Device as _;
use dataplane::device::{self, Update};
use io::bpf::{self, Instance};
use io::ebpf::{EgressPort, KernelProgram, Learnt};
use ipnet::Ipv6Net;

use super::bundle::Bundle;
use super::holder::{self, Holder};
use super::log::Log;
use super::logger::Logger;
use super::owner::Site;
use super::record::Record;

/// The interval between two looks. All rows are looked at in [`ROUND`].
const TURN: Duration = Duration::from_millis(200);
/// So an entry stays a second longer than its time at most.
const ROUND: f64 = 1.0;
/// Counting the sessions of subscribers takes at most one part in this many of the time.
const COUNTING: u32 = 20;

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

impl Drop for Sweeper {
    fn drop(&mut self) {
        // Nobody holds packets any more. The program may be gone already.
        if self.holder.is_some() {
            let _ = self.hold(None);
        }
    }
}

fn work(ended: &AtomicBool, site: &Mutex<Site>, log: Log) {
    let mut state = State::default();
    let (mut last, mut said) = (Instant::now(), None);
    while !ended.load(Relaxed) {
        let name = site.lock().unwrap_or_else(PoisonError::into_inner).instance.clone();
        let share = (last.elapsed().as_secs_f64() / ROUND).min(1.0);
        last = Instant::now();
        let result = state.turn(&name, share, log);
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
    /// Where packets and this process report to, if the file wants it, and what of it.
    logger: Option<(Logger, Reports)>,
    /// The number of reports for which the kernel had no room.
    lost: u64,
    /// When the sessions of subscribers are counted next. `None` if they are not limited.
    next_count: Option<Instant>,
    /// What holds packets that the program cannot translate yet. `None` if there can be none, which is said once.
    holder: Option<Holder>,
}

/// What is reported, and where.
#[derive(Clone, Debug, PartialEq)]
struct Reports {
    what: What,
    to: Vec<LogTarget>,
    prefix: Option<Ipv6Net>,
}

impl State {
    /// Looks at a share of the rows.
    fn turn(&mut self, name: &str, share: f64, log: Log) -> anyhow::Result<()> {
        // What has no sessions costs a look at its pins.
        if self.sweeper.is_none() && self.seen.is_some() && seen(name) == self.seen {
            return Ok(());
        }
        // Nobody else removes entries or replaces the program meanwhile.
        let _alone = bpf::lock()?;
        let now = seen(name);
        if now != self.seen {
            let before = self.sweeper.take();
            if let (Some(bundle), Ok(instance)) = (Bundle::at(name), Instance::open(name)) {
                self.sweeper = Sweeper::open(bundle, &instance, before, log)?;
            }
            self.seen = now;
        }
        self.sweeper.as_mut().map_or(Ok(()), |sweeper| sweeper.turn(share))
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
        log: Log,
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
        let next_count = stateful.subscriber_sessions.map(|_| Instant::now());
        let reports = Reports { what: stateful.log, to: stateful.log_to, prefix };
        let logger = match logger {
            Some((logger, before)) if before == reports => Some((logger, reports)),
            _ if reports.what == What::Nothing => None,
            // The last one ends when all that it has is written.
            _ => Some((Logger::start(&reports.to, prefix, log), reports)),
        };
        let (flows, lost) = (Flows::of(program.manifest()), program.events_lost()?);
        let longest = Duration::from_secs(stateful.timeouts.fragments.into());
        let holder = holder.map_or_else(|| Holder::start(&device, longest, log), Ok);
        let holder = holder.inspect_err(|error| {
            log.warning(&format!("fragments and SYNs are not held: {error}"));
        });
        let mut sweeper = Self { program, flows, logger, lost, next_count, holder: holder.ok() };
        sweeper.hold(sweeper.holder.as_ref().map(Holder::index))?;
        Ok(Some(sweeper))
    }

    /// Tells the program whether somebody holds packets, and where.
    fn hold(&mut self, interface: Option<u32>) -> anyhow::Result<()> {
        if let Some(ifindex) = interface {
            self.program.set_egress_port(holder::PORT, EgressPort { ifindex, flags: 0 })?;
        }
        let (table, action) = control::nat64::holder(self.program.manifest(), interface.is_some())
            .map_err(anyhow::Error::msg)?;
        let update = Update::Modify(device::Entity::Default { table, action });
        self.program.write(&[update]).map_err(|refused| refused.error)?;
        Ok(())
    }

    /// Counts the sessions of each /64, and tells the program. Packets count too, what they open: this also takes off what has ended.
    fn count_sessions(&mut self) -> anyhow::Result<()> {
        let begun = Instant::now();
        if self.next_count.is_none_or(|next| begun < next) {
            return Ok(());
        }
        let Some(of) = self.flows else { return Ok(()) };
        let prefix = flows::prefix_in(self.program.manifest(), &of);
        let (Some(subscribers), Some(prefix)) = (of.subscribers, prefix) else { return Ok(()) };
        let mut found: HashMap<u64, u64> = HashMap::new();
        self.program.each_action_data(of.sessions, |data| *found.entry(prefix(data)).or_default() += 1)?;
        self.program.change_registers(subscribers, |key, register| {
            let prefix = key.try_into().map_or(0, u64::from_be_bytes);
            flows::with_sessions(register, found.get(&prefix).copied().unwrap_or(0))
        })?;
        self.next_count = Some(begun + (begun.elapsed() * COUNTING).max(Duration::from_secs_f64(ROUND)));
        Ok(())
    }

    /// Passes on what packets have reported, and looks at a share of the rows.
    fn turn(&mut self, share: f64) -> anyhow::Result<()> {
        self.count_sessions()?;
        let now = KernelProgram::now();
        let (Some((logger, reports)), Some(flows)) = (&self.logger, self.flows) else {
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
        let mut told = |table, learnt: Learnt| {
            if table == flows.bib4 {
                let binding = Binding::read(&learnt.entry, learnt.register, learnt.timer);
                binding.iter().for_each(|binding| logger.report(Report::binding_deleted(binding)));
            } else if table == flows.sessions && reports.what == What::Sessions {
                let session = Session::read(&learnt.entry, learnt.register, learnt.timer);
                session.iter().for_each(|session| logger.report(Report::session_deleted(session)));
            }
        };
        self.program.expire_and_tell(now, share, Some(&mut told))?;
        Ok(())
    }
}
