//! What is to be done so that a translator follows a file, and doing it: whole, or undone.

use abi::Manifest;
use abi::manifest::Table;
use anyhow::bail;
use control::plan::{self, Desired};
use dataplane::device::DeviceError;
use io::bpf::{self, Hook, Instance, LoadOptions};
use io::ebpf::KernelProgram;
use io::link::{Handle, Route};
use nat64::flows::Flows;
use nat64::{Config, Lanes, Running, XdpMode, running};

use super::changes::{Change, table_changes, timeouts};
use super::{moved, next, released};
use crate::bundle::Bundle;
use crate::configured::desired;
use crate::conflicts::{Conflict, Routing};
use crate::down::take_down;
use crate::lanes::{Unfit, Way, Ways};
use crate::log::Log;
use crate::owner::{self, Owner, Site};
use crate::record::{File, Numbers, Record, form};
use crate::wiring::{Ground, NoDriver, Sort, Step, Transaction};

/// What is to be done so that a translator follows a file.
pub struct Plan<'a> {
    file: &'a File,
    pub config: Config,
    pub ground: Ground<'a>,
    wanted: Desired,
    pub program: Program,
    pub before: Option<Record>,
    /// The steps to the device, to routes, and to lanes.
    device: Vec<Step>,
    pub routing: Routing,
    lanes: Vec<Step>,
    ways: Vec<Way>,
    /// Sites whose device was made from the same file under another name.
    moved: Vec<Site>,
    /// What the tables hold, and what they shall hold.
    tables: (Running, Running),
    pub warnings: Vec<String>,
    /// Interfaces that shall have a lane and do not exist.
    pub missing: Vec<String>,
    /// Why interfaces have no lane for the time being.
    pub unfit: Vec<String>,
    /// The complaints about lanes that a driver refuses.
    pub refused: Vec<String>,
}

/// What happens to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// There is none.
    Load,
    /// The one that runs was loaded from this version's object, and stays.
    Keep,
    /// It is another version's.
    Replace,
}

impl<'a> Plan<'a> {
    /// The plan for a file that is applied.
    pub fn make(site: &'a Site, file: &'a File, config: Config, links: &'a Handle) -> anyhow::Result<Self> {
        Self::new(site, file, config, links, false)
    }

    /// Like [`Plan::make`]. `yields`: what of others is in the way, and lanes that lose packets, are left as they are.
    pub fn new(
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
        let config = crate::source::complete(config, &ground.all, links)?;
        let before = Instance::open(&site.instance).ok().and_then(|instance| Record::of(&instance));
        let running_config = before.as_ref().and_then(Record::config);
        let config = crate::source::keep_secret(config, running_config.as_ref())?;
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
    pub fn changes(&self) -> Vec<Change> {
        let device = &self.ground.site.device;
        let mut all = Vec::new();
        match self.program {
            Program::Load => {
                all.push(Change::new(Sort::Add, "program", format!("version {}", env!("CARGO_PKG_VERSION"))));
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
                all.push(Change::new(Sort::Change, "program", what));
            }
        }
        table_changes(&self.tables.0, &self.tables.1, &mut all);
        let routes = self.routing.steps.iter().cloned().map(Step::Route);
        let steps = self.device.iter().cloned().chain(routes).chain(self.lanes.iter().cloned());
        all.extend(steps.map(|step| Change::new(step.sort(), step.kind(), step.to_string())));
        all.extend(self.moved.iter().map(|site| {
            let what = format!("{}, which {device} takes the place of", site.device);
            Change::new(Sort::Remove, "interface", what)
        }));
        all
    }

    /// What is not as the file says.
    pub fn complaints(&self) -> Vec<String> {
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
    pub fn execute_in_some_mode(&mut self, log: &Log) -> anyhow::Result<()> {
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
    pub fn refuse(&self, force: bool) -> anyhow::Result<()> {
        let conflicts = &self.routing.conflicts;
        if conflicts.is_empty() || force {
            return Ok(());
        }
        let all: Vec<_> = conflicts.iter().map(Conflict::to_string).collect();
        bail!("{}\nnothing was changed", all.join("\nerror: "))
    }

    /// Does everything, or undoes what was done.
    fn execute(&mut self, log: &Log) -> anyhow::Result<()> {
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
                    left.extend(take_down(site, links, log).err());
                }
                for problem in left {
                    log.error(&format!("this could not be undone: {}", abi::text::chain(&*problem)));
                }
            }
        }
        result?;
        for old in &self.moved {
            drain(old, links)?;
            take_down(old, links, log)?;
            log.info(&format!("removed {}: {} takes its place", old.device, site.device));
        }
        Ok(())
    }

    fn run(&self, program: &mut KernelProgram, transaction: &mut Transaction<'_>) -> anyhow::Result<()> {
        plan::apply(program, &self.wanted)?;
        let sysctls = crate::clat::changed(self.ground.site, &self.device, self.before.as_ref());
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
            crate::wiring::connect(&mut program, device.index, peer.as_ref().map_or(0, |peer| peer.index))?;
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
