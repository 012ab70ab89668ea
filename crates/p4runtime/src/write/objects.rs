//! Counters, meters, registers, value sets and digests (P4Runtime specification, sections 9.3, 9.4 and 9.6 to 9.8).

use std::collections::HashSet;

use abi::Bits;
use dataplane::device::{Entity, Update};
use proto::p4::v1;

use super::super::kept::Change;
use super::super::pipeline::no_such;
use super::super::{Code, Status, data, entry, objects};
use super::{Batch, Kind, Made, modify_only};

impl Batch<'_> {
    pub(super) fn counter(&mut self, kind: Kind, given: &v1::CounterEntry) -> Made {
        modify_only(kind, "a counter's cell")?;
        let counter = self.pipeline.counters.get(given.counter_id, "counter")?;
        let size = self.device.manifest().counters[counter.index()].size;
        let cells = objects::cells(given.index.as_ref(), size)?;
        let Some(data) = &given.data else { return Ok(Vec::new()) };
        let count = objects::count(data)?;
        Ok(cells.map(|index| Update::Modify(Entity::Counter { counter, index, count })).collect())
    }

    pub(super) fn meter(&mut self, kind: Kind, given: &v1::MeterEntry) -> Made {
        modify_only(kind, "a meter's cell")?;
        objects::no_meter_counters(&given.counter_data)?;
        let meter = self.pipeline.meters.get(given.meter_id, "meter")?;
        let size = self.device.manifest().meters[meter.index()].size.unwrap_or_default();
        let cells = objects::cells(given.index.as_ref(), size)?;
        let kind = self.pipeline.meter_kinds.get(&given.meter_id).copied().unwrap_or_default();
        let rates = objects::rates(given.config.as_ref(), kind)?;
        Ok(cells.map(|index| Update::Modify(Entity::Meter { meter, index, rates: rates.clone() })).collect())
    }

    pub(super) fn register(&mut self, kind: Kind, given: &v1::RegisterEntry) -> Made {
        modify_only(kind, "a register's cell")?;
        let register = self.pipeline.registers.get(given.register_id, "register")?;
        let own = &self.device.manifest().registers[register.index()];
        let (cells, width) = (objects::cells(given.index.as_ref(), own.size)?, own.width);
        let info = &self.pipeline.info;
        let spec = objects::register_type(info, given.register_id)?;
        let given = given.data.as_ref().ok_or_else(|| Status::invalid("the data is not set"))?;
        let value = data::write(info, spec, given, Bits::zero(0))?.resize(width);
        Ok(cells
            .map(|index| Update::Modify(Entity::Register { register, index, value: value.clone() }))
            .collect())
    }

    pub(super) fn value_set(&mut self, kind: Kind, given: &v1::ValueSetEntry) -> Made {
        modify_only(kind, "a value set")?;
        let found = self.pipeline.value_sets.get(&given.value_set_id);
        let (set, fields) = found.ok_or_else(|| no_such("value set", given.value_set_id))?;
        let mut members = Vec::with_capacity(given.members.len());
        let mut seen = HashSet::new();
        for member in &given.members {
            let member = entry::matches(fields, &member.r#match, &mut self.kept.names)?;
            if !seen.insert(member.clone()) {
                return Err(Status::new(Code::AlreadyExists, "the value set has a member twice"));
            }
            members.push(member);
        }
        Ok(vec![Update::Modify(Entity::ValueSet { set: *set, members })])
    }

    pub(super) fn digest(&mut self, kind: Kind, given: &v1::DigestEntry) -> Made {
        self.pipeline.digests.get(given.digest_id, "digest")?;
        let known = self.kept.digest(given.digest_id).is_some();
        let config = given.config.unwrap_or_default();
        if config.max_timeout_ns < 0 || config.max_list_size < 0 || config.ack_timeout_ns < 0 {
            return Err(Status::invalid("a setting of the digest is negative"));
        }
        match (kind, known) {
            (Kind::Insert, true) => {
                return Err(Status::new(Code::AlreadyExists, "the digest is sent already"));
            }
            (Kind::Modify | Kind::Delete, false) => return Err(Status::not_found("the digest is not sent")),
            (Kind::Delete, true) => self.change(Change::Digest(given.digest_id, None)),
            _ => self.change(Change::Digest(given.digest_id, Some(config))),
        }
        Ok(Vec::new())
    }
}
