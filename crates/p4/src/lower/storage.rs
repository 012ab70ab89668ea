//! Where values live: scalars in variables and header fields, headers, and header stacks. A struct is the storage of
//! its fields.
//!
//! The IR has no header unions. A union becomes headers of which at most one is valid (P4-16 section 8.20): each
//! statement that makes one member valid is followed by statements that make the others invalid. A stack of unions
//! becomes one stack for each member.

use crate::map::Map;
use std::rc::Rc;

use ir::{Expr, ExprKind, HeaderId, HeaderRef, HeaderTypeId, Place, StackId, StmtKind as Ir, Ty};

use super::{Lower, MAX_SIZE, Res};
use crate::ast;
use crate::check::{DeclId, Type};
use crate::source::Span;

/// The storage of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Store {
    Scalar(Place, Ty),
    Header(HeaderRef, HeaderTypeId),
    /// A struct or tuple: the storage of each field.
    Struct(Rc<Vec<Store>>),
    /// A header union: the header of each member.
    Union(Rc<Vec<Store>>),
    Stack(StackId, HeaderTypeId, u32),
    /// A stack of unions: one stack for each member. All share one next index.
    UnionStack(Rc<Vec<(StackId, HeaderTypeId)>>, u32),
}

/// How a field of a header type maps to fields of the IR's header type. A struct in a header becomes several fields.
#[derive(Clone, Debug)]
pub enum Part {
    Leaf(Ty),
    Struct(Vec<Part>),
}

impl Part {
    fn leaves(&self) -> u32 {
        match self {
            Part::Leaf(_) => 1,
            Part::Struct(parts) => parts.iter().map(Part::leaves).sum(),
        }
    }

    /// The storage of this part of a header. Its first scalar is the `next`th field.
    fn place(&self, header: &HeaderRef, next: &mut u32) -> Store {
        match self {
            Part::Leaf(ty) => {
                *next += 1;
                Store::Scalar(Place::Field(header.clone(), *next - 1), *ty)
            }
            Part::Struct(parts) => {
                Store::Struct(Rc::new(parts.iter().map(|p| p.place(header, next)).collect()))
            }
        }
    }
}

/// The IR's type for a type that is a scalar there.
pub fn scalar(ty: &Type) -> Option<Ty> {
    Some(match ty.underlying() {
        Type::Bool => Ty::Bool,
        Type::Bit(w) => Ty::Bit(*w),
        Type::Signed(w) => Ty::Int(*w),
        Type::Varbit(w) => Ty::Varbit(*w),
        Type::Error | Type::Enum(_) => Ty::Bit(32),
        _ => return None,
    })
}

/// For each member of a header union, all members of this union.
#[derive(Default)]
pub struct Unions {
    headers: Map<HeaderId, Rc<Vec<HeaderId>>>,
    stacks: Map<StackId, Rc<Vec<StackId>>>,
}

impl Unions {
    /// The other members of the union that `header` is in. `extracted`: the header was extracted after the reference
    /// was made.
    fn others(&self, header: &HeaderRef, extracted: bool) -> Vec<HeaderRef> {
        let others = |of: &StackId, make: &dyn Fn(StackId) -> HeaderRef| {
            let all = self.stacks.get(of).into_iter().flat_map(|all| all.iter().copied());
            all.filter(|s| s != of).map(make).collect()
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

impl<'a> Lower<'_, 'a> {
    /// Creates storage for a value of type `ty`.
    pub(super) fn storage(&mut self, name: &str, ty: &Type, span: Span) -> Res<Store> {
        if self.out.vars.len() + self.out.headers.len() > MAX_SIZE {
            return self.too_large(span, "the program has more than a million variables and headers");
        }
        if let Some(scalar) = scalar(ty) {
            if scalar.is_varbit() {
                return Ok(self.varbit(name, scalar));
            }
            return Ok(Store::Scalar(Place::Var(self.var(name, scalar, self.kind)), scalar));
        }
        match ty {
            Type::Header(_) => {
                let of = self.header_type(ty, span)?;
                Ok(Store::Header(HeaderRef::Header(self.header(name, of)), of))
            }
            Type::Struct(_) => Ok(Store::Struct(Rc::new(self.fields(name, ty, span)?))),
            Type::Tuple(items) => {
                let parts =
                    items.iter().enumerate().map(|(i, t)| self.storage(&format!("{name}.{i}"), t, span));
                Ok(Store::Struct(Rc::new(parts.collect::<Res<Vec<_>>>()?)))
            }
            Type::Union(_) => {
                let parts = self.fields(name, ty, span)?;
                let ids = parts.iter().filter_map(|p| match p {
                    Store::Header(HeaderRef::Header(id), _) => Some(*id),
                    _ => None,
                });
                let ids: Rc<Vec<_>> = Rc::new(ids.collect());
                ids.iter().for_each(|id| drop(self.unions.headers.insert(*id, ids.clone())));
                Ok(Store::Union(Rc::new(parts)))
            }
            Type::Stack(item, size) if item.is_header_like() => self.stack(name, item, *size, span),
            Type::Stack(..) => self.limit("E0512", span, &format!("this is an array `{ty}`")),
            _ => self.bug(span, &format!("a variable of type `{ty}`")),
        }
    }

    fn fields(&mut self, name: &str, ty: &Type, span: Span) -> Res<Vec<Store>> {
        let fields = self.typed.fields(ty);
        fields.iter().map(|(field, ty, _)| self.storage(&format!("{name}.{field}"), ty, span)).collect()
    }

    /// A varbit variable becomes a header with one field, because the IR has varbits in headers only.
    fn varbit(&mut self, name: &str, ty: Ty) -> Store {
        let name_of_type = format!("$varbit{}", ty.width());
        let fields = vec![ir::Field { name: "value".into(), ty, offset: 0, checksum_nonzero: false }];
        let of = self.known_header_type(&name_of_type).unwrap_or_else(|| {
            self.add_header_type(ir::HeaderType { name: name_of_type.into(), fields }, vec![Part::Leaf(ty)])
        });
        let header = self.header(name, of);
        Store::Scalar(Place::field(header, 0), ty)
    }

    fn stack(&mut self, name: &str, item: &Type, size: u32, span: Span) -> Res<Store> {
        if size == 0 {
            return self.limit("E0512", span, "this is a header stack without elements");
        }
        if let Type::Header(_) = item {
            let of = self.header_type(item, span)?;
            return Ok(Store::Stack(self.header_stack(name, "", of, size, None), of, size));
        }
        let mut stacks: Vec<(StackId, HeaderTypeId)> = Vec::new();
        for (member, ty, _) in self.typed.fields(item) {
            let of = self.header_type(&ty, span)?;
            let index = stacks.first().map(|(id, _)| *id);
            stacks.push((self.header_stack(name, &format!(".{member}"), of, size, index), of));
        }
        let ids: Rc<Vec<StackId>> = Rc::new(stacks.iter().map(|(id, _)| *id).collect());
        ids.iter().for_each(|id| drop(self.unions.stacks.insert(*id, ids.clone())));
        for i in 0..size {
            let row: Rc<Vec<_>> = Rc::new(ids.iter().map(|s| self.element_id(*s, i)).collect());
            row.iter().for_each(|h| drop(self.unions.headers.insert(*h, row.clone())));
        }
        Ok(Store::UnionStack(Rc::new(stacks), size))
    }

    /// Creates a stack with the headers `name[i]suffix`. It shares its next index with the stack `index` if there is
    /// one.
    fn header_stack(
        &mut self,
        name: &str,
        suffix: &str,
        of: HeaderTypeId,
        size: u32,
        index: Option<StackId>,
    ) -> StackId {
        let first = HeaderId(self.out.headers.len() as u32);
        for i in 0..size {
            self.header(&format!("{name}[{i}]{suffix}"), of);
        }
        let own = StackId(self.out.stacks.len() as u32);
        self.out.stacks.push(ir::Stack {
            name: format!("{name}{suffix}").into(),
            first,
            size,
            index: index.unwrap_or(own),
        });
        own
    }

    pub(super) fn element_id(&self, stack: StackId, index: u32) -> HeaderId {
        HeaderId(self.out.stacks[stack.index()].first.0 + index)
    }

    /// Creates storage of the same shape as another.
    pub(super) fn store_like(&mut self, name: &str, store: &Store) -> Store {
        match store {
            Store::Scalar(_, ty) if ty.is_varbit() => self.varbit(name, *ty),
            Store::Scalar(_, ty) => Store::Scalar(self.temp(name, *ty), *ty),
            Store::Header(_, of) => Store::Header(HeaderRef::Header(self.header(name, *of)), *of),
            Store::Struct(parts) => {
                Store::Struct(Rc::new(parts.iter().map(|p| self.store_like(name, p)).collect()))
            }
            Store::Union(parts) => {
                Store::Union(Rc::new(parts.iter().map(|p| self.store_like(name, p)).collect()))
            }
            Store::Stack(_, of, size) => {
                Store::Stack(self.header_stack(name, "", *of, *size, None), *of, *size)
            }
            Store::UnionStack(stacks, size) => {
                let mut index = None;
                let copies = stacks.iter().map(|(_, of)| {
                    let id = self.header_stack(name, "", *of, *size, index);
                    index = index.or(Some(id));
                    (id, *of)
                });
                Store::UnionStack(Rc::new(copies.collect()), *size)
            }
        }
    }

    // ---- header types ----

    fn header(&mut self, name: &str, ty: HeaderTypeId) -> HeaderId {
        let name = self.unique(name);
        self.out.headers.push(ir::Header { name: name.into(), ty });
        HeaderId(self.out.headers.len() as u32 - 1)
    }

    fn known_header_type(&self, name: &str) -> Option<HeaderTypeId> {
        let at = self.out.header_types.iter().position(|t| t.name == name)?;
        Some(HeaderTypeId(at as u32))
    }

    fn add_header_type(&mut self, ty: ir::HeaderType, layout: Vec<Part>) -> HeaderTypeId {
        self.out.header_types.push(ty);
        self.layouts.push(Rc::new(layout));
        HeaderTypeId(self.out.header_types.len() as u32 - 1)
    }

    fn header_type(&mut self, ty: &Type, span: Span) -> Res<HeaderTypeId> {
        let name = ty.to_string();
        if let Some(known) = self.known_header_type(&name) {
            return Ok(known);
        }
        let mut fields = Vec::new();
        let mut layout = Vec::new();
        for (field, ty, id) in self.typed.fields(ty) {
            layout.push(self.header_part(&field, &ty, id, &mut fields, span)?);
        }
        let ty = ir::HeaderType { name: name.into(), fields };
        let span = self.header_type_span(&ty.name).unwrap_or(span);
        if !ty.min_bits().is_multiple_of(8) {
            let what =
                format!("header `{}` has {} bits, no whole number of bytes", ty.name.shown(), ty.min_bits());
            return self.limit("E0513", span, &what);
        }
        if ty.fields.iter().filter(|f| f.ty.is_varbit()).count() > 1 {
            return self.limit("E0513", span, &format!("header `{}` has two varbit fields", ty.name.shown()));
        }
        Ok(self.add_header_type(ty, layout))
    }

    /// The location of a header type's declaration.
    fn header_type_span(&self, name: &str) -> Option<Span> {
        let declared = self.typed.program.decls.iter().find(|d| d.name.text == name)?;
        Some(declared.name.span)
    }

    fn header_part(
        &mut self,
        name: &str,
        ty: &Type,
        id: DeclId,
        fields: &mut Vec<ir::Field>,
        span: Span,
    ) -> Res<Part> {
        if let Some(ty) = scalar(ty) {
            let offset = fields
                .last()
                .map_or(0, |f: &ir::Field| f.offset + if f.ty.is_varbit() { 0 } else { f.ty.width() });
            let annotations = self.typed.field(id).map_or(&[][..], |f| &f.annotations);
            let checksum_nonzero = ast::annotation(annotations, "checksum_nonzero").is_some();
            fields.push(ir::Field { name: name.into(), ty, offset, checksum_nonzero });
            return Ok(Part::Leaf(ty));
        }
        if !matches!(ty, Type::Struct(_)) {
            return self.limit("E0512", span, &format!("field `{name}` of a header is an array `{ty}`"));
        }
        let mut parts = Vec::new();
        for (field, ty, id) in self.typed.fields(ty) {
            parts.push(self.header_part(&format!("{name}.{field}"), &ty, id, fields, span)?);
        }
        Ok(Part::Struct(parts))
    }

    /// The storage of each field of a header.
    pub(super) fn header_fields(&self, header: &HeaderRef, of: HeaderTypeId) -> Vec<Store> {
        let mut next = 0;
        self.layouts[of.index()].iter().map(|p| p.place(header, &mut next)).collect()
    }

    /// The storage of one field of a header.
    pub(super) fn header_field(&self, header: &HeaderRef, of: HeaderTypeId, index: usize) -> Option<Store> {
        let layout = &self.layouts[of.index()];
        let mut next = layout.iter().take(index).map(Part::leaves).sum();
        Some(layout.get(index)?.place(header, &mut next))
    }

    // ---- parts ----

    /// The storage of the parts of a header, struct, tuple, union or stack.
    pub(super) fn parts_of(&self, store: &Store) -> Vec<Store> {
        match store {
            Store::Scalar(..) => Vec::new(),
            Store::Header(h, of) => self.header_fields(h, *of),
            Store::Struct(parts) | Store::Union(parts) => parts.to_vec(),
            Store::Stack(_, _, size) | Store::UnionStack(_, size) => {
                (0..*size).filter_map(|i| self.element_at(store, i)).collect()
            }
        }
    }

    /// An element of a stack. `reference` makes the reference to the header; for a stack of unions it is called for
    /// each member.
    pub(super) fn element(&self, stack: &Store, reference: impl Fn(StackId) -> HeaderRef) -> Option<Store> {
        match stack {
            Store::Stack(id, of, _) => Some(Store::Header(reference(*id), *of)),
            Store::UnionStack(stacks, _) => {
                let parts = stacks.iter().map(|(id, of)| Store::Header(reference(*id), *of));
                Some(Store::Union(Rc::new(parts.collect())))
            }
            _ => None,
        }
    }

    pub(super) fn element_at(&self, stack: &Store, index: u32) -> Option<Store> {
        self.element(stack, |id| HeaderRef::Header(self.element_id(id, index)))
    }

    // ---- validity ----

    pub(super) fn is_valid(&self, h: &HeaderRef) -> Expr {
        Expr { kind: ExprKind::IsValid(h.clone()), ty: Ty::Bool }
    }

    /// `isValid()` of a header or union. A union is valid if one of its members is.
    pub(super) fn store_is_valid(&self, store: &Store) -> Option<Expr> {
        match store {
            Store::Header(h, _) => Some(self.is_valid(h)),
            Store::Union(members) => {
                let valid = members.iter().filter_map(|m| self.store_is_valid(m));
                valid.reduce(|a, b| Expr::binary(ir::BinOp::LogOr, a, b)).or(Some(Expr::bool(false)))
            }
            _ => None,
        }
    }

    /// Makes all headers in a storage invalid, as at the start of an `out` parameter or of a variable without an
    /// initial value.
    pub(super) fn invalidate(&mut self, store: &Store) {
        match store {
            Store::Header(h, _) => self.push(Ir::SetInvalid(h.clone())),
            Store::Scalar(..) => {}
            other => self.parts_of(other).iter().for_each(|p| self.invalidate(p)),
        }
    }

    /// Makes the other members of a union invalid after a header became valid.
    pub(super) fn invalidate_others(&mut self, header: &HeaderRef, extracted: bool) {
        for other in self.unions.others(header, extracted) {
            self.push(Ir::SetInvalid(other));
        }
    }

    /// Makes the other members of a union invalid after a header was copied, if the copy is valid.
    pub(super) fn invalidate_others_if_valid(&mut self, header: &HeaderRef) {
        if self.unions.others(header, false).is_empty() {
            return;
        }
        let cond = self.is_valid(header);
        let (then, ()) = self.in_block(|l| l.invalidate_others(header, false));
        self.push(Ir::If { cond, then, otherwise: Vec::new() });
    }
}
