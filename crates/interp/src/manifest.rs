//! The interpreter's manifest. It has the tables as the program declares them, without layouts.

use abi::drops;
use abi::id::ActionId;
use abi::manifest::{Action, Counter, DropReason, KeyField, Manifest, Param, Register, Table};
use abi::{ActionCall, Entry};
use ir::Verified;

/// The manifest of a program.
pub fn of(program: &Verified) -> Manifest {
    Manifest {
        version: 1,
        program: String::from(&program.name),
        target: "interp".to_string(),
        entry: String::new(),
        tables: program.tables.iter().map(|t| table(program, t)).collect(),
        counters: program
            .counters
            .iter()
            .map(|c| Counter { name: String::from(&c.name), size: c.size, first: None })
            .collect(),
        registers: program
            .registers
            .iter()
            .map(|r| Register {
                name: String::from(&r.name),
                size: r.size,
                width: r.ty.width(),
                initial: (!r.initial.is_zero()).then(|| r.initial.clone()),
                map: None,
            })
            .collect(),
        meters: ir::manifest::meters(program),
        value_sets: ir::manifest::value_sets(program),
        profiles: ir::manifest::profiles(program),
        digests: ir::manifest::digests(program),
        messages: ir::manifest::messages(program),
        kernel: None,
        drops: reasons(program),
    }
}

/// The drop sites of the program in order, then the reasons for which the interpreter itself drops packets.
fn reasons(program: &Verified) -> Vec<DropReason> {
    let own = program.drop_sites.iter().map(|s| DropReason {
        name: String::from(&s.name),
        help: "the program dropped the packet".to_string(),
        location: program.place(s.loc),
    });
    let fixed = [
        (drops::EGRESS_SPEC, "the program set egress_spec to the drop port"),
        (drops::NO_SUCH_GROUP, "the multicast group does not exist or has no ports"),
        (drops::STEP_BUDGET, "the parser or a loop exceeded the packet's budget of steps"),
        (drops::QUEUE_FULL, "the queue of the egress port was full"),
        (drops::DROP, "nobody said where the packet should go (PSA, PNA)"),
    ];
    let own_drop = program.arch != ir::Arch::V1Model;
    let fixed = fixed
        .into_iter()
        .filter(|(name, _)| *name != drops::DROP || own_drop)
        .map(|(name, help)| DropReason { name: name.to_string(), help: help.to_string(), location: None });
    own.chain(fixed).collect()
}

fn table(program: &Verified, t: &ir::Table) -> Table {
    Table {
        name: String::from(&t.name),
        keys: t
            .keys
            .iter()
            .map(|k| KeyField {
                name: String::from(&k.name),
                width: k.expr.ty.width(),
                kind: k.kind,
                signed: k.expr.ty.is_signed(),
            })
            .collect(),
        actions: t.actions.iter().map(|a| action(program, a)).collect(),
        size: t.size,
        default_action: Some(ActionCall { action: ActionId(t.default.0), args: t.default.1.clone() }),
        const_default: t.const_default,
        const_entries: t.const_entries,
        initial_entries: t
            .entries
            .iter()
            .map(|e| Entry {
                matches: e.matches.clone(),
                priority: if t.keys.iter().any(|k| k.kind.needs_priority()) { e.priority } else { 0 },
                action: ActionCall { action: ActionId(e.action), args: e.args.clone() },
            })
            .collect(),
        direct_counter: t.direct_counter.map(|c| String::from(&program.direct_counters[c.index()].name)),
        implementation: t.profile.map(|p| String::from(&program.profiles[p.index()].name)),
        notifies_idle: t.notifies_idle,
        ages: t.ages,
        direct_meter: t.direct_meter.map(|m| String::from(&program.meters[m.index()].name)),
        layout: None,
    }
}

fn action(program: &Verified, listed: &ir::TableAction) -> Action {
    let action = &program.actions[listed.action.index()];
    let param = |p: &ir::Param| Param {
        name: String::from(&p.name),
        width: program.var(p.var).ty.width(),
        offset: 0,
    };
    Action {
        name: String::from(&action.name),
        params: action.params.iter().map(param).collect(),
        default_only: listed.default_only,
        table_only: listed.table_only,
    }
}
