//! Access to the bytes of the packet that leaves. Every access goes through [`Body::in_packet`], which guarantees that the header is in the
//! packet: it takes an [`Emitted`] header, and emits a test of its validity around the access.
//!
//! The bytes of the packet that arrives are read with `packet_at`, which checks the packet's length: [`Body::extract`] and lookahead.

use ir::HeaderId;

use super::{Body, Hook};

/// A header that the deparser emits. Only [`Body::emitted`] creates one, and [`Body::place_header`] is called for each. So if the header is
/// valid, its `*_out` is set, and all its bytes lie within the packet that leaves.
#[derive(Clone, Debug, PartialEq)]
pub struct Emitted {
    /// The number of the header.
    pub id: HeaderId,
    /// The C name of the header.
    pub name: String,
    /// The length of the header in bytes, without its varbit field.
    pub bytes: u32,
    /// The C of the length of the varbit field in bytes, if the header has one, and the number of the field.
    pub varbit: Option<(String, usize)>,
}

/// The place of a valid, emitted header in the packet. It exists only inside [`Body::in_packet`].
pub struct Standing<'a>(&'a Emitted);

impl Emitted {
    pub(super) fn new(body: &Body<'_>, id: HeaderId) -> Emitted {
        let ty = body.program.header_type(id);
        let (bytes, name) = (ty.min_bits() / 8, body.names.header(id).to_string());
        let length = |field: usize| format!("s->{name}.{}.length", body.names.field(id, field));
        let varbit = ty.varbit().map(|field| (length(field), field));
        Emitted { id, name, bytes, varbit }
    }
}

impl Standing<'_> {
    /// The C of the offset of the header in the packet that leaves.
    pub fn out(&self) -> String {
        format!("t->{}_out", self.0.name)
    }

    /// The C of the offset of a field, which begins at a whole byte, in the packet that leaves.
    pub fn field(&self, body: &Body<'_>, number: usize) -> String {
        let at = body.program.header_type(self.0.id).fields[number].offset / 8;
        let at = if at == 0 { String::new() } else { format!(" + {at}") };
        match &self.0.varbit {
            Some((length, varbit)) if number > *varbit => format!("t->{}_out{at} + {length}", self.0.name),
            _ => format!("t->{}_out{at}", self.0.name),
        }
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
        if h.bytes == 0 && h.varbit.is_none() {
            return;
        }
        let also = if also.is_empty() { String::new() } else { format!(" && {also}") };
        self.text.open(format!("if (s->{}_valid{also})", h.name));
        write(self, &Standing(h));
        self.text.close("");
    }

    /// Emits an assignment of `p`: it points to `bytes` accessible bytes, which begin at the offset `out` of a header that is in the packet.
    pub fn point(&mut self, _: &Standing<'_>, out: &str, bytes: u32) {
        match self.facts.hook {
            Hook::Frame => self.text.line(format!("p = pkt->frame.data + {out};")),
            hook @ (Hook::Tc | Hook::Xdp) => {
                self.text.line(format!("p = packet_at({}, {out}, {bytes});", hook.packet()));
                self.text.line("if (!p)");
                self.text.line("    return 1;");
            }
        }
    }
}
