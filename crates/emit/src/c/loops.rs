//! The C of loops, and of the jumps in them.
//!
//! A loop with a small bound is a `for`. Machine code counts the iterations of any other loop against the packet's budget. The kernel's
//! verifier would follow each iteration of a `for`, so that in eBPF the body becomes a function that `bpf_loop` calls (Linux 5.17). A jump out of
//! such a body notes its destination in `t->leave`, and the code after the call makes the jump.

use ir::{Block, LabelId, StmtKind};

use super::facts::{LOOP_BUDGET, Machine};
use super::{Body, Text, Unit};

/// A statement that leaves a loop or block, or goes to a loop's next iteration.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Jump {
    /// Continues after the block or loop with this label.
    Break(LabelId),
    /// Continues with the next iteration of the loop with this label.
    Continue(LabelId),
}

impl Jump {
    fn label(self) -> LabelId {
        let (Jump::Break(label) | Jump::Continue(label)) = self;
        label
    }

    /// The number of the jump in `t->leave`, which is not 0.
    fn code(self) -> u32 {
        match self {
            Jump::Break(label) => 2 * label.0 + 1,
            Jump::Continue(label) => 2 * label.0 + 2,
        }
    }
}

impl Body<'_> {
    /// Emits a loop. One whose bound is not known counts its iterations, and ends the packet when the budget is used up.
    pub(super) fn repeat(&mut self, label: LabelId, bound: Option<u64>, body: &Block) {
        let machine = self.facts.machine();
        match bound.filter(|_| machine.ends(bound)) {
            Some(bound) => {
                let i = format!("round_{}", label.0);
                self.text.open(format!("for (u32 {i} = 0; {i} <= {bound}; {i}++)"));
            }
            None if machine == Machine::Bpf => return self.call_loop(label, body),
            None => {
                self.text.open("for (;;)");
                self.count_iteration();
            }
        }
        self.labels.push(label);
        self.block(body);
        self.labels.pop();
        self.text.line(format!("next_{}: __attribute__((unused));", label.0));
        self.text.close("");
        self.text.line(format!("out_{}: __attribute__((unused));", label.0));
    }

    /// Emits a jump.
    pub(super) fn jump(&mut self, jump: Jump) {
        match (jump, self.callback) {
            (Jump::Break(label), _) if self.labels.contains(&label) => {
                self.text.line(format!("goto out_{};", label.0));
            }
            (Jump::Continue(label), _) if self.labels.contains(&label) => {
                self.text.line(format!("goto next_{};", label.0));
            }
            (Jump::Continue(label), Some(of)) if label == of => self.text.line("return 0;"),
            (Jump::Break(label), Some(of)) if label == of => self.text.line("return 1;"),
            _ => {
                self.text.line(format!("t->leave = {};", jump.code()));
                self.text.line("return 1;");
            }
        }
    }

    /// Emits the return of a function that has ended the packet. A result of 1 also ends `bpf_loop`.
    pub(super) fn return_ended(&mut self) {
        let result = u32::from(self.callback.is_some());
        self.text.line(format!("return {result};"));
    }

    fn count_iteration(&mut self) {
        self.text.open(format!("if (s->steps++ >= {LOOP_BUDGET})"));
        let reason = self.facts.step_budget + 1;
        self.text.line(format!("s->ended = {reason};"));
        self.return_ended();
        self.text.close("");
    }

    /// Emits the call of `bpf_loop`, and the function that it calls before the current function.
    fn call_loop(&mut self, label: LabelId, body: &Block) {
        self.loop_function(label, body);
        let packet = self.facts.hook.packet();
        let name = self.loop_name(label);
        self.text.open("");
        self.text.line(format!("{} *of = {packet};", self.facts.hook.packet_type()));
        self.text.line("t->leave = 0;");
        // One more than the budget, so that the function itself finds that the budget is used up.
        self.text.line(format!("bpf_loop({}, {name}, &of, 0);", LOOP_BUDGET + 1));
        self.text.close("");
        self.text.open("if (s->ended)");
        self.return_ended();
        self.text.close("");
        for jump in leaving(label, body) {
            self.text.open(format!("if (t->leave == {})", jump.code()));
            self.text.line("t->leave = 0;");
            self.jump(jump);
            self.text.close("");
        }
    }

    /// The name of the function of a loop. Every table that has an action has a function of its own for the action's loop.
    fn loop_name(&self, label: LabelId) -> String {
        match self.unit {
            Unit::Table(table) => format!("loop_{}_{table}", label.0),
            Unit::Role(_) | Unit::Frame => format!("loop_{}", label.0),
        }
    }

    /// Emits the function that runs the body of a loop once. It returns 1 to end the loop.
    fn loop_function(&mut self, label: LabelId, body: &Block) {
        let (hook, mut text) = (self.facts.hook, Text::default());
        text.open(format!("NOINLINE static long {}(u32 iteration, void *of)", self.loop_name(label)));
        text.line(format!("{} *{} = *({0} **)of;", hook.packet_type(), hook.packet()));
        text.line("struct packet *packet = get_packet();");
        text.line("if (!packet)");
        text.line("    return 1;");
        text.line("UNUSED struct scratch *t = &packet->scratch;");
        text.line("struct state *s = &packet->state;");
        text.line(format!("asm volatile(\"\" : : \"r\"({}));", hook.packet()));
        let mut inner =
            Body::new(self.program, self.names, self.units, self.unit, &mut text, self.problems, self.facts);
        inner.callback = Some(label);
        inner.rejected = self.rejected.clone();
        inner.count_iteration();
        inner.block(body);
        let functions = std::mem::take(&mut inner.functions);
        text.line("return 0;");
        text.close("");
        text.line("");
        self.functions.push_str(&functions);
        self.functions.push_str(&text.finish());
    }
}

/// The jumps in the body of a loop that leave it for something else than its own end or next iteration.
fn leaving(label: LabelId, body: &Block) -> Vec<Jump> {
    let (mut inside, mut jumps) = (vec![label], Vec::new());
    ir::visit::stmts(body, &mut |stmt| {
        if let StmtKind::Block { label, .. } | StmtKind::Loop { label, .. } = &stmt.kind {
            inside.push(*label);
        } else if let StmtKind::Break(label) = &stmt.kind {
            jumps.push(Jump::Break(*label));
        } else if let StmtKind::Continue(label) = &stmt.kind {
            jumps.push(Jump::Continue(*label));
        }
    });
    jumps.retain(|jump| !inside.contains(&jump.label()));
    jumps.sort_by_key(|jump| jump.code());
    jumps.dedup();
    jumps
}
