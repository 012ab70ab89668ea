//! `strait digest` and `strait packet`: what comes on the stream, and packets into the program.

use std::collections::HashMap;

use anyhow::{Context, bail};
use p4runtime::notation::{self, Field, Named as _};
use proto::p4::config::v1::{self as config};
use proto::p4::v1::stream_message_request::Update as Request;
use proto::p4::v1::stream_message_response::Update;
use proto::p4::v1::{self, entity::Entity, p4_data::Data, update};
use serde_json::json;

use super::cells::data_text;
use super::{Session, mistake};
use crate::cli::clients::{DigestArgs, PacketArgs, PacketCommand};

/// Prints digests as they come. Digests that the device does not send yet are switched on.
pub fn digests(args: &DigestArgs) -> anyhow::Result<()> {
    let mut session = Session::open(&args.server)?;
    let info = session.info.clone();
    let wanted: Vec<&config::Digest> = match args.names.as_slice() {
        [] => info.digests.iter().collect(),
        names => {
            let find = |name: &String| notation::find(&info.digests, "digest", name).map_err(mistake);
            names.iter().map(find).collect::<anyhow::Result<_>>()?
        }
    };
    let config =
        Some(v1::digest_entry::Config { max_timeout_ns: 10_000_000, max_list_size: 100, ack_timeout_ns: 0 });
    for digest in &wanted {
        let digest_id = digest.preamble().map_or(0, |p| p.id);
        let entry = Entity::DigestEntry(v1::DigestEntry { digest_id, config });
        if session.read(entry.clone())?.is_empty() {
            session.write(update::Type::Insert, entry)?;
        }
    }
    session.client.become_primary()?;
    let names = names_of_fields(&info);
    let mut left = args.count.unwrap_or(u64::MAX);
    while left > 0 {
        let Some(Update::Digest(list)) = session.client.next(None)? else { continue };
        session.client.send(Request::DigestAck(v1::DigestListAck {
            digest_id: list.digest_id,
            list_id: list.list_id,
        }))?;
        for data in &list.data {
            print_digest(&session, &names, list.digest_id, data);
            left = left.saturating_sub(1);
        }
    }
    Ok(())
}

/// The names of the fields of structs, by the ids of the digests that have them.
fn names_of_fields(info: &config::P4Info) -> HashMap<u32, Vec<String>> {
    use config::p4_data_type_spec::TypeSpec;
    let fields = |digest: &config::Digest| {
        let Some(TypeSpec::Struct(named)) = digest.type_spec.as_ref()?.type_spec.as_ref() else {
            return None;
        };
        let found = info.type_info.as_ref()?.structs.get(&named.name)?;
        Some((digest.preamble()?.id, found.members.iter().map(|m| m.name.clone()).collect()))
    };
    info.digests.iter().filter_map(fields).collect()
}

fn print_digest(session: &Session, names: &HashMap<u32, Vec<String>>, digest: u32, data: &v1::P4Data) {
    let name = notation::alias(&session.info.digests, digest);
    let members = match &data.data {
        Some(Data::Struct(of)) => of.members.iter().map(data_text).collect(),
        _ => vec![data_text(data)],
    };
    let unnamed = Vec::new();
    let fields = names.get(&digest).unwrap_or(&unnamed);
    let named = |(at, value): (usize, &String)| {
        (fields.get(at).cloned().unwrap_or_else(|| format!("f{at}")), value.clone())
    };
    let pairs: Vec<(String, String)> = members.iter().enumerate().map(named).collect();
    if session.json {
        let fields: serde_json::Map<_, _> =
            pairs.into_iter().map(|(name, value)| (name, value.into())).collect();
        println!("{}", json!({"digest": name, "fields": fields}));
        return;
    }
    let pairs: Vec<String> = pairs.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    println!("{name} {}", pairs.join(" "));
}

/// Prints packets as they come, or sends one.
pub fn packets(args: &PacketArgs) -> anyhow::Result<()> {
    let mut session = Session::open(&args.server)?;
    session.client.become_primary()?;
    match &args.command {
        PacketCommand::In { count } => packets_in(&mut session, count.unwrap_or(u64::MAX)),
        PacketCommand::Out { hex: text, metadata } => {
            let packet = packet_out(&session, text, metadata)?;
            session.client.send(Request::Packet(packet))?;
            // An error, if there is one, comes soon.
            match session.client.next(Some(std::time::Duration::from_millis(200)))? {
                Some(Update::Error(error)) => bail!("{}", error.message),
                _ => Ok(()),
            }
        }
    }
}

fn fields_of<'i>(info: &'i config::P4Info, header: &str) -> Vec<Field<'i>> {
    let is = |h: &&config::ControllerPacketMetadata| h.preamble().is_some_and(|p| p.name == header);
    let found = info.controller_packet_metadata.iter().find(is);
    let field = |m: &'i config::controller_packet_metadata::Metadata| {
        notation::field(info, m.id, &m.name, m.bitwidth, m.type_name.as_ref(), &m.annotations)
    };
    found.map(|found| found.metadata.iter().map(field).collect()).unwrap_or_default()
}

fn packets_in(session: &mut Session, mut left: u64) -> anyhow::Result<()> {
    let info = session.info.clone();
    let fields = fields_of(&info, "packet_in");
    while left > 0 {
        let Some(Update::Packet(packet)) = session.client.next(None)? else { continue };
        left -= 1;
        let bytes: String = packet.payload.iter().map(|byte| format!("{byte:02x}")).collect();
        let pair = |m: &v1::PacketMetadata| {
            let field = fields.iter().find(|field| field.id == m.metadata_id)?;
            Some((field.name.to_string(), notation::show_value(field, &m.value)))
        };
        let pairs: Vec<(String, String)> = packet.metadata.iter().filter_map(pair).collect();
        if session.json {
            let metadata: serde_json::Map<_, _> =
                pairs.into_iter().map(|(name, value)| (name, value.into())).collect();
            println!("{}", json!({"packet": bytes, "metadata": metadata}));
            continue;
        }
        let pairs: Vec<String> = pairs.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        println!("{} {bytes}", pairs.join(" "));
    }
    Ok(())
}

fn packet_out(session: &Session, text: &str, metadata: &[String]) -> anyhow::Result<v1::PacketOut> {
    let fields = fields_of(&session.info, "packet_out");
    let mut given: HashMap<&str, &str> = HashMap::new();
    for pair in metadata {
        let (name, value) = pair.split_once('=').with_context(|| format!("`{pair}` is not NAME=VALUE"))?;
        let known: Vec<&str> = fields.iter().map(|field| field.name).collect();
        anyhow::ensure!(
            known.contains(&name),
            "there is no metadata `{name}`; there are {}",
            known.join(", ")
        );
        given.insert(name, value);
    }
    let field = |field: &Field<'_>| {
        // What is not given is padding.
        let value = given.get(field.name).copied().unwrap_or("0");
        let value = notation::parse_value(field, value).map_err(mistake)?;
        Ok(v1::PacketMetadata { metadata_id: field.id, value })
    };
    let metadata = fields.iter().map(field).collect::<anyhow::Result<_>>()?;
    Ok(v1::PacketOut { payload: hex(text)?, metadata })
}

/// Reads hexadecimal bytes.
fn hex(text: &str) -> anyhow::Result<Vec<u8>> {
    let digits: String = text.chars().filter(|c| !c.is_whitespace() && *c != ':').collect();
    let digits = digits.strip_prefix("0x").unwrap_or(&digits);
    if !digits.is_ascii() || !digits.len().is_multiple_of(2) {
        bail!("`{text}` is no even number of hexadecimal digits");
    }
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16);
    (0..digits.len())
        .step_by(2)
        .map(byte)
        .collect::<Result<_, _>>()
        .with_context(|| format!("`{text}` is not hexadecimal"))
}
