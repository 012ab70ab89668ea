//! The rules for calls of externs.

use super::{Check, Context, Rule};
use crate::expr::{Expr, Place, Ty};
use crate::program::{ChecksumId, MAX_DIRECT_REGISTER, MeterId, RegisterId, Table, TableId};
use crate::stmt::Call;

impl Check<'_> {
    pub(super) fn call(&mut self, call: &Call) {
        match call {
            Call::Count { counter, index } => {
                self.require(counter.index() < self.p.counters.len(), Rule::KnownExtern);
                self.index(index);
            }
            Call::DirectCount(counter) => {
                self.require(counter.index() < self.p.direct_counters.len(), Rule::KnownExtern);
            }
            Call::RegisterRead { register, dst, index } => {
                let ty = self.place(dst);
                self.register(*register, ty, index);
            }
            Call::RegisterWrite { register, index, value } => self.register(*register, Some(value.ty), index),
            Call::DirectRegisterRead { table, dst } => {
                let ty = self.place(dst);
                self.direct_register(*table, ty);
            }
            Call::DirectRegisterWrite { table, value } => self.direct_register(*table, Some(value.ty)),
            Call::Meter { meter, index, dst } => {
                self.meter(*meter, true);
                self.index(index);
                self.bits_result(dst);
            }
            Call::DirectMeter { meter, dst } => {
                self.meter(*meter, false);
                self.bits_result(dst);
            }
            Call::Digest { name: _, fields, data } => {
                self.require(fields.len() == data.len(), Rule::DigestFields)
            }
            Call::RestartTimer(_) | Call::LogMsg { .. } => {}
            Call::AddEntry { done, table, action, args, profile } => {
                if let Some(done) = done {
                    let ty = self.place(done);
                    self.require(ty == Some(Ty::Bool), Rule::ResultType);
                }
                self.index(profile);
                self.added(*table, *action, args);
            }
            Call::FlowId(dst) => self.bits_result(dst),
            Call::Hash { dst, algorithm: _, base: _, data: _, max: _ } => self.bits_result(dst),
            Call::AddToSum { dst, data: _, subtract: _ } => {
                let ty = self.place(dst);
                self.require(ty == Some(Ty::Bit(16)), Rule::ResultType);
            }
            Call::UpdateHash { dst, algorithm, data } => {
                let ty = self.place(dst);
                self.require(algorithm.running().is_some() && ty == algorithm.running(), Rule::ResultType);
                // A varbit is a whole number of bytes.
                let bits: u32 = data.iter().filter(|e| !e.ty.is_varbit()).map(|e| e.ty.width()).sum();
                self.require(bits.is_multiple_of(8), Rule::UpdatedBytes);
            }
            Call::Random { dst, lo, hi } => {
                let ty = self.place(dst);
                self.require(ty == Some(lo.ty) && lo.ty == hi.ty, Rule::ResultType);
            }
            Call::VerifyChecksum { id, cond, data: _, checksum, payload: _ }
            | Call::UpdateChecksum { id, cond, data: _, checksum, payload: _, nonzero: _ } => {
                let fresh = self.checksums.insert(*id) && *id < ChecksumId(self.p.checksums);
                self.require(fresh, Rule::FreshChecksum);
                self.condition(cond);
                self.bits_result(checksum);
            }
            Call::Assert { cond, site, text: _ } => {
                self.require(site.index() < self.p.drop_sites.len(), Rule::KnownDropSite);
                self.condition(cond);
            }
        }
    }

    /// Checks an entry that a packet adds.
    fn added(&mut self, id: TableId, action: u32, args: &[Expr]) {
        let Some(table) = self.p.tables.get(id.index()).filter(|t| t.learns()) else {
            return self.require(false, Rule::LearningTable);
        };
        // The key that missed is that of the table that runs this action.
        self.own_table(id);
        let listed = table.actions.get(action as usize).filter(|a| !a.default_only);
        let Some(action) = listed.and_then(|a| self.p.actions.get(a.action.index())) else {
            return self.require(false, Rule::KnownEntryAction);
        };
        let types = action.params.iter().map(|q| self.p.vars.get(q.var.index()).map(|v| v.ty));
        let fit = action.params.len() == args.len() && types.zip(args).all(|(ty, arg)| ty == Some(arg.ty));
        self.require(fit, Rule::AddedArguments);
    }

    fn index(&mut self, index: &Expr) {
        self.require(matches!(index.ty, Ty::Bit(_)), Rule::IndexType);
    }

    /// Checks a place that receives a number.
    fn bits_result(&mut self, dst: &Place) {
        let ty = self.place(dst);
        self.require(ty.is_none_or(|t| !t.is_varbit() && t != Ty::Bool), Rule::ResultType);
    }

    fn register(&mut self, register: RegisterId, ty: Option<Ty>, index: &Expr) {
        let cell = self.p.registers.get(register.index()).map(|r| r.ty);
        self.require(cell.is_some(), Rule::KnownExtern);
        self.require(cell.is_none() || ty.is_none() || cell == ty, Rule::RegisterType);
        self.index(index);
    }

    /// Checks that no other table lists the action.
    fn own_table(&mut self, id: TableId) {
        let lists = |t: &Table| t.actions.iter().any(|a| Context::Action(a.action) == self.context);
        let owners: Vec<usize> = (0..self.p.tables.len()).filter(|i| lists(&self.p.tables[*i])).collect();
        self.require(owners == [id.index()], Rule::EntryOfOwnTable);
    }

    fn direct_register(&mut self, id: TableId, ty: Option<Ty>) {
        let register =
            self.p.tables.get(id.index()).filter(|t| t.learns()).and_then(|t| t.direct_register.as_ref());
        let cell = register.map(|r| r.ty);
        self.require(cell.is_some_and(|ty| ty.width() <= MAX_DIRECT_REGISTER), Rule::KnownDirect);
        self.require(cell.is_none() || ty.is_none() || cell == ty, Rule::RegisterType);
        self.own_table(id);
    }

    fn meter(&mut self, meter: MeterId, indexed: bool) {
        let known = self.p.meters.get(meter.index()).is_some_and(|m| m.size.is_some() == indexed);
        self.require(known, Rule::KnownExtern);
    }
}
