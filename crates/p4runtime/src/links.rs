//! What depends on the links of ports (P4Runtime specification, sections 9.2.2, 9.2.3, 9.5.1): a member of an action profile whose watch port has no link is left
//! out of the group that the device has, and a backup replica takes the place of one whose port has none. Controllers read what they have written.

use std::collections::BTreeMap;

use dataplane::device::{Entity, Update};
use proto::p4::v1::action_profile_group::{Member, member};
use proto::p4::v1::{self, action_profile_action};

use super::kept::{Kept, OneShot};
use super::write::{copies, decisive, repeated};
use super::{Status, bytes};

/// The ports of a device, and which of them have a link.
#[derive(Clone, Debug, Default)]
pub struct Links(BTreeMap<u32, bool>);

impl Links {
    /// Replaces what is known of the ports. Returns those whose links have changed; ports that come have changed.
    pub fn replace(&mut self, ports: BTreeMap<u32, bool>) -> Vec<u32> {
        let changed = |(port, up): (&u32, &bool)| (self.0.get(port) != Some(up)).then_some(*port);
        let changed = ports.iter().filter_map(changed).collect();
        self.0 = ports;
        changed
    }

    /// Whether a port has no link.
    pub(super) fn any_down(&self) -> bool {
        self.0.values().any(|up| !up)
    }

    /// Whether a port has a link. One that the device does not have has none.
    pub(super) fn is_up(&self, port: u32) -> bool {
        self.0.get(&port) == Some(&true)
    }

    /// The members of a group that take part in selections, each as often as it weighs.
    pub(super) fn of_group(&self, group: &v1::ActionProfileGroup) -> Result<Vec<u32>, Status> {
        let one = |member: &Member| Ok((member.member_id, member.weight, watched_by_member(member)?));
        self.live(&group.members.iter().map(one).collect::<Result<Vec<_>, Status>>()?)
    }

    /// The same of a one-shot, whose members the device has under the numbers `ids`.
    pub(super) fn of_set(&self, set: &v1::ActionProfileActionSet, ids: &[u32]) -> Result<Vec<u32>, Status> {
        let one = |(action, id): (&v1::ActionProfileAction, &u32)| {
            Ok((*id, action.weight, watched_by_action(action)?))
        };
        let actions = set.action_profile_actions.iter().zip(ids);
        self.live(&actions.map(one).collect::<Result<Vec<_>, Status>>()?)
    }

    /// Which of some members take part. Each has its number, its weight, and the port that it watches, which must exist.
    fn live(&self, members: &[(u32, i32, Option<u32>)]) -> Result<Vec<u32>, Status> {
        if let Some(port) =
            members.iter().filter_map(|(.., port)| *port).find(|port| !self.0.contains_key(port))
        {
            return Err(no_port(port.into()));
        }
        // A group that has room without some members has room with all of them.
        let weighed = |(id, weight, _): &(u32, i32, _)| (*id, *weight);
        repeated(&members.iter().map(weighed).collect::<Vec<_>>())?;
        let up = |(.., port): &&(u32, i32, Option<u32>)| port.is_none_or(|port| self.is_up(port));
        repeated(&members.iter().filter(up).map(weighed).collect::<Vec<_>>())
    }

    /// The updates that give groups the members and copies that take part now, after the links of some ports have changed.
    pub(super) fn regroup(&self, kept: &Kept, changed: &[u32]) -> Vec<Update> {
        let watches =
            |port: Result<Option<u32>, Status>| matches!(port, Ok(Some(port)) if changed.contains(&port));
        let groups = kept
            .groups()
            .filter(|(_, group)| group.members.iter().any(|member| watches(watched_by_member(member))))
            .filter_map(|((profile, id), group)| Some((*profile, *id, self.of_group(group).ok()?)));
        let sets = kept
            .one_shots()
            .filter(|one| {
                one.set.action_profile_actions.iter().any(|action| watches(watched_by_action(action)))
            })
            .filter_map(|OneShot { profile, set, group, members }| {
                Some((*profile, *group, self.of_set(set, members).ok()?))
            });
        let selected =
            groups.chain(sets).map(|(profile, id, members)| Entity::Group { profile, id, members });
        let copied = kept
            .multicasts()
            .filter(|(_, group)| group.replicas.iter().flat_map(decisive).any(|port| changed.contains(&port)))
            .filter_map(|(group, entry)| {
                Some(Entity::Multicast { group: *group, copies: copies(&entry.replicas, self).ok()? })
            });
        selected.chain(copied).map(Update::Modify).collect()
    }
}

// `watch` is the field of versions before 1.1.
#[allow(deprecated)]
fn watched_by_member(member: &Member) -> Result<Option<u32>, Status> {
    match &member.watch_kind {
        Some(member::WatchKind::WatchPort(port)) => watched(port),
        Some(member::WatchKind::Watch(port)) => watched(&number(*port)),
        None => Ok(None),
    }
}

#[allow(deprecated)]
fn watched_by_action(action: &v1::ActionProfileAction) -> Result<Option<u32>, Status> {
    match &action.watch_kind {
        Some(action_profile_action::WatchKind::WatchPort(port)) => watched(port),
        Some(action_profile_action::WatchKind::Watch(port)) => watched(&number(*port)),
        None => Ok(None),
    }
}

/// A port as bytes; 0 is none.
fn number(port: i32) -> Vec<u8> {
    if port == 0 { Vec::new() } else { port.to_be_bytes().to_vec() }
}

/// A port from its bytes; none are no port.
fn watched(port: &[u8]) -> Result<Option<u32>, Status> {
    if port.is_empty() {
        return Ok(None);
    }
    let number = bytes::number(port)?;
    u32::try_from(number).map(Some).map_err(|_| no_port(number))
}

fn no_port(port: u64) -> Status {
    Status::invalid(format!("a member watches port {port}, which the device does not have"))
}
