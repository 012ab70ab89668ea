//! `up`, `reload` and `check --diff`: what a file would change, whether anything is in the way, and the change itself. It is applied whole, or
//! undone.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use abi::Manifest;
use abi::manifest::Table;
use anyhow::bail;
use control::plan::{self, Desired};
use dataplane::device::{DeviceError, Key};
use io::bpf::{self, Hook, Instance, LoadOptions, Lock};
use io::ebpf::KernelProgram;
use io::link::{Handle, Route, sysctl};
use nat64::flows::Flows;
use nat64::{Config, Lanes, Running, Shares, XdpMode, running};
use serde_json::json;

use super::conflicts::{Conflict, Routing};
use super::down::take_down;
use super::lanes::{Unfit, Way, Ways};
use super::log::Log;
use super::owner::{self, Owner, Site};
use super::record::{File, Numbers, Record, form};
use super::wiring::{Ground, NoDriver, Sort, Step, Transaction};

use super::{Bundle, described, desired, device, need_root, sessions, warn_forwarding};
use crate::cli::{ApplyArgs, FileArgs};

/// What is to be done so that a translator follows a file.
struct Plan<'a> {
    file: &'a File,
    config: Config,
    ground: Ground<'a>,
    wanted: Desired,
    program: Program,
    before: Option<Record>,
    /// The steps to the device, to routes, and to lanes.
    device: Vec<Step>,
    routing: Routing,
    lanes: Vec<Step>,
    ways: Vec<Way>,
    /// Sites whose device was made from the same file under another name.
    moved: Vec<Site>,
    /// What the tables hold, and what they shall hold.
    tables: (Running, Running),
    warnings: Vec<String>,
    /// Interfaces that shall have a lane and do not exist.
    missing: Vec<String>,
    /// Why interfaces have no lane for the time being.
    unfit: Vec<String>,
    /// The complaints about lanes that a driver refuses.
    refused: Vec<String>,
}

/// What happens to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    /// There is none.
    Load,
    /// The one that runs was loaded from this version's object, and stays.
    Keep,
    /// It is another version's.
    Replace,
}

/// Starts a translator, or makes a running one follow its file.
pub fn up(args: &ApplyArgs) -> anyhow::Result<()> {
    let file = File::read(&args.of.config)?;
    let config = super::clat::complete(file.config()?, &Handle::open()?)?;
    let (site, alone) = apply(&file, &config, args.force, Log::Plain, bpf::PATIENCE)?;
    drop(alone);
    if config.stateful.is_some() && !bpf::is_claimed(&site.instance)? {
        Log::Plain.warning(&format!(
            "no process removes bindings and sessions whose time has passed; hint: {}",
            super::ageing::cure(&file.path)
        ));
    }
    match args.of.json {
        true => println!("{}", json!({"device": site.device, "up": true})),
        false => {
            println!("{} is up: {}", site.device, described(&config))
        }
    }
    Ok(())
}

/// Makes the machine translate as a configuration says, whole or not at all. `force` puts routes before those of others. Another process that
/// changes the translator is waited for as long as `patience` says. While the caller has the locks, nobody changes what was applied.
pub fn apply(
    file: &File,
    config: &Config,
    force: bool,
    log: Log,
    patience: Duration,
) -> anyhow::Result<(Site, Vec<Lock>)> {
    need_root()?;
    if Bundle::of(config).object.is_empty() {
        bail!("this strait was built without clang and holds no program: install clang and build again");
    }
    needs_ipv6()?;
    let site = Site::new(device(config))?;
    let alone = alone(&site, file, patience)?;
    apply_to(&site, file, config, force, log)?;
    Ok((site, alone))
}

/// Like [`apply`]. The caller has the locks of the site ([`alone`]).
pub fn apply_to(site: &Site, file: &File, config: &Config, force: bool, log: Log) -> anyhow::Result<()> {
    let links = Handle::open()?;
    for name in Instance::sweep(&site.instance)? {
        log.info(&format!("removed {name}: its interfaces are gone"));
    }
    Instance::resume(&next(site), &site.instance)?;
    let mut plan = Plan::make(site, file, config.clone(), &links)?;
    plan.refuse(force)?;
    for warning in &plan.warnings {
        log.warning(warning);
    }
    if let Some(stateful) = &plan.config.stateful {
        sessions::make_way(&site.instance, stateful)?;
    }
    plan.execute_in_some_mode(log)?;
    if let Some(stateful) = &plan.config.stateful {
        let (bindings, sessions) = sessions::keep_allowed(&site.instance, stateful)?;
        if bindings + sessions > 0 {
            log.info(&format!(
                "{bindings} bindings and {sessions} sessions are removed: the file does not allow them"
            ));
        }
    }
    warn_forwarding(config, log);
    Ok(())
}

/// The locks of a site, and of those that it takes the place of. Every process takes them in one order, so that no two wait for each other.
pub fn alone(site: &Site, file: &File, patience: Duration) -> anyhow::Result<Vec<Lock>> {
    loop {
        let mut names: Vec<_> = moved(site, file)?.into_iter().map(|site| site.instance).collect();
        names.push(site.instance.clone());
        names.sort();
        let locks: io::Result<Vec<_>> = names.iter().map(|name| bpf::lock_within(name, patience)).collect();
        let locks = locks?;
        if moved(site, file)?.iter().all(|site| names.contains(&site.instance)) {
            return Ok(locks);
        }
    }
}

/// Loads the lanes' program for the XDP hook, if it is not loaded yet: an interface may come, or a file, that needs it when this process has no
/// privilege any more to load programs.
pub fn ready_for_xdp(site: &Site, config: &Config) -> anyhow::Result<()> {
    let bundle = Bundle::of(config);
    let Some(program) = bundle.running(&site.instance) else { return Ok(()) };
    match (program.load_xdp_lanes(bundle.xdp), &config.attach.lanes) {
        (Err(error), Lanes::Xdp { .. }) => Err(error.into()),
        // Not every kernel that has tc's hooks takes programs at this one.
        _ => Ok(()),
    }
}

/// Completes or removes what a process has left that was killed while it replaced a program. The caller has the lock ([`bpf::lock`]).
pub fn resume(site: &Site) -> anyhow::Result<()> {
    Ok(Instance::resume(&next(site), &site.instance)?)
}

/// What a repair found.
#[derive(Debug, Default)]
pub struct Repair {
    /// What is not as the file says, or was not.
    pub complaints: Vec<String>,
    /// What cannot be repaired: what of somebody else's is in the way, and lanes that cannot be laid.
    pub trouble: Vec<String>,
    /// Whether it is as the file says again.
    pub done: bool,
    /// The version of Strait whose program runs, if it is not this one. Nothing is repaired then.
    pub foreign: Option<String>,
}

/// Makes a running translator again what its file says, if `now` agrees when it sees what is wrong. Where something of others is in the way, it is
/// reported, and the rest is repaired; `force` is that of [`apply`]. The caller has the locks ([`alone`]).
pub fn repair(
    file: &File,
    config: &Config,
    force: bool,
    log: Log,
    now: impl FnOnce(&[String]) -> bool,
) -> anyhow::Result<Repair> {
    let links = Handle::open()?;
    let site = Site::new(device(config))?;
    let mut plan = Plan::new(&site, file, config.clone(), &links, !force)?;
    let mut complaints = plan.complaints();
    if plan.program == Program::Replace {
        let foreign = plan.before.as_ref().map_or("unknown".to_string(), |record| record.version.clone());
        return Ok(Repair { foreign: Some(foreign), ..Repair::default() });
    }
    let mut done = !complaints.is_empty() && now(&complaints);
    if done {
        plan.execute_in_some_mode(log)?;
        complaints.retain(|complaint| !plan.refused.contains(complaint));
        done = !complaints.is_empty();
    }
    let missing =
        plan.missing.iter().map(|name| format!("`{name}` does not exist; it gets its lane when it comes"));
    let conflicts = plan.routing.conflicts.iter().filter(|_| !force).map(Conflict::to_string);
    let trouble = conflicts.chain(plan.unfit.iter().cloned()).chain(missing).collect();
    Ok(Repair { complaints, trouble, done, foreign: None })
}

/// Checks a file, and says what applying it would change.
pub fn check(args: &FileArgs) -> anyhow::Result<()> {
    let read = File::read(&args.of.config).and_then(|file| {
        let config = file.config()?;
        let bundle = Bundle::of(&config);
        if !bundle.object.is_empty() && config.clat.is_none() {
            // What does not fit the tables is found before somebody applies it.
            desired(&config, &bundle.manifest()?)?;
        }
        Ok((config, file))
    });
    let (config, file) = match read {
        Ok(read) => read,
        Err(error) => {
            if args.of.json {
                let problem = abi::text::chain(&error);
                println!("{}", json!({"file": args.of.config, "good": false, "problem": problem}));
            }
            return Err(error);
        }
    };
    let mut notes: Vec<_> = config.warnings.iter().map(ToString::to_string).collect();
    notes.extend(super::loops::lacking(&config));
    if args.diff {
        return diff(args, &file, config);
    }
    let shares = config.stateful.as_ref().map(Shares::of);
    match args.of.json {
        true => {
            let mut report =
                json!({"file": args.of.config, "good": true, "problem": null, "warnings": notes});
            if let Some(shares) = &shares {
                report["shares"] = json!({
                    "subscriber": shares.length, "subscriber-sessions": shares.sessions,
                    "subscriber-bindings": shares.bindings, "outside-sessions": shares.outside,
                });
            }
            println!("{report}");
        }
        false => {
            warn_about(&args.of.config, &notes);
            println!("{} is good", args.of.config.display());
            if let Some(shares) = shares {
                println!("{}", shares.described());
            }
        }
    }
    Ok(())
}

fn warn_about(file: &Path, notes: &[String]) {
    for note in notes {
        eprintln!("warning: {}: {note}", file.display());
    }
}

fn diff(args: &FileArgs, file: &File, config: Config) -> anyhow::Result<()> {
    need_root()?;
    let links = Handle::open()?;
    let config = super::clat::complete(config, &links)?;
    let site = Site::new(device(&config))?;
    let plan = Plan::make(&site, file, config, &links)?;
    let changes = plan.changes();
    let conflicts = &plan.routing.conflicts;
    if args.of.json {
        let change = |(sort, kind, what): &(Sort, String, String)| json!({"change": word(*sort), "kind": kind, "what": what});
        let conflict = |c: &Conflict| json!({"what": c.what, "hint": c.cure});
        println!(
            "{}",
            serde_json::to_string_pretty(&json!({
                "file": args.of.config,
                "good": true,
                "problem": null,
                "device": site.device,
                "changes": changes.iter().map(change).collect::<Vec<_>>(),
                "conflicts": conflicts.iter().map(conflict).collect::<Vec<_>>(),
                "warnings": plan.warnings,
            }))?
        );
        return Ok(());
    }
    for warning in &plan.warnings {
        eprintln!("warning: {warning}");
    }
    for (sort, kind, what) in &changes {
        let sign = match sort {
            Sort::Add => '+',
            Sort::Change => '~',
            Sort::Remove => '-',
        };
        println!("{sign} {kind:<9} {what}");
    }
    if changes.is_empty() {
        println!("{} is what runs: nothing would change", args.of.config.display());
    }
    for conflict in conflicts {
        println!("in the way: {conflict}");
    }
    Ok(())
}

fn word(sort: Sort) -> &'static str {
    match sort {
        Sort::Add => "add",
        Sort::Change => "change",
        Sort::Remove => "remove",
    }
}

/// The name of an instance while it is loaded beside the one that it replaces.
fn next(site: &Site) -> String {
    format!("{}{}", site.instance, bpf::NEXT)
}

/// A kernel without IPv6 has no routes for the prefix.
pub fn needs_ipv6() -> anyhow::Result<()> {
    match sysctl::get("net/ipv6/conf/all/disable_ipv6").as_deref() {
        Err(_) => bail!(
            "this kernel has no IPv6; hint: remove `ipv6.disable=1` from its command line, or load its module"
        ),
        Ok("0") => Ok(()),
        Ok(_) => bail!(
            "IPv6 is switched off on this machine, so it can neither receive nor route what is to be translated; nothing was changed\n  \
             hint: sysctl -w net.ipv6.conf.all.disable_ipv6=0"
        ),
    }
}

impl<'a> Plan<'a> {
    fn make(site: &'a Site, file: &'a File, config: Config, links: &'a Handle) -> anyhow::Result<Self> {
        Self::new(site, file, config, links, false)
    }

    fn new(
        site: &'a Site,
        file: &'a File,
        config: Config,
        links: &'a Handle,
        yields: bool,
    ) -> anyhow::Result<Self> {
        let bundle = Bundle::of(&config);
        let mut manifest = bundle.manifest()?;
        nat64::resize(&config, &mut manifest);
        let moved = moved(site, file)?;
        let names = moved.iter().map(|site| site.device.clone()).collect();
        let ground = Ground { yields, ..Ground::survey(site, links, names)? };
        let config = super::source::complete(config, &ground.all, links)?;
        let before = Instance::open(&site.instance).ok().and_then(|instance| Record::of(&instance));
        let running_config = before.as_ref().and_then(Record::config);
        let config = super::source::keep_secret(config, running_config.as_ref())?;
        let mut wanted = desired(&config, &manifest)?;
        wanted.absent = released(running_config.as_ref(), &config, &manifest);
        mine(&ground)?;
        let Ways { ways, missing, generic, unfit } = ground.ways(&config)?;
        // A file with a lane that loses packets is refused. A translator that runs is repaired without that lane.
        if let (Some(Unfit { way, why, cure }), false) = (unfit.first(), yields) {
            let name = &way.name;
            bail!("{why}\n  hint: {cure}, or leave `{name}` out of `attach`\nnothing was changed");
        }
        let unfit =
            unfit.iter().map(|unfit| format!("{}\n  hint: {}", unfit.left_out(), unfit.cure)).collect();
        let (program, held, mut running_program) = held(site, bundle, &manifest, &wanted, before.as_ref())?;
        let routing = ground.routing(&config);
        let device = ground.device_steps(&config);
        let lanes = ground.lane_steps(&ways, running_program.as_mut())?;
        let read = |held: &Desired| running(held, &manifest).map_err(anyhow::Error::msg);
        let mut tables = (read(&held)?, read(&wanted)?);
        tables.0.sessions.extend(timeouts(running_config.as_ref()));
        tables.1.sessions.extend(timeouts(Some(&config)));
        let mut warnings: Vec<String> =
            config.warnings.iter().map(|w| format!("{}: {w}", file.path.display())).collect();
        warnings.extend(routing.warnings.iter().cloned());
        warnings.extend(missing.iter().map(|name| {
            format!(
                "`attach` names `{name}`, and there is no such interface: its packets take the way through the device; \
                 hint: `strait nat64 reload` when it is there"
            )
        }));
        warnings.extend(generic.map(|why| format!("generic mode, which is slower: {why}")));
        Ok(Self {
            file,
            config,
            ground,
            wanted,
            program,
            before,
            device,
            routing,
            lanes,
            ways,
            moved,
            tables,
            warnings,
            missing,
            unfit,
            refused: Vec::new(),
        })
    }

    /// Everything that would change, in the order in which it is done.
    fn changes(&self) -> Vec<(Sort, String, String)> {
        let device = &self.ground.site.device;
        let mut all = Vec::new();
        match self.program {
            Program::Load => {
                all.push((Sort::Add, "program".into(), format!("version {}", env!("CARGO_PKG_VERSION"))))
            }
            Program::Keep => {}
            Program::Replace => {
                let old = self.before.as_ref().map_or("an older release", |b| b.version.as_str());
                let what = match old == env!("CARGO_PKG_VERSION") {
                    true => format!("on {device}: loaded anew, for another mode or number of sessions"),
                    false => {
                        format!("on {device}: that of version {old} by that of {}", env!("CARGO_PKG_VERSION"))
                    }
                };
                all.push((Sort::Change, "program".into(), what));
            }
        }
        table_changes(&self.tables.0, &self.tables.1, &mut all);
        let routes = self.routing.steps.iter().cloned().map(Step::Route);
        let steps = self.device.iter().cloned().chain(routes).chain(self.lanes.iter().cloned());
        all.extend(steps.map(|step| (step.sort(), step.kind().to_string(), step.to_string())));
        all.extend(self.moved.iter().map(|site| {
            (
                Sort::Remove,
                "interface".to_string(),
                format!("{}, which {device} takes the place of", site.device),
            )
        }));
        all
    }

    /// What is not as the file says.
    fn complaints(&self) -> Vec<String> {
        let mut all = match self.program {
            Program::Load => vec!["its program is gone".to_string()],
            Program::Keep => Vec::new(),
            Program::Replace => vec!["its program is that of another version".to_string()],
        };
        if let Some(make) = self.device.iter().find(|step| matches!(step, Step::Make { .. })) {
            // Everything else goes with it.
            all.push(make.complaint());
            return all;
        }
        let mut tables = Vec::new();
        table_changes(&self.tables.0, &self.tables.1, &mut tables);
        if self.program == Program::Keep && !tables.is_empty() {
            all.push(format!("{} entries of its tables are different", tables.len()));
        }
        let routes = self.routing.steps.iter().cloned().map(Step::Route);
        let steps = self.device.iter().cloned().chain(routes).chain(self.lanes.iter().cloned());
        all.extend(steps.map(|step| step.complaint()));
        all
    }

    /// Like [`Plan::execute`]. If a driver does not take the program, all lanes are in generic mode if the file leaves it open, and a repair leaves the
    /// interface without a lane if it does not.
    fn execute_in_some_mode(&mut self, log: Log) -> anyhow::Result<()> {
        let Err(error) = self.execute(log) else { return Ok(()) };
        let mut config = self.config.clone();
        let (Some(NoDriver { interface, why }), Lanes::Xdp { mode, .. }) =
            (error.downcast_ref::<NoDriver>(), &mut config.attach.lanes)
        else {
            return Err(error);
        };
        if mode.is_some() {
            let lane = |step: &Step| matches!(step, Step::Lay { way, .. } if way.name == *interface);
            let Some(at) = self.lanes.iter().position(lane).filter(|_| self.ground.yields) else {
                return Err(error);
            };
            self.refused.push(self.lanes.remove(at).complaint());
            self.unfit.push(format!("`{interface}` has no lane, and its packets take the device: {why}"));
            return self.execute_in_some_mode(log);
        }
        *mode = Some(XdpMode::Generic);
        log.warning(&format!("generic mode, which is slower: {why}"));
        let ground = &self.ground;
        *self = Self::new(ground.site, self.file, config, ground.links, ground.yields)?;
        self.execute(log)
    }

    /// Refuses what would hurt something of somebody else.
    fn refuse(&self, force: bool) -> anyhow::Result<()> {
        let conflicts = &self.routing.conflicts;
        if conflicts.is_empty() || force {
            return Ok(());
        }
        let all: Vec<_> = conflicts.iter().map(Conflict::to_string).collect();
        bail!("{}\nnothing was changed", all.join("\nerror: "))
    }

    /// Does everything, or undoes what was done.
    fn execute(&mut self, log: Log) -> anyhow::Result<()> {
        let (site, links) = (self.ground.site, self.ground.links);
        let fresh = self.device.iter().any(|step| matches!(step, Step::Make { .. }));
        if let (true, Owner::Us { device, .. }) = (fresh, &self.ground.owner) {
            // The device has lost its other end.
            links.delete_index(device.index)?;
        }
        let mut program = self.program()?;
        let before = plan::present(&mut program, &self.wanted)?;
        let mut transaction = Transaction::new(site, links);
        let result = self.run(&mut program, &mut transaction);
        match result {
            Ok(()) => transaction.commit(),
            Err(_) => {
                let mut left = transaction.undo(Some(&mut program));
                left.extend(plan::apply(&mut program, &before).err().map(anyhow::Error::from));
                if fresh {
                    left.extend(take_down(site, links).err());
                }
                for problem in left {
                    log.error(&format!("this could not be undone: {}", abi::text::chain(&problem)));
                }
            }
        }
        result?;
        for old in &self.moved {
            drain(old, links)?;
            take_down(old, links)?;
            log.info(&format!("removed {}: {} takes its place", old.device, site.device));
        }
        Ok(())
    }

    fn run(&self, program: &mut KernelProgram, transaction: &mut Transaction<'_>) -> anyhow::Result<()> {
        plan::apply(program, &self.wanted)?;
        let sysctls = super::clat::changed(self.ground.site, &self.device, self.before.as_ref());
        if self.before.as_ref().map_or(!sysctls.is_empty(), |before| before.sysctls != sysctls) {
            // Before they change, so that `down` finds it in any case.
            let before = self.before.clone();
            let record =
                before.unwrap_or_else(|| Record::new(self.ground.site, self.file, &self.config, None));
            Record { sysctls: sysctls.clone(), ..record }.write(program.instance())?;
        }
        for step in &self.device {
            transaction.act(step, Some(program))?;
        }
        // The kernel drops an interface's routes when it goes down, which a step may need. And others may have added routes meanwhile.
        let mut now = Ground::survey(self.ground.site, self.ground.links, self.ground.moved.clone())?;
        (now.old, now.yields) = (self.ground.old, self.ground.yields);
        let routing = now.routing(&self.config);
        let known = &self.routing.conflicts;
        let new = routing.conflicts.iter().find(|conflict| !known.contains(conflict));
        if let (Some(new), false) = (new, now.yields) {
            bail!("{new}\nnothing was changed");
        }
        let routes = routing.steps.into_iter().map(Step::Route);
        for step in routes.chain(self.lanes.iter().cloned()) {
            transaction.act(&step, Some(program))?;
        }
        let record = Record::new(self.ground.site, self.file, &self.config, self.before.as_ref());
        Record { sysctls, kernel: Numbers::of(Bundle::of(&self.config), program)?, ..record }
            .write(program.instance())
    }

    /// The program that is to run, in the place of an older one.
    fn program(&self) -> anyhow::Result<KernelProgram> {
        let (site, bundle) = (self.ground.site, Bundle::of(&self.config));
        let mut manifest = bundle.manifest()?;
        nat64::resize(&self.config, &mut manifest);
        if let (Program::Keep, Some(program)) = (self.program, bundle.running(&site.instance)) {
            return Ok(program);
        }
        let options = LoadOptions { shared: self.kept(&manifest), ..LoadOptions::default() };
        let program = KernelProgram::load_with(bundle.object, &manifest, &next(site), &options)?;
        self.ready(program, &manifest).inspect_err(|_| {
            let _ = Instance::remove_by_name(&next(site));
        })
    }

    /// The maps that a new program has from the old one: bindings and sessions, if they have the same form in both. So packets of the old one
    /// add entries for the new one until the last moment.
    fn kept(&self, manifest: &Manifest) -> Option<(Instance, Vec<String>)> {
        let before = self.before.as_ref().filter(|_| self.program == Program::Replace)?;
        let same = |table: &&Table| before.kernel.learning.get(&table.name) == Some(&form(table));
        let tables = manifest.tables.iter().filter(same);
        let layouts = tables.filter_map(|table| table.layout.as_ref());
        let maps = layouts.filter_map(|layout| {
            let learning = layout.learning.as_ref()?;
            Some([layout.map.clone()?, learning.rows.clone(), learning.free.clone()])
        });
        Some((Instance::open(&self.ground.site.instance).ok()?, maps.flatten().collect()))
    }

    /// Fills a new program with what the old one holds, so that packets find no difference, and lets it take the old one's place.
    fn ready(&self, mut program: KernelProgram, manifest: &Manifest) -> anyhow::Result<KernelProgram> {
        let old = self.before.as_ref().and_then(Record::config).filter(|_| self.program == Program::Replace);
        let wanted = old.as_ref().and_then(|config| desired(config, manifest).ok());
        plan::apply(&mut program, wanted.as_ref().unwrap_or(&self.wanted))?;
        if let Owner::Us { device, peer } = &self.ground.owner {
            super::wiring::connect(&mut program, device.index, peer.as_ref().map_or(0, |peer| peer.index))?;
            let attached = self.ground.attached();
            let ways = old.and_then(|config| self.ground.ways(&config).ok());
            let ways = ways.as_ref().map_or(&self.ways, |found| &found.ways);
            // Frames are sent through interfaces with lanes only, so those that have none must not have one now.
            for way in ways.iter().filter(|way| attached.iter().any(|(index, _)| *index == way.index)) {
                program.set_lane(way.index, way.lane(device.index))?;
            }
            if attached.iter().any(|(_, hook)| matches!(hook, Hook::Xdp(_))) {
                program.load_xdp_lanes(Bundle::of(&self.config).xdp)?;
            }
        }
        if let Some(mut running) = Bundle::of(&self.config).running(&self.ground.site.instance) {
            copy_flows(&mut running, &mut program)?;
        }
        if let Some(before) = &self.before {
            before.write(program.instance())?;
        }
        Ok(program.replace(&self.ground.site.instance)?)
    }
}

/// Takes the routes of a device away and waits until the kernel has received what the device has translated: it drops the packets in its
/// backlog with their interface.
fn drain(site: &Site, links: &Handle) -> anyhow::Result<()> {
    let ours =
        |route: &&Route| route.protocol == owner::PROTOCOL && route.interface.as_ref() == Some(&site.device);
    for route in links.routes()?.iter().filter(ours) {
        links.remove_route(route)?;
    }
    std::thread::sleep(std::time::Duration::from_millis(20));
    Ok(())
}

/// Copies bindings and sessions to a program with tables of other sizes. What packets add to the old one from now on is lost: they add it again.
fn copy_flows(from: &mut KernelProgram, to: &mut KernelProgram) -> anyhow::Result<()> {
    let flows = Flows::of(from.manifest());
    for table in flows.iter().flat_map(Flows::all) {
        if from.manifest().tables[table.index()] == to.manifest().tables[table.index()] {
            // They share its maps.
            continue;
        }
        let mut found = Vec::new();
        from.each_learnt(table, |learnt| found.extend(learnt.timer.is_some().then_some(learnt)))?;
        for learnt in &found {
            match to.teach(table, learnt) {
                Err(io::Error::Device(DeviceError::ResourceExhausted(_))) => break,
                other => drop(other?),
            }
        }
    }
    Ok(())
}

/// The entries of static bindings that a file does not have any more.
pub fn released(before: Option<&Config>, config: &Config, manifest: &Manifest) -> Vec<Key> {
    let bindings = |config: &Config| config.stateful.as_ref().map_or_else(Vec::new, |s| s.bindings.clone());
    let now = bindings(config);
    let old = before.map_or_else(Vec::new, bindings);
    let gone = old.iter().filter(|binding| !now.contains(binding));
    gone.flat_map(|binding| nat64::binding_keys(binding, manifest)).collect()
}

/// Refuses a device that is not ours, or not ours alone.
fn mine(ground: &Ground<'_>) -> anyhow::Result<()> {
    let (site, name) = (ground.site, &ground.site.device);
    match &ground.owner {
        Owner::Nobody => Ok(()),
        Owner::Other(link) => bail!(
            "there is an interface {} already, which Strait did not make; nothing was changed\n  \
             hint: name another device in the file, or remove that interface",
            owner::described(link)
        ),
        Owner::Renamed(link) => bail!(
            "the device `{name}` of this translator is called `{}` now; nothing was changed\n  \
             hint: `ip link set {} name {name}`, or `strait nat64 down --device {name}` removes it",
            link.name,
            link.name
        ),
        Owner::Us { device, .. } if !Instance::exists(&site.instance) => {
            let at = bpf::at(device.index, Hook::Egress)?.first().map(|program| program.id);
            // Without tcx only the record tells that there is a program.
            match at.or_else(|| Record::find(site)?.kernel.programs.first().copied()) {
                None => Ok(()),
                Some(number) => bail!(
                    "`{name}` is up, but was made where another BPF file system is mounted: its program (id {number}) has no pins here; nothing was \
                     changed\n  hint: run this where `up` ran, or `strait nat64 down --device {name}` first"
                ),
            }
        }
        Owner::Us { .. } => Ok(()),
    }
}

/// The other sites of this namespace that were made from the same file.
fn moved(site: &Site, file: &File) -> anyhow::Result<Vec<Site>> {
    let same = |other: &Site| {
        let instance = Instance::open(&other.instance).ok();
        instance.and_then(|i| Record::of(&i)).is_some_and(|record| record.file == file.path)
    };
    Ok(Site::all()?.into_iter().filter(|other| other.device != site.device && same(other)).collect())
}

/// What happens to the program of a site, what its tables hold, and the program if its tables can be read.
fn held(
    site: &Site,
    bundle: &Bundle,
    manifest: &Manifest,
    wanted: &Desired,
    before: Option<&Record>,
) -> anyhow::Result<(Program, Desired, Option<KernelProgram>)> {
    if let Some(mut program) = bundle.running(&site.instance) {
        let held = plan::present(&mut program, wanted)?;
        // The sizes of maps are fixed when they are made.
        let same = program.manifest() == manifest;
        return Ok((if same { Program::Keep } else { Program::Replace }, held, Some(program)));
    }
    if Instance::open(&site.instance).is_err() {
        return Ok((Program::Load, Desired::default(), None));
    }
    // Another version's tables cannot be read; its record says what they hold.
    let config = before.and_then(Record::config).filter(|config| std::ptr::eq(Bundle::of(config), bundle));
    let held = config.map(|config| desired(&config, &bundle.manifest()?)).transpose()?.unwrap_or_default();
    Ok((Program::Replace, held, None))
}

fn table_changes(held: &Running, wanted: &Running, all: &mut Vec<(Sort, String, String)>) {
    let mut push = |sort, kind: &str, what: String| all.push((sort, kind.to_string(), what));
    match (held.prefix, wanted.prefix) {
        (None, Some(new)) => push(Sort::Add, "prefix", new.to_string()),
        (Some(old), None) => push(Sort::Remove, "prefix", old.to_string()),
        (Some(old), Some(new)) if old != new => push(Sort::Change, "prefix", format!("{old} becomes {new}")),
        _ => {}
    }
    let by_ipv4 = |running: &Running| -> HashMap<_, _> {
        running.maps.iter().map(|map| (map.ipv4, map.ipv6)).collect()
    };
    let (old, new) = (by_ipv4(held), by_ipv4(wanted));
    for map in &wanted.maps {
        match old.get(&map.ipv4) {
            None => push(Sort::Add, "mapping", format!("{} to {}", map.ipv4, map.ipv6)),
            Some(old) if *old != map.ipv6 => {
                push(Sort::Change, "mapping", format!("{} to {old} becomes to {}", map.ipv4, map.ipv6));
            }
            Some(_) => {}
        }
    }
    for map in held.maps.iter().filter(|map| !new.contains_key(&map.ipv4)) {
        push(Sort::Remove, "mapping", format!("{} to {}", map.ipv4, map.ipv6));
    }
    for (old, new, kind) in [
        (pool_texts(held), pool_texts(wanted), "pool"),
        (held.bindings.clone(), wanted.bindings.clone(), "binding"),
    ] {
        let other =
            |all: &[(String, String)], key: &str| all.iter().find(|(k, _)| k == key).map(|(_, v)| v.clone());
        for (key, value) in &new {
            match other(&old, key) {
                None => push(Sort::Add, kind, format!("{key}: {value}")),
                Some(old) if old != *value => {
                    push(Sort::Change, kind, format!("{key}: {old} becomes {value}"))
                }
                Some(_) => {}
            }
        }
        for (key, value) in old.iter().filter(|(key, _)| other(&new, key).is_none()) {
            push(Sort::Remove, kind, format!("{key}: {value}"));
        }
    }
    let mut settings = |held: &[(String, String)], wanted: &[(String, String)]| {
        for (name, value) in wanted {
            match held.iter().find(|(n, _)| n == name) {
                Some((_, old)) if old != value => {
                    push(Sort::Change, "setting", format!("{name}: {old} becomes {value}"));
                }
                None if !held.is_empty() => push(Sort::Add, "setting", format!("{name}: {value}")),
                _ => {}
            }
        }
    };
    let texts = |running: &Running| -> Vec<_> {
        running.settings.iter().map(|(name, value)| (name.clone(), value.to_string())).collect()
    };
    settings(&texts(held), &texts(wanted));
    settings(&held.errors, &wanted.errors);
    settings(&held.sessions, &wanted.sessions);
}

/// Pools by the prefixes of their hosts.
fn pool_texts(running: &Running) -> Vec<(String, String)> {
    running.pools.iter().map(|(hosts, text)| (hosts.to_string(), text.clone())).collect()
}

/// What the program does not have in its tables: the times of sessions, and the sizes of tables, by the keys of the file.
fn timeouts(config: Option<&Config>) -> Vec<(String, String)> {
    let mut timeouts = match config.and_then(|config| config.stateful.as_ref()) {
        Some(stateful) => stateful.timeouts,
        None => return Vec::new(),
    };
    let mut all = timeouts
        .named()
        .map(|(name, seconds, _)| (format!("timeouts.{name}"), format!("{seconds} s")))
        .to_vec();
    let most = config.and_then(|config| config.stateful.as_ref()).and_then(|stateful| stateful.max_sessions);
    let to =
        config.and_then(|config| config.stateful.as_ref()).map(|stateful| format!("{:?}", stateful.log_to));
    all.push(("log-to".to_string(), to.unwrap_or_default()));
    all.push(("max-sessions".to_string(), most.map_or("the program's".to_string(), |most| most.to_string())));
    all
}

#[cfg(test)]
mod tests {
    use nat64::config::{KEYS, parse};

    use super::*;

    /// Keys, each with two values.
    const CHANGES: [(&str, &str, &str); 22] = [
        ("prefix", "\"2001:db8:64::/96\"", "\"2001:db8:65::/96\""),
        ("tos", "\"copy\"", "8"),
        ("udp-zero-checksum", "\"compute\"", "\"drop\""),
        ("clamp-mss", "true", "false"),
        ("ipv6-mtu", "1500", "1400"),
        ("lowest-ipv6-mtu", "1280", "1400"),
        ("error-pool4", "\"192.0.2.0/28\"", "\"192.0.2.0/29\""),
        ("error-source4", "\"192.0.2.1\"", "\"192.0.2.2\""),
        ("error-source6", "\"2001:db8::1\"", "\"2001:db8::2\""),
        ("error-rate", "10", "11"),
        ("error-rate", "10", "0"),
        ("hairpin", "\"simple\"", "\"intrinsic\""),
        ("pool", "[\"192.0.2.0/28\"]", "[\"192.0.2.0/29\"]"),
        ("ports", "\"1024-65535\"", "\"2048-65535\""),
        ("filtering", "\"endpoint-independent\"", "\"address-dependent\""),
        ("new-sessions", "10", "11"),
        ("adopt-connections", "false", "true"),
        ("subscriber-sessions", "100", "101"),
        ("subscriber-bindings", "100", "101"),
        ("outside-sessions", "100", "101"),
        ("secret", "\"00000000000000000000000000000001\"", "\"00000000000000000000000000000002\""),
        ("log", "\"none\"", "\"sessions\""),
    ];

    /// Keys of no table of the program. What they change is shown with the interfaces and routes.
    const ELSEWHERE: [&str; 6] = ["mode", "timeouts", "max-sessions", "log-to", "attach", "routes"];

    #[test]
    fn a_change_of_any_key_is_shown() {
        let of = |key: &str, value: &str| {
            let prefix = if key == "prefix" { "" } else { "prefix = \"2001:db8:64::/96\"\n" };
            let sessions = [
                "ports",
                "filtering",
                "adopt-connections",
                "new-sessions",
                "subscriber-sessions",
                "subscriber-bindings",
                "outside-sessions",
                "secret",
                "log",
            ]
            .contains(&key);
            let pool = if sessions { "pool = [\"192.0.2.0/28\"]\n" } else { "" };
            let mode = if sessions || key == "pool" { "stateful" } else { "stateless" };
            let text = format!("[nat64]\nmode = \"{mode}\"\n{prefix}{pool}{key} = {value}\n");
            let config = parse(&text).unwrap_or_else(|e| panic!("{key} = {value}: {e:?}"));
            let manifest = Bundle::of(&config).manifest().expect("our own program");
            running(&desired(&config, &manifest).expect("our own program"), &manifest)
                .expect("our own tables")
        };
        for (key, old, new) in CHANGES {
            let mut shown = Vec::new();
            table_changes(&of(key, old), &of(key, new), &mut shown);
            assert!(!shown.is_empty(), "{key}: {old} becomes {new}");
            shown.clear();
            table_changes(&of(key, old), &of(key, old), &mut shown);
            assert!(shown.is_empty(), "{key} stays {old}: {shown:?}");
        }
        for key in KEYS {
            let listed = CHANGES.iter().any(|(k, ..)| *k == key) || ELSEWHERE.contains(&key);
            assert!(listed, "{key} is new: say here how it changes");
        }
    }
}
