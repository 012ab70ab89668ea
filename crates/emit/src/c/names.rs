//! C names for P4 names: `hdr.ipv4` becomes `hdr_ipv4`. Different P4 names get different C names.

use std::collections::{HashMap, HashSet};

use ir::{HeaderId, Program, RegisterId, TableId, VarId};

/// The C names of a program.
#[derive(Debug)]
pub struct Names {
    vars: Vec<String>,
    headers: Vec<String>,
    tables: Vec<String>,
    registers: Vec<String>,
    header_types: Vec<String>,
    /// The names of the fields of each header type.
    fields: Vec<Vec<String>>,
    /// The type of each header.
    types: Vec<usize>,
}

/// The names of local variables in emitted functions, and of members of the packet's state that the emitter adds.
const RESERVED: &str = "s t p d k c i v to at bits cell copies cursor diff random early error failed found from removed_end group hash h in index
    jobs job key keys length moved most next out packet packets parse payload pkt result rest row raw resized round scratch seed site
    skb span state steps sum swapped tagged ended member value words xdp beyond arrived
    verdict reason tag buffer bytes masked frame instance order members slot table version number writes missed fresh added cache data old flow
    first last list count event now size no_header leaving";

/// Prefixes of names that end in a number: members of the packet's state, and counters of loops.
const NUMBERED: [&str; 8] =
    ["steps_", "next_", "colour_", "update_", "verified_", "arrived_", "leaves_", "parts_"];

/// Keywords of C, except for those that are also keywords of P4.
const KEYWORDS: &str = "asm auto break case char continue do double enum extern float for goto inline int long register restrict short
    signed sizeof static struct typeof typedef union unsigned void volatile while _Bool";

/// The most characters of a C identifier before its prefixes and suffixes. Maps are pinned under such names, and a file's name has 255 bytes.
const LONGEST: usize = 120;

/// Converts a name to a C identifier: other characters become `_`, a leading digit gets a `_` before it, and the rest of a long name is left
/// out.
pub fn c_name(name: &str) -> String {
    let text: String =
        name.chars().take(LONGEST).map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let text = text.trim_end_matches('_');
    if text.starts_with(|c: char| c.is_ascii_digit()) { format!("_{text}") } else { text.to_string() }
}

/// The names that cannot be used any more: reserved words, and names that were given to something else.
struct Taken<'w> {
    words: &'w HashSet<String>,
    given: HashSet<String>,
    /// The number that the next thing of a name tries first.
    next: HashMap<String, u32>,
}

/// The keywords of C and the given words.
fn with_keywords(words: impl Iterator<Item = String>) -> HashSet<String> {
    words.chain(KEYWORDS.split_whitespace().map(String::from)).collect()
}

impl<'w> Taken<'w> {
    fn new(words: &'w HashSet<String>) -> Taken<'w> {
        Taken { words, given: HashSet::new(), next: HashMap::new() }
    }

    /// Converts a name to a C identifier that is not taken, by appending a number if necessary, and takes it.
    fn unique(&mut self, name: &str) -> String {
        let name = match c_name(name) {
            name if name.is_empty() => "unnamed".to_string(),
            name => name,
        };
        let next = self.next.entry(name.clone()).or_insert(2);
        let numbered = (*next..).map(|n| {
            *next = n + 1;
            format!("{name}__{n}")
        });
        let is_free =
            |name: &String| !self.words.contains(name) && !self.given.contains(name) && !is_numbered(name);
        let free = std::iter::once(name.clone()).chain(numbered).find(is_free);
        let free = free.unwrap_or(name);
        self.given.insert(free.clone());
        free
    }
}

/// Whether a name could be that of a numbered member of the packet's state.
fn is_numbered(name: &str) -> bool {
    let parts = ["_pseudo", "_body", "_stable"];
    let name = parts.iter().find_map(|part| name.strip_suffix(part)).unwrap_or(name);
    let number = NUMBERED.iter().find_map(|prefix| name.strip_prefix(prefix));
    let digits = |n: &str| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit());
    // The functions of wide values (`wide_5_add`) and their types have numbers too.
    number.is_some_and(digits)
        || name.strip_prefix("wide_").is_some_and(|n| n.starts_with(|c: char| c.is_ascii_digit()))
}

/// The functions, macros, types and constants of a C text, which a local variable would hide. The function recognises a function or macro by
/// the parenthesis after it, a type by its `typedef`, and a constant by its capital letters.
fn words(text: &str) -> Vec<String> {
    let mut code = String::new();
    for (i, part) in text.split("/*").enumerate() {
        code.push_str(if i == 0 { part } else { part.split_once("*/").map_or("", |(_, code)| code) });
        code.push(' ');
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = Vec::new();
    for line in code.lines() {
        let typedef = line.starts_with("typedef");
        let mut rest = line;
        while let Some(start) = rest.find(is_part) {
            let length = rest[start..].find(|c| !is_part(c)).unwrap_or(rest.len() - start);
            let (word, after) = rest[start..].split_at(length);
            let capitals =
                word.chars().any(|c| c.is_ascii_uppercase()) && !word.chars().any(|c| c.is_ascii_lowercase());
            if typedef
                || capitals
                || after.starts_with('(')
                || after.starts_with(")(")
                || word.starts_with("strait_")
            {
                found.push(word.to_string());
            }
            rest = after;
        }
    }
    found
}

/// The macros that a C text defines.
fn macros(text: &str) -> impl Iterator<Item = String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let names = text.lines().filter_map(|line| line.strip_prefix("#define "));
    names.map(move |rest| rest.chars().take_while(|c| is_part(*c)).collect())
}

impl Names {
    /// Chooses the names for everything that a program stores. `texts` are the preludes of the emitted C.
    pub fn new(program: &Program, texts: &[&str]) -> Names {
        // A variable may become a local, which would hide a function or type of the same name.
        let used =
            texts.iter().flat_map(|text| words(text)).chain(RESERVED.split_whitespace().map(String::from));
        let used = with_keywords(used);
        let mut taken = Taken::new(&used);
        let header = |h: &ir::Header| {
            let name = taken.unique(&h.name);
            taken.given.insert(format!("{name}_valid"));
            name
        };
        let headers = program.headers.iter().map(header).collect();
        let vars = program.vars.iter().map(|v| taken.unique(&v.name)).collect();
        let tables = program.tables.iter().map(|t| taken.unique(&t.name)).collect();
        // All other names get a prefix or are members of a structure of their own. They can only conflict with macros.
        let macros = with_keywords(texts.iter().flat_map(|text| macros(text)));
        let apart = |names: &mut dyn Iterator<Item = &ir::Name>| {
            let mut taken = Taken::new(&macros);
            names.map(|name| taken.unique(name)).collect::<Vec<_>>()
        };
        let fields = |ty: &ir::HeaderType| apart(&mut ty.fields.iter().map(|f| &f.name));
        Names {
            headers,
            vars,
            tables,
            registers: apart(&mut program.registers.iter().map(|r| &r.name)),
            header_types: apart(&mut program.header_types.iter().map(|t| &t.name)),
            fields: program.header_types.iter().map(fields).collect(),
            types: program.headers.iter().map(|h| h.ty.index()).collect(),
        }
    }

    /// The C name of a variable.
    pub fn var(&self, id: VarId) -> &str {
        &self.vars[id.index()]
    }

    /// The C name of a header.
    pub fn header(&self, id: HeaderId) -> &str {
        &self.headers[id.index()]
    }

    /// The C name of the structure of a header's type.
    pub fn header_type(&self, id: HeaderId) -> &str {
        self.structure(self.types[id.index()])
    }

    /// The C name of the structure of a header type.
    pub fn structure(&self, header_type: usize) -> &str {
        &self.header_types[header_type]
    }

    /// The C name of a field of a header.
    pub fn field(&self, id: HeaderId, field: usize) -> &str {
        self.member(self.types[id.index()], field)
    }

    /// The C name of a field of a header type.
    pub fn member(&self, header_type: usize, field: usize) -> &str {
        &self.fields[header_type][field]
    }

    /// The C name of a table, without the prefixes of its maps and functions.
    pub fn table(&self, id: TableId) -> &str {
        &self.tables[id.index()]
    }

    /// The C name of a register, without the prefix of its map.
    pub fn register(&self, id: RegisterId) -> &str {
        &self.registers[id.index()]
    }
}
