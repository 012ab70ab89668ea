//! The Portable Switch Architecture (PSA sections 6.1 to 6.6).

use abi::{Bits, drops};
use ir::{Passed, PsaMetadata, Role, VarId};

use crate::event::Event;
use crate::machine::{Half, Mirror, Run};
use crate::packet::{BitWriter, PacketState};

/// The numbers of the values of `PSA_PacketPath_t`.
mod path {
    pub const NORMAL: u128 = 0;
    pub const NORMAL_UNICAST: u128 = 1;
    pub const NORMAL_MULTICAST: u128 = 2;
    pub const CLONE_I2E: u128 = 3;
    pub const CLONE_E2E: u128 = 4;
    pub const RESUBMIT: u128 = 5;
    pub const RECIRCULATE: u128 = 6;
}

/// The value of `PSA_PORT_RECIRCULATE` in psa.p4.
const RECIRCULATE_PORT: u32 = 0xffff_fffa;

impl Run<'_, '_> {
    /// Starts a new packet in the ingress parser.
    pub(crate) fn arrive_psa(&mut self, port: u32, data: &[u8]) {
        self.s.clone_from(self.fresh);
        self.s.data.extend_from_slice(data);
        let program = self.program;
        if let Some(psa) = &program.psa {
            let packet = std::mem::take(&mut self.s);
            self.s = self.for_ingress(psa, packet, port, path::NORMAL);
        }
    }

    fn put(&self, state: &mut PacketState, var: VarId, value: u128) {
        state.vars[var.index()] = Bits::new(self.program.var(var).ty.width(), value);
    }

    fn for_ingress(&self, psa: &PsaMetadata, mut packet: PacketState, port: u32, path: u128) -> PacketState {
        let length = packet.data.len() as u128;
        self.put(&mut packet, self.program.standard.packet_length, length);
        for (var, value) in [
            (psa.ingress_parser[0], port as u128),
            (psa.ingress_parser[1], path),
            (psa.ingress_input.ingress_port, port as u128),
            (psa.ingress_input.packet_path, path),
            (psa.ingress_input.ingress_timestamp, self.clock as u128),
            (psa.ingress_output.drop, 1),
        ] {
            self.put(&mut packet, var, value);
        }
        packet
    }

    /// A new packet with these bytes, and with the metadata that the current packet passes on.
    fn next(&self, data: &[u8], passed: &[Passed]) -> PacketState {
        let mut packet = self.fresh.clone();
        packet.data.extend_from_slice(data);
        for item in passed {
            match *item {
                Passed::Var { from, to } => packet.vars[to.index()] = self.s.vars[from.index()].clone(),
                Passed::Header { from, to } => {
                    packet.headers[to.index()] = self.s.headers[from.index()].clone();
                }
            }
        }
        packet
    }

    fn parse_psa(&mut self, role: Role, error: VarId) {
        let program = self.program;
        if let Some(parser) = program.parsers.iter().find(|p| p.role == role) {
            self.parse(parser);
        }
        let found = self.number(program.standard.parser_error);
        self.set(error, found as u128);
    }

    fn deparsed(&mut self, role: Role) -> Vec<u8> {
        self.emitted = BitWriter::default();
        self.control(role);
        let mut bytes = std::mem::take(&mut self.emitted).finish();
        bytes.extend_from_slice(self.s.payload());
        bytes
    }

    fn flag(&self, var: VarId) -> bool {
        self.number(var) != 0
    }

    pub(crate) fn psa_ingress(&mut self, psa: &PsaMetadata) {
        self.parse_psa(Role::Parser, psa.ingress_input.parser_error);
        if !self.control(Role::Ingress) {
            return self.dropped(drops::STEP_BUDGET);
        }
        let bytes = self.deparsed(Role::IngressDeparser);
        let digests = std::mem::take(&mut self.s.asked.digests);
        self.outcome.digests.extend(digests);
        let out = psa.ingress_output;
        if self.flag(out.clone) {
            let session = self.number(out.clone_session_id) as u32;
            let data = self.s.data.clone();
            self.psa_clone(psa, session, &data, path::CLONE_I2E);
        }
        if self.flag(out.drop) {
            return self.dropped(drops::DROP);
        }
        if self.flag(out.resubmit) {
            self.tell("resubmitted", None);
            let packet = self.next(&self.s.data.clone(), &psa.resubmit);
            let port = self.number(psa.ingress_input.ingress_port) as u32;
            let packet = self.for_ingress(psa, packet, port, path::RESUBMIT);
            return self.queue(packet, Half::Ingress);
        }
        let class = self.number(out.class_of_service);
        let mut packet = self.next(&bytes, &psa.normal);
        self.put(&mut packet, psa.egress_input.class_of_service, class as u128);
        match self.number(out.multicast_group) as u32 {
            0 => {
                let port = self.number(out.egress_port) as u32;
                self.send_to_egress(psa, packet, port, 0, path::NORMAL_UNICAST);
            }
            group => self.psa_replicate(psa, &packet, group, path::NORMAL_MULTICAST),
        }
    }

    fn tell(&mut self, how: &'static str, session: Option<u32>) {
        if self.watched {
            self.observer.event(Event::Again { how, session });
        }
    }

    fn send_to_egress(
        &mut self,
        psa: &PsaMetadata,
        mut packet: PacketState,
        port: u32,
        rid: u32,
        path: u128,
    ) {
        for (var, value) in [
            (psa.egress_parser[0], port as u128),
            (psa.egress_parser[1], path),
            (psa.egress_input.egress_port, port as u128),
            (psa.egress_input.packet_path, path),
            (psa.egress_input.instance, rid as u128),
            (psa.egress_input.egress_timestamp, self.clock as u128),
            (psa.egress_deparser, port as u128),
        ] {
            self.put(&mut packet, var, value);
        }
        let length = packet.data.len() as u128;
        self.put(&mut packet, self.program.standard.packet_length, length);
        self.queue(packet, Half::Egress(port));
    }

    fn psa_replicate(&mut self, psa: &PsaMetadata, packet: &PacketState, group: u32, path: u128) {
        let replicas = self.state.groups.get(&group).cloned().unwrap_or_default();
        if replicas.is_empty() {
            self.dropped(drops::NO_SUCH_GROUP);
        }
        for (rid, port) in replicas {
            self.send_to_egress(psa, packet.clone(), port, rid, path);
        }
    }

    /// Makes the clones for a session. An unknown session has none.
    fn psa_clone(&mut self, psa: &PsaMetadata, session: u32, data: &[u8], path: u128) {
        let Some(to) = self.state.mirrors.get(&session).copied() else { return };
        self.tell("cloned", Some(session));
        let passed = if path == path::CLONE_I2E {
            &psa.clone_i2e
        } else {
            self.rounds += 1;
            &psa.clone_e2e
        };
        let packet = self.next(data, passed);
        match to {
            Mirror::Port(port) => self.send_to_egress(psa, packet, port, 0, path),
            Mirror::Group(group) => self.psa_replicate(psa, &packet, group, path),
        }
    }

    pub(crate) fn psa_egress(&mut self, psa: &PsaMetadata, port: u32) {
        self.parse_psa(Role::EgressParser, psa.egress_input.parser_error);
        if !self.control(Role::Egress) {
            return self.dropped(drops::STEP_BUDGET);
        }
        let bytes = self.deparsed(Role::Deparser);
        let out = psa.egress_output;
        if self.flag(out.clone) {
            let session = self.number(out.clone_session_id) as u32;
            self.psa_clone(psa, session, &bytes, path::CLONE_E2E);
        }
        if self.flag(out.drop) {
            return self.dropped(drops::DROP);
        }
        if port == RECIRCULATE_PORT {
            self.tell("recirculated", None);
            let packet = self.next(&bytes, &psa.recirculate);
            let packet = self.for_ingress(psa, packet, RECIRCULATE_PORT, path::RECIRCULATE);
            return self.queue(packet, Half::Ingress);
        }
        if self.watched {
            self.observer.event(Event::Sent { port, bytes: &bytes });
        }
        self.outcome.sent.push((port, bytes));
    }
}
