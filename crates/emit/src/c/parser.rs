//! The parser's function. Each state is a label, and each transition a `goto`.

use abi::MatchKind;
use ir::{KeySet, Parser, Select, Target, Transition};

use super::expr::{flipped, signed, signed_range};
use super::pipeline::stage_name;
use super::{Body, Emitter, Machine, Unit, constant, container, equal, header, wide};

impl Emitter<'_> {
    /// Emits the functions of the parsers.
    pub fn parsers(&mut self) {
        let program = self.program;
        program.parsers.iter().for_each(|p| self.parser(p));
    }

    fn parser(&mut self, parser: &Parser) {
        let loops = loops(parser);
        self.function(stage_name(parser.role), Unit::Role(parser.role), |body| {
            body.text.line("u32 error = 0;");
            let mut counters: Vec<usize> = loops.iter().flatten().copied().collect();
            counters.sort_unstable();
            counters.dedup();
            for counter in counters {
                body.text.line(format!("UNUSED u32 steps_{counter} = 0;"));
            }
            body.text.line("u8 *p;");
            body.block(&parser.prologue);
            body.text.line(format!("goto state_{};", parser.start.0));
            for (i, state) in parser.states.iter().enumerate() {
                body.text.margin(format!("state_{i}:; /* {} */", state.name.comment()));
                if let Some(counter) = loops[i] {
                    let budget = body.facts.machine().parser_budget();
                    body.text.line(format!("if (++steps_{counter} > {budget}) {{"));
                    let reason = body.facts.step_budget + 1;
                    body.text.line(format!("    s->ended = {reason};"));
                    body.text.line("    return 0;");
                    body.text.line("}");
                }
                if !state.rejected.is_empty() {
                    body.rejected = format!("rejected_{i}");
                }
                body.block(&state.body);
                body.comment(state.loc);
                match &state.next {
                    Transition::Goto(target) => body.text.line(go(*target, &body.rejected)),
                    Transition::Select(select) => select_cases(body, select),
                }
                if !state.rejected.is_empty() {
                    body.text.margin(format!("rejected_{i}:; /* {} */", state.name.comment()));
                    body.rejected = "rejected".to_string();
                    body.block(&state.rejected);
                    body.text.line("goto rejected;");
                }
            }
            body.text.margin("rejected:");
            let error = body.place(&ir::Place::Var(body.program.standard.parser_error));
            body.text.line(format!("{error} = error;"));
            body.text.margin("accepted:;");
        });
    }
}

/// For each state, the loop that it is part of, if a packet can enter it more than once: the number of the first state of the loop. Each
/// loop has a counter of its own. With one for all, the kernel's verifier would follow a second loop once for each number of iterations
/// of the first.
pub(super) fn loops(parser: &Parser) -> Vec<Option<usize>> {
    let next: Vec<Vec<usize>> = parser.states.iter().map(|s| successors(&s.next)).collect();
    let mut loops = vec![None; next.len()];
    for component in components(&next) {
        let first = component.iter().min().copied();
        let is_loop = component.len() > 1 || component.iter().any(|state| next[*state].contains(state));
        component.iter().filter(|_| is_loop).for_each(|state| loops[*state] = first);
    }
    loops
}

/// The strongly connected components of a graph (Tarjan's algorithm). A parser may have more states than a thread has room for calls, so the
/// stack of the depth-first search is a list.
fn components(next: &[Vec<usize>]) -> Vec<Vec<usize>> {
    const UNSEEN: usize = usize::MAX;
    let (mut order, mut low, mut open) =
        (vec![UNSEEN; next.len()], vec![0; next.len()], vec![false; next.len()]);
    let (mut found, mut stack, mut count) = (Vec::new(), Vec::new(), 0);
    for root in 0..next.len() {
        if order[root] != UNSEEN {
            continue;
        }
        // The nodes from the root to the current one, each with the number of its edges that were followed.
        let mut path = vec![(root, 0)];
        while let Some((node, edge)) = path.pop() {
            if edge == 0 {
                (order[node], low[node], open[node]) = (count, count, true);
                stack.push(node);
                count += 1;
            } else if let Some(to) = next[node].get(edge - 1).filter(|to| open[**to]) {
                low[node] = low[node].min(low[*to]);
            }
            match next[node].get(edge) {
                Some(to) => {
                    path.push((node, edge + 1));
                    if order[*to] == UNSEEN {
                        path.push((*to, 0));
                    }
                }
                None if low[node] == order[node] => {
                    let from = stack.iter().rposition(|other| *other == node).unwrap_or(0);
                    let component = stack.split_off(from);
                    component.iter().for_each(|other| open[*other] = false);
                    found.push(component);
                }
                None => {}
            }
        }
    }
    found
}

fn successors(next: &Transition) -> Vec<usize> {
    let state = |t: &Target| match t {
        Target::State(id) => Some(id.index()),
        Target::Accept | Target::Reject => None,
    };
    match next {
        Transition::Goto(t) => state(t).into_iter().collect(),
        Transition::Select(s) => s.cases.iter().filter_map(|c| state(&c.next)).collect(),
    }
}

fn go(target: Target, rejected: &str) -> String {
    match target {
        Target::State(id) => format!("goto state_{};", id.0),
        Target::Accept => "goto accepted;".to_string(),
        Target::Reject => format!("goto {rejected};"),
    }
}

fn select_cases(body: &mut Body<'_>, select: &Select) {
    let keys: Vec<String> = select.keys.iter().map(|k| body.expr(k)).collect();
    for case in &select.cases {
        if let Some(set) = case.value_set {
            body.loc = case.loc;
            let member = member(body, set, select, &keys);
            body.text.line(format!("if ({member})"));
            body.text.line(format!("    {}", go(case.next, &body.rejected)));
            continue;
        }
        let tests = keys.iter().zip(&case.sets).filter_map(|(k, set)| test(k, set));
        let tests: Vec<_> = tests.collect();
        if tests.is_empty() {
            body.text.line(go(case.next, &body.rejected));
            return;
        }
        body.text.line(format!("if ({})", tests.join(" && ")));
        body.text.line(format!("    {}", go(case.next, &body.rejected)));
    }
    body.text.line("error = 2; /* NoMatch */");
    body.text.line(format!("goto {};", body.rejected));
}

/// The C of the test whether a member of a value set matches the keys.
fn member(body: &mut Body<'_>, set: ir::ValueSetId, select: &Select, keys: &[String]) -> String {
    let parts = &body.program.value_sets[set.index()].keys;
    if parts.iter().any(|k| k.width > 128) {
        body.unsupported("a value set with a field of more than 128 bits", "split it into two fields");
        return "0".to_string();
    }
    let ranges = parts.iter().enumerate().filter(|(_, k)| k.kind == MatchKind::Range);
    let ranges = ranges.fold(0u64, |bits, (i, _)| bits | 1 << i);
    let unsigned = |(key, (part, expr)): (&String, (&ir::ValueSetKey, &ir::Expr))| match signed_range(
        part.kind, expr.ty,
    ) {
        Some(sign) => flipped(key, &sign),
        None => key.clone(),
    };
    let keys: Vec<_> = keys.iter().zip(parts.iter().zip(&select.keys)).map(unsigned).collect();
    if body.facts.machine() == Machine::Bpf {
        for (i, (key, part)) in keys.iter().zip(parts).enumerate() {
            body.text.line(format!("t->member[{}] = (u64)({key});", 2 * i));
            if part.width > 64 {
                body.text.line(format!("t->member[{}] = (u64)(({key}) >> 64);", 2 * i + 1));
            }
        }
        return format!("in_value_set_{}()", set.0);
    }
    let keys = keys.join(", ");
    let (set, count) = (set.0, parts.len());
    format!("is_member(pkt->frame.shared, {set}, (u128[]){{ {keys} }}, {count}, {ranges:#x})")
}

/// The C of the test whether a key is in a set; `None` if every key is.
pub fn test(key: &str, set: &KeySet) -> Option<String> {
    Some(match set {
        KeySet::Any => return None,
        KeySet::Value(v) => equal(key, &constant(v), v.width()),
        KeySet::Mask(v, m) => header::masked_equal(key, v, m),
        KeySet::Range { lo, hi, signed } if lo.width() > 128 => wide::between(key, lo, hi, *signed),
        KeySet::Range { lo, hi, signed: false } => {
            format!("{key} >= {} && {key} <= {}", constant(lo), constant(hi))
        }
        KeySet::Range { lo, hi, signed: true } => {
            let [key, lo, hi] =
                [key, &constant(lo), &constant(hi)].map(|v| signed(v, lo.width(), container(lo.width())));
            format!("{key} >= {lo} && {key} <= {hi}")
        }
    })
}
