//! Packets to and from the controller (P4Runtime specification, section 16.1): the metadata of a message is a header in front of the packet.

use abi::Bits;
use proto::p4::v1;

use super::names::Names;
use super::pipeline::{PacketHeader, Pipeline, no_such};
use super::{Status, entry};

/// The frame of a packet from the controller: its header, padded to whole bytes, and the payload.
pub fn packet_out(pipeline: &Pipeline, names: &mut Names, packet: &v1::PacketOut) -> Result<Vec<u8>, Status> {
    joined("packet_out", &pipeline.packet_out, &packet.metadata, &packet.payload, names)
}

/// The message of a frame for the controller; `None` if the frame is shorter than its header.
pub fn packet_in(pipeline: &Pipeline, names: &Names, frame: &[u8]) -> Option<v1::PacketIn> {
    let (metadata, payload) = split(&pipeline.packet_in, names, frame)?;
    Some(v1::PacketIn { payload, metadata })
}

/// At the controller's end: the frame of a packet-in that a server has sent.
pub fn received(pipeline: &Pipeline, names: &mut Names, packet: &v1::PacketIn) -> Result<Vec<u8>, Status> {
    joined("packet_in", &pipeline.packet_in, &packet.metadata, &packet.payload, names)
}

/// At the controller's end: the packet-out of a frame; `None` if the frame is shorter than its header.
pub fn to_send(pipeline: &Pipeline, names: &Names, frame: &[u8]) -> Option<v1::PacketOut> {
    let (metadata, payload) = split(&pipeline.packet_out, names, frame)?;
    Some(v1::PacketOut { payload, metadata })
}

/// A header and the payload behind it, as one frame.
fn joined(
    name: &str,
    header: &Option<PacketHeader>,
    metadata: &[v1::PacketMetadata],
    payload: &[u8],
    names: &mut Names,
) -> Result<Vec<u8>, Status> {
    let mut frame = match header {
        Some(header) => header_bytes(header, metadata, names)?,
        None if metadata.is_empty() => Vec::new(),
        None => {
            return Err(Status::invalid(format!(
                "the program has no header `{name}`, so packets have no metadata"
            )));
        }
    };
    frame.extend_from_slice(payload);
    Ok(frame)
}

fn header_bytes(
    header: &PacketHeader,
    given: &[v1::PacketMetadata],
    names: &mut Names,
) -> Result<Vec<u8>, Status> {
    if let Some(unknown) = given.iter().find(|m| !header.fields.iter().any(|f| f.id == m.metadata_id)) {
        return Err(no_such("metadata field", unknown.metadata_id));
    }
    if given.len() > header.fields.len() {
        return Err(Status::invalid("a metadata field is given twice"));
    }
    // Whole bytes are written as soon as there are some: numbers of many bits cost more than several of few.
    let (mut bytes, mut rest) = (Vec::new(), Bits::zero(0));
    for field in &header.fields {
        let found = given.iter().find(|m| m.metadata_id == field.id);
        let found = found
            .ok_or_else(|| Status::invalid(format!("the metadata field `{}` is missing", field.name)))?;
        rest = rest.concat(&entry::param_value(&found.value, field, names)?);
        if rest.width().is_multiple_of(8) {
            bytes.extend(rest.to_bytes_be());
            rest = Bits::zero(0);
        }
    }
    let padding = rest.width().next_multiple_of(8) - rest.width();
    bytes.extend(rest.concat(&Bits::zero(padding)).to_bytes_be());
    Ok(bytes)
}

/// The fields of a header in front of a frame, and the payload behind it.
fn split(
    header: &Option<PacketHeader>,
    names: &Names,
    frame: &[u8],
) -> Option<(Vec<v1::PacketMetadata>, Vec<u8>)> {
    let Some(header) = header else { return Some((Vec::new(), frame.to_vec())) };
    let width: u32 = header.fields.iter().map(|field| field.width).sum();
    let (front, payload) = frame.split_at_checked(width.div_ceil(8) as usize)?;
    let mut at = 0;
    let field = |field: &super::pipeline::Param| {
        let end: u32 = at + field.width;
        let bytes = &front[(at / 8) as usize..end.div_ceil(8) as usize];
        let behind = end.next_multiple_of(8) - end;
        let value = Bits::from_bytes_be(8 * bytes.len() as u32, bytes).shr(behind.into()).resize(field.width);
        at = end;
        v1::PacketMetadata { metadata_id: field.id, value: entry::param_bytes(&value, field, names) }
    };
    Some((header.fields.iter().map(field).collect(), payload.to_vec()))
}
