//! The Portable NIC Architecture: one pipeline for both directions, and its extern functions.

use ir::pipeline::{
    Bytes, Carry, Decision, Fate, Headers, Input, Path, PathKind, Pipeline, Source, Stage, Step, To, When,
};
use ir::{BinOp, Call, Expr, Role, StageId, StmtKind as Ir, Ty};

use num_traits::ToPrimitive;

use super::arch::Shared;
use super::request::{Again, decide};
use super::value::Val;
use super::{Learning, Lower, Res};
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
        match self.pna_pipeline(&shared) {
            Some(pipeline) => {
                self.out.pipeline = pipeline;
                Ok(())
            }
            None => self.limit("E0511", span, "the metadata is not that of pna.p4"),
        }
    }

    /// The pipeline of the NIC (PNA section 6); `None` if the metadata is not that of pna.p4.
    fn pna_pipeline(&self, shared: &Shared) -> Option<Pipeline> {
        let field = |letter: char, name: &str| {
            let (store, ty) = shared.get(&letter)?;
            self.field_var(store, ty, name)
        };
        let mut inputs = Vec::new();
        let mut passes = Vec::new();
        for letter in ['a', 'b', 'd'] {
            inputs.push(Input { var: field(letter, "direction")?, value: Source::Direction });
            inputs.push(Input { var: field(letter, "input_port")?, value: Source::Port });
            passes.push(field(letter, "pass")?);
        }
        inputs.push(Input { var: field('d', "timestamp")?, value: Source::Clock });
        inputs.push(Input { var: self.out.standard.packet_length, value: Source::Length });
        let mut steps = vec![
            Step::Parse(Role::Parser, vec![field('b', "parser_error")?, field('d', "parser_error")?]),
            Step::Control(Role::PreControl),
            Step::Control(Role::Ingress),
            Step::Deparse(Role::Deparser),
        ];
        for (slot, loc) in &self.requests.mirrors {
            let (Some(mirror), Some(session)) =
                (self.requested(&format!("mirror_{slot}")), self.requested(&format!("session_{slot}")))
            else {
                continue;
            };
            let path = leave(PathKind::Mirror, To::Session(self.of_var(session)));
            let (when, then) = (When::Requested(mirror, 1), Fate::Copy(path));
            steps.push(Step::Decide(Box::new(Decision { when, then, loc: *loc })));
        }
        let pass = self.of_var(field('d', "pass")?);
        let next = Expr::binary(BinOp::Add, pass.clone(), Expr::bits(pass.ty.width(), 1));
        let sets = passes.into_iter().map(|var| Input { var, value: Source::Value(next.clone()) });
        let again = Path {
            kind: PathKind::Recirculate,
            to: To::Port(self.of_var(field('d', "input_port")?)),
            stage: Some(StageId(0)),
            bytes: Bytes::Deparsed,
            carry: Carry::New { inputs: Vec::new(), headers: Headers::Invalid, passed: Vec::new() },
            sets: sets.collect(),
        };
        steps.extend(self.decisions(&[Again::Recirculate], false, |_, _| again.clone()));
        if let (Some(send), Some(port)) = (self.requested("send"), self.requested("port")) {
            let path = leave(PathKind::Leave, To::Port(self.of_var(port)));
            steps.push(decide(When::Requested(send, 1), Fate::Go(path)));
        }
        steps.push(decide(When::Always, Fate::Drop(abi::drops::DROP)));
        Some(Pipeline { stages: vec![Stage { name: "main", inputs, queued: false, steps }] })
    }

    /// A call of an extern function of PNA.
    pub(super) fn pna_call(&mut self, name: &str, args: &[&'a ast::Expr], e: &'a ast::Expr) -> Res<Val> {
        match (name, args) {
            ("send_to_port", [port]) => {
                let port = self.number_of(port, 32)?;
                self.ask("port", port);
                self.ask("send", Expr::bits(32, 1));
            }
            ("mirror_packet", [slot, session]) => {
                let Some(slot) = self.known_number(slot).and_then(|n| n.to_u64()) else {
                    return self.limit("E0515", slot.span, "this mirror slot is not compile-time known");
                };
                let session = self.number_of(session, 32)?;
                let loc = self.loc;
                self.requests.mirrors.entry(slot).or_insert(loc);
                self.ask(&format!("session_{slot}"), session);
                self.ask(&format!("mirror_{slot}"), Expr::bits(32, 1));
            }
            ("add_entry", [action, data, profile, ..]) => {
                return self.add_entry(action, data, profile, e.span);
            }
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

    /// `add_entry(action, data, profile)` in an action of a table: the table is the one whose action is being lowered.
    fn add_entry(
        &mut self,
        action: &'a ast::Expr,
        data: &'a ast::Expr,
        profile: &'a ast::Expr,
        span: Span,
    ) -> Res<Val> {
        let wanted = self.known_text(action)?;
        let Some(Learning { id: table, learns, actions }) = self.learning.clone() else {
            return self.limit("E0528", span, "`add_entry` runs here outside of a table");
        };
        if !learns {
            let what = "`add_entry` adds an entry to a table whose keys are not all exact, whose entries are const, that has an \
                        action profile, or that has not `add_on_miss = true`";
            return self.limit("E0528", span, what);
        }
        let named = |listed: &ast::ActionRef| {
            let id = self.resolved(listed.expr.called().0);
            id.is_some_and(|id| self.name_of(id) == wanted)
        };
        let Some(index) = actions.iter().position(named) else {
            return self.limit(
                "E0528",
                action.span,
                &format!("the table of this action has no action `{wanted}`"),
            );
        };
        let action = index as u32;
        let [data_val, Val::Scalar(profile)] = self.values_of([data, profile])? else {
            return self.bug(profile.span, "a profile that is no number");
        };
        let args = self.flatten(data_val, data.span)?;
        let (done, val) = self.result("$added", Ty::Bool);
        self.push(Ir::Call(Call::AddEntry { done: Some(done), table, action, args, profile }));
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

/// The path of a packet that leaves as the deparser writes it.
fn leave(kind: PathKind, to: To) -> Path {
    Path { kind, to, stage: None, bytes: Bytes::Deparsed, carry: Carry::All, sets: Vec::new() }
}
