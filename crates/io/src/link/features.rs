//! Offloads of an interface, by the ioctl of ethtool.

use crate::error::Context;
use crate::{Result, sys};

/// `enum`s of ethtool (include/uapi/linux/ethtool.h): commands that read or write one value of 32 bits.
const GET_TX_CHECKSUM: u32 = 0x16;
const SET_TX_CHECKSUM: u32 = 0x17;
const GET_FLAGS: u32 = 0x25;
const GET_GRO: u32 = 0x2b;
const SET_GRO: u32 = 0x2c;
/// Flags of `GET_FLAGS`: the interface takes the tags off frames that arrive, or inserts them into frames that leave.
const TX_VLAN: u32 = 1 << 7;
const RX_VLAN: u32 = 1 << 8;

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

/// Whether the interface takes VLAN tags off frames that arrive.
pub fn rx_vlan(interface: &str) -> Result<bool> {
    get(interface, GET_FLAGS).map(|value| value & RX_VLAN != 0)
}

/// Whether the interface inserts the VLAN tags of frames that leave.
pub fn tx_vlan(interface: &str) -> Result<bool> {
    get(interface, GET_FLAGS).map(|value| value & TX_VLAN != 0)
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
