//! The Portable Switch Architecture: two pipelines, each with its own storage, and the metadata that one passes to the
//! other.

use ir::pipeline::{
    Bytes, Carry, Fate, Headers, Input, Passed, Path, PathKind, Pipeline, Source, Stage, Step, To, When,
};
use ir::{BinOp, Expr, HeaderRef, Place, Role, StageId, Ty, VarId, VarKind};

use super::arch::Shared;
use super::request::{constant, decide};
use super::storage::Store;
use super::value::{Val, read};
use super::{Lower, Res};
use crate::ast;
use crate::check::{Arg, Call};
use crate::source::Span;

/// The blocks of each pipeline, in the order in which they process a packet. Each letter is a parameter: `p` is the
/// packet, other letters are storage. Parameters with the same letter share their storage.
const INGRESS: [(Role, &str); 3] =
    [(Role::Parser, "pHMabc"), (Role::Ingress, "HMde"), (Role::IngressDeparser, "pfghHMe")];
const EGRESS: [(Role, &str); 3] =
    [(Role::EgressParser, "pXYijkl"), (Role::Egress, "XYno"), (Role::Deparser, "pqrXYot")];

/// The numbers of the values of `PSA_PacketPath_t`.
mod path {
    pub const NORMAL_UNICAST: u128 = 1;
    pub const NORMAL_MULTICAST: u128 = 2;
    pub const CLONE_I2E: u128 = 3;
    pub const CLONE_E2E: u128 = 4;
    pub const RESUBMIT: u128 = 5;
    pub const RECIRCULATE: u128 = 6;
}

/// The value of `PSA_PORT_RECIRCULATE` in psa.p4.
const RECIRCULATE_PORT: u128 = 0xffff_fffa;

const TO_INGRESS: StageId = StageId(0);
const TO_EGRESS: StageId = StageId(1);

impl<'t, 'a> Lower<'t, 'a> {
    /// `PSA_Switch(ingress, pre, egress, bqe) main;`
    pub(super) fn psa(&mut self, call: &Call<'a>, span: Span) -> Res<()> {
        self.out.arch = ir::Arch::Psa;
        self.pipeline_variables();
        let mut shared = Shared::default();
        for (at, blocks) in [(0, INGRESS), (2, EGRESS)] {
            let pipeline = self.pipeline(call, at, span)?;
            for (i, (role, shape)) in blocks.into_iter().enumerate() {
                let block = self.package_block(pipeline, i, span)?;
                self.top_level(&block, role, shape, &mut shared)?;
            }
        }
        match self.psa_pipeline(&shared) {
            Some(pipeline) => {
                self.out.pipeline = pipeline;
                Ok(())
            }
            None => self.limit("E0511", span, "the metadata is not that of psa.p4"),
        }
    }

    /// The pipeline that is the `at`th argument of the switch: a constructor call, or the name of an instance.
    fn pipeline(&mut self, call: &Call<'a>, at: usize, span: Span) -> Res<&'t Call<'a>> {
        let e = match call.args.get(at) {
            Some((_, Arg::Given(e) | Arg::Default(e))) => *e,
            _ => return self.limit("E0511", span, "a pipeline of the switch is left out"),
        };
        let typed = self.typed;
        match typed.call(e.id).or_else(|| typed.instance(self.resolved(e)?)) {
            Some(made) => Ok(made),
            None => self.bug(e.span, "this is no pipeline"),
        }
    }

    /// Creates the variables that v1model has in its standard metadata, and which PSA and PNA programs cannot name.
    pub(super) fn pipeline_variables(&mut self) {
        let mut var =
            |name: &str, width| self.var(&format!("$pipeline.{name}"), Ty::Bit(width), VarKind::Metadata);
        let packet_length = var("packet_length", 32);
        let checksum_error = var("checksum_error", 1);
        let parser_error = var("parser_error", 32);
        self.out.standard = ir::StandardMetadata { packet_length, checksum_error, parser_error };
    }

    /// The pipeline of the switch (PSA sections 6.1 to 6.6); `None` if the metadata is not that of psa.p4.
    fn psa_pipeline(&self, shared: &Shared) -> Option<Pipeline> {
        let field = |letter: char, name: &str| {
            let (store, ty) = shared.get(&letter)?;
            self.field_var(store, ty, name)
        };
        let passed = |from: char, to: char| {
            let mut out = Vec::new();
            if let (Some((from, _)), Some((to, _))) = (shared.get(&from), shared.get(&to)) {
                pass(from, to, &mut out)?;
            }
            Some(out)
        };
        let length = self.out.standard.packet_length;
        let ingress_paths = [field('a', "packet_path")?, field('d', "packet_path")?];
        let egress_paths = [field('i', "packet_path")?, field('n', "packet_path")?];
        let on = |vars: [VarId; 2], value: u128| -> Vec<Input> {
            vars.into_iter().map(|var| constant(var, self.out.var(var).ty.width(), value)).collect()
        };
        let path = |kind, to, stage, bytes, passed, sets| Path {
            kind,
            to,
            stage: Some(stage),
            bytes,
            carry: Carry::New { inputs: Vec::new(), headers: Headers::Invalid, passed },
            sets,
        };
        let flag = |letter: char, name: &str| Some(When::Holds(self.of_var(field(letter, name)?)));
        let value = |letter: char, name: &str| Some(self.of_var(field(letter, name)?));
        let clone = |out: char, bytes, passed, number| {
            let to = To::Session(value(out, "clone_session_id")?);
            let path = path(PathKind::Clone, to, TO_EGRESS, bytes, passed, on(egress_paths, number));
            Some(decide(flag(out, "clone")?, Fate::Copy(path)))
        };
        let drop = |out: char| Some(decide(flag(out, "drop")?, Fate::Drop(abi::drops::DROP)));

        let resubmit = path(
            PathKind::Resubmit,
            To::Port(value('d', "ingress_port")?),
            TO_INGRESS,
            Bytes::Entered,
            passed('g', 'b')?,
            on(ingress_paths, path::RESUBMIT),
        );
        let forward = |kind, to, number| {
            let mut sets = on(egress_paths, number);
            let class = Source::Value(value('e', "class_of_service")?);
            sets.push(Input { var: field('n', "class_of_service")?, value: class });
            Some(Fate::Go(path(kind, to, TO_EGRESS, Bytes::Deparsed, passed('h', 'j')?, sets)))
        };
        let group = value('e', "multicast_group")?;
        let none = Expr::bits(group.ty.width(), 0);
        let multicast = Expr::not(Expr::binary(BinOp::Eq, group.clone(), none));
        let ingress = vec![
            Step::Parse(Role::Parser, vec![field('d', "parser_error")?]),
            Step::Control(Role::Ingress),
            Step::Deparse(Role::IngressDeparser),
            clone('e', Bytes::Entered, passed('f', 'k')?, path::CLONE_I2E)?,
            drop('e')?,
            decide(flag('e', "resubmit")?, Fate::Go(resubmit)),
            decide(
                When::Holds(multicast),
                forward(PathKind::Multicast, To::Group(group), path::NORMAL_MULTICAST)?,
            ),
            decide(
                When::Always,
                forward(PathKind::Unicast, To::Port(value('e', "egress_port")?), path::NORMAL_UNICAST)?,
            ),
        ];

        let port = value('n', "egress_port")?;
        let there = Expr::bits(port.ty.width(), RECIRCULATE_PORT);
        let recirculate = path(
            PathKind::Recirculate,
            To::Port(there.clone()),
            TO_INGRESS,
            Bytes::Deparsed,
            passed('r', 'c')?,
            on(ingress_paths, path::RECIRCULATE),
        );
        let leave = Path {
            kind: PathKind::Leave,
            to: To::Port(port.clone()),
            stage: None,
            bytes: Bytes::Deparsed,
            carry: Carry::All,
            sets: Vec::new(),
        };
        let egress = vec![
            Step::Parse(Role::EgressParser, vec![field('n', "parser_error")?]),
            Step::Control(Role::Egress),
            Step::Deparse(Role::Deparser),
            clone('o', Bytes::Deparsed, passed('q', 'l')?, path::CLONE_E2E)?,
            drop('o')?,
            decide(When::Holds(Expr::binary(BinOp::Eq, port, there)), Fate::Go(recirculate)),
            decide(When::Always, Fate::Go(leave)),
        ];

        let inputs = |list: Vec<(VarId, Source)>| -> Vec<Input> {
            list.into_iter().map(|(var, value)| Input { var, value }).collect()
        };
        let to_ingress = inputs(vec![
            (field('a', "ingress_port")?, Source::Port),
            (field('d', "ingress_port")?, Source::Port),
            (field('d', "ingress_timestamp")?, Source::Clock),
            (field('e', "drop")?, Source::Const(abi::Bits::bit(true))),
            (length, Source::Length),
        ]);
        let to_egress = inputs(vec![
            (field('i', "egress_port")?, Source::Port),
            (field('n', "egress_port")?, Source::Port),
            (field('t', "egress_port")?, Source::Port),
            (field('n', "instance")?, Source::Replica),
            (field('n', "egress_timestamp")?, Source::Clock),
            (length, Source::Length),
        ]);
        Some(Pipeline {
            stages: vec![
                Stage { name: "ingress", inputs: to_ingress, queued: false, steps: ingress },
                Stage { name: "egress", inputs: to_egress, queued: true, steps: egress },
            ],
        })
    }

    /// The functions `psa_normal(istd)` and others, which tell what will happen to the packet.
    pub(super) fn psa_predicate(&mut self, name: &str, args: &[&'a ast::Expr], span: Span) -> Res<Val> {
        let mut stores = Vec::new();
        for (e, val) in args.iter().zip(self.values(args)?) {
            match val {
                Val::Store(store) => stores.push((store, self.ty(e))),
                _ => {
                    let what = format!("`{name}` is called with something else than PSA's metadata");
                    return self.limit("E0510", e.span, &what);
                }
            }
        }
        let field = |at: usize, field: &str, ty: Ty| {
            let (store, of) = stores.get(at)?;
            Some(read(&Place::Var(self.field_var(store, of, field)?), ty))
        };
        let flag = |name: &str| field(0, name, Ty::Bool);
        let and = |a, b| Expr::binary(BinOp::LogAnd, a, b);
        let made = match name {
            "psa_clone_i2e" | "psa_clone_e2e" => flag("clone"),
            "psa_resubmit" => (|| Some(and(Expr::not(flag("drop")?), flag("resubmit")?)))(),
            "psa_normal" => (|| Some(and(Expr::not(flag("drop")?), Expr::not(flag("resubmit")?))))(),
            "psa_recirculate" => (|| {
                let port = field(1, "egress_port", Ty::Bit(32))?;
                let there = Expr::binary(BinOp::Eq, port, Expr::bits(32, 0xffff_fffa));
                Some(and(Expr::not(flag("drop")?), there))
            })(),
            _ => None,
        };
        match made {
            Some(answer) => Ok(Val::Scalar(answer)),
            None => self.bug(span, "metadata that is not PSA's"),
        }
    }
}

/// Pairs the fields that a deparser writes with those that a parser reads.
fn pass(from: &Store, to: &Store, out: &mut Vec<Passed>) -> Option<()> {
    match (from, to) {
        (Store::Scalar(Place::Var(from), _), Store::Scalar(Place::Var(to), _)) => {
            out.push(Passed::Var { from: *from, to: *to });
        }
        (Store::Header(HeaderRef::Header(from), _), Store::Header(HeaderRef::Header(to), _)) => {
            out.push(Passed::Header { from: *from, to: *to });
        }
        (Store::Struct(from), Store::Struct(to)) => {
            for (from, to) in from.iter().zip(to.iter()) {
                pass(from, to, out)?;
            }
        }
        _ => return None,
    }
    Some(())
}
