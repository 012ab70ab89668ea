//! Generates the main controls of v1model and the code between them.

use super::Generator;
use super::types::{Shape, Ty};

impl Generator {
    /// Declares ingress or egress.
    pub fn main_control(&mut self, name: &str) {
        self.pipeline = true;
        self.open(&format!(
            "control {name}(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) {{"
        ));
        self.apart(|g| {
            g.see_headers(true);
            g.see_metadata();
            if name == "MyIngress" {
                g.see("sm.egress_spec", &Ty::Bit(9), true);
            } else {
                g.see("sm.egress_port", &Ty::Bit(9), false);
                g.see("sm.instance_type", &Ty::Bit(32), false);
            }
            g.control_body(true);
        });
        self.close("}");
        self.pipeline = false;
    }

    /// Generates the end of a main control's `apply` block: the egress port, clones, resubmission and recirculation.
    pub fn epilogue(&mut self, is_ingress: bool) {
        if self.features.again {
            let kind = if is_ingress { "I2E" } else { "E2E" };
            let again = if is_ingress {
                "resubmit_preserving_field_list(1)"
            } else {
                "recirculate_preserving_field_list(1)"
            };
            let (ask, once) = match (self.below(4), self.features.clones) {
                (0, true) => (format!("clone(CloneType.{kind}, 5)"), true),
                (1, true) => (format!("clone_preserving_field_list(CloneType.{kind}, 5, 1)"), true),
                (0, false) => (format!("truncate({})", 20 + self.below(200)), true),
                (1, false) => (format!("truncate({}); {again}", 20 + self.below(200)), true),
                (2, _) => (again.into(), true),
                _ => (String::new(), false),
            };
            if once {
                let condition = self.expr(&Ty::Bool, 1);
                // Programs do not recirculate without end, because targets end that in different ways. A clone without a field list forgets
                // its round, so only a packet that came in by a port asks for one.
                let first = if ask.starts_with("clone(") { "sm.instance_type == 0 && " } else { "" };
                self.line(&format!(
                    "if (meta.round < 2 && {first}{condition}) {{ meta.round = meta.round + 1; {ask}; }}"
                ));
            }
        }
        if self.features.multicast && is_ingress && (self.features.clones || !self.features.again) {
            let condition = self.expr(&Ty::Bool, 1);
            self.line(&format!("if ({condition}) {{ sm.mcast_grp = 3; }}"));
        }
    }

    /// A list of fields for a checksum, and the header that has the checksum.
    fn sum(&mut self) -> Option<(String, String, String)> {
        let owners: Vec<String> = self
            .members
            .iter()
            .filter_map(|m| match &m.shape {
                Shape::One(h) if self.headers[*h].fields.iter().any(|(n, _)| n == "sum") => {
                    Some(m.name.clone())
                }
                _ => None,
            })
            .collect();
        if owners.is_empty() {
            return None;
        }
        let owner = format!("hdr.{}", owners[self.below(owners.len())]);
        let target = format!("{owner}.sum");
        let mut list = Vec::new();
        let mut bits = 0;
        for _ in 0..1 + self.below(6) {
            let own = self.chance(60);
            let suits = |p: &super::scope::Place| {
                p.ty.is_number()
                    && p.text.starts_with("hdr.")
                    && p.text != target
                    && !p.text.contains('[')
                    && (!own || p.text.starts_with(&format!("{owner}.")))
            };
            let Some(place) = self.place(suits) else { continue };
            bits += place.ty.width();
            list.push(place.text);
        }
        // BMv2 and RFC 1071 sum 16-bit words, so most lists are a whole number of words.
        let odd = bits % 16;
        if odd != 0 && (bits % 8 != 0 || self.chance(85)) {
            list.push(format!("{}w0", 16 - odd));
        }
        if self.features.varbit
            && self.chance(30)
            && let Some(rest) = self.varbit(false)
        {
            let at = self.below(list.len() + 1);
            list.insert(at, rest);
        }
        let condition = match self.below(4) {
            0 => "true".to_string(),
            1 => {
                let more = self.place(|p| matches!(p.ty, Ty::Header(_)) && !p.text.contains('['));
                let more = more.map_or(String::new(), |p| format!(" && {}.isValid()", p.text));
                format!("{owner}.isValid(){more}")
            }
            _ => format!("{owner}.isValid()"),
        };
        (!list.is_empty()).then(|| (condition, format!("{{ {} }}", list.join(", ")), target))
    }

    /// Declares both checksum controls. A checksum is verified, updated, or both.
    pub fn checksum_controls(&mut self) {
        let (mut verified, mut updated) = (Vec::new(), Vec::new());
        self.apart(|g| {
            g.see_headers(true);
            if g.features.sums {
                for _ in 0..1 + g.below(2) {
                    let Some((condition, list, target)) = g.sum() else { continue };
                    if updated.iter().any(|(_, _, t, _)| *t == target) {
                        continue;
                    }
                    let payload = if g.chance(25) { "_with_payload" } else { "" };
                    let both = g.below(3);
                    let sum = (condition, list, target, payload);
                    if both != 0 {
                        verified.push(sum.clone());
                    }
                    if both != 1 {
                        updated.push(sum);
                    }
                }
            }
        });
        for (name, verb, sums) in
            [("Verify", "verify_checksum", verified), ("Update", "update_checksum", updated)]
        {
            self.open(&format!("control {name}(inout headers hdr, inout meta_t meta) {{"));
            self.open("apply {");
            for (condition, list, target, payload) in sums {
                self.line(&format!("{verb}{payload}({condition}, {list}, {target}, HashAlgorithm.csum16);"));
            }
            self.close("}");
            self.close("}");
        }
    }

    /// Declares the deparser, which emits most headers once.
    pub fn deparser(&mut self) {
        self.open("control Deparse(packet_out pkt, in headers hdr) {");
        self.open("apply {");
        if self.chance(20) {
            self.line("pkt.emit(hdr);");
        } else {
            let mut members = self.members.clone();
            if self.chance(25) && members.len() > 1 {
                let (a, b) = (self.below(members.len()), self.below(members.len()));
                members.swap(a, b);
            }
            for member in members {
                if self.chance(94) {
                    self.line(&format!("pkt.emit(hdr.{});", member.name));
                }
            }
        }
        self.close("}");
        self.close("}");
    }
}
