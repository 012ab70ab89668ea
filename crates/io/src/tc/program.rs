//! A program as a whole: loading, ports, attachment, test runs.

use std::collections::HashMap;

use abi::Manifest;

use super::tuples::TupleSpace;
use super::versions::Reuse;
use crate::bpf::{Hook, Instance, LoadOptions, Map, SkBuff, TestRun};
use crate::{Result, link};

/// A loaded program. Dropping the value does not unload it; [`TcProgram::remove`] does.
#[derive(Debug)]
pub struct TcProgram {
    pub(super) manifest: Manifest,
    pub(super) instance: Instance,
    /// The maps opened so far, by name.
    maps: HashMap<String, Map>,
    /// The tuple spaces of ternary tables, by table name. They are read from the maps when first needed.
    pub(super) tuples: HashMap<String, TupleSpace>,
    /// What we know of the memory that packets may read, by table name.
    pub(super) reuse: HashMap<String, Reuse>,
    /// Loaded by this value: nobody else has written its maps.
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

/// A shortcut around an interface; see [`TcProgram::set_lane`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    /// The index of the interface that the lane bypasses.
    pub past: u32,
    /// Whether translated packets go directly to the next hop. The stack, and netfilter with it, does not see them.
    pub direct: bool,
    /// MTU of the IPv4 routes into the interface, which the kernel does not tell programs; 0 is none.
    pub ipv4_mtu: u32,
}

impl EgressPort {
    /// BPF_F_INGRESS: the packet re-enters the stack as if the interface had received it.
    pub const INGRESS: u32 = 1;
}

impl TcProgram {
    /// Loads a program under an instance name, and writes the default actions and entries that the P4 program itself declares.
    /// Whatever goes wrong, nothing is left behind.
    pub fn load(object: &[u8], manifest: &Manifest, instance: &str) -> Result<Self> {
        Self::load_with(object, manifest, instance, &LoadOptions::default())
    }

    /// As [`TcProgram::load`], with other capacities than the object's.
    pub fn load_with(
        object: &[u8],
        manifest: &Manifest,
        instance: &str,
        options: &LoadOptions,
    ) -> Result<Self> {
        let instance = Instance::load(instance, object, &manifest.entry, options)?;
        let mut program = Self { is_fresh: true, ..Self::around(instance, manifest) };
        if let Err(error) = program.initialise() {
            let _ = program.instance.remove();
            return Err(error);
        }
        Ok(program)
    }

    /// Finds a loaded one. The manifest must be the one that it was loaded with.
    pub fn open(manifest: &Manifest, instance: &str) -> Result<Self> {
        Ok(Self::around(Instance::open(instance)?, manifest))
    }

    /// As [`TcProgram::open`]; `None` if it is not there, or was loaded from another object.
    pub fn open_same(manifest: &Manifest, instance: &str, object: &[u8]) -> Option<Self> {
        let found = Self::open(manifest, instance).ok()?;
        found.instance.is_of(object).then_some(found)
    }

    /// Takes another instance name, in place of what stands under it.
    pub fn replace(mut self, instance: &str) -> Result<Self> {
        self.instance = self.instance.replace(instance)?;
        Ok(self)
    }

    /// Detaches it and removes all its pins.
    pub fn remove(self) -> Result<()> {
        self.instance.remove()
    }

    /// What it offers.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The instance with the program's pins.
    pub fn instance(&self) -> &Instance {
        &self.instance
    }

    /// Attaches it; attached already is fine.
    pub fn attach(&self, interface: &str, hook: Hook) -> Result<()> {
        self.instance.attach(interface, hook)
    }

    /// Takes it off; not attached is fine.
    pub fn detach(&self, interface: &str, hook: Hook) -> Result<()> {
        self.instance.detach(interface, hook)
    }

    /// As [`TcProgram::detach`], of an interface that may be gone.
    pub fn detach_index(&self, ifindex: u32, hook: Hook) -> Result<()> {
        self.instance.detach_index(ifindex, hook)
    }

    /// Makes an interface a P4 port: packets seen there have this ingress port, and packets for the port leave by it, with these
    /// flags of `bpf_redirect`.
    pub fn set_port(&mut self, port: u32, interface: &str, flags: u32) -> Result<()> {
        let ifindex = link::index_of(interface)?;
        self.set_ingress_port(ifindex, port)?;
        self.set_egress_port(port, EgressPort { ifindex, flags })
    }

    /// Packets seen on an interface (any index, also one that does not exist, for test runs) have this ingress port.
    pub fn set_ingress_port(&mut self, ifindex: u32, port: u32) -> Result<()> {
        self.write_ingress(ifindex, [port, 0, 0, 0])
    }

    /// Makes an interface a lane past another one, by which packets reach this port otherwise: those that the kernel would
    /// route there are processed where they arrive, and the kernel routes on what the program sends. Whatever the
    /// program drops goes on untouched and uncounted, so it meets the program again there.
    ///
    /// The interface must have Ethernet headers. A program that counts before it drops counts such packets twice.
    pub fn set_lane(&mut self, ifindex: u32, port: u32, lane: Lane) -> Result<()> {
        self.write_ingress(ifindex, [port, lane.past, lane.direct.into(), lane.ipv4_mtu])
    }

    /// Packets seen on an interface are no longer the program's.
    pub fn forget_ingress(&mut self, ifindex: u32) -> Result<()> {
        self.map("strait_ports")?.delete(&ifindex.to_ne_bytes()).map(|_| ())
    }

    fn write_ingress(&mut self, ifindex: u32, value: [u32; 4]) -> Result<()> {
        let value = value.map(u32::to_ne_bytes).concat();
        self.map("strait_ports")?.set(&ifindex.to_ne_bytes(), &value)
    }

    /// Packets for a P4 port go there.
    pub fn set_egress_port(&mut self, port: u32, to: EgressPort) -> Result<()> {
        let value = [to.ifindex.to_ne_bytes(), to.flags.to_ne_bytes()].concat();
        self.map("strait_egress")?.set(&port.to_ne_bytes(), &value)
    }

    /// Runs the program on a frame, without a network.
    pub fn test_run(&self, frame: &[u8], skb: &SkBuff) -> Result<TestRun> {
        self.instance.program()?.test_run(frame, skb, 1)
    }

    /// A map by name, opened once.
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
            tuples: HashMap::new(),
            reuse: HashMap::new(),
            is_fresh: false,
        }
    }

    /// Writes what the P4 program declares and the object cannot hold.
    fn initialise(&mut self) -> Result<()> {
        for table in self.manifest.tables.clone() {
            if let Some(call) = &table.default_action {
                self.write_default(&table, call)?;
            }
            for entry in &table.initial_entries {
                self.write_new(&table, entry)?;
            }
        }
        Ok(())
    }
}
