//! The Portable Switch Architecture: two pipelines, each with its own storage, and the metadata that one passes to the
//! other.

use ir::{BinOp, Expr, HeaderRef, Passed, Place, PsaMetadata, Role, Ty, VarKind};

use super::arch::Shared;
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
        let psa = self.psa_metadata(&shared, span)?;
        self.out.psa = Some(Box::new(psa));
        Ok(())
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

    /// Variables for what v1model has in standard metadata. PSA and PNA programs cannot name them.
    pub(super) fn pipeline_variables(&mut self) {
        let standard = ir::StandardMetadata::from_names(|name| {
            let width = match name {
                "egress_spec" => 9,
                "enq_qdepth" | "deq_qdepth" => 19,
                "ingress_global_timestamp" | "egress_global_timestamp" => 48,
                "mcast_grp" | "egress_rid" => 16,
                "checksum_error" => 1,
                "priority" => 3,
                _ => 32,
            };
            Some(self.var(&format!("$pipeline.{name}"), Ty::Bit(width), VarKind::Metadata))
        });
        self.out.standard = standard.unwrap_or_default();
    }

    fn psa_metadata(&mut self, shared: &Shared, span: Span) -> Res<PsaMetadata> {
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
        let made = (|| {
            Some(PsaMetadata {
                ingress_parser: [field('a', "ingress_port")?, field('a', "packet_path")?],
                ingress_input: ir::program::PsaIngressInput {
                    ingress_port: field('d', "ingress_port")?,
                    packet_path: field('d', "packet_path")?,
                    ingress_timestamp: field('d', "ingress_timestamp")?,
                    parser_error: field('d', "parser_error")?,
                },
                ingress_output: ir::program::PsaIngressOutput {
                    class_of_service: field('e', "class_of_service")?,
                    clone: field('e', "clone")?,
                    clone_session_id: field('e', "clone_session_id")?,
                    drop: field('e', "drop")?,
                    resubmit: field('e', "resubmit")?,
                    multicast_group: field('e', "multicast_group")?,
                    egress_port: field('e', "egress_port")?,
                },
                egress_parser: [field('i', "egress_port")?, field('i', "packet_path")?],
                egress_input: ir::program::PsaEgressInput {
                    class_of_service: field('n', "class_of_service")?,
                    egress_port: field('n', "egress_port")?,
                    packet_path: field('n', "packet_path")?,
                    instance: field('n', "instance")?,
                    egress_timestamp: field('n', "egress_timestamp")?,
                    parser_error: field('n', "parser_error")?,
                },
                egress_output: ir::program::PsaEgressOutput {
                    clone: field('o', "clone")?,
                    clone_session_id: field('o', "clone_session_id")?,
                    drop: field('o', "drop")?,
                },
                egress_deparser: field('t', "egress_port")?,
                resubmit: passed('g', 'b')?,
                recirculate: passed('r', 'c')?,
                normal: passed('h', 'j')?,
                clone_i2e: passed('f', 'k')?,
                clone_e2e: passed('q', 'l')?,
            })
        })();
        match made {
            Some(psa) => Ok(psa),
            None => self.limit("E0511", span, "the metadata is not that of psa.p4"),
        }
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
