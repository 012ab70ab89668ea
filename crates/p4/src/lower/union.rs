//! Header unions become headers of which at most one is valid, and stacks of unions become stacks side by side.
//!
//! Whatever makes one member valid is followed by statements that make the others invalid (section 8.20), so no target
//! needs to know what a union is.

use std::collections::HashMap;
use std::rc::Rc;

use ir::{Expr, HeaderId, HeaderRef, StackId, StmtKind as Ir};

use super::types::{Store, StructT, T};
use super::{Lower, Res, fold};
use crate::source::Span;

/// Which headers and stacks exclude each other.
#[derive(Default)]
pub struct Unions {
    headers: HashMap<HeaderId, Rc<Vec<HeaderId>>>,
    stacks: HashMap<StackId, Rc<Vec<StackId>>>,
}

impl Unions {
    /// The other members where this is one. `extracted`: the header of this reference has been extracted meanwhile.
    fn others(&self, header: &HeaderRef, extracted: bool) -> Vec<HeaderRef> {
        let stacks = |of: &StackId| self.stacks.get(of).into_iter().flat_map(|all| all.iter().copied());
        let others = |of: &StackId, make: &dyn Fn(StackId) -> HeaderRef| {
            stacks(of).filter(|s| s != of).map(make).collect()
        };
        match header {
            HeaderRef::Header(h) => {
                let all = self.headers.get(h).into_iter().flat_map(|all| all.iter());
                all.filter(|o| *o != h).map(|o| HeaderRef::Header(*o)).collect()
            }
            HeaderRef::Element(s, i) => others(s, &|o| HeaderRef::Element(o, i.clone())),
            HeaderRef::Next(s) if !extracted => others(s, &HeaderRef::Next),
            HeaderRef::Next(s) | HeaderRef::Last(s) => others(s, &HeaderRef::Last),
        }
    }
}

impl<'a> Lower<'a, '_> {
    /// Storage of a union: headers side by side.
    pub(super) fn union(&mut self, name: &str, s: &Rc<StructT>, span: Span) -> Res<Store> {
        let parts = s.fields.iter().map(|f| self.storage(&format!("{name}.{}", f.name), &f.ty, span));
        let parts = parts.collect::<Res<Vec<_>>>()?;
        let ids = parts.iter().filter_map(|p| match p {
            Store::Header(HeaderRef::Header(id), _) => Some(*id),
            _ => None,
        });
        let ids: Rc<Vec<_>> = Rc::new(ids.collect());
        ids.iter().for_each(|id| drop(self.unions.headers.insert(*id, ids.clone())));
        Ok(Store::Union(s.clone(), Rc::new(parts)))
    }

    /// Storage of a stack of headers or unions.
    pub(super) fn stack(&mut self, name: &str, ty: &T, span: Span) -> Res<Store> {
        let T::Stack(element, size) = ty else { return Err(super::Failed) };
        if *size == 0 {
            return self.error("E0503", span, "a header stack without elements");
        }
        match &**element {
            T::Header(s) => {
                let id = self.header_stack(name, "", s, *size, None);
                Ok(Store::Stack(id, element.clone(), *size))
            }
            T::Union(s) => {
                let mut ids: Vec<StackId> = Vec::new();
                for field in &s.fields {
                    let T::Header(member) = &field.ty else { return Err(super::Failed) };
                    let suffix = format!(".{}", field.name);
                    ids.push(self.header_stack(name, &suffix, member, *size, ids.first().copied()));
                }
                let ids = Rc::new(ids);
                for id in ids.iter() {
                    self.unions.stacks.insert(*id, ids.clone());
                }
                for i in 0..*size {
                    let firsts = ids.iter().map(|s| HeaderId(self.out.stacks[s.index()].first.0 + i));
                    let row: Rc<Vec<_>> = Rc::new(firsts.collect());
                    row.iter().for_each(|h| drop(self.unions.headers.insert(*h, row.clone())));
                }
                Ok(Store::UnionStack(ids, element.clone(), *size))
            }
            _ => Err(super::Failed),
        }
    }

    /// A stack of the headers `name[i]suffix`, which counts its elements with `index` if that is another stack.
    fn header_stack(
        &mut self,
        name: &str,
        suffix: &str,
        s: &Rc<StructT>,
        size: u32,
        index: Option<StackId>,
    ) -> StackId {
        let ids: Vec<_> = (0..size).map(|i| self.header(&format!("{name}[{i}]{suffix}"), s)).collect();
        let own = StackId(self.out.stacks.len() as u32);
        let (name, first) = (format!("{name}{suffix}"), ids[0]);
        self.out.stacks.push(ir::Stack { name, first, size, index: index.unwrap_or(own) });
        own
    }

    /// A header has become valid: the other members of its union are not.
    pub(super) fn only_valid(&mut self, header: &HeaderRef, extracted: bool) {
        for other in self.unions.others(header, extracted) {
            self.push(Ir::SetInvalid(other));
        }
    }

    /// A header was copied, with its validity.
    pub(super) fn only_valid_if_copied(&mut self, header: &HeaderRef) {
        let others = self.unions.others(header, false);
        if others.is_empty() {
            return;
        }
        let loc = self.loc;
        let then = others.into_iter().map(|o| ir::Stmt::new(Ir::SetInvalid(o), loc)).collect();
        self.push(Ir::If { cond: self.is_valid(header), then, otherwise: Vec::new() });
    }

    /// `union.isValid()`: whether one of its members is.
    pub(super) fn union_is_valid(&self, members: &[Store]) -> Expr {
        let valid = members.iter().filter_map(|m| match m {
            Store::Header(h, _) => Some(self.is_valid(h)),
            _ => None,
        });
        let or = |a, b| fold::binary(ir::BinOp::LogOr, a, b).unwrap_or(Expr::bool(false));
        valid.reduce(or).unwrap_or(Expr::bool(false))
    }

    /// An element of a stack of unions, by what makes the reference to each member's stack.
    pub(super) fn union_element(
        &self,
        ids: &[StackId],
        element: &T,
        reference: impl Fn(StackId) -> HeaderRef,
    ) -> Res<Store> {
        let T::Union(s) = element else { return Err(super::Failed) };
        let parts = ids.iter().zip(&s.fields).map(|(id, field)| match &field.ty {
            T::Header(member) => Ok(Store::Header(reference(*id), member.clone())),
            _ => Err(super::Failed),
        });
        Ok(Store::Union(s.clone(), Rc::new(parts.collect::<Res<Vec<_>>>()?)))
    }
}
