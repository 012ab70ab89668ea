//! P4 names as C names: `hdr.ipv4` becomes `hdr_ipv4`, and no two become the same.

use std::collections::HashMap;

use ir::{HeaderId, Program, TableId, VarId};

/// The C names of a program.
#[derive(Debug)]
pub struct Names {
    vars: Vec<String>,
    headers: Vec<String>,
    tables: Vec<String>,
}

/// What generated functions call their own variables, and members of the packet's state that are not the program's.
const RESERVED: [&str; 26] = [
    "s",
    "t",
    "p",
    "d",
    "k",
    "pkt",
    "skb",
    "error",
    "steps",
    "result",
    "table",
    "words",
    "row",
    "out",
    "diff",
    "cursor",
    "site",
    "timeout",
    "clone",
    "clone_session",
    "clone_egress",
    "resubmit",
    "recirculate",
    "truncate",
    "is",
    "fold",
];

/// A name of C's making: letters, digits and `_`, no digit first.
pub fn c_name(name: &str) -> String {
    let text: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let text = text.trim_end_matches('_');
    if text.starts_with(|c: char| c.is_ascii_digit()) { format!("_{text}") } else { text.to_string() }
}

impl Names {
    /// Names for everything that a program stores.
    pub fn new(program: &Program) -> Names {
        let mut taken: HashMap<String, u32> = RESERVED.iter().map(|word| (word.to_string(), 1)).collect();
        let mut unique = |name: &str| {
            let name = c_name(name);
            let count = taken.entry(name.clone()).or_insert(0u32);
            *count += 1;
            if *count == 1 { name } else { format!("{name}__{count}") }
        };
        Names {
            headers: program.headers.iter().map(|h| unique(&h.name)).collect(),
            vars: program.vars.iter().map(|v| unique(&v.name)).collect(),
            tables: program.tables.iter().map(|t| unique(&t.name)).collect(),
        }
    }

    /// A variable's name.
    pub fn var(&self, id: VarId) -> &str {
        &self.vars[id.index()]
    }

    /// A header's name.
    pub fn header(&self, id: HeaderId) -> &str {
        &self.headers[id.index()]
    }

    /// A table's name.
    pub fn table(&self, id: TableId) -> &str {
        &self.tables[id.index()]
    }
}
