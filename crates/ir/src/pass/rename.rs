//! Puts storage in the place of other storage, everywhere in a program.

use std::collections::HashMap;

use crate::expr::Place;
use crate::program::{HeaderId, Program, StackId, VarId};
use crate::stmt::HeaderRef;
use crate::visit_mut::{self, Part};

/// What stands for what from now on.
#[derive(Debug, Default)]
pub struct Rename {
    /// A variable becomes a place.
    pub vars: HashMap<VarId, Place>,
    /// A header becomes another one of its type.
    pub headers: HashMap<HeaderId, HeaderId>,
    /// A stack becomes another one of its type; its elements are in `headers`.
    pub stacks: HashMap<StackId, StackId>,
}

impl Rename {
    /// Whether nothing is renamed.
    pub fn is_empty(&self) -> bool {
        self.vars.is_empty() && self.headers.is_empty() && self.stacks.is_empty()
    }

    /// Renames everything in the code of a program. What it declares stays.
    pub fn apply(&self, program: &mut Program) {
        visit_mut::parts(program, &mut |part| match part {
            Part::Place(place) => {
                if let Place::Var(v) = place
                    && let Some(to) = self.vars.get(v)
                {
                    *place = to.clone();
                }
            }
            Part::Header(h) => {
                if let HeaderRef::Header(id) = h
                    && let Some(to) = self.headers.get(id)
                {
                    *id = *to;
                }
            }
            Part::Stack(s) => *s = self.stacks.get(s).copied().unwrap_or(*s),
            Part::Var(v) => {
                if let Some(Place::Var(to)) = self.vars.get(v) {
                    *v = *to;
                }
            }
            Part::Expr(_) => {}
        });
    }
}
