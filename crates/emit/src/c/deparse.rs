//! What deparsers of all machines share: which headers leave, and where they will stand.

use ir::{Control, HeaderId, HeaderRef, StmtKind, visit};

use super::{Body, Dialect};

impl Body<'_> {
    /// The headers that a deparser emits, in order. One that does more is beyond these targets.
    pub fn emitted(&mut self, control: &Control) -> Vec<HeaderId> {
        let mut order: Vec<HeaderId> = Vec::new();
        let mut simple = true;
        visit::stmts(&control.body, &mut |s| match &s.kind {
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
        order
    }

    /// Notes where the header will stand (`*_out`), and makes room for it in `out`. On native, `moved` is no longer 0 where one that was not
    /// made stands elsewhere.
    pub fn place_header(&mut self, h: HeaderId) {
        let name = self.names.header(h).to_string();
        let bytes = self.program.header_type(h).min_bits() / 8;
        self.text.open(format!("if (s->{name}_valid)"));
        self.text.line(format!("t->{name}_out = out;"));
        if self.facts.dialect == Dialect::Native && bytes > 0 && !self.facts.made.contains(&h) {
            self.text.line(format!("moved |= t->{name}_in ^ out;"));
        }
        self.text.line(format!("out += {bytes};"));
        self.text.close("");
    }
}
