//! Generates P4 programs for v1model from a number. The programs are complete, well typed, and correct.
//!
//! The output is text, so that the whole compiler is tested. If the checker rejects a program, there is a bug in the checker or in the
//! generator. The programs concentrate on what compilers get wrong: fields of odd widths, arguments that overlap, calls with side effects
//! in expressions, keys that are written before their table is applied, and accesses to invalid headers.

mod callable;
mod expr;
mod parser;
mod pipeline;
mod scope;
mod state;
mod stmt;
mod table;
mod types;

use harness::rng::Rng;

use callable::{Action, Block, Function, Params};
use scope::Scope;
use state::State;
use table::Table;
use types::{Member, Record, Ty};

/// The features of a program. Features that some targets do not support are rare, so that most programs run everywhere.
#[derive(Clone, Debug, Default)]
struct Features {
    /// Fields may have more than 128 bits.
    wide: bool,
    varbit: bool,
    stacks: bool,
    indices: bool,
    unions: bool,
    enums: bool,
    headers_in_structs: bool,
    loops: bool,
    calls: bool,
    hash: bool,
    sums: bool,
    ranges: bool,
    value_sets: bool,
    /// The program may resubmit and recirculate, and clone or truncate.
    again: bool,
    /// The program may clone, and not truncate: the kernel's targets have no truncation beside copies.
    clones: bool,
    multicast: bool,
}

/// The generation of a program.
struct Generator {
    rng: Rng,
    size: u32,
    features: Features,
    out: String,
    depth: usize,
    names: u32,
    palette: Vec<Ty>,
    headers: Vec<Record>,
    structs: Vec<Record>,
    members: Vec<Member>,
    meta: Vec<(String, Ty)>,
    functions: Vec<Function>,
    controls: Vec<Block>,
    subparsers: Vec<Block>,
    /// The actions of the current control that can be called like functions.
    callable_actions: Vec<Function>,
    actions: Vec<Action>,
    instances: Vec<(String, Params)>,
    tables: Vec<Table>,
    state: Vec<State>,
    scope: Scope,
    /// Whether expressions may contain only constants.
    constant: bool,
    /// The number of further calls that the current expression may contain.
    calls_in_expr: u32,
    /// The type that the current function returns.
    returns: Option<Ty>,
    /// Whether the architecture's metadata is in scope.
    pipeline: bool,
    value_set: Option<String>,
}

/// The program with a number. The size determines the number of statements and tables: 1 is small, and 4 is large.
pub fn program(seed: u64, number: u64, size: u32) -> String {
    let mut rng = Rng::new(seed ^ number.wrapping_mul(0xd134_2543_de82_ef95));
    // Without mixing, the first values of adjacent seeds would be similar.
    for _ in 0..8 {
        rng.next_u64();
    }
    let mut generator = Generator {
        rng,
        size,
        features: Features::default(),
        out: String::new(),
        depth: 0,
        names: 0,
        palette: Vec::new(),
        headers: Vec::new(),
        structs: Vec::new(),
        members: Vec::new(),
        meta: Vec::new(),
        functions: Vec::new(),
        controls: Vec::new(),
        subparsers: Vec::new(),
        callable_actions: Vec::new(),
        actions: Vec::new(),
        instances: Vec::new(),
        tables: Vec::new(),
        state: Vec::new(),
        scope: Scope::default(),
        constant: false,
        calls_in_expr: 0,
        returns: None,
        pipeline: false,
        value_set: None,
    };
    generator.whole(seed, number);
    generator.out
}

impl Generator {
    fn whole(&mut self, seed: u64, number: u64) {
        self.features = Features {
            wide: self.chance(5),
            varbit: self.chance(5),
            stacks: self.chance(50),
            indices: self.chance(50),
            unions: self.chance(12),
            enums: self.chance(25),
            headers_in_structs: self.chance(30),
            loops: self.chance(40),
            calls: self.chance(60),
            hash: self.chance(10),
            sums: self.chance(40),
            ranges: self.chance(25),
            value_sets: self.chance(6),
            again: self.chance(10),
            clones: self.chance(50),
            multicast: self.chance(4),
        };
        self.line(&format!(
            "// cargo xtask programs --seed {seed} --first {number} --count 1 --size {}",
            self.size
        ));
        self.line("#include <core.p4>");
        self.line("#include <v1model.p4>");
        self.choose_palette();
        self.declare_types();
        self.declare_functions();
        self.declare_subparsers();
        self.declare_controls();
        self.main_parser();
        self.main_control("MyIngress");
        self.main_control("MyEgress");
        self.checksum_controls();
        self.deparser();
        self.line("V1Switch(Parse(), Verify(), MyIngress(), MyEgress(), Update(), Deparse()) main;");
    }

    fn line(&mut self, text: &str) {
        for _ in 0..self.depth {
            self.out.push_str("    ");
        }
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn open(&mut self, text: &str) {
        self.line(text);
        self.depth += 1;
    }

    fn close(&mut self, text: &str) {
        self.depth -= 1;
        self.line(text);
    }

    /// Emits `} else {`.
    fn turn(&mut self, text: &str) {
        self.close(text);
        self.depth += 1;
    }

    fn fresh(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    fn below(&mut self, end: usize) -> usize {
        self.rng.index(end)
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.rng.below(100) < percent
    }

    fn choose<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.rng.index(all.len())]
    }
}
