//! Tests of `verify`. For every rule there is a program that violates only this rule, made from one that violates none.

use abi::{Bits, MatchKind, MatchValue};
use ir::pipeline::{self, Decision, Fate, Stage, Step, When};
use ir::*;

const FLAG: VarId = VarId(0);
const X: VarId = VarId(1);
const N: VarId = VarId(2);
const SIGNED: VarId = VarId(3);
const PARAM: VarId = VarId(4);
const H: HeaderId = HeaderId(0);
const V: HeaderId = HeaderId(1);

/// A program with one of every construct.
fn sound() -> Program {
    let loc = Loc::default();
    let field = |name: &str, ty, offset| Field { name: name.into(), ty, offset, checksum_nonzero: false };
    let header_types = vec![
        HeaderType { name: "h_t".into(), fields: vec![field("a", Ty::Bit(8), 0), field("b", Ty::Bit(8), 8)] },
        HeaderType {
            name: "v_t".into(),
            fields: vec![field("n", Ty::Bit(8), 0), field("rest", Ty::Varbit(32), 8)],
        },
    ];
    let header = |name: &str, ty| Header { name: name.into(), ty: HeaderTypeId(ty) };
    let var = |name: &str, ty, kind| Var { name: name.into(), ty, kind, loc };
    let local = |name: &str, ty| var(name, ty, VarKind::Local);
    let control = |role, body| Control { name: format!("{role:?}").into(), role, loc, body };
    let state = State {
        name: "start".into(),
        loc,
        body: vec![stmt(StmtKind::Extract { header: HeaderRef::Header(H), varbit: None })],
        next: Transition::Select(Select {
            loc,
            keys: vec![read(X, Ty::Bit(8))],
            cases: vec![SelectCase { loc, sets: vec![KeySet::Any], value_set: None, next: Target::Accept }],
        }),
        rejected: vec![],
    };
    Program {
        name: "sound".into(),
        arch: Arch::V1Model,
        sources: vec![],
        header_types,
        headers: vec![header("h", 0), header("v", 1), header("s[0]", 0), header("s[1]", 0)],
        stacks: vec![Stack { name: "s".into(), first: HeaderId(2), size: 2, index: StackId(0) }],
        vars: vec![
            local("flag", Ty::Bool),
            local("x", Ty::Bit(8)),
            local("n", Ty::Bit(32)),
            local("signed", Ty::Int(8)),
            var("p", Ty::Bit(8), VarKind::Param(ActionId(0))),
        ],
        standard: standard(),
        pipeline: Pipeline {
            stages: vec![Stage { name: "only", inputs: vec![], queued: false, steps: vec![out()] }],
        },
        errors: vec!["NoError".into()],
        parsers: vec![Parser {
            name: "P".into(),
            role: Role::Parser,
            prologue: vec![],
            states: vec![state],
            start: StateId(0),
        }],
        controls: vec![
            control(Role::VerifyChecksum, vec![]),
            control(
                Role::Ingress,
                vec![stmt(StmtKind::Apply { table: TableId(0), hit: Some(FLAG), action: Some(N) })],
            ),
            control(Role::ComputeChecksum, vec![]),
            control(Role::Deparser, vec![stmt(StmtKind::Emit(HeaderRef::Header(H)))]),
        ],
        actions: vec![Action {
            name: "set".into(),
            loc,
            params: vec![Param { name: "p".into(), var: PARAM }],
            body: vec![assign(X, read(PARAM, Ty::Bit(8)))],
        }],
        tables: vec![Table {
            name: "t".into(),
            loc,
            keys: vec![TableKey { name: "x".into(), expr: read(X, Ty::Bit(8)), kind: MatchKind::Exact, loc }],
            actions: vec![TableAction { action: ActionId(0), default_only: false, table_only: false }],
            default: (0, vec![Bits::new(8, 1)]),
            const_default: false,
            size: 16,
            size_declared: true,
            entries: vec![TableEntry {
                loc,
                matches: vec![MatchValue::Exact(Bits::new(8, 1))],
                priority: 0,
                action: 0,
                args: vec![Bits::new(8, 2)],
            }],
            const_entries: true,
            direct_counter: None,
            direct_meter: None,
            direct_register: None,
            profile: None,
            early_lookup: false,
            selector: vec![],
            add_on_miss: false,
            ages: false,
            notifies_idle: false,
        }],
        profiles: vec![],
        counters: vec![IndexedCounter { name: "c".into(), loc, size: 4, kind: CounterKind::Packets }],
        direct_counters: vec![],
        registers: vec![Register { name: "r".into(), loc, size: 4, ty: Ty::Bit(8), initial: Bits::zero(8) }],
        meters: vec![Meter { name: "m".into(), loc, size: Some(4), bytes: true }],
        value_sets: vec![],
        drop_sites: vec![],
        labels: 4,
        checksums: 1,
    }
}

/// The decision that every packet leaves.
fn out() -> Step {
    let path = pipeline::Path {
        kind: pipeline::PathKind::Leave,
        to: pipeline::To::Port(read(N, Ty::Bit(32))),
        stage: None,
        bytes: pipeline::Bytes::Entered,
        carry: pipeline::Carry::All,
        sets: vec![],
    };
    Step::Decide(Box::new(Decision { when: When::Always, then: Fate::Go(path), loc: Loc::default() }))
}

/// The path of the last decision of the only stage.
fn path(p: &mut Program) -> &mut pipeline::Path {
    if let Some(Step::Decide(decision)) = p.pipeline.stages[0].steps.last_mut()
        && let Fate::Go(path) = &mut decision.then
    {
        return path;
    }
    unreachable!("the stage ends with a packet that leaves")
}

fn standard() -> StandardMetadata {
    StandardMetadata { packet_length: N, checksum_error: N, parser_error: N }
}

fn stmt(kind: StmtKind) -> Stmt {
    Stmt::new(kind, Loc::default())
}

fn read(v: VarId, ty: Ty) -> Expr {
    Expr::read(Place::Var(v), ty)
}

fn assign(v: VarId, src: Expr) -> Stmt {
    stmt(StmtKind::Assign { dst: Place::Var(v), src })
}

/// Appends a statement to ingress.
fn ingress(p: &mut Program, kind: StmtKind) {
    p.controls[1].body.push(stmt(kind));
}

/// Appends a call to the control that computes checksums.
fn compute(p: &mut Program, call: Call) {
    p.controls[2].body.push(stmt(StmtKind::Call(call)));
}

fn parser(p: &mut Program, kind: StmtKind) {
    p.parsers[0].states[0].body.push(stmt(kind));
}

/// Appends an assignment of an expression, to a variable of its type, to ingress.
fn value(p: &mut Program, e: Expr) {
    p.vars.push(Var { name: "v".into(), ty: e.ty, kind: VarKind::Local, loc: Loc::default() });
    let v = VarId(p.vars.len() as u32 - 1);
    p.controls[1].body.push(assign(v, e));
}

fn expr(kind: ExprKind, ty: Ty) -> Expr {
    Expr { kind, ty }
}

fn select(p: &mut Program) -> &mut Select {
    match &mut p.parsers[0].states[0].next {
        Transition::Select(select) => select,
        Transition::Goto(_) => unreachable!("the program above has a select"),
    }
}

fn boxed(v: VarId, ty: Ty) -> Box<Expr> {
    Box::new(read(v, ty))
}

/// Adds a table that learns, and the action that runs on a miss.
fn learning(p: &mut Program) -> TableId {
    let miss = Action { name: "learn".into(), loc: Loc::default(), params: vec![], body: vec![] };
    let id = TableId(p.tables.len() as u32);
    p.actions.push(miss);
    p.actions[1].body.push(stmt(StmtKind::Call(added(id, 0, vec![read(X, Ty::Bit(8))]))));
    let listed = |action, default_only| TableAction { action, default_only, table_only: false };
    p.tables.push(Table {
        name: "l".into(),
        actions: vec![listed(ActionId(0), false), listed(ActionId(1), true)],
        default: (1, vec![]),
        entries: vec![],
        const_entries: false,
        add_on_miss: true,
        ..p.tables[0].clone()
    });
    id
}

/// A call that adds an entry.
fn added(table: TableId, action: u32, args: Vec<Expr>) -> Call {
    Call::AddEntry { done: None, table, action, args, profile: read(X, Ty::Bit(8)) }
}

/// Changes the program so that it violates a rule.
fn violate(rule: Rule, p: &mut Program) {
    let unknown = VarId(99);
    let bit8 = || read(X, Ty::Bit(8));
    match rule {
        Rule::OneVarbit => {
            let rest = p.header_types[1].fields[1].clone();
            p.header_types[1].fields.push(rest);
        }
        Rule::WholeBytes => p.header_types[0].fields[1].ty = Ty::Bit(7),
        Rule::KnownHeaderType => p.headers.push(Header { name: "u".into(), ty: HeaderTypeId(9) }),
        Rule::StackInHeaders => p.stacks[0].size = 9,
        Rule::StackOfOneType => p.stacks[0].first = HeaderId(1),
        Rule::KnownStackIndex => p.stacks[0].index = StackId(7),
        Rule::ScalarVariable => p.vars.push(Var {
            name: "w".into(),
            ty: Ty::Varbit(8),
            kind: VarKind::Local,
            loc: Loc::default(),
        }),
        Rule::KnownMetadata => p.standard.packet_length = unknown,
        Rule::KnownPlace => ingress(p, StmtKind::Assign { dst: Place::field(H, 9), src: bit8() }),
        Rule::PlaceType => value(p, read(X, Ty::Bit(9))),
        Rule::KnownHeader => ingress(p, StmtKind::SetValid(HeaderRef::Header(HeaderId(99)))),
        Rule::ConstantWidth => value(p, expr(ExprKind::Const(Bits::new(4, 1)), Ty::Bit(8))),
        Rule::OperandTypes => value(
            p,
            expr(ExprKind::Binary(BinOp::Add, boxed(X, Ty::Bit(8)), boxed(SIGNED, Ty::Int(8))), Ty::Bit(8)),
        ),
        Rule::CastTypes => value(p, expr(ExprKind::Cast(boxed(X, Ty::Bit(8))), Ty::Bool)),
        Rule::SliceBounds => {
            value(p, expr(ExprKind::Slice { base: boxed(X, Ty::Bit(8)), hi: 8, lo: 0 }, Ty::Bit(9)))
        }
        Rule::ConcatWidth => {
            value(p, expr(ExprKind::Concat(boxed(X, Ty::Bit(8)), boxed(X, Ty::Bit(8))), Ty::Bit(15)))
        }
        Rule::BoolType => ingress(p, StmtKind::If { cond: bit8(), then: vec![], otherwise: vec![] }),
        Rule::IndexType => {
            let h = HeaderRef::Element(StackId(0), boxed(SIGNED, Ty::Int(8)));
            ingress(p, StmtKind::SetInvalid(h));
        }
        Rule::ParserReference => ingress(p, StmtKind::SetInvalid(HeaderRef::Next(StackId(0)))),
        Rule::AssignTypes => ingress(p, StmtKind::Assign { dst: Place::Var(N), src: bit8() }),
        Rule::CopyTypes => {
            ingress(p, StmtKind::CopyHeader { dst: HeaderRef::Header(H), src: HeaderRef::Header(V) })
        }
        Rule::SwitchLabels => {
            let arms = vec![(vec![Bits::new(8, 1)], vec![]), (vec![Bits::new(8, 1)], vec![])];
            ingress(p, StmtKind::Switch { on: bit8(), arms, default: vec![] });
        }
        Rule::FreshLabel => {
            for _ in 0..2 {
                ingress(p, StmtKind::Block { label: LabelId(1), body: vec![] });
            }
        }
        Rule::EnclosingLabel => ingress(p, StmtKind::Break(LabelId(1))),
        Rule::KnownTable => ingress(p, StmtKind::Apply { table: TableId(5), hit: None, action: None }),
        Rule::ApplyResults => ingress(p, StmtKind::Apply { table: TableId(0), hit: Some(X), action: None }),
        Rule::NoApplyInAction => {
            let apply = stmt(StmtKind::Apply { table: TableId(0), hit: None, action: None });
            p.actions[0].body.push(apply);
        }
        Rule::KnownDropSite => ingress(p, StmtKind::Drop(DropSiteId(3))),
        Rule::VarbitLength => parser(p, StmtKind::Extract { header: HeaderRef::Header(V), varbit: None }),
        Rule::BitCount => parser(p, StmtKind::Advance(bit8())),
        Rule::LookaheadType => parser(p, StmtKind::Lookahead { dst: Place::field(V, 1) }),
        Rule::KnownError => {
            parser(p, StmtKind::Verify { cond: read(FLAG, Ty::Bool), error: ErrorId(9) });
        }
        Rule::RightBlock => ingress(p, StmtKind::Emit(HeaderRef::Header(H))),
        Rule::KnownExtern => {
            let index = read(N, Ty::Bit(32));
            ingress(p, StmtKind::Call(Call::Count { counter: CounterId(4), index }));
        }
        Rule::RegisterType => {
            let (register, index) = (RegisterId(0), read(N, Ty::Bit(32)));
            ingress(p, StmtKind::Call(Call::RegisterRead { register, dst: Place::Var(N), index }));
        }
        Rule::ResultType => ingress(p, StmtKind::Call(Call::FlowId(Place::Var(FLAG)))),
        Rule::UpdatedBytes => {
            let (algorithm, data) = (HashAlgorithm::Crc32, vec![Expr::bits(7, 1)]);
            ingress(p, StmtKind::Call(Call::UpdateHash { dst: Place::Var(N), algorithm, data }));
        }
        Rule::DigestFields => {
            let fields = vec!["a".into()];
            ingress(p, StmtKind::Call(Call::Digest { name: "d".into(), fields, data: vec![] }));
        }
        Rule::FreshChecksum => {
            for _ in 0..2 {
                let (cond, checksum) = (read(FLAG, Ty::Bool), Place::Var(N));
                let (id, data) = (ChecksumId(0), vec![]);
                compute(p, Call::UpdateChecksum { id, cond, data, checksum, payload: false, nonzero: false });
            }
        }
        Rule::KnownStage => path(p).stage = Some(StageId(1)),
        Rule::StageEnds => drop(p.pipeline.stages[0].steps.pop()),
        Rule::RequestType => p.pipeline.stages[0].steps.insert(0, Step::Truncate(X, Loc::default())),
        Rule::LearningTable => ingress(p, StmtKind::Call(added(TableId(0), 0, vec![bit8()]))),
        Rule::EntryOfOwnTable => {
            let id = learning(p);
            ingress(p, StmtKind::Call(added(id, 0, vec![bit8()])));
        }
        Rule::KnownEntryAction => {
            let id = learning(p);
            p.actions[1].body.push(stmt(StmtKind::Call(added(id, 1, vec![]))));
        }
        Rule::AddedArguments => {
            let id = learning(p);
            let call = added(id, 0, vec![read(N, Ty::Bit(32))]);
            p.actions[1].body.push(stmt(StmtKind::Call(call)));
        }
        Rule::KnownState => select(p).cases[0].next = Target::State(StateId(8)),
        Rule::SelectSets => select(p).cases[0].sets.push(KeySet::Any),
        Rule::KnownValueSet => {
            let case = &mut select(p).cases[0];
            (case.sets, case.value_set) = (vec![], Some(ValueSetId(2)));
        }
        Rule::OneOfEachRole => {
            let deparser = p.controls[3].clone();
            p.controls.push(deparser);
        }
        Rule::KnownAction => p.tables[0].actions.push(TableAction {
            action: ActionId(6),
            default_only: false,
            table_only: false,
        }),
        Rule::EntryArguments => p.tables[0].default.1 = vec![Bits::new(9, 1)],
        Rule::EntryKey => p.tables[0].entries[0].matches = vec![MatchValue::Exact(Bits::new(9, 1))],
        Rule::KnownProfile => p.tables[0].profile = Some(ProfileId(0)),
        Rule::KnownDirect => p.tables[0].direct_meter = Some(MeterId(0)),
        Rule::ParameterOfAction => p.actions[0].params[0].var = X,
    }
}

#[test]
fn the_valid_program_violates_no_rule() {
    assert_eq!(verify(sound()).err(), None);
}

#[test]
fn a_table_that_learns_violates_no_rule() {
    let mut program = sound();
    learning(&mut program);
    assert_eq!(verify(program).err(), None);
}

#[test]
fn each_rule_is_checked() {
    for rule in Rule::ALL {
        let mut program = sound();
        violate(*rule, &mut program);
        let found: Vec<Rule> =
            verify(program).err().unwrap_or_default().into_iter().map(|f| f.rule).collect();
        assert!(found.contains(rule), "{rule:?}: found {found:?}");
        assert!(found.iter().all(|f| f == rule), "{rule:?} alone is broken, found {found:?}");
    }
}

#[test]
fn passes_leave_a_sound_program() {
    let program = verify(sound()).expect("sound");
    for pass in pass::names() {
        let without = pass::Passes::default().without(pass).expect("a pass");
        assert!(without.run(program.clone()).is_ok(), "without {pass}");
    }
}
