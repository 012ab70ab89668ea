//! The control planes that `strait` has for the bundled apps, by their names.

use std::str::FromStr;

use abi::Manifest;
use control::controller::Controller;
use control::l2::{self, L2};
use control::nat44::Nat44;
use nat64::Config;
use nat64::controller::Nat64;

/// A built-in control plane with its arguments, as on the command line: `l2`, `l2:SECONDS`, `nat44:POOL`.
#[derive(Clone, Debug, PartialEq)]
pub enum BuiltIn {
    /// The control plane of apps/l2. Stations are removed after this number of seconds.
    L2(u32),
    /// The control plane of apps/nat44, with its pool of outside addresses.
    Nat44(ipnet::Ipv4Net),
    /// The control plane of apps/nat64-controller, with its configuration.
    Nat64(Box<Config>),
}

impl FromStr for BuiltIn {
    type Err = String;

    fn from_str(text: &str) -> Result<BuiltIn, String> {
        let (name, arg) = text.split_once(':').map_or((text, None), |(name, arg)| (name, Some(arg)));
        match (name, arg) {
            ("l2", None) => Ok(BuiltIn::L2(l2::AGEING)),
            ("l2", Some(arg)) => match arg.parse() {
                Ok(seconds) if seconds > 0 => Ok(BuiltIn::L2(seconds)),
                _ => Err(format!("`{arg}` is no number of seconds")),
            },
            ("nat44", Some(arg)) => {
                let host = arg.parse().ok().and_then(|ip| ipnet::Ipv4Net::new(ip, 32).ok());
                let pool = host.or_else(|| arg.parse().ok());
                pool.map(BuiltIn::Nat44).ok_or_else(|| format!("`{arg}` is no IPv4 address or prefix"))
            }
            ("nat44", None) => {
                Err("nat44 needs its pool: nat44:203.0.113.1 or nat44:203.0.113.0/28".to_string())
            }
            _ => Err(format!("there is no control plane `{name}`; there are l2[:SECONDS] and nat44:POOL")),
        }
    }
}

impl BuiltIn {
    /// The name of the app's program.
    pub fn program(&self) -> &'static str {
        match self {
            BuiltIn::L2(_) => "l2",
            BuiltIn::Nat44(_) => "nat44",
            BuiltIn::Nat64(_) => "nat64-controller",
        }
    }

    /// Constructs the control plane in its initial state, for the program that the manifest describes.
    pub fn make(&self, manifest: &Manifest) -> Result<Box<dyn Controller>, String> {
        if manifest.program != self.program() {
            let (own, other) = (self.program(), &manifest.program);
            return Err(format!(
                "this control plane is of apps/{own}/{own}.p4, and the program is {other}.p4"
            ));
        }
        Ok(match self {
            BuiltIn::L2(seconds) => Box::new(L2::new(manifest, *seconds)?),
            BuiltIn::Nat44(pool) => Box::new(Nat44::new(manifest, *pool)?),
            BuiltIn::Nat64(config) => Box::new(Nat64::new(manifest, config)?),
        })
    }
}
