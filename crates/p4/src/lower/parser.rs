//! Parsers: states, selects, and sub-parsers as states of the parser that applies them.

use std::collections::HashMap;
use std::rc::Rc;

use abi::Bits;
use ir::{KeySet, StateId, Target};
use num_bigint::BigInt;

use super::scope::{Binding, BlockInstance, Env, Object, Scope};
use super::types::{T, Val, to_bits};
use super::{Lower, Res};
use crate::ast::{self, BinaryOp, ExprKind};
use crate::diag::{Diagnostic, did_you_mean};
use crate::source::Span;

/// The parser under construction.
#[derive(Default)]
pub struct Building {
    states: Vec<Option<ir::State>>,
    /// The state whose statements are met: its number, name and place.
    current: Option<(StateId, String, ir::Loc)>,
}

/// States by name, and where `accept` leads: for a sub-parser, back to where it was applied.
struct States<'a> {
    ids: HashMap<&'a str, StateId>,
    accept: Target,
}

impl<'a> Lower<'a, '_> {
    pub(super) fn top_parser(
        &mut self,
        decl: &'a ast::Decl,
        parser: &'a ast::ParserDecl,
        env: &Env<'a>,
        role: ir::Role,
    ) -> Res<()> {
        self.parser = Some(Building::default());
        let (prologue, made) = self.in_block(|l| l.locals(&parser.locals, env));
        let start = self.states(decl, parser, env, "", Target::Accept);
        let building = self.parser.take().unwrap_or_default();
        made?;
        let start = start?;
        let states = building.states.into_iter().collect::<Option<Vec<_>>>().ok_or(super::Failed)?;
        self.out.parsers.push(ir::Parser { name: decl.name.text.clone(), role, prologue, states, start });
        Ok(())
    }

    /// Makes all states of a parser; gives its `start`.
    fn states(
        &mut self,
        decl: &'a ast::Decl,
        parser: &'a ast::ParserDecl,
        env: &Env<'a>,
        prefix: &str,
        accept: Target,
    ) -> Res<StateId> {
        let mut states = States { ids: HashMap::new(), accept };
        for state in &parser.states {
            let id = self.new_state();
            if states.ids.insert(&state.name.text, id).is_some() {
                let message = format!("there are two states `{}`", state.name.text);
                return self.error("E0503", state.name.span, message);
            }
        }
        let Some(start) = states.ids.get("start").copied() else {
            let message = format!("parser `{}` has no state `start`", decl.name.text);
            return self.error_hint(
                "E0503",
                decl.name.span,
                message,
                "parsing begins at `state start { … }`",
            );
        };
        let mut failed = false;
        for state in &parser.states {
            failed |= self.state(state, env, prefix, &states).is_err();
        }
        if failed { Err(super::Failed) } else { Ok(start) }
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

    fn state(
        &mut self,
        state: &'a ast::StateDecl,
        env: &Env<'a>,
        prefix: &str,
        states: &States<'a>,
    ) -> Res<()> {
        let Some(id) = states.ids.get(state.name.text.as_str()).copied() else { return Err(super::Failed) };
        let loc = self.at(state.name.span);
        let name = format!("{prefix}{}", state.name.text);
        let outer = self.parser.as_mut().and_then(|b| b.current.replace((id, name, loc)));
        let scope = Scope::new(Some(env.clone()));
        self.blocks.push(Vec::new());
        let done = self.stmts(&state.body, &scope);
        let next = self.transition(state, &scope, states);
        let body = self.blocks.pop().unwrap_or_default();
        if let Ok(next) = next {
            self.finish_state(body, next);
        }
        if let Some(building) = &mut self.parser {
            building.current = outer;
        }
        done
    }

    /// Writes the current state down.
    fn finish_state(&mut self, body: Vec<ir::Stmt>, next: ir::Transition) {
        let Some(building) = &mut self.parser else { return };
        let Some((id, name, loc)) = &building.current else { return };
        let state = ir::State { name: name.clone(), loc: *loc, body, next };
        if let Some(slot) = building.states.get_mut(id.index()) {
            *slot = Some(state);
        }
    }

    /// A sub-parser's states are made here; the state that applies it ends, and another goes on when it accepts.
    pub(super) fn sub_parser(
        &mut self,
        block: &Rc<BlockInstance<'a>>,
        parser: &'a ast::ParserDecl,
        env: &Env<'a>,
    ) -> Res<()> {
        let after = self.new_state();
        self.locals(&parser.locals, env)?;
        if self.blocks.len() != 1 {
            return self.not_yet(block.decl.name.span, "applying a parser inside an `if` or a loop");
        }
        let (name, loc) = match self.parser.as_ref().and_then(|b| b.current.clone()) {
            Some((_, name, loc)) => (name, loc),
            None => return Err(super::Failed),
        };
        let prefix = format!("{}.", block.path);
        let before = std::mem::take(&mut self.blocks);
        let start = self.states(block.decl, parser, env, &prefix, Target::State(after));
        self.blocks = before;
        let start = start?;
        let body = self.blocks.last_mut().map(std::mem::take).unwrap_or_default();
        self.finish_state(body, ir::Transition::Goto(Target::State(start)));
        if let Some(building) = &mut self.parser {
            building.current = Some((after, format!("{name}'"), loc));
        }
        Ok(())
    }

    fn transition(
        &mut self,
        state: &'a ast::StateDecl,
        env: &Env<'a>,
        states: &States<'a>,
    ) -> Res<ir::Transition> {
        match &state.transition {
            None => {
                let d = Diagnostic::warning(
                    "W0401",
                    state.name.span,
                    format!("state `{}` has no transition", state.name.text),
                );
                self.diags
                    .push(d.label("it rejects").hint("write `transition accept;` or `transition reject;`"));
                Ok(ir::Transition::Goto(Target::Reject))
            }
            Some(ast::Transition::State(name)) => Ok(ir::Transition::Goto(self.target(name, states)?)),
            Some(ast::Transition::Select { keys, cases, span }) => {
                let mut key_exprs = Vec::new();
                let mut types = Vec::new();
                for key in keys {
                    let (e, ty) = self.scalar(key, env, None)?;
                    key_exprs.push(e);
                    types.push(ty);
                }
                let loc = self.at(*span);
                let mut made = Vec::new();
                for case in cases {
                    let value_set = self.value_set_case(&case.keyset, types.len(), env)?;
                    let sets = match value_set {
                        Some(_) => Vec::new(),
                        None => self.keysets(&case.keyset, &types, env)?,
                    };
                    let next = self.target(&case.state, states)?;
                    made.push(ir::SelectCase { loc: self.at(case.span), sets, value_set, next });
                }
                Ok(ir::Transition::Select(ir::Select { loc, keys: key_exprs, cases: made }))
            }
        }
    }

    fn value_set_case(
        &mut self,
        e: &'a ast::Expr,
        keys: usize,
        env: &Env<'a>,
    ) -> Res<Option<ir::ValueSetId>> {
        let ExprKind::Name { name, .. } = &e.kind else { return Ok(None) };
        match env.get(&name.text) {
            Some(Binding::Object(Object::ValueSet(id, parts))) if parts == keys => Ok(Some(id)),
            Some(Binding::Object(Object::ValueSet(_, parts))) => {
                let message =
                    format!("members of `{}` have {parts} parts, and there are {keys} keys", name.text);
                self.error("E0503", e.span, message)
            }
            _ => Ok(None),
        }
    }

    fn target(&mut self, name: &ast::Name, states: &States<'a>) -> Res<Target> {
        match name.text.as_str() {
            "accept" => Ok(states.accept),
            "reject" => Ok(Target::Reject),
            other => match states.ids.get(other) {
                Some(id) => Ok(Target::State(*id)),
                None => {
                    let d = Diagnostic::error("E0503", name.span, format!("there is no state `{other}`"));
                    let known = states.ids.keys().copied().chain(["accept", "reject"]);
                    match did_you_mean(other, known) {
                        Some(near) => self.report(d.hint(format!("did you mean `{near}`?"))),
                        None => self.report(d.hint("states are `accept`, `reject` and those of this parser")),
                    }
                }
            },
        }
    }

    /// One set a key.
    pub(super) fn keysets(&mut self, e: &'a ast::Expr, types: &[T], env: &Env<'a>) -> Res<Vec<KeySet>> {
        if let (ExprKind::Default | ExprKind::DontCare, _) = (&e.kind, ()) {
            return Ok(vec![KeySet::Any; types.len()]);
        }
        let items: Vec<&'a ast::Expr> = match &e.kind {
            ExprKind::List { items, .. } => items.iter().collect(),
            _ => vec![e],
        };
        if items.len() != types.len() {
            let message = format!("{} sets for {} keys", items.len(), types.len());
            return self.error("E0503", e.span, message);
        }
        items.into_iter().zip(types).map(|(item, ty)| self.keyset(item, ty, env)).collect()
    }

    fn keyset(&mut self, e: &'a ast::Expr, ty: &T, env: &Env<'a>) -> Res<KeySet> {
        match &e.kind {
            ExprKind::Default | ExprKind::DontCare => Ok(KeySet::Any),
            ExprKind::Binary { op: BinaryOp::Mask, left, right } => {
                let (value, mask) = (self.known(left, ty, env)?, self.known(right, ty, env)?);
                Ok(KeySet::Mask(value, mask))
            }
            ExprKind::Binary { op: BinaryOp::Range, left, right } => {
                let (lo, hi) = (self.known(left, ty, env)?, self.known(right, ty, env)?);
                let signed = matches!(ty.underlying(), T::Int(_));
                Ok(KeySet::Range { lo, hi, signed })
            }
            _ => Ok(KeySet::Value(self.known(e, ty, env)?)),
        }
    }

    /// A constant of that type.
    pub(super) fn known(&mut self, e: &'a ast::Expr, ty: &T, env: &Env<'a>) -> Res<Bits> {
        match self.expr(e, env, Some(ty))? {
            Val::Integer(n) => self.known_number(&n, ty, e.span),
            val => {
                let val = self.loaded(val);
                let under = ty.underlying().clone();
                // A constant of the representation stands for a serializable enum's member, too.
                let val =
                    if val.ty().as_ref() == Some(&under) { val } else { self.convert(val, ty, e.span)? };
                match &val {
                    Val::Scalar(e, _) if e.as_const().is_some() => {
                        Ok(e.as_const().cloned().unwrap_or(Bits::zero(1)))
                    }
                    _ => self.error_hint(
                        "E0503",
                        e.span,
                        "this is not known when the program is compiled",
                        "sets are made of constants",
                    ),
                }
            }
        }
    }

    fn known_number(&mut self, n: &BigInt, ty: &T, span: Span) -> Res<Bits> {
        match ty.underlying() {
            T::Bit(w) | T::Int(w) => {
                let (bits, fits) = to_bits(n, *w, matches!(ty.underlying(), T::Int(_)));
                if !fits {
                    self.diags.push(Diagnostic::warning("W0301", span, format!("{n} does not fit {ty}")));
                }
                Ok(bits)
            }
            _ => self.error("E0503", span, format!("a number stands where a {ty} should")),
        }
    }
}
