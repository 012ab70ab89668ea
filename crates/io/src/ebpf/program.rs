//! Loads and attaches a program, sets its ports, and runs it on test packets.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::atomic::{Ordering, fence};

use abi::Manifest;
use abi::id::MeterId;
use abi::manifest::{KernelMaps, Sender};

use super::flows::Learning;
use super::idle::Timeouts;
use super::meters::Cells;
use super::profiles::Profiles;
use super::tuples::TupleSpace;
use super::versions::Reuse;
use crate::bpf::{self, Hook, Instance, LoadOptions, Map, Ring, SkBuff, TestRun};
use crate::controller::ControllerPort;
use crate::{Error, Result, link};

/// A loaded program. Dropping the value does not unload it; [`KernelProgram::remove`] does.
#[derive(Debug)]
pub struct KernelProgram {
    pub(super) manifest: Manifest,
    pub(super) instance: Instance,
    /// The maps opened so far, by name.
    maps: HashMap<String, Map>,
    /// The tuple spaces of ternary tables, by table name. They are read from the maps when first needed.
    pub(super) tuples: HashMap<String, TupleSpace>,
    /// The memory of maps that can be reused without a grace period, by table name.
    pub(super) reuse: HashMap<String, Reuse>,
    /// The members and groups of action profiles.
    pub(super) profiles: Profiles,
    /// The number of the last list of copies.
    pub(super) last_list: u32,
    /// The cells of direct meters that entries have.
    pub(super) cells: HashMap<MeterId, Cells>,
    /// The host's part of tables that learn, by table name.
    pub(super) learning: HashMap<String, Learning>,
    /// The expire time of each profile in microseconds (PNA), or `u64::MAX`; empty if none was set.
    pub(super) expire_times: Vec<u64>,
    /// The idle timeouts of entries.
    pub(super) timeouts: Timeouts,
    /// The time that a test has set, in microseconds.
    pub(super) clock: Option<u64>,
    /// The ring of events, once it was needed.
    pub(super) ring: Option<Ring>,
    /// The port of the controller.
    pub(super) controller: Option<ControllerPort>,
    /// Whether this value loaded the program, so that no other process has written its maps.
    pub(super) is_fresh: bool,
}

/// The destination of packets that leave through a P4 port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EgressPort {
    /// The index of the interface.
    pub ifindex: u32,
    /// Flags of `bpf_redirect`: 0 sends out of the interface, [`EgressPort::INGRESS`] receives on it.
    pub flags: u32,
}

/// What the manifest says about the program for tc that sends the copies of an XDP program.
fn sender(manifest: &Manifest) -> Option<&Sender> {
    manifest.kernel.as_ref()?.copies.as_ref()?.sender.as_ref()
}

/// The flag of an ingress port without Ethernet headers: that of `struct ingress` in the program.
const BARE: u32 = 2;
const DEFER: u32 = 8;
const SOURCE: u32 = 16;
/// The offset of the flags in that structure.
const FLAGS: usize = 8;
/// The flag of the elements of an array that are ports.
const PORT: u32 = 4;

/// The beginning of a `struct ingress`.
fn words(value: [u32; 3]) -> Vec<u8> {
    value.map(u32::to_ne_bytes).concat()
}

/// Whether an element of the array of ports is one.
fn is_port(value: &[u8]) -> bool {
    let flags = value.get(FLAGS..FLAGS + 4).and_then(|bytes| bytes.try_into().ok());
    flags.map_or(0, u32::from_ne_bytes) & PORT != 0
}

impl EgressPort {
    /// BPF_F_INGRESS: the packet enters the network stack again, as if the interface had received it.
    pub const INGRESS: u32 = 1;
}

impl KernelProgram {
    /// Loads a program under an instance name, and writes the default actions and entries that the P4 program declares. After an error,
    /// nothing of the program remains loaded.
    pub fn load(object: &[u8], manifest: &Manifest, instance: &str) -> Result<Self> {
        Self::load_with(object, manifest, instance, &LoadOptions::default())
    }

    /// Like [`KernelProgram::load`], with other map sizes than those in the object.
    pub fn load_with(
        object: &[u8],
        manifest: &Manifest,
        instance: &str,
        options: &LoadOptions,
    ) -> Result<Self> {
        let mut options = options.clone();
        if let Some(sender) = sender(manifest) {
            let each = sender.each.saturating_mul(bpf::processors()?);
            options.max_entries.push((sender.kept.clone(), each));
            options.beside = Some(sender.program.clone());
        }
        for table in &manifest.tables {
            let Some(layout) = &table.layout else { continue };
            if let (Some(map), Some(learning)) = (&layout.map, &layout.learning) {
                options.max_entries.push((map.clone(), table.size.max(1) as u32));
                options.max_entries.push((learning.rows.clone(), learning.count + 1));
                options.max_entries.push((learning.free.clone(), learning.count));
            }
        }
        let shared = options.shared.as_ref().map_or_else(Vec::new, |(_, maps)| maps.clone());
        let instance = Instance::load(instance, object, &manifest.entry, &options)?;
        let mut program = Self { is_fresh: true, ..Self::around(instance, manifest) };
        if let Err(error) = program.initialise(&shared) {
            let _ = program.instance.remove();
            return Err(error);
        }
        Ok(program)
    }

    /// Opens a loaded program. The manifest must be the one that it was loaded with.
    pub fn open(manifest: &Manifest, instance: &str) -> Result<Self> {
        let mut program = Self::around(Instance::open(instance)?, manifest);
        program.adopt_sizes()?;
        Ok(program)
    }

    /// Tables that learn have the size with which the program was loaded.
    fn adopt_sizes(&mut self) -> Result<()> {
        for table in self.manifest.tables.clone() {
            let map = table.layout.as_ref().filter(|layout| layout.learning.is_some());
            let Some(map) = map.and_then(|layout| layout.map.clone()) else { continue };
            let size = self.map(&map)?.max_entries().into();
            self.manifest.resize(&table.name, size);
        }
        Ok(())
    }

    /// A loaded program whose pins are not visible here, by the kernel's numbers of its maps. It can be read, and not attached or replaced.
    pub fn unseen(manifest: &Manifest, instance: &str, maps: &BTreeMap<String, u32>) -> Result<Self> {
        let open = |(name, number): (&String, &u32)| Ok((name.clone(), Map::numbered(name, *number)?));
        let maps = maps.iter().map(open).collect::<Result<_>>()?;
        let mut program = Self { maps, ..Self::around(Instance::unseen(instance)?, manifest) };
        program.adopt_sizes()?;
        Ok(program)
    }

    /// The kernel's numbers of the maps, by name: what [`KernelProgram::unseen`] needs.
    pub fn map_numbers(&mut self) -> Result<BTreeMap<String, u32>> {
        let names = self.instance.maps()?;
        names.into_iter().map(|name| Ok((name.clone(), self.map(&name)?.number()))).collect()
    }

    /// Renames the instance. An existing instance with that name is replaced.
    pub fn replace(mut self, instance: &str) -> Result<Self> {
        self.instance = self.instance.replace(instance)?;
        Ok(self)
    }

    /// Detaches the program and removes all its pins.
    pub fn remove(self) -> Result<()> {
        self.instance.remove()
    }

    /// The manifest of the program.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The instance with the program's pins.
    pub fn instance(&self) -> &Instance {
        &self.instance
    }

    /// Attaches the program to an interface. It is not an error if it is already attached. If a program at the XDP hook has another one that sends its
    /// copies, that one is attached to the ingress of tc before.
    pub fn attach(&self, interface: &str, hook: Hook) -> Result<()> {
        if matches!(hook, Hook::Xdp(_)) && self.instance.has_beside() {
            self.instance.attach(interface, Hook::Ingress)?;
        }
        self.instance.attach(interface, hook)
    }

    /// Detaches the program from an interface. It is not an error if it is not attached.
    pub fn detach(&self, interface: &str, hook: Hook) -> Result<()> {
        self.detach_index(link::index_of(interface)?, hook)
    }

    /// Like [`KernelProgram::detach`], for an interface that may no longer exist.
    pub fn detach_index(&self, ifindex: u32, hook: Hook) -> Result<()> {
        self.instance.detach_index(ifindex, hook)?;
        match hook {
            Hook::Xdp(_) if self.instance.has_beside() => self.instance.detach_index(ifindex, Hook::Ingress),
            _ => Ok(()),
        }
    }

    /// Makes an interface a P4 port: its packets have this ingress port, and packets for the port leave through it. `flags` are those of
    /// `bpf_redirect`.
    pub fn set_port(&mut self, port: u32, interface: &str, flags: u32) -> Result<()> {
        let found = link::Handle::open()?.link(interface)?;
        let link = found.ok_or_else(|| Error::NotFound(format!("interface `{interface}`")))?;
        let bare = if link.ethernet { 0 } else { BARE };
        self.write_ingress(link.index, &words([port, 0, bare]))?;
        self.set_egress_port(port, EgressPort { ifindex: link.index, flags })
    }

    /// Makes a P4 port the controller's. The program must also be attached to the interface of `controller`, which is removed with this value.
    pub fn set_controller(&mut self, port: u32, controller: ControllerPort) -> Result<()> {
        self.set_port(port, controller.name(), 0)?;
        self.controller = Some(controller);
        Ok(())
    }

    /// Gives the port of the controller to a program that takes this one's place.
    pub fn pass_controller(&mut self, next: &mut KernelProgram) {
        next.controller = self.controller.take();
    }

    /// The port of the controller.
    pub fn controller(&self) -> Option<&ControllerPort> {
        self.controller.as_ref()
    }

    /// Sets the ingress port of the packets of an Ethernet interface. For test runs, the interface need not exist.
    pub fn set_ingress_port(&mut self, ifindex: u32, port: u32) -> Result<()> {
        self.write_ingress(ifindex, &words([port, 0, 0]))
    }

    /// Like [`KernelProgram::set_ingress_port`], for an interface out of which packets come that the program has sent. A packet that is to leave as
    /// fragments goes on unchanged, to where another port of the program gets it with a complete checksum. A packet that came out of this
    /// interface, or of one of [`KernelProgram::set_source`], and goes into it has the ingress port `again`. Only programs that are compiled
    /// for lanes do this.
    pub fn set_device_port(&mut self, ifindex: u32, port: u32, again: u32) -> Result<()> {
        let mut value = words([port, 0, DEFER | SOURCE]);
        value.extend([0; 8]);
        // The mark tells the packets of one device from those of others: a number that is not 0.
        let mut hash = DefaultHasher::new();
        hash.write(format!("{ifindex}-{}", crate::netns::id()?).as_bytes());
        let mark = hash.finish() as u32 | 1;
        value.extend((mark << 16 | again).to_ne_bytes());
        self.write_ingress(ifindex, &value)
    }

    /// Says that what an interface receives comes out of another program of Strait. An interface that is a port of this one stays what it is.
    pub fn set_source(&mut self, ifindex: u32) -> Result<()> {
        match self.read_ingress(ifindex)? {
            Some(_) => Ok(()),
            None => self.write_ingress(ifindex, &words([0, 0, SOURCE])),
        }
    }

    /// Removes the ingress port of an interface. The program then ignores its packets.
    pub fn forget_ingress(&mut self, ifindex: u32) -> Result<()> {
        match self.near_ingress(ifindex)? {
            Some(map) => {
                let key = ifindex.to_ne_bytes();
                let mut value = map.lookup(&key)?.unwrap_or_default();
                value.iter_mut().skip(FLAGS).take(4).for_each(|byte| *byte = 0);
                map.set(&key, &value)
            }
            None => self.map(&self.maps_of()?.ingress.clone())?.delete(&ifindex.to_ne_bytes()).map(|_| ()),
        }
    }

    /// The names of the maps that every program in the kernel has.
    pub(super) fn maps_of(&self) -> Result<&KernelMaps> {
        let maps = self.manifest.kernel.as_ref();
        maps.ok_or_else(|| Error::Object("the manifest names no maps of a program in the kernel".to_string()))
    }

    /// The result of the last packet that each processor has processed, as words; see [`KernelMaps::packet`].
    pub fn results(&mut self) -> Result<Vec<[u32; 4]>> {
        let name = self.maps_of()?.packet.clone();
        let all = self.map(&name)?.lookup_per_cpu(&0u32.to_ne_bytes())?.unwrap_or_default();
        let word = |bytes: &[u8], at: usize| {
            bytes.get(4 * at..4 * at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_ne_bytes)
        };
        Ok(all.iter().map(|bytes| std::array::from_fn(|at| word(bytes, at))).collect())
    }

    /// Clears the results of all processors.
    pub fn clear_results(&mut self) -> Result<()> {
        let name = self.maps_of()?.packet.clone();
        let map = self.map(&name)?;
        map.set(&0u32.to_ne_bytes(), &vec![0; map.value_size()])
    }

    /// Writes the value of an ingress port: a `struct ingress` of the program, or the beginning of one.
    pub(super) fn write_ingress(&mut self, ifindex: u32, value: &[u8]) -> Result<()> {
        let key = ifindex.to_ne_bytes();
        let Some(map) = self.near_ingress(ifindex)? else {
            return self.map(&self.maps_of()?.ingress.clone())?.set(&key, value);
        };
        let mut port = value.to_vec();
        port.resize(map.value_size(), 0);
        if let Some(flags) = port.get_mut(FLAGS..FLAGS + 4) {
            let with = u32::from_ne_bytes([flags[0], flags[1], flags[2], flags[3]]) | PORT;
            flags.copy_from_slice(&with.to_ne_bytes());
        }
        if map.lookup(&key)?.as_ref() == Some(&port) {
            return Ok(());
        }
        // A packet may read the element meanwhile, so the flag that makes it a port is written last.
        map.set(&key, value)?;
        fence(Ordering::SeqCst);
        map.set(&key, &port)
    }

    /// The value of an ingress port; `None` if the interface is none.
    pub(super) fn read_ingress(&mut self, ifindex: u32) -> Result<Option<Vec<u8>>> {
        let key = ifindex.to_ne_bytes();
        match self.near_ingress(ifindex)? {
            Some(map) => Ok(map.lookup(&key)?.filter(|value| is_port(value))),
            None => self.map(&self.maps_of()?.ingress.clone())?.lookup(&key),
        }
    }

    /// The values of all ingress ports.
    pub(super) fn all_ingress(&mut self) -> Result<Vec<Vec<u8>>> {
        let maps = self.maps_of()?;
        let (far, near) = (maps.ingress.clone(), maps.near_ingress.clone());
        let mut all: Vec<_> = self.map(&far)?.entries()?.into_iter().map(|(_, value)| value).collect();
        if let Some(near) = near {
            all.extend(self.map(&near)?.array()?.into_iter().filter(|value| is_port(value)));
        }
        Ok(all)
    }

    /// The array of ports, if this interface is one of those that it has elements for.
    fn near_ingress(&mut self, ifindex: u32) -> Result<Option<&Map>> {
        let Some(name) = self.maps_of()?.near_ingress.clone() else { return Ok(None) };
        let map = self.map(&name)?;
        Ok((ifindex < map.max_entries()).then_some(map))
    }

    /// Sets the destination of packets that leave through a P4 port.
    pub fn set_egress_port(&mut self, port: u32, to: EgressPort) -> Result<()> {
        let value = [to.ifindex.to_ne_bytes(), to.flags.to_ne_bytes()].concat();
        self.map(&self.maps_of()?.egress.clone())?.set(&port.to_ne_bytes(), &value)
    }

    /// Runs the program once on a frame, without a network.
    pub fn test_run(&self, frame: &[u8], skb: &SkBuff) -> Result<TestRun> {
        self.instance.program()?.test_run(frame, skb, 1)
    }

    /// Like [`KernelProgram::test_run`], for a program at the XDP hook.
    pub fn test_run_xdp(&self, frame: &[u8]) -> Result<TestRun> {
        self.instance.program()?.test_run_xdp(frame, 1)
    }

    /// Returns a map by name, and opens it when it is first needed.
    pub fn map(&mut self, name: &str) -> Result<&Map> {
        if !self.maps.contains_key(name) {
            let map = self.instance.map(name)?;
            self.maps.insert(name.to_owned(), map);
        }
        Ok(&self.maps[name])
    }

    fn around(instance: Instance, manifest: &Manifest) -> Self {
        Self {
            manifest: manifest.clone(),
            instance,
            maps: HashMap::new(),
            profiles: Profiles::new(manifest),
            cells: HashMap::new(),
            last_list: 0,
            tuples: HashMap::new(),
            reuse: HashMap::new(),
            learning: HashMap::new(),
            expire_times: Vec::new(),
            timeouts: Timeouts::default(),
            clock: None,
            ring: None,
            controller: None,
            is_fresh: false,
        }
    }

    /// Writes the default actions and entries that the P4 program declares. The object cannot contain them.
    fn initialise(&mut self, shared: &[String]) -> Result<()> {
        self.fill_free_rows(shared)?;
        self.fill_registers()?;
        for table in self.manifest.tables.clone() {
            if let Some(call) = &table.default_action {
                self.write_default(&table, call)?;
            }
            for entry in table.initial_entries.iter().filter(|_| !table.is_code()) {
                self.write_new(&table, entry)?;
            }
        }
        Ok(())
    }
}
