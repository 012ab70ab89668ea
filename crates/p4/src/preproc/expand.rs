//! Macros: their definitions and their expansion, as in C (C17 6.10.3, with GNU's variadic macros).
//!
//! Each token has the set of macros that produced it ([`HideSet`]); these are not expanded in it again. The result of a
//! macro is scanned again together with the tokens that follow, so it may end with the name of another macro whose
//! arguments follow the use.

use std::rc::Rc;
use std::sync::Arc;

use super::{MAX_EXPANDED, MAX_NESTING, Preproc, lex_text};
use crate::diag::Diagnostics;
use crate::lexer::{Token, TokenKind};
use crate::source::{Expansion, Span};

/// The definition of a macro.
#[derive(Clone, Debug)]
pub struct Macro {
    /// The parameters, if the macro has a parameter list.
    pub params: Option<Params>,
    pub body: Vec<Token>,
    pub defined: Option<Span>,
}

/// The parameters of a macro.
#[derive(Clone, Debug)]
pub struct Params {
    names: Vec<Arc<str>>,
    /// Whether the last parameter takes all remaining arguments, with their commas.
    variadic: bool,
}

impl Params {
    /// Parses the text between the parentheses: `a, b`, `a, ...` (the rest is `__VA_ARGS__`), or GNU's `a, rest...`.
    pub fn parse(list: &str) -> Params {
        let names = list.split(',').map(str::trim).filter(|p| !p.is_empty());
        let variadic = list.trim_end().ends_with("...");
        let name = |p: &str| match p.strip_suffix("...").map(str::trim_end) {
            Some("") => Arc::from("__VA_ARGS__"),
            Some(named) => Arc::from(named),
            None => Arc::from(p),
        };
        Params { names: names.map(name).collect(), variadic }
    }

    fn find(&self, token: &Token) -> Option<usize> {
        match &token.kind {
            TokenKind::Word(w) => self.names.iter().position(|p| p == w),
            _ => None,
        }
    }

    /// The index of the parameter that takes the remaining arguments.
    fn rest(&self) -> Option<usize> {
        self.variadic.then(|| self.names.len() - 1)
    }
}

/// The macros that produced a token.
type HideSet = Option<Rc<HiddenMacro>>;

struct HiddenMacro {
    name: Arc<str>,
    depth: usize,
    others: HideSet,
}

fn hides(hide: &HideSet, name: &str) -> bool {
    let mut at = hide;
    while let Some(made) = at {
        if *made.name == *name {
            return true;
        }
        at = &made.others;
    }
    false
}

fn hide_also(hide: &HideSet, name: &Arc<str>) -> HideSet {
    let depth = hide.as_ref().map_or(0, |h| h.depth) + 1;
    Some(Rc::new(HiddenMacro { name: name.clone(), depth, others: hide.clone() }))
}

/// The intersection of two sets (`both`), or their union.
fn combine(a: &HideSet, b: &HideSet, both: bool) -> HideSet {
    let mut result = if both { None } else { b.clone() };
    let mut at = a;
    while let Some(made) = at {
        if hides(b, &made.name) == both {
            result = hide_also(&result, &made.name);
        }
        at = &made.others;
    }
    result
}

/// A token during expansion.
type Item = (Token, HideSet);

/// An argument of a macro, before and after expansion.
struct Argument {
    raw: Vec<Item>,
    expanded: Vec<Item>,
}

impl Preproc<'_> {
    /// Expands all macros in the tokens. `record`: the source map gets each use.
    pub(super) fn expand(&mut self, tokens: Vec<Token>, record: bool) -> Vec<Token> {
        if !tokens.iter().any(|t| matches!(&t.kind, TokenKind::Word(w) if self.is_macro(w))) {
            return tokens;
        }
        let items = tokens.into_iter().map(|t| (t, None)).collect();
        self.expand_items(items, record).into_iter().map(|(token, _)| token).collect()
    }

    fn is_macro(&self, name: &Arc<str>) -> bool {
        self.macros.contains_key(name) || name.starts_with("__")
    }

    fn expand_items(&mut self, items: Vec<Item>, record: bool) -> Vec<Item> {
        // Arguments are expanded before the macro's body, so nested uses are nested calls of this function.
        if self.nesting >= MAX_NESTING {
            let span = items.first().map_or(Span::default(), |(t, _)| t.span);
            self.error("E0009", span, format!("uses of macros nest deeper than {MAX_NESTING}"), "");
            return Vec::new();
        }
        self.nesting += 1;
        let mut out = Vec::with_capacity(items.len());
        let mut rest = items;
        rest.reverse();
        while let Some((token, hide)) = rest.pop() {
            let TokenKind::Word(name) = &token.kind else {
                out.push((token, hide));
                continue;
            };
            if let Some(kind) = self.builtin(name, token.span) {
                out.push((Token { kind, ..token }, hide));
                continue;
            }
            let Some(found) = self.macros.get(name).filter(|_| !hides(&hide, name)).cloned() else {
                out.push((token, hide));
                continue;
            };
            let open = rest.last().is_some_and(|(t, _)| t.kind == TokenKind::Punct("("));
            if found.params.is_some() && !open {
                out.push((token, hide));
                continue;
            }
            if !self.replace(token, hide, &found, &mut rest, record) {
                break;
            }
        }
        self.nesting -= 1;
        out
    }

    /// Expands one use of a macro, and puts the result in front of the remaining tokens. Returns false if macros
    /// produced too many tokens.
    fn replace(
        &mut self,
        token: Token,
        hide: HideSet,
        found: &Macro,
        rest: &mut Vec<Item>,
        record: bool,
    ) -> bool {
        let TokenKind::Word(name) = &token.kind else { return true };
        let (mut used, mut outer) = (token.span, hide.clone());
        let mut args = Vec::new();
        if let Some(params) = &found.params {
            let Some(call) = arguments(rest, params) else {
                self.error("E0008", used, format!("the arguments of macro `{name}` have no `)`"), "");
                return true;
            };
            let (wanted, given) = (params.names.len(), call.args.len());
            if given != wanted {
                let least = if params.variadic { "at least " } else { "" };
                let (wanted, s) = (wanted - usize::from(params.variadic), if wanted == 1 { "" } else { "s" });
                let text = format!("macro `{name}` takes {least}{wanted} argument{s}, {given} given");
                self.error("E0008", used, text, "");
                return true;
            }
            used = used.to(call.end);
            outer = combine(&hide, &call.hide, true);
            for raw in call.args {
                let expanded = self.expand_items(raw.clone(), false);
                args.push(Argument { raw, expanded });
            }
        }
        if self.made > MAX_EXPANDED {
            let message = format!("macros expand to more than {MAX_EXPANDED} tokens");
            self.error("E0009", used, message, "does a macro double what it gets, again and again?");
            return false;
        }
        let hide = hide_also(&outer, name);
        if hide.as_ref().is_some_and(|h| h.depth > MAX_NESTING) {
            self.error("E0009", used, format!("uses of macros nest deeper than {MAX_NESTING}"), "");
            return true;
        }
        if record && outer.is_none() {
            self.map.note_expansion(Expansion { used, name: name.clone(), defined: found.defined });
        }
        let mut made = self.fill(found.params.as_ref(), &found.body, &args);
        self.made += made.len();
        if let Some((first, _)) = made.first_mut() {
            first.spaced = token.spaced;
        }
        let place = |(t, own): Item| {
            let hide = if own.is_none() { hide.clone() } else { combine(&own, &hide, false) };
            (Token { span: used, first: false, ..t }, hide)
        };
        rest.extend(made.into_iter().rev().map(place));
        true
    }

    fn builtin(&self, name: &str, span: Span) -> Option<TokenKind> {
        let number = |n: usize| TokenKind::Number(Arc::from(n.to_string()));
        match name {
            "__LINE__" => Some(number(self.map.position(span).line)),
            "__FILE__" => Some(TokenKind::String(Arc::from(self.map.position(span).file))),
            _ => None,
        }
    }

    /// The body of a macro with its parameters replaced, and with `#`, `##` and `__VA_OPT__` evaluated.
    fn fill(&mut self, params: Option<&Params>, body: &[Token], args: &[Argument]) -> Vec<Item> {
        let mut out: Vec<Item> = Vec::new();
        let pastes = |at: usize| body.get(at).is_some_and(|t| t.kind == TokenKind::Punct("##"));
        let mut at = 0;
        while at < body.len() {
            let len = piece_len(params, &body[at..]);
            let mut next = at + len;
            let mut piece = self.piece(params, &body[at..next], args, pastes(next));
            while pastes(next) && next + 1 < body.len() {
                let len = piece_len(params, &body[next + 1..]);
                let (from, to) = (next + 1, next + 1 + len);
                let right = self.piece(params, &body[from..to], args, true);
                let rest = params.is_some_and(|p| p.rest().is_some() && p.rest() == p.find(&body[from]));
                let comma = matches!(&piece[..], [(t, _)] if t.kind == TokenKind::Punct(","));
                // GNU: `, ## __VA_ARGS__` is removed if there are no arguments; otherwise nothing is joined.
                piece = match (comma && rest, right.is_empty()) {
                    (true, true) => Vec::new(),
                    (true, false) => piece.into_iter().chain(right).collect(),
                    _ => paste(piece, right, self.diags),
                };
                next = to;
            }
            out.extend(piece);
            at = next;
        }
        out
    }

    /// Evaluates one token of a body, `# parameter`, or `__VA_OPT__( … )`. Operands of `##` are not expanded (`raw`).
    fn piece(&mut self, params: Option<&Params>, part: &[Token], args: &[Argument], raw: bool) -> Vec<Item> {
        let Some(params) = params else { return part.iter().map(|t| (t.clone(), None)).collect() };
        match part {
            [one] => match params.find(one).and_then(|p| args.get(p)) {
                Some(arg) if raw => arg.raw.clone(),
                Some(arg) => {
                    let mut items = arg.expanded.clone();
                    if let Some((first, _)) = items.first_mut() {
                        first.spaced = one.spaced;
                    }
                    items
                }
                None => vec![(one.clone(), None)],
            },
            [hash, param] => {
                let arg = params.find(param).and_then(|p| args.get(p));
                let text = arg.map(|a| stringify(&a.raw)).unwrap_or_default();
                vec![(Token { kind: TokenKind::String(Arc::from(text)), ..hash.clone() }, None)]
            }
            [_, _, inner @ .., _] => {
                let given = params.rest().and_then(|p| args.get(p)).is_some_and(|a| !a.expanded.is_empty());
                if given { self.fill(Some(params), inner, args) } else { Vec::new() }
            }
            [] => Vec::new(),
        }
    }
}

/// The number of tokens that `piece` evaluates together: two for `# parameter`, all of `__VA_OPT__( … )`, one
/// otherwise.
fn piece_len(params: Option<&Params>, body: &[Token]) -> usize {
    let Some(params) = params else { return 1 };
    let is =
        |at: usize, p: &str| body.get(at).is_some_and(|t| matches!(&t.kind, TokenKind::Punct(q) if *q == p));
    if is(0, "#") && body.get(1).is_some_and(|t| params.find(t).is_some()) {
        return 2;
    }
    let optional = body.first().is_some_and(|t| super::is_word(t, "__VA_OPT__"));
    if !(optional && params.variadic && is(1, "(")) {
        return 1;
    }
    let mut depth = 0;
    for at in 1..body.len() {
        depth += isize::from(is(at, "(")) - isize::from(is(at, ")"));
        if depth == 0 {
            return at + 1;
        }
    }
    1
}

/// The tokens of an argument as the text of a string.
fn stringify(items: &[Item]) -> String {
    let mut text = String::new();
    for (i, (token, _)) in items.iter().enumerate() {
        if i > 0 && token.spaced {
            text.push(' ');
        }
        match &token.kind {
            TokenKind::String(s) => {
                let inner = s.replace('\\', "\\\\").replace('"', "\\\"");
                text += &format!("\\\"{inner}\\\"");
            }
            other => text += &other.text(),
        }
    }
    text
}

/// Evaluates `left ## right`: joins the last token of the left operand and the first of the right one.
fn paste(mut left: Vec<Item>, right: Vec<Item>, diags: &mut Diagnostics) -> Vec<Item> {
    let mut right = right.into_iter();
    let Some((last, hide)) = left.pop() else { return right.collect() };
    let Some((head, _)) = right.next() else {
        left.push((last, hide));
        return left;
    };
    let text = format!("{}{}", last.kind.text(), head.kind.text());
    let joined = lex_text(&text, last.span, diags);
    let spaced = last.spaced;
    left.extend(joined.into_iter().enumerate().map(|(i, t)| (Token { spaced: i == 0 && spaced, ..t }, None)));
    left.extend(right);
    left
}

/// The use of a macro with arguments: the arguments, and the `)`.
struct MacroCall {
    args: Vec<Vec<Item>>,
    end: Span,
    hide: HideSet,
}

/// Consumes the arguments. The next token is the `(`. Returns `None` if there is no `)`.
fn arguments(rest: &mut Vec<Item>, params: &Params) -> Option<MacroCall> {
    rest.pop();
    let count = params.names.len();
    let mut args = vec![Vec::new()];
    let mut depth = 0;
    loop {
        let (token, hide) = rest.pop()?;
        match token.kind {
            TokenKind::Punct(")") if depth == 0 => {
                if count == 0 && args.len() == 1 && args[0].is_empty() {
                    args.clear();
                }
                if params.variadic && args.len() + 1 == count {
                    args.push(Vec::new());
                }
                return Some(MacroCall { args, end: token.span, hide });
            }
            TokenKind::Punct(",") if depth == 0 && !(params.variadic && args.len() == count) => {
                args.push(Vec::new());
                continue;
            }
            // Only parentheses nest, as in C.
            TokenKind::Punct("(") => depth += 1,
            TokenKind::Punct(")") => depth -= 1,
            _ => {}
        }
        args.last_mut()?.push((token, hide));
    }
}
