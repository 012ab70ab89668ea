//! Parser states and `select`. The states of a sub-parser become states of the parser that applies it.

use crate::map::Map;
use std::rc::Rc;

use abi::{Bits, MatchKind};
use ir::{KeySet, StateId, Target};

use super::block::Block;
use super::lvalue::CopyOut;
use super::storage::scalar;
use super::value::Val;
use super::{Lower, Res};
use crate::ast::{self, BinaryOp, ExprKind};
use crate::check::{DeclId, Kind, Type};
use crate::source::Span;

/// The parser that is being built.
#[derive(Default)]
pub struct ParserBuilder {
    states: Vec<Option<ir::State>>,
    /// The state that is being built: its number, name and location.
    current: Option<(StateId, String, ir::Loc)>,
}

/// The numbers of a parser's states by name, and where `accept` goes: in a sub-parser, back to the state that applied
/// it.
struct States<'a> {
    ids: Map<&'a str, StateId>,
    accept: Target,
}

impl<'a> Lower<'_, 'a> {
    pub(super) fn top_parser(
        &mut self,
        decl: &'a ast::Decl,
        parser: &'a ast::ParserDecl,
        role: ir::Role,
    ) -> Res<()> {
        self.parser = Some(ParserBuilder::default());
        let (prologue, made) = self.in_block(|l| {
            l.make_locals(&parser.locals)?;
            l.initialise_locals(&parser.locals)
        });
        let start = made.and_then(|()| self.states(parser, "", Target::Accept, decl.span));
        let building = self.parser.take().unwrap_or_default();
        let start = start?;
        match building.states.into_iter().collect::<Option<Vec<_>>>() {
            Some(states) => {
                let name = decl.name.text.clone();
                self.out.parsers.push(ir::Parser { name: name.into(), role, prologue, states, start });
                Ok(())
            }
            None => self.bug(decl.span, "a state that was never made"),
        }
    }

    /// Lowers all states of a parser. Returns the state `start`.
    fn states(
        &mut self,
        parser: &'a ast::ParserDecl,
        prefix: &str,
        accept: Target,
        span: Span,
    ) -> Res<StateId> {
        let ids = parser.states.iter().map(|s| (s.name.text.as_str(), self.new_state())).collect();
        let states = States { ids, accept };
        let mut failed = false;
        for state in &parser.states {
            failed |= self.state(state, prefix, &states).is_err();
        }
        match states.ids.get("start") {
            _ if failed => Err(super::Failed),
            Some(start) => Ok(*start),
            None => self.bug(span, "a parser without `start`"),
        }
    }

    fn new_state(&mut self) -> StateId {
        match &mut self.parser {
            Some(building) => {
                building.states.push(None);
                StateId(building.states.len() as u32 - 1)
            }
            None => StateId(0),
        }
    }

    fn state(&mut self, state: &'a ast::StateDecl, prefix: &str, states: &States<'a>) -> Res<()> {
        let id = self.target_state(&state.name, states);
        let Target::State(id) = id else { return self.bug(state.span, "a state without a number") };
        let loc = self.at(state.name.span);
        let name = format!("{prefix}{}", state.name.text);
        let outer = self.parser.as_mut().and_then(|b| b.current.replace((id, name, loc)));
        self.blocks.push(Vec::new());
        let done = self.stmts(&state.body);
        let next = self.transition(state, states);
        let body = self.blocks.pop().unwrap_or_default();
        let finished = next.and_then(|next| self.finish_state(body, next, state.span));
        if let Some(building) = &mut self.parser {
            building.current = outer;
        }
        done.and(finished)
    }

    /// Ends the current state. If the packet is rejected in it, the parameters of all sub-parsers that are being walked
    /// are copied out.
    fn finish_state(&mut self, body: Vec<ir::Stmt>, next: ir::Transition, span: Span) -> Res<()> {
        let (rejected, done) = self.in_block(|l| l.copy_all_out(span));
        done?;
        let Some(building) = &mut self.parser else { return Ok(()) };
        let Some((id, name, loc)) = &building.current else { return Ok(()) };
        let state = ir::State { name: name.clone().into(), loc: *loc, body, next, rejected };
        if let Some(slot) = building.states.get_mut(id.index()) {
            *slot = Some(state);
        }
        Ok(())
    }

    /// Lowers the states of a sub-parser. The current state ends and goes to the sub-parser's `start`; a new state, in
    /// which the rest of the current one is lowered, follows its `accept`.
    pub(super) fn sub_parser(
        &mut self,
        block: &Rc<Block<'a>>,
        parser: &'a ast::ParserDecl,
        copies: Vec<CopyOut>,
        span: Span,
    ) -> Res<()> {
        if self.blocks.len() != 1 {
            return self.limit("E0516", span, "a parser is applied inside an `if` or a loop");
        }
        self.initialise_locals(&parser.locals)?;
        let after = self.new_state();
        let Some((outer, name, loc)) = self.parser.as_ref().and_then(|b| b.current.clone()) else {
            return self.bug(span, "a parser is applied outside a state");
        };
        let before = std::mem::take(&mut self.blocks);
        self.copies.push(copies);
        let start = self.states(parser, &format!("{}.", block.path), Target::State(after), span);
        let copies = self.copies.pop().unwrap_or_default();
        self.blocks = before;
        let body = self.blocks.last_mut().map(std::mem::take).unwrap_or_default();
        if let Some(building) = &mut self.parser {
            building.current = Some((outer, name.clone(), loc));
        }
        self.finish_state(body, ir::Transition::Goto(Target::State(start?)), span)?;
        if let Some(building) = &mut self.parser {
            building.current = Some((after, format!("{name}'"), loc));
        }
        self.copy_out(&copies, span)
    }

    // ---- transitions ----

    fn transition(&mut self, state: &'a ast::StateDecl, states: &States<'a>) -> Res<ir::Transition> {
        match &state.transition {
            None => Ok(ir::Transition::Goto(Target::Reject)),
            Some(ast::Transition::State(name)) => Ok(ir::Transition::Goto(self.target_state(name, states))),
            Some(ast::Transition::Select { keys, cases, span }) => {
                let types: Vec<Type> = keys.iter().map(|k| self.ty(k)).collect();
                let vals = self.values(&keys.iter().collect::<Vec<_>>())?;
                let mut exprs = Vec::new();
                for (val, key) in vals.into_iter().zip(keys) {
                    exprs.extend(self.flatten(val, key.span)?);
                }
                let loc = self.at(*span);
                let mut made = Vec::new();
                for case in cases {
                    let value_set = self.value_set_of(&case.keyset);
                    let sets = match value_set {
                        Some(_) => Vec::new(),
                        None => self.keysets(&case.keyset, &types)?,
                    };
                    let next = self.target_state(&case.state, states);
                    made.push(ir::SelectCase { loc: self.at(case.span), sets, value_set, next });
                }
                Ok(ir::Transition::Select(ir::Select { loc, keys: exprs, cases: made }))
            }
        }
    }

    fn target_state(&self, name: &ast::Name, states: &States<'a>) -> Target {
        match (states.ids.get(name.text.as_str()), name.text.as_str()) {
            (Some(id), _) => Target::State(*id),
            (None, "accept") => states.accept,
            _ => Target::Reject,
        }
    }

    /// The sets of a keyset expression: one for each scalar of the keys, which have these types.
    pub(super) fn keysets(&mut self, e: &'a ast::Expr, types: &[Type]) -> Res<Vec<KeySet>> {
        let any = |types: &[Type]| -> Vec<KeySet> {
            types.iter().flat_map(|t| self.typed.leaves(t)).map(|_| KeySet::Any).collect()
        };
        if let ExprKind::Default | ExprKind::DontCare = &e.kind {
            return Ok(any(types));
        }
        let items: Vec<&'a ast::Expr> = match &e.kind {
            ExprKind::List { items, .. }
                if items.len() == types.len() && !(types.len() == 1 && scalar(&types[0]).is_none()) =>
            {
                items.iter().collect()
            }
            _ => vec![e],
        };
        if items.len() != types.len() {
            return self.bug(e.span, "a set of another length");
        }
        let mut sets = Vec::new();
        for (item, ty) in items.into_iter().zip(types) {
            match (&item.kind, scalar(ty)) {
                (ExprKind::Default | ExprKind::DontCare, _) => {
                    sets.extend(self.typed.leaves(ty).iter().map(|_| KeySet::Any));
                }
                (ExprKind::List { items, .. }, None) => {
                    for (item, ty) in items.iter().zip(self.typed.parts(ty)) {
                        sets.push(self.keyset(item, &ty)?);
                    }
                }
                _ => sets.push(self.keyset(item, ty)?),
            }
        }
        Ok(sets)
    }

    fn keyset(&mut self, e: &'a ast::Expr, ty: &Type) -> Res<KeySet> {
        match &e.kind {
            ExprKind::Default | ExprKind::DontCare => Ok(KeySet::Any),
            ExprKind::Binary { op: BinaryOp::Mask, left, right } => {
                Ok(KeySet::Mask(self.set_bits(left, ty)?, self.set_bits(right, ty)?))
            }
            ExprKind::Binary { op: BinaryOp::Range, left, right } => {
                let (lo, hi) = (self.set_bits(left, ty)?, self.set_bits(right, ty)?);
                let signed = matches!(ty.underlying(), Type::Signed(_));
                Ok(KeySet::Range { lo, hi, signed })
            }
            _ => Ok(KeySet::Value(self.set_bits(e, ty)?)),
        }
    }

    /// A value of a keyset. It must be compile-time known.
    fn set_bits(&mut self, e: &'a ast::Expr, ty: &Type) -> Res<Bits> {
        match self.known(e).and_then(|v| self.bits(&v, ty)) {
            Some(bits) => Ok(bits),
            None => self.limit("E0521", e.span, "this set is not known when the program is compiled"),
        }
    }

    // ---- value sets ----

    fn value_set_of(&self, e: &ast::Expr) -> Option<ir::ValueSetId> {
        let id =
            self.resolved(e).filter(|id| self.typed.decl(*id).is_some_and(|d| d.kind == Kind::ValueSet))?;
        match self.scope.objects.get(&id) {
            Some(super::object::Object::ValueSet(set)) => Some(*set),
            _ => None,
        }
    }

    /// The declaration `value_set<T>(size) name;`.
    pub(super) fn value_set(&mut self, decl: &'a ast::Decl, span: Span, size: &'a ast::Expr) -> Res<()> {
        let size = self.size(size, super::object::MAX_CELLS)?;
        let Type::Set(member) = self.decl_ty(decl.id) else {
            return self.bug(span, "a value set of nothing");
        };
        let mut keys = Vec::new();
        self.value_set_keys("", &member, None, span, &mut keys)?;
        let (name, loc) = (self.full_name(decl, &self.path.clone()), self.at(decl.span));
        self.out.value_sets.push(ir::ValueSet { name: name.into(), loc, size, keys });
        let id = ir::ValueSetId(self.out.value_sets.len() as u32 - 1);
        self.scope.objects.insert(decl.id, super::object::Object::ValueSet(id));
        Ok(())
    }

    fn value_set_keys(
        &mut self,
        name: &str,
        ty: &Type,
        field: Option<DeclId>,
        span: Span,
        keys: &mut Vec<ir::ValueSetKey>,
    ) -> Res<()> {
        if let Some(scalar) = scalar(ty).filter(|t| !t.is_varbit()) {
            let kind = match field.and_then(|f| self.typed.field(f)) {
                Some(field) => self.match_annotation(&field.annotations)?,
                None => MatchKind::Exact,
            };
            keys.push(ir::ValueSetKey { name: name.into(), width: scalar.width(), kind });
            return Ok(());
        }
        match ty {
            Type::Struct(_) => {
                for (field, ty, id) in self.typed.fields(ty) {
                    let name = if name.is_empty() { field.to_string() } else { format!("{name}.{field}") };
                    self.value_set_keys(&name, &ty, Some(id), span, keys)?;
                }
                Ok(())
            }
            Type::Tuple(items) => {
                let mut items = items.iter().enumerate();
                items.try_for_each(|(i, ty)| self.value_set_keys(&format!("f{i}"), ty, None, span, keys))
            }
            other => self.limit("E0521", span, &format!("this is a value set of `{other}`")),
        }
    }

    /// The match kind in a field's annotation, such as `@match(ternary)`.
    fn match_annotation(&mut self, annotations: &[ast::Annotation]) -> Res<MatchKind> {
        match ast::annotation(annotations, "match").map(|a| &a.body) {
            Some(ast::AnnotationBody::Unstructured(tokens)) => match tokens.first() {
                Some((kind, span)) => self.match_kind(kind, *span),
                None => Ok(MatchKind::Exact),
            },
            _ => Ok(MatchKind::Exact),
        }
    }

    /// The scalars of a value, from first to last.
    pub(super) fn flatten(&mut self, val: Val, span: Span) -> Res<Vec<ir::Expr>> {
        match (&val, self.parts_of_val(&val)) {
            (Val::Scalar(e), _) => Ok(vec![e.clone()]),
            (_, Some(parts)) => {
                let parts = parts.into_iter().map(|p| self.flatten(p, span));
                Ok(parts.collect::<Res<Vec<_>>>()?.concat())
            }
            _ => self.limit("E0522", span, "`{#}` cannot be part of this data"),
        }
    }

    /// Evaluates an expression, and returns its scalars.
    pub(super) fn data(&mut self, e: &'a ast::Expr) -> Res<Vec<ir::Expr>> {
        let val = self.expr(e)?;
        self.flatten(val, e.span)
    }
}
