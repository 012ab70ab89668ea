//! Names that a controller uses instead of numbers: types with `@p4runtime_translation(…, string)` (P4Runtime specification, section 8.4.6).
//!
//! A name that is a decimal number is that number, such as the name of a port. Every other name gets a number of its own when it is first
//! written: the largest that is free. It keeps the number as long as the pipeline, so that what is read has the name that was written.

use std::collections::HashMap;

use abi::Bits;

use super::{Code, Status};

/// The names of all translated types.
#[derive(Clone, Debug, Default)]
pub struct Names {
    types: HashMap<String, Type>,
}

#[derive(Clone, Debug, Default)]
struct Type {
    numbers: HashMap<String, u128>,
    names: HashMap<u128, String>,
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
        let free = || (0..=last).rev().find(|number| !names.names.contains_key(number));
        let number = decimal.filter(|n| !names.names.contains_key(n)).or_else(free);
        let number = number.ok_or_else(|| {
            Status::new(
                Code::ResourceExhausted,
                format!("`{of}` has {width} bits, and all its numbers have names"),
            )
        })?;
        names.numbers.insert(name.to_string(), number);
        names.names.insert(number, name.to_string());
        Ok(Bits::new(width, number))
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
    }
}
