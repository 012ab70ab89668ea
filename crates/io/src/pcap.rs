//! Capture files: pcap and pcapng in, pcap out.

use std::io::{Read, Write};
use std::time::Duration;

use pcap_file::pcap::{PcapHeader, PcapPacket, PcapReader, PcapWriter};
use pcap_file::pcapng::{Block, PcapNgReader};
use pcap_file::{DataLink, PcapError, TsResolution};

use crate::Result;

/// A captured frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// When, since 1970.
    pub time: Duration,
    /// Its bytes, from the Ethernet header on; maybe fewer than there were on the wire.
    pub data: Vec<u8>,
}

/// Reads a capture of either format.
pub fn read(mut from: impl Read) -> Result<Vec<Frame>> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).map_err(PcapError::IoError)?;
    // A pcapng file begins with a section header block, whose number is the same in both byte orders.
    if bytes.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]) { read_pcapng(&bytes) } else { read_pcap(&bytes) }
}

/// Writes an Ethernet capture with nanoseconds.
pub fn write(to: impl Write, frames: &[Frame]) -> Result<()> {
    let header = PcapHeader {
        datalink: DataLink::ETHERNET,
        ts_resolution: TsResolution::NanoSecond,
        snaplen: 262_144,
        ..PcapHeader::default()
    };
    let mut writer = PcapWriter::with_header(to, header)?;
    for frame in frames {
        writer.write_packet(&PcapPacket::new(frame.time, frame.data.len() as u32, &frame.data))?;
    }
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
}
