//! The `attach` line: how packets reach the translator.

use toml::de::DeTable;

use super::{RESERVED, Reader, Value, is_interface_name};

/// How packets reach the translator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attach {
    /// The name of a virtual interface. Packets that are routed into it come back translated.
    pub device: String,
    /// The interfaces with a lane. A packet that arrives there and is routed to the device is translated at once.
    pub interfaces: Vec<String>,
    /// What the lanes do.
    pub lanes: Lanes,
    /// Whether nobody tells the program which interface of the machine a packet has arrived at: it reads a TUN interface.
    pub blind: bool,
}

/// What lanes do with the packets that they have translated, and at which hook they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// At the tc hook. The kernel routes the packets on, and netfilter sees them.
    Routed,
    /// At the tc hook. The packets go to the next hop directly, and netfilter does not see them.
    Direct,
    /// Like `Direct`, at the XDP hook.
    Xdp {
        /// Who runs the program; `None` is the driver where it can.
        mode: Option<XdpMode>,
        /// Whether an interface is used although it is unknown if the checksums of its packets are complete.
        trust_checksums: bool,
    },
}

/// Who runs a program at the XDP hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpMode {
    /// The driver runs it, before the kernel makes an skb.
    Native,
    /// The kernel's stack runs it, with every driver.
    Generic,
}

pub(super) const KNOWN: [&str; 7] =
    ["device", "express", "bypass-netfilter", "interfaces", "hook", "xdp-mode", "trust-checksums"];
const INTERFACES: &str = "`interfaces = [\"eth0\", \"eth1\"]`";

impl<'a> Reader<'a> {
    pub(super) fn attach(&mut self, value: Option<&Value<'a>>, device: &str) -> Attach {
        let mut attach =
            Attach { device: device.to_string(), interfaces: Vec::new(), lanes: Lanes::Routed, blind: false };
        let Some(value) = value else { return attach };
        let hint = "write `attach = { device = \"nat64\" }`";
        let Some(table) = value.get_ref().as_table() else {
            self.problem(value.span(), "`attach` is not a table", hint);
            return attach;
        };
        for (key, _) in table.iter().filter(|(k, _)| !KNOWN.contains(&k.get_ref().as_ref())) {
            self.unknown(key.span(), key.get_ref(), &KNOWN);
        }
        match table.get("device") {
            Some(device) => {
                if let Some(name) = self.device(device) {
                    attach.device = name;
                }
            }
            None if table.get("interfaces").is_some() => {}
            None => self.problem(value.span(), "`attach` does not name a device", hint),
        }
        let device = attach.device.clone();
        match (table.get("interfaces"), table.get("express")) {
            (Some(interfaces), Some(_)) => {
                let hint = "`interfaces` sends packets on by itself; `express` lets the kernel route them";
                self.problem(interfaces.span(), "`interfaces` and `express` exclude each other", hint);
            }
            (Some(interfaces), None) => {
                attach.interfaces = self.interfaces(interfaces, "interfaces", &device);
                attach.lanes = self.hook(interfaces, table);
            }
            (None, express) => {
                if let Some(express) = express {
                    attach.interfaces = self.interfaces(express, "express", &device);
                }
                if self.bypass_netfilter(table) {
                    attach.lanes = Lanes::Direct;
                }
            }
        }
        self.without_effect(table);
        attach
    }

    fn device(&mut self, device: &Value<'a>) -> Option<String> {
        let name = self.string(device, "device", "nat64")?;
        if RESERVED.contains(&name) {
            let message = format!("the kernel uses the name `{name}` for something else");
            self.problem(device.span(), message, "another name, such as `nat64`");
            return None;
        }
        // IFNAMSIZ is 16 including the terminating zero. The name of the device's peer has one character more.
        if !is_interface_name(name, 14) || name.contains(['.', '@']) {
            let hint = "up to 14 letters, digits, `-` and `_`";
            self.problem(device.span(), format!("`{name}` is not a name for an interface"), hint);
            return None;
        }
        Some(name.to_string())
    }

    /// The hook of `interfaces`, with what belongs to it.
    fn hook(&mut self, interfaces: &Value<'a>, attach: &DeTable<'a>) -> Lanes {
        let hint = "write `hook = \"tc\"`, or `hook = \"xdp\"`";
        let Some(hook) = attach.get("hook") else {
            self.problem(interfaces.span(), "`interfaces` without a `hook`", hint);
            return Lanes::Direct;
        };
        match hook.get_ref().as_str() {
            Some("tc") => Lanes::Direct,
            Some("xdp") => Lanes::Xdp {
                mode: attach.get("xdp-mode").and_then(|mode| self.xdp_mode(mode)),
                trust_checksums: attach
                    .get("trust-checksums")
                    .is_some_and(|v| self.boolean(v, "trust-checksums")),
            },
            _ => {
                self.problem(hook.span(), "`hook` is neither \"tc\" nor \"xdp\"", hint);
                Lanes::Direct
            }
        }
    }

    fn xdp_mode(&mut self, value: &Value<'a>) -> Option<XdpMode> {
        match value.get_ref().as_str() {
            Some("native") => Some(XdpMode::Native),
            Some("generic") => Some(XdpMode::Generic),
            _ => {
                let hint = "leave it out: native is taken if all interfaces can";
                self.problem(value.span(), "`xdp-mode` is neither \"native\" nor \"generic\"", hint);
                None
            }
        }
    }

    fn bypass_netfilter(&mut self, attach: &DeTable<'a>) -> bool {
        attach.get("bypass-netfilter").is_some_and(|value| self.boolean(value, "bypass-netfilter"))
    }

    /// Refuses keys that say something about what is not there.
    fn without_effect(&mut self, attach: &DeTable<'a>) {
        let on = |key: &str| attach.get(key).and_then(|v| v.get_ref().as_bool()).unwrap_or(false);
        if let (true, None, Some(value)) =
            (on("bypass-netfilter"), attach.get("express"), attach.get("bypass-netfilter"))
        {
            let message = "`bypass-netfilter` applies to express lanes, and there are none";
            self.problem(value.span(), message, "name the interfaces: `express = [\"eth0\", \"eth1\"]`");
        }
        if let (Some(hook), None) = (attach.get("hook"), attach.get("interfaces")) {
            let message = "`hook` applies to `interfaces`, and there are none";
            self.problem(hook.span(), message, format!("name them: {INTERFACES}"));
        }
        let is_xdp = attach.get("hook").is_some_and(|hook| hook.get_ref().as_str() == Some("xdp"));
        for key in ["xdp-mode", "trust-checksums"] {
            if let (Some(value), false) = (attach.get(key), is_xdp) {
                let message = format!("`{key}` applies to `hook = \"xdp\"`");
                self.problem(value.span(), message, "remove it, or change the hook");
            }
        }
    }

    /// The names of interfaces. `up` checks whether the interfaces exist.
    fn interfaces(&mut self, value: &Value<'a>, key: &str, device: &str) -> Vec<String> {
        let hint = format!("write `{key} = [\"eth0\", \"eth1\"]`");
        let Some(array) = value.get_ref().as_array() else {
            self.problem(value.span(), format!("`{key}` is not a list of interfaces"), hint);
            return Vec::new();
        };
        if array.is_empty() && key == "interfaces" {
            self.problem(value.span(), "`interfaces` names none", hint);
        }
        let mut names: Vec<String> = Vec::new();
        for item in array.iter() {
            match self.string(item, key, "eth0") {
                Some(name) if name == device => {
                    let hint = "name the interfaces that packets arrive on";
                    self.problem(item.span(), format!("`{name}` is the device itself"), hint);
                }
                Some(name) if !is_interface_name(name, 15) => {
                    let hint = "up to 15 letters, digits, `-`, `_` or `.`";
                    self.problem(item.span(), format!("`{name}` is not a name of an interface"), hint);
                }
                Some(name) if names.iter().any(|n| n == name) => {
                    self.problem(item.span(), format!("`{name}` is named twice"), "");
                }
                Some(name) => names.push(name.to_string()),
                None => {}
            }
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    fn of(attach: &str) -> Result<Attach, String> {
        let text =
            format!("[nat64]\nmode = \"stateless\"\nprefix = \"64:ff9b::/96\"\nattach = {{ {attach} }}\n");
        let problems = |all: Vec<_>| all.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        parse(&text).map(|config| config.attach).map_err(problems)
    }

    #[test]
    fn each_form_says_which_lanes_there_are() {
        let both = "interfaces = [\"eth0\", \"eth1\"]";
        let xdp = |mode, trust_checksums| Lanes::Xdp { mode, trust_checksums };
        for (attach, device, count, lanes) in [
            ("device = \"n\"".to_string(), "n", 0, Lanes::Routed),
            ("device = \"n\", express = [\"eth0\"]".to_string(), "n", 1, Lanes::Routed),
            (
                "device = \"n\", express = [\"eth0\"], bypass-netfilter = true".to_string(),
                "n",
                1,
                Lanes::Direct,
            ),
            (format!("{both}, hook = \"tc\""), "nat64", 2, Lanes::Direct),
            (format!("{both}, hook = \"xdp\", device = \"n\""), "n", 2, xdp(None, false)),
            (
                format!("{both}, hook = \"xdp\", xdp-mode = \"generic\", trust-checksums = true"),
                "nat64",
                2,
                xdp(Some(XdpMode::Generic), true),
            ),
        ] {
            let read = of(&attach).expect(&attach);
            assert_eq!((read.device.as_str(), read.interfaces.len(), read.lanes), (device, count, lanes));
        }
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        for (attach, words) in [
            ("interfaces = [\"eth0\"]", "without a `hook`"),
            ("interfaces = [], hook = \"tc\"", "names none"),
            ("interfaces = [\"eth0\"], hook = \"tcx\"", "neither"),
            ("device = \"n\", hook = \"tc\"", "there are none"),
            ("interfaces = [\"eth0\"], express = [\"eth0\"], hook = \"tc\"", "exclude each other"),
            ("interfaces = [\"eth0\"], hook = \"tc\", xdp-mode = \"native\"", "applies to `hook"),
            ("interfaces = [\"eth0\"], hook = \"tc\", trust-checksums = true", "applies to `hook"),
            ("interfaces = [\"eth0\"], hook = \"xdp\", xdp-mode = \"fast\"", "neither"),
            ("interfaces = [\"eth0\"], hook = \"tc\", bypass-netfilter = true", "express lanes"),
            ("interfaces = [\"nat64\"], hook = \"xdp\"", "the device itself"),
        ] {
            let said = of(attach).expect_err(attach);
            assert!(said.contains("line 4") && said.contains(words), "{attach}: {said}");
        }
    }
}
