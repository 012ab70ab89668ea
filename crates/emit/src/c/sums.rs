//! Checksum statements. For checksums over the payload, [`ir::checksum`] plans incremental updates: the verify statement remembers the sum of
//! the headers on arrival, the update statement computes it again, and the deparser applies the difference.

use std::collections::HashSet;

use ir::cells::cells_of;
use ir::checksum::{Part, Plan, Sum, Term};
use ir::{Call, ChecksumId, Expr, ExprKind, HeaderRef, Place, StmtKind, visit};

use super::{Body, Hook, Machine, Text, c_type, facts, mask, wide};

/// Declares the members of the state that say whether a verification ran, and which update was the last.
pub fn cleared_members(plan: &Plan, text: &mut Text) {
    (0..plan.sums.len()).for_each(|i| text.line(format!("u16 update_{i};")));
    (0..plan.sums.len()).for_each(|i| text.line(format!("u8 verified_{i};")));
}

/// Declares the members of the state for the sums of the headers on arrival and on leaving.
pub fn members(plan: &Plan, hook: Hook, text: &mut Text) {
    let ty = if hook.folds_sums() { "u32" } else { "u64" };
    for (i, sum) in plan.sums.iter().enumerate() {
        if !sum.verifies.is_empty() {
            text.line(format!("{ty} arrived_{i}_pseudo, arrived_{i}_body;"));
        }
        if sum.rewritten && !sum.verifies.is_empty() {
            text.line(format!("u16 arrived_{i}_sum;"));
        }
        text.line(format!("{ty} leaves_{i}_pseudo, leaves_{i}_body, leaves_{i}_stable;"));
    }
}

/// The C of the condition that the packet arrived with the checksum of a sum, if it can.
pub fn arrived(number: usize, sum: &Sum) -> Option<String> {
    (!sum.verifies.is_empty()).then(|| format!("s->verified_{number}"))
}

/// The C of the condition that the last update of a checksum belongs to a sum.
pub fn is_updated(plan: &Plan, sum: usize) -> String {
    let later: String = plan.siblings(sum).map(|i| format!(" && s->update_{sum} > s->update_{i}")).collect();
    format!("s->update_{sum}{later}")
}

/// The C of a sum of values, not folded. Each value is shifted to its position within a 16-bit word.
pub fn total<'e>(body: &mut Body<'_>, terms: impl Iterator<Item = (&'e Expr, u32)>) -> String {
    let mut parts = Vec::new();
    for (e, shift) in terms {
        let value = body.expr(e);
        if e.ty.is_varbit() && body.facts.machine() == Machine::Bpf {
            parts.push(format!("(varbit_{}_sum(&{value}) << {shift})", wide::room(e.ty)));
            continue;
        }
        if c_type(e.ty).is_none() && body.facts.machine() == Machine::Native {
            parts.push(format!("({} << {shift})", wide::sum(&value, e.ty)));
            continue;
        }
        let width = e.ty.width() + shift;
        parts.push(match width {
            0..=16 if shift == 0 => format!("(u64){value}"),
            0..=32 => format!("((u64){value} << {shift})"),
            33..=64 => format!("word_sum64((u64){value} << {shift})"),
            65..=128 => format!("word_sum128((u128){value} << {shift})"),
            // The bits that the shift moves out of the 128 bits are added as a word of their own.
            _ => format!("word_sum128((u128){value} << {shift}) + (u64)((u128){value} >> {})", 128 - shift),
        });
    }
    if parts.is_empty() { "0".to_string() } else { parts.join(" + ") }
}

/// The C of the sum of a list without a payload, not folded. For a list with a varbit field, emits the declaration of `bytes`.
pub fn of_list(body: &mut Body<'_>, data: &[Expr]) -> String {
    if body.facts.machine() == Machine::Native && data.iter().any(|e| e.ty.is_varbit()) {
        let size = body.gather(data, 0);
        return format!("bytes_sum(bytes, {size})");
    }
    whole_words(body, data);
    let (terms, _) = ir::checksum::terms(data);
    total(body, terms.iter().map(|(e, shift)| (e, *shift)))
}

/// Emits an addition to a sum in one's complement.
pub fn add(body: &mut Body<'_>, dst: &Place, data: &[Expr], subtract: bool) {
    body.add_parts(dst, data, subtract);
    body.text.open("");
    let sum = of_list(body, data);
    let sign = if subtract { "(u16)~" } else { "" };
    let old = body.place(dst);
    body.assign(dst, &format!("fold((u64){old} + {sign}fold({sum}))"));
    body.text.close("");
}

/// Emits the continuation of an Internet checksum ([`ir::HashAlgorithm::running`]).
pub fn resume(body: &mut Body<'_>, dst: &Place, data: &[Expr]) {
    body.text.open("");
    let (sum, size) = if body.facts.machine() == Machine::Native && data.iter().any(|e| e.ty.is_varbit()) {
        let size = body.gather(data, 0);
        (format!("bytes_sum(bytes, {size})"), size)
    } else {
        // In the kernel a varbit has whole words.
        let fixed: u32 = data.iter().filter(|e| !e.ty.is_varbit()).map(|e| e.ty.width()).sum();
        (of_list(body, data), (fixed / 8).to_string())
    };
    let old = body.place(dst);
    body.assign(dst, &format!("update_csum16({old}, fold({sum}), {size})"));
    body.text.close("");
}

/// Reports a varbit field in a list if its length may be odd: then the words after it would begin in the middle of words.
fn whole_words(body: &mut Body<'_>, data: &[Expr]) {
    for e in data.iter().filter(|e| e.ty.is_varbit()) {
        if !wide::is_whole_words(body.program, e.ty) {
            let hint = "give `extract` a size that is a multiple of 16 bits by its form, such as `n * 32`";
            body.unsupported("a sum with a varbit field that may be odd", hint);
        }
    }
}

/// The C of a sum of terms as it is stored in the state: folded on tc only.
fn kept<'e>(body: &mut Body<'_>, terms: impl Iterator<Item = &'e Term>) -> String {
    let sum = total(body, terms.map(|t| (&t.value, t.shift)));
    if body.facts.hook.folds_sums() { format!("fold({sum})") } else { sum }
}

/// The C of the sum of the terms that belong to one part: the pseudo-header or the body.
fn part(body: &mut Body<'_>, terms: &[Term], part: Part) -> String {
    kept(body, terms.iter().filter(|t| t.part == part))
}

/// The C of the sum of the terms that are equal on arrival and on leaving.
pub fn stable(body: &mut Body<'_>, sum: &Sum) -> String {
    kept(body, sum.stable.iter())
}

/// Emits `verify_checksum` or `verify_checksum_with_payload`.
pub fn verify(body: &mut Body<'_>, call: &Call) {
    let Call::VerifyChecksum { id, cond, data, checksum, payload } = call else { return };
    if body.facts.checks {
        return match payload {
            true => body.unsupported(
                "looking at checksum_error in a program that verifies sums over the payload",
                "the receiver verifies them; drop the test, or the payload's verification",
            ),
            false => verify_header(body, cond, data, checksum),
        };
    }
    let plan = body.facts.plan.clone();
    let (Some((i, declared)), true) = (plan.verified(*id), *payload) else { return };
    whole_words(body, data);
    // If the packet arrived without the checksum's header, there is no checksum to update.
    let cond = body.expr(cond);
    let valid = match checksum {
        Place::Field(h, _) => body.expr(&Expr { kind: ExprKind::IsValid(h.clone()), ty: ir::Ty::Bool }),
        Place::Var(_) => "0".to_string(),
    };
    let first = if plan.sums[i].verifies[0].statement == *id { "" } else { &format!(" && !s->verified_{i}") };
    body.text.open(format!("if ({cond} && {valid}{first})"));
    let (pseudo, inner) =
        (part(body, &declared.terms, Part::Pseudo), part(body, &declared.terms, Part::Body));
    body.text.line(format!("s->verified_{i} = 1;"));
    body.text.line(format!("s->arrived_{i}_pseudo = {pseudo};"));
    body.text.line(format!("s->arrived_{i}_body = {inner};"));
    if plan.sums[i].rewritten {
        let arrived = body.place(checksum);
        body.text.line(format!("s->arrived_{i}_sum = {arrived};"));
    }
    body.text.close("");
}

/// Emits a verification that sets `checksum_error`, for a checksum over headers only.
fn verify_header(body: &mut Body<'_>, cond: &Expr, data: &[Expr], checksum: &Place) {
    let cond = body.expr(cond);
    body.text.open(format!("if ({cond})"));
    let sum = of_list(body, data);
    let found = body.place(checksum);
    let error = body.program.standard.checksum_error;
    body.text.open(format!("if ((u16)~fold({sum}) != {found})"));
    body.assign(&Place::Var(error), "1");
    body.text.close("");
    body.text.close("");
}

/// Whether a field begins at a whole byte. The deparser requires this of a checksum over the payload, because it writes the checksum
/// directly into the packet.
fn begins_at_a_byte(program: &ir::Program, place: &Place) -> bool {
    let Place::Field(HeaderRef::Header(h), field) = place else { return true };
    program.header_type(*h).fields[*field as usize].offset.is_multiple_of(8)
}

/// Whether a control reads a checksum after this update statement. Later updates of the same checksum do not count, because
/// they and the deparser use the checksum in the packet.
fn read_later(program: &ir::Program, checksum: &Place, update: ChecksumId) -> bool {
    let mut own = HashSet::new();
    cells_of(program, checksum, |cell, _| own.extend([cell]));
    let (mut seen, mut later) = (false, false);
    for control in &program.controls {
        visit::stmts(&control.body, &mut |stmt| {
            if seen {
                facts::needs(program, stmt, &mut |cell| later |= own.contains(&cell));
            }
            seen |= matches!(stmt.kind, StmtKind::Call(Call::UpdateChecksum { id, .. }) if id == update);
        });
    }
    later
}

/// Emits `update_checksum` or `update_checksum_with_payload`.
pub fn update(body: &mut Body<'_>, call: &Call) {
    let Call::UpdateChecksum { id, cond, data, checksum, payload, nonzero } = call else { return };
    let cond = body.expr(cond);
    body.text.open(format!("if ({cond})"));
    let plan = body.facts.plan.clone();
    match plan.updated(*id) {
        Some((i, declared)) if *payload => {
            whole_words(body, data);
            if !matches!(checksum, Place::Field(HeaderRef::Header(_), _)) {
                let hint = "give the checksum a header of its own, or name the element by a constant";
                body.unsupported("a sum over the payload whose place is found at run time,", hint);
            }
            if !begins_at_a_byte(body.program, checksum) {
                let hint = "let the checksum begin at a whole byte of its header";
                body.unsupported("a sum over the payload whose field does not begin at a byte", hint);
            }
            if read_later(body.program, checksum, *id) {
                let hint = "a sum over the payload is written when the packet leaves; sum the headers alone, or run it on interp";
                body.unsupported("reading a sum over the payload in the control that updates it", hint);
            }
            let sum = &plan.sums[i];
            let terms = &declared.terms;
            let (pseudo, inner) = (part(body, terms, Part::Pseudo), part(body, terms, Part::Body));
            let stable = stable(body, sum);
            body.text.line(format!("s->update_{i} = {};", id.0 + 1));
            body.text.line(format!("s->leaves_{i}_pseudo = {pseudo};"));
            body.text.line(format!("s->leaves_{i}_body = {inner};"));
            let arrived = arrived(i, sum);
            if let (true, Some(arrived)) = (sum.rewritten, &arrived) {
                // The difference must be applied to the checksum that arrived and not to a value that the program wrote.
                let field = body.place(checksum);
                body.text.line(format!("if ({arrived})"));
                body.text.line(format!("    {field} = s->arrived_{i}_sum;"));
            }
            // The stable terms are needed only if nothing was verified, because in a difference they cancel.
            if let Some(arrived) = arrived {
                body.text.line(format!("if (!{arrived})"));
            }
            body.text.line(format!("    s->leaves_{i}_stable = {stable};"));
        }
        _ => {
            let sum = of_list(body, data);
            let value = mask(format!("~fold({sum})"), 16);
            let value = if *nonzero { format!("({value} ? {value} : 0xffff)") } else { value };
            body.assign(checksum, &value);
        }
    }
    body.text.close("");
}
