//! Replaces storage by other storage everywhere in a program.

use crate::expr::Place;
use crate::program::{HeaderId, Program, StackId, VarId};
use crate::stmt::HeaderRef;
use crate::visit_mut::{self, Part};

/// The replacements, indexed by the number of the replaced object. (A program may have so many objects that hash tables would be slow.)
#[derive(Debug)]
pub struct Rename {
    /// The place that replaces each variable.
    vars: Vec<Option<Place>>,
    /// The header that replaces each header. Both have the same type.
    headers: Vec<Option<HeaderId>>,
    /// The stack that replaces each stack. Both have the same type; the elements are in `headers`.
    stacks: Vec<Option<StackId>>,
}

impl Rename {
    /// Starts without replacements.
    pub fn new(program: &Program) -> Rename {
        Rename {
            vars: vec![None; program.vars.len()],
            headers: vec![None; program.headers.len()],
            stacks: vec![None; program.stacks.len()],
        }
    }

    /// Replaces a variable by a place.
    pub fn var(&mut self, from: VarId, to: Place) {
        self.vars[from.index()] = Some(to);
    }

    /// Replaces a header by another one of its type.
    pub fn header(&mut self, from: HeaderId, to: HeaderId) {
        self.headers[from.index()] = Some(to);
    }

    /// Replaces a stack by another one, and its elements by those of the other one.
    pub fn stack(&mut self, program: &Program, from: StackId, to: StackId) {
        let (old, new) = (&program.stacks[from.index()], &program.stacks[to.index()]);
        for i in 0..old.size {
            self.header(HeaderId(old.first.0 + i), HeaderId(new.first.0 + i));
        }
        self.stacks[from.index()] = Some(to);
    }

    /// Makes the replacements everywhere in the code of a program, but not in its declarations. A replacement may itself be replaced.
    /// Returns whether there were any replacements.
    pub fn apply(self, program: &mut Program) -> bool {
        let any = self.vars.iter().any(Option::is_some)
            || self.headers.iter().any(Option::is_some)
            || self.stacks.iter().any(Option::is_some);
        if any {
            visit_mut::parts(program, &mut |part| match part {
                Part::Place(place) => self.place(place),
                Part::Header(HeaderRef::Header(h)) | Part::HeaderId(h) => self.last_header(h),
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
