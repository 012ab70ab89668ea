//! Reads capture files (pcap and pcapng) and writes them: pcap, or pcapng if frames have comments.

use std::borrow::Cow;
use std::io::{Read, Write};
use std::time::Duration;

use pcap_file::pcap::{PcapHeader, PcapPacket, PcapReader, PcapWriter};
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::{Block, PcapNgReader, PcapNgWriter};
use pcap_file::{DataLink, PcapError, TsResolution};

use crate::Result;

/// A captured frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The time of the capture since 1970 (UTC).
    pub time: Duration,
    /// The bytes from the Ethernet header on. A capture may have truncated the frame.
    pub data: Vec<u8>,
}

/// Reads a capture of either format.
pub fn read(mut from: impl Read) -> Result<Vec<Frame>> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).map_err(PcapError::IoError)?;
    // A pcapng file begins with a section header block, whose type is the same in both byte orders.
    if bytes.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]) { read_pcapng(&bytes) } else { read_pcap(&bytes) }
}

/// Begins an Ethernet capture with timestamps in nanoseconds.
pub fn writer<W: Write>(to: W) -> Result<PcapWriter<W>> {
    let header = PcapHeader {
        datalink: DataLink::ETHERNET,
        ts_resolution: TsResolution::NanoSecond,
        snaplen: 262_144,
        ..PcapHeader::default()
    };
    Ok(PcapWriter::with_header(to, header)?)
}

/// Writes an Ethernet capture with timestamps in nanoseconds.
pub fn write(to: impl Write, frames: &[Frame]) -> Result<()> {
    let mut writer = writer(to)?;
    frames.iter().try_for_each(|frame| append(&mut writer, frame))?;
    finish(writer)
}

/// Appends a frame to a capture.
pub fn append(writer: &mut PcapWriter<impl Write>, frame: &Frame) -> Result<()> {
    writer.write_packet(&PcapPacket::new(frame.time, frame.data.len() as u32, &frame.data))?;
    Ok(())
}

/// Ends a capture. Reports write errors that buffering has delayed.
pub fn finish(writer: PcapWriter<impl Write>) -> Result<()> {
    writer.into_writer().flush().map_err(PcapError::IoError)?;
    Ok(())
}

fn read_pcap(bytes: &[u8]) -> Result<Vec<Frame>> {
    let mut reader = PcapReader::new(bytes)?;
    ethernet(reader.header().datalink)?;
    let mut frames = Vec::new();
    while let Some(packet) = reader.next_packet() {
        let packet = packet?;
        frames.push(Frame { time: packet.timestamp, data: packet.data.into_owned() });
    }
    Ok(frames)
}

fn read_pcapng(bytes: &[u8]) -> Result<Vec<Frame>> {
    let mut reader = PcapNgReader::new(bytes)?;
    let mut frames = Vec::new();
    while let Some(block) = reader.next_block() {
        match block? {
            Block::InterfaceDescription(interface) => ethernet(interface.linktype)?,
            Block::EnhancedPacket(packet) => {
                frames.push(Frame { time: packet.timestamp, data: packet.data.into_owned() });
            }
            Block::SimplePacket(packet) => {
                frames.push(Frame { time: Duration::ZERO, data: packet.data.into_owned() });
            }
            _ => {}
        }
    }
    Ok(frames)
}

fn ethernet(link: DataLink) -> Result<()> {
    match link {
        DataLink::ETHERNET => Ok(()),
        _ => Err(PcapError::InvalidField("only Ethernet captures are supported").into()),
    }
}

/// A frame with a comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The frame itself, with its time.
    pub frame: Frame,
    /// The interface where the frame was seen. Each name becomes an interface of the capture.
    pub interface: String,
    /// Whether the frame was sent; otherwise it was received.
    pub outbound: bool,
    /// The comment, which Wireshark shows as `frame.comment`.
    pub comment: String,
}

/// Writes an Ethernet capture as pcapng, with comments, names of interfaces and directions.
pub fn write_remarks(to: impl Write, remarks: &[Remark]) -> Result<()> {
    let mut writer = PcapNgWriter::new(to)?;
    let mut names: Vec<&str> = Vec::new();
    for remark in remarks.iter().filter(|r| !r.interface.is_empty()) {
        if !names.contains(&remark.interface.as_str()) {
            names.push(&remark.interface);
        }
    }
    for name in &names {
        let options = vec![InterfaceDescriptionOption::IfName(Cow::Borrowed(name))];
        writer.write_pcapng_block(InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen: 0,
            options,
        })?;
    }
    for remark in remarks {
        let interface = names.iter().position(|n| **n == remark.interface).unwrap_or(0) as u32;
        // The two lowest bits of epb_flags are the direction: 1 inbound, 2 outbound.
        let direction = if remark.outbound { 2 } else { 1 };
        writer.write_pcapng_block(EnhancedPacketBlock {
            interface_id: interface,
            timestamp: remark.frame.time,
            original_len: remark.frame.data.len() as u32,
            data: Cow::Borrowed(&remark.frame.data),
            options: vec![
                EnhancedPacketOption::Comment(Cow::Borrowed(&remark.comment)),
                EnhancedPacketOption::Flags(direction),
            ],
        })?;
    }
    writer.into_inner().flush().map_err(PcapError::IoError)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let frames = vec![
            Frame { time: Duration::new(1, 999_999_999), data: vec![1; 60] },
            Frame { time: Duration::new(2, 1), data: vec![] },
        ];
        let mut file = Vec::new();
        write(&mut file, &frames).expect("writes");
        assert_eq!(read(&file[..]).expect("reads"), frames);
    }

    #[test]
    fn rubbish_is_an_error() {
        for rubbish in [&b""[..], b"hello, this is not a capture file", &[0x0a, 0x0d, 0x0d, 0x0a, 0, 0, 0, 9]]
        {
            assert!(read(rubbish).is_err());
        }
    }

    #[test]
    fn comments_names_and_directions_are_kept() {
        let frame = |n: u8| Frame { time: Duration::from_micros(u64::from(n)), data: vec![n; 60] };
        let remark = |n: u8, port: &str, outbound| Remark {
            frame: frame(n),
            interface: port.into(),
            outbound,
            comment: format!("state start\n{n}"),
        };
        let remarks = [remark(1, "port 3", false), remark(2, "port 4", true)];
        let mut bytes = Vec::new();
        write_remarks(&mut bytes, &remarks).unwrap();
        assert_eq!(read(&bytes[..]).unwrap(), [frame(1), frame(2)]);
        let mut reader = PcapNgReader::new(&bytes[..]).unwrap();
        let mut seen = Vec::new();
        while let Some(block) = reader.next_block() {
            match block.unwrap() {
                Block::InterfaceDescription(i) => seen.push(format!("{:?}", i.options)),
                Block::EnhancedPacket(p) => seen.push(format!("{} {:?}", p.interface_id, p.options)),
                _ => {}
            }
        }
        let wanted = [
            "[IfName(\"port 3\")]",
            "[IfName(\"port 4\")]",
            "0 [Comment(\"state start\\n1\"), Flags(1)]",
            "1 [Comment(\"state start\\n2\"), Flags(2)]",
        ];
        assert_eq!(seen, wanted);
    }
}
