//! The rules for tables and for the actions that they list.

use super::{Check, Rule};
use crate::program::{Action, ActionId, Table, VarKind};

impl Check<'_> {
    pub(super) fn parameters(&mut self, id: u32, action: &Action) {
        let own = |v: crate::VarId| {
            self.p.vars.get(v.index()).is_some_and(|v| v.kind == VarKind::Param(ActionId(id)))
        };
        let fit = action.params.iter().all(|p| own(p.var));
        self.require(fit, Rule::ParameterOfAction);
    }

    pub(super) fn table(&mut self, table: &Table) {
        let p = self.p;
        self.loc = table.loc;
        table.keys.iter().for_each(|k| self.expr(&k.expr));
        table.selector.iter().for_each(|k| self.expr(k));
        self.require(table.profile.is_none_or(|id| id.index() < p.profiles.len()), Rule::KnownProfile);
        self.require(table.actions.iter().all(|a| a.action.index() < p.actions.len()), Rule::KnownAction);
        let counter = table.direct_counter.is_none_or(|id| id.index() < p.direct_counters.len());
        let meter =
            table.direct_meter.is_none_or(|id| p.meters.get(id.index()).is_some_and(|m| m.size.is_none()));
        self.require(counter && meter, Rule::KnownDirect);
        self.arguments(table, table.default.0, &table.default.1);
        for entry in &table.entries {
            self.loc = entry.loc;
            self.arguments(table, entry.action, &entry.args);
            let fit = entry.matches.len() == table.keys.len()
                && entry
                    .matches
                    .iter()
                    .zip(&table.keys)
                    .all(|(m, k)| m.width().is_none_or(|w| w == k.expr.ty.width()));
            self.require(fit, Rule::EntryKey);
        }
    }

    fn arguments(&mut self, table: &Table, index: u32, args: &[abi::Bits]) {
        let action = table.actions.get(index as usize).and_then(|a| self.p.actions.get(a.action.index()));
        let fit = action.is_some_and(|a| {
            let widths = a.params.iter().map(|q| self.p.vars.get(q.var.index()).map(|v| v.ty.width()));
            a.params.len() == args.len() && widths.zip(args).all(|(w, arg)| w == Some(arg.width()))
        });
        self.require(fit, Rule::EntryArguments);
    }
}
