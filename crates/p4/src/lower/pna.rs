//! The Portable NIC Architecture: one pipeline for both directions, and what packets may ask of it.

use std::collections::HashMap;

use ir::{Call, Expr, Place, PnaMetadata, Role, StmtKind as Ir, Ty, VarId};

use super::extern_call::Args;
use super::psa::{argument, scalar};
use super::scope::Env;
use super::types::{Store, T, Val};
use super::{Lower, Res};
use crate::ast;
use crate::source::Span;

/// The blocks in the order in which a packet meets them: role, name in the package, and what each parameter is (see [`super::psa`]).
const BLOCKS: [(Role, &str, usize, &str); 4] = [
    (Role::Parser, "main_parser", 0, "phma"),
    (Role::PreControl, "pre_control", 1, "hnbc"),
    (Role::Ingress, "main_control", 2, "hmde"),
    (Role::Deparser, "main_deparser", 3, "phme"),
];

impl<'a> Lower<'a, '_> {
    /// `PNA_NIC(parser, pre control, main control, deparser) main;`
    pub(super) fn pna(&mut self, args: &'a [ast::Argument], span: Span) -> Res<()> {
        self.out.arch = ir::Arch::Pna;
        self.pipeline_variables();
        let mut shared: HashMap<char, Store> = HashMap::new();
        for (role, name, at, shape) in BLOCKS {
            let Some(e) = argument(args, name, at) else {
                return self.error("E0503", span, format!("the NIC has no `{name}`"));
            };
            let global = self.global.clone();
            let block = self.block_value(e, &global)?;
            self.top_level(&block, role, shape, &mut shared)?;
            // Where the pre control has the main control's metadata, it is the same: 'n' is 'm' then. It is made after 'm', and
            // what is of another type is its own.
            if role == Role::Parser
                && let Some(main) = shared.get(&'m').cloned()
                && self.pre_metadata_is(args, &main)
            {
                shared.insert('n', main);
            }
        }
        let pna = self.pna_metadata(&shared, span)?;
        self.out.pna = Some(Box::new(pna));
        Ok(())
    }

    /// Whether the pre control's own metadata is of this type.
    fn pre_metadata_is(&mut self, args: &'a [ast::Argument], main: &Store) -> bool {
        let global = self.global.clone();
        let block = argument(args, "pre_control", 1).and_then(|e| self.block_value(e, &global).ok());
        let Some(block) = block else { return false };
        let ast::DeclKind::Control(c) = &block.decl.kind else { return false };
        let ty = c.params.get(1).and_then(|p| self.ty(&p.ty, &global).ok());
        ty.is_some_and(|ty| ty == main.ty())
    }

    fn pna_metadata(&mut self, shared: &HashMap<char, Store>, span: Span) -> Res<PnaMetadata> {
        let field = |letter: char, name: &str| scalar(shared.get(&letter)?, name);
        let four = |letter: char| -> Option<[VarId; 4]> {
            Some([
                field(letter, "direction")?,
                field(letter, "pass")?,
                field(letter, "loopedback")?,
                field(letter, "input_port")?,
            ])
        };
        let made = (|| {
            Some(PnaMetadata {
                parser: four('a')?,
                pre: four('b')?,
                main: four('d')?,
                errors: [field('b', "parser_error")?, field('d', "parser_error")?],
                timestamp: field('d', "timestamp")?,
            })
        })();
        match made {
            Some(pna) => Ok(pna),
            None => self.error_hint("E0503", span, "the metadata is not PNA's", "include <pna.p4>"),
        }
    }

    /// A call of one of PNA's extern functions.
    pub(super) fn pna_call(&mut self, name: &str, args: &Args<'a>, env: &Env<'a>, span: Span) -> Res<Val> {
        match name {
            "send_to_port" => {
                let e = self.need(args, 0, span)?;
                let port = self.number_of(e, env, 32)?;
                self.push(Ir::Call(Call::SendToPort(port)));
            }
            "mirror_packet" => {
                let (slot, session) = (self.need(args, 0, span)?, self.need(args, 1, span)?);
                let (slot, session) = (self.number_of(slot, env, 8)?, self.number_of(session, env, 16)?);
                self.push(Ir::Call(Call::MirrorPacket { slot, session }));
            }
            "add_entry" => return self.add_entry(args, env, span),
            "allocate_flow_id" => {
                let dst = Place::Var(self.var("$flow", Ty::Bit(32), ir::VarKind::Local));
                self.push(Ir::Call(Call::FlowId(dst.clone())));
                return Ok(Val::Scalar(Expr::read(dst, Ty::Bit(32)), T::Bit(32)));
            }
            "set_entry_expire_time" => {
                let e = self.need(args, 0, span)?;
                let profile = self.number_of(e, env, 8)?;
                self.push(Ir::Call(Call::RestartTimer(Some(profile))));
            }
            "restart_expire_timer" => self.push(Ir::Call(Call::RestartTimer(None))),
            _ => return self.by_direction(args, env, span),
        }
        Ok(Val::Void)
    }

    fn add_entry(&mut self, args: &Args<'a>, env: &Env<'a>, span: Span) -> Res<Val> {
        let name = self.need(args, 0, span)?;
        let Val::Str(action) = self.expr(name, env, Some(&T::Str))? else {
            return self.error("E0503", name.span, "the name of an action stands here");
        };
        let data = self.need(args, 1, span)?;
        let data = self.data(data, env)?;
        let profile = self.need(args, 2, span)?;
        let profile = self.number_of(profile, env, 8)?;
        let done = Place::Var(self.var("$added", Ty::Bool, ir::VarKind::Local));
        self.push(Ir::Call(Call::AddEntry { done: Some(done.clone()), action, args: data, profile }));
        Ok(Val::Scalar(Expr::read(done, Ty::Bool), T::Bool))
    }

    /// `SelectByDirection(direction, from_net, from_host)`.
    fn by_direction(&mut self, args: &Args<'a>, env: &Env<'a>, span: Span) -> Res<Val> {
        let direction = self.need(args, 0, span)?;
        let direction = self.number_of(direction, env, 32)?;
        let (net, host) = (self.need(args, 1, span)?, self.need(args, 2, span)?);
        let net = self.expr(net, env, None)?;
        let Val::Scalar(net, ty) = self.loaded(net) else {
            return self.not_yet(span, "`SelectByDirection` of anything but numbers");
        };
        let (host, _) = self.scalar(host, env, Some(&ty))?;
        let from_net = Expr::binary(ir::BinOp::Eq, direction.clone(), Expr::bits(direction.ty.width(), 0));
        let Some(Store::Scalar(dst, ty)) = self.temp("$by_direction", &ty) else { return Err(super::Failed) };
        let set = |l: &mut Self, src: Expr| vec![ir::Stmt::new(Ir::Assign { dst: dst.clone(), src }, l.loc)];
        let (then, otherwise) = (set(self, net.clone()), set(self, host));
        self.push(Ir::If { cond: from_net, then, otherwise });
        Ok(Val::Scalar(Expr::read(dst, net.ty), ty))
    }
}
