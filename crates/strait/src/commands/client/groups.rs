//! `strait group`: multicast groups, clone sessions, and the members and groups of action profiles.

use anyhow::Context;
use p4runtime::notation::{self, Named as _, Share};
use p4runtime::{backup_replica, replication, written_replica};
use proto::p4::v1::action_profile_group::member::WatchKind;
use proto::p4::v1::replica::PortKind;
use proto::p4::v1::{
    self, action_profile_group, entity::Entity, packet_replication_engine_entry::Type, update,
};
use serde_json::json;

use super::{Session, make, mistake, put, words};
use crate::cli::clients::{GroupArgs, GroupCommand};

/// Runs a command about groups.
pub fn run(args: &GroupArgs) -> anyhow::Result<()> {
    let mut session = Session::open(&args.server)?;
    match &args.command {
        GroupCommand::List => list(&mut session),
        GroupCommand::Multicast { group, ports } => {
            let key = replicated(*group, Vec::new(), false);
            set(&mut session, ports.is_empty(), key, || Ok(replicated(*group, replicas(ports)?, false)))
        }
        GroupCommand::Clone { session: number, ports } => {
            let key = replicated(*number, Vec::new(), true);
            set(&mut session, ports.is_empty(), key, || Ok(replicated(*number, replicas(ports)?, true)))
        }
        GroupCommand::Member { profile, member, action } => {
            let info = session.info.clone();
            let action_profile_id = id(&session, profile)?;
            let entry = |action| {
                Entity::ActionProfileMember(v1::ActionProfileMember {
                    action_profile_id,
                    member_id: *member,
                    action,
                })
            };
            set(&mut session, action.is_empty(), entry(None), || {
                Ok(entry(Some(notation::action(&info, &words(action)).map_err(mistake)?)))
            })
        }
        GroupCommand::Members { profile, group, members } => {
            let action_profile_id = id(&session, profile)?;
            let entry = |members| {
                let group_id = *group;
                Entity::ActionProfileGroup(v1::ActionProfileGroup {
                    action_profile_id,
                    group_id,
                    members,
                    max_size: 0,
                })
            };
            set(&mut session, members.is_empty(), entry(Vec::new()), || {
                Ok(entry(members.iter().map(|text| member(text)).collect::<anyhow::Result<_>>()?))
            })
        }
    }
}

/// A multicast group, or a clone session.
fn replicated(number: u32, replicas: Vec<v1::Replica>, clone: bool) -> Entity {
    replication(match clone {
        true => Type::CloneSessionEntry(v1::CloneSessionEntry {
            session_id: number,
            replicas,
            ..Default::default()
        }),
        false => Type::MulticastGroupEntry(v1::MulticastGroupEntry {
            multicast_group_id: number,
            replicas,
            ..Default::default()
        }),
    })
}

/// The update that sets a multicast group or a clone session, whether it exists or not. `copies` are pairs of instance and port.
pub(super) fn set_replicated(
    session: &mut Session,
    number: u32,
    copies: &[(u32, u32)],
    clone: bool,
) -> anyhow::Result<v1::Update> {
    let replicas = copies.iter().map(|(instance, port)| written_replica(*instance, *port)).collect();
    let exists = !session.read(replicated(number, Vec::new(), clone))?.is_empty();
    Ok(make(put(exists), replicated(number, replicas, clone)))
}

/// Removes an entity, or writes it, whether it exists or not. `key` is the entity without its value.
fn set(
    session: &mut Session,
    remove: bool,
    key: Entity,
    entity: impl FnOnce() -> anyhow::Result<Entity>,
) -> anyhow::Result<()> {
    if remove {
        return session.write(update::Type::Delete, key);
    }
    let exists = !session.read(key)?.is_empty();
    session.write(put(exists), entity()?)
}

/// The replicas that words name, each as `PORT[:INSTANCE]`; backup replicas follow behind commas.
fn replicas(ports: &[String]) -> anyhow::Result<Vec<v1::Replica>> {
    let place = |text: &str| {
        let (port, instance) = text.split_once(':').unwrap_or((text, "0"));
        port.parse::<u32>().ok().zip(instance.parse::<u32>().ok())
    };
    let one = |text: &String| {
        let places: Option<Vec<(u32, u32)>> = text.split(',').map(place).collect();
        let places = places.with_context(|| format!("`{text}` is not PORT[:INSTANCE][,PORT[:INSTANCE]…]"))?;
        let (port, instance) = places[0];
        let backup_replicas =
            places[1..].iter().map(|(port, instance)| backup_replica(*instance, *port)).collect();
        Ok(v1::Replica { backup_replicas, ..written_replica(instance, port) })
    };
    ports.iter().map(one).collect()
}

/// The member that a word names, as `MEMBER[*WEIGHT][@PORT]`.
fn member(text: &str) -> anyhow::Result<action_profile_group::Member> {
    let (member, share) = text.split_at(text.find(['*', '@']).unwrap_or(text.len()));
    let parsed = member.parse().ok().zip(Share::parse(share));
    let (member_id, share) = parsed.with_context(|| format!("`{text}` is not MEMBER[*WEIGHT][@PORT]"))?;
    let watch_kind = share.watch_port().map(WatchKind::WatchPort);
    Ok(action_profile_group::Member { member_id, weight: share.weight, watch_kind })
}

/// The same word of a member.
fn member_text(member: &action_profile_group::Member) -> String {
    let port = match &member.watch_kind {
        Some(WatchKind::WatchPort(port)) => Some(port.as_slice()),
        _ => None,
    };
    format!("{}{}", member.member_id, Share::text(member.weight, port))
}

fn id(session: &Session, name: &str) -> anyhow::Result<u32> {
    let found = notation::find(&session.info.action_profiles, "action profile", name).map_err(mistake)?;
    Ok(found.preamble().map_or(0, |p| p.id))
}

fn list(session: &mut Session) -> anyhow::Result<()> {
    let requests = [
        replication(Type::MulticastGroupEntry(v1::MulticastGroupEntry::default())),
        replication(Type::CloneSessionEntry(v1::CloneSessionEntry::default())),
        Entity::ActionProfileMember(v1::ActionProfileMember::default()),
        Entity::ActionProfileGroup(v1::ActionProfileGroup::default()),
    ];
    let mut all = Vec::new();
    for request in requests {
        for entity in session.read(request)? {
            let Some((kind, name, value)) = described(session, &entity) else { continue };
            match session.json {
                true => all.push(json!({"kind": kind, "name": name, "value": value})),
                false => println!("{kind} {name}: {value}"),
            }
        }
    }
    if session.json {
        println!("{}", serde_json::Value::from(all));
    }
    Ok(())
}

/// The kind of an entity, its name and its value, as the commands take them.
fn described(session: &Session, entity: &Entity) -> Option<(&'static str, String, String)> {
    let profile = |id| notation::alias(&session.info.action_profiles, id);
    Some(match entity {
        Entity::PacketReplicationEngineEntry(entry) => match entry.r#type.as_ref()? {
            Type::MulticastGroupEntry(g) => {
                ("multicast", g.multicast_group_id.to_string(), ports(&g.replicas))
            }
            Type::CloneSessionEntry(s) => ("clone", s.session_id.to_string(), ports(&s.replicas)),
        },
        Entity::ActionProfileMember(m) => {
            let action =
                m.action.as_ref().map(|a| notation::action_text(&session.info, a)).unwrap_or_default();
            ("member", format!("{} {}", profile(m.action_profile_id), m.member_id), action)
        }
        Entity::ActionProfileGroup(g) => {
            let members: Vec<String> = g.members.iter().map(member_text).collect();
            ("members", format!("{} {}", profile(g.action_profile_id), g.group_id), members.join(" "))
        }
        _ => return None,
    })
}

#[allow(deprecated)]
fn ports(replicas: &[v1::Replica]) -> String {
    let number = |bytes: &[u8]| bytes.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
    let port = |r: &v1::Replica| match &r.port_kind {
        Some(PortKind::Port(bytes)) => number(bytes),
        Some(PortKind::EgressPort(port)) => u64::from(*port),
        None => 0,
    };
    let one = |r: &v1::Replica| {
        let backups = r.backup_replicas.iter().map(|backup| (number(&backup.port), backup.instance));
        let places = std::iter::once((port(r), r.instance)).chain(backups);
        places.map(|(port, instance)| format!("{port}:{instance}")).collect::<Vec<_>>().join(",")
    };
    replicas.iter().map(one).collect::<Vec<_>>().join(" ")
}
