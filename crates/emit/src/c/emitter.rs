//! The emitter of one program: it declares the packet's state, and emits the functions of the controls.

use abi::manifest::{DropReason, Manifest, Meter, ValueSet};
use ir::{Program, Role, Verified};

use super::pipeline::stage_name;
use super::{
    Body, Facts, Home, Hook, Machine, Names, Text, Unit, Units, c_type, deparse, layout, partial, stack,
    sums, varbit, wide,
};
use crate::Output;
use crate::unsupported::Unsupported;

/// The size in bytes of the buffer that a tc program has for a piece of the payload, or for data that it hashes.
pub const BUFFER: u32 = 256;

/// The emission of one program for one target.
#[allow(missing_docs)] // Each field is named after its type.
pub struct Emitter<'p> {
    pub program: &'p Program,
    pub names: Names,
    pub units: Units,
    pub text: Text,
    pub problems: Vec<Unsupported>,
    pub manifest: Manifest,
    pub facts: Facts,
}

impl<'p> Emitter<'p> {
    /// Starts the emission of a program. `reasons` are the target's own drop reasons, and `texts` are the target's own texts in C, whose
    /// names the program must not use.
    pub fn new(
        program: &'p Verified,
        hook: Hook,
        target: &str,
        entry: &str,
        reasons: &[(&str, &str)],
        texts: &[&str],
    ) -> Emitter<'p> {
        let machine = hook.machine();
        let names = Names::new(program, &[&[super::PRELUDE, partial::PARTS], texts].concat());
        let (tables, mut problems) = layout::tables(program, &names, machine);
        let manifest = Manifest {
            version: 1,
            program: String::from(&program.name),
            target: target.to_string(),
            entry: entry.to_string(),
            tables,
            counters: layout::counters(program),
            registers: layout::registers(program, &names, machine, &mut problems),
            meters: meters(program, hook),
            value_sets: value_sets(program, machine),
            profiles: ir::manifest::profiles(program),
            digests: ir::manifest::digests(program),
            messages: ir::manifest::messages(program),
            kernel: None,
            drops: drop_reasons(program, reasons),
        };
        let mut facts = Facts::new(program, hook);
        problems.extend(
            facts.partial.problems.iter().map(|p| {
                Unsupported::new(p.loc, format!("{} is not supported by this target", p.what), p.hint)
            }),
        );
        facts.step_budget =
            manifest.drops.iter().position(|d| d.name == abi::drops::STEP_BUDGET).unwrap_or(0);
        Emitter {
            program,
            names,
            units: Units::new(program, &facts),
            text: Text::default(),
            problems,
            manifest,
            facts,
        }
    }

    /// The finished output, or every limit of the target that the program exceeds.
    pub fn output(self) -> Result<Output, Vec<Unsupported>> {
        match self.problems.is_empty() {
            true => Ok(Output { c: self.text.finish(), manifest: self.manifest }),
            false => Err(self.problems),
        }
    }

    /// Declares the structures of the headers, and the packet with its state. The target has more members of `struct scratch`, at the
    /// beginning and at the end.
    pub fn state(&mut self, first: &[String], last: &[String]) {
        let p = self.program;
        if self.facts.partial.count() > 0 {
            self.text.raw(partial::PARTS);
        }
        match self.facts.machine() {
            Machine::Native => wide::declare(p, &mut self.text),
            Machine::Bpf => varbit::declare(p, &mut self.text),
        }
        for (i, ty) in p.header_types.iter().enumerate() {
            if !p.headers.iter().any(|h| h.ty.index() == i) {
                continue;
            }
            self.text.line("");
            self.text.open(format!("struct h_{}", self.names.structure(i)));
            for (number, field) in ty.fields.iter().enumerate() {
                match self.has(field.ty) {
                    true => self.text.line(format!(
                        "{} {};",
                        wide::storage(field.ty),
                        self.names.member(i, number)
                    )),
                    false => {
                        let what = format!(
                            "field `{}` of header `{}`, a {}",
                            field.name.shown(),
                            ty.name.shown(),
                            field.ty
                        );
                        let hint = match field.ty.is_varbit() {
                            true => "varbit fields have at most 2048 bits on this target",
                            false => "fields have at most 128 bits on this target",
                        };
                        self.problems.push(Unsupported::new(first_use(p, i), what, hint));
                    }
                }
            }
            self.text.close(";");
        }
        self.text.line("");
        self.packet(first, last);
    }

    /// Whether the target has values of this type.
    fn has(&self, ty: ir::Ty) -> bool {
        self.facts.machine() == Machine::Native || c_type(ty).is_some() || varbit::has(ty)
    }

    /// Declares `struct state`, `struct scratch`, and `struct packet`, which holds both.
    fn packet(&mut self, first: &[String], last: &[String]) {
        let cleared = self.facts.cleared.clone();
        self.text
            .line("/* The state of a packet. All members before `rest` are zero when the packet arrives. */");
        self.text.open("struct state");
        self.headers(true);
        self.variables(|id| cleared.contains(&id));
        self.validity();
        sums::cleared_members(&self.facts.plan, &mut self.text);
        partial::members(&self.facts.partial, &mut self.text);
        self.text.line("u32 cursor;       /* number of bytes that the parser has consumed */");
        self.text.line("u32 site;         /* 1 + the drop site that ran last, or 0 */");
        self.text.line("u32 ended;        /* 1 + the reason for which the packet is dropped before the end of the pipeline, or 0 */");
        if self.facts.endless {
            self.text.line("u32 steps;        /* iterations of loops that may not come to an end */");
        }
        if stack::counted(self.program) {
            for (i, stack) in self.program.stacks.iter().enumerate().filter(|(i, s)| s.index.index() == *i) {
                self.text
                    .line(format!("u32 next_{i};      /* the next index of {} */", stack.name.comment()));
            }
        }
        let tables = &self.program.tables;
        for meter in tables.iter().filter_map(|t| t.direct_meter) {
            self.text.line(format!("u8 colour_{};     /* the result of the direct meter */", meter.0));
        }
        self.text.line("u64 rest[0];      /* the following members are written before they are read */");
        self.headers(false);
        self.variables(|id| !cleared.contains(&id));
        sums::members(&self.facts.plan, self.facts.hook, &mut self.text);
        self.text.close(";");
        self.text.line("");
        self.scratch(first, last);
        self.text.line("");
        self.text.open("struct packet");
        if self.facts.hook == Hook::Frame {
            self.text.line("struct frame frame;");
            self.text.line("u32 length;");
        }
        self.text.line("struct scratch scratch;");
        self.text.line("struct state state;");
        self.text.close(";");
    }

    /// Declares whether each header is valid, in groups of eight that one load reads (`any_valid`).
    fn validity(&mut self) {
        let count = self.program.headers.len();
        for i in 0..count {
            let name = self.names.header(ir::HeaderId(i as u32));
            let aligned = if i % deparse::GROUP == 0 { " __attribute__((aligned(8)))" } else { "" };
            self.text.line(format!("u8 {name}_valid{aligned};"));
        }
        if !count.is_multiple_of(deparse::GROUP) {
            self.text.line(format!("u8 no_header[{}];", deparse::GROUP - count % deparse::GROUP));
        }
    }

    /// Emits the rest of the clearing of a packet's state: a varbit field is empty, whatever its bytes are.
    pub fn clear_varbits(&mut self) {
        let (program, facts) = (self.program, &self.facts);
        for h in facts.cleared_headers.iter().filter(|h| program.header_type(**h).varbit().is_some()) {
            let name = self.names.header(*h);
            for (number, field) in program.header_type(*h).fields.iter().enumerate() {
                let length = if field.ty.is_varbit() { ".length" } else { "" };
                let scalar = field.ty.is_varbit() || c_type(field.ty).is_some();
                let field = self.names.field(*h, number);
                self.text.line(match scalar {
                    true => format!("s->{name}.{field}{length} = 0;"),
                    false => format!("s->{name}.{field} = (typeof(s->{name}.{field})){{ 0 }};"),
                });
            }
        }
    }

    /// Declares the headers that are zero when a packet arrives, or the other ones. Those with a varbit field are among these.
    fn headers(&mut self, cleared: bool) {
        for id in (0..self.program.headers.len() as u32).map(ir::HeaderId) {
            let is_cleared =
                self.facts.cleared_headers.contains(&id) && self.program.header_type(id).varbit().is_none();
            if is_cleared == cleared {
                let (name, structure) = (self.names.header(id), self.names.header_type(id));
                self.text.line(format!("struct h_{structure} {name};"));
            }
        }
    }

    /// Declares the variables in the state for which `chosen` returns true.
    fn variables(&mut self, chosen: impl Fn(ir::VarId) -> bool) {
        for (i, var) in self.program.vars.iter().enumerate() {
            let id = ir::VarId(i as u32);
            if !chosen(id) || self.units.home(id) != Home::State {
                continue;
            }
            match self.has(var.ty) {
                true => self.text.line(format!("{} {};", wide::storage(var.ty), self.names.var(id))),
                false => {
                    let what = format!("`{}`, a {}", var.name.shown(), var.ty);
                    let hint = "values have at most 128 bits on this target";
                    self.problems.push(Unsupported::new(var.loc, what, hint));
                }
            }
        }
    }

    /// Declares `struct scratch`: the offsets of headers, and what the target adds.
    fn scratch(&mut self, first: &[String], last: &[String]) {
        let p = self.program;
        self.text.line("/* All members are written before they are read. */");
        self.text.open("struct scratch");
        first.iter().for_each(|line| self.text.line(line));
        for i in 0..p.headers.len() {
            let name = self.names.header(ir::HeaderId(i as u32)).to_string();
            self.text.line(format!("u32 {name}_in;   /* the offset of the header on arrival */"));
            self.text
                .line(format!("u32 {name}_out;  /* the offset of the header in the packet that leaves */"));
        }
        if self.facts.machine() == Machine::Bpf {
            self.text.line("u32 leaving;   /* the length of the headers that leave */");
        }
        for i in self.facts.raw.clone() {
            let name = self.names.header(ir::HeaderId(i)).to_string();
            let bytes = p.header_type(ir::HeaderId(i)).min_bits() / 8;
            self.text.line(format!("u8 {name}_raw[{bytes}];"));
        }
        last.iter().for_each(|line| self.text.line(line));
        self.text.close(";");
    }

    /// Emits a function for each control before the deparser.
    pub fn controls(&mut self) {
        for role in
            [Role::VerifyChecksum, Role::PreControl, Role::Ingress, Role::Egress, Role::ComputeChecksum]
        {
            let Some(control) = self.program.control(role) else { continue };
            self.function(stage_name(role), Unit::Role(role), |body| body.block(&control.body));
        }
    }

    /// Emits the function of a unit, which has the state as `s` and the scratch as `t`.
    pub fn function(&mut self, name: &str, unit: Unit, write: impl FnOnce(&mut Body<'_>)) {
        self.text.line("");
        let (packet, ty) = (self.facts.hook.packet(), self.facts.hook.packet_type());
        let start = self.text.here();
        let given = self.facts.gets_state(unit);
        match self.facts.machine() {
            Machine::Bpf if given => {
                self.text.open(format!("INLINE int {name}(UNUSED {ty} *{packet}, struct packet *packet)"));
                self.state_of("packet");
            }
            Machine::Bpf => {
                self.text.open(format!("NOINLINE int {name}({ty} *{packet})"));
                self.get_state("-1");
                // The compiler does not pass an argument that the function does not use, but the verifier requires it.
                self.text.line(format!("asm volatile(\"\" : : \"r\"({packet}));"));
            }
            Machine::Native => {
                self.text.open(format!("static int {name}({ty} *{packet})"));
                self.get_state("-1");
            }
        }
        let Emitter { program, names, units, text, problems, facts, .. } = self;
        let mut body = Body::new(program, names, units, unit, text, problems, facts);
        body.declare_locals();
        write(&mut body);
        let functions = body.functions;
        self.text.line("return 0;");
        self.text.close("");
        self.text.insert(start, &functions);
    }

    /// Declares `s` and `t`. On tc the function returns `otherwise` if they are missing: that cannot happen, but the verifier does not
    /// know it.
    pub fn get_state(&mut self, otherwise: &str) {
        if self.facts.machine() == Machine::Native {
            return self.state_of("pkt");
        }
        self.text.line("struct packet *packet = get_packet();");
        self.text.line("if (!packet)");
        self.text.line(format!("    return {otherwise};"));
        self.state_of("packet");
    }

    /// Declares `s` and `t`, which are parts of a packet.
    fn state_of(&mut self, packet: &str) {
        for (name, member) in [("t", "scratch"), ("s", "state")] {
            self.text.line(format!("UNUSED struct {member} *{name} = &{packet}->{member};"));
        }
    }
}

/// The location of the first statement that extracts a header of a type, for error messages.
fn first_use(program: &Program, header_type: usize) -> ir::Loc {
    let mut at = None;
    ir::visit::all_stmts(program, &mut |stmt| {
        let ir::StmtKind::Extract { header, .. } = &stmt.kind else { return };
        let of = |h: &ir::HeaderId| program.headers[h.index()].ty.index() == header_type;
        let header = match header {
            ir::HeaderRef::Header(h) => of(h),
            ir::HeaderRef::Next(s) | ir::HeaderRef::Last(s) => of(&program.stacks[s.index()].first),
            ir::HeaderRef::Element(..) => false,
        };
        if header && at.is_none() {
            at = Some(stmt.loc);
        }
    });
    at.unwrap_or_default()
}

/// The meters, with the names of their maps on kernel targets.
fn meters(program: &Program, hook: Hook) -> Vec<Meter> {
    let mut meters = ir::manifest::meters(program);
    if hook.machine() == Machine::Bpf {
        meters.iter_mut().enumerate().for_each(|(i, meter)| meter.map = Some(format!("strait_meter_{i}")));
    }
    meters
}

/// The value sets, with the names of their maps on kernel targets.
fn value_sets(program: &Program, machine: Machine) -> Vec<ValueSet> {
    let mut sets = ir::manifest::value_sets(program);
    if machine == Machine::Bpf {
        sets.iter_mut().enumerate().for_each(|(i, set)| set.map = Some(format!("strait_value_set_{i}")));
    }
    sets
}

/// All drop reasons: the program's own, then the target's.
fn drop_reasons(program: &Program, own: &[(&str, &str)]) -> Vec<DropReason> {
    let sites = program.drop_sites.iter().map(|s| DropReason {
        name: String::from(&s.name),
        help: "the program dropped the packet".to_string(),
        location: program.place(s.loc),
    });
    let own = own.iter().filter(|reason| program.arch != ir::Arch::V1Model || **reason != super::DROPPED);
    let target =
        own.map(|(name, help)| DropReason { name: name.to_string(), help: help.to_string(), location: None });
    sites.chain(target).collect()
}
