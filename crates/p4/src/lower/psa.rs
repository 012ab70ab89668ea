//! The Portable Switch Architecture: two pipelines, each with storage of its own, and what is handed from one to the other.

use std::collections::HashMap;

use ir::{HeaderRef, Passed, Place, PsaMetadata, Role, Ty, VarId, VarKind};

use super::scope::{Binding, Env, Object};
use super::types::Store;
use super::{Lower, Res};
use crate::ast::{self, ExprKind};
use crate::source::Span;

/// The blocks in the order in which a packet meets them: role, name in its pipeline's package, and what each parameter is. `p` is the
/// packet; other letters name storage, and those that occur twice are shared.
const INGRESS: [(Role, &str, &str); 3] =
    [(Role::Parser, "ip", "pHMabc"), (Role::Ingress, "ig", "HMde"), (Role::IngressDeparser, "id", "pfghHMe")];
const EGRESS: [(Role, &str, &str); 3] =
    [(Role::EgressParser, "ep", "pXYijkl"), (Role::Egress, "eg", "XYno"), (Role::Deparser, "ed", "pqrXYot")];

impl<'a> Lower<'a, '_> {
    /// `PSA_Switch(ingress, pre, egress, bqe) main;`
    pub(super) fn psa(&mut self, args: &'a [ast::Argument], span: Span) -> Res<()> {
        self.out.arch = ir::Arch::Psa;
        self.pipeline_variables();
        let mut shared: HashMap<char, Store> = HashMap::new();
        for (at, name, blocks) in [(0, "ingress", INGRESS), (2, "egress", EGRESS)] {
            let Some(arg) = argument(args, name, at) else {
                return self.error("E0503", span, format!("the switch has no `{name}`"));
            };
            let parts = self.package(arg)?;
            for (i, (role, name, shape)) in blocks.into_iter().enumerate() {
                let Some(e) = argument(parts, name, i) else {
                    return self.error("E0503", arg.span, format!("the pipeline has no `{name}`"));
                };
                let global = self.global.clone();
                let block = self.block_value(e, &global)?;
                self.top_level(&block, role, shape, &mut shared)?;
            }
        }
        let psa = self.psa_metadata(&shared, span)?;
        self.out.psa = Some(Box::new(psa));
        Ok(())
    }

    /// The arguments of `IngressPipeline(…)`, written here or at its name.
    fn package(&mut self, e: &'a ast::Expr) -> Res<&'a [ast::Argument]> {
        match &e.kind {
            ExprKind::Call { args, .. } => Ok(args),
            ExprKind::Name { name, .. } => match self.global.get(&name.text) {
                Some(Binding::Object(Object::Package(args))) => Ok(args),
                _ => self.error("E0503", e.span, format!("`{}` is no pipeline", name.text)),
            },
            _ => self.error("E0503", e.span, "this is no pipeline"),
        }
    }

    /// What v1model calls standard metadata, and here only the pipeline knows.
    pub(super) fn pipeline_variables(&mut self) {
        let mut var =
            |name: &str, width| self.var(&format!("$pipeline.{name}"), Ty::Bit(width), VarKind::Metadata);
        self.out.standard = ir::StandardMetadata {
            ingress_port: var("ingress_port", 32),
            egress_spec: var("egress_spec", 9),
            egress_port: var("egress_port", 32),
            instance_type: var("instance_type", 32),
            packet_length: var("packet_length", 32),
            enq_timestamp: var("enq_timestamp", 32),
            enq_qdepth: var("enq_qdepth", 19),
            deq_timedelta: var("deq_timedelta", 32),
            deq_qdepth: var("deq_qdepth", 19),
            ingress_global_timestamp: var("ingress_global_timestamp", 48),
            egress_global_timestamp: var("egress_global_timestamp", 48),
            mcast_grp: var("mcast_grp", 16),
            egress_rid: var("egress_rid", 16),
            checksum_error: var("checksum_error", 1),
            parser_error: var("parser_error", 32),
            priority: var("priority", 3),
        };
    }

    fn psa_metadata(&mut self, shared: &HashMap<char, Store>, span: Span) -> Res<PsaMetadata> {
        let field = |letter: char, name: &str| scalar(shared.get(&letter)?, name);
        let passed = |from: char, to: char| {
            let mut out = Vec::new();
            if let (Some(from), Some(to)) = (shared.get(&from), shared.get(&to)) {
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
            None => self.error_hint("E0503", span, "the metadata is not PSA's", "include <psa.p4>"),
        }
    }

    /// `psa_normal(istd)` and its kin: what the architecture will do with the packet.
    pub(super) fn psa_question(
        &mut self,
        name: &str,
        args: &[Option<&'a ast::Expr>],
        env: &Env<'a>,
        span: Span,
    ) -> Res<ir::Expr> {
        let mut stores = Vec::new();
        for e in args.iter().flatten() {
            stores.push(self.lvalue(e, env)?);
        }
        let read = |at: usize, field: &str, ty: Ty| {
            let var = scalar(stores.get(at)?, field)?;
            Some(ir::Expr::read(Place::Var(var), ty))
        };
        let flag = |field: &str| read(0, field, Ty::Bool);
        let and = |a, b| super::fold::binary(ir::BinOp::LogAnd, a, b);
        let made = match name {
            "psa_clone_i2e" | "psa_clone_e2e" => flag("clone"),
            "psa_resubmit" => (|| and(ir::Expr::not(flag("drop")?), flag("resubmit")?))(),
            "psa_normal" => (|| and(ir::Expr::not(flag("drop")?), ir::Expr::not(flag("resubmit")?)))(),
            "psa_recirculate" => (|| {
                let port = read(1, "egress_port", Ty::Bit(32))?;
                let there = ir::Expr::binary(ir::BinOp::Eq, port, ir::Expr::bits(32, 0xffff_fffa));
                and(ir::Expr::not(flag("drop")?), there)
            })(),
            _ => None,
        };
        made.map_or_else(|| self.error("E0503", span, format!("`{name}` takes PSA's metadata")), Ok)
    }
}

/// An argument by name or place.
pub(super) fn argument<'a>(args: &'a [ast::Argument], name: &str, at: usize) -> Option<&'a ast::Expr> {
    let named = args.iter().find(|a| a.name.as_ref().is_some_and(|n| n.text == name));
    named.or(args.get(at))?.value.as_ref()
}

/// A field of a struct that is a variable.
pub(super) fn scalar(store: &Store, name: &str) -> Option<VarId> {
    let Store::Struct(ty, parts) = store else { return None };
    match &parts[ty.field(name)?] {
        Store::Scalar(Place::Var(var), _) => Some(*var),
        _ => None,
    }
}

/// Pairs what a deparser writes with what a parser reads.
fn pass(from: &Store, to: &Store, out: &mut Vec<Passed>) -> Option<()> {
    match (from, to) {
        (Store::Scalar(Place::Var(from), _), Store::Scalar(Place::Var(to), _)) => {
            out.push(Passed::Var { from: *from, to: *to });
        }
        (Store::Header(HeaderRef::Header(from), _), Store::Header(HeaderRef::Header(to), _)) => {
            out.push(Passed::Header { from: *from, to: *to });
        }
        (Store::Struct(_, from) | Store::Tuple(from), Store::Struct(_, to) | Store::Tuple(to)) => {
            for (from, to) in from.iter().zip(to.iter()) {
                pass(from, to, out)?;
            }
        }
        _ => return None,
    }
    Some(())
}
