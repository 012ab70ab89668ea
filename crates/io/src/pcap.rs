//! Reads capture files (pcap and pcapng) and writes them: pcap, or pcapng if frames have comments.

use std::borrow::Cow;
use std::io::{Read, Write};
use std::time::Duration;

use pcap_file::pcap::{PcapHeader, PcapPacket, PcapReader, PcapWriter};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::interface_statistics::{InterfaceStatisticsBlock, InterfaceStatisticsOption};
use pcap_file::pcapng::{Block, PcapNgReader, PcapNgWriter, RawBlock};
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
    /// The length of the frame in bytes, of which the capture may have fewer.
    pub length: usize,
    /// The interface where the frame was seen, as an index of the capture's.
    pub interface: usize,
    /// The number of the packet that arrived as this frame or became it; 0 for none.
    pub packet: u64,
    /// Whether the frame was sent; otherwise it was received.
    pub outbound: bool,
    /// The comment, which Wireshark shows as `frame.comment`.
    pub comment: String,
}

/// A pcapng capture that is being written: Ethernet frames with comments, names of interfaces and directions.
pub struct Remarks<W: Write> {
    writer: PcapNgWriter<W>,
    interfaces: usize,
}

/// What the statistics of an interface say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// The packets that were looked at.
    pub received: u64,
    /// The packets that came too fast to be looked at.
    pub lost: u64,
}

/// Timestamps are in units of 10 to the minus nine seconds.
const NANOSECONDS: u8 = 9;

// An enhanced packet block is written by hand, because pcap-file does not know `epb_packetid`.
const ENHANCED_PACKET: u32 = 6;
/// The bytes around the body of a block: its type, and its length twice.
const BLOCK: usize = 12;
const END: u16 = 0;
const COMMENT: u16 = 1;
const FLAGS: u16 = 2;
/// Frames with the same number are one packet at different places.
const PACKET_ID: u16 = 5;

/// Appends bytes, and zeros up to a multiple of four bytes.
fn padded(body: &mut Vec<u8>, bytes: &[u8]) {
    body.extend_from_slice(bytes);
    body.resize(body.len() + bytes.len().next_multiple_of(4) - bytes.len(), 0);
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    body.extend_from_slice(&code.to_ne_bytes());
    body.extend_from_slice(&(value.len() as u16).to_ne_bytes());
    padded(body, value);
}

/// As much of a comment as an option can have.
fn clipped(comment: &str) -> &str {
    let mut end = comment.len().min(u16::MAX.into());
    while !comment.is_char_boundary(end) {
        end -= 1;
    }
    &comment[..end]
}

impl<W: Write> Remarks<W> {
    /// Begins a capture of these interfaces.
    pub fn new(to: W, interfaces: &[String]) -> Result<Remarks<W>> {
        let mut writer = PcapNgWriter::new(to)?;
        for name in interfaces {
            let name = InterfaceDescriptionOption::IfName(Cow::Borrowed(name));
            writer.write_pcapng_block(InterfaceDescriptionBlock {
                linktype: DataLink::ETHERNET,
                snaplen: 0,
                options: vec![name, InterfaceDescriptionOption::IfTsResol(NANOSECONDS)],
            })?;
        }
        Ok(Remarks { writer, interfaces: interfaces.len() })
    }

    /// Adds a frame.
    pub fn add(&mut self, remark: &Remark) -> Result<()> {
        let (time, data) = (remark.frame.time.as_nanos() as u64, &remark.frame.data);
        let mut body = Vec::with_capacity(data.len() + remark.comment.len() + 64);
        let numbers = [remark.interface as u64, time >> 32, time, data.len() as u64, remark.length as u64];
        numbers.iter().for_each(|number| body.extend_from_slice(&(*number as u32).to_ne_bytes()));
        padded(&mut body, data);
        // The two lowest bits of epb_flags are the direction: 1 inbound, 2 outbound.
        let direction: u32 = if remark.outbound { 2 } else { 1 };
        option(&mut body, COMMENT, clipped(&remark.comment).as_bytes());
        option(&mut body, FLAGS, &direction.to_ne_bytes());
        option(&mut body, PACKET_ID, &remark.packet.to_ne_bytes());
        option(&mut body, END, &[]);
        let length = (body.len() + BLOCK) as u32;
        let block = RawBlock {
            type_: ENHANCED_PACKET,
            initial_len: length,
            body: Cow::Owned(body),
            trailer_len: length,
        };
        self.writer.write_raw_block(&block)?;
        Ok(())
    }

    /// Ends the capture with what each interface has counted, at a time since 1970. Reports write errors that buffering has delayed.
    pub fn finish(mut self, time: Duration, statistics: &[Statistics]) -> Result<W> {
        for (at, counts) in statistics.iter().enumerate().take(self.interfaces) {
            let nanos = time.as_nanos() as u64;
            self.writer.write_pcapng_block(InterfaceStatisticsBlock {
                interface_id: at as u32,
                // In pcapng the high half comes first. The crate writes the number as a whole.
                timestamp: if cfg!(target_endian = "little") { nanos.rotate_left(32) } else { nanos },
                options: vec![
                    InterfaceStatisticsOption::IsbIfRecv(counts.received + counts.lost),
                    InterfaceStatisticsOption::IsbIfDrop(counts.lost),
                ],
            })?;
        }
        let mut to = self.writer.into_inner();
        to.flush().map_err(PcapError::IoError)?;
        Ok(to)
    }

    /// What it writes to.
    pub fn get_mut(&mut self) -> &mut W {
        self.writer.get_mut()
    }
}

#[cfg(test)]
mod tests {
    use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;

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
        let remark = |n: u8, interface, outbound| Remark {
            frame: frame(n),
            length: 60,
            interface,
            packet: 7,
            outbound,
            comment: format!("state start\n{n}"),
        };
        let names = ["port 3".to_string(), "port 4".to_string()];
        let mut writer = Remarks::new(Vec::new(), &names).unwrap();
        writer.add(&remark(1, 0, false)).unwrap();
        writer.add(&remark(2, 1, true)).unwrap();
        let counts = [Statistics { received: 5, lost: 2 }, Statistics::default()];
        let bytes = writer.finish(Duration::from_micros(3), &counts).unwrap();
        assert_eq!(read(&bytes[..]).unwrap(), [frame(1), frame(2)]);
        let mut reader = PcapNgReader::new(&bytes[..]).unwrap();
        let mut seen = Vec::new();
        while let Some(block) = reader.next_block() {
            match block.unwrap() {
                Block::InterfaceDescription(i) => seen.push(format!("{:?}", i.options)),
                Block::EnhancedPacket(p) => {
                    let id = match &p.options[2] {
                        EnhancedPacketOption::Unknown(id) if id.code == PACKET_ID => {
                            id.value[0] + id.value[7]
                        }
                        other => panic!("{other:?}"),
                    };
                    seen.push(format!("{} {:?} {id}", p.interface_id, &p.options[..2]));
                }
                Block::InterfaceStatistics(s) => seen.push(format!("{} {:?}", s.interface_id, s.options)),
                _ => {}
            }
        }
        let wanted = [
            "[IfName(\"port 3\"), IfTsResol(9)]",
            "[IfName(\"port 4\"), IfTsResol(9)]",
            "0 [Comment(\"state start\\n1\"), Flags(1)] 7",
            "1 [Comment(\"state start\\n2\"), Flags(2)] 7",
            "0 [IsbIfRecv(7), IsbIfDrop(2)]",
            "1 [IsbIfRecv(0), IsbIfDrop(0)]",
        ];
        assert_eq!(seen, wanted);
    }
}
