//! The parts of the deparser that the targets share: the headers that leave, their new offsets, and the checksum updates.

use ir::{Control, HeaderId, HeaderRef, Place, StmtKind, visit};

use super::access::Emitted;
use super::{Body, Dialect};

impl Body<'_> {
    /// The headers that a deparser emits, in order. The compiled targets do not support deparsers that do anything else, or that emit a
    /// header twice.
    pub fn emitted(&mut self, control: &Control) -> Vec<Emitted> {
        let mut order: Vec<HeaderId> = Vec::new();
        let (mut simple, mut again) = (true, None);
        visit::stmts(&control.body, &mut |s| match &s.kind {
            StmtKind::Emit(HeaderRef::Header(h)) if order.contains(h) => again = Some(s.loc),
            StmtKind::Emit(HeaderRef::Header(h)) => order.push(*h),
            StmtKind::Block { .. } => {}
            _ => simple = false,
        });
        self.loc = control.loc;
        if !simple {
            self.unsupported(
                "a deparser that does anything but emit headers",
                "decide in the egress control",
            );
        }
        if let Some(loc) = again {
            self.loc = loc;
            self.unsupported("a header that is emitted twice", "copy it to a second header");
        }
        order.into_iter().map(|h| Emitted::new(self, h)).collect()
    }

    /// Emits the computation of a header's new offset (`*_out`), and adds the header's length to `out`. On native, it also makes `moved`
    /// non-zero if the header arrived at another offset.
    pub fn place_header(&mut self, h: &Emitted) {
        let (name, bytes) = (&h.name, h.bytes);
        self.text.open(format!("if (s->{name}_valid)"));
        self.text.line(format!("t->{name}_out = out;"));
        if self.facts.dialect == Dialect::Native && bytes > 0 && !self.facts.created.contains(&h.id) {
            self.text.line(format!("moved |= t->{name}_in ^ out;"));
        }
        self.text.line(format!("out += {bytes};"));
        self.text.close("");
    }

    /// Emits each planned update of a checksum over the payload, with `write`. An update has no effect on a packet if the checksum's header
    /// does not leave, or if a later update of the same checksum runs too.
    pub fn updates(&mut self, order: &[Emitted], write: impl Fn(&mut Self, &UpdateAt<'_>)) {
        let plan = self.facts.plan.clone();
        for (number, update) in plan.updates.iter().enumerate() {
            let Place::Field(HeaderRef::Header(h), field) = &update.place else { continue };
            let Some(header) = order.iter().find(|e| e.id == *h) else { continue };
            let later =
                plan.updates.iter().enumerate().skip(number + 1).filter(|(_, u)| u.place == update.place);
            let later: String = later.map(|(i, _)| format!(" && !s->update_{i}")).collect();
            let field = &self.program.header_type(*h).fields[*field as usize];
            let (offset, nonzero) = (field.offset / 8, field.checksum_nonzero);
            self.in_packet(header, &format!("s->update_{number}{later}"), |body, at| {
                let place = at.out(offset);
                body.point(at, offset, 2);
                write(body, &UpdateAt { number, update, place, nonzero });
            });
        }
    }
}

/// A planned update of a checksum whose header is in the packet. The C variable `p` points to the checksum.
pub struct UpdateAt<'p> {
    /// The number of the update in the plan.
    pub number: usize,
    /// The update in the plan.
    pub update: &'p ir::checksum::Update,
    /// The C of the checksum's offset in the packet.
    pub place: String,
    /// Whether a checksum of 0 is written as ffff, as UDP requires.
    pub nonzero: bool,
}
