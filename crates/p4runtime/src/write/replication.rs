//! Multicast groups and clone sessions (P4Runtime specification, section 9.5).
//!
//! A clone session with one replica goes to a port of the device. Every other one has a multicast group of its own, which controllers do not see.

use std::collections::HashSet;

use dataplane::device::{Entity, Key, Mirror, Update};
use proto::p4::v1::{self, replica::PortKind};

use super::super::kept::{Change, Session};
use super::super::links::Links;
use super::super::{Code, Status, bytes};
use super::{Batch, Kind, Made, put};

/// The number of multicast groups, where the device has no limit of its own: `mcast_grp` of v1model has 16 bits.
const GROUPS: u32 = 1 << 16;
/// The largest `instance`: `egress_rid` of v1model has 16 bits.
const INSTANCE: u32 = (1 << 16) - 1;

impl Batch<'_> {
    pub(super) fn multicast(&mut self, kind: Kind, given: &v1::MulticastGroupEntry) -> Made {
        let group = given.multicast_group_id;
        if group == 0 {
            return Err(Status::invalid("a multicast group's id is not 0"));
        }
        if self.kept.is_hidden_group(group) {
            let code = if kind == Kind::Insert { Code::AlreadyExists } else { Code::NotFound };
            return Err(Status::new(code, format!("the number {group} is used by a clone session")));
        }
        if kind == Kind::Delete {
            self.change(Change::Multicast(group, None));
            return Ok(vec![Update::Delete(Key::Multicast(group))]);
        }
        let copies = copies(&given.replicas, self.links)?;
        self.change(Change::Multicast(group, Some(given.clone())));
        Ok(vec![put(kind, Entity::Multicast { group, copies })])
    }

    pub(super) fn session(&mut self, kind: Kind, given: &v1::CloneSessionEntry) -> Made {
        let session = given.session_id;
        if session == 0 {
            return Err(Status::invalid("a clone session's id is not 0"));
        }
        let old = self.kept.session(session).and_then(|session| session.group);
        let forget = |group| Update::Delete(Key::Multicast(group));
        if kind == Kind::Delete {
            self.change(Change::Session(session, None));
            let mut made = vec![Update::Delete(Key::Session(session))];
            made.extend(old.map(forget));
            return Ok(made);
        }
        if given.class_of_service != 0 {
            return Err(Status::unimplemented("classes of service"));
        }
        if given.packet_length_bytes != 0 {
            return Err(Status::unimplemented("clones are not truncated"));
        }
        if given.replicas.iter().any(|replica| !replica.backup_replicas.is_empty()) {
            return Err(Status::unimplemented("backup replicas of clone sessions"));
        }
        let copies = copies(&given.replicas, self.links)?;
        let (mut made, to, group) = match copies.as_slice() {
            [(0, port)] => (Vec::new(), Mirror::Port(*port), None),
            _ => {
                let group = match old {
                    Some(group) => group,
                    None => self.kept.free_group(self.groups()).ok_or_else(|| {
                        Status::new(
                            Code::ResourceExhausted,
                            "no multicast group is left for the clone session",
                        )
                    })?,
                };
                (vec![Update::Set(Entity::Multicast { group, copies })], Mirror::Group(group), Some(group))
            }
        };
        made.push(put(kind, Entity::Session { session, to }));
        made.extend(old.filter(|_| group.is_none()).map(forget));
        self.change(Change::Session(session, Some(Session { entry: given.clone(), group })));
        Ok(made)
    }

    /// The number of multicast groups of the device.
    fn groups(&self) -> u32 {
        let kernel = self.device.manifest().kernel.as_ref();
        kernel.and_then(|kernel| kernel.copies.as_ref()).map_or(GROUPS, |copies| copies.numbers)
    }
}

/// The copies of a group, each as `egress_rid` and port. A replica has backup replicas: the first one takes its place whose port has a link, if it has
/// none itself. Where none has one, the replica stays, and its port loses the packet.
pub fn copies(replicas: &[v1::Replica], links: &Links) -> Result<Vec<(u32, u32)>, Status> {
    let mut copies = Vec::with_capacity(replicas.len());
    let mut seen = HashSet::new();
    for replica in replicas {
        let (primary, backups) = (copy(replica.instance, port(replica)?)?, backups(replica)?);
        if backups.iter().any(|(_, port)| *port == primary.1) {
            return Err(Status::invalid(format!("port {} is its own backup", primary.1)));
        }
        for (instance, port) in backups.iter().chain([&primary]) {
            if !seen.insert((*instance, *port)) {
                return Err(Status::invalid(format!("port {port} has the instance {instance} twice")));
            }
        }
        let is_up = |(_, port): &&(u32, u32)| links.is_up(*port);
        copies.push(match backups.is_empty() {
            true => primary,
            false => [primary].iter().chain(&backups).find(is_up).copied().unwrap_or(primary),
        });
    }
    Ok(copies)
}

/// The ports that decide who of a replica and its backups sends; none if it has no backups.
pub fn decisive(replica: &v1::Replica) -> impl Iterator<Item = u32> {
    let backups = backups(replica).unwrap_or_default();
    let primary = port(replica).ok().filter(|_| !backups.is_empty());
    backups.into_iter().map(|(_, port)| port).chain(primary)
}

fn backups(replica: &v1::Replica) -> Result<Vec<(u32, u32)>, Status> {
    let one = |backup: &v1::BackupReplica| copy(backup.instance, device_port(bytes::number(&backup.port)?)?);
    replica.backup_replicas.iter().map(one).collect()
}

fn copy(instance: u32, port: u32) -> Result<(u32, u32), Status> {
    match instance > INSTANCE {
        true => Err(Status::invalid(format!("the instance {instance} is beyond {INSTANCE}, the largest"))),
        false => Ok((instance, port)),
    }
}

#[allow(deprecated)]
fn port(replica: &v1::Replica) -> Result<u32, Status> {
    let port = match &replica.port_kind {
        Some(PortKind::Port(port)) => bytes::number(port)?,
        Some(PortKind::EgressPort(port)) => u64::from(*port),
        // Before version 1.4 `egress_port` was no `oneof`, so messages of older clients do not have it for port 0.
        None => 0,
    };
    device_port(port)
}

fn device_port(port: u64) -> Result<u32, Status> {
    match u32::try_from(port) {
        Ok(port) if port < abi::DROP_PORT => Ok(port),
        _ => Err(Status::invalid(format!("port {port} is beyond {}, the last one", abi::DROP_PORT - 1))),
    }
}
