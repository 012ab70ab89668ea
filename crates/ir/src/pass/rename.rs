//! Puts storage in the place of other storage, everywhere in a program.

use crate::expr::Place;
use crate::program::{HeaderId, Program, StackId, VarId};
use crate::stmt::HeaderRef;
use crate::visit_mut::{self, Part};

/// What stands for what from now on, by the number of what is renamed: a program has more names than a hash table is good for.
#[derive(Debug)]
pub struct Rename {
    /// A variable becomes a place.
    vars: Vec<Option<Place>>,
    /// A header becomes another one of its type.
    headers: Vec<Option<HeaderId>>,
    /// A stack becomes another one of its type; its elements are in `headers`.
    stacks: Vec<Option<StackId>>,
}

impl Rename {
    /// Nothing is renamed.
    pub fn new(program: &Program) -> Rename {
        Rename {
            vars: vec![None; program.vars.len()],
            headers: vec![None; program.headers.len()],
            stacks: vec![None; program.stacks.len()],
        }
    }

    /// A variable becomes a place.
    pub fn var(&mut self, from: VarId, to: Place) {
        self.vars[from.index()] = Some(to);
    }

    /// A header becomes another one of its type.
    pub fn header(&mut self, from: HeaderId, to: HeaderId) {
        self.headers[from.index()] = Some(to);
    }

    /// A stack becomes another one, and its elements the elements there.
    pub fn stack(&mut self, program: &Program, from: StackId, to: StackId) {
        let (old, new) = (&program.stacks[from.index()], &program.stacks[to.index()]);
        for i in 0..old.size {
            self.header(HeaderId(old.first.0 + i), HeaderId(new.first.0 + i));
        }
        self.stacks[from.index()] = Some(to);
    }

    /// Renames everything in the code of a program; whether there was anything to rename. What stands for something may itself
    /// be renamed. What the program declares stays.
    pub fn apply(self, program: &mut Program) -> bool {
        let any = self.vars.iter().any(Option::is_some)
            || self.headers.iter().any(Option::is_some)
            || self.stacks.iter().any(Option::is_some);
        if any {
            visit_mut::parts(program, &mut |part| match part {
                Part::Place(place) => self.place(place),
                Part::Header(HeaderRef::Header(h)) => self.last_header(h),
                Part::Stack(s) => {
                    while let Some(to) = self.stacks[s.index()] {
                        *s = to;
                    }
                }
                Part::Var(v) => {
                    while let Some(Place::Var(to)) = self.vars[v.index()] {
                        *v = to;
                    }
                }
                Part::Header(_) | Part::Expr(_) => {}
            });
        }
        any
    }

    fn place(&self, place: &mut Place) {
        while let Place::Var(v) = place
            && let Some(to) = &self.vars[v.index()]
        {
            *place = to.clone();
            if let Place::Field(HeaderRef::Header(h), _) = place {
                self.last_header(h);
            }
        }
    }

    fn last_header(&self, h: &mut HeaderId) {
        while let Some(to) = self.headers[h.index()] {
            *h = to;
        }
    }
}
