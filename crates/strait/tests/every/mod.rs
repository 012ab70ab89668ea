//! One program on every device: the interpreter, machine code, and the kernel at both hooks.

use std::sync::Arc;

use dataplane::device::Device;
use interp::Interpreter;
use io::native::{Batch, NativeProgram, Object, has_compiler};

use super::on_tc::{self, At};

/// A device through which packets pass.
pub trait Passes {
    fn device(&mut self) -> &mut dyn Device;
    /// Sends a packet into port 0. Returns what it has become.
    fn pass(&mut self, packet: &[u8]) -> Vec<u8>;
}

impl Passes for Interpreter<'_> {
    fn device(&mut self) -> &mut dyn Device {
        self
    }

    fn pass(&mut self, packet: &[u8]) -> Vec<u8> {
        self.process(0, packet, &mut interp::Silent).sent[0].1.clone()
    }
}

struct Native(Arc<NativeProgram>, Arc<dataplane::Memory>);

impl Passes for Native {
    fn device(&mut self) -> &mut dyn Device {
        &mut self.1
    }

    fn pass(&mut self, packet: &[u8]) -> Vec<u8> {
        let (mut worker, mut batch) = (self.1.worker(), Batch::new(1, 128, 0));
        assert!(batch.push(0, packet));
        self.0.run(&mut worker, &mut batch);
        batch.packets().map(|(_, bytes)| bytes.to_vec()).next().expect("it leaves")
    }
}

struct Kernel(io::ebpf::KernelProgram, At);

impl Passes for Kernel {
    fn device(&mut self) -> &mut dyn Device {
        &mut self.0
    }

    fn pass(&mut self, packet: &[u8]) -> Vec<u8> {
        self.1.run(&self.0, packet)
    }
}

/// Calls `observe` with each device that this machine has, and compares what it returns with what the interpreter shows.
pub fn all_equal(what: &str, text: &str, observe: impl Fn(&mut dyn Passes) -> Vec<String>) {
    let (mut map, mut diags) = (p4::SourceMap::default(), p4::Diagnostics::default());
    let program = p4::compile(&mut map, "test.p4", text, &[], &p4::Embedded, &mut diags);
    let program = program.expect("it is right");
    let wanted = observe(&mut Interpreter::new(&program).expect("it loads"));
    if has_compiler() {
        let output = emit::native(&program).expect("it is within the target");
        let object = Object::make(&output.c).expect("it compiles");
        let program = Arc::new(NativeProgram::load(&object, &output.manifest, &[]).expect("it loads"));
        let memory = program.memory().clone();
        equal(&observe(&mut Native(program, memory)), &wanted, "native");
    } else {
        println!("skipped: machine code: needs a C compiler");
    }
    for at in [At::Tc, At::Xdp] {
        let Some((loaded, _removed)) = on_tc::load_at(at, what, text) else { continue };
        equal(&observe(&mut Kernel(loaded, at)), &wanted, &format!("{at:?}"));
    }
}

fn equal(shown: &[String], wanted: &[String], target: &str) {
    let different = shown.iter().zip(wanted).find(|(shown, wanted)| shown != wanted);
    assert_eq!(different, None, "{target} and the interpreter");
    assert_eq!(shown.len(), wanted.len(), "{target}");
}
