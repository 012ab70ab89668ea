//! The kernel's traffic control as a target of packet tests: packets run through BPF_PROG_TEST_RUN.

use std::path::{Path, PathBuf};
use std::process::Command;

use abi::{ActionCall, Entry, Manifest};
use anyhow::{Context, bail};
use control::stf::{Outputs, Target, TargetError};
use dataplane::Count;
use io::bpf::SkBuff;
use io::tc::{EgressPort, TcProgram};

/// The loopback's index, which every namespace has: test runs come in there.
const LOOPBACK: u32 = 1;
/// Ports that a case may name.
const PORTS: u32 = abi::DROP_PORT;

/// A program in the kernel.
pub struct TcTarget {
    program: TcProgram,
    /// The ingress port that is set.
    port: Option<u32>,
}

/// What became of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Port and bytes.
    pub packet: Option<(u32, Vec<u8>)>,
    /// Name of the drop reason.
    pub reason: Option<String>,
}

/// Compiles emitted C into an eBPF object.
pub fn compile(c: &str, dir: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let (source, object) = (dir.join(format!("{name}.c")), dir.join(format!("{name}.o")));
    std::fs::write(&source, c).with_context(|| format!("cannot write {}", source.display()))?;
    let arguments =
        ["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wno-parentheses-equality", "-Wno-unused-label", "-c"];
    let run = Command::new("clang").args(arguments).arg(&source).arg("-o").arg(&object).output();
    let run = run.context("clang is needed for a program that is not bundled: apt-get install clang")?;
    if !run.status.success() {
        bail!("clang does not take the C of {name}:\n{}", String::from_utf8_lossy(&run.stderr));
    }
    Ok(object)
}

/// A program compiled for tc, to be loaded as often as there are cases.
pub struct Object {
    name: String,
    elf: Vec<u8>,
    manifest: Manifest,
}

impl Object {
    /// Emits and compiles a program.
    pub fn make(program: &ir::Verified) -> anyhow::Result<Object> {
        let output = emit::tc(program).map_err(|limits| anyhow::anyhow!(limits_text(program, &limits)))?;
        let dir = std::env::temp_dir().join(format!("strait-{}-{}", program.name, std::process::id()));
        std::fs::create_dir_all(&dir)?;
        let elf = compile(&output.c, &dir, &program.name).and_then(|o| Ok(std::fs::read(o)?));
        let _ = std::fs::remove_dir_all(&dir);
        Ok(Object { name: program.name.clone(), elf: elf?, manifest: output.manifest })
    }
}

impl TcTarget {
    /// Loads a program, every port of which is attached.
    pub fn load(object: &Object) -> anyhow::Result<TcTarget> {
        Self::load_named(object, &format!("test-{}-{}", object.name, std::process::id()))
    }

    /// As [`TcTarget::load`], under a name of the caller's.
    pub fn load_named(object: &Object, name: &str) -> anyhow::Result<TcTarget> {
        let mut program = TcProgram::load(&object.elf, &object.manifest, name)?;
        for port in 0..PORTS {
            program.set_egress_port(port, EgressPort { ifindex: LOOPBACK, flags: 0 })?;
        }
        Ok(TcTarget { program, port: None })
    }

    /// The program itself.
    pub fn program(&mut self) -> &mut TcProgram {
        &mut self.program
    }

    /// Removes it from the kernel.
    pub fn remove(self) -> anyhow::Result<()> {
        Ok(self.program.remove()?)
    }

    /// Runs one packet.
    pub fn process(&mut self, port: u32, packet: &[u8]) -> anyhow::Result<Sent> {
        if self.port != Some(port) {
            self.program.set_ingress_port(LOOPBACK, port)?;
            self.port = Some(port);
        }
        let skb = SkBuff { ifindex: LOOPBACK, ..SkBuff::default() };
        let run = self.program.test_run(packet, &skb)?;
        let (verdict, port, reason) = self.verdict()?;
        let reason = self.program.manifest().drops.get(reason as usize).map(|d| d.name.clone());
        Ok(match verdict {
            1 => Sent { packet: Some((port, run.data)), reason: None },
            2 => Sent { packet: None, reason },
            _ => Sent { packet: None, reason: None },
        })
    }

    /// What became of the last packet, as the program noted: verdict, port, reason.
    fn verdict(&mut self) -> anyhow::Result<(u32, u32, u32)> {
        let map = self.program.map("strait_packet")?;
        let all = map.lookup_per_cpu(&0u32.to_ne_bytes())?.unwrap_or_default();
        let word = |bytes: &[u8], at: usize| {
            bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_ne_bytes)
        };
        let noted = all.iter().map(|v| (word(v, 0), word(v, 4), word(v, 8))).find(|n| n.0 != 0);
        // The next packet may run on another CPU: nobody's note may be taken for its.
        let value = vec![0; map.value_size()];
        map.set(&0u32.to_ne_bytes(), &value)?;
        Ok(noted.unwrap_or((0, 0, 0)))
    }
}

/// Limits with their places, for people.
pub fn limits_text(program: &ir::Verified, limits: &[emit::Unsupported]) -> String {
    let one = |l: &emit::Unsupported| {
        format!("{}: {l}", program.place(l.loc).unwrap_or_else(|| program.name.clone()))
    };
    limits.iter().map(one).collect::<Vec<_>>().join("\n")
}

fn text(error: impl std::fmt::Display) -> TargetError {
    TargetError::failed(format!("{error:#}"))
}

fn missing(what: &str) -> TargetError {
    TargetError::failed(format!("there is no such {what}"))
}

impl Target for TcTarget {
    fn manifest(&self) -> &Manifest {
        self.program.manifest()
    }

    fn insert(&mut self, table: &str, entry: &Entry) -> Result<(), TargetError> {
        self.program.insert(table, entry).map_err(text)
    }

    fn set_default(&mut self, table: &str, call: &ActionCall) -> Result<(), TargetError> {
        self.program.set_default(table, call).map_err(text)
    }

    fn clear(&mut self) -> Result<(), TargetError> {
        let names: Vec<_> =
            self.manifest().tables.iter().filter(|t| !t.const_entries).map(|t| t.name.clone()).collect();
        names.iter().try_for_each(|n| self.program.clear(n).map_err(text))
    }

    fn send(&mut self, port: u32, packet: &[u8]) -> Result<Outputs, TargetError> {
        Ok(self.process(port, packet).map_err(text)?.packet.into_iter().collect())
    }

    fn counter(&mut self, name: &str, index: u64) -> Result<Option<Count>, TargetError> {
        let count = self.program.counter(name, index as u32).map_err(text)?;
        Ok(Some(Count { packets: count.packets, bytes: count.bytes }))
    }

    fn direct_counter(&mut self, table: &str, entry: &Entry) -> Result<Count, TargetError> {
        let listed = self.program.list(table).map_err(text)?;
        let found =
            listed.iter().find(|l| l.entry.matches == entry.matches && l.entry.priority == entry.priority);
        let count = found.and_then(|l| l.count).ok_or_else(|| missing("entry"))?;
        Ok(Count { packets: count.packets, bytes: count.bytes })
    }

    fn drops(&mut self, reason: &str) -> Result<Count, TargetError> {
        let drops = self.program.drops().map_err(text)?;
        let found = drops.iter().find(|d| d.name == reason).ok_or_else(|| missing("drop reason"))?;
        Ok(Count { packets: found.count.packets, bytes: found.count.bytes })
    }
}
