//! What the tests of this crate share: who may run, and the fixture program.

use std::fs;
use std::path::Path;
use std::process::Command;

use abi::id::ActionId;
use abi::manifest::{
    Action, DropReason, KernelMaps, KeyField, Manifest, Param, Structure, Table, TableLayout,
};
use abi::{ActionCall, Bits, MatchKind};
use io::workdir::WorkDir;

pub use harness::writes::*;

/// Whether a test that needs root may run; says why not.
pub fn root(name: &str) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let is_root = status.lines().any(|line| line.starts_with("Uid:\t0\t0"));
    if !is_root {
        println!("skipped: {name}: needs root");
    }
    is_root
}

/// The fixture as an eBPF object; `None` without clang.
pub fn object(name: &str) -> Option<Vec<u8>> {
    let dir = WorkDir::new().expect("a directory");
    let out = dir.path().join("fixture.o");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernel/fixture.c");
    let mut clang = Command::new("clang");
    clang.args(["-O2", "-g", "-target", "bpf", "-c"]).arg(source).arg("-o").arg(&out);
    match clang.status() {
        Err(_) => {
            println!("skipped: {name}: needs clang");
            return None;
        }
        Ok(status) => assert!(status.success(), "clang does not like the fixture"),
    }
    Some(dir.read("fixture.o").expect("clang wrote it"))
}

/// `set(port)`.
pub fn set(port: u32) -> ActionCall {
    ActionCall { action: ActionId(1), args: vec![Bits::new(32, port.into())] }
}

/// The fixture's manifest.
pub fn manifest() -> Manifest {
    let drop = |name: &str| DropReason { name: name.into(), help: String::new(), location: None };
    Manifest {
        version: 1,
        program: "fixture".into(),
        target: "tc".into(),
        entry: "entry".into(),
        tables: vec![
            table("exact", 48, MatchKind::Exact, Structure::Hash, (24, 16, Some(0))),
            table("lpm", 32, MatchKind::Lpm, Structure::LpmTrie, (8, 0, None)),
            table("tern", 16, MatchKind::Ternary, Structure::TupleSpace, (16, 8, None)),
        ],
        kernel: Some(KernelMaps {
            ingress: "strait_ports".into(),
            near_ingress: None,
            egress: "strait_egress".into(),
            egress_ports: 64,
            drops: "strait_drops".into(),
            counters: None,
            versions: "strait_versions".into(),
            packet: "strait_packet".into(),
            copies: None,
            host_ports: None,
            events: None,
            lanes: None,
            fragments: false,
        }),
        drops: vec![drop("miss"), drop("refused")],
        ..Manifest::default()
    }
}

type Shape = (u32, u32, Option<u32>);

fn table(name: &str, width: u32, kind: MatchKind, structure: Structure, shape: Shape) -> Table {
    let (value_size, data_offset, counter_offset) = shape;
    let action =
        |name: &str, params| Action { name: name.into(), params, default_only: false, table_only: false };
    let port = Param { name: "port".into(), width: 32, offset: 4 };
    let layout = TableLayout {
        structure,
        map: Some(format!("t_{name}")),
        tuples: (structure == Structure::TupleSpace).then(|| ("t_tern_tuples".into(), 4)),
        default_map: (name == "exact").then(|| "t_exact_default".into()),
        key_size: width / 8,
        key_offsets: vec![0],
        data_size: 8,
        register: None,
        bounds_offset: None,
        data_offset,
        counter_offset,
        meter_offset: None,
        hit_offset: None,
        value_size,
        lists: None,
        learning: None,
    };
    Table {
        name: name.into(),
        keys: vec![KeyField { name: "k".into(), width, kind, signed: false }],
        actions: vec![action("NoAction", vec![]), action("set", vec![port])],
        size: 64,
        default_action: Some(ActionCall::default()),
        const_default: false,
        const_entries: false,
        initial_entries: vec![],
        direct_counter: counter_offset.map(|_| "c".into()),
        implementation: None,
        notifies_idle: false,
        ages: false,
        direct_meter: None,
        layout: Some(layout),
    }
}
