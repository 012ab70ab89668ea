//! Roles: what a controller may read and write (P4Runtime specification, section 5.3).
//!
//! The specification leaves the form of a role's configuration open. Strait reads `stratum.P4RoleConfig`, which is the public one: lists of the ids
//! of tables, counters and other objects, and whether the role gets packets and may push a pipeline. Without a configuration a role may do all.

use proto::p4::v1::{self, entity};
use proto::{p4, type_url};

use super::{Code, Status, bytes};

/// The name of the configuration's message.
pub const CONFIG: &str = "stratum.P4RoleConfig";

/// What a role may do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scope {
    /// The ids that the role may write; `None` for all.
    ids: Option<Vec<u32>>,
    /// The packet-ins that the role does not get.
    no_packet_ins: bool,
    /// Packet-ins are for the role only with this value of a metadata field.
    filter: Option<(u32, Vec<u8>)>,
    /// Whether the role may not push a pipeline.
    no_pipeline: bool,
}

/// The message `stratum.P4RoleConfig`, with the numbers of its fields.
#[derive(Clone, PartialEq, prost::Message)]
struct RoleConfig {
    #[prost(uint32, repeated, tag = "1")]
    exclusive_p4_ids: Vec<u32>,
    #[prost(uint32, repeated, tag = "2")]
    shared_p4_ids: Vec<u32>,
    #[prost(message, optional, tag = "3")]
    packet_in_filter: Option<PacketFilter>,
    #[prost(bool, tag = "4")]
    receives_packet_ins: bool,
    #[prost(bool, tag = "5")]
    can_push_pipeline: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct PacketFilter {
    #[prost(uint32, tag = "1")]
    metadata_id: u32,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

impl Scope {
    /// The scope of a role's configuration.
    pub fn of(config: Option<&prost_types::Any>) -> Result<Scope, Status> {
        let Some(config) = config else { return Ok(Scope::default()) };
        let name = config.type_url.rsplit_once('/').map_or(config.type_url.as_str(), |(_, name)| name);
        if name != CONFIG {
            let url = type_url(CONFIG);
            return Err(Status::invalid(format!("the role's configuration is `{name}`; known is `{url}`")));
        }
        let read: Result<RoleConfig, _> = prost::Message::decode(config.value.as_slice());
        let read =
            read.map_err(|why| Status::invalid(format!("the role's configuration cannot be read: {why}")))?;
        let filter = read.packet_in_filter.filter(|filter| filter.metadata_id != 0);
        Ok(Scope {
            ids: Some([read.exclusive_p4_ids, read.shared_p4_ids].concat()),
            no_packet_ins: !read.receives_packet_ins,
            filter: filter.map(|filter| (filter.metadata_id, filter.value)),
            no_pipeline: !read.can_push_pipeline,
        })
    }

    /// Whether the role sees an object.
    pub fn has(&self, id: u32) -> bool {
        self.ids.as_ref().is_none_or(|ids| ids.contains(&id))
    }

    /// Whether the role may push a pipeline.
    pub fn check_pipeline(&self) -> Result<(), Status> {
        match self.no_pipeline {
            false => Ok(()),
            true => Err(Status::new(Code::PermissionDenied, "the role may not push a pipeline")),
        }
    }

    /// Whether the role may write an entity. Multicast groups and clone sessions have no ids, and are for every role.
    pub fn check_write(&self, of: &entity::Entity) -> Result<(), Status> {
        match id_of(of) {
            Some(id) if !self.has(id) => Err(Status::new(
                Code::PermissionDenied,
                format!("the role does not have the object 0x{id:08x}"),
            )),
            _ => Ok(()),
        }
    }

    /// Whether the role gets a packet.
    pub fn takes(&self, packet: &v1::PacketIn) -> bool {
        let Some((id, value)) = &self.filter else { return !self.no_packet_ins };
        let same = |m: &p4::v1::PacketMetadata| {
            m.metadata_id == *id && bytes::number(&m.value).ok() == bytes::number(value).ok()
        };
        !self.no_packet_ins && packet.metadata.iter().any(same)
    }
}

/// The id of the object that an entity belongs to.
pub fn id_of(of: &entity::Entity) -> Option<u32> {
    let table = |entry: &Option<v1::TableEntry>| entry.as_ref().map(|entry| entry.table_id);
    match of {
        entity::Entity::ExternEntry(entry) => Some(entry.extern_id),
        entity::Entity::TableEntry(entry) => Some(entry.table_id),
        entity::Entity::ActionProfileMember(member) => Some(member.action_profile_id),
        entity::Entity::ActionProfileGroup(group) => Some(group.action_profile_id),
        entity::Entity::MeterEntry(meter) => Some(meter.meter_id),
        entity::Entity::DirectMeterEntry(meter) => table(&meter.table_entry),
        entity::Entity::CounterEntry(counter) => Some(counter.counter_id),
        entity::Entity::DirectCounterEntry(counter) => table(&counter.table_entry),
        entity::Entity::PacketReplicationEngineEntry(_) => None,
        entity::Entity::ValueSetEntry(set) => Some(set.value_set_id),
        entity::Entity::RegisterEntry(register) => Some(register.register_id),
        entity::Entity::DigestEntry(digest) => Some(digest.digest_id),
    }
}
