//! `status`: what runs, by the running tables and the kernel's lists, and what is wrong with it. The file is only compared.

use abi::manifest::DropReason;
use control::plan;
use dataplane::Count;
use dataplane::device::{Device, Query};
use io::bpf::{self, Hook, Instance};
use io::ebpf::KernelProgram;
use io::link::{Handle, Link, sysctl};
use nat64::{Clat, Config, Running, counters, running};
use serde_json::{Value, json};

use crate::bundle::Bundle;
use crate::configured::desired;
use crate::host::need_root;
use crate::lanes::{self, Ways};
use crate::owner::{self, Owner, Site};
use crate::record::{Drift, Record, now};
use crate::select::Select;
use crate::wiring::{self, Ground};

/// Whether a translator works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is up, and nothing is wrong.
    Up,
    /// It is up, and something is wrong with it.
    Degraded,
    /// It is not up.
    Down,
}

impl State {
    /// The word for it in `status` and its JSON.
    pub fn name(self) -> &'static str {
        match self {
            State::Up => "up",
            State::Degraded => "degraded",
            State::Down => "down",
        }
    }
}

/// Something that is wrong, and what helps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong.
    pub what: String,
    /// What helps, often a command.
    pub cure: String,
}

impl Problem {
    fn new(what: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { what: what.into(), cure: cure.into() }
    }

    fn json(&self) -> Value {
        json!({"problem": self.what, "cure": self.cure})
    }
}

/// The state of a translator.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// The device that packets are routed into.
    pub device: String,
    /// Whether it is up.
    pub up: bool,
    /// The process, if it is one of the native target.
    pub process: Option<u32>,
    /// What `up` wrote down.
    pub record: Option<Record>,
    /// Whether the file is still what was applied.
    pub drift: Option<Drift>,
    /// What its tables say.
    pub running: Option<Running>,
    /// The CLAT that it is, if it is one.
    pub clat: Option<Clat>,
    /// The interfaces that are shortcuts past the device.
    pub lanes: Vec<Lane>,
    /// Its counters, by their names.
    pub counters: Vec<(String, Count)>,
    /// What it has dropped, for each reason.
    pub drops: Vec<(Count, DropReason)>,
    /// What is wrong.
    pub problems: Vec<Problem>,
    /// What may be intended.
    pub notes: Vec<Problem>,
}

/// A lane that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// The name of the interface.
    pub name: String,
    /// `native` or `generic`, if it is at the XDP hook; otherwise it is at the tc hook.
    pub mode: Option<&'static str>,
    /// Whether it sends packets to the next hop itself; otherwise the kernel routes them on.
    pub direct: bool,
    /// Whether the interface is up.
    pub up: bool,
    /// The packets that took it.
    pub count: Count,
}

impl Lane {
    /// `tc` or `xdp`.
    pub fn hook(&self) -> &'static str {
        if self.mode.is_some() { "xdp" } else { "tc" }
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "hook": self.hook(),
            "mode": self.mode,
            "direct": self.direct,
            "link": if self.up { "up" } else { "down" },
            "packets": self.count.packets,
            "bytes": self.count.bytes,
        })
    }
}

/// The states of translators, each read when it is asked for.
pub fn status(select: &Select) -> anyhow::Result<impl Iterator<Item = anyhow::Result<Status>>> {
    need_root()?;
    let links = Handle::open()?;
    Ok(select.sites()?.into_iter().map(move |site| Status::of(&site, &links)))
}

impl Status {
    /// Whether it works.
    pub fn state(&self) -> State {
        match (self.up, self.problems.is_empty()) {
            (false, _) => State::Down,
            (true, false) => State::Degraded,
            (true, true) => State::Up,
        }
    }

    /// The CLAT in words, if it is one.
    pub fn clat_described(&self) -> Option<String> {
        self.clat.as_ref().map(|clat| crate::clat::described(clat, now()))
    }

    fn of(site: &Site, links: &Handle) -> anyhow::Result<Self> {
        let mut ground = Ground::survey(site, links, Vec::new())?;
        let mut state = Self { device: site.device.clone(), record: Record::find(site), ..Self::default() };
        ground.programs =
            state.record.as_ref().map_or_else(Vec::new, |record| record.kernel.programs.clone());
        state.drift = state.record.as_ref().map(Record::drift);
        let up = state.up_cure();
        match &ground.owner {
            Owner::Nobody if Instance::exists(&site.instance) => {
                state
                    .problems
                    .push(Problem::new("its interface is gone, and its program is still loaded", up));
            }
            Owner::Nobody => {}
            Owner::Other(link) => state.foreign(link),
            Owner::Renamed(link) => {
                let cure = format!("ip link set {} name {}", link.name, site.device);
                state.up = true;
                state
                    .problems
                    .push(Problem::new(format!("somebody called its interface `{}`", link.name), cure));
            }
            Owner::Us { device, .. } => state.ours(site, &ground, device)?,
        }
        Ok(state)
    }

    /// The command that repairs what `up` makes.
    fn up_cure(&self) -> String {
        match &self.record {
            Some(record) => format!("strait nat64 up --config {}", record.file.display()),
            None => "strait nat64 up".to_string(),
        }
    }

    fn foreign(&mut self, link: &Link) {
        let process = link.alias.strip_prefix(owner::NATIVE).and_then(|number| number.parse::<u32>().ok());
        match process.filter(|number| std::path::Path::new(&format!("/proc/{number}")).exists()) {
            Some(process) => {
                self.up = link.up;
                self.process = Some(process);
            }
            None => {
                let what =
                    format!("there is an interface {}, which Strait did not make", owner::described(link));
                self.notes.push(Problem::new(what, "name another device in the file"));
            }
        }
    }

    fn ours(&mut self, site: &Site, ground: &Ground<'_>, device: &Link) -> anyhow::Result<()> {
        let visible = Instance::exists(&site.instance);
        self.up = ground.has_program(device.index, Hook::Egress);
        let mut program = Bundle::at(&site.instance).and_then(|bundle| bundle.running(&site.instance));
        if !visible && self.up {
            program = self.record.as_ref().and_then(Record::program);
            let at = bpf::at(device.index, Hook::Egress)?.first().map(|program| program.id);
            let id = at.or(ground.programs.first().copied()).unwrap_or_default();
            let unread = if program.is_none() { "; its counters cannot be read here" } else { "" };
            self.notes.push(Problem::new(
                format!("its program (id {id}) was pinned where another BPF file system is mounted{unread}"),
                "run `up` and `reload` where `up` ran",
            ));
        } else if visible && program.is_none() {
            let version = self.record.as_ref().map_or("an older release", |r| r.version.as_str());
            self.problems
                .push(Problem::new(format!("the program that runs is of version {version}"), self.up_cure()));
        }
        match self.record.as_ref().map(Record::config) {
            None => self
                .problems
                .push(Problem::new("an older release made it, or `up` was interrupted", self.up_cure())),
            Some(None) => self
                .notes
                .push(Problem::new("this version cannot read the file that was applied", self.up_cure())),
            Some(Some(config)) => self.compare(ground, &config, program.as_mut())?,
        }
        if let Some(program) = &mut program {
            self.read(program, ground)?;
        }
        self.surroundings(ground);
        Ok(())
    }

    /// Compares what runs with the file that was applied.
    fn compare(
        &mut self,
        ground: &Ground<'_>,
        config: &Config,
        program: Option<&mut KernelProgram>,
    ) -> anyhow::Result<()> {
        let cure = self.up_cure();
        let mut steps = ground.device_steps(config);
        steps.extend(ground.routing(config).steps.into_iter().map(wiring::Step::Route));
        let names = &config.attach.interfaces;
        let present: Vec<String> =
            names.iter().filter(|n| ground.all.iter().any(|l| l.name == **n)).cloned().collect();
        for name in names.iter().filter(|n| !present.contains(n)) {
            let what = format!("`{name}` shall have a lane and does not exist");
            self.problems.push(Problem::new(what, format!("{cure}, when it is there")));
        }
        if let Ok(Ways { mut ways, unfit, .. }) = ground.ways(config) {
            let attached = ground.attached();
            for unfit in unfit {
                let is_laid = attached.iter().any(|(index, _)| *index == unfit.way.index);
                let what = if is_laid { unfit.why } else { unfit.left_out() };
                self.problems.push(Problem::new(what, unfit.cure));
                // What is there stays until somebody repairs it.
                ways.extend(Some(unfit.way).filter(|_| is_laid));
            }
            match program {
                Some(program) => {
                    let manifest = program.manifest().clone();
                    let wanted = desired(config, &manifest)?;
                    let held = plan::present(program, &wanted)?;
                    let differ = plan::difference(&manifest, &held, &wanted).len();
                    if differ > 0 {
                        let what = format!("{differ} entries of its tables are not what the file said");
                        self.problems.push(Problem::new(what, cure.clone()));
                    }
                    steps.extend(ground.lane_steps(&ways, Some(program))?);
                }
                None => {
                    let lost = ways.into_iter().filter(|way| !ground.has_program(way.index, way.hook));
                    steps.extend(lost.map(|way| wiring::Step::Lay { way, from: None }));
                }
            }
        }
        self.problems.extend(steps.iter().map(|step| Problem::new(step.complaint(), cure.clone())));
        let loops = crate::loops::found(config, &ground.site.device, ground.links);
        self.problems.extend(loops.into_iter().map(|(what, cure)| Problem::new(what, cure)));
        let here = Instance::exists(&ground.site.instance);
        if config.stateful.is_some() && here && !bpf::is_claimed(&ground.site.instance)? {
            let file = self.record.as_ref().map(|record| record.file.clone()).unwrap_or_default();
            self.problems.push(Problem::new(
                "no process removes bindings and sessions whose time has passed",
                crate::ageing::cure(&file),
            ));
        }
        match &config.clat {
            None => self.forwarding(ground, &present),
            Some(clat) => {
                let found = clat.found.as_ref();
                let problem = found.and_then(|found| crate::clat::problem(ground.site, found, now()));
                self.problems.extend(problem.map(|(what, cure)| Problem::new(what, cure)));
                let note = found.and_then(crate::clat::deaf);
                self.notes.extend(note.map(|(what, cure)| Problem::new(what, cure)));
                self.clat = Some(clat.clone());
            }
        }
        Ok(())
    }

    /// What the tables hold, and what was counted.
    fn read(&mut self, program: &mut KernelProgram, ground: &Ground<'_>) -> anyhow::Result<()> {
        let manifest = &program.manifest().clone();
        let names = nat64::tables(manifest).map_err(anyhow::Error::msg)?;
        self.running = Some(running(&plan::present(program, &names)?, manifest).map_err(anyhow::Error::msg)?);
        let counts = program.read(&Query::Counters(None))?;
        self.counters = counters(manifest, &counts);
        self.drops = program.drops()?.into_iter().zip(manifest.drops.iter().cloned()).collect();
        for (index, hook) in ground.attached() {
            let Some(link) = ground.all.iter().find(|link| link.index == index) else { continue };
            let (Some(lane), Some(count)) = (program.lane(index)?, program.lane_count(index)?) else {
                continue;
            };
            let mode = Some(lanes::hook_mode(hook)).filter(|mode| !mode.is_empty());
            self.lanes.push(Lane { name: link.name.clone(), mode, direct: lane.direct, up: link.up, count });
        }
        Ok(())
    }

    /// Forwarding of the machine, and of the interfaces that belong to the translator. That another interface does not forward may be intended.
    fn forwarding(&mut self, ground: &Ground<'_>, lanes: &[String]) {
        for key in ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"] {
            if is(key, "0") {
                let key = key.replace('/', ".");
                self.problems.push(Problem::new(
                    format!("{key} is 0, so the kernel routes nothing on"),
                    format!("sysctl -w {key}=1"),
                ));
            }
        }
        if is("net/ipv4/ip_forward", "0") {
            return;
        }
        let others = ground.all.iter().filter(|l| l.up && !l.loopback && l.name != ground.site.peer);
        for name in others.map(|l| &l.name) {
            if !is(&format!("net/ipv4/conf/{name}/forwarding"), "0") {
                continue;
            }
            let key = format!("net.ipv4.conf.{name}.forwarding");
            let problem = Problem::new(
                format!("{key} is 0, so IPv4 packets that arrive on `{name}` are not routed on"),
                format!("sysctl -w {key}=1"),
            );
            match *name == ground.site.device || lanes.contains(name) {
                true => self.problems.push(problem),
                false => self.notes.push(problem),
            }
        }
    }

    /// Interfaces without IPv6.
    fn surroundings(&mut self, ground: &Ground<'_>) {
        if is("net/ipv6/conf/all/disable_ipv6", "1") {
            self.problems.push(Problem::new(
                "IPv6 is switched off on this machine",
                "sysctl -w net.ipv6.conf.all.disable_ipv6=0",
            ));
            return;
        }
        let ends = [&ground.site.device, &ground.site.peer];
        let others = ground.all.iter().filter(|l| l.up && !l.loopback && !ends.contains(&&l.name));
        for name in others.map(|l| &l.name) {
            if is(&format!("net/ipv6/conf/{name}/disable_ipv6"), "1") {
                let key = format!("net.ipv6.conf.{name}.disable_ipv6");
                let problem =
                    Problem::new(format!("`{name}` has no IPv6 ({key} is 1)"), format!("sysctl -w {key}=0"));
                match self.lanes.iter().any(|lane| lane.name == *name) {
                    true => self.problems.push(problem),
                    false => self.notes.push(problem),
                }
            }
        }
    }

    /// The report for programs.
    pub fn json(&self) -> Value {
        let counter =
            |(name, c): &(String, Count)| json!({"name": name, "packets": c.packets, "bytes": c.bytes});
        let drop = |(c, d): &(Count, DropReason)| json!({"reason": d.name, "packets": c.packets, "bytes": c.bytes, "help": d.help, "at": d.location});
        let maps = self.running.iter().flat_map(|r| &r.maps);
        let maps: Vec<_> =
            maps.map(|m| json!({"ipv4": m.ipv4.to_string(), "ipv6": m.ipv6.to_string()})).collect();
        let settings: serde_json::Map<_, _> = self
            .running
            .iter()
            .flat_map(|r| &r.settings)
            .map(|(n, v)| (n.clone(), json!(*v as u64)))
            .collect();
        let errors = self.running.iter().flat_map(|r| &r.errors);
        let errors: serde_json::Map<_, _> = errors.map(|(key, value)| (key.clone(), json!(value))).collect();
        let record = self.record.as_ref();
        let running = || self.running.iter();
        let pools = running().flat_map(|r| &r.pools);
        let pools: Vec<_> =
            pools.map(|(hosts, what)| json!({"hosts": hosts.to_string(), "has": what})).collect();
        let sessions = running().flat_map(|r| &r.sessions);
        let sessions: serde_json::Map<_, _> = sessions.map(|(k, v)| (k.clone(), json!(v))).collect();
        json!({
            "device": self.device,
            "up": self.up,
            "state": self.state().name(),
            "target": if self.process.is_some() { "native" } else { "tc" },
            "process": self.process,
            "express": self.lanes.iter().filter(|lane| lane.mode.is_none()).map(|lane| &lane.name).collect::<Vec<_>>(),
            "interfaces": self.lanes.iter().map(Lane::json).collect::<Vec<_>>(),
            "prefix": self.running.as_ref().and_then(|r| r.prefix).map(|p| p.to_string()),
            "maps": maps,
            "clat": self.clat.as_ref().map(|clat| crate::clat::json(clat, now())),
            "settings": settings,
            "pools": pools,
            "sessions": sessions,
            "errors": errors,
            "file": record.map(|r| r.file.display().to_string()),
            "sha256": record.map(|r| &r.sha256),
            "file_state": self.drift.map(drift_word),
            "version": record.map(|r| &r.version),
            "since": record.map(|r| r.since),
            "applied": record.map(|r| r.applied),
            "problems": self.problems.iter().map(Problem::json).collect::<Vec<_>>(),
            "notes": self.notes.iter().map(Problem::json).collect::<Vec<_>>(),
            "counters": self.counters.iter().map(counter).collect::<Vec<_>>(),
            "drops": self.drops.iter().map(drop).collect::<Vec<_>>(),
        })
    }
}

fn drift_word(drift: Drift) -> &'static str {
    match drift {
        Drift::Same => "same",
        Drift::Differs => "differs",
        Drift::Missing => "missing",
    }
}

fn is(key: &str, value: &str) -> bool {
    sysctl::get(key).is_ok_and(|found| found == value)
}
