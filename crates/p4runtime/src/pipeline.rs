//! A forwarding pipeline: a program's P4Info, joined with the manifest of the program that runs. Objects are joined by their names.
//!
//! A controller brings its own P4Info. It may differ from that of the program in ids and in what people read, and it may omit objects. What it
//! has must be in the program: a table with other keys, or an action that the program does not have, is refused with its name.

use std::collections::HashMap;

use abi::id::{ActionId, CounterId, DigestId, MeterId, ProfileId, RegisterId, TableId, ValueSetId};
use abi::manifest::KeyField;
use abi::{Manifest, MatchKind};
use proto::p4::config::v1::{self as config, P4Info};

use super::{Status, data};

/// A forwarding pipeline that a controller sees by ids.
#[derive(Debug)]
pub struct Pipeline {
    /// The description that the controller has given.
    pub info: P4Info,
    /// The tables, by their ids.
    pub tables: HashMap<u32, Table>,
    /// The ids of the manifest's tables; `None` for those that the controller does not know.
    pub table_ids: Vec<Option<u32>>,
    /// The action profiles and selectors, by their ids.
    pub profiles: HashMap<u32, Profile>,
    /// The ids of the manifest's profiles.
    pub profile_ids: Vec<Option<u32>>,
    /// The indexed counters, by their ids.
    pub counters: Ids<CounterId>,
    /// The indexed meters, by their ids.
    pub meters: Ids<MeterId>,
    /// The types of the indexed and direct meters, by their ids.
    pub meter_kinds: HashMap<u32, i32>,
    /// The registers, by their ids.
    pub registers: Ids<RegisterId>,
    /// The value sets, and the fields of their members.
    pub value_sets: HashMap<u32, (ValueSetId, Vec<Field>)>,
    /// The digests, by their ids.
    pub digests: Ids<DigestId>,
    /// The fields of packets to the controller.
    pub packet_in: Option<PacketHeader>,
    /// The fields of packets from the controller.
    pub packet_out: Option<PacketHeader>,
}

/// A table, as a controller sees it.
#[derive(Debug)]
pub struct Table {
    /// The number in the manifest. `None`: the program does not apply the table, so no target has it.
    pub at: Option<TableId>,
    /// The full name.
    pub name: String,
    /// The fields of the key, in the order of the manifest.
    pub fields: Vec<Field>,
    /// The actions by their ids.
    pub actions: HashMap<u32, Action>,
    /// The id of each action of the manifest's table.
    pub action_ids: Vec<Option<u32>>,
    /// The id of the action profile, or 0.
    pub profile: u32,
    /// Whether entries have a counter.
    pub counter: bool,
    /// The id of the entries' meter, or 0.
    pub meter: u32,
}

/// A field of a key.
#[derive(Debug, Clone)]
pub struct Field {
    /// The id in the table.
    pub id: u32,
    /// The name and the width in bits in the program, and how it is compared.
    pub key: KeyField,
    /// How the controller's values become the program's.
    pub translation: Translation,
}

/// An action of a table.
#[derive(Debug)]
pub struct Action {
    /// The number in the table; of an action that the table has in the manifest.
    pub at: ActionId,
    /// The full name.
    pub name: String,
    /// The id, the name and the width of each parameter, in the order of the manifest.
    pub params: Vec<Param>,
}

/// A parameter of an action, or a field of a packet's metadata.
#[derive(Debug, Clone)]
pub struct Param {
    /// The id in the action or header.
    pub id: u32,
    /// The name in P4Info.
    pub name: String,
    /// The width in the program, in bits.
    pub width: u32,
    /// How the controller's values become the program's.
    pub translation: Translation,
}

/// How a controller's values become those of the program (`@p4runtime_translation`, section 8.4.6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Translation {
    /// The values are equal. A controller's type may be wider than that of the program.
    Same,
    /// The controller uses names. The type has this name.
    Names(String),
}

/// The header in front of a packet to or from the controller.
#[derive(Debug)]
pub struct PacketHeader {
    /// The fields in the order of the header.
    pub fields: Vec<Param>,
}

/// Objects with ids.
#[derive(Debug)]
pub struct Ids<I> {
    /// The numbers of the manifest, by id.
    pub at: HashMap<u32, I>,
    /// The ids, by the numbers of the manifest.
    pub ids: Vec<Option<u32>>,
}

/// An action profile or selector.
#[derive(Debug)]
pub struct Profile {
    /// The number in the manifest.
    pub at: ProfileId,
    /// Its description in P4Info.
    pub info: config::ActionProfile,
    /// The id of the first table that refers to it, whose actions members have.
    pub table: u32,
}

impl<I: Copy + From<usize>> Ids<I> {
    fn of<'a>(
        all: impl Iterator<Item = &'a Option<config::Preamble>>,
        names: Vec<&str>,
        what: &str,
    ) -> Result<Ids<I>, Status> {
        let mut found = Ids { at: HashMap::new(), ids: vec![None; names.len()] };
        for preamble in all {
            let (id, name) = head(preamble, what)?;
            let Some(at) = names.iter().position(|n| *n == name) else {
                return Err(missing(what, name));
            };
            found.at.insert(id, I::from(at));
            found.ids[at] = Some(id);
        }
        Ok(found)
    }
}

impl<I: Copy> Ids<I> {
    /// The number of an object.
    pub fn get(&self, id: u32, what: &str) -> Result<I, Status> {
        self.at.get(&id).copied().ok_or_else(|| no_such(what, id))
    }
}

/// `INVALID_ARGUMENT` for an id that P4Info does not have.
pub fn no_such(what: &str, id: u32) -> Status {
    Status::invalid(format!("there is no {what} with the id {id} (0x{id:08x})"))
}

fn missing(what: &str, name: &str) -> Status {
    Status::invalid(format!("P4Info has the {what} `{name}`, which the program does not have"))
}

fn head<'a>(preamble: &'a Option<config::Preamble>, what: &str) -> Result<(u32, &'a str), Status> {
    match preamble {
        Some(preamble) if preamble.id != 0 => Ok((preamble.id, &preamble.name)),
        Some(preamble) => Err(Status::invalid(format!("the {what} `{}` of P4Info has no id", preamble.name))),
        None => Err(Status::invalid(format!("a {what} of P4Info has no preamble"))),
    }
}

impl Pipeline {
    /// Joins a controller's P4Info with a program. `own` is the P4Info that the compiler has made of the program: it has tables that the program
    /// declares and does not apply, too.
    pub fn new(info: P4Info, own: &P4Info, manifest: &Manifest) -> Result<Pipeline, Status> {
        let counters = Ids::of(
            info.counters.iter().map(|c| &c.preamble),
            manifest.counters.iter().map(|c| c.name.as_str()).collect(),
            "counter",
        )?;
        let meters = Ids::of(
            info.meters.iter().map(|m| &m.preamble),
            manifest.meters.iter().map(|m| m.name.as_str()).collect(),
            "meter",
        )?;
        let registers = Ids::of(
            info.registers.iter().map(|r| &r.preamble),
            manifest.registers.iter().map(|r| r.name.as_str()).collect(),
            "register",
        )?;
        let digests = Ids::of(
            info.digests.iter().map(|d| &d.preamble),
            manifest.digests.iter().map(|d| d.name.as_str()).collect(),
            "digest",
        )?;
        let indexed = info.meters.iter().map(|m| (&m.preamble, &m.spec));
        let direct = info.direct_meters.iter().map(|m| (&m.preamble, &m.spec));
        let kind = |(preamble, spec): (&Option<config::Preamble>, &Option<config::MeterSpec>)| {
            Some((preamble.as_ref()?.id, spec.as_ref()?.r#type))
        };
        let meter_kinds = indexed.chain(direct).filter_map(kind).collect();
        let mut pipeline = Pipeline {
            tables: HashMap::new(),
            table_ids: vec![None; manifest.tables.len()],
            profiles: HashMap::new(),
            profile_ids: vec![None; manifest.profiles.len()],
            counters,
            meters,
            meter_kinds,
            registers,
            value_sets: HashMap::new(),
            digests,
            packet_in: None,
            packet_out: None,
            info,
        };
        pipeline.check_types()?;
        pipeline.add_tables(own, manifest)?;
        pipeline.add_profiles(manifest)?;
        pipeline.add_value_sets(manifest)?;
        pipeline.add_packet_headers()?;
        Ok(pipeline)
    }

    /// Checks the types of digests and registers, which values are made of later.
    fn check_types(&self) -> Result<(), Status> {
        let digests = self.info.digests.iter().map(|d| (&d.preamble, &d.type_spec));
        let registers = self.info.registers.iter().map(|r| (&r.preamble, &r.type_spec));
        for (preamble, spec) in digests.chain(registers) {
            if spec.as_ref().is_some_and(|spec| !data::is_finite(&self.info, spec)) {
                let name = preamble.as_ref().map_or("", |p| p.name.as_str());
                return Err(Status::invalid(format!(
                    "the type of `{name}` in P4Info is too large, or has itself inside"
                )));
            }
        }
        Ok(())
    }

    fn add_tables(&mut self, own: &P4Info, manifest: &Manifest) -> Result<(), Status> {
        for table in &self.info.tables {
            let (id, name) = head(&table.preamble, "table")?;
            let at = manifest.table_id(name);
            let is = |t: &config::Table| t.preamble.as_ref().is_some_and(|p| p.name == name);
            if at.is_none() && !own.tables.iter().any(is) {
                return Err(missing("table", name));
            }
            let made = self.table(table, name, at.map(|at| (at, &manifest.tables[at.index()])))?;
            if let Some(at) = at {
                self.table_ids[at.index()] = Some(id);
            }
            if self.tables.insert(id, made).is_some() {
                return Err(Status::invalid(format!("P4Info has two tables with the id {id}")));
            }
        }
        Ok(())
    }

    fn table(
        &self,
        table: &config::Table,
        name: &str,
        own: Option<(TableId, &abi::manifest::Table)>,
    ) -> Result<Table, Status> {
        let mut made = Table {
            at: own.map(|(at, _)| at),
            name: name.to_string(),
            fields: Vec::new(),
            actions: HashMap::new(),
            action_ids: Vec::new(),
            profile: table.implementation_id,
            counter: false,
            meter: 0,
        };
        let Some((_, own)) = own else { return Ok(made) };
        made.action_ids = vec![None; own.actions.len()];
        made.fields = self.fields(&table.match_fields, &own.keys, &format!("table `{name}`"))?;
        for reference in &table.action_refs {
            let found =
                self.info.actions.iter().find(|a| a.preamble.as_ref().is_some_and(|p| p.id == reference.id));
            let action = found.ok_or_else(|| no_such("action", reference.id))?;
            let (id, action_name) = head(&action.preamble, "action")?;
            // A table that nobody can add entries to may have lost an action that it lists.
            let Some(at) = own.action_id(action_name) else {
                return Err(Status::invalid(format!(
                    "table `{name}` of the program has no action `{action_name}`"
                )));
            };
            let params = &own.actions[at.index()].params;
            if params.len() != action.params.len() {
                return Err(Status::invalid(format!(
                    "action `{action_name}` of the program has {} parameters, and {} in P4Info",
                    params.len(),
                    action.params.len()
                )));
            }
            let param = |(p, own): (&config::action::Param, &abi::manifest::Param)| {
                self.param(p.id, &p.name, p.bitwidth, &p.type_name, own.width)
            };
            let params = action.params.iter().zip(params).map(param).collect::<Result<_, _>>()?;
            made.action_ids[at.index()] = Some(id);
            made.actions.insert(id, Action { at, name: action_name.to_string(), params });
        }
        for id in &table.direct_resource_ids {
            let is = |preamble: &Option<config::Preamble>| preamble.as_ref().is_some_and(|p| p.id == *id);
            if self.info.direct_counters.iter().any(|c| is(&c.preamble)) {
                made.counter = own.direct_counter.is_some();
            }
            if self.info.direct_meters.iter().any(|m| is(&m.preamble)) && own.direct_meter.is_some() {
                made.meter = *id;
            }
        }
        Ok(made)
    }

    /// The fields of a key or of a value set's members.
    fn fields(
        &self,
        fields: &[config::MatchField],
        keys: &[KeyField],
        of: &str,
    ) -> Result<Vec<Field>, Status> {
        if fields.len() != keys.len() {
            let (own, given) = (keys.len(), fields.len());
            return Err(Status::invalid(format!(
                "{of} of the program has {own} key fields, and {given} in P4Info"
            )));
        }
        let field = |(field, key): (&config::MatchField, &KeyField)| {
            use config::match_field::{Match, MatchType};
            let kind = match &field.r#match {
                Some(Match::MatchType(kind)) => MatchType::try_from(*kind).ok(),
                _ => None,
            };
            let same = matches!(
                (kind, key.kind),
                (Some(MatchType::Exact), MatchKind::Exact)
                    | (Some(MatchType::Lpm), MatchKind::Lpm)
                    | (Some(MatchType::Ternary), MatchKind::Ternary)
                    | (Some(MatchType::Range), MatchKind::Range)
                    | (Some(MatchType::Optional), MatchKind::Optional)
            );
            if !same {
                let text =
                    format!("field `{}` of {of} is matched as {:?} by the program", field.name, key.kind);
                return Err(Status::invalid(text));
            }
            let translation = self.translation(&field.name, field.bitwidth, &field.type_name, key.width)?;
            Ok(Field { id: field.id, key: key.clone(), translation })
        };
        fields.iter().zip(keys).map(field).collect()
    }

    fn param(
        &self,
        id: u32,
        name: &str,
        bitwidth: i32,
        type_name: &Option<config::P4NamedType>,
        width: u32,
    ) -> Result<Param, Status> {
        let translation = self.translation(name, bitwidth, type_name, width)?;
        Ok(Param { id, name: name.to_string(), width, translation })
    }

    /// How the values of something with this width and type become the program's.
    fn translation(
        &self,
        name: &str,
        bitwidth: i32,
        type_name: &Option<config::P4NamedType>,
        width: u32,
    ) -> Result<Translation, Status> {
        use config::p4_new_type_spec::Representation;
        use config::p4_new_type_translation::SdnType;
        let types = self.info.type_info.as_ref();
        let new = type_name.as_ref().and_then(|t| Some((t, types?.new_types.get(&t.name)?)));
        if let Some((named, spec)) = new
            && let Some(Representation::TranslatedType(translated)) = &spec.representation
        {
            return Ok(match translated.sdn_type {
                Some(SdnType::SdnString(_)) => Translation::Names(named.name.clone()),
                _ => Translation::Same,
            });
        }
        match bitwidth == 0 || bitwidth as u32 == width {
            true => Ok(Translation::Same),
            false => Err(Status::invalid(format!(
                "`{name}` has {width} bits in the program, and {bitwidth} in P4Info"
            ))),
        }
    }

    fn add_profiles(&mut self, manifest: &Manifest) -> Result<(), Status> {
        for profile in &self.info.action_profiles {
            let (id, name) = head(&profile.preamble, "action profile")?;
            let Some(at) = manifest.profiles.iter().position(|p| p.name == name) else {
                return Err(missing("action profile", name));
            };
            let first = manifest.profile_table(ProfileId::from(at));
            let table = first.and_then(|table| self.table_ids[table.index()]).unwrap_or(0);
            self.profile_ids[at] = Some(id);
            let made = Profile { at: ProfileId::from(at), info: profile.clone(), table };
            self.profiles.insert(id, made);
        }
        Ok(())
    }

    fn add_value_sets(&mut self, manifest: &Manifest) -> Result<(), Status> {
        let mut sets = HashMap::new();
        for set in &self.info.value_sets {
            let (id, name) = head(&set.preamble, "value set")?;
            let Some(at) = manifest.value_sets.iter().position(|s| s.name == name) else {
                return Err(missing("value set", name));
            };
            let fields =
                self.fields(&set.r#match, &manifest.value_sets[at].keys, &format!("value set `{name}`"))?;
            sets.insert(id, (ValueSetId::from(at), fields));
        }
        self.value_sets = sets;
        Ok(())
    }

    fn add_packet_headers(&mut self) -> Result<(), Status> {
        let header = |name: &str| {
            let is =
                |h: &&config::ControllerPacketMetadata| h.preamble.as_ref().is_some_and(|p| p.name == name);
            let Some(found) = self.info.controller_packet_metadata.iter().find(is) else { return Ok(None) };
            let field = |m: &config::controller_packet_metadata::Metadata| {
                let width = self.width(m.bitwidth, &m.type_name);
                let translation = self.translation(&m.name, m.bitwidth, &m.type_name, width)?;
                Ok(Param { id: m.id, name: m.name.clone(), width, translation })
            };
            let fields = found.metadata.iter().map(field).collect::<Result<_, Status>>()?;
            Ok::<_, Status>(Some(PacketHeader { fields }))
        };
        let (packet_in, packet_out) = (header("packet_in")?, header("packet_out")?);
        (self.packet_in, self.packet_out) = (packet_in, packet_out);
        Ok(())
    }

    /// The width of a packet's metadata in the program. P4Info has that of the controller only; of a translated type it cannot be known, and the
    /// width of a port in v1model is assumed.
    fn width(&self, bitwidth: i32, type_name: &Option<config::P4NamedType>) -> u32 {
        use config::p4_new_type_spec::Representation;
        let types = self.info.type_info.as_ref();
        let new = type_name.as_ref().and_then(|t| types?.new_types.get(&t.name));
        match new.and_then(|spec| spec.representation.as_ref()) {
            Some(Representation::TranslatedType(_)) => PORT_WIDTH,
            _ => bitwidth.max(0) as u32,
        }
    }

    /// A table with an id.
    pub fn table_of(&self, id: u32) -> Result<(TableId, &Table), Status> {
        let table = self.tables.get(&id).ok_or_else(|| no_such("table", id))?;
        match table.at {
            Some(at) => Ok((at, table)),
            None => {
                Err(Status::unimplemented(format!("the program does not apply the table `{}`", table.name)))
            }
        }
    }

    /// A table by its number in the manifest, with its id. `None` if the controller does not know it.
    pub fn table_at(&self, at: TableId) -> Option<(u32, &Table)> {
        let id = self.table_ids.get(at.index()).copied().flatten()?;
        self.tables.get(&id).map(|table| (id, table))
    }

    /// An action profile or selector.
    pub fn profile_of(&self, id: u32) -> Result<&Profile, Status> {
        self.profiles.get(&id).ok_or_else(|| no_such("action profile", id))
    }
}

/// The width of a port in v1model, in bits.
const PORT_WIDTH: u32 = 9;
