//! P4 programs of tests in the kernel, at a tc hook or at the XDP hook.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::process::Command;

use abi::Manifest;
use io::bpf::{Instance, SkBuff};
use io::ebpf::{EgressPort, KernelProgram};
use io::workdir::WorkDir;

/// The name of a program in the kernel, which is removed at the end.
pub struct Kernel(pub String);

impl Drop for Kernel {
    fn drop(&mut self) {
        let _ = Instance::remove_by_name(&self.0);
    }
}

/// Where packets meet the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// A hook of the kernel's traffic control.
    Tc,
    /// The same, with a program that may have lanes.
    Lane,
    /// The kernel's express data path.
    Xdp,
    /// The same, with a program that may have lanes. It is loaded beside that of `Lane`.
    XdpLane,
}

impl At {
    /// Sends a packet of interface 1 through a program, in a test run. Returns what it has become.
    pub fn run(self, program: &KernelProgram, frame: &[u8]) -> Vec<u8> {
        let run = match self {
            At::Tc | At::Lane => program.test_run(frame, &SkBuff { ifindex: 1, ..SkBuff::default() }),
            At::Xdp | At::XdpLane => program.test_run_xdp(frame),
        };
        run.expect("it runs").data
    }
}

/// Like [`load_at`], at a tc hook.
pub fn load(what: &str, text: &str) -> Option<(KernelProgram, Kernel)> {
    load_at(At::Tc, what, text)
}

/// Compiles a program and loads it. Packets that arrive at interface 1 have port 0, and those for port 1 leave through it. Without root or clang the
/// test says that it is skipped.
pub fn load_at(at: At, what: &str, text: &str) -> Option<(KernelProgram, Kernel)> {
    if !std::fs::read_to_string("/proc/self/status").is_ok_and(|s| s.contains("\nUid:\t0\t0")) {
        println!("skipped: {what} on {at:?}: needs root");
        return None;
    }
    let (elf, manifest) = object(at, what, text)?;
    let kernel = Kernel(format!("test-{what}-{}", std::process::id()));
    let mut loaded = KernelProgram::load(&elf, &manifest, &kernel.0).expect("it loads");
    loaded.set_ingress_port(1, 0).expect("a port");
    loaded.set_egress_port(1, EgressPort { ifindex: 1, flags: 0 }).expect("a port");
    Some((loaded, kernel))
}

/// Compiles a program. Without clang the test says that it is skipped.
pub fn object(at: At, what: &str, text: &str) -> Option<(Vec<u8>, Manifest)> {
    let (mut map, mut diags) = (p4::SourceMap::default(), p4::Diagnostics::default());
    let program = p4::compile(&mut map, "test.p4", text, &[], &p4::Embedded, &mut diags);
    let program = program.expect("it is right");
    let output = match at {
        At::Tc => emit::tc(&program),
        At::Lane => emit::tc_with(&program, emit::ebpf::Options { lanes: true }),
        At::Xdp => emit::xdp(&program),
        At::XdpLane => emit::xdp_with(&program, emit::ebpf::Options { lanes: true }),
    };
    let output = output.expect("it is within the target");
    let dir = WorkDir::new().expect("a directory");
    let source = dir.write("test.c", output.c.as_bytes()).expect("writes");
    let arguments = ["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-c", "-Wno-unused-label"];
    let object = dir.path().join("test.o");
    let Ok(run) = Command::new("clang").args(arguments).arg(&source).arg("-o").arg(object).status() else {
        println!("skipped: {what} on {at:?}: needs clang");
        return None;
    };
    assert!(run.success(), "clang does not take the program");
    Some((dir.read("test.o").expect("clang wrote it"), output.manifest))
}
