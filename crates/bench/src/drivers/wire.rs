//! One namespace and in it a way for packets: `gen ↔ in`, something that forwards, `out ↔ sink`.

use crate::Result;
use crate::lab::Namespace;

/// The links, in the order in which a packet meets them.
pub const LINKS: [&str; 4] = ["gen", "in", "out", "sink"];

/// Two veth pairs.
pub struct Wire {
    /// Where they are.
    pub namespace: Namespace,
}

impl Wire {
    /// Makes both, up and running; `queues` of each link.
    pub fn lay(label: &str, queues: usize) -> Result<Wire> {
        let wire = Wire { namespace: Namespace::make(label)? };
        let queues = format!("numrxqueues {queues} numtxqueues {queues}");
        wire.namespace.ip(&format!(
            "link add gen {queues} type veth peer name in {queues}\nlink add out {queues} type veth peer name sink {queues}"
        ))?;
        for link in LINKS {
            // No router solicitations and neighbour discovery between the packets that are counted.
            wire.namespace.sysctl(&format!("ipv6.conf.{link}.disable_ipv6"), "1")?;
            wire.namespace.ip(&format!("link set {link} up"))?;
        }
        Ok(wire)
    }
}
