//! The Portable NIC Architecture: one pipeline for both directions, and its extern functions.

use ir::{BinOp, Call, Expr, PnaMetadata, Role, StmtKind as Ir, Ty, VarId};

use super::arch::Shared;
use super::value::Val;
use super::{Lower, Res};
use crate::ast;
use crate::check;
use crate::source::Span;

/// The blocks in the order of the package's parameters. Each letter is a parameter (see [`super::psa`]).
const BLOCKS: [(Role, &str); 4] =
    [(Role::Parser, "phma"), (Role::PreControl, "hnbc"), (Role::Ingress, "hmde"), (Role::Deparser, "phme")];

impl<'a> Lower<'_, 'a> {
    /// `PNA_NIC(parser, pre control, main control, deparser) main;`
    pub(super) fn pna(&mut self, call: &check::Call<'a>, span: Span) -> Res<()> {
        self.out.arch = ir::Arch::Pna;
        self.pipeline_variables();
        let mut shared = Shared::default();
        for (i, (role, shape)) in BLOCKS.into_iter().enumerate() {
            let block = self.package_block(call, i, span)?;
            // If the pre control's metadata has the type of the main control's, they share it: 'n' is 'm'. Otherwise it
            // is separate.
            if role == Role::PreControl
                && let Some(main) = shared.get(&'m').cloned()
            {
                self.enter(&block);
                let params = self.typed.decl(block.decl.id).map(|d| d.params.clone()).unwrap_or_default();
                if params.get(1).is_some_and(|p| self.decl_ty(*p) == main.1) {
                    shared.insert('n', main);
                }
            }
            self.top_level(&block, role, shape, &mut shared)?;
        }
        let pna = self.pna_metadata(&shared, span)?;
        self.out.pna = Some(Box::new(pna));
        Ok(())
    }

    fn pna_metadata(&mut self, shared: &Shared, span: Span) -> Res<PnaMetadata> {
        let field = |letter: char, name: &str| {
            let (store, ty) = shared.get(&letter)?;
            self.field_var(store, ty, name)
        };
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
            None => self.limit("E0511", span, "the metadata is not that of pna.p4"),
        }
    }

    /// A call of an extern function of PNA.
    pub(super) fn pna_call(&mut self, name: &str, args: &[&'a ast::Expr], e: &'a ast::Expr) -> Res<Val> {
        match (name, args) {
            ("send_to_port", [port]) => {
                let port = self.number_of(port, 32)?;
                self.push(Ir::Call(Call::SendToPort(port)));
            }
            ("mirror_packet", [slot, session]) => {
                let [slot, session] = self.scalars([slot, session])?;
                self.push(Ir::Call(Call::MirrorPacket { slot, session }));
            }
            ("add_entry", [action, data, profile, ..]) => return self.add_entry(action, data, profile),
            ("allocate_flow_id", []) => {
                let (dst, val) = self.result("$flow", Ty::Bit(32));
                self.push(Ir::Call(Call::FlowId(dst)));
                return Ok(val);
            }
            ("set_entry_expire_time", [profile]) => {
                let profile = self.number_of(profile, 8)?;
                self.push(Ir::Call(Call::RestartTimer(Some(profile))));
            }
            ("restart_expire_timer", []) => self.push(Ir::Call(Call::RestartTimer(None))),
            ("SelectByDirection", [direction, net, host]) => {
                return self.by_direction(e, [direction, net, host]);
            }
            _ => {
                return self.limit(
                    "E0510",
                    e.span,
                    &format!("this calls `{name}` with other arguments than pna.p4 declares"),
                );
            }
        }
        Ok(Val::Void)
    }

    fn add_entry(&mut self, action: &'a ast::Expr, data: &'a ast::Expr, profile: &'a ast::Expr) -> Res<Val> {
        let action = self.known_text(action)?;
        let [data_val, Val::Scalar(profile)] = self.values_of([data, profile])? else {
            return self.bug(profile.span, "a profile that is no number");
        };
        let args = self.flatten(data_val, data.span)?;
        let (done, val) = self.result("$added", Ty::Bool);
        self.push(Ir::Call(Call::AddEntry { done: Some(done), action, args, profile }));
        Ok(val)
    }

    /// `SelectByDirection(direction, from_net, from_host)`.
    fn by_direction(&mut self, e: &'a ast::Expr, args: [&'a ast::Expr; 3]) -> Res<Val> {
        let ty = self.own_ty(e);
        let [Val::Scalar(direction), net, host] = self.values_of(args)? else {
            return self.bug(e.span, "a direction that is no number");
        };
        let store = self.storage("$by_direction", &ty, e.span)?;
        let zero = super::value::constant(abi::Bits::zero(direction.ty.width()), direction.ty);
        let cond = Expr::binary(BinOp::Eq, direction, zero);
        let (then, a) = self.in_block(|l| l.assign(&store, net, e.span));
        let (otherwise, b) = self.in_block(|l| l.assign(&store, host, e.span));
        a.and(b)?;
        self.push(Ir::If { cond, then, otherwise });
        Ok(store.value())
    }
}
