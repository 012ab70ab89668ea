//! The benchmark for real, in namespaces, without Strait's own path: that one is tested with the command line. Only
//! root can run this.

use std::fs;
use std::path::Path;

use bench::lab::{self, Lab, Stack};
use bench::nat64::{OffloadChoice, Options, Traffic};
use bench::path::{Choice, PathId, unavailable};
use bench::process::installed;
use bench::report::Measure;
use bench::{http, ping};

/// Says why a test cannot run here; `make test` collects these lines.
fn cannot_run(name: &str) -> bool {
    let tools = ["ip", "ethtool", "iperf3", "nsenter", "ping"];
    let reason = if !lab::root() {
        Some("needs root for network namespaces".to_owned())
    } else {
        tools.iter().find(|tool| !installed(tool)).map(|tool| format!("`{tool}` is not installed"))
    };
    if let Some(reason) = &reason {
        println!("skipped: {name}: {reason}");
    }
    reason.is_some()
}

/// Namespaces of this process.
fn namespaces() -> Vec<String> {
    let ours = format!("st-bench-{}-", std::process::id());
    let entries = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with(&ours)).collect()
}

#[test]
fn every_kind_of_traffic_crosses_and_nothing_is_left() {
    if cannot_run("bench::live") {
        return;
    }
    let options = Options {
        seconds: Some(1),
        repeat: Some(1),
        streams: vec![2],
        paths: vec![Choice::Plain, Choice::Tayga],
        measure: vec![Traffic::Tcp, Traffic::Udp, Traffic::Small],
        offloads: Some(OffloadChoice::Off),
        ..Options::default()
    };
    let report = bench::nat64::run(&options, Path::new("unused")).unwrap();
    let tayga = unavailable(PathId::Tayga).is_none();
    assert_eq!(report.skipped.is_empty(), tayga);
    assert_eq!(report.cells.len(), 6);
    for cell in &report.cells {
        assert_eq!(cell.results.len(), if tayga { 3 } else { 2 }, "{}", cell.name());
        if cell.measure != Measure::UdpLoss {
            assert!(
                cell.results.iter().all(|result| result.summary.median > 0.0),
                "{}: {cell:?}",
                cell.name()
            );
        }
    }

    let lab = Lab::build("parts", Stack::Dual).unwrap();
    let echoes = ping::run(&lab, PathId::Plain6.target(), 3, 56).unwrap();
    assert_eq!((echoes.sent, echoes.answered), (3, 3));
    let fetched = http::exchange(&lab, PathId::Plain4.target(), 100_000).unwrap();
    assert_eq!(fetched.seen.to_string(), "203.0.113.2");
    drop(lab);
    assert_eq!(namespaces(), [""; 0]);
}
