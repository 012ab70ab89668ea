//! What every target's manifest says alike of a program's externs.

use std::collections::BTreeSet;

use abi::manifest::{ActionProfile, DigestType, KeyField, Meter, ValueSet};

use crate::program::Program;
use crate::stmt::{Call, StmtKind};
use crate::visit;

/// Meters, indexed and direct.
pub fn meters(program: &Program) -> Vec<Meter> {
    program.meters.iter().map(|m| Meter { name: m.name.clone(), size: m.size }).collect()
}

/// Parser value sets.
pub fn value_sets(program: &Program) -> Vec<ValueSet> {
    let key = |k: &crate::ValueSetKey| KeyField { name: k.name.clone(), width: k.width, kind: k.kind };
    let set = |s: &crate::ValueSet| ValueSet {
        name: s.name.clone(),
        size: s.size,
        keys: s.keys.iter().map(key).collect(),
    };
    program.value_sets.iter().map(set).collect()
}

/// Action profiles and selectors.
pub fn profiles(program: &Program) -> Vec<ActionProfile> {
    let profile = |p: &crate::ActionProfile| ActionProfile {
        name: p.name.clone(),
        size: p.size,
        selector: p.selector.is_some(),
    };
    program.profiles.iter().map(profile).collect()
}

/// Messages to the control plane, each once.
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

/// The type of a message.
pub fn digest(call: &Call) -> Option<DigestType> {
    let Call::Digest { name, fields, data } = call else { return None };
    let fields = fields.iter().cloned().zip(data.iter().map(|e| e.ty.width())).collect();
    Some(DigestType { name: name.clone(), fields })
}
