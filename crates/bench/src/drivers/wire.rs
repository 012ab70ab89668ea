//! A namespace with two veth pairs, `gen ↔ in` and `out ↔ sink`. A forwarder connects `in` and `out`.

use crate::Result;
use crate::lab::Namespace;

/// The links, in the order in which a packet passes them.
pub const LINKS: [&str; 4] = ["gen", "in", "out", "sink"];

/// The two veth pairs of a measurement.
pub struct Wire {
    /// The namespace of the links.
    pub namespace: Namespace,
}

impl Wire {
    /// Makes both pairs and enables them. Each link has `queues` queues.
    pub fn make(label: &str, queues: usize) -> Result<Wire> {
        let wire = Wire { namespace: Namespace::make(label)? };
        let queues = format!("numrxqueues {queues} numtxqueues {queues}");
        wire.namespace.ip(&format!(
            "link add gen {queues} type veth peer name in {queues}\nlink add out {queues} type veth peer name sink {queues}"
        ))?;
        for link in LINKS {
            // Without IPv6 the links send no router solicitations or neighbour discovery, which would be counted.
            wire.namespace.sysctl(&format!("ipv6.conf.{link}.disable_ipv6"), "1")?;
            wire.namespace.ip(&format!("link set {link} up"))?;
        }
        Ok(wire)
    }
}
