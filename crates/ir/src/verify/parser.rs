//! The rules for parsers: states, transitions and selects.

use super::{Check, Context, Rule};
use crate::expr::Ty;
use crate::program::{KeySet, Parser, Select, SelectCase, Target, Transition};

impl Check<'_> {
    pub(super) fn parser(&mut self, parser: &Parser) {
        self.context = Context::Parser;
        let states = parser.states.len();
        self.block(&parser.prologue, &mut Vec::new());
        self.target(Target::State(parser.start), states);
        for state in &parser.states {
            self.loc = state.loc;
            self.block(&state.body, &mut Vec::new());
            match &state.next {
                Transition::Goto(target) => self.target(*target, states),
                Transition::Select(select) => self.select(select, states),
            }
            // These statements run after a rejection, so they must not reject again.
            self.context = Context::Match;
            self.block(&state.rejected, &mut Vec::new());
            self.context = Context::Parser;
        }
    }

    fn target(&mut self, target: Target, states: usize) {
        if let Target::State(id) = target {
            self.require(id.index() < states, Rule::KnownState);
        }
    }

    fn select(&mut self, select: &Select, states: usize) {
        self.loc = select.loc;
        select.keys.iter().for_each(|k| self.expr(k));
        for case in &select.cases {
            self.loc = case.loc;
            self.target(case.next, states);
            self.case(select, case);
        }
    }

    fn case(&mut self, select: &Select, case: &SelectCase) {
        let keys = &select.keys;
        let Some(set) = case.value_set else {
            let fit =
                case.sets.len() == keys.len() && case.sets.iter().zip(keys).all(|(s, k)| set_fits(s, k.ty));
            return self.require(fit, Rule::SelectSets);
        };
        let parts = self.p.value_sets.get(set.index()).map(|s| &s.keys);
        let fit = parts.is_some_and(|parts| {
            parts.len() == keys.len() && parts.iter().zip(keys).all(|(p, k)| p.width == k.ty.width())
        });
        self.require(fit && case.sets.is_empty(), Rule::KnownValueSet);
    }
}

fn set_fits(set: &KeySet, key: Ty) -> bool {
    let width = key.width();
    match set {
        KeySet::Any => true,
        KeySet::Value(v) => v.width() == width,
        KeySet::Mask(v, m) => v.width() == width && m.width() == width,
        KeySet::Range { lo, hi, signed } => {
            lo.width() == width && hi.width() == width && *signed == key.is_signed()
        }
    }
}
