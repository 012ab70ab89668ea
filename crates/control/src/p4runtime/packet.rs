//! Packets to and from the controller (P4Runtime specification, section 16.1): the metadata of a message is a header in front of the packet.

use abi::Bits;
use proto::p4::v1;

use super::names::Names;
use super::pipeline::{PacketHeader, Pipeline, no_such};
use super::{Status, entry};

/// The frame of a packet from the controller: its header, padded to whole bytes, and the payload.
pub fn packet_out(pipeline: &Pipeline, names: &mut Names, packet: &v1::PacketOut) -> Result<Vec<u8>, Status> {
    let mut frame = match &pipeline.packet_out {
        Some(header) => header_bytes(header, &packet.metadata, names)?,
        None if packet.metadata.is_empty() => Vec::new(),
        None => {
            return Err(Status::invalid(
                "the program has no header `packet_out`, so packets have no metadata",
            ));
        }
    };
    frame.extend_from_slice(&packet.payload);
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
    let mut all = Bits::zero(0);
    for field in &header.fields {
        let found = given.iter().find(|m| m.metadata_id == field.id);
        let found = found
            .ok_or_else(|| Status::invalid(format!("the metadata field `{}` is missing", field.name)))?;
        all = all.concat(&entry::param_value(&found.value, field, names)?);
    }
    let whole = all.width().next_multiple_of(8);
    Ok(all.concat(&Bits::zero(whole - all.width())).to_bytes_be())
}

/// The message of a frame for the controller; `None` if the frame is shorter than its header.
pub fn packet_in(pipeline: &Pipeline, names: &Names, frame: &[u8]) -> Option<v1::PacketIn> {
    let Some(header) = &pipeline.packet_in else {
        return Some(v1::PacketIn { payload: frame.to_vec(), metadata: Vec::new() });
    };
    let width: u32 = header.fields.iter().map(|field| field.width).sum();
    let (front, payload) = frame.split_at_checked(width.div_ceil(8) as usize)?;
    let all = Bits::from_bytes_be(8 * front.len() as u32, front);
    let mut end = all.width();
    let field = |field: &super::pipeline::Param| {
        end -= field.width;
        let value = all.shr(u64::from(end)).resize(field.width);
        v1::PacketMetadata { metadata_id: field.id, value: entry::param_bytes(&value, field, names) }
    };
    let metadata = header.fields.iter().map(field).collect();
    Some(v1::PacketIn { payload: payload.to_vec(), metadata })
}
