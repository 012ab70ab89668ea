//! The programs that Strait has with it: the stateless and the stateful translator, each for tc, for lanes at the XDP hook, and for this process.

use abi::Manifest;
use anyhow::Context;
use io::bpf::Instance;
use io::ebpf::KernelProgram;
use io::native::Prepared;
use nat64::Config;

/// One program.
pub struct Bundle {
    /// The object for tc; empty if Strait was built without clang.
    pub object: &'static [u8],
    /// That for lanes at the XDP hook, which uses the maps of the other one.
    pub xdp: &'static [u8],
    manifest: &'static str,
    /// The C for the native target.
    pub c: &'static str,
    native: &'static str,
    /// Objects for machines without a C compiler, for the newest processors first.
    pub prepared: [Prepared; 3],
}

/// What build.rs has made of an app.
macro_rules! out {
    ($read:ident, $app:literal, $kind:literal) => {
        $read!(concat!(env!("OUT_DIR"), "/", $app, $kind))
    };
}

macro_rules! bundle {
    ($app:literal) => {
        Bundle {
            object: out!(include_bytes, $app, ".o"),
            xdp: out!(include_bytes, $app, ".xdp.o"),
            manifest: out!(include_str, $app, ".json"),
            c: out!(include_str, $app, ".native.c"),
            native: out!(include_str, $app, ".native.json"),
            prepared: [
                Prepared { processor: "x86-64-v4", object: out!(include_bytes, $app, ".x86-64-v4.so") },
                Prepared { processor: "x86-64-v3", object: out!(include_bytes, $app, ".x86-64-v3.so") },
                Prepared { processor: "", object: out!(include_bytes, $app, ".so") },
            ],
        }
    };
}

static STATELESS: Bundle = bundle!("nat64");
static STATEFUL: Bundle = bundle!("nat64-stateful");

impl Bundle {
    /// The program for a configuration.
    pub fn of(config: &Config) -> &'static Bundle {
        match config.stateful {
            Some(_) => &STATEFUL,
            None => &STATELESS,
        }
    }

    /// Both programs.
    pub fn all() -> [&'static Bundle; 2] {
        [&STATELESS, &STATEFUL]
    }

    /// The program that an instance has, if it is one of this version.
    pub fn at(instance: &str) -> Option<&'static Bundle> {
        let instance = Instance::open(instance).ok()?;
        Self::loaded(&instance).filter(|bundle| !instance.has_xdp() || instance.is_of(bundle.xdp))
    }

    /// The program from whose object for tc an instance was loaded.
    pub fn loaded(instance: &Instance) -> Option<&'static Bundle> {
        Self::all().into_iter().find(|bundle| instance.is_of(bundle.object))
    }

    /// The manifest of the objects for the kernel.
    pub fn manifest(&self) -> anyhow::Result<Manifest> {
        serde_json::from_str(self.manifest).context("the bundled manifest is damaged")
    }

    /// That of the native target.
    pub fn native_manifest(&self) -> anyhow::Result<Manifest> {
        serde_json::from_str(self.native).context("the bundled manifest is damaged")
    }

    /// This program, if an instance has it.
    pub fn running(&self, instance: &str) -> Option<KernelProgram> {
        let found = Self::at(instance).filter(|bundle| std::ptr::eq(*bundle, self))?;
        KernelProgram::open(&found.manifest().ok()?, instance).ok()
    }
}
