//! `shrink`: storage that nothing mentions is removed.
//!
//! `bind` leaves parameters that nothing uses. Otherwise every packet would have to clear their storage, and the interpreter would copy it.

use crate::cells::{Cell, CellSet, Cells};
use crate::effects;
use crate::expr::Place;
use crate::liveness;
use crate::program::{HeaderId, Program, StackId, Transition, VarId};
use crate::stmt::HeaderRef;
use crate::visit;
use crate::visit_mut::{self, Part};

/// Removes the variables, headers and stacks that the program does not mention. Returns whether anything changed.
pub fn run(program: &mut Program) -> bool {
    let kept = Kept::of(program);
    if kept.all() {
        return false;
    }
    let (vars, headers, stacks) = (numbers(&kept.vars), numbers(&kept.headers), numbers(&kept.stacks));
    let var = |v: &mut VarId| *v = VarId(vars[v.index()]);
    let header = |h: &mut HeaderId| *h = HeaderId(headers[h.index()]);
    visit_mut::parts(program, &mut |part| match part {
        Part::Place(Place::Var(v)) | Part::Var(v) => var(v),
        Part::Header(HeaderRef::Header(h)) | Part::HeaderId(h) => header(h),
        Part::Stack(s) => *s = StackId(stacks[s.index()]),
        Part::Place(_) | Part::Header(_) | Part::Expr(_) => {}
    });
    program.standard.each_mut(&mut |v| var(v));
    program.actions.iter_mut().flat_map(|a| &mut a.params).for_each(|p| var(&mut p.var));
    retain(&mut program.vars, &kept.vars);
    retain(&mut program.headers, &kept.headers);
    retain(&mut program.stacks, &kept.stacks);
    for stack in &mut program.stacks {
        header(&mut stack.first);
        stack.index = StackId(stacks[stack.index.index()]);
    }
    true
}

/// For each variable, header or stack: whether it is kept.
struct Kept {
    vars: Vec<bool>,
    headers: Vec<bool>,
    stacks: Vec<bool>,
}

impl Kept {
    fn of(program: &mut Program) -> Kept {
        let mut stacks = vec![false; program.stacks.len()];
        visit_mut::parts(program, &mut |part| {
            if let Part::Stack(s) = part {
                stacks[s.index()] = true;
            }
        });
        let program = &*program;
        let cells = Cells::new(program);
        let mut seen = CellSet::new(&cells);
        mentions(program, &mut |cell| seen.add(cells.number(cell)));
        let vars =
            (0..program.vars.len() as u32).map(|v| seen.has(cells.number(Cell::Var(VarId(v))))).collect();
        let header = |h: u32| cells.of_header(HeaderId(h)).any(|n| seen.has(n));
        let mut headers: Vec<bool> = (0..program.headers.len() as u32).map(header).collect();
        for (i, stack) in program.stacks.iter().enumerate() {
            let elements = stack.first.index()..stack.first.index() + stack.size as usize;
            stacks[i] |= headers[elements].iter().any(|h| *h);
        }
        for (i, stack) in program.stacks.iter().enumerate() {
            if stacks[i] {
                stacks[stack.index.index()] = true;
            }
        }
        for (stack, kept) in program.stacks.iter().zip(&stacks) {
            let elements = stack.first.index()..stack.first.index() + stack.size as usize;
            headers[elements].iter_mut().for_each(|h| *h |= kept);
        }
        Kept { vars, headers, stacks }
    }

    fn all(&self) -> bool {
        [&self.vars, &self.headers, &self.stacks].into_iter().flatten().all(|kept| *kept)
    }
}

/// Calls `f` for every cell that the code of a program, its tables or its architecture mention.
fn mentions(program: &Program, f: &mut dyn FnMut(Cell)) {
    visit::all_stmts(program, &mut |stmt| effects::cells(program, stmt, f));
    for state in program.parsers.iter().flat_map(|p| &p.states) {
        if let Transition::Select(select) = &state.next {
            select.keys.iter().for_each(|k| effects::reads(program, k, f));
        }
    }
    for table in &program.tables {
        let exprs = table.keys.iter().map(|k| &k.expr).chain(&table.selector);
        exprs.for_each(|e| effects::reads(program, e, f));
    }
    program.actions.iter().flat_map(|a| &a.params).for_each(|p| f(Cell::Var(p.var)));
    liveness::architecture(program, f);
}

/// The new numbers of the kept objects.
fn numbers(kept: &[bool]) -> Vec<u32> {
    let mut next = 0;
    let number = |kept: &bool| {
        let own = next;
        next += u32::from(*kept);
        own
    };
    kept.iter().map(number).collect()
}

fn retain<T>(all: &mut Vec<T>, kept: &[bool]) {
    let mut kept = kept.iter();
    all.retain(|_| kept.next().is_some_and(|k| *k));
}
