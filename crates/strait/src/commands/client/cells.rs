//! `strait counter`, `strait meter` and `strait register`: arrays of cells.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use p4runtime::notation::{self, Field, Format, Kind, Named};
use proto::p4::config::v1::{self as config, p4_data_type_spec::TypeSpec};
use proto::p4::v1::{self, entity::Entity, p4_data::Data, update};
use serde_json::json;

use super::{Session, mistake, watch};
use crate::cli::clients::CellArgs;

/// Reads or writes counters.
pub fn counters(args: &CellArgs) -> anyhow::Result<()> {
    let mut session = Session::open(&args.server)?;
    let counters = session.info.counters.clone();
    let counter_id = id(&counters, "counter", args)?;
    let request = v1::CounterEntry { counter_id, index: index(args), data: None };
    if let Some(given) = &args.set {
        let [text] = given.as_slice() else { bail!("--set takes PACKETS[:BYTES]") };
        let (packets, bytes) = text.split_once(':').unwrap_or((text, "0"));
        let number = |text: &str| text.parse::<i64>().with_context(|| format!("`{text}` is no number"));
        let data = Some(v1::CounterData { packet_count: number(packets)?, byte_count: number(bytes)? });
        return session
            .write(update::Type::Modify, Entity::CounterEntry(v1::CounterEntry { data, ..request }));
    }
    let mut read = move || -> anyhow::Result<Cells> {
        let found = session.read(Entity::CounterEntry(request))?;
        let cell = |entity| match entity {
            Entity::CounterEntry(c) => {
                let data = c.data.unwrap_or_default();
                Some((at(&counters, c.counter_id, c.index), vec![data.packet_count, data.byte_count]))
            }
            _ => None,
        };
        Ok(found.into_iter().filter_map(cell).collect())
    };
    show_counts(args, &mut read)
}

/// The counts of cells, by the name and the number of each cell.
type Cells = BTreeMap<(String, i64), Vec<i64>>;

fn show_counts(args: &CellArgs, read: &mut dyn FnMut() -> anyhow::Result<Cells>) -> anyhow::Result<()> {
    let print = |cells: &Cells, before: Option<(&Cells, f64)>| {
        let mut all = Vec::new();
        for ((name, cell), counts) in cells {
            let (packets, bytes) = (counts[0], counts[1]);
            let old = before.and_then(|(before, _)| before.get(&(name.clone(), *cell)));
            let shown = match before {
                Some(_) => old != Some(counts),
                None => args.zero || packets != 0 || bytes != 0 || args.index.is_some(),
            };
            if !shown {
                continue;
            }
            let rate = before.map(|(_, seconds)| (packets - old.map_or(0, |old| old[0])) as f64 / seconds);
            if args.server.json {
                all.push(json!({"counter": name, "index": cell, "packets": packets, "bytes": bytes, "packets_per_second": rate}));
                continue;
            }
            let rate = rate.map_or(String::new(), |rate| format!("  {rate:.0} packets/s"));
            println!("{name}[{cell}]: {packets} packets, {bytes} bytes{rate}");
        }
        if args.server.json && (before.is_none() || !all.is_empty()) {
            println!("{}", serde_json::Value::from(all));
        }
    };
    if !args.watch {
        print(&read()?, None);
        return Ok(());
    }
    let mut before: Option<Cells> = None;
    watch(1.0, |seconds| {
        let now = read()?;
        if let Some(before) = &before {
            print(&now, Some((before, seconds)));
        }
        before = Some(now);
        Ok(())
    })
}

/// Reads or writes meters.
pub fn meters(args: &CellArgs) -> anyhow::Result<()> {
    let mut session = Session::open(&args.server)?;
    let meters = session.info.meters.clone();
    let meter_id = id(&meters, "meter", args)?;
    let request = v1::MeterEntry { meter_id, index: index(args), ..v1::MeterEntry::default() };
    if let Some(given) = &args.set {
        let config = rates(given)?;
        return session.write(update::Type::Modify, Entity::MeterEntry(v1::MeterEntry { config, ..request }));
    }
    let found = session.read(Entity::MeterEntry(request))?;
    let mut all = Vec::new();
    for entity in found {
        let Entity::MeterEntry(meter) = entity else { continue };
        if meter.config.is_none() && !args.zero && args.index.is_none() {
            continue;
        }
        let (name, cell) = at(&meters, meter.meter_id, meter.index);
        match (session.json, meter.config) {
            (true, config) => {
                let config = config
                    .map(|c| json!({"cir": c.cir, "cburst": c.cburst, "pir": c.pir, "pburst": c.pburst}));
                all.push(json!({"meter": name, "index": cell, "rates": config}));
            }
            (false, None) => println!("{name}[{cell}]: off"),
            (false, Some(c)) => println!("{name}[{cell}]: {}:{} {}:{}", c.cir, c.cburst, c.pir, c.pburst),
        }
    }
    if session.json {
        println!("{}", serde_json::Value::from(all));
    }
    Ok(())
}

/// `RATE:BURST [RATE:BURST]`, or `off`.
fn rates(given: &[String]) -> anyhow::Result<Option<v1::MeterConfig>> {
    if given == ["off"] {
        return Ok(None);
    }
    let rate = |text: &String| -> anyhow::Result<(i64, i64)> {
        let parsed =
            text.split_once(':').and_then(|(rate, burst)| Some((rate.parse().ok()?, burst.parse().ok()?)));
        parsed.with_context(|| format!("`{text}` is not RATE:BURST, in units a second and units"))
    };
    let committed = rate(&given[0])?;
    let peak = given.get(1).map(rate).transpose()?.unwrap_or(committed);
    let ((cir, cburst), (pir, pburst)) = (committed, peak);
    Ok(Some(v1::MeterConfig { cir, cburst, pir, pburst, eburst: 0 }))
}

/// Reads or writes registers.
pub fn registers(args: &CellArgs) -> anyhow::Result<()> {
    let mut session = Session::open(&args.server)?;
    let registers = session.info.registers.clone();
    let register_id = id(&registers, "register", args)?;
    let request = v1::RegisterEntry { register_id, index: index(args), data: None };
    if let Some(given) = &args.set {
        let [text] = given.as_slice() else { bail!("--set takes one value") };
        let register = notation::by_id(&registers, register_id).context("--set needs the register's name")?;
        let value = notation::parse_value(&cell_field(register)?, text).map_err(mistake)?;
        let data = Some(v1::P4Data { data: Some(Data::Bitstring(value)) });
        return session
            .write(update::Type::Modify, Entity::RegisterEntry(v1::RegisterEntry { data, ..request }));
    }
    let mut read = move || -> anyhow::Result<BTreeMap<(String, i64), String>> {
        let found = session.read(Entity::RegisterEntry(request.clone()))?;
        let cell = |entity| match entity {
            Entity::RegisterEntry(r) => {
                let text = r.data.as_ref().map_or_else(|| "?".to_string(), data_text);
                Some((at(&registers, r.register_id, r.index), text))
            }
            _ => None,
        };
        Ok(found.into_iter().filter_map(cell).collect())
    };
    let mut before = BTreeMap::new();
    let mut print = |first: bool| -> anyhow::Result<()> {
        let now = read()?;
        let mut all = Vec::new();
        for ((name, cell), value) in &now {
            let shown = match first {
                true => args.zero || value != "0" || args.index.is_some(),
                false => before.get(&(name.clone(), *cell)) != Some(value),
            };
            match (shown, args.server.json) {
                (false, _) => {}
                (true, true) => all.push(json!({"register": name, "index": cell, "value": value})),
                (true, false) => println!("{name}[{cell}] = {value}"),
            }
        }
        if args.server.json && (first || !all.is_empty()) {
            println!("{}", serde_json::Value::from(all));
        }
        before = now;
        Ok(())
    };
    match args.watch {
        false => print(true),
        true => {
            let mut first = true;
            watch(1.0, |_| print(std::mem::take(&mut first)))
        }
    }
}

/// The field of a register's cell, which is one number.
fn cell_field(register: &config::Register) -> anyhow::Result<Field<'_>> {
    use config::p4_bitstring_like_type_spec::TypeSpec as Bits;
    let spec = register.type_spec.as_ref().and_then(|spec| spec.type_spec.as_ref());
    let width = match spec {
        Some(TypeSpec::Bitstring(bits)) => match &bits.type_spec {
            Some(Bits::Bit(bit)) => Some(bit.bitwidth),
            _ => None,
        },
        _ => None,
    };
    let width = width.context("the cells of this register are no plain numbers (bit<W>)")?;
    Ok(Field { id: 0, name: "the cell", kind: Kind::Bits(width as u32), format: Format::Hex })
}

/// A value of any type.
pub(super) fn data_text(data: &v1::P4Data) -> String {
    let hex = |bytes: &[u8]| {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        match digits.trim_start_matches('0') {
            "" => "0".to_string(),
            digits => format!("0x{digits}"),
        }
    };
    let list = |members: &[v1::P4Data]| {
        format!("{{{}}}", members.iter().map(data_text).collect::<Vec<_>>().join(", "))
    };
    match &data.data {
        None => "?".to_string(),
        Some(Data::Bitstring(bytes) | Data::EnumValue(bytes)) => hex(bytes),
        Some(Data::Bool(value)) => value.to_string(),
        Some(Data::Struct(of) | Data::Tuple(of)) => list(&of.members),
        Some(Data::Header(header)) => {
            format!("{{{}}}", header.bitstrings.iter().map(|b| hex(b)).collect::<Vec<_>>().join(", "))
        }
        Some(Data::Enum(name) | Data::Error(name)) => name.clone(),
        Some(other) => format!("{other:?}"),
    }
}

fn id<T: Named>(all: &[T], what: &str, args: &CellArgs) -> anyhow::Result<u32> {
    let Some(name) = &args.name else {
        match args.set {
            None => return Ok(0),
            Some(_) => bail!("--set needs the name of the {what}"),
        }
    };
    let found = notation::find(all, what, name).map_err(mistake)?;
    Ok(found.preamble().map_or(0, |p| p.id))
}

fn index(args: &CellArgs) -> Option<v1::Index> {
    args.index.map(|index| v1::Index { index })
}

/// The name and the number of a cell.
fn at<T: Named>(all: &[T], id: u32, index: Option<v1::Index>) -> (String, i64) {
    (notation::alias(all, id), index.map_or(0, |index| index.index))
}
