//! Packets that wait in the queues of their ports between two stages.
//!
//! A program with queues hands such a packet to the host, with its state, instead of letting it enter the stage. The host decides when the packet leaves the
//! queue (`dataplane::queue`), and gives it back to `strait_dequeue`. Other programs have no code for it.

use abi::native::{DEQUEUE, WAITING_SIZE};
use ir::pipeline::Input;

use super::Native;
use crate::c::{Known, Which};

/// What a packet that has left its queue knows.
const FROM_QUEUE: Known<'_> = Known {
    port: "q->port",
    replica: "0",
    length: "pkt->length",
    clock: "worker->clock",
    direction: "0",
    queue: Some("q"),
};

impl Native<'_> {
    /// The C that lets a packet enter a stage on its way to a port.
    pub(super) fn enter(&self, stage: usize, pkt: &str, p: &str, port: &str) -> String {
        match self.queues && self.c.program.pipeline.stages[stage].queued {
            true => format!("enter_{stage}({pkt}, {p}, {port}, jobs);"),
            false => format!("stage_{stage}({pkt}, {p}, jobs);"),
        }
    }

    /// The stages with a queue in front of them.
    fn queued(&self) -> Vec<usize> {
        let stages = self.c.program.pipeline.stages.iter().enumerate();
        stages.filter(|(_, stage)| self.queues && stage.queued).map(|(at, _)| at).collect()
    }

    /// Emits `enter_N(pkt, p, port, jobs)` for each stage N with a queue in front of it.
    pub(super) fn entrances(&mut self) {
        if !self.queues {
            return;
        }
        self.c.text.raw(WAITING);
        self.c.text.line(format!(
            "__attribute__((visibility(\"default\"))) const u64 {WAITING_SIZE} = sizeof(struct waiting);"
        ));
        for stage in self.queued() {
            let t = &mut self.c.text;
            t.line("");
            t.open(format!(
                "UNUSED static void enter_{stage}(struct packet *pkt, struct strait_packet *p, u32 port, struct jobs *jobs)"
            ));
            t.line("if (is_queued(pkt, port))");
            t.line(format!("    wait_in_queue(pkt, p, port, {stage});"));
            t.line("else");
            t.line(format!("    stage_{stage}(pkt, p, jobs);"));
            t.close("");
        }
    }

    /// Emits `strait_dequeue(shared, worker, all, count)`.
    pub(super) fn dequeue(&mut self) {
        if !self.queues {
            return;
        }
        let early: Vec<String> =
            self.early.iter().map(|early| self.c.names.table(early.table).to_string()).collect();
        let t = &mut self.c.text;
        t.line("");
        t.line("/* Lets packets that have left their queues enter their stages. */");
        t.line(format!(
            "__attribute__((visibility(\"default\"))) void {DEQUEUE}(const struct shared *shared, struct worker *worker,"
        ));
        t.open("                                                           struct waiting **all, u32 count)");
        t.line("struct jobs jobs;");
        t.open("for (u32 at = 0; at < count; at++)");
        t.line("struct waiting *q = all[at];");
        t.line("struct packet *pkt = &q->pkt;");
        t.line("UNUSED struct state *s = &pkt->state;");
        t.line("pkt->frame.shared = shared;");
        t.line("pkt->frame.worker = worker;");
        t.line("set_buffer(pkt, q->p);");
        for table in early {
            self.c.text.line(format!("pkt->scratch.{table}_early = 0;"));
        }
        self.c.text.line("jobs.first = jobs.count = jobs.rounds = jobs.busy = 0;");
        self.c.text.open("switch (q->stage)");
        for stage in self.queued() {
            self.c.text.margin(format!("case {stage}:"));
            let inputs = &self.c.program.pipeline.stages[stage].inputs;
            let late: Vec<Input> = inputs.iter().filter(|input| input.is_of_the_queue()).cloned().collect();
            self.c.write_inputs("s", &late, &FROM_QUEUE, Which::All);
            self.c.text.line(format!("stage_{stage}(pkt, q->p, &jobs);"));
            self.c.text.line("break;");
        }
        let t = &mut self.c.text;
        t.close("");
        t.line("run_jobs(&jobs);");
        t.close("");
        t.close("");
    }
}

pub(super) const WAITING: &str = r#"
/* A packet for the queue of its port, or out of it. Only the host knows the queue. */
struct waiting {
    struct strait_packet *p;
    u32 port, stage;
    u64 entered, before, waited, behind; /* dataplane::queue::Wait */
    struct packet pkt;
};

/* Returns whether a port has a queue. */
INLINE int is_queued(const struct packet *pkt, u32 port)
{
    const u64 *queued = pkt->frame.worker->queued;
    return queued && port < 512 && queued[port / 64] >> port % 64 & 1;
}

/* Hands a packet to the host, which has room for every packet of a burst and every free buffer. */
static void wait_in_queue(const struct packet *pkt, struct strait_packet *p, u32 port, u32 stage)
{
    struct worker *w = pkt->frame.worker;
    struct waiting *q = (struct waiting *)w->waiting + w->waiting_count++;
    q->p = p;
    q->port = port;
    q->stage = stage;
    q->pkt = *pkt;
}
"#;
