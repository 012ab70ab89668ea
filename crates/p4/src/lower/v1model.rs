//! v1model: one set of storage for all blocks, and the pipeline of BMv2's simple_switch.

use ir::pipeline::{
    Bytes, Carry, Fate, Fragment, Headers, Input, Passed, Path, PathKind, Pipeline, Queueing, Source, Stage,
    Step, To, When,
};
use ir::{BinOp, Expr, Role, StageId, VarId};

use super::arch::Shared;
use super::request::{Again, constant, decide};
use super::storage::Store;
use super::{Lower, Res};
use crate::check::{Call, Type};
use crate::source::Span;

/// The blocks of v1model in the order of the package's parameters. Each letter is a parameter of the block: `p` the
/// packet, `h` the headers, `m` the metadata, `s` the standard metadata. Parameters with the same letter share their
/// storage.
const BLOCKS: [(Role, &str); 6] = [
    (Role::Parser, "phms"),
    (Role::VerifyChecksum, "hm"),
    (Role::Ingress, "hms"),
    (Role::Egress, "hms"),
    (Role::ComputeChecksum, "hm"),
    (Role::Deparser, "ph"),
];

/// The values of `instance_type` (BMv2).
mod instance {
    pub const NORMAL: u128 = 0;
    pub const INGRESS_CLONE: u128 = 1;
    pub const EGRESS_CLONE: u128 = 2;
    pub const RECIRCULATED: u128 = 4;
    pub const REPLICATION: u128 = 5;
    pub const RESUBMITTED: u128 = 6;
}

/// The fields of `standard_metadata_t` that the pipeline reads or writes.
#[derive(Clone, Copy, Default)]
pub(super) struct V1Metadata {
    ingress_port: VarId,
    pub(super) egress_spec: VarId,
    egress_port: VarId,
    instance_type: VarId,
    ingress_global_timestamp: VarId,
    egress_global_timestamp: VarId,
    enq_timestamp: VarId,
    enq_qdepth: VarId,
    deq_timedelta: VarId,
    deq_qdepth: VarId,
    pub(super) mcast_grp: VarId,
    egress_rid: VarId,
}

const INGRESS: StageId = StageId(0);
const EGRESS: StageId = StageId(1);

impl<'a> Lower<'_, 'a> {
    /// `V1Switch(parser, verify, ingress, egress, compute, deparser) main;`
    pub(super) fn v1model(&mut self, call: &Call<'a>, span: Span) -> Res<()> {
        let mut shared = Shared::default();
        let mut failed = false;
        for (i, (role, shape)) in BLOCKS.into_iter().enumerate() {
            let block = self.package_block(call, i, span)?;
            failed |= self.top_level(&block, role, shape, &mut shared).is_err();
        }
        if failed {
            return Err(super::Failed);
        }
        self.out.pipeline = Pipeline { stages: vec![self.v1model_ingress(), self.v1model_egress()] };
        Ok(())
    }

    /// Finds the fields of the standard metadata in their storage.
    pub(super) fn v1model_metadata(&mut self, store: &Store, ty: &Type, span: Span) -> Res<()> {
        let field = |name| self.field_var(store, ty, name);
        let found = (|| {
            let own = V1Metadata {
                ingress_port: field("ingress_port")?,
                egress_spec: field("egress_spec")?,
                egress_port: field("egress_port")?,
                instance_type: field("instance_type")?,
                ingress_global_timestamp: field("ingress_global_timestamp")?,
                egress_global_timestamp: field("egress_global_timestamp")?,
                enq_timestamp: field("enq_timestamp")?,
                enq_qdepth: field("enq_qdepth")?,
                deq_timedelta: field("deq_timedelta")?,
                deq_qdepth: field("deq_qdepth")?,
                mcast_grp: field("mcast_grp")?,
                egress_rid: field("egress_rid")?,
            };
            let standard = ir::StandardMetadata {
                packet_length: field("packet_length")?,
                checksum_error: field("checksum_error")?,
                parser_error: field("parser_error")?,
            };
            Some((own, standard))
        })();
        match found {
            Some(found) => {
                (self.v1model, self.out.standard) = found;
                Ok(())
            }
            None => self.limit("E0511", span, "this struct is not v1model's `standard_metadata_t`"),
        }
    }

    /// The inputs of a packet that arrives.
    fn v1model_arrival(&self, port: Source) -> Vec<Input> {
        let std = self.v1model;
        let inputs = [
            (std.ingress_port, port),
            (self.out.standard.packet_length, Source::Length),
            (std.ingress_global_timestamp, Source::Clock),
        ];
        inputs.into_iter().map(|(var, value)| Input { var, value }).collect()
    }

    /// Ingress, and then in this order: the clone, the resubmission, the drop, multicast, unicast.
    fn v1model_ingress(&self) -> Stage {
        let std = self.v1model;
        let [spec, group] = [std.egress_spec, std.mcast_grp].map(|v| self.of_var(v));
        let mut steps = vec![
            Step::Parse(Role::Parser, Vec::new()),
            Step::Control(Role::VerifyChecksum),
            Step::Control(Role::Ingress),
        ];
        steps.extend(self.v1model_clones());
        steps.extend(self.decisions(&[Again::Resubmit], false, |_, passed| {
            self.v1model_round(PathKind::Resubmit, Bytes::Entered, instance::RESUBMITTED, passed)
        }));
        let is = |e: &Expr, value| Expr::binary(BinOp::Eq, e.clone(), Expr::bits(e.ty.width(), value));
        let unicast = is(&group, 0);
        let dropped = Expr::binary(BinOp::LogAnd, unicast.clone(), is(&spec, abi::DROP_PORT.into()));
        steps.push(decide(When::Holds(dropped), Fate::Drop(abi::drops::EGRESS_SPEC)));
        let path = |kind, to, sets| Path {
            kind,
            to,
            stage: Some(EGRESS),
            bytes: Bytes::Entered,
            carry: Carry::All,
            sets,
        };
        // Requests of ingress end with ingress, but for truncation.
        let withdrawn = self.withdrawn(&["clone", "resubmit", "recirculate"]);
        let mut sets = withdrawn.clone();
        sets.push(Input { var: std.egress_rid, value: Source::Replica });
        sets.push(constant(std.egress_spec, 9, 0));
        sets.push(constant(std.instance_type, 32, instance::REPLICATION));
        let replicate = path(PathKind::Multicast, To::Group(group), sets);
        steps.push(decide(When::Holds(Expr::not(unicast)), Fate::Go(replicate)));
        // A unicast packet is a normal packet in egress, whatever brought it into ingress.
        let mut sets = withdrawn;
        sets.push(constant(std.instance_type, 32, instance::NORMAL));
        steps.push(decide(When::Always, Fate::Go(path(PathKind::Unicast, To::Port(spec), sets))));
        let inputs = self.v1model_arrival(Source::Port);
        Stage { name: "ingress", inputs, queued: false, steps }
    }

    /// Egress, and then in this order: the clone, the drop, the checksums and the deparser, recirculation, the departure.
    fn v1model_egress(&self) -> Stage {
        let std = self.v1model;
        let spec = self.of_var(std.egress_spec);
        let mut steps = vec![Step::Control(Role::Egress)];
        steps.extend(self.v1model_clones());
        let dropped = Expr::binary(BinOp::Eq, spec, Expr::bits(9, abi::DROP_PORT.into()));
        steps.push(decide(When::Holds(dropped), Fate::Drop(abi::drops::EGRESS_SPEC)));
        steps.push(Step::Control(Role::ComputeChecksum));
        steps.push(Step::Deparse(Role::Deparser));
        if let Some(var) = self.requested("truncate") {
            steps.push(Step::Truncate(var, self.requests.truncate));
        }
        steps.extend(self.decisions(&[Again::Recirculate], false, |_, passed| {
            self.v1model_round(PathKind::Recirculate, Bytes::Deparsed, instance::RECIRCULATED, passed)
        }));
        let fragment = (self.requested("fragment_size"), self.requested("fragment_identification"));
        if let (Some(size), Some(identification)) = fragment {
            let (port, loc) = (self.of_var(std.egress_port), self.requests.fragment);
            steps.push(Step::Fragment(Fragment { size, identification, port, loc }));
        }
        let leave = Path {
            kind: PathKind::Leave,
            to: To::Port(self.of_var(std.egress_port)),
            stage: None,
            bytes: Bytes::Deparsed,
            carry: Carry::All,
            sets: Vec::new(),
        };
        steps.push(decide(When::Always, Fate::Go(leave)));
        let inputs = [
            (std.egress_port, Source::Port),
            (std.egress_global_timestamp, Source::Clock),
            (std.enq_timestamp, Source::Queue(Queueing::Entered)),
            (std.enq_qdepth, Source::Queue(Queueing::Before)),
            (std.deq_timedelta, Source::Queue(Queueing::Waited)),
            (std.deq_qdepth, Source::Queue(Queueing::Behind)),
        ];
        let inputs = inputs.into_iter().map(|(var, value)| Input { var, value }).collect();
        Stage { name: "egress", inputs, queued: true, steps }
    }

    /// The clones, which are requested in ingress or in egress. A clone knows what an arriving packet knows.
    fn v1model_clones(&self) -> Vec<Step> {
        let std = self.v1model;
        let Some(session) = self.requested("clone_session") else { return Vec::new() };
        self.decisions(&[Again::CloneI2E, Again::CloneE2E], true, |what, passed| {
            let (headers, kind) = match what {
                Again::CloneE2E => (Headers::Kept, instance::EGRESS_CLONE),
                _ => (Headers::Parsed(Role::Parser), instance::INGRESS_CLONE),
            };
            let port = Source::Value(self.of_var(std.ingress_port));
            let inputs = self.v1model_arrival(port);
            Path {
                kind: PathKind::Clone,
                to: To::Session(self.of_var(session)),
                stage: Some(EGRESS),
                bytes: Bytes::Entered,
                carry: Carry::New { inputs, headers, passed },
                sets: vec![
                    Input { var: std.egress_rid, value: Source::Replica },
                    constant(std.egress_spec, 9, 0),
                    constant(std.instance_type, 32, kind),
                ],
            }
        })
    }

    /// The path of a packet that is processed from the parser on once more.
    fn v1model_round(&self, kind: PathKind, bytes: Bytes, instance: u128, passed: Vec<Passed>) -> Path {
        let std = self.v1model;
        Path {
            kind,
            to: To::Port(self.of_var(std.ingress_port)),
            stage: Some(INGRESS),
            bytes,
            carry: Carry::New { inputs: Vec::new(), headers: Headers::Invalid, passed },
            sets: vec![constant(std.instance_type, 32, instance)],
        }
    }
}
