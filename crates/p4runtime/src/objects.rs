//! Parts of messages that reads and writes share.

use abi::{Bits, Manifest};
use dataplane::device::EntryKey;
use dataplane::{Count, Rate};
use proto::p4::config::v1::{P4DataTypeSpec, P4Info, meter_spec};
use proto::p4::v1::{self, entity, packet_replication_engine_entry as pre, replica::PortKind};

use super::names::Names;
use super::pipeline::Pipeline;
use super::{Code, Status, bytes, entry};

/// Units in a second for each unit in a microsecond.
const MICROSECONDS: f64 = 1e6;

/// The key of a table entry: its matches, and its priority if the table has priorities.
pub fn entry_key(
    pipeline: &Pipeline,
    names: &mut Names,
    manifest: &Manifest,
    given: &v1::TableEntry,
) -> Result<EntryKey, Status> {
    let (at, table) = pipeline.table_of(given.table_id)?;
    let own = &manifest.tables[at.index()];
    if own.keys.is_empty() {
        return Err(Status::invalid(format!("table `{}` has no key, so it has no entries", table.name)));
    }
    match (own.needs_priority(), given.priority) {
        (true, ..=0) => {
            return Err(Status::invalid(format!(
                "an entry of table `{}` needs a priority above 0",
                table.name
            )));
        }
        (false, priority) if priority != 0 => {
            return Err(Status::invalid(format!("table `{}` has no priorities", table.name)));
        }
        _ => {}
    }
    let matches = entry::matches(&table.fields, &given.r#match, names);
    let matches = matches.map_err(|e| e.at(format!("table `{}`", table.name)))?;
    Ok(EntryKey { table: at, matches, priority: given.priority })
}

/// A count that is written.
pub fn count(data: &v1::CounterData) -> Result<Count, Status> {
    match (u64::try_from(data.packet_count), u64::try_from(data.byte_count)) {
        (Ok(packets), Ok(bytes)) => Ok(Count { packets, bytes }),
        _ => Err(Status::invalid("a count is negative")),
    }
}

/// A count that is read.
pub fn counter_data(count: Count) -> v1::CounterData {
    v1::CounterData { byte_count: count.bytes as i64, packet_count: count.packets as i64 }
}

/// The rates of a meter of a type (section 9.4). Without a configuration every packet is green.
pub fn rates(config: Option<&v1::MeterConfig>, kind: i32) -> Result<Vec<Rate>, Status> {
    use meter_spec::Type;
    let Some(config) = config else { return Ok(Vec::new()) };
    let negative =
        [config.cir, config.cburst, config.pir, config.pburst, config.eburst].iter().any(|n| *n < 0);
    if negative {
        return Err(Status::invalid("a rate or a burst is negative"));
    }
    let one_rate = config.pir == config.cir && config.pburst == config.cburst;
    match Type::try_from(kind).unwrap_or_default() {
        Type::TwoRateThreeColor | Type::SingleRateTwoColor if config.eburst != 0 => {
            return Err(Status::invalid("a meter of this type has no excess burst (`eburst`)"));
        }
        Type::SingleRateThreeColor | Type::SingleRateTwoColor if !one_rate => {
            return Err(Status::invalid(
                "a meter of one rate has `pir` and `pburst` equal to `cir` and `cburst`",
            ));
        }
        Type::SingleRateThreeColor if config.eburst != 0 => {
            return Err(Status::unimplemented("an excess burst: meters have two rates (RFC 2698)"));
        }
        _ => {}
    }
    let rate = |per_second: i64, burst: i64| Rate {
        per_microsecond: per_second as f64 / MICROSECONDS,
        burst: burst as u64,
    };
    Ok(vec![rate(config.cir, config.cburst), rate(config.pir, config.pburst)])
}

/// The configuration of a meter; `None` if every packet is green.
pub fn meter_config(rates: &[Rate]) -> Option<v1::MeterConfig> {
    let committed = rates.first()?;
    let peak = rates.get(1).unwrap_or(committed);
    let per_second = |rate: &Rate| (rate.per_microsecond * MICROSECONDS).round() as i64;
    Some(v1::MeterConfig {
        cir: per_second(committed),
        cburst: committed.burst as i64,
        pir: per_second(peak),
        pburst: peak.burst as i64,
        eburst: 0,
    })
}

/// The cells that an index selects; all of them if there is none.
pub fn cells(index: Option<&v1::Index>, size: u64) -> Result<std::ops::Range<u64>, Status> {
    let Some(index) = index else { return Ok(0..size) };
    let found = u64::try_from(index.index);
    let found = found.map_err(|_| Status::invalid(format!("the index {} is negative", index.index)))?;
    match found < size {
        true => Ok(found..found + 1),
        false => {
            let text = format!("the index {found} is beyond the size of the array, {size}");
            Err(Status::new(Code::OutOfRange, text))
        }
    }
}

/// The index of a cell.
pub fn index(cell: u64) -> Option<v1::Index> {
    Some(v1::Index { index: cell as i64 })
}

/// The type of a register's cells.
pub fn register_type(info: &P4Info, id: u32) -> Result<&P4DataTypeSpec, Status> {
    let found = info.registers.iter().find(|r| r.preamble.as_ref().is_some_and(|p| p.id == id));
    let spec = found.and_then(|register| register.type_spec.as_ref());
    spec.ok_or_else(|| Status::invalid("P4Info does not have the type of the register"))
}

/// Counters of the colours of a meter are not there.
pub fn no_meter_counters(given: &Option<v1::MeterCounterData>) -> Result<(), Status> {
    match given {
        None => Ok(()),
        Some(_) => Err(Status::unimplemented("meters do not count packets by their colours")),
    }
}

/// A copy of a multicast group or clone session, as a server says it.
pub fn replica(instance: u32, port: u32) -> v1::Replica {
    let port = bytes::shortest(&Bits::new(32, port.into()));
    v1::Replica { port_kind: Some(PortKind::Port(port)), instance, backup_replicas: Vec::new() }
}

/// The same, as a client writes it to any server: older ones do not know ports as bytes, and BMv2's refuses port 0 in that form.
#[allow(deprecated)]
pub fn written_replica(instance: u32, port: u32) -> v1::Replica {
    v1::Replica { port_kind: Some(PortKind::EgressPort(port)), instance, backup_replicas: Vec::new() }
}

/// A backup of a replica.
pub fn backup_replica(instance: u32, port: u32) -> v1::BackupReplica {
    v1::BackupReplica { port: bytes::shortest(&Bits::new(32, port.into())), instance }
}

/// The entity of a multicast group or clone session.
pub fn replication(entry: pre::Type) -> entity::Entity {
    entity::Entity::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry { r#type: Some(entry) })
}
