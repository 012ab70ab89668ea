//! What `strait run` asks of a target: to load a program, to give it the packets, and to say what happens.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use abi::{Cancel, Manifest};
use dataplane::device::Event;
use dataplane::port::PortCounts;
use dataplane::queue::QueueCounts;
use io::watch::{Wanted, Watcher};
use p4runtime::server::{CompileError, Compiled, Compiler, Target};

use super::budget::Budget;
use crate::cli::{Preprocess, RunTarget};
use crate::frontend::{self, Texts};
use abi::text::chain;
use harness::targets::kernel::{self, At};
use harness::targets::native;

/// A target with its ports.
pub trait Machine: Target {
    /// What the program has told since the last call. Entries whose time has passed are removed.
    fn turn(&mut self) -> anyhow::Result<Vec<Event>>;
    /// The time in microseconds, on the clock that packets see.
    fn now(&self) -> u64;
    /// Whether no packet will come any more.
    fn ended(&self) -> bool {
        false
    }
    /// What the ports and the program have counted, and what was lost.
    fn totals(&mut self) -> anyhow::Result<Totals>;
    /// The texts of the running program.
    fn texts(&self) -> Option<Arc<Texts>>;
    /// Begins to copy packets for a watcher.
    fn watch(&mut self, wanted: &Wanted) -> anyhow::Result<Packets>;
    /// Ends the program and removes what it has made. A failure that ended it is the error.
    fn finish(&mut self) -> anyhow::Result<()>;
}

/// Where the packets of a run can be seen.
pub enum Packets {
    /// Workers of this process copy each packet together with what becomes of it.
    Copies(Watcher),
    /// The kernel moves the packets between the interfaces of these ports.
    Interfaces(Vec<(u32, String)>),
}

/// What a run has counted.
#[derive(Default)]
pub struct Totals {
    /// The counts of each port, if the target counts them.
    pub ports: Vec<(u32, PortCounts)>,
    /// What the queues of the ports with a rate have counted.
    pub queues: BTreeMap<u32, QueueCounts>,
    /// Digests and messages that found no room.
    pub messages_lost: u64,
    /// Packets to the controller that found no room, if it has a port.
    pub packets_lost: Option<u64>,
}

/// A program that a machine loads.
pub struct Object {
    pub code: Code,
    pub texts: Arc<Texts>,
}

/// The form in which a machine loads a program.
pub enum Code {
    Interp(Arc<ir::Verified>),
    Native(native::Object),
    Kernel(kernel::Object),
}

/// What programs are compiled for.
#[derive(Clone, Copy)]
pub struct Form {
    /// Who runs them.
    pub target: RunTarget,
    /// Whether ports of the native target have queues.
    pub queues: bool,
}

impl Object {
    /// Compiles a program.
    pub fn make(form: Form, program: ir::Verified, texts: Texts, cancel: &Cancel) -> anyhow::Result<Object> {
        let code = match form.target {
            RunTarget::Native if form.queues => Code::Native(native::Object::with_queues(&program, cancel)?),
            RunTarget::Interp => Code::Interp(Arc::new(program)),
            RunTarget::Native => Code::Native(native::Object::running(&program, cancel)?),
            RunTarget::Tc => Code::Kernel(kernel::Object::running(At::Tc, &program, cancel)?),
            RunTarget::Xdp => Code::Kernel(kernel::Object::running(At::Xdp, &program, cancel)?),
        };
        Ok(Object { code, texts: Arc::new(texts) })
    }

    /// What the program will have when it is loaded.
    fn manifest(&self) -> Manifest {
        match &self.code {
            Code::Interp(program) => interp::manifest::of(program),
            Code::Native(object) => object.manifest().clone(),
            Code::Kernel(object) => object.manifest().clone(),
        }
    }
}

/// Compiles the program of a file, with its P4Info if a controller is to see it.
pub fn compile(form: Form, file: &Path, options: &Preprocess, describe: bool) -> anyhow::Result<Compiled> {
    let (program, info, texts) = frontend::running(file, options, describe)?;
    let object = Object::make(form, program, texts, &Cancel::default())?;
    Ok(Compiled { info, manifest: object.manifest(), object: Box::new(object) })
}

/// A compiler of what controllers push.
pub fn compiler(form: Form, budget: Budget) -> Compiler {
    Arc::new(move |config: &[u8], cancel: &Cancel| {
        let awaited = || match cancel.is_cancelled() {
            true => Err(CompileError::Refused("the push was cancelled".to_string())),
            false => Ok(()),
        };
        awaited()?;
        let source = source(config)?;
        let (program, info, texts) = frontend::pushed(&source)?;
        budget.ask(&program, form.target)?;
        awaited()?;
        let object = Object::make(form, program, texts, cancel).map_err(|why| to_client(&why))?;
        Ok(Compiled { info, manifest: object.manifest(), object: Box::new(object) })
    })
}

/// What the client that pushed a program hears. The text of a C compiler is not for it: it may quote files of this machine, and goes to the log.
fn to_client(why: &anyhow::Error) -> String {
    match why.downcast_ref() {
        Some(io::Error::Refused(refusal)) => {
            eprintln!("a program was pushed that cannot be compiled: {refusal}");
            refusal.brief()
        }
        _ => chain(&**why),
    }
}

/// `p4.tmp.P4DeviceConfig`, in which controllers for BMv2 wrap what they push.
#[derive(Clone, PartialEq, prost::Message)]
struct DeviceConfig {
    #[prost(bool, tag = "1")]
    reassign: bool,
    #[prost(bytes = "vec", tag = "3")]
    device_data: Vec<u8>,
}

/// The P4 source in `p4_device_config`: the text itself, or wrapped as for BMv2.
fn source(config: &[u8]) -> Result<String, String> {
    // The first byte of the wrapper is the tag of `reassign`, which no text begins with.
    let wrapped = match config.first() {
        Some(0x08) => {
            <DeviceConfig as prost::Message>::decode(config).ok().map(|wrapped| wrapped.device_data)
        }
        _ => None,
    };
    let bytes = wrapped.as_deref().unwrap_or(config);
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    match first {
        None => Err("`p4_device_config` is empty: it is the P4 source of the program".to_string()),
        Some(b'{') => {
            Err("`p4_device_config` is JSON, as p4c writes it for BMv2: push the P4 source instead"
                .to_string())
        }
        Some(_) if bytes.contains(&0) => {
            Err("`p4_device_config` is no text: it is the P4 source of the program".to_string())
        }
        Some(_) => {
            String::from_utf8(bytes.to_vec()).map_err(|_| "`p4_device_config` is no UTF-8".to_string())
        }
    }
}

/// An object that a machine was given to load.
pub fn object(any: Box<dyn std::any::Any + Send>) -> Result<Object, String> {
    any.downcast::<Object>()
        .map(|object| *object)
        .map_err(|_| "the program is for another target".to_string())
}

/// The packets dropped for each reason, with the reason's name.
pub fn named_drops(manifest: &Manifest, counts: Vec<dataplane::Count>) -> Vec<(String, dataplane::Count)> {
    manifest.drops.iter().map(|d| d.name.clone()).zip(counts).collect()
}
