//! The other end of a veth pair, also if it is in another network namespace.

use std::collections::HashSet;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use netlink_packet_route::RouteNetlinkMessage as Rtnl;
use netlink_packet_route::nsid::{NsidAttribute, NsidMessage};

use super::{Handle, Link, features};
use crate::{Result, netns};

/// The other end of a veth pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The name of the interface in its namespace.
    pub name: String,
    /// The file of the namespace, if it is not that of the calling thread.
    pub namespace: Option<PathBuf>,
    /// Whether it leaves checksums incomplete, for a card to complete.
    pub tx_checksum: bool,
    /// Whether it aggregates packets that arrive. It then polls for frames, and takes those that XDP redirects.
    pub gro: bool,
}

impl Peer {
    /// The command that changes an offload of this interface.
    pub fn ethtool(&self, change: &str) -> String {
        let command = format!("ethtool -K {} {change}", self.name);
        let Some(file) = &self.namespace else { return command };
        match (file.parent(), file.file_name()) {
            (Some(parent), Some(name)) if parent == Path::new(NAMED) => {
                format!("ip netns exec {} {command}", name.to_string_lossy())
            }
            _ => format!("nsenter --net={} {command}", file.display()),
        }
    }

    fn read(name: &str, namespace: Option<PathBuf>) -> Result<Peer> {
        let (tx_checksum, gro) = (features::tx_checksum(name)?, features::gro(name)?);
        Ok(Peer { name: name.to_owned(), namespace, tx_checksum, gro })
    }
}

const NAMED: &str = "/run/netns";

/// Finds the other end of a veth pair. Returns `None` if its namespace cannot be found: it is then neither named nor that of a process that
/// this one sees.
pub fn peer_of(link: &Link) -> Result<Option<Peer>> {
    let Some(index) = link.peer else { return Ok(None) };
    let Some(number) = link.peer_namespace else { return here(index, None) };
    let handle = Handle::open()?;
    for file in namespaces() {
        let Ok(open) = File::open(&file) else { continue };
        if handle.namespace_number(&open) == Some(number) {
            return match netns::run_in(&file, || here(index, Some(file.clone()))) {
                Ok(found) => found,
                Err(_) => Ok(None),
            };
        }
    }
    Ok(None)
}

/// The interface with this index in the calling thread's namespace.
fn here(index: u32, namespace: Option<PathBuf>) -> Result<Option<Peer>> {
    let found = Handle::open()?.links()?.into_iter().find(|l| l.index == index);
    found.map(|link| Peer::read(&link.name, namespace)).transpose()
}

/// The files of all namespaces that can be found, each namespace once: the named ones, and those of processes.
fn namespaces() -> Vec<PathBuf> {
    let entries = |dir: &str| {
        let mut paths: Vec<PathBuf> =
            fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path()).collect();
        paths.sort();
        paths
    };
    let is_process = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().bytes().all(|c| c.is_ascii_digit()))
    };
    let processes = entries("/proc").into_iter().filter(is_process).map(|path| path.join("ns/net"));
    let mut seen = HashSet::new();
    let new = |file: &PathBuf| fs::metadata(file).is_ok_and(|m| seen.insert(m.ino()));
    entries(NAMED).into_iter().chain(processes).filter(new).collect()
}

impl Handle {
    /// The number that the handle's namespace has for another one; `None` if it has none.
    fn namespace_number(&self, namespace: &File) -> Option<i32> {
        let mut message = NsidMessage::default();
        message.attributes.push(NsidAttribute::Fd(namespace.as_raw_fd() as u32));
        let answers = self.ask(Rtnl::GetNsId(message)).ok()?;
        answers.into_iter().find_map(|answer| match answer {
            Rtnl::NewNsId(message) => message.attributes.iter().find_map(|a| match a {
                NsidAttribute::Id(number) if *number >= 0 => Some(*number),
                _ => None,
            }),
            _ => None,
        })
    }
}
