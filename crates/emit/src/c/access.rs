//! Access to the bytes of the packet that leaves. Every access goes through [`Body::in_packet`], which guarantees that the header is in the
//! packet: it takes an [`Emitted`] header, and emits a test of its validity around the access.
//!
//! The bytes of the packet that arrives are read with `packet_at`, which checks the packet's length: [`Body::extract`] and lookahead.

use ir::HeaderId;

use super::{Body, Dialect};

/// A header that the deparser emits. Only [`Body::emitted`] creates one, and [`Body::place_header`] is called for each. So if the header is
/// valid, its `*_out` is set, and all its bytes lie within the packet that leaves.
#[derive(Clone, Debug, PartialEq)]
pub struct Emitted {
    /// The number of the header.
    pub id: HeaderId,
    /// The C name of the header.
    pub name: String,
    /// The length of the header in bytes. The compiled targets do not support headers of variable length.
    pub bytes: u32,
}

/// The place of a valid, emitted header in the packet. It exists only inside [`Body::in_packet`].
pub struct Standing<'a>(&'a Emitted);

impl Emitted {
    pub(super) fn new(body: &Body<'_>, id: HeaderId) -> Emitted {
        let bytes = body.program.header_type(id).min_bits() / 8;
        Emitted { id, name: body.names.header(id).to_string(), bytes }
    }
}

impl Standing<'_> {
    /// The C of the offset of byte `at` of the header in the packet that leaves.
    pub fn out(&self, at: u32) -> String {
        assert!(at < self.0.bytes, "an access after the end of a header");
        if at == 0 { format!("t->{}_out", self.0.name) } else { format!("t->{}_out + {at}", self.0.name) }
    }

    /// The C of the offset of the header in the packet that arrived. `None` if the program may have created the header.
    pub fn arrived(&self, body: &Body<'_>) -> Option<String> {
        (!body.facts.created.contains(&self.0.id)).then(|| format!("t->{}_in", self.0.name))
    }
}

impl Body<'_> {
    /// Emits code that runs if the header is valid and the condition `also` holds (an empty text is always true). Emits nothing for a
    /// header without bytes.
    pub fn in_packet(&mut self, h: &Emitted, also: &str, write: impl FnOnce(&mut Self, &Standing<'_>)) {
        if h.bytes == 0 {
            return;
        }
        let also = if also.is_empty() { String::new() } else { format!(" && {also}") };
        self.text.open(format!("if (s->{}_valid{also})", h.name));
        write(self, &Standing(h));
        self.text.close("");
    }

    /// Emits an assignment of `p`: it points to `bytes` accessible bytes, which begin at byte `at` of the header.
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
