//! Which packets: a condition of P4 in the scope of the program's ingress control.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use anyhow::Context;
use dataplane::device::{Entity, copy};
use interp::Interpreter;
use ir::{Role, VarId};

use crate::frontend::Texts;

/// A condition about packets.
pub struct Filter {
    program: Interpreter<'static>,
    variable: VarId,
}

impl Filter {
    /// Compiles a condition for the packets of a program. The parser may look into value sets, which are part of the device's state.
    pub fn new(
        texts: &Texts,
        program: &ir::Verified,
        condition: &str,
        sets: &[Entity],
    ) -> anyhow::Result<Filter> {
        let control = program.control(Role::Ingress).context("the program has no ingress control")?;
        let (program, variable) = texts.condition(&control.name, condition)?;
        let mut program = Interpreter::of(Arc::new(program))?;
        copy::restore(&mut program, sets).map_err(|refused| refused.error)?;
        Ok(Filter { program, variable })
    }

    /// Whether a packet satisfies the condition. One that the parser drops does not.
    pub fn accepts(&mut self, port: u32, time: u64, packet: &[u8]) -> bool {
        self.program.set_clock(time);
        let value = self.program.value_after(port, packet, Role::Ingress, self.variable);
        value.is_some_and(|value| !value.is_zero())
    }
}

/// A condition with addresses of IPv4, IPv6 and Ethernet as the numbers that they are for P4.
pub fn with_addresses(condition: &str) -> String {
    let belongs = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | '_');
    let mut text = String::new();
    let mut rest = condition;
    while let Some(first) = rest.chars().next() {
        let end = match belongs(first) {
            true => rest.find(|c| !belongs(c)).unwrap_or(rest.len()),
            false => first.len_utf8(),
        };
        let (word, after) = rest.split_at(end);
        match number(word) {
            Some(number) => text.push_str(&number),
            None => text.push_str(word),
        }
        rest = after;
    }
    text
}

/// The number that an address is.
fn number(word: &str) -> Option<String> {
    if let Ok(address) = word.parse::<Ipv4Addr>() {
        return Some(format!("{:#x}", u32::from(address)));
    }
    if let Ok(address) = word.parse::<Ipv6Addr>() {
        return Some(format!("{:#x}", u128::from(address)));
    }
    abi::mac::parse(word).map(|mac| format!("{mac:#014x}"))
}

#[cfg(test)]
mod tests {
    use super::with_addresses;

    #[test]
    fn addresses_are_numbers() {
        let cases = [
            ("hdr.ipv4.dstAddr == 198.51.100.7", "hdr.ipv4.dstAddr == 0xc6336407"),
            ("h.d==2001:db8::1", "h.d==0x20010db8000000000000000000000001"),
            ("(h.eth.dst == 02:00:5e:00:53:01)", "(h.eth.dst == 0x02005e005301)"),
            ("h.v6.src[127:32] != 0 && a ? b : c", "h.v6.src[127:32] != 0 && a ? b : c"),
            ("h.x == 8w0xff && true", "h.x == 8w0xff && true"),
            ("äöü é", "äöü é"),
        ];
        for (text, wanted) in cases {
            assert_eq!(with_addresses(text), wanted);
        }
    }
}
