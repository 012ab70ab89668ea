//! `bind`: a variable and its copy share storage if no program can observe it.
//!
//! Calls copy their arguments into parameters and back. If neither of the two is written while the value of the other is still needed, both
//! have the same value whenever both are live. So one storage location can serve as both, and the copies are unnecessary. This is copy
//! coalescing, as in register allocators (Chaitin 1982): two objects of a copy *interfere* if one is written, other than by a copy of the
//! other, at a point where the other is live. The pass binds whole stacks first, then headers, then scalars.

use std::collections::{HashMap, HashSet};

use super::rename::Rename;
use crate::cells::{Cell, CellSet};
use crate::effects;
use crate::expr::{ExprKind, Place};
use crate::liveness::{self, Event, Liveness};
use crate::program::{HeaderId, Program, Stack, StackId, VarId, VarKind};
use crate::stmt::{HeaderRef, Stmt, StmtKind};
use crate::visit;
use crate::visit_mut::{self, Part};

/// A variable, header or stack, which a copy reads or writes as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Object {
    Stack(StackId),
    Header(HeaderId),
    Field(HeaderId, u32),
    Var(VarId),
}

/// The size of the objects whose copies a run considers.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    Stacks,
    Headers,
    Scalars,
}

/// Binds all objects that can share storage. Returns whether anything changed.
pub fn run(program: &mut Program) -> bool {
    let mut changed = false;
    let mut fixed = Fixed::of(program);
    let mut live = None;
    for level in [Level::Stacks, Level::Headers, Level::Scalars] {
        let copies = copies(program, level, &fixed);
        if copies.is_empty() {
            continue;
        }
        let mut groups = Groups::new(program, &copies);
        groups.interfere(program, live.get_or_insert_with(|| Liveness::new(program)));
        if groups.merge(program, &copies, &fixed).apply(program) {
            (changed, fixed, live) = (true, Fixed::of(program), None);
        }
    }
    changed
}

/// The two objects of a copy: first the written one, then the read one.
pub(super) type Copy = (Object, Object);

/// The objects that a statement copies, if it is a copy.
pub(super) fn copied(program: &Program, stmt: &Stmt) -> Option<Copy> {
    let own = |s: &StackId| program.stacks[s.index()].index == *s;
    let pair = if let StmtKind::CopyStack { dst, src } = &stmt.kind {
        (own(dst) && own(src)).then_some((Object::Stack(*dst), Object::Stack(*src)))
    } else if let StmtKind::CopyHeader { dst: HeaderRef::Header(a), src: HeaderRef::Header(b) } = &stmt.kind {
        Some((Object::Header(*a), Object::Header(*b)))
    } else if let StmtKind::Assign { dst, src: crate::Expr { kind: ExprKind::Read(from), .. } } = &stmt.kind {
        scalar(dst).zip(scalar(from))
    } else {
        None
    };
    pair.filter(|(to, from)| to != from)
}

fn level(object: Object) -> Level {
    match object {
        Object::Stack(_) => Level::Stacks,
        Object::Header(_) => Level::Headers,
        Object::Field(..) | Object::Var(_) => Level::Scalars,
    }
}

fn scalar(place: &Place) -> Option<Object> {
    match place {
        Place::Var(v) => Some(Object::Var(*v)),
        Place::Field(HeaderRef::Header(h), field) => Some(Object::Field(*h, *field)),
        Place::Field(..) => None,
    }
}

/// All copies of a level in which one of the objects can be removed. Each pair occurs once.
fn copies(program: &Program, of: Level, fixed: &Fixed) -> Vec<Copy> {
    let mut all = Vec::new();
    let mut seen = HashSet::new();
    visit::all_stmts(program, &mut |stmt| {
        if let Some((a, b)) = copied(program, stmt)
            && level(a) == of
            && (fixed.may_go(program, a) || fixed.may_go(program, b))
            && seen.insert((a.min(b), a.max(b)))
        {
            all.push((a, b));
        }
    });
    all
}

/// Objects that cannot be renamed freely, because something outside of the code refers to them.
pub(super) struct Fixed {
    /// The headers in stacks, and the headers that the pipeline passes on.
    headers: HashSet<HeaderId>,
    /// The stacks with elements that the pipeline passes on, and those that share a next index with another stack.
    stacks: HashSet<StackId>,
    /// The variables that a statement or the pipeline refers to by id. They can be replaced by other variables, but not by fields.
    pub(super) named: HashSet<VarId>,
}

impl Fixed {
    pub(super) fn of(program: &mut Program) -> Fixed {
        let (mut named, mut headers) = (HashSet::new(), HashSet::new());
        visit_mut::parts(program, &mut |part| match part {
            Part::Var(v) => drop(named.insert(*v)),
            Part::HeaderId(h) => drop(headers.insert(*h)),
            Part::Expr(_) | Part::Place(_) | Part::Header(_) | Part::Stack(_) => {}
        });
        let elements = |s: &Stack| (s.first.0..s.first.0 + s.size).map(HeaderId);
        let fixed = |s: &StackId| elements(&program.stacks[s.index()]).any(|h| headers.contains(&h));
        let mut stacks: HashSet<StackId> =
            (0..program.stacks.len() as u32).map(StackId).filter(fixed).collect();
        let numbered = program.stacks.iter().enumerate();
        stacks.extend(numbered.filter(|(i, s)| s.index.index() != *i).map(|(_, s)| s.index));
        headers.extend(program.stacks.iter().flat_map(elements));
        Fixed { headers, stacks, named }
    }

    /// Whether an object can be replaced by another one.
    pub(super) fn may_go(&self, program: &Program, object: Object) -> bool {
        match object {
            Object::Stack(s) => !self.stacks.contains(&s),
            Object::Header(h) => !self.headers.contains(&h),
            Object::Field(..) => false,
            Object::Var(v) => program.var(v).kind == VarKind::Local,
        }
    }

    /// Replaces an object by another one, if its references can name that one.
    pub(super) fn stand_for(&self, program: &Program, object: Object, kept: Object, rename: &mut Rename) {
        match (object, kept) {
            (Object::Var(v), Object::Var(to)) => rename.var(v, Place::Var(to)),
            (Object::Var(v), Object::Field(h, f)) if !self.named.contains(&v) => {
                rename.var(v, Place::field(h, f));
            }
            (Object::Header(h), Object::Header(to)) => rename.header(h, to),
            (Object::Stack(s), Object::Stack(to)) => rename.stack(program, s, to),
            _ => {}
        }
    }
}

/// The objects that are related by copies, and which of them interfere.
struct Groups {
    objects: Vec<Object>,
    /// The numbers of the cells of each object. The cells of related objects correspond one to one.
    cells: Vec<Vec<usize>>,
    /// For each cell number: the objects in groups that contain it, with its position there.
    owner: HashMap<usize, (usize, usize)>,
    /// For each object: the number of its group.
    group: Vec<usize>,
    members: Vec<Vec<usize>>,
    interfering: HashSet<(usize, usize)>,
}

impl Groups {
    fn new(program: &Program, copies: &[Copy]) -> Groups {
        let numbers = crate::cells::Cells::new(program);
        let mut at: HashMap<Object, usize> = HashMap::new();
        let mut objects = Vec::new();
        for object in copies.iter().flat_map(|(a, b)| [*a, *b]) {
            at.entry(object).or_insert_with(|| {
                objects.push(object);
                objects.len() - 1
            });
        }
        let mut classes = Classes::new(objects.len());
        for (a, b) in copies {
            classes.union(at[a], at[b]);
        }
        let mut members = vec![Vec::new(); objects.len()];
        let group: Vec<usize> = (0..objects.len()).map(|i| classes.find(i)).collect();
        group.iter().enumerate().for_each(|(i, g)| members[*g].push(i));
        let header = |h: HeaderId| numbers.of_header(h).collect::<Vec<_>>();
        let cells: Vec<Vec<usize>> = objects
            .iter()
            .map(|object| match object {
                Object::Var(v) => vec![numbers.number(Cell::Var(*v))],
                Object::Field(h, f) => vec![numbers.number(Cell::Field(*h, *f))],
                Object::Header(h) => header(*h),
                Object::Stack(s) => {
                    let stack = &program.stacks[s.index()];
                    let elements = (stack.first.0..stack.first.0 + stack.size).map(HeaderId);
                    elements.flat_map(header).chain([numbers.number(Cell::Next(*s))]).collect()
                }
            })
            .collect();
        let mut owner = HashMap::new();
        for (i, own) in cells.iter().enumerate() {
            for (position, cell) in own.iter().enumerate() {
                owner.insert(*cell, (i, position));
            }
        }
        Groups { objects, cells, owner, group, members, interfering: HashSet::new() }
    }

    /// Determines which objects of a group interfere.
    fn interfere(&mut self, program: &Program, live: &Liveness) {
        for unit in liveness::units(program) {
            live.walk(program, unit, &mut |event, after| match event {
                Event::Stmt(stmt) => {
                    let copy = copied(program, stmt);
                    effects::writes(program, stmt, &mut |cell| {
                        self.written(live.cells.number(cell), after, copy);
                    });
                }
                Event::Params(action) => {
                    for param in &action.params {
                        self.written(live.cells.number(Cell::Var(param.var)), after, None);
                    }
                }
                Event::Entry => {
                    let begun: Vec<usize> =
                        self.owner.keys().copied().filter(|cell| after.has(*cell)).collect();
                    for cell in begun {
                        self.written(cell, after, None);
                        if !live.shared.has(cell) {
                            self.starts_with_zero(cell, &live.shared);
                        }
                    }
                }
            });
        }
    }

    /// A cell that only this unit uses is read with its initial zero. It interferes with shared cells, because other units write those and
    /// do not see that this cell is live.
    fn starts_with_zero(&mut self, cell: usize, shared: &CellSet) {
        let Some(&(object, position)) = self.owner.get(&cell) else { return };
        for &other in &self.members[self.group[object]] {
            if other != object && shared.has(self.cells[other][position]) {
                self.interfering.insert((object.min(other), object.max(other)));
            }
        }
    }

    /// Records a write of a cell where the cells in `live` are live. A copy between two objects leaves them equal, so it is no
    /// interference.
    fn written(&mut self, cell: usize, live: &CellSet, copy: Option<Copy>) {
        let Some(&(object, position)) = self.owner.get(&cell) else { return };
        for &other in &self.members[self.group[object]] {
            if other == object || !live.has(self.cells[other][position]) {
                continue;
            }
            let equal =
                copy.is_some_and(|(to, from)| (self.objects[object], self.objects[other]) == (to, from));
            if !equal {
                self.interfering.insert((object.min(other), object.max(other)));
            }
        }
    }

    /// Merges related objects that do not interfere, copy by copy. At most one object of a class may be one that must keep its name.
    fn merge(&self, program: &Program, copies: &[Copy], fixed: &Fixed) -> Rename {
        let at: HashMap<Object, usize> = self.objects.iter().enumerate().map(|(i, o)| (*o, i)).collect();
        let mut classes = Classes::new(self.objects.len());
        for (a, b) in copies {
            let (a, b) = (classes.find(at[a]), classes.find(at[b]));
            if a != b && self.fits(program, fixed, classes.members(a), classes.members(b)) {
                classes.union(a, b);
            }
        }
        let mut rename = Rename::new(program);
        for root in 0..self.objects.len() {
            if classes.find(root) == root && classes.members(root).len() > 1 {
                let class: Vec<Object> = classes.members(root).iter().map(|i| self.objects[*i]).collect();
                self.stand_for(program, fixed, &class, &mut rename);
            }
        }
        rename
    }

    fn fits(&self, program: &Program, fixed: &Fixed, a: &[usize], b: &[usize]) -> bool {
        let stays = |i: &&usize| !fixed.may_go(program, self.objects[**i]);
        let is_field = |i: &usize| matches!(self.objects[*i], Object::Field(..));
        let is_named = |i: &usize| matches!(self.objects[*i], Object::Var(v) if fixed.named.contains(&v));
        let both = || a.iter().chain(b);
        both().filter(stays).count() <= 1
            && !(both().any(is_field) && both().any(is_named))
            && a.iter().all(|x| b.iter().all(|y| !self.interfering.contains(&(*x.min(y), *x.max(y)))))
    }

    /// Replaces the objects of a class by one of them: the one that must keep its name, or else the oldest.
    fn stand_for(&self, program: &Program, fixed: &Fixed, class: &[Object], rename: &mut Rename) {
        let stays = class.iter().find(|o| !fixed.may_go(program, **o));
        let Some(&kept) = stays.or(class.iter().min()) else { return };
        class.iter().filter(|o| **o != kept).for_each(|o| fixed.stand_for(program, *o, kept, rename));
    }
}

/// A union-find structure of objects.
struct Classes {
    parent: Vec<usize>,
    members: Vec<Vec<usize>>,
}

impl Classes {
    fn new(count: usize) -> Classes {
        Classes { parent: (0..count).collect(), members: (0..count).map(|i| vec![i]).collect() }
    }

    fn find(&mut self, mut i: usize) -> usize {
        while self.parent[i] != i {
            self.parent[i] = self.parent[self.parent[i]];
            i = self.parent[i];
        }
        i
    }

    /// The members of a class, by its root.
    fn members(&self, root: usize) -> &[usize] {
        &self.members[root]
    }

    fn union(&mut self, a: usize, b: usize) {
        let (a, b) = (self.find(a), self.find(b));
        if a != b {
            let moved = std::mem::take(&mut self.members[b]);
            self.members[a].extend(moved);
            self.parent[b] = a;
        }
    }
}
