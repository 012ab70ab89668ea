//! Checksums as [`ir::checksum`] plans them: remembered on arrival, applied as differences on leaving.

use ir::checksum::{Part, Plan, Term};
use ir::{Call, Expr, HashAlgorithm, Place};

use super::{Body, Dialect, Text, mask};

/// Members of the state that say which of the others hold something.
pub fn cleared_members(plan: &Plan, text: &mut Text) {
    (0..plan.sources.len()).for_each(|i| text.line(format!("u8 verified_{i};")));
    (0..plan.updates.len()).for_each(|i| text.line(format!("u8 update_{i};")));
}

/// Members of the state: what arrived, and what shall leave. On native they are not folded: that is done once, for the difference.
pub fn members(plan: &Plan, dialect: Dialect, text: &mut Text) {
    let ty = if dialect == Dialect::Native { "u64" } else { "u32" };
    for i in 0..plan.sources.len() {
        text.line(format!("{ty} arrived_{i}_pseudo, arrived_{i}_body;"));
    }
    for i in 0..plan.updates.len() {
        text.line(format!("{ty} leaves_{i}_pseudo, leaves_{i}_body, leaves_{i}_stable;"));
    }
}

/// The C of a sum over values, each at its place within a 16-bit word; not folded.
pub fn total<'e>(body: &mut Body<'_>, terms: impl Iterator<Item = (&'e Expr, u32)>) -> String {
    let mut parts = Vec::new();
    for (e, shift) in terms {
        let value = body.expr(e);
        let width = e.ty.width() + shift;
        parts.push(match width {
            0..=16 if shift == 0 => format!("(u64){value}"),
            0..=32 => format!("((u64){value} << {shift})"),
            33..=64 => format!("words64((u64){value} << {shift})"),
            _ => format!("words128((u128){value} << {shift})"),
        });
    }
    if parts.is_empty() { "0".to_string() } else { parts.join(" + ") }
}

/// The C of what is kept of a sum over terms.
fn kept<'e>(body: &mut Body<'_>, terms: impl Iterator<Item = &'e Term>) -> String {
    let sum = total(body, terms.map(|t| (&t.value, t.shift)));
    if body.facts.dialect == Dialect::Native { sum } else { format!("fold({sum})") }
}

fn part(body: &mut Body<'_>, terms: &[Term], part: Part) -> String {
    kept(body, terms.iter().filter(|t| t.part == part))
}

/// `verify_checksum*`.
pub fn verify(body: &mut Body<'_>, call: &Call) {
    let Call::VerifyChecksum { cond, data, checksum, algorithm, payload } = call else { return };
    let number = body.facts.count.verifies;
    body.facts.count.verifies += 1;
    if *algorithm != HashAlgorithm::Csum16 {
        return body.unsupported("this checksum algorithm", "csum16 is supported");
    }
    if body.facts.checks {
        return match payload {
            true => body.unsupported(
                "looking at checksum_error in a program that verifies sums over the payload",
                "the receiver verifies them; drop the test, or the payload's verification",
            ),
            false => verify_header(body, cond, data, checksum),
        };
    }
    let source = body.facts.plan.sources.iter().position(|s| s.statement == number);
    let (Some(i), true) = (source, *payload) else { return };
    let terms = body.facts.plan.sources[i].list.terms.clone();
    let cond = body.expr(cond);
    body.text.open(format!("if ({cond})"));
    let (pseudo, inner) = (part(body, &terms, Part::Pseudo), part(body, &terms, Part::Body));
    body.text.line(format!("s->verified_{i} = 1;"));
    body.text.line(format!("s->arrived_{i}_pseudo = {pseudo};"));
    body.text.line(format!("s->arrived_{i}_body = {inner};"));
    body.text.close("");
}

fn verify_header(body: &mut Body<'_>, cond: &Expr, data: &[Expr], checksum: &Place) {
    let (terms, _) = ir::checksum::terms(data);
    let cond = body.expr(cond);
    body.text.open(format!("if ({cond})"));
    let sum = total(body, terms.iter().map(|(e, shift)| (e, *shift)));
    let found = body.place(checksum);
    let error = body.program.standard.checksum_error;
    body.text.open(format!("if ((u16)~fold({sum}) != {found})"));
    body.assign(&Place::Var(error), "1");
    body.text.close("");
    body.text.close("");
}

/// `update_checksum*`.
pub fn update(body: &mut Body<'_>, call: &Call) {
    let Call::UpdateChecksum { cond, data, checksum, algorithm, payload, nonzero } = call else { return };
    let number = body.facts.count.updates;
    body.facts.count.updates += 1;
    if *algorithm != HashAlgorithm::Csum16 {
        return body.unsupported("this checksum algorithm", "csum16 is supported");
    }
    let cond = body.expr(cond);
    body.text.open(format!("if ({cond})"));
    match body.facts.plan.updates.iter().position(|u| u.statement == number) {
        Some(i) if *payload => {
            let update = body.facts.plan.updates[i].clone();
            let list = update.list;
            let (pseudo, inner) =
                (part(body, &list.terms, Part::Pseudo), part(body, &list.terms, Part::Body));
            let stable = kept(body, list.stable.iter());
            body.text.line(format!("s->update_{i} = 1;"));
            body.text.line(format!("s->leaves_{i}_pseudo = {pseudo};"));
            body.text.line(format!("s->leaves_{i}_body = {inner};"));
            // What cancels is summed only where nothing was verified that it could cancel against.
            let verified: Vec<String> = update.sources.iter().map(|s| format!("s->verified_{s}")).collect();
            if !verified.is_empty() {
                body.text.line(format!("if (!({}))", verified.join(" | ")));
            }
            body.text.line(format!("    s->leaves_{i}_stable = {stable};"));
        }
        _ => {
            let (terms, _) = ir::checksum::terms(data);
            let sum = total(body, terms.iter().map(|(e, shift)| (e, *shift)));
            let value = mask(format!("~fold({sum})"), 16);
            let value = if *nonzero { format!("({value} ? {value} : 0xffff)") } else { value };
            body.assign(checksum, &value);
        }
    }
    body.text.close("");
}
