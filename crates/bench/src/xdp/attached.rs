//! NAT64 as operators attach it: `attach = { interfaces = …, hook = "xdp" }`. The program asks the kernel for routes and neighbours, and forwards to those.

use std::path::Path;
use std::process::Command;

use crate::Result;
use crate::drivers::wire::Wire;
use crate::path::Scratch;
use crate::process::run;

const CONFIG: &str = r#"[nat64]
mode = "stateless"
prefix = "2001:db8:64::/96"
attach = { interfaces = ["in", "out"], hook = "xdp", xdp-mode = "native" }
[[map]]
ipv4 = "198.51.100.0/24"
ipv6 = "2001:db8:100::/120"
"#;

/// A running translator. Dropping it ends it.
pub struct Attached {
    down: Command,
    _scratch: Scratch,
}

impl Attached {
    /// Gives the middle of the wire addresses, routes and a neighbour behind it for both directions, and starts the translator.
    pub fn start(wire: &Wire, strait: &Path, arriving: [u8; 6]) -> Result<Attached> {
        let scratch = Scratch::make("xdp-attached")?;
        let config = scratch.write("nat64.toml", CONFIG)?;
        let space = &wire.namespace;
        let mac = |mac: [u8; 6]| mac.map(|byte| format!("{byte:02x}")).join(":");
        // A neighbour that is nobody: the end of the wire counts its packets, and does not forward them.
        let next = mac([2, 0, 0, 0, 0, 11]);
        space.ip(&format!("link set in address {}", mac(arriving)))?;
        for link in ["in", "out"] {
            space.ip(&format!("link set {link} addrgenmode none"))?;
            space.sysctl(&format!("ipv6.conf.{link}.disable_ipv6"), "0")?;
            space.sysctl(&format!("ipv4.conf.{link}.rp_filter"), "0")?;
        }
        space.sysctl("ipv4.conf.all.rp_filter", "0")?;
        space.sysctl("ipv4.ip_forward", "1")?;
        space.sysctl("ipv6.conf.all.forwarding", "1")?;
        space.ip(&format!(
            "addr add 203.0.113.1/24 dev in\n\
             addr add 2001:db8:3::1/64 dev in nodad\n\
             addr add 192.0.2.1/24 dev out\n\
             addr add 2001:db8:2::1/64 dev out nodad\n\
             neigh add 192.0.2.2 lladdr {next} dev out nud permanent\n\
             neigh add 2001:db8:2::2 lladdr {next} dev out nud permanent\n\
             route add 2001:db8:100::/120 via 2001:db8:2::2"
        ))?;
        let command = |verb: &str| {
            let mut command = space.command(strait);
            command.args(["nat64", verb, "--config"]).arg(&config);
            command
        };
        let attached = Attached { down: command("down"), _scratch: scratch };
        run(&mut command("up"))?;
        Ok(attached)
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let _ = run(&mut self.down);
    }
}
