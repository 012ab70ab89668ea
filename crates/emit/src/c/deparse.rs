//! What deparsers of all machines share: which headers leave, and where they will stand.

use ir::{Control, HeaderId, HeaderRef, Place, StmtKind, visit};

use super::access::Emitted;
use super::{Body, Dialect};

impl Body<'_> {
    /// The headers that a deparser emits, in order, each once. A deparser that does more is beyond these targets.
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

    /// Notes where the header will stand (`*_out`), and makes room for it in `out`. On native, `moved` is no longer 0 where one that was not
    /// made stands elsewhere.
    pub fn place_header(&mut self, h: &Emitted) {
        let (name, bytes) = (&h.name, h.bytes);
        self.text.open(format!("if (s->{name}_valid)"));
        self.text.line(format!("t->{name}_out = out;"));
        if self.facts.dialect == Dialect::Native && bytes > 0 && !self.facts.made.contains(&h.id) {
            self.text.line(format!("moved |= t->{name}_in ^ out;"));
        }
        self.text.line(format!("out += {bytes};"));
        self.text.close("");
    }

    /// Writes each planned update of a checksum over the payload. It has no effect where its header does not leave, and where a later
    /// update of the same checksum is made too.
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

/// A planned update, where its header leaves: `p` points at the checksum.
pub struct UpdateAt<'p> {
    /// Its number in the plan.
    pub number: usize,
    /// What is known of it.
    pub update: &'p ir::checksum::Update,
    /// The checksum's offset in the packet.
    pub place: String,
    /// A checksum of 0 leaves as ffff.
    pub nonzero: bool,
}
