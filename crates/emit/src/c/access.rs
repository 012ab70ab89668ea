//! The bytes of the packet that leaves. Every read and every write of them goes through [`Body::in_packet`], which asks for the proof
//! that the header is there: an [`Emitted`] header, under the test of its validity.
//!
//! What arrives is read by `packet_at`, which checks the length: [`Body::extract`] and lookahead.

use ir::HeaderId;

use super::{Body, Dialect};

/// A header that the deparser emits. Only [`Body::emitted`] makes one, and [`Body::place_header`] is called for each: where the header is
/// valid, its `*_out` is set, and all its bytes lie in the packet that leaves.
#[derive(Clone, Debug, PartialEq)]
pub struct Emitted {
    /// The header.
    pub id: HeaderId,
    /// Its C name.
    pub name: String,
    /// Its length. Headers of varying length are beyond these targets.
    pub bytes: u32,
}

/// Where a valid, emitted header stands, as C sees it. Exists only inside [`Body::in_packet`].
pub struct Standing<'a>(&'a Emitted);

impl Emitted {
    pub(super) fn new(body: &Body<'_>, id: HeaderId) -> Emitted {
        let bytes = body.program.header_type(id).min_bits() / 8;
        Emitted { id, name: body.names.header(id).to_string(), bytes }
    }
}

impl Standing<'_> {
    /// The offset of byte `at` of the header in the packet that leaves.
    pub fn out(&self, at: u32) -> String {
        assert!(at < self.0.bytes, "an access behind the end of a header");
        if at == 0 { format!("t->{}_out", self.0.name) } else { format!("t->{}_out + {at}", self.0.name) }
    }

    /// The offset of the header in the packet that arrived; `None` where the program may have made the header, so that it has none.
    pub fn arrived(&self, body: &Body<'_>) -> Option<String> {
        (!body.facts.made.contains(&self.0.id)).then(|| format!("t->{}_in", self.0.name))
    }
}

impl Body<'_> {
    /// Writes code that runs where the header is valid and `also` holds. Headers without bytes have no code.
    pub fn in_packet(&mut self, h: &Emitted, also: &str, write: impl FnOnce(&mut Self, &Standing<'_>)) {
        if h.bytes == 0 {
            return;
        }
        let also = if also.is_empty() { String::new() } else { format!(" && {also}") };
        self.text.open(format!("if (s->{}_valid{also})", h.name));
        write(self, &Standing(h));
        self.text.close("");
    }

    /// Points `p` at byte `at` of the header and the `bytes` behind it.
    pub fn point(&mut self, standing: &Standing<'_>, at: u32, bytes: u32) {
        let out = standing.out(at);
        match self.facts.dialect {
            Dialect::Native => self.text.line(format!("p = pkt->frame.data + {out};")),
            Dialect::Tc => {
                self.text.line(format!("p = packet_at(skb, {out}, {bytes});"));
                self.text.line("if (!p)");
                self.text.line("    return 1;");
            }
        }
    }
}
