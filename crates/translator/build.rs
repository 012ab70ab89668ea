//! Compiles the bundled apps, so that Strait needs no clang where it runs.
//!
//! Strait's own crates compile the P4 to C, and clang compiles the C to an eBPF object. Without clang the object is empty, and
//! `strait nat64 up` reports this.

use std::path::{Path, PathBuf};
use std::process::Command;

const APPS: &str = "../../apps";

/// What an app includes: its own files, those of the stateless translator, and Strait's. Files are known by their names without a directory.
struct Included;

impl p4::SourceProvider for Included {
    fn include(&self, name: &str, from: &str, quoted: bool) -> Option<(String, String)> {
        let own = Path::new(APPS).join("nat64").join(Path::new(name).file_name()?);
        let Some(text) = std::fs::read_to_string(&own).ok().filter(|_| quoted) else {
            return p4::Embedded.include(name, from, quoted);
        };
        println!("cargo::rerun-if-changed={}", own.display());
        Some((own.file_name()?.to_str()?.to_string(), text))
    }
}

fn main() {
    println!("cargo::rerun-if-changed=../../p4include");
    std::thread::scope(|scope| {
        for app in ["nat64", "nat64-stateful"] {
            scope.spawn(move || bundle(app));
        }
    });
}

/// Compiles an app for tc, xdp and native.
fn bundle(app: &str) {
    let path = Path::new(APPS).join(app).join(format!("{app}.p4"));
    println!("cargo::rerun-if-changed={}", path.display());
    let out = PathBuf::from(std::env::var("OUT_DIR").expect("cargo sets OUT_DIR"));
    let text = std::fs::read_to_string(&path).expect("the bundled app is there");
    let (mut map, mut diags) = (p4::SourceMap::default(), p4::Diagnostics::default());
    let program = p4::compile(&mut map, &format!("{app}.p4"), &text, &[], &Included, &mut diags);
    let Some(program) = program else {
        panic!("{app} is not accepted:\n{}", p4::render::text(&map, diags.list(), false));
    };
    // `interfaces` and `express` of nat64.toml need lanes.
    let lanes = emit::ebpf::Options { lanes: true };
    let tc =
        emit::tc_with(&program, lanes).unwrap_or_else(|limits| panic!("{app} does not fit tc: {limits:?}"));
    let manifest = serde_json::to_string(&tc.manifest).expect("a manifest is JSON");
    std::fs::write(out.join(format!("{app}.json")), manifest).expect("OUT_DIR is writable");
    let xdp =
        emit::xdp_with(&program, lanes).unwrap_or_else(|limits| panic!("{app} does not fit xdp: {limits:?}"));
    let target = tc.manifest.target.clone();
    let same = abi::Manifest { target, ..xdp.manifest.clone() } == tc.manifest;
    assert!(same, "the objects for tc and xdp share their maps, so these must be the same");
    for (name, output) in [(app.to_string(), &tc), (format!("{app}.xdp"), &xdp)] {
        let source = out.join(format!("{name}.c"));
        std::fs::write(&source, &output.c).expect("OUT_DIR is writable");
        object(&source, &out.join(format!("{name}.o")));
    }
    let output =
        emit::native(&program).unwrap_or_else(|limits| panic!("{app} does not fit native: {limits:?}"));
    let manifest = serde_json::to_string(&output.manifest).expect("a manifest is JSON");
    std::fs::write(out.join(format!("{app}.native.json")), manifest).expect("OUT_DIR is writable");
    let source = out.join(format!("{app}.native.c"));
    std::fs::write(&source, &output.c).expect("OUT_DIR is writable");
    library(&source, &out.join(format!("{app}.so")), "");
    for processor in ["x86-64-v3", "x86-64-v4"] {
        library(&source, &out.join(format!("{app}.{processor}.so")), processor);
    }
}

/// Compiles a shared object for machines without a C compiler. It is for one level of this machine's architecture (`-march`), or for all. The
/// object is empty if there is no compiler, or if Strait is built for another architecture.
fn library(source: &Path, library: &Path, processor: &str) {
    let compiler = std::env::var_os("CC").filter(|cc| !cc.is_empty()).unwrap_or_else(|| "cc".into());
    println!("cargo::rerun-if-env-changed=CC");
    let kind = std::env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets it");
    let wanted = processor.is_empty() || (kind == "x86_64" && !is_quick(library));
    let mut command = Command::new(compiler);
    command.args(abi::native::C_FLAGS).args(without_paths());
    if !processor.is_empty() {
        command.arg(format!("-march={processor}"));
    }
    let made = wanted.then(|| command.arg("-o").arg(library).arg(source).status());
    if !made.is_some_and(|status| status.is_ok_and(|status| status.success())) {
        std::fs::write(library, b"").expect("OUT_DIR is writable");
    }
}

/// The compiler writes no path of this machine into an object, so that two builds in two folders are equal.
fn without_paths() -> [String; 2] {
    ["OUT_DIR", "CARGO_MANIFEST_DIR"]
        .map(|name| format!("-ffile-prefix-map={}=.", std::env::var(name).expect("cargo sets it")))
}

/// Whether a library is left out of debug builds: those of the stateful app for newer processors take as long as all others together, and the stateless app
/// shows that such libraries work.
fn is_quick(library: &Path) -> bool {
    let debug = std::env::var("PROFILE").is_ok_and(|profile| profile == "debug");
    debug && library.file_name().is_some_and(|name| name.to_string_lossy().starts_with("nat64-stateful"))
}

fn object(source: &Path, object: &Path) {
    let arguments =
        ["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wno-parentheses-equality", "-Wno-unused-label", "-c"];
    let run = Command::new("clang")
        .args(arguments)
        .args(without_paths())
        .arg(source)
        .arg("-o")
        .arg(object)
        .output();
    match run {
        Ok(run) if run.status.success() => {}
        Ok(run) => {
            panic!("clang does not take {}:\n{}", source.display(), String::from_utf8_lossy(&run.stderr))
        }
        Err(_) => {
            println!("cargo::warning=clang is not installed: `strait nat64 up` will not work in this build");
            std::fs::write(object, b"").expect("OUT_DIR is writable");
        }
    }
}
