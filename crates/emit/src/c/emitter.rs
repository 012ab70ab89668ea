//! The text of a program under construction: the packet's state, and the functions of parser and controls.

use abi::manifest::{DropReason, Manifest};
use ir::{Program, Role, Verified};

use super::{Body, Dialect, Facts, Home, Names, Text, Unit, Units, c_type, layout, stack, sums};
use crate::Output;
use crate::unsupported::Unsupported;

/// One program for one machine.
#[allow(missing_docs)] // What the names say.
pub struct Emitter<'p> {
    pub program: &'p Program,
    pub names: Names,
    pub units: Units,
    pub text: Text,
    pub problems: Vec<Unsupported>,
    pub manifest: Manifest,
    pub facts: Facts,
    pub early: Vec<ir::TableId>,
}

impl<'p> Emitter<'p> {
    /// Nothing written yet; `reasons` are the target's own, behind the program's, and `prelude` is the C that it puts before them.
    pub fn new(
        program: &'p Verified,
        dialect: Dialect,
        target: &str,
        entry: &str,
        reasons: &[(&str, &str)],
        prelude: &str,
    ) -> Emitter<'p> {
        let names = Names::new(program, &[super::PRELUDE, prelude]);
        let (tables, mut problems) = layout::tables(program, &names, dialect);
        if program.arch != ir::Arch::V1Model {
            let loc = program.controls.first().map(|c| c.loc).unwrap_or_default();
            let hint = "write it for v1model, or run it on the interpreter";
            problems.push(Unsupported::new(loc, "a program for PSA or PNA", hint));
        }
        let manifest = Manifest {
            version: 1,
            program: program.name.clone(),
            target: target.to_string(),
            entry: entry.to_string(),
            tables,
            counters: layout::counters(program, &names),
            registers: layout::registers(program, &names, dialect, &mut problems),
            meters: ir::manifest::meters(program),
            value_sets: ir::manifest::value_sets(program),
            profiles: ir::manifest::profiles(program),
            digests: ir::manifest::digests(program),
            drops: drop_reasons(program, reasons),
        };
        let facts = Facts::new(program, dialect);
        Emitter {
            program,
            names,
            units: Units::new(program, &facts.cleared),
            text: Text::default(),
            problems,
            manifest,
            facts,
            early: Vec::new(),
        }
    }

    /// What was made, or every limit that was met.
    pub fn output(self) -> Result<Output, Vec<Unsupported>> {
        match self.problems.is_empty() {
            true => Ok(Output { c: self.text.finish(), manifest: self.manifest }),
            false => Err(self.problems),
        }
    }

    /// `struct state`, headers first.
    pub fn state(&mut self) {
        let p = self.program;
        for (i, ty) in p.header_types.iter().enumerate() {
            if !p.headers.iter().any(|h| h.ty.index() == i) {
                continue;
            }
            self.text.line("");
            self.text.open(format!("struct h_{}", self.names.structure(i)));
            for (number, field) in ty.fields.iter().enumerate() {
                match c_type(field.ty) {
                    Some(c) => self.text.line(format!("{c} {};", self.names.member(i, number))),
                    None => {
                        let what = format!("field `{}` of header `{}`, a {}", field.name, ty.name, field.ty);
                        let hint = "fields have a fixed size of at most 128 bits on this target";
                        self.problems.push(Unsupported::new(first_use(p, i), what, hint));
                    }
                }
            }
            self.text.close(";");
        }
        self.text.line("");
        self.packet();
    }

    /// `struct state`, `struct scratch`, and the map's value that holds both.
    fn packet(&mut self) {
        let cleared = self.facts.cleared.clone();
        self.text
            .line("/* A packet on its way. Down to `rest` all of it is zero when the packet arrives. */");
        self.text.open("struct state");
        for id in (0..self.program.headers.len() as u32).map(ir::HeaderId) {
            let (name, structure) = (self.names.header(id), self.names.header_type(id));
            self.text.line(format!("struct h_{structure} {name};"));
        }
        self.variables(|id| cleared.contains(&id));
        for i in 0..self.program.headers.len() {
            let name = self.names.header(ir::HeaderId(i as u32)).to_string();
            self.text.line(format!("u8 {name}_valid;"));
        }
        sums::cleared_members(&self.facts.plan, &mut self.text);
        self.text.line("u32 cursor;       /* bytes that the parser has passed */");
        self.text.line("u32 site;         /* 1 + the drop site that ran last */");
        self.text.line("u32 timeout;      /* the parser did not come to an end */");
        if stack::counted(self.program) {
            for (i, stack) in self.program.stacks.iter().enumerate().filter(|(i, s)| s.index.index() == *i) {
                self.text.line(format!("u32 next_{i};      /* of {} */", stack.name));
            }
        }
        self.asked();
        let tables = &self.program.tables;
        for meter in tables.iter().filter_map(|t| t.direct_meter) {
            self.text.line(format!("u8 colour_{};     /* that the direct meter gave */", meter.0));
        }
        self.text.line("u64 rest[0];      /* from here on: written before it is read */");
        self.variables(|id| !cleared.contains(&id));
        sums::members(&self.facts.plan, self.facts.dialect, &mut self.text);
        self.text.close(";");
        self.text.line("");
        self.scratch();
        self.text.line("");
        self.text.open("struct packet");
        if self.facts.dialect == Dialect::Native {
            self.text.line("struct frame frame;");
            self.text.line("u32 length;");
        }
        self.text.line("struct scratch scratch;");
        self.text.line("struct state state;");
        self.text.close(";");
    }

    /// What the program has asked for this packet, where it asks.
    fn asked(&mut self) {
        if self.facts.dialect == Dialect::Tc || !self.facts.ways.any() {
            return;
        }
        self.text.line("u32 clone;        /* what a clone takes along, or 0 where none was asked for */");
        self.text.line("u32 clone_session;");
        self.text.line("u32 clone_egress; /* as egress has it, not as it came */");
        self.text.line("u32 resubmit;     /* what it takes along, or 0 */");
        self.text.line("u32 recirculate;  /* what it takes along, or 0 */");
        self.text.line("u32 truncate;     /* 1 + the bytes that are kept, or 0 */");
    }

    /// The variables of the state that `chosen` takes.
    fn variables(&mut self, chosen: impl Fn(ir::VarId) -> bool) {
        for (i, var) in self.program.vars.iter().enumerate() {
            let id = ir::VarId(i as u32);
            if !chosen(id) || self.units.home(id) != Home::State {
                continue;
            }
            match c_type(var.ty) {
                Some(c) => self.text.line(format!("{c} {};", self.names.var(id))),
                None => {
                    let what = format!("`{}`, a {}", var.name, var.ty);
                    let hint = "values have at most 128 bits on this target";
                    self.problems.push(Unsupported::new(var.loc, what, hint));
                }
            }
        }
    }

    /// What is not the program's: notes for the host, places of headers, room for keys.
    fn scratch(&mut self) {
        let p = self.program;
        let tc = self.facts.dialect == Dialect::Tc;
        let first = if tc { "; the verdict comes first, where hosts look for it" } else { "" };
        self.text.line(format!("/* Written before it is read{first}. */"));
        self.text.open("struct scratch");
        if tc {
            self.text.line(
                "u32 verdict;      /* 0 passed by, 1 sent, 2 dropped: for test runs, which see no redirect */",
            );
            self.text.line("u32 port;");
            self.text.line("u32 reason;");
            self.text.line(
                "u32 tag;          /* the VLAN tag that the kernel keeps beside the bytes that are sent, or 0 */",
            );
            self.text.line("u32 payload;      /* where the payload starts on leaving */");
        }
        for i in 0..p.headers.len() {
            let name = self.names.header(ir::HeaderId(i as u32)).to_string();
            self.text.line(format!("u32 {name}_in;   /* where it stood on arrival */"));
            self.text.line(format!("u32 {name}_out;  /* where it stands on leaving */"));
        }
        for i in self.facts.raw.clone() {
            let name = self.names.header(ir::HeaderId(i)).to_string();
            let bytes = p.header_type(ir::HeaderId(i)).min_bits() / 8;
            self.text.line(format!("u8 {name}_raw[{bytes}];"));
        }
        if tc {
            let layouts = self.manifest.tables.iter().filter_map(|t| t.layout.as_ref());
            let key = (layouts.map(|l| l.key_size).max().unwrap_or(0) + 8).div_ceil(8) * 8;
            self.text.line(format!("u8 key[{key}] __attribute__((aligned(8)));"));
            self.text.line(format!("u8 masked[{key}] __attribute__((aligned(8)));"));
            self.text.line("u32 buffer[64];");
            let data = self.hashed_data();
            if data > 0 {
                self.text.line("u32 busy;         /* a table was being written whenever it was read */");
                self.text.line(format!("u64 data[{data}];      /* of the entry that was found */"));
                self.text.line(format!("u64 candidate[{data}];"));
            }
        }
        for table in &self.early {
            let name = self.names.table(*table);
            let key = self.manifest.tables[table.index()].layout.as_ref().map_or(0, |l| l.key_size);
            self.text.line(format!("u8 {name}_early; /* looked up already: */"));
            self.text.line(format!("const struct row *{name}_row;"));
            self.text.line(format!("u64 {name}_key[{}];", key.div_ceil(8) + 1));
        }
        self.text.close(";");
    }

    /// The controls before the deparser, a function each.
    pub fn controls(&mut self) {
        for role in [Role::VerifyChecksum, Role::Ingress, Role::Egress, Role::ComputeChecksum] {
            let Some(control) = self.program.control(role) else { continue };
            let alone = role == Role::Ingress;
            self.function(alone, stage_name(role), Unit::of(role), |body| body.block(&control.body));
        }
    }

    /// What makes a packet that goes out of one port a normal one for egress, whatever ingress wrote (BMv2's simple_switch).
    pub fn normal_in_egress(&self) -> Option<String> {
        let kind = self.program.standard.instance_type;
        let used = self.units.home(kind) == Home::State;
        used.then(|| format!("s->{} = 0;", self.names.var(kind)))
    }

    /// A function over the packet, with the state as `s` and the scratch as `t`. What stands `alone` the kernel verifies by
    /// itself; what does not saves some nanoseconds a call and is verified with its caller.
    pub fn function(&mut self, alone: bool, name: &str, unit: Unit, write: impl FnOnce(&mut Body<'_>)) {
        self.text.line("");
        match self.facts.dialect {
            Dialect::Tc => {
                let linkage = if alone { "NOINLINE" } else { "INLINE" };
                self.text.open(format!("{linkage} int {name}(struct __sk_buff *skb)"));
                self.get_state("-1");
                // An argument that a function does not use is not passed, and the verifier wants it all the same.
                self.text.line("asm volatile(\"\" : : \"r\"(skb));");
            }
            Dialect::Native => {
                self.text.open(format!("static int {name}(struct packet *pkt)"));
                self.get_state("");
            }
        }
        let Emitter { program, names, units, text, problems, facts, .. } = self;
        let mut body = Body::new(program, names, units, unit, text, problems, facts);
        body.declare_locals();
        write(&mut body);
        self.text.line("return 0;");
        self.text.close("");
    }

    /// Declares `s` and `t`; on tc they may, for all that the verifier knows, be missing.
    pub fn get_state(&mut self, otherwise: &str) {
        let mut packet = "pkt";
        if self.facts.dialect == Dialect::Tc {
            self.text.line("struct packet *packet = get_packet();");
            self.text.line("if (!packet)");
            self.text.line(format!("    return {otherwise};"));
            packet = "packet";
        }
        for (name, member) in [("t", "scratch"), ("s", "state")] {
            let unused = if self.facts.dialect == Dialect::Native { "UNUSED " } else { "" };
            self.text.line(format!("{unused}struct {member} *{name} = &{packet}->{member};"));
        }
    }
}

/// Where a header of a type is extracted first, which is where a reader looks for it.
fn first_use(program: &Program, header_type: usize) -> ir::Loc {
    let mut at = None;
    ir::visit::all_stmts(program, &mut |stmt| {
        let of = |h: &ir::HeaderId| program.headers[h.index()].ty.index() == header_type;
        let header = match &stmt.kind {
            ir::StmtKind::Extract { header: ir::HeaderRef::Header(h), .. } => of(h),
            ir::StmtKind::Extract { header: ir::HeaderRef::Next(s) | ir::HeaderRef::Last(s), .. } => {
                of(&program.stacks[s.index()].first)
            }
            _ => false,
        };
        if header && at.is_none() {
            at = Some(stmt.loc);
        }
    });
    at.unwrap_or_default()
}

/// The function of a role.
pub fn stage_name(role: Role) -> &'static str {
    match role {
        Role::Parser | Role::EgressParser => "parse",
        Role::VerifyChecksum => "verify_checksum",
        Role::Ingress | Role::PreControl => "ingress",
        Role::Egress => "egress",
        Role::ComputeChecksum => "compute_checksum",
        Role::Deparser | Role::IngressDeparser => "deparse",
    }
}

/// Why packets are dropped: the program's own reasons, then the target's.
fn drop_reasons(program: &Program, own: &[(&str, &str)]) -> Vec<DropReason> {
    let sites = program.drop_sites.iter().map(|s| DropReason {
        name: s.name.clone(),
        help: "the program dropped the packet".to_string(),
        location: program.place(s.loc),
    });
    let target = own.iter().map(|(name, help)| DropReason {
        name: name.to_string(),
        help: help.to_string(),
        location: None,
    });
    sites.chain(target).collect()
}
