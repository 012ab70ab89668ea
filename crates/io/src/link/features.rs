//! Offloads of an interface, by the ioctl of ethtool.

use crate::error::Context;
use crate::{Result, sys};

/// `enum`s of ethtool (include/uapi/linux/ethtool.h): commands.
const GET_DRIVER: u32 = 0x03;
const GET_TX_CHECKSUM: u32 = 0x16;
const SET_TX_CHECKSUM: u32 = 0x17;
const GET_GRO: u32 = 0x2b;
const SET_GRO: u32 = 0x2c;

/// Whether the interface completes the checksums of packets that leave, so that they reach it incomplete.
pub fn tx_checksum(interface: &str) -> Result<bool> {
    get(interface, GET_TX_CHECKSUM).map(|value| value != 0)
}

/// Switches the completion of checksums on or off.
pub fn set_tx_checksum(interface: &str, on: bool) -> Result<()> {
    set(interface, SET_TX_CHECKSUM, on)
}

/// Whether the interface aggregates packets that arrive (GRO).
pub fn gro(interface: &str) -> Result<bool> {
    get(interface, GET_GRO).map(|value| value != 0)
}

/// Switches GRO on or off.
pub fn set_gro(interface: &str, on: bool) -> Result<()> {
    set(interface, SET_GRO, on)
}

/// The name of the interface's driver; empty if it has none.
pub fn driver(interface: &str) -> String {
    // `struct ethtool_drvinfo` has 196 bytes. The name has 32, after the command.
    let mut info = [0; 49];
    info[0] = GET_DRIVER;
    if sys::ethtool(interface, &mut info).is_err() {
        return String::new();
    }
    let bytes = info[1..9].iter().flat_map(|word| word.to_ne_bytes());
    let name: Vec<u8> = bytes.take_while(|b| *b != 0).collect();
    String::from_utf8_lossy(&name).into_owned()
}

fn get(interface: &str, command: u32) -> Result<u32> {
    let mut value = [command, 0];
    sys::ethtool(interface, &mut value).context(|| format!("read the offloads of {interface}"))?;
    Ok(value[1])
}

fn set(interface: &str, command: u32, on: bool) -> Result<()> {
    sys::ethtool(interface, &mut [command, on.into()])
        .context(|| format!("change the offloads of {interface}"))
}
