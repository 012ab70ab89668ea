//! Probes what this machine supports. The result is data; the caller prints it.
//!
//! If it is harmless, a probe tries the operation itself (a tiny map, a program of two instructions, an interface in a new namespace)
//! instead of guessing from versions. A probe never fails: if it cannot find something out, the result is [`Status::Missing`] with the
//! reason.

use std::fs;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;

use serde::Serialize;

use crate::link::{Change, Handle, sysctl};
use crate::{netns, sys};

/// How well something works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It works as it should.
    Ok,
    /// It works for some uses.
    Limited,
    /// It does not work.
    Missing,
}

/// The result of one probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Probe {
    /// The name of the probe.
    pub name: &'static str,
    /// Whether it works.
    pub status: Status,
    /// The finding in a few words.
    pub detail: String,
    /// The consequence for Strait; empty if it works.
    pub consequence: &'static str,
    /// How to make it work; empty if it works.
    pub remedy: &'static str,
}

/// The finding of a probe, without its name and advice.
type Finding = (Status, String);

/// A probe: its name, its test, and consequence and remedy if the test fails.
struct Check(&'static str, fn() -> Finding, &'static str, &'static str);

/// Runs all probes. It takes much less than a second.
pub fn examine() -> Vec<Probe> {
    let run = |Check(name, test, consequence, remedy): &Check| {
        let (status, detail) = test();
        let (consequence, remedy) = if status == Status::Ok { ("", "") } else { (*consequence, *remedy) };
        Probe { name, status, detail, consequence, remedy }
    };
    CHECKS.iter().map(run).collect()
}

const CHECKS: &[Check] = &[
    Check(
        "kernel",
        kernel,
        "eBPF programs are tested on Linux 6.1 and later; older verifiers may reject them",
        "use Linux 6.1 or later",
    ),
    Check(
        "privileges",
        privileges,
        "nothing can be loaded or attached; only the interpreter runs",
        "run as root, or grant CAP_NET_ADMIN, CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN",
    ),
    Check(
        "bpf",
        bpf,
        "the tc and xdp targets do not work, nor does `strait nat64`",
        "run as root; in a container, allow bpf(2) and give it CAP_BPF",
    ),
    Check(
        "bpffs",
        bpffs,
        "loaded programs cannot outlive the command that loads them",
        "mount -t bpf bpf /sys/fs/bpf (Strait does so itself as root)",
    ),
    Check(
        "btf",
        btf,
        "harmless: Strait's programs do not depend on kernel types",
        "a kernel with CONFIG_DEBUG_INFO_BTF",
    ),
    Check(
        "tcx",
        tcx,
        "the tc target falls back to clsact filters, which other tools can remove by accident",
        "Linux 6.6 or later, as root",
    ),
    Check(
        "clsact",
        clsact,
        "without tcx either, the tc target cannot be attached",
        "a kernel with CONFIG_NET_SCH_INGRESS and CONFIG_NET_CLS_BPF, as root",
    ),
    Check("xdp", xdp, "the xdp target cannot be attached", "a kernel with CONFIG_BPF_SYSCALL, as root"),
    Check(
        "af_xdp",
        af_xdp,
        "the native switch will use AF_PACKET instead of AF_XDP",
        "a kernel with CONFIG_XDP_SOCKETS, as root",
    ),
    Check("huge pages", huge_pages, "only DPDK needs them", "sysctl vm.nr_hugepages=512"),
    Check("tun", tun, "no TUN or TAP ports", "modprobe tun; in a container, pass --device /dev/net/tun"),
    Check(
        "clang",
        clang,
        "only the bundled programs run in the kernel; P4 programs of your own need clang",
        "apt install clang (version 14 or later)",
    ),
    Check(
        "c compiler",
        c_compiler,
        "the native target does not work",
        "apt install gcc, or set CC to another compiler",
    ),
    Check(
        "ipv4 forwarding",
        forwarding4,
        "translated IPv4 packets go nowhere",
        "sysctl -w net.ipv4.ip_forward=1",
    ),
    Check(
        "ipv6 forwarding",
        forwarding6,
        "translated IPv6 packets go nowhere",
        "sysctl -w net.ipv6.conf.all.forwarding=1",
    ),
    Check(
        "reverse path filter",
        reverse_path,
        "packets that come back another way than they went are dropped by the kernel",
        "sysctl -w net.ipv4.conf.all.rp_filter=2",
    ),
];

fn kernel() -> Finding {
    let release = sysctl::get("kernel/osrelease").unwrap_or_else(|_| "unknown".into());
    let mut numbers = release.split(['.', '-', '+']).map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let status = match version {
        v if v >= (6, 1) => Status::Ok,
        v if v >= (5, 10) => Status::Limited,
        _ => Status::Missing,
    };
    (status, format!("Linux {release}"))
}

fn privileges() -> Finding {
    // The numbers of the capabilities in capability.h.
    const WANTED: [(u32, &str); 5] =
        [(12, "net_admin"), (13, "net_raw"), (21, "sys_admin"), (38, "perfmon"), (39, "bpf")];
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap_or("0");
    let have = u64::from_str_radix(line.trim(), 16).unwrap_or(0);
    let lacking: Vec<_> =
        WANTED.iter().filter(|(bit, _)| have >> bit & 1 == 0).map(|(_, name)| *name).collect();
    let user = sys::euid();
    match lacking.len() {
        0 => (Status::Ok, format!("user {user} with all that is needed")),
        n => {
            let status = if n == WANTED.len() { Status::Missing } else { Status::Limited };
            (status, format!("user {user} lacks {}", lacking.join(", ")))
        }
    }
}

fn bpf() -> Finding {
    let attempt = sys::map_create(2, 4, 4, 1).and_then(|_| sys::load_return(sys::PROG_SCHED_CLS, 0));
    outcome(attempt, "a map and a program load")
}

fn bpffs() -> Finding {
    match sys::is_bpffs(Path::new("/sys/fs/bpf")) {
        Ok(true) => (Status::Ok, "mounted on /sys/fs/bpf".into()),
        Ok(false) if sys::euid() == 0 => (Status::Limited, "not mounted yet".into()),
        Ok(false) => (Status::Missing, "not mounted on /sys/fs/bpf".into()),
        Err(error) => (Status::Missing, error.to_string()),
    }
}

fn btf() -> Finding {
    match Path::new("/sys/kernel/btf/vmlinux").exists() {
        true => (Status::Ok, "/sys/kernel/btf/vmlinux".into()),
        false => (Status::Limited, "no /sys/kernel/btf/vmlinux".into()),
    }
}

fn tcx() -> Finding {
    on_a_veth(|_, index| {
        let program = sys::load_return(sys::PROG_SCHED_CLS, -1)?;
        sys::link_create(program.as_fd(), index, sys::ATTACH_TCX_EGRESS).map(drop)
    })
}

fn clsact() -> Finding {
    on_a_veth(|name, _| aya::programs::tc::qdisc_add_clsact(name))
}

fn xdp() -> Finding {
    const XDP_PASS: i32 = 2;
    on_a_veth(|_, index| {
        let program = sys::load_return(sys::PROG_XDP, XDP_PASS)?;
        sys::link_create(program.as_fd(), index, sys::ATTACH_XDP).map(drop)
    })
}

fn af_xdp() -> Finding {
    outcome(sys::xdp_socket(), "a socket opens")
}

fn huge_pages() -> Finding {
    let info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let value = |key: &str| {
        let line = info.lines().find(|line| line.starts_with(key))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    match (value("HugePages_Total:"), value("Hugepagesize:")) {
        (Some(0), _) => (Status::Limited, "none reserved".into()),
        (Some(n), Some(kib)) => (Status::Ok, format!("{n} of {} MiB", kib / 1024)),
        _ => (Status::Missing, "this kernel has none".into()),
    }
}

fn tun() -> Finding {
    let open = fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun");
    outcome(open, "/dev/net/tun opens")
}

fn clang() -> Finding {
    let Ok(output) = Command::new("clang").arg("--version").output() else {
        return (Status::Missing, "not found".into());
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.split_whitespace().skip_while(|word| *word != "version").nth(1).unwrap_or("unknown");
    let major = version.split('.').next().and_then(|part| part.parse::<u32>().ok()).unwrap_or(0);
    let status = if major >= 14 { Status::Ok } else { Status::Limited };
    (status, format!("version {version}"))
}

fn c_compiler() -> Finding {
    let name = crate::native::compiler();
    let Ok(output) = Command::new(&name).arg("--version").output() else {
        return (Status::Missing, format!("{} is not found", name.to_string_lossy()));
    };
    let text = String::from_utf8_lossy(&output.stdout);
    (Status::Ok, text.lines().next().unwrap_or("unknown").to_owned())
}

fn forwarding4() -> Finding {
    switched_on("net/ipv4/ip_forward")
}

fn forwarding6() -> Finding {
    switched_on("net/ipv6/conf/all/forwarding")
}

fn switched_on(key: &str) -> Finding {
    match sysctl::get(key).as_deref() {
        Ok("0") => (Status::Limited, "off".into()),
        Ok(_) => (Status::Ok, "on".into()),
        Err(_) => (Status::Missing, format!("no sysctl {key}")),
    }
}

fn reverse_path() -> Finding {
    match sysctl::get("net/ipv4/conf/all/rp_filter").as_deref() {
        Ok("1") => (Status::Limited, "strict".into()),
        Ok("2") => (Status::Ok, "loose".into()),
        Ok(_) => (Status::Ok, "off, or by interface".into()),
        Err(_) => (Status::Missing, "no such sysctl".into()),
    }
}

fn outcome<T>(result: std::io::Result<T>, good: &str) -> Finding {
    match result {
        Ok(_) => (Status::Ok, good.into()),
        Err(error) => (Status::Missing, error.to_string()),
    }
}

/// Runs a test on a veth link in a temporary namespace.
fn on_a_veth(act: fn(&str, u32) -> std::io::Result<()>) -> Finding {
    let attempt = netns::run_in_fresh(|| {
        let prepare = || {
            let handle = Handle::open()?;
            handle.add_veth("probe0", "probe1", None)?;
            handle.change("probe0", &Change { up: Some(true), ..Change::default() })?;
            handle.index("probe0")
        };
        match prepare() {
            Ok(index) => outcome(act("probe0", index), "attached to a veth"),
            Err(error) => (Status::Missing, error.to_string()),
        }
    });
    attempt.unwrap_or_else(|error| (Status::Missing, format!("no namespace to try it in: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_probe_answers_and_advises() {
        for probe in examine() {
            assert!(!probe.detail.is_empty(), "{}", probe.name);
            assert_eq!(probe.status == Status::Ok, probe.remedy.is_empty(), "{}", probe.name);
        }
    }
}
