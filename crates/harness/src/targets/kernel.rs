//! Adapts the kernel, at a tc hook or at the XDP hook, for packet tests. Packets go through BPF_PROG_TEST_RUN, or over interfaces.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::stf::{self, Case, Kind, Outputs, Report, Target, TargetError};
use abi::manifest::Structure;
use abi::{Cancel, Manifest, drops};
use dataplane::Device;
use dataplane::device::{Key, Query, Update};
use io::bpf::{Hook, Instance, SkBuff, XdpMode};
use io::ebpf::{EgressPort, KernelProgram};

use super::wires::{self, Door, Wires};
use super::{Compiled, Limits, Sent};

/// The interface index of the loopback, which every namespace has. Test runs use it as the ingress interface.
const LOOPBACK: u32 = 1;
/// Where a program meets packets in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// The kernel's traffic control.
    Tc,
    /// The kernel's express data path.
    Xdp,
}

impl At {
    /// Emits a program for this hook.
    pub fn emit(self, program: &ir::Verified) -> Result<emit::Output, Vec<emit::Unsupported>> {
        match self {
            At::Tc => emit::tc(program),
            At::Xdp => emit::xdp(program),
        }
    }

    /// The name of the target.
    pub fn name(self) -> &'static str {
        match self {
            At::Tc => "tc",
            At::Xdp => "xdp",
        }
    }

    /// Attaches a program to an interface for packet tests. TUN interfaces have no XDP in the driver, so the kernel's stack runs it.
    pub(super) fn attach(
        self,
        program: &KernelProgram,
        interface: &str,
        kind: wires::Kind,
    ) -> io::Result<()> {
        let hook = match (self, kind) {
            (At::Tc, _) => Hook::Ingress,
            (At::Xdp, wires::Kind::Veth) => Hook::Xdp(XdpMode::Native),
            (At::Xdp, wires::Kind::Tun) => Hook::Xdp(XdpMode::Generic),
        };
        program.attach(interface, hook)
    }

    /// Whether the kernel accepts a test run of a frame.
    fn has_test_run(self, frame: &[u8]) -> bool {
        frame.len() >= SHORTEST && (self == At::Xdp || !lacks_ip_header(frame))
    }

    /// Whether the kernel can send a frame of this length when a frame arrives. At the XDP hook, a frame that changes its length must keep as many
    /// bytes as an Ethernet header has.
    pub fn can_send(self, arrived: &[u8], length: usize) -> bool {
        match self {
            At::Tc if self.has_test_run(arrived) => length >= SHORTEST,
            At::Tc => length > 0,
            At::Xdp => length >= SHORTEST || length == arrived.len(),
        }
    }
}

/// The smallest frame of Ethernet: neither a test run nor an Ethernet interface accepts a frame without a complete Ethernet header.
const SHORTEST: usize = 14;
/// The offset of the EtherType in a frame.
const ETHER_TYPE: std::ops::Range<usize> = 12..14;
/// The number of ports that a case may use.
const PORTS: u32 = abi::DROP_PORT;

/// A program in the kernel.
pub struct KernelTarget {
    program: KernelProgram,
    at: At,
    /// The ingress port that is configured for test runs.
    port: Option<u32>,
    carrier: Carrier,
    /// The interfaces of the carrier. They are made when the ports of the case are known.
    wires: Option<Wires>,
    /// The way of frames that test runs do not accept.
    door: Option<Door>,
}

/// The way in which packets reach the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carrier {
    TestRun,
    Wires(wires::Kind),
}

impl Carrier {
    const TUN: Carrier = Carrier::Wires(wires::Kind::Tun);

    /// The carrier for the packets of a case. All of them go the same way.
    fn of(at: At, case: &Case, veth: bool, copies: bool) -> Carrier {
        if case.packets().any(|(_, frame)| frame.len() < SHORTEST) {
            Carrier::TUN
        } else if veth || copies || case.packets().any(|(_, frame)| !at.has_test_run(frame)) {
            Carrier::Wires(wires::Kind::Veth)
        } else {
            Carrier::TestRun
        }
    }
}

/// Runs a case by test runs of the program. It goes over interfaces in a network namespace of its own if the kernel cannot test-run one of
/// its frames, or if `veth` is set.
pub fn run_case(object: &Object, case: &Case, veth: bool) -> anyhow::Result<Report> {
    // Most cases of a program fill its tables alike. What is loaded for one of them serves the next, which saves the verifier's work.
    let setup = object.shareable(case);
    // A test run sees the last fragment only.
    let fragments = object.manifest.kernel.as_ref().is_some_and(|kernel| kernel.fragments);
    let several = makes_copies(&object.manifest) || (fragments && case.expected() > case.packets().count());
    let carrier = Carrier::of(object.at, case, veth, several);
    if let (Some(setup), Carrier::TestRun, At::Tc | At::Xdp) = (setup, carrier, object.at) {
        let (report, refused) = run_shared(object, case, setup)?;
        return match !report.passed && refused {
            true => Ok(run_over(Carrier::TUN, object, case)?.0),
            false => Ok(report),
        };
    }
    let (report, refused) = run_over(carrier, object, case)?;
    if report.passed || !refused || carrier == Carrier::TUN {
        return Ok(report);
    }
    // The kernel does not shorten a frame to fewer bytes than its link-layer header has. TUN interfaces have none.
    Ok(run_over(Carrier::TUN, object, case)?.0)
}

/// Runs a case over a carrier. Returns also whether the kernel refused to make a packet longer or shorter.
fn run_over(carrier: Carrier, object: &Object, case: &Case) -> anyhow::Result<(Report, bool)> {
    let run = || {
        let mut target = KernelTarget { carrier, ..KernelTarget::load(object)? };
        let result = target.play(case);
        target.remove()?;
        Ok(result)
    };
    match carrier {
        Carrier::TestRun => run(),
        // The interfaces are removed with the namespace.
        Carrier::Wires(_) => io::netns::run_in_fresh(run)?,
    }
}

/// Runs a case by test runs on a program that holds its entries already, or is loaded for it and kept. `setup` is the number of statements that
/// fill the tables.
fn run_shared(object: &Object, case: &Case, setup: usize) -> anyhow::Result<(Report, bool)> {
    let mut kept = object.kept.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let (fill, rest) = case.statements.split_at(setup);
    let fill: Vec<_> = fill.iter().map(|statement| statement.kind.clone()).collect();
    if let Some(found) = kept.iter_mut().find(|kept| kept.filled_by == fill) {
        found.target.clear_counts()?;
        let rest = Case { name: case.name.clone(), statements: rest.to_vec() };
        return Ok(found.target.play(&rest));
    }
    let number = object.loaded.fetch_add(1, Ordering::Relaxed);
    let name = format!("{}-{number}-{}", object.instance_name(), std::process::id());
    let mut target = KernelTarget::load_named(object, &name)?;
    let result = target.play(case);
    kept.push(Kept { filled_by: fill, target });
    if kept.len() > MOST_KEPT {
        kept.remove(0).target.remove()?;
    }
    Ok(result)
}

/// The flag for a program whose clock is set by its test ([`KernelProgram::set_clock`]).
const TEST_CLOCK: &str = "-DSTRAIT_TEST_CLOCK";

/// Compiles emitted C to an eBPF object, with more flags.
pub fn compile(c: &str, flags: &[&str], cancel: &Cancel) -> anyhow::Result<Vec<u8>> {
    let arguments =
        ["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wno-parentheses-equality", "-Wno-unused-label", "-c"];
    let arguments: Vec<&OsStr> = arguments.iter().chain(flags).map(OsStr::new).collect();
    io::compiler::compile(OsStr::new("clang"), &arguments, c, cancel).map_err(|why| match why {
        io::Error::Compiler(_) => {
            let hint = "clang is needed for a program that is not bundled: apt-get install clang";
            anyhow::Error::from(why).context(hint)
        }
        why => why.into(),
    })
}

/// The number of loaded programs that are kept for further cases.
const MOST_KEPT: usize = 4;

/// A loaded program whose tables these statements have filled.
struct Kept {
    filled_by: Vec<Kind>,
    target: KernelTarget,
}

/// A program that was compiled for a hook of the kernel.
pub struct Object {
    /// The hook that the object was emitted for.
    pub at: At,
    name: String,
    elf: Vec<u8>,
    manifest: Manifest,
    kept: Mutex<Vec<Kept>>,
    /// The number of programs that were loaded to be kept.
    loaded: AtomicU32,
}

impl Drop for Object {
    fn drop(&mut self) {
        for kept in self.kept.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner()).drain(..) {
            let _ = kept.target.remove();
        }
    }
}

impl Object {
    /// What the program has.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The number of statements with which a case fills the tables, if packets change nothing but counts and nothing is filled later: then the
    /// program can serve several cases that begin alike.
    fn shareable(&self, case: &Case) -> Option<usize> {
        let m = &self.manifest;
        let learns =
            m.tables.iter().any(|t| t.layout.as_ref().is_some_and(|l| l.structure == Structure::Flow));
        let counts = m.tables.iter().any(|t| t.direct_counter.is_some() || t.notifies_idle || t.ages);
        let keeps =
            !m.registers.is_empty() || !m.meters.is_empty() || !m.digests.is_empty() || learns || counts;
        let setup = case.statements.iter().take_while(|s| s.kind.fills()).count();
        let plain = |kind: &Kind| matches!(kind, Kind::Add { id: None, .. } | Kind::SetDefault { .. });
        let later = |kind: &Kind| {
            matches!(kind, Kind::Packet { .. } | Kind::Expect { .. } | Kind::NoPacket | Kind::Wait)
                || matches!(kind, Kind::CheckCounter { .. })
        };
        let (fill, rest) = case.statements.split_at(setup);
        let good = fill.iter().all(|s| plain(&s.kind)) && rest.iter().all(|s| later(&s.kind));
        (!keeps && good).then_some(setup)
    }

    /// What the name of an instance begins with: the hook and the program. It has no dots, though a program may be called `router.p4_16`.
    fn instance_name(&self) -> String {
        format!("test-{}-{}", self.at.name(), abi::text::component(&self.name, 32))
    }

    /// Compiles a program for packet tests, which set its clock.
    pub fn make(at: At, program: &ir::Verified) -> anyhow::Result<Object> {
        Object::compile(at, program, &[TEST_CLOCK], &Cancel::default())
    }

    /// Compiles a program whose clock is the kernel's.
    pub fn running(at: At, program: &ir::Verified, cancel: &Cancel) -> anyhow::Result<Object> {
        Object::compile(at, program, &[], cancel)
    }

    /// Loads the program without ports. `name` ends in the number of this process.
    pub fn load_for_run(&self, name: &str) -> anyhow::Result<KernelProgram> {
        sweep()?;
        let mut program = KernelProgram::load(&self.elf, &self.manifest, name)?;
        for port in 0..PORTS {
            program.set_egress_port(port, EgressPort { ifindex: 0, flags: 0 })?;
        }
        Ok(program)
    }

    fn compile(at: At, program: &ir::Verified, flags: &[&str], cancel: &Cancel) -> anyhow::Result<Object> {
        let output = at.emit(program).map_err(|limits| Limits::of(program, &limits))?;
        let elf = compile(&output.c, flags, cancel)?;
        Ok(Object {
            at,
            name: String::from(&program.name),
            elf,
            manifest: output.manifest,
            kept: Mutex::default(),
            loaded: AtomicU32::new(0),
        })
    }
}

impl KernelTarget {
    /// Loads a program with all ports attached.
    pub fn load(object: &Object) -> anyhow::Result<KernelTarget> {
        Self::load_named(object, &format!("{}-{}", object.instance_name(), std::process::id()))
    }

    /// Like [`KernelTarget::load`], with an instance name that the caller chooses.
    pub fn load_named(object: &Object, name: &str) -> anyhow::Result<KernelTarget> {
        sweep()?;
        let mut program = KernelProgram::load(&object.elf, &object.manifest, name)?;
        for port in 0..PORTS {
            program.set_egress_port(port, EgressPort { ifindex: LOOPBACK, flags: 0 })?;
        }
        program.set_clock(0)?;
        Ok(KernelTarget {
            program,
            at: object.at,
            port: None,
            carrier: Carrier::TestRun,
            wires: None,
            door: None,
        })
    }

    /// Creates a TUN interface for frames that test runs do not accept. It is in the network namespace of the calling thread, which nothing
    /// else should use. A machine without TUN interfaces keeps refusing such frames.
    pub fn open_door(mut self) -> anyhow::Result<KernelTarget> {
        if io::tun::available().is_ok() {
            match Door::make(&mut self.program, PORTS, self.at) {
                Ok(door) => self.door = Some(door),
                Err(error) => {
                    self.remove()?;
                    return Err(error.into());
                }
            }
        }
        Ok(self)
    }

    /// The name of a drop reason.
    fn reason(&self, noted: &Noted) -> Option<&str> {
        self.program.manifest().drops.get(noted.reason as usize).map(|d| d.name.as_str())
    }

    /// The result of a packet that the program left as `data`.
    fn sent(&self, noted: &Noted, data: Option<Vec<u8>>) -> Sent {
        match noted.verdict {
            1 => Sent { packets: data.map(|data| (noted.port, data)).into_iter().collect(), reason: None },
            2 => Sent { packets: Vec::new(), reason: self.reason(noted).map(str::to_string) },
            _ => Sent { packets: Vec::new(), reason: None },
        }
    }

    /// Runs a case. Returns also whether the kernel refused to make a packet longer or shorter.
    fn play(&mut self, case: &Case) -> (Report, bool) {
        let mut report = stf::run(case, self);
        let mut dropped = |name| {
            let reason = self.program.manifest().drop_id(name);
            let count = reason.and_then(|reason| self.program.count(&Key::Drop(reason)).ok());
            count.is_some_and(|count| count.packets > 0)
        };
        let refused = dropped(drops::BAD_RESIZE);
        if matches!(self.at, At::Xdp) && dropped(drops::CANNOT_FRAGMENT) {
            report.lacks("fragments, because XDP sends a frame once");
        }
        (report, refused)
    }

    /// Sets all counters and the counts of all drop reasons to zero.
    fn clear_counts(&mut self) -> anyhow::Result<()> {
        let cells = self.program.read(&Query::Counters(None))?;
        let unset: Vec<_> = cells.iter().map(|cell| Update::Unset(cell.key())).collect();
        self.program.write(&unset).map_err(|refused| refused.error)?;
        self.program.clear_drops()?;
        Ok(self.program.clear_results()?)
    }

    /// Removes the program from the kernel.
    pub fn remove(self) -> anyhow::Result<()> {
        Ok(self.program.remove()?)
    }
}

/// Whether a frame ends before the end of the IP header that its EtherType announces. Newer kernels refuse to test-run such a frame, but
/// transmit it over interfaces.
fn lacks_ip_header(frame: &[u8]) -> bool {
    let header = match frame.get(ETHER_TYPE) {
        Some([0x08, 0x00]) => 20,
        Some([0x86, 0xdd]) => 40,
        _ => return false,
    };
    frame.len() < SHORTEST + header
}

/// Whether packets of a program may leave several times. A test run does not see the clones, and the kernel sends them.
pub fn makes_copies(manifest: &Manifest) -> bool {
    manifest.kernel.as_ref().is_some_and(|kernel| kernel.copies.is_some())
}

/// The verdict that the program writes at the start of its scratch area.
#[derive(Default)]
struct Noted {
    verdict: u32,
    port: u32,
    reason: u32,
    tag: u32,
}

impl Noted {
    /// The verdict for the last packet.
    fn take(program: &mut KernelProgram) -> anyhow::Result<Noted> {
        let noted = Noted::all(program)?.into_iter().find(|n| n.verdict != 0).unwrap_or_default();
        // The next packet may run on another CPU, so the verdicts of all CPUs are cleared.
        program.clear_results()?;
        Ok(noted)
    }

    /// Like [`Noted::take`], but waits until the program has processed a packet that was sent, and all its copies.
    fn wait(program: &mut KernelProgram) -> anyhow::Result<Noted> {
        let begun = Instant::now();
        let copies = makes_copies(program.manifest());
        let is_last = |n: &Noted| if copies { n.verdict == 3 } else { n.verdict != 0 };
        loop {
            if Noted::all(program)?.iter().any(is_last) || begun.elapsed() > wires::ARRIVES {
                return Noted::take(program);
            }
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// The verdicts of all CPUs.
    fn all(program: &mut KernelProgram) -> anyhow::Result<Vec<Noted>> {
        let noted = |[verdict, port, reason, tag]: [u32; 4]| Noted { verdict, port, reason, tag };
        Ok(program.results()?.into_iter().map(noted).collect())
    }
}

/// The packet with the VLAN tag that the kernel would write when it sends the packet.
fn with_tag(mut packet: Vec<u8>, tag: u32) -> Vec<u8> {
    const MACS: usize = 12;
    if tag != 0 && packet.len() >= MACS {
        packet.splice(MACS..MACS, tag.to_be_bytes());
    }
    packet
}

/// Removes instances that killed processes left behind. The names of instances contain the id of the process.
pub fn sweep() -> anyhow::Result<()> {
    for name in Instance::all()? {
        if Instance::process_of(&name).is_some_and(|id| !Path::new(&format!("/proc/{id}")).exists()) {
            Instance::remove_by_name(&name)?;
        }
    }
    Ok(())
}

fn text(error: impl std::fmt::Display) -> TargetError {
    TargetError::failed(format!("{error:#}"))
}

impl Target for KernelTarget {
    fn device(&mut self) -> &mut dyn Device {
        &mut self.program
    }

    fn set_clock(&mut self, micros: u64) -> Result<(), TargetError> {
        self.program.set_clock(micros).map_err(text)
    }

    fn attach(&mut self, ports: &[u32]) -> Result<(), TargetError> {
        if let Carrier::Wires(kind) = self.carrier {
            if let (wires::Kind::Tun, Err(error)) = (kind, io::tun::available()) {
                let what = format!(
                    "frames of fewer than {SHORTEST} bytes in the kernel without TUN interfaces: {error}"
                );
                return Err(TargetError::unsupported(what));
            }
            for port in 0..PORTS {
                self.program.set_egress_port(port, EgressPort { ifindex: 0, flags: 0 }).map_err(text)?;
            }
            self.wires = Some(Wires::make(kind, ports, &mut self.program, self.at).map_err(text)?);
        }
        Ok(())
    }

    fn send(&mut self, port: u32, packet: &[u8]) -> Result<Outputs, TargetError> {
        if packet.is_empty() {
            return Err(TargetError::unsupported("a frame without any byte in the kernel"));
        }
        let Some(wires) = &self.wires else {
            return match self.process(port, packet) {
                Ok(sent) => Ok(sent.packets),
                Err(_) if lacks_ip_header(packet) => {
                    Err(TargetError::unsupported("test runs of frames that end in their IP header"))
                }
                Err(error) => Err(text(error)),
            };
        };
        wires.send(port, packet).map_err(text)?;
        // The program writes its verdict, so it is known when the packet has been processed.
        let noted = Noted::wait(&mut self.program).map_err(text)?;
        match noted.verdict {
            1 => wires.receive(noted.port).map_err(text),
            3 => wires.settle().map_err(text),
            2 if self.carrier == Carrier::TUN && self.reason(&noted) == Some(drops::BAD_RESIZE) => {
                Err(TargetError::unsupported(
                    "a frame that the kernel cannot make as long or short as the program asks",
                ))
            }
            _ => Ok(Outputs::new()),
        }
    }

    fn drain(&mut self) -> Result<Outputs, TargetError> {
        match &self.wires {
            Some(wires) => wires.rest().map_err(text),
            None => Ok(Outputs::new()),
        }
    }
}

impl Compiled for KernelTarget {
    fn process(&mut self, port: u32, packet: &[u8]) -> anyhow::Result<Sent> {
        anyhow::ensure!(!packet.is_empty(), "the kernel has no empty packets");
        if let (false, Some(door)) = (self.at.has_test_run(packet), &self.door) {
            door.send(&mut self.program, port, packet)?;
            let noted = Noted::take(&mut self.program)?;
            let data = if noted.verdict == 1 { door.receive()? } else { None };
            return Ok(self.sent(&noted, data));
        }
        if self.port != Some(port) {
            self.program.set_ingress_port(LOOPBACK, port)?;
            self.port = Some(port);
        }
        let run = match self.at {
            At::Tc => {
                let skb = SkBuff { ifindex: LOOPBACK, ..SkBuff::default() };
                self.program.test_run(packet, &skb)?
            }
            At::Xdp => self.program.test_run_xdp(packet)?,
        };
        let noted = Noted::take(&mut self.program)?;
        Ok(self.sent(&noted, Some(with_tag(run.data, noted.tag))))
    }

    fn can_send(&self, arrived: &[u8], length: usize) -> bool {
        self.at.can_send(arrived, length)
    }

    fn end(self: Box<Self>) -> anyhow::Result<()> {
        self.remove()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_carrier_of_a_case() {
        let of = |packet: &str, veth| {
            Carrier::of(At::Tc, &stf::parse("case", packet).expect("it is right"), veth, false)
        };
        let veth = Carrier::Wires(wires::Kind::Veth);
        let whole = "packet 0 020000000002 020000000001 88b5";
        assert_eq!(of(whole, false), Carrier::TestRun);
        assert_eq!(of(whole, true), veth);
        assert_eq!(of(&whole.replace("88b5", "0800 45"), false), veth);
        assert_eq!(of(&format!("{whole}\npacket 1 00"), false), Carrier::TUN);
        assert_eq!(of("packet 0 020000000002 020000000001 88", true), Carrier::TUN);
    }

    #[test]
    fn frames_that_end_in_their_ip_header() {
        let frame = |kind: [u8; 2], behind: usize| [&[0; 12][..], &kind, &vec![0; behind]].concat();
        assert!(lacks_ip_header(&frame([0x08, 0x00], 19)));
        assert!(!lacks_ip_header(&frame([0x08, 0x00], 20)));
        assert!(lacks_ip_header(&frame([0x86, 0xdd], 39)));
        assert!(!lacks_ip_header(&frame([0x86, 0xdd], 40)));
        assert!(!lacks_ip_header(&frame([0x88, 0xb5], 0)));
    }
}
