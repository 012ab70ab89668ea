//! The section `switch`: the ports of a switch whose sessions a controller writes, and where packets go from there.

use std::net::IpAddr;

use ipnet::IpNet;

use super::{Reader, Value};
use abi::mac;

/// A switch that owns its ports: it answers for its addresses, and routes what it has translated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// The MAC address of its ports.
    pub mac: u64,
    /// The numbers of its ports.
    pub ports: Vec<u16>,
    /// Its addresses: it answers ARP, neighbour solicitations and pings.
    pub addresses: Vec<IpAddr>,
    /// The routes, in the order of the file. The longest prefix wins.
    pub routes: Vec<NextHop>,
}

/// Where packets for some destinations leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// The prefix of the destinations.
    pub to: IpNet,
    /// The port where packets leave.
    pub port: u16,
    /// The MAC address of the next hop.
    pub mac: u64,
    /// The longest IP packet that may leave.
    pub mtu: u16,
}

pub(super) const KEYS: [&str; 4] = ["mac", "ports", "addresses", "route"];
pub(super) const ROUTE_KEYS: [&str; 4] = ["to", "port", "mac", "mtu"];
/// Ports have nine bits, and the largest number means that a packet is dropped.
const LAST_PORT: i64 = 510;

impl<'a> Reader<'a> {
    pub(super) fn switch(&mut self, section: &Value<'a>) -> Option<Switch> {
        let Some(table) = section.get_ref().as_table() else {
            self.problem(
                section.span(),
                "`switch` is not a section",
                "write `[switch]` on a line of its own",
            );
            return None;
        };
        for (key, _) in table.iter().filter(|(k, _)| !KEYS.contains(&k.get_ref().as_ref())) {
            self.unknown(key.span(), key.get_ref(), &KEYS);
        }
        let (Some(mac), Some(ports)) = (table.get("mac"), table.get("ports")) else {
            let hint = "write `mac = \"02:00:00:00:00:01\"` and `ports = [0, 1]`";
            self.problem(section.span(), "a `[switch]` needs `mac` and `ports`", hint);
            return None;
        };
        let mac = self.mac(mac);
        let ports = self.each(ports, "ports", |reader, item| reader.port(item, "ports"));
        let addresses = table.get("addresses").map_or_else(Vec::new, |list| {
            self.each(list, "addresses", |reader, item| reader.own_address(item))
        });
        let routes = self.sections(table.get("route"), "switch.route", |reader, item| reader.next_hop(item));
        for (route, span) in &routes {
            if !ports.contains(&route.port) {
                let message =
                    format!("the route to {} leaves by port {}, which `ports` lacks", route.to, route.port);
                self.problem(span.clone(), message, "");
            }
        }
        let routes = routes.into_iter().map(|(route, _)| route).collect();
        Some(Switch { mac: mac?, ports, addresses, routes })
    }

    /// The values of a list.
    fn each<T>(
        &mut self,
        value: &Value<'a>,
        name: &str,
        mut read: impl FnMut(&mut Self, &Value<'a>) -> Option<T>,
    ) -> Vec<T> {
        let Some(array) = value.get_ref().as_array() else {
            self.problem(value.span(), format!("`{name}` is not a list"), "");
            return Vec::new();
        };
        array.iter().filter_map(|item| read(self, item)).collect()
    }

    fn port(&mut self, value: &Value<'a>, name: &str) -> Option<u16> {
        self.integer(value, name, 0..=LAST_PORT - 1).map(|port| port as u16)
    }

    fn mac(&mut self, value: &Value<'a>) -> Option<u64> {
        let text = self.string(value, "mac", "02:00:00:00:00:01")?;
        let good = mac::parse(text).filter(|mac| mac::is_station(*mac));
        if good.is_none() {
            self.problem(value.span(), format!("`{text}` is no MAC address of one station"), "");
        }
        good
    }

    fn own_address(&mut self, value: &Value<'a>) -> Option<IpAddr> {
        let text = self.string(value, "addresses", "2001:db8:100::1")?;
        let address = text.parse().ok();
        if address.is_none() {
            self.problem(value.span(), format!("`{text}` is no IP address"), "");
        }
        address
    }

    fn next_hop(&mut self, item: &Value<'a>) -> Option<NextHop> {
        let table = self.section_of(item, "switch.route", &ROUTE_KEYS)?;
        let (Some(to), Some(port), Some(mac)) = (table.get("to"), table.get("port"), table.get("mac")) else {
            let hint = "`mac` is that of the next hop; write `to = \"192.0.2.0/24\"`, `port = 1`, `mac = \"02:00:00:00:00:0a\"`";
            self.problem(item.span(), "a `[[switch.route]]` needs `to`, `port` and `mac`", hint);
            return None;
        };
        let text = self.string(to, "to", "192.0.2.0/24")?;
        let net = text.parse::<IpNet>().ok().map(|net| net.trunc());
        if net.is_none() {
            self.problem(
                to.span(),
                format!("`{text}` is no prefix"),
                "write an address and a length: `192.0.2.0/24`",
            );
        }
        let mtu = table.get("mtu").map_or(Some(1500), |mtu| self.integer(mtu, "mtu", 1280..=65535));
        Some(NextHop { port: self.port(port, "port")?, mac: self.mac(mac)?, to: net?, mtu: mtu? as u16 })
    }
}
