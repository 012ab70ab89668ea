//! Further rounds: packets that are resubmitted or recirculated, in programs that make no copies of packets.
//!
//! There is one packet, so it passes the stages again in its own memory, and no job waits. The entry point calls `process`, as an inlined function. If
//! the packet passes the stages again, `again_N` makes its bytes and its state those of the next round, and a `bpf_loop` calls `process` until the
//! packet leaves or is dropped. A packet that passes the stages once pays for a test of each request.

use abi::drops;
use ir::pipeline::{Bytes, Decision, Fate, Step, When};

use super::{ENTRY, Ebpf};
use crate::c::{Hook, goes_again};

/// The C names of this file.
pub const NAMES: &str = "process next_round run_round run_rounds rounds AGAIN again";

impl Ebpf<'_> {
    /// Whether the program truncates packets.
    pub(super) fn truncates(&self) -> bool {
        let mut steps = self.c.program.pipeline.stages.iter().flat_map(|s| &s.steps);
        steps.any(|step| matches!(step, Step::Truncate(..)))
    }

    /// Whether a sum over the payload may count an incomplete checksum that an earlier round has seen.
    pub(super) fn completes(&self) -> bool {
        self.c.facts.rounds && self.c.facts.hook == Hook::Tc && !self.c.facts.plan.sums.is_empty()
    }

    /// Emits `again_N(skb)` for each decision that lets a packet pass the stages again. It makes the packet and its state those of the next round, and
    /// returns AGAIN; or it drops the packet. `failed` is the verdict if the state is missing.
    pub(super) fn again_functions(&mut self, failed: &str) {
        if !self.c.facts.rounds {
            return;
        }
        let program = self.c.program;
        let (packet, ty) = (self.c.facts.hook.packet(), self.c.facts.hook.packet_type());
        self.c.text.line("");
        self.c.text.line("enum { AGAIN = -1 }; /* the verdict of a packet that passes the stages again */");
        let mut number = 0;
        for stage in &program.pipeline.stages {
            for (at, step) in stage.steps.iter().enumerate() {
                let Step::Decide(decision) = step else { continue };
                let Some(path) =
                    decision.then.path().filter(|_| goes_again(program, self.c.facts.hook, decision))
                else {
                    number += 1;
                    continue;
                };
                self.c.text.line("");
                self.c.text.open(format!("NOINLINE int again_{number}({ty} *{packet})"));
                self.c.get_state(failed);
                self.c.text.line(format!("asm volatile(\"\" : : \"r\"({packet}), \"r\"(s), \"r\"(t));"));
                if path.bytes == Bytes::Deparsed {
                    self.deparse_to(&stage.steps[..at]);
                }
                if self.completes() {
                    self.c.text.line("find_completion(skb);");
                }
                self.c.go_on(path, &self.at_stage(), |emitter| emitter.text.line("zero_state(s);"));
                self.c.text.line("return AGAIN;");
                self.c.text.close("");
                number += 1;
            }
        }
    }

    /// Emits the last deparser of these steps, and the steps after it.
    fn deparse_to(&mut self, steps: &[Step]) {
        let drop = self.drop_call();
        let deparser = steps.iter().rposition(|step| matches!(step, Step::Deparse(_))).unwrap_or(0);
        for step in &steps[deparser..] {
            match step {
                Step::Deparse(role) => self.deparse(*role),
                // That the packet passes the stages again by an earlier decision has been tested.
                Step::Decide(decision) if !matches!(decision.then, Fate::Drop(_)) => {}
                step @ (Step::Parse(..)
                | Step::Control(_)
                | Step::Truncate(..)
                | Step::Fragment(_)
                | Step::Decide(_)) => self.step(step, drop),
            }
        }
    }

    /// Emits, in front of a deparser, the decisions after it by which the packet passes the stages again. `number` is that of the first decision after it.
    pub(super) fn unless_again(&mut self, later: &[Step], number: usize) {
        for (i, decision) in later.iter().filter_map(Step::decision).enumerate() {
            if goes_again(self.c.program, self.c.facts.hook, decision) {
                self.again(decision, number + i);
            }
        }
    }

    /// Emits a decision by which the packet passes the stages again.
    pub(super) fn again(&mut self, decision: &Decision, number: usize) {
        if !self.c.facts.rounds {
            return;
        }
        let condition = match &decision.when {
            When::Always => "1".to_string(),
            when @ (When::Holds(_) | When::Requested(..)) => self.c.condition(when).unwrap_or_default(),
        };
        let is_deparsed = decision.then.path().is_some_and(|path| path.bytes == Bytes::Deparsed);
        let packet = self.c.facts.hook.packet();
        let on_tc = self.c.facts.hook == Hook::Tc;
        let t = &mut self.c.text;
        t.open(format!("if (__builtin_expect({condition}, 0))"));
        if on_tc {
            t.line("t->tagged = tagged;");
        }
        if self.options.lanes {
            t.line(if is_deparsed { "t->changed = 1;" } else { "t->changed = again && t->changed;" });
        }
        t.line(format!("return again_{number}({packet});"));
        t.close("");
    }

    /// Emits the head of `process(skb, again)`. It is inlined into the entry point, and into the function of further rounds. In a small program, whose
    /// stages are inlined into it, that would take too much of the stack.
    pub(super) fn open_process(&mut self) {
        let (packet, ty) = (self.c.facts.hook.packet(), self.c.facts.hook.packet_type());
        let inline = if self.c.facts.is_small { "NOINLINE" } else { "INLINE" };
        let t = &mut self.c.text;
        t.line("/* Processes a packet that arrives, or one that passes the stages again. */");
        t.open(format!("{inline} int process({ty} *{packet}, u32 again)"));
    }

    /// Emits the functions that run further rounds, and the entry point.
    pub(super) fn rounds(&mut self, section: &str) {
        if !self.c.facts.rounds {
            return;
        }
        let budget = self.reason(drops::STEP_BUDGET);
        let (packet, ty) = (self.c.facts.hook.packet(), self.c.facts.hook.packet_type());
        let drop = self.drop_call();
        let t = &mut self.c.text;
        t.line("");
        t.line("struct rounds {");
        t.line(format!("    {ty} *{packet};"));
        t.line("    int verdict;");
        t.line("};");
        t.line("");
        t.open(format!("NOINLINE int next_round({ty} *{packet})"));
        t.line(format!("return process({packet}, 1);"));
        t.close("");
        t.line("");
        t.open("NOINLINE static long run_round(u32 round, void *context)");
        t.line("struct rounds *rounds = context;");
        t.line(format!("rounds->verdict = next_round(rounds->{packet});"));
        t.line("return rounds->verdict != AGAIN;");
        t.close("");
        t.line("");
        t.line("/* Lets a packet pass the stages until it leaves or is dropped. */");
        t.open(format!("NOINLINE static int run_rounds({ty} *{packet})"));
        t.line(format!("struct rounds rounds = {{ {packet}, AGAIN }};"));
        t.line(format!("bpf_loop({}, run_round, &rounds, 0);", abi::ROUNDS));
        t.line("asm volatile(\"\" : : : \"memory\");");
        t.line("if (rounds.verdict != AGAIN)");
        t.line("    return rounds.verdict;");
        t.line("struct packet *packet = get_packet();");
        t.line("struct scratch *t = packet ? &packet->scratch : 0;");
        t.line(format!("return t ? {drop}, {budget}) : AGAIN;"));
        t.close("");
        t.line("");
        t.line(format!("SEC(\"{section}\")"));
        t.open(format!("int {ENTRY}({ty} *{packet})"));
        t.line(format!("int verdict = process({packet}, 0);"));
        t.line(format!("return __builtin_expect(verdict == AGAIN, 0) ? run_rounds({packet}) : verdict;"));
        t.close("");
    }
}
