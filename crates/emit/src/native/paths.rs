//! The paths of a packet in programs that replicate, clone, resubmit or recirculate (v1model, with the order of BMv2's simple_switch).
//!
//! The work that remains for a packet and its copies waits in a ring of jobs, which are processed in order. A copy gets a free buffer of
//! the worker immediately, with the bytes as they arrived: the bytes of a packet do not change before its deparser writes them.

use abi::drops;
use ir::{Role, VarId};

use super::reason;
use crate::c::{Emitter, Home};

/// Number of jobs that may wait for one packet: copies, resubmissions and recirculations.
pub const RING: u32 = 64;

/// The values of `instance_type` in BMv2.
mod instance {
    pub const NORMAL: u32 = 0;
    pub const INGRESS_CLONE: u32 = 1;
    pub const EGRESS_CLONE: u32 = 2;
    pub const RECIRCULATED: u32 = 4;
    pub const REPLICATION: u32 = 5;
    pub const RESUBMITTED: u32 = 6;
}

impl Emitter<'_> {
    /// Emits `process_packet(pkt, p, jobs)` and the functions that it calls: the controls and the deparser, for a packet and all its copies.
    pub(super) fn paths(&mut self) {
        self.keep();
        self.forget();
        self.text.line("");
        self.text.line(format!("enum {{ RING = {RING} }}; /* number of jobs that may wait */"));
        self.text.raw(JOBS);
        self.queue_again();
        self.clone_packet();
        self.leave();
        self.replicate();
        self.end_of_ingress();
        self.text.raw(FINISH);
    }

    /// Emits `state->var = value;` if the program uses the variable.
    fn set(&mut self, state: &str, var: VarId, value: impl std::fmt::Display) {
        if self.units.home(var) == Home::State {
            let name = self.names.var(var);
            self.text.line(format!("{state}->{name} = {value};"));
        }
    }

    /// The number of one of this target's drop reasons.
    fn own_reason(&self, name: &str) -> usize {
        reason(self.program, name)
    }

    /// Emits `keep(to, from, which)`: copies the variables that a clone, a resubmission or a recirculation keeps.
    fn keep(&mut self) {
        let keeps = self.facts.paths.keeps.clone();
        self.text.line("");
        self.text.line(
            "/* Copies the variables that a clone, resubmit or recirculate call keeps. `which` is the number of the call. */",
        );
        self.text.open("INLINE void keep(struct state *to, const struct state *from, u32 which)");
        self.text.open("switch (which)");
        for (number, vars) in keeps.iter().enumerate() {
            self.text.margin(format!("case {}:", number + 1));
            for var in vars {
                let name = self.names.var(*var).to_string();
                self.set("to", *var, format!("from->{name}"));
            }
            self.text.line("break;");
        }
        self.text.close("");
        self.text.close("");
    }

    /// Emits `forget(s)`: sets all variables to their initial values, and keeps the headers.
    fn forget(&mut self) {
        self.text.line("");
        self.text
            .line("/* Sets all variables to their values in a packet that arrives. The headers stay. */");
        self.text.open("UNUSED static void forget(struct state *s)");
        for i in 0..self.program.vars.len() {
            self.set("s", VarId(i as u32), 0);
        }
        self.text.line("s->site = s->timeout = 0;");
        self.text.line("s->clone = s->resubmit = s->recirculate = s->truncate = 0;");
        self.text.close("");
    }

    /// Emits `again(pkt, p, which, instance, jobs)`: queues the packet for the parser, with the bytes that `p` has now.
    fn queue_again(&mut self) {
        let std = self.program.standard;
        let no_buffer = self.own_reason(drops::NO_BUFFER);
        let port = self.names.var(std.ingress_port).to_string();
        let t = &mut self.text;
        t.line("");
        t.open(
            "UNUSED static void again(struct packet *pkt, struct strait_packet *p, u32 which, u32 instance, struct jobs *jobs)",
        );
        t.line("struct job *job = add_job(jobs, REPARSE, 0, p);");
        t.open("if (!job)");
        t.line(format!("drop(pkt, p, {no_buffer});"));
        t.line("return;");
        t.close("");
        t.line(format!(
            "init_packet(&job->pkt, pkt->frame.shared, pkt->frame.worker, p, pkt->state.{port});"
        ));
        t.line("struct state *s = &job->pkt.state;");
        t.line("keep(s, &pkt->state, which);");
        self.set("s", std.instance_type, "instance");
        self.text.close("");
    }

    /// Emits `clone_packet(pkt, p, jobs)`: queues a copy for egress. An ingress clone copies the packet as it arrived, an egress clone as
    /// it is now.
    fn clone_packet(&mut self) {
        let std = self.program.standard;
        let no_buffer = self.own_reason(drops::NO_BUFFER);
        let port = self.names.var(std.ingress_port).to_string();
        let length = self.names.var(std.packet_length).to_string();
        let t = &mut self.text;
        t.line("");
        t.open(
            "UNUSED static void clone_packet(struct packet *pkt, struct strait_packet *p, struct jobs *jobs)",
        );
        t.line("const u64 *to = find_id(ACQUIRE(pkt->frame.shared->mirrors), pkt->state.clone_session);");
        t.line("if (!to)");
        t.line("    return;");
        t.line("struct strait_packet *q = copy_packet(pkt, p);");
        t.line(
            "struct job *job = q ? add_job(jobs, to[1] & MIRROR_GROUP ? REPLICATE : EGRESS, (u32)to[1], q) : 0;",
        );
        t.open("if (!job)");
        t.line(format!("count_drop(pkt, p, {no_buffer});"));
        t.line("return;");
        t.close("");
        t.line("struct state *s = &job->pkt.state;");
        t.line(format!("u32 port = pkt->state.{port};"));
        t.open("if (pkt->state.clone_egress)");
        t.line("job->pkt = *pkt;");
        t.line("set_buffer(&job->pkt, q);");
        t.line("forget(s);");
        t.line(format!("s->{port} = port;"));
        t.line(format!("s->{length} = q->length;"));
        let clock = [std.ingress_global_timestamp, std.egress_global_timestamp];
        for var in clock {
            self.set("s", var, "pkt->frame.worker->clock & 0xffffffffffffULL");
        }
        self.text.line("keep(s, &pkt->state, pkt->state.clone);");
        self.set("s", std.instance_type, instance::EGRESS_CLONE);
        self.text.close(" else {");
        self.text.indent();
        self.text.line("init_packet(&job->pkt, pkt->frame.shared, pkt->frame.worker, q, port);");
        // The variables are copied before the parser, which may read them, and once more after it, because the copies take precedence over
        // what the parser writes.
        self.text.line("keep(s, &pkt->state, pkt->state.clone);");
        self.set("s", std.instance_type, instance::INGRESS_CLONE);
        self.text.line("parse(&job->pkt);");
        self.text.line("keep(s, &pkt->state, pkt->state.clone);");
        self.set("s", std.instance_type, instance::INGRESS_CLONE);
        self.text.line("s->timeout = 0;");
        self.text.close("");
        self.text.close("");
    }

    /// Emits `leave(pkt, p, port, jobs)`: runs egress and the deparser, and sends the packet.
    fn leave(&mut self) {
        let std = self.program.standard;
        let names = [std.egress_spec, std.egress_port].map(|v| self.names.var(v).to_string());
        let [spec, egress] = &names;
        let paths = &self.facts.paths;
        let (clones, recirculates, truncates) = (paths.clone, paths.recirculate, paths.truncate);
        let (marked, resize) = (self.own_reason(drops::EGRESS_SPEC), self.own_reason(drops::BAD_RESIZE));
        let has = |role| self.program.control(role).is_some();
        let (controlled, computed) = (has(Role::Egress), has(Role::ComputeChecksum));
        let t = &mut self.text;
        t.line("");
        t.line("/* Runs egress and the deparser, and sends or recirculates the packet. */");
        t.open("static void leave(struct packet *pkt, struct strait_packet *p, u32 port, UNUSED struct jobs *jobs)");
        t.line("struct state *s = &pkt->state;");
        t.line(format!("s->{egress} = port;"));
        if controlled {
            t.line("egress(pkt);");
        }
        if clones {
            t.open("if (s->clone)");
            t.line("jobs->rounds++;");
            t.line("clone_packet(pkt, p, jobs);");
            t.close("");
        }
        t.open(format!("if (s->{spec} == {})", abi::DROP_PORT));
        t.line(format!("drop(pkt, p, s->site ? s->site - 1 : {marked});"));
        t.line("return;");
        t.close("");
        if computed {
            t.line("compute_checksum(pkt);");
        }
        t.open("if (deparse(pkt))");
        t.line(format!("drop(pkt, p, {resize});"));
        t.line("return;");
        t.close("");
        if truncates {
            t.line("if (s->truncate && pkt->length > s->truncate - 1)");
            t.line("    pkt->length = s->truncate - 1;");
        }
        t.line("p->data = pkt->frame.data;");
        t.line("p->headroom = pkt->frame.headroom;");
        t.line("p->length = pkt->length;");
        t.line("p->tailroom = p->capacity - p->headroom - p->length;");
        if recirculates {
            t.open("if (s->recirculate)");
            t.line(format!("again(pkt, p, s->recirculate, {}, jobs);", instance::RECIRCULATED));
            t.line("return;");
            t.close("");
        }
        t.line("p->port = port;");
        t.line("p->verdict = SENT;");
        t.line("pkt->frame.worker->sent[pkt->frame.worker->sent_count++] = p;");
        t.close("");
    }

    /// Emits `replicate(pkt, p, group, jobs)`: sends one copy of the packet for each member of a multicast group.
    fn replicate(&mut self) {
        let std = self.program.standard;
        let (missing, no_buffer) = (self.own_reason(drops::NO_SUCH_GROUP), self.own_reason(drops::NO_BUFFER));
        let t = &mut self.text;
        t.line("");
        t.open(
            "UNUSED static void replicate(const struct packet *pkt, struct strait_packet *p, u32 group, struct jobs *jobs)",
        );
        t.line("const u64 *copies = find_id(ACQUIRE(pkt->frame.shared->groups), group);");
        t.line("u64 count = copies ? copies[0] : 0;");
        t.line("if (!count)");
        t.line(format!("    drop(pkt, p, {missing});"));
        t.open("for (u64 i = 1; i <= count; i++)");
        t.line("/* The last replica uses the packet itself. */");
        t.line("struct strait_packet *q = i == count ? p : copy_packet(pkt, p);");
        t.open("if (!q)");
        t.line(format!("count_drop(pkt, p, {no_buffer});"));
        t.line("continue;");
        t.close("");
        t.line("struct packet replica = *pkt;");
        t.line("set_buffer(&replica, q);");
        t.line("UNUSED struct state *s = &replica.state;");
        self.set("s", std.egress_rid, "copies[i] >> 32");
        self.set("s", std.egress_spec, 0);
        self.text.line("leave(&replica, q, (u32)copies[i], jobs);");
        self.text.close("");
        self.text.close("");
    }

    /// Emits `end_of_ingress(pkt, p, jobs)`, which runs ingress and then drops, clones, resubmits, replicates or sends the packet; and
    /// `run_job(job, jobs)`, which processes one job.
    fn end_of_ingress(&mut self) {
        let std = self.program.standard;
        let [spec, group] = [std.egress_spec, std.mcast_grp].map(|v| self.names.var(v).to_string());
        let (clones, resubmits) = (self.facts.paths.clone, self.facts.paths.resubmit);
        let reasons = [drops::STEP_BUDGET, drops::EGRESS_SPEC, drops::NO_BUFFER].map(|r| self.own_reason(r));
        let [budget, marked, no_buffer] = reasons;
        let controlled = self.program.control(Role::Ingress).is_some();
        let t = &mut self.text;
        t.line("");
        t.line("/* Runs ingress, and then drops, clones, resubmits, replicates or sends the packet. */");
        t.open("static void end_of_ingress(struct packet *pkt, struct strait_packet *p, struct jobs *jobs)");
        t.line("struct state *s = &pkt->state;");
        t.open("if (s->timeout)");
        t.line(format!("drop(pkt, p, {budget});"));
        t.line("return;");
        t.close("");
        if controlled {
            t.line("ingress(pkt);");
        }
        t.line("/* A recirculate call in ingress has no effect. */");
        t.line("s->recirculate = 0;");
        if clones {
            t.open("if (s->clone)");
            t.line("clone_packet(pkt, p, jobs);");
            t.line("s->clone = 0;");
            t.close("");
        }
        if resubmits {
            t.open("if (s->resubmit)");
            t.line(format!("again(pkt, p, s->resubmit, {}, jobs);", instance::RESUBMITTED));
            t.line("return;");
            t.close("");
        }
        t.line(format!("u32 group = s->{group}, port = s->{spec};"));
        t.open(format!("if (!group && port == {})", abi::DROP_PORT));
        t.line(format!("drop(pkt, p, s->site ? s->site - 1 : {marked});"));
        t.line("return;");
        t.close("");
        // In egress a unicast packet has type NORMAL, even if it was resubmitted or recirculated into ingress (BMv2's simple_switch).
        self.set("s", std.instance_type, format!("group ? {} : {}", instance::REPLICATION, instance::NORMAL));
        let t = &mut self.text;
        t.open("if (jobs->count > jobs->busy)");
        t.line("/* Jobs wait already, and this packet waits after them. */");
        t.line("struct job *job = add_job(jobs, group ? REPLICATE : EGRESS, group ? group : port, p);");
        t.line("if (job)");
        t.line("    job->pkt = *pkt;");
        t.line("else");
        t.line(format!("    drop(pkt, p, {no_buffer});"));
        t.close(" else if (group) {");
        t.indent();
        t.line("replicate(pkt, p, group, jobs);");
        t.close(" else {");
        t.indent();
        t.line("leave(pkt, p, port, jobs);");
        t.close("");
        t.close("");
        let verify = self.program.control(Role::VerifyChecksum).is_some();
        let t = &mut self.text;
        t.line("");
        t.line("/* Processes a job. */");
        t.open("static void run_job(struct job *job, struct jobs *jobs)");
        t.open(format!("if (jobs->rounds >= {})", abi::ROUNDS));
        t.line(format!("drop(&job->pkt, job->p, {budget});"));
        t.close(" else if (job->kind == EGRESS) {");
        t.indent();
        t.line("leave(&job->pkt, job->p, job->to, jobs);");
        t.close(" else if (job->kind == REPLICATE) {");
        t.indent();
        t.line("replicate(&job->pkt, job->p, job->to, jobs);");
        t.close(" else {");
        t.indent();
        t.line("jobs->rounds++;");
        t.line("parse(&job->pkt);");
        if verify {
            t.line("verify_checksum(&job->pkt);");
        }
        t.line("end_of_ingress(&job->pkt, job->p, jobs);");
        t.close("");
        t.close("");
    }
}

pub(super) const JOBS: &str = r#"
/* Kinds of jobs: parse a packet again, send it through egress to a port, or replicate it to a multicast group. */
enum { REPARSE, EGRESS, REPLICATE };

struct job {
    struct packet pkt;
    struct strait_packet *p;
    u32 kind;
    u32 to; /* a port or a multicast group */
};

/* The ring of jobs that wait. */
struct jobs {
    u32 first, count, rounds;
    u32 busy; /* 1 while the first job is being processed */
    struct job ring[RING];
};

/* Appends a job, whose state the caller must set. Returns 0 if the ring is full. */
INLINE struct job *add_job(struct jobs *jobs, u32 kind, u32 to, struct strait_packet *p)
{
    if (jobs->count == RING)
        return 0;
    struct job *job = &jobs->ring[(jobs->first + jobs->count++) % RING];
    POISON(&job->pkt, sizeof job->pkt);
    job->kind = kind;
    job->to = to;
    job->p = p;
    return job;
}

/* Counts a copy that could not be made. */
INLINE void count_drop(const struct packet *pkt, const struct strait_packet *p, u32 reason)
{
    count_packet(&pkt->frame.worker->drops[reason], p->length);
}

INLINE void drop(const struct packet *pkt, struct strait_packet *p, u32 reason)
{
    p->verdict = DROPPED;
    p->reason = reason;
    count_drop(pkt, p, reason);
}

/* Lets a packet's state refer to another buffer with the same bytes. */
INLINE void set_buffer(struct packet *pkt, const struct strait_packet *p)
{
    pkt->frame.data = p->data;
    pkt->frame.headroom = p->headroom;
    pkt->frame.tailroom = p->tailroom;
}

/* Copies a packet into a free buffer. Returns 0 if there is none, or if it is too small. */
static struct strait_packet *copy_packet(const struct packet *pkt, const struct strait_packet *p)
{
    struct worker *w = pkt->frame.worker;
    if (!w->free_count || w->free_packets[w->free_count - 1]->capacity < p->length)
        return 0;
    struct strait_packet *q = w->free_packets[--w->free_count];
    u8 *start = q->data - q->headroom;
    u32 room = q->capacity - p->length;
    q->headroom = p->headroom < room ? p->headroom : room;
    q->tailroom = room - q->headroom;
    q->data = start + q->headroom;
    q->length = p->length;
    q->port = p->port;
    q->flags = p->flags;
    q->token = p->token;
    q->verdict = q->reason = 0;
    __builtin_memcpy(q->data, p->data, p->length);
    return q;
}
"#;

pub(super) const FINISH: &str = r#"
/* Runs the controls and the deparser for a packet and all its copies. */
static void process_packet(struct packet *pkt, struct strait_packet *p, struct jobs *jobs)
{
    jobs->first = jobs->count = jobs->rounds = jobs->busy = 0;
    end_of_ingress(pkt, p, jobs);
    jobs->busy = 1;
    for (; jobs->count; jobs->count--, jobs->first = (jobs->first + 1) % RING)
        run_job(&jobs->ring[jobs->first], jobs);
}
"#;
