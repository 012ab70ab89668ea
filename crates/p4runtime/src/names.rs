//! Names that a controller uses instead of numbers: types with `@p4runtime_translation(…, string)` (P4Runtime specification, section 8.4.6).
//!
//! A name that is a decimal number is that number, such as the name of a port. Every other name gets a number of its own when it is first
//! written: the largest that is free. It keeps the number as long as the pipeline, so that what is read has the name that was written. A name of a
//! request that fails, or that only reads, gives its number back ([`Names::forget`]).

use std::collections::HashMap;

use abi::Bits;

use super::{Code, Status};

/// The names of all translated types.
#[derive(Clone, Debug, Default)]
pub struct Names {
    types: HashMap<String, Type>,
    /// What the request has added: types and names.
    added: Vec<(String, String)>,
}

#[derive(Clone, Debug, Default)]
struct Type {
    numbers: HashMap<String, u128>,
    names: HashMap<u128, String>,
    /// The largest number that may be free; `None`: the largest of all.
    free: Option<u128>,
}

impl Names {
    /// The number of a name.
    pub fn number(&mut self, of: &str, name: &[u8], width: u32) -> Result<Bits, Status> {
        let name = std::str::from_utf8(name).ok().filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| Status::invalid(format!("a name of `{of}` is empty or no UTF-8")))?;
        let names = self.types.entry(of.to_string()).or_default();
        if let Some(number) = names.numbers.get(name) {
            return Ok(Bits::new(width, *number));
        }
        let last = Bits::ones(width.min(64)).low_u64() as u128;
        let decimal = name.parse::<u128>().ok().filter(|n| n.to_string() == name && *n <= last);
        let mut below = names.free.map_or(last, |free| free.min(last));
        let number = decimal.filter(|n| !names.names.contains_key(n)).or_else(|| {
            let number = (0..=below).rev().find(|number| !names.names.contains_key(number));
            below = number.unwrap_or_default();
            number
        });
        names.free = Some(below);
        let number = number.ok_or_else(|| {
            Status::new(
                Code::ResourceExhausted,
                format!("`{of}` has {width} bits, and all its numbers have names"),
            )
        })?;
        names.numbers.insert(name.to_string(), number);
        names.names.insert(number, name.to_string());
        self.added.push((of.to_string(), name.to_string()));
        Ok(Bits::new(width, number))
    }

    /// The request has succeeded: its names keep their numbers.
    pub fn keep(&mut self) {
        self.added.clear();
    }

    /// The request has failed, or has only read: its names give their numbers back.
    pub fn forget(&mut self) {
        for (of, name) in self.added.drain(..) {
            let Some(names) = self.types.get_mut(&of) else { continue };
            let Some(number) = names.numbers.remove(&name) else { continue };
            names.names.remove(&number);
            names.free = names.free.map(|free| free.max(number));
        }
    }

    /// The name of a number: the one that was written, or the number in decimal.
    pub fn name(&self, of: &str, number: &Bits) -> Vec<u8> {
        let written = number.to_u128().and_then(|n| self.types.get(of)?.names.get(&n));
        written.map_or_else(|| number.to_big().to_string().into_bytes(), |name| name.clone().into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_numbers() {
        let mut names = Names::default();
        let number =
            |names: &mut Names, name: &str| names.number("port_t", name.as_bytes(), 9).map(|n| n.low_u64());
        assert_eq!(number(&mut names, "7"), Ok(7));
        assert_eq!(number(&mut names, "eth0"), Ok(511));
        assert_eq!((number(&mut names, "eth1"), number(&mut names, "eth0")), (Ok(510), Ok(511)));
        assert_eq!(names.name("port_t", &Bits::new(9, 510)), b"eth1");
        assert_eq!(names.name("port_t", &Bits::new(9, 3)), b"3");
        // A number that has a name is not given to another.
        assert_eq!(number(&mut names, "511"), Ok(509));
        // A request that fails gives back what it has taken, and nothing else.
        names.keep();
        assert_eq!((number(&mut names, "eth2"), number(&mut names, "eth3")), (Ok(508), Ok(507)));
        names.forget();
        assert_eq!((number(&mut names, "eth3"), number(&mut names, "eth0")), (Ok(508), Ok(511)));
    }
}
