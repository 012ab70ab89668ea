//! The numbers that a target keeps beside sums of `InternetChecksum`, so that it can update partial checksums ([`ir::partial`]).

use ir::cells::Cell;
use ir::partial::{Term, Tracked, Value};
use ir::{Expr, HeaderId, Place};

use super::{Body, Emitted, Hook, Text, sums};

/// The texts in C about these numbers.
pub const PARTS: &str = r#"
/* What a sum consists of, beside the pseudo-header. `arrived` is the complement of the checksum that arrived, with 0xffff for its zero; or 0, if
 * the sum does not contain it. `body` is what was added from the body of the checksum. */
struct parts { u16 arrived, body; };

/* The part of a checksum that arrives. */
INLINE u16 arrived_part(u16 checksum)
{
    return checksum == 0xffff ? 0xffff : ~checksum;
}

/* Adds to `a` the part `b` of a sum that is added, or removes it. What was added and removed again is not contained. */
INLINE u16 add_arrived(u16 a, u16 b, u32 removed)
{
    u32 other = !b ? 0 : removed ? arrived_part(b) : b;
    u32 sum = fold((u64)a + other);
    return a && other && sum == 0xffff ? 0 : sum;
}

/* The difference of the pseudo-headers, for a checksum that the program has computed from the one that arrived. */
INLINE u32 pseudo_part(u16 checksum, struct parts parts)
{
    return fold((u64)(u16)~checksum + (u16)~parts.arrived + (u16)~parts.body);
}
"#;

/// Declares the members of the state, which are zero when a packet arrives.
pub fn members(tracked: &Tracked, text: &mut Text) {
    (0..tracked.count()).for_each(|i| text.line(format!("struct parts parts_{i};")));
}

impl Hook {
    /// Whether packets with partial checksums meet the program.
    pub fn has_partial_checksums(self) -> bool {
        self != Hook::Xdp
    }
}

impl Body<'_> {
    /// Emits what the assignment of a value to a place does to the place's numbers. The place still has its old value.
    pub(super) fn assign_parts(&mut self, dst: &Place, src: &Expr) {
        let tracked = self.facts.partial.clone();
        let Some(to) = tracked.place(dst) else { return };
        // If the value is not known, the program was refused.
        if let Some(value) = tracked.value(self.program, to, src) {
            self.parts_become(dst, to, &value);
        }
    }

    fn parts_become(&mut self, dst: &Place, to: usize, value: &Value) {
        match value {
            Value::Copy(from) => self.text.line(format!("s->parts_{to} = s->parts_{from};")),
            Value::Nothing => self.text.line(clear(to)),
            Value::OtherZero => {
                let old = self.place(dst);
                self.text.line(format!("if ({old} && {old} != 0xffff)"));
                self.text.line(format!("    {}", clear(to)));
            }
            Value::Either(cond, a, b) => {
                let cond = self.expr(cond);
                self.text.open(format!("if ({cond})"));
                self.parts_become(dst, to, a);
                self.text.close(" else {");
                self.text.indent();
                self.parts_become(dst, to, b);
                self.text.close("");
            }
        }
    }

    /// Emits what an addition to a sum does to the sum's numbers.
    pub(super) fn add_parts(&mut self, dst: &Place, data: &[Expr], subtract: bool) {
        let tracked = self.facts.partial.clone();
        let Some(to) = tracked.place(dst) else { return };
        let Some(terms) = tracked.terms(self.program, to, data) else { return };
        let sign = if subtract { "(u16)~" } else { "" };
        for (_, _, term) in &terms {
            if let Term::Cell(from, complement) = term {
                let removed = u32::from(*complement != subtract);
                let sign = if removed == 1 { "(u16)~" } else { "" };
                self.text.line(format!(
                    "s->parts_{to}.arrived = add_arrived(s->parts_{to}.arrived, s->parts_{from}.arrived, {removed});"
                ));
                self.text.line(format!(
                    "s->parts_{to}.body = fold((u64)s->parts_{to}.body + {sign}s->parts_{from}.body);"
                ));
            }
        }
        let body: Vec<_> = terms.iter().filter(|(_, _, term)| *term == Term::Body).collect();
        if !body.is_empty() {
            let sum = sums::total(self, body.iter().map(|(e, shift, _)| (e, *shift)));
            self.text
                .line(format!("s->parts_{to}.body = fold((u64)s->parts_{to}.body + {sign}fold({sum}));"));
        }
    }

    /// Emits the numbers of the checksums in a header that arrives. `value` returns the C of a field.
    pub(super) fn extract_parts(&mut self, h: HeaderId, value: impl Fn(&Self, usize) -> String) {
        let tracked = self.facts.partial.clone();
        for (number, field, checksum) in tracked.fields(h) {
            if checksum {
                let value = value(self, field as usize);
                self.text.line(format!("s->parts_{number}.arrived = arrived_part({value});"));
                self.text.line(format!("s->parts_{number}.body = 0;"));
            }
        }
    }

    /// Emits the numbers of the checksums in a header whose fields become zero.
    pub(super) fn clear_parts(&mut self, h: HeaderId) {
        let tracked = self.facts.partial.clone();
        tracked.fields(h).for_each(|(number, ..)| self.text.line(clear(number)));
    }

    /// Emits the numbers of the checksums in a header that is copied from another.
    pub(super) fn copy_parts(&mut self, to: HeaderId, from: HeaderId) {
        let tracked = self.facts.partial.clone();
        for (number, field, _) in tracked.fields(to) {
            self.text.line(match tracked.number(Cell::Field(from, field)) {
                Some(from) => format!("s->parts_{number} = s->parts_{from};"),
                None => clear(number),
            });
        }
    }

    /// Emits the update of each checksum that a sum was written to, with `write`. It gets the C of the offset in the packet, of the value
    /// that the program computed, and of the numbers. The C variable `p` points to the checksum.
    pub fn continue_checksums(&mut self, order: &[Emitted], write: impl Fn(&mut Self, &str, &str, &str)) {
        let tracked = self.facts.partial.clone();
        for header in order {
            for (number, field, _) in tracked.fields(header.id) {
                if !self.facts.created.contains(&header.id)
                    && !self.facts.changed.contains(&(header.id, field))
                {
                    continue;
                }
                let parts = format!("s->parts_{number}");
                self.in_packet(header, &format!("{parts}.arrived"), |body, at| {
                    let place = at.field(body, field as usize);
                    let value = body.place(&Place::field(header.id, field));
                    body.point(at, &place, 2);
                    write(body, &place, &value, &parts);
                });
            }
        }
    }
}

/// The C that clears the numbers of a cell.
pub fn clear(number: usize) -> String {
    format!("s->parts_{number} = (struct parts){{ 0 }};")
}
