//! The laboratory: three network namespaces in a row, joined by veth pairs.
//!
//! ```text
//!   client ──────────────── router ──────────────── server
//!   IPv6 only   c0 ↔ r0                r1 ↔ s0      IPv4 only
//!   2001:db8:100::2                                 192.0.2.2
//! ```
//!
//! A lab for plain forwarding has both protocols at both ends ([`Stack::Dual`]). It is built by iproute2 and ethtool:
//! a benchmark is an operator's tool, and these are on every operator's machine.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{need, run, run_with_input};
use crate::{Error, Result};

/// The directory in which iproute2 keeps a file for every named namespace.
const NAMESPACES: &str = "/run/netns";

/// The prefix of the names of all namespaces and scratch directories. The owner's process id and a dash follow it.
pub(crate) const PREFIX: &str = "st-bench-";

/// The client's address that is translated; the lab's explicit address mapping turns it into 198.51.100.2.
pub const CLIENT6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x100, 0, 0, 0, 0, 2);
/// The client's address on its own link.
const CLIENT_LINK6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 2);
/// The client's IPv4 address, in a dual-stack lab only.
const CLIENT4: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 2);
/// The server's IPv4 address.
pub const SERVER4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
/// The server's IPv6 address, in a dual-stack lab only.
pub const SERVER6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 2);

/// The translation prefix. It is a network-specific one, because the well-known prefix must not represent documentation addresses (RFC
/// 6052, section 3.1). Tayga and Strait both accept it.
pub const PREFIX6: &str = "2001:db8:64::/96";
/// The IPv4 prefix of the explicit address mapping (RFC 7757).
pub const EAM4: &str = "198.51.100.0/24";
/// The IPv6 prefix of the explicit address mapping (RFC 7757).
pub const EAM6: &str = "2001:db8:100::/120";

/// The IPv6 address that represents an IPv4 address: [`PREFIX6`] with the IPv4 address in the last 32 bits.
pub fn translated(address: Ipv4Addr) -> Ipv6Addr {
    let [a, b, c, d] = address.octets();
    let pair = u16::from_be_bytes;
    Ipv6Addr::new(0x2001, 0xdb8, 0x64, 0, 0, 0, pair([a, b]), pair([c, d]))
}

/// The protocols that client and server have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    /// The client has IPv6 only, and the server IPv4 only.
    Translated,
    /// Both hosts have IPv4 and IPv6.
    Dual,
}

/// The hosts of a lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// The host on the IPv6 side.
    Client,
    /// The host in the middle, which forwards and translates.
    Router,
    /// The host on the IPv4 side.
    Server,
}

/// A network namespace. Dropping it ends its processes and removes it.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Makes a namespace and enables its loopback interface.
    fn create(name: String) -> Result<Self> {
        run(Command::new("ip").args(["netns", "add", &name]))?;
        let namespace = Self { name };
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    /// Makes a namespace that belongs to this process. `label` distinguishes the namespaces of one process.
    pub fn make(label: &str) -> Result<Self> {
        preconditions()?;
        Self::create(format!("{PREFIX}{}-{label}", std::process::id()))
    }

    /// The name of the namespace in iproute2.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file of the namespace, for `setns`.
    pub fn file(&self) -> PathBuf {
        file(&self.name)
    }

    /// A command that runs in the namespace.
    ///
    /// It uses `nsenter` instead of `ip netns exec`: the latter mounts a new `/sys`, which hides the BPF file system where Strait pins its
    /// objects.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.file().display())).arg("--").arg(program);
        command
    }

    /// Runs a function in the namespace, on a thread of its own. A socket that the function makes stays in the namespace, whichever thread
    /// uses it.
    pub fn enter<T: Send>(&self, act: impl FnOnce() -> T + Send) -> Result<T> {
        let what = || format!("enter the namespace {}", self.name);
        io::netns::run_in(&self.file(), act).map_err(|source| Error::System { what: what(), source })
    }

    /// Runs `ip` commands in the namespace, one on each line.
    pub fn ip(&self, batch: &str) -> Result<()> {
        run_with_input(Command::new("ip").args(["-n", &self.name, "-batch", "-"]), batch).map(drop)
    }

    /// Sets a sysctl of this namespace. `key` is the part after `net.`.
    pub fn sysctl(&self, key: &str, value: &str) -> Result<()> {
        let file = format!("/proc/sys/net/{}", key.replace('.', "/"));
        // A shell opens the file, because /proc/sys/net shows the namespace of the process that opens it.
        run(self.command("sh").args(["-c", r#"echo "$1" > "$2""#, "sysctl", value, &file])).map(drop)
    }

    /// The MAC address of a link.
    pub fn mac(&self, link: &str) -> Result<[u8; 6]> {
        let json = run(Command::new("ip").args(["-n", &self.name, "-json", "link", "show", "dev", link]))?;
        let links: Vec<Link> = serde_json::from_str(&json)
            .map_err(|error| Error::Output { tool: "ip", detail: error.to_string() })?;
        let address = links.first().and_then(|link| parse_mac(&link.address));
        address.ok_or_else(|| Error::Output { tool: "ip", detail: format!("no address of {link}") })
    }

    /// What a link has received so far.
    pub fn received(&self, link: &str) -> Result<Received> {
        let arguments = ["-n", &self.name, "-json", "-stats", "link", "show", "dev", link];
        received(&run(Command::new("ip").args(arguments))?)
    }

    /// Turns segmentation and receive offloads off on all veth links, including those that a translator made.
    fn offloads_off(&self) -> Result<()> {
        let json = run(Command::new("ip").args(["-n", &self.name, "-json", "link", "show", "type", "veth"]))?;
        for link in links(&json)? {
            run(self.command("ethtool").args([
                "-K",
                &link.ifname,
                "tso",
                "off",
                "gso",
                "off",
                "gro",
                "off",
            ]))?;
        }
        Ok(())
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

/// The number of received packets in the output of `ip -json -stats link`.
fn received(json: &str) -> Result<Received> {
    let value: serde_json::Value = serde_json::from_str(json)
        .map_err(|error| Error::Output { tool: "ip", detail: error.to_string() })?;
    let count = |what: &str| {
        let count = value.pointer(&format!("/0/stats64/rx/{what}")).and_then(serde_json::Value::as_u64);
        count.ok_or_else(|| Error::Output { tool: "ip", detail: format!("no stats64.rx.{what}") })
    };
    Ok(Received { packets: count("packets")?, bytes: count("bytes")? })
}

/// The counters of a link for what it has received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The packets that the interface has received.
    pub packets: u64,
    /// The bytes of these packets, with their Ethernet headers.
    pub bytes: u64,
}

/// The parts of the output of `ip -json link` that are used.
#[derive(serde::Deserialize)]
struct Link {
    #[serde(default)]
    ifname: String,
    #[serde(default)]
    address: String,
}

/// The links in the output of `ip -json link`, which is empty if there are none.
fn links(json: &str) -> Result<Vec<Link>> {
    if json.trim().is_empty() {
        return Ok(Vec::new());
    }
    let links: Vec<Link> = serde_json::from_str(json)
        .map_err(|error| Error::Output { tool: "ip", detail: error.to_string() })?;
    // iproute2 prints empty objects for links that its filter left out.
    Ok(links.into_iter().filter(|link| !link.ifname.is_empty()).collect())
}

/// Parses a MAC address such as `02:00:00:00:00:01`.
fn parse_mac(text: &str) -> Option<[u8; 6]> {
    let octets: Option<Vec<u8>> = text.split(':').map(|octet| u8::from_str_radix(octet, 16).ok()).collect();
    octets?.try_into().ok()
}

/// Ends the processes in a namespace and removes it. Errors are ignored; the next run tries again.
fn remove(name: &str) {
    let pids = run(Command::new("ip").args(["netns", "pids", name])).unwrap_or_default();
    let own = std::process::id().to_string();
    let pids: Vec<&str> = pids.split_whitespace().filter(|&pid| pid != own).collect();
    if !pids.is_empty() {
        let _ = run(Command::new("sh").args(["-c", r#"kill -9 "$@""#, "kill"]).args(pids));
    }
    let _ = run(Command::new("ip").args(["netns", "del", name]));
}

/// Removes the namespaces of runs that were killed: those whose owner no longer exists. Returns their names.
pub fn remove_stale() -> Vec<String> {
    let entries = fs::read_dir(NAMESPACES).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let stale: Vec<String> = names.filter(|name| owner(name).is_some_and(|pid| !alive(pid))).collect();
    for name in &stale {
        remove(name);
    }
    stale
}

/// The file of a namespace, for `setns`.
pub(crate) fn file(name: &str) -> PathBuf {
    Path::new(NAMESPACES).join(name)
}

/// The process id in the name of a namespace or directory of a benchmark; `None` for other names.
pub(crate) fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok()
}

/// Whether a process with this id exists.
pub(crate) fn alive(pid: u32) -> bool {
    // The status of a zombie still exists, so its state is checked too.
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
}

/// A client, a router and a server with addresses and routes. Nothing translates yet.
#[derive(Debug)]
pub struct Lab {
    /// The namespace on the IPv6 side.
    pub client: Namespace,
    /// The namespace in the middle, which forwards.
    pub router: Namespace,
    /// The namespace on the IPv4 side.
    pub server: Namespace,
}

impl Lab {
    /// Builds a lab. `label` distinguishes the labs of one process.
    pub fn build(label: &str, stack: Stack) -> Result<Self> {
        preconditions()?;
        let name = |host: &str| format!("{PREFIX}{}-{label}-{host}", std::process::id());
        let lab = Self {
            client: Namespace::create(name("client"))?,
            router: Namespace::create(name("router"))?,
            server: Namespace::create(name("server"))?,
        };
        lab.join()?;
        lab.forward()?;
        lab.address_translated()?;
        if stack == Stack::Dual {
            lab.address_dual()?;
        }
        lab.sinks(stack)?;
        Ok(lab)
    }

    /// The namespace of a host.
    pub fn host(&self, host: Host) -> &Namespace {
        match host {
            Host::Client => &self.client,
            Host::Router => &self.router,
            Host::Server => &self.server,
        }
    }

    /// Turns TSO, GSO and GRO off on every veth link, so that each packet is translated by itself.
    pub fn offloads_off(&self) -> Result<()> {
        for host in [&self.client, &self.router, &self.server] {
            host.offloads_off()?;
        }
        Ok(())
    }

    /// Makes the two links. They are made inside the namespaces, so that their names never appear on the host.
    fn join(&self) -> Result<()> {
        let (client, server) = (self.client.name(), self.server.name());
        self.router.ip(&format!(
            "link add r0 type veth peer name c0 netns {client}\n\
             link add r1 type veth peer name s0 netns {server}\n\
             link set r0 up\n\
             link set r1 up\n"
        ))?;
        self.client.ip("link set c0 up")?;
        self.server.ip("link set s0 up")
    }

    /// Enables forwarding on the router, and sets the same congestion control on both ends, whatever the host uses.
    fn forward(&self) -> Result<()> {
        self.router.sysctl("ipv4.ip_forward", "1")?;
        self.router.sysctl("ipv6.conf.all.forwarding", "1")?;
        for end in [&self.client, &self.server] {
            // Nearly every kernel has cubic. If this one does not, all paths use the host's default.
            let _ = end.sysctl("ipv4.tcp_congestion_control", "cubic");
        }
        Ok(())
    }

    /// Sets the addresses and routes that NAT64 uses.
    fn address_translated(&self) -> Result<()> {
        self.client.ip(&format!(
            "addr add {CLIENT_LINK6}/64 dev c0 nodad\n\
             addr add {CLIENT6}/128 dev c0 nodad\n\
             route add default via 2001:db8:1::1 dev c0 src {CLIENT6}\n"
        ))?;
        self.router.ip(&format!(
            "addr add 2001:db8:1::1/64 dev r0 nodad\n\
             addr add 192.0.2.1/24 dev r1\n\
             route add {EAM6} via {CLIENT_LINK6} dev r0\n"
        ))?;
        self.server.ip(&format!("addr add {SERVER4}/24 dev s0\nroute add default via 192.0.2.1 dev s0\n"))
    }

    /// Adds the other protocol to each end, for plain forwarding.
    fn address_dual(&self) -> Result<()> {
        self.client
            .ip(&format!("addr add {CLIENT4}/24 dev c0\nroute add default via 203.0.113.1 dev c0\n"))?;
        self.router.ip("addr add 203.0.113.1/24 dev r0\naddr add 2001:db8:2::1/64 dev r1 nodad\n")?;
        self.server
            .ip(&format!("addr add {SERVER6}/64 dev s0 nodad\nroute add default via 2001:db8:2::1 dev s0\n"))
    }

    /// Adds the sink addresses. No host has them; the router has a permanent neighbour entry for each, with a MAC address that no host has.
    /// The far link counts their packets and drops them at once, so that a measurement of the rate has no receiver to slow it down.
    fn sinks(&self, stack: Stack) -> Result<()> {
        let sink = |address: IpAddr, link: &str| {
            format!("neigh replace {address} lladdr {} dev {link} nud permanent\n", Sink::MAC)
        };
        let mut batch = sink(Sink::SERVER4.into(), "r1");
        batch += &format!("route add {}/128 dev r0\n", Sink::CLIENT6);
        batch += &sink(Sink::CLIENT6.into(), "r0");
        if stack == Stack::Dual {
            batch += &sink(Sink::SERVER6.into(), "r1");
            batch += &sink(Sink::CLIENT4.into(), "r0");
        }
        self.router.ip(&batch)
    }
}

/// The sink addresses: packets to them are counted and dropped. See [`Lab::sinks`].
#[derive(Debug)]
pub struct Sink;

impl Sink {
    /// The MAC address of all sinks. It is locally administered, and no host has it.
    const MAC: &str = "02:73:69:6e:6b:00";
    /// The IPv4 sink at the server.
    pub const SERVER4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 99);
    /// The IPv6 sink at the server.
    pub const SERVER6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 0x63);
    /// The IPv4 sink at the client.
    pub const CLIENT4: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 99);
    /// The IPv6 sink at the client. The explicit address mapping turns it into [`Sink::MAPPED4`].
    pub const CLIENT6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x100, 0, 0, 0, 0, 0x63);
    /// The address under which an IPv4 host reaches [`Sink::CLIENT6`] through translation.
    pub const MAPPED4: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 99);
}

/// Checks that the process is root and that the tools for building a lab are installed.
fn preconditions() -> Result<()> {
    if !root() {
        return Err(Error::NotRoot);
    }
    need("ip", "iproute2")?;
    need("nsenter", "util-linux")?;
    need("ethtool", "ethtool")
}

/// Whether this process has the effective user id 0.
pub fn root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let uids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    uids.and_then(|ids| ids.split_whitespace().nth(1)) == Some("0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters() {
        let json = r#"[{"ifname":"s0","stats64":{"rx":{"bytes":100,"packets":7},"tx":{"packets":1}}}]"#;
        assert_eq!(received(json).unwrap(), Received { packets: 7, bytes: 100 });
        assert!(received("[]").is_err());
    }

    #[test]
    fn an_address_behind_the_prefix() {
        assert_eq!(translated(SERVER4).to_string(), "2001:db8:64::c000:202");
    }

    #[test]
    fn owners_of_namespaces() {
        assert_eq!(owner("st-bench-42-strait-client"), Some(42));
        assert_eq!(owner("st-bench-x-client"), None);
        assert_eq!(owner("st-io-42-client"), None);
        assert!(alive(std::process::id()));
    }

    #[test]
    fn mac_addresses() {
        let mac = parse_mac("02:00:5e:00:53:0a").unwrap();
        assert_eq!(mac, [2, 0, 0x5e, 0, 0x53, 0x0a]);
        assert_eq!(parse_mac("02:00:5e"), None);
    }

    #[test]
    fn links_without_the_ones_that_a_filter_left_out() {
        let found = links(r#"[{},{"ifname":"r0","address":"02:00:5e:00:53:01"}]"#).unwrap();
        assert_eq!(found.len(), 1);
        assert!(links("").unwrap().is_empty());
    }
}
