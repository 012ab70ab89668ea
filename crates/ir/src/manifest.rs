//! The parts of the manifest that describe externs. They are equal for all targets.

use std::collections::{BTreeSet, HashSet};

use abi::manifest::{ActionProfile, DigestType, KeyField, MessageType, Meter, ValueSet};

use crate::Loc;
use crate::expr::Expr;
use crate::program::{Program, Select, Transition};
use crate::stmt::{Call, StmtKind};
use crate::visit;

/// The meters, indexed and direct.
pub fn meters(program: &Program) -> Vec<Meter> {
    program.meters.iter().map(|m| Meter { name: String::from(&m.name), size: m.size, map: None }).collect()
}

/// The value sets of parsers.
pub fn value_sets(program: &Program) -> Vec<ValueSet> {
    let set = |(i, s): (usize, &crate::ValueSet)| {
        let compared = compared_with(program, i);
        let key = |(i, k): (usize, &crate::ValueSetKey)| KeyField {
            name: String::from(&k.name),
            width: k.width,
            kind: k.kind,
            signed: compared.and_then(|keys| keys.get(i)).is_some_and(|key| key.ty.is_signed()),
        };
        let keys = s.keys.iter().enumerate().map(key).collect();
        ValueSet { name: String::from(&s.name), size: s.size, keys, map: None }
    };
    program.value_sets.iter().enumerate().map(set).collect()
}

/// The keys of the first `select` that uses a value set. All others have keys of the same types.
fn compared_with(program: &Program, set: usize) -> Option<&[Expr]> {
    let states = program.parsers.iter().flat_map(|parser| &parser.states);
    let mut selects = states.filter_map(|state| match &state.next {
        Transition::Select(select) => Some(select),
        Transition::Goto(_) => None,
    });
    let looks = |select: &&Select| select.cases.iter().any(|c| c.value_set.is_some_and(|v| v.index() == set));
    selects.find(looks).map(|select| select.keys.as_slice())
}

/// The action profiles and selectors.
pub fn profiles(program: &Program) -> Vec<ActionProfile> {
    let profile = |p: &crate::ActionProfile| ActionProfile {
        name: String::from(&p.name),
        size: p.size,
        selector: p.selector.is_some(),
    };
    program.profiles.iter().map(profile).collect()
}

/// The different types of digests.
pub fn digests(program: &Program) -> Vec<DigestType> {
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    visit::all_stmts(program, &mut |stmt| {
        if let StmtKind::Call(call @ Call::Digest { .. }) = &stmt.kind
            && let Some(digest) = digest(call)
            && seen.insert((digest.name.clone(), digest.fields.clone()))
        {
            all.push(digest);
        }
    });
    all
}

/// The type of a digest; `None` for other calls.
pub fn digest(call: &Call) -> Option<DigestType> {
    let Call::Digest { name, fields, data } = call else { return None };
    let fields = fields.iter().map(String::from).zip(data.iter().map(|e| e.ty.width())).collect();
    Some(DigestType { name: String::from(name), fields })
}

/// The different messages that a program logs.
pub fn messages(program: &Program) -> Vec<MessageType> {
    let (mut seen, mut all) = (HashSet::new(), Vec::new());
    visit::all_stmts(program, &mut |stmt| {
        if let StmtKind::Call(call @ Call::LogMsg { .. }) = &stmt.kind
            && let Some(message) = message(program, call, stmt.loc)
            && seen.insert(message.clone())
        {
            all.push(message);
        }
    });
    all
}

/// The message of a call at this place; `None` for other calls.
pub fn message(program: &Program, call: &Call, loc: Loc) -> Option<MessageType> {
    let Call::LogMsg { format, args } = call else { return None };
    let widths = args.iter().map(|arg| arg.ty.width()).collect();
    Some(MessageType { format: String::from(format), widths, location: program.place(loc) })
}
