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

/// Where iproute2 keeps a file for every named namespace.
const NAMESPACES: &str = "/run/netns";

/// The name of every namespace and scratch directory starts so, followed by the process id of its owner and a dash.
pub(crate) const PREFIX: &str = "st-bench-";

/// The client's translatable address; 198.51.100.2 in IPv4 by the lab's explicit address mapping.
pub const CLIENT6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x100, 0, 0, 0, 0, 2);
/// The client's address on its own link.
const CLIENT_LINK6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 2);
/// The client's IPv4 address, in a dual-stack lab only.
const CLIENT4: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 2);
/// The server's IPv4 address.
pub const SERVER4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
/// The server's IPv6 address, in a dual-stack lab only.
pub const SERVER6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 2);

/// The translation prefix. A network-specific one: Tayga and Strait both take it, and documentation addresses may not
/// stand behind the well-known prefix (RFC 6052, section 3.1).
pub const PREFIX6: &str = "2001:db8:64::/96";
/// The explicit address mapping (RFC 7757): its IPv4 side …
pub const EAM4: &str = "198.51.100.0/24";
/// … and its IPv6 side.
pub const EAM6: &str = "2001:db8:100::/120";

/// The IPv6 address behind which translation hides an IPv4 one: the address in the last 32 bits of [`PREFIX6`].
pub fn behind_prefix(address: Ipv4Addr) -> Ipv6Addr {
    let [a, b, c, d] = address.octets();
    let pair = u16::from_be_bytes;
    Ipv6Addr::new(0x2001, 0xdb8, 0x64, 0, 0, 0, pair([a, b]), pair([c, d]))
}

/// The protocols of the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    /// The client speaks IPv6 only and the server IPv4 only.
    Translated,
    /// Both speak both.
    Dual,
}

/// Who stands where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// The IPv6 side.
    Client,
    /// The one in the middle.
    Router,
    /// The IPv4 side.
    Server,
}

/// One network namespace. Dropping it ends what runs in it and removes it.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Makes a namespace with its loopback up.
    fn create(name: String) -> Result<Self> {
        run(Command::new("ip").args(["netns", "add", &name]))?;
        let namespace = Self { name };
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    /// Makes one of this process's; `label` tells several of one process apart.
    pub fn make(label: &str) -> Result<Self> {
        preconditions()?;
        Self::create(format!("{PREFIX}{}-{label}", std::process::id()))
    }

    /// The name under which iproute2 knows it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file that stands for the namespace.
    pub fn file(&self) -> PathBuf {
        file(&self.name)
    }

    /// A command that will run inside.
    ///
    /// `nsenter` and not `ip netns exec`, because the latter mounts a fresh `/sys` and hides the BPF file system, where
    /// Strait pins what must outlive the command.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.file().display())).arg("--").arg(program);
        command
    }

    /// Runs a function inside, on a thread of its own. A socket that it makes stays inside, wherever it is used.
    pub fn enter<T: Send>(&self, act: impl FnOnce() -> T + Send) -> Result<T> {
        let what = || format!("enter the namespace {}", self.name);
        io::netns::run_in(&self.file(), act).map_err(|source| Error::System { what: what(), source })
    }

    /// Runs one `ip` command inside, or several, one a line.
    pub fn ip(&self, batch: &str) -> Result<()> {
        run_with_input(Command::new("ip").args(["-n", &self.name, "-batch", "-"]), batch).map(drop)
    }

    /// Sets a sysctl below `net.` of this namespace.
    pub fn sysctl(&self, key: &str, value: &str) -> Result<()> {
        let file = format!("/proc/sys/net/{}", key.replace('.', "/"));
        // A shell, because /proc/sys/net shows the namespace of whoever opens it.
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

    /// Packets that a link has received so far.
    pub fn received(&self, link: &str) -> Result<u64> {
        let arguments = ["-n", &self.name, "-json", "-stats", "link", "show", "dev", link];
        received(&run(Command::new("ip").args(arguments))?)
    }

    /// Turns segmentation and receive offloads of all veth links off, those that a translator made included.
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

/// The received packets in the answer of `ip -json -stats link`.
fn received(json: &str) -> Result<u64> {
    let value: serde_json::Value = serde_json::from_str(json)
        .map_err(|error| Error::Output { tool: "ip", detail: error.to_string() })?;
    let count = value.pointer("/0/stats64/rx/packets").and_then(serde_json::Value::as_u64);
    count.ok_or_else(|| Error::Output { tool: "ip", detail: "no stats64.rx.packets".to_owned() })
}

/// What of `ip -json link` is read.
#[derive(serde::Deserialize)]
struct Link {
    #[serde(default)]
    ifname: String,
    #[serde(default)]
    address: String,
}

/// The links in the answer of `ip -json link`, which is empty text when there are none.
fn links(json: &str) -> Result<Vec<Link>> {
    if json.trim().is_empty() {
        return Ok(Vec::new());
    }
    let links: Vec<Link> = serde_json::from_str(json)
        .map_err(|error| Error::Output { tool: "ip", detail: error.to_string() })?;
    // iproute2 prints empty objects for links that its filter left out.
    Ok(links.into_iter().filter(|link| !link.ifname.is_empty()).collect())
}

/// Six octets from `02:00:…`.
fn parse_mac(text: &str) -> Option<[u8; 6]> {
    let octets: Option<Vec<u8>> = text.split(':').map(|octet| u8::from_str_radix(octet, 16).ok()).collect();
    octets?.try_into().ok()
}

/// Ends the processes in a namespace of ours and removes it. Errors are of no use to anybody here: the next run
/// tries again.
fn remove(name: &str) {
    let pids = run(Command::new("ip").args(["netns", "pids", name])).unwrap_or_default();
    let own = std::process::id().to_string();
    let pids: Vec<&str> = pids.split_whitespace().filter(|&pid| pid != own).collect();
    if !pids.is_empty() {
        let _ = run(Command::new("sh").args(["-c", r#"kill -9 "$@""#, "kill"]).args(pids));
    }
    let _ = run(Command::new("ip").args(["netns", "del", name]));
}

/// Removes what runs that were killed left: namespaces whose owner is no more. Returns their names.
pub fn remove_stale() -> Vec<String> {
    let entries = fs::read_dir(NAMESPACES).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let stale: Vec<String> = names.filter(|name| owner(name).is_some_and(|pid| !alive(pid))).collect();
    for name in &stale {
        remove(name);
    }
    stale
}

/// The file that stands for a namespace.
pub(crate) fn file(name: &str) -> PathBuf {
    Path::new(NAMESPACES).join(name)
}

/// The process id in a name of ours.
pub(crate) fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok()
}

/// Whether a process with this id exists.
pub(crate) fn alive(pid: u32) -> bool {
    // One that was killed and that nobody has waited for has a state and nothing else.
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
}

/// A client, a router and a server, with addresses and routes but nothing yet that translates.
#[derive(Debug)]
pub struct Lab {
    /// The IPv6 side.
    pub client: Namespace,
    /// The one in the middle; it forwards.
    pub router: Namespace,
    /// The IPv4 side.
    pub server: Namespace,
}

impl Lab {
    /// Builds the lab. `label` tells several labs of one process apart.
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

    /// Turns tso, gso and gro off on every veth, so that translation is paid packet by packet.
    pub fn offloads_off(&self) -> Result<()> {
        for host in [&self.client, &self.router, &self.server] {
            host.offloads_off()?;
        }
        Ok(())
    }

    /// The two cables. Made inside the namespaces, so that their names never appear on the host.
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

    /// Makes the router a router, and both ends use one congestion control, whatever the host prefers.
    fn forward(&self) -> Result<()> {
        self.router.sysctl("ipv4.ip_forward", "1")?;
        self.router.sysctl("ipv6.conf.all.forwarding", "1")?;
        for end in [&self.client, &self.server] {
            // cubic is built in nearly everywhere; where it is not, the host's own choice serves all paths alike.
            let _ = end.sysctl("ipv4.tcp_congestion_control", "cubic");
        }
        Ok(())
    }

    /// The addresses of the two ends as NAT64 finds them.
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

    /// The other protocol at each end, for plain forwarding.
    fn address_dual(&self) -> Result<()> {
        self.client
            .ip(&format!("addr add {CLIENT4}/24 dev c0\nroute add default via 203.0.113.1 dev c0\n"))?;
        self.router.ip("addr add 203.0.113.1/24 dev r0\naddr add 2001:db8:2::1/64 dev r1 nodad\n")?;
        self.server
            .ip(&format!("addr add {SERVER6}/64 dev s0 nodad\nroute add default via 2001:db8:2::1 dev s0\n"))
    }

    /// Addresses that nobody has, with a permanent neighbour entry in the router whose MAC address nobody has either:
    /// the far link counts their packets and forgets them at once, which is what measuring a rate wants.
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

/// The addresses where packets vanish; see [`Lab::sinks`].
#[derive(Debug)]
pub struct Sink;

impl Sink {
    /// Nobody's link-layer address; locally administered.
    const MAC: &str = "02:73:69:6e:6b:00";
    /// At the server, in IPv4.
    pub const SERVER4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 99);
    /// At the server, in IPv6.
    pub const SERVER6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 0x63);
    /// At the client, in IPv4.
    pub const CLIENT4: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 99);
    /// At the client, in IPv6; [`Sink::MAPPED4`] by the explicit address mapping.
    pub const CLIENT6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x100, 0, 0, 0, 0, 0x63);
    /// At the client, as an IPv4 host sees it through translation.
    pub const MAPPED4: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 99);
}

/// Root and the tools that every lab is built with.
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
        assert_eq!(received(json).unwrap(), 7);
        assert!(received("[]").is_err());
    }

    #[test]
    fn an_address_behind_the_prefix() {
        assert_eq!(behind_prefix(SERVER4).to_string(), "2001:db8:64::c000:202");
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
