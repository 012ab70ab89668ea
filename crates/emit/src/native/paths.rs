//! The pipeline of programs whose packets are replicated or cloned, or pass a stage more than once in ways that a loop around the stages cannot do.
//!
//! Each stage is a function, and so is each path. The work that remains for a packet and its copies waits in a ring of jobs, which are
//! processed in order. A copy gets a free buffer of the worker at once. Where a deparser runs before a decision about the packet as it
//! entered the stage, the packet is copied before that deparser.

use abi::drops;
use ir::pipeline::{Bytes, Carry, Fate, Headers, Path, Stage, Step, To};
use ir::{Loc, StageId};

use super::Native;
use super::reason;
use crate::c::{Known, Which, stage_name};

/// Number of jobs that may wait for one packet: copies, resubmissions and recirculations.
pub const RING: u32 = 64;

/// What a packet on a path to the port `to` knows.
const TO_PORT: Known<'_> = Known {
    port: "to",
    replica: "0",
    length: "n_length",
    clock: "pkt->frame.worker->clock",
    direction: "is_host_port(pkt->frame.shared, to)",
    queue: None,
};

/// What a packet for a member of a multicast group knows.
const TO_MEMBER: Known<'_> = Known {
    port: "(u32)copies[i]",
    replica: "(copies[i] >> 32)",
    length: "q->length",
    clock: "pkt->frame.worker->clock",
    direction: "is_host_port(pkt->frame.shared, (u32)copies[i])",
    queue: None,
};

impl Native<'_> {
    /// Emits `process_packet(pkt, p, jobs)` and the functions that it calls: all stages, for a packet and all its copies.
    pub(super) fn paths(&mut self) {
        let stages = &self.c.program.pipeline.stages;
        self.c.text.line("");
        self.c.text.line(format!("enum {{ RING = {RING} }}; /* number of jobs that may wait */"));
        self.c.text.line(format!("enum {{ ENTER = 0, GROUP = {} }}; /* kinds of jobs */", stages.len()));
        self.c.text.raw(JOBS);
        self.c.text.line("");
        for stage in 0..stages.len() {
            self.c.text.line(format!(
                "static void stage_{stage}(struct packet *pkt, struct strait_packet *p, struct jobs *jobs);"
            ));
        }
        self.entrances();
        self.c.reset_variables();
        let decisions: Vec<_> = self.c.program.pipeline.decisions().collect();
        for (number, decision) in decisions.iter().enumerate() {
            match &decision.then {
                Fate::Drop(_) => {}
                Fate::Go(path) if path.stage.is_none() => self.leave(number, path, decision.loc),
                Fate::Go(path) => self.path(number, path, false, decision.loc),
                Fate::Copy(path) => self.path(number, path, true, decision.loc),
            }
        }
        let mut number = 0;
        for (i, stage) in stages.iter().enumerate() {
            self.stage(i, stage, &mut number);
        }
        self.run_job(&decisions.iter().map(|d| &d.then).collect::<Vec<_>>());
        self.c.text.raw(FINISH);
        self.dequeue();
    }

    /// The number of one of this target's drop reasons.
    fn own_reason(&self, name: &str) -> usize {
        reason(self.c.program, name)
    }

    /// Emits `path_N(pkt, p, entered, jobs)`: the packet, or a copy of it, waits for a stage. `entered` has the bytes with which the packet
    /// entered the current stage.
    fn path(&mut self, number: usize, path: &Path, copy: bool, loc: Loc) {
        let Some(stage) = path.stage else {
            return self.leaving_copy(number, path, loc);
        };
        if !matches!(path.to, To::Port(_)) {
            self.group(number, path, stage);
        }
        self.c.text.line("");
        self.c
            .text
            .line(format!("UNUSED static void path_{number}(struct packet *pkt, struct strait_packet *p,"));
        self.c
            .text
            .open("                          UNUSED struct strait_packet *entered, struct jobs *jobs)");
        self.c.text.line("UNUSED struct state *s = &pkt->state;");
        self.c.destination(number, path, stage, |c, session| {
            let found = format!("find_id(ACQUIRE(pkt->frame.shared->mirrors), {session})");
            c.text.line(format!("const u64 *session = {found};"));
            c.text.line("if (!session)");
            c.text.line("    return;");
            ["(u32)session[1]", "session[1] & MIRROR_GROUP"]
        });
        self.buffer(path, copy);
        self.c.text.line("UNUSED struct state *n = &job->pkt.state;");
        self.c.text.line("UNUSED u32 n_length = q->length;");
        self.new_state(path);
        let inputs = &self.c.program.pipeline.stage(stage).inputs;
        self.c.write_inputs("n", inputs, &TO_PORT, Which::All);
        self.c.write_inputs("n", &path.sets, &TO_PORT, Which::All);
        self.c.text.close("");
    }

    /// Emits the declaration of `q`, the buffer that takes the path, and of `job`.
    fn buffer(&mut self, path: &Path, copy: bool) {
        let no_buffer = self.own_reason(drops::NO_BUFFER);
        let source = if path.bytes == Bytes::Entered { "entered" } else { "p" };
        let t = &mut self.c.text;
        if copy {
            t.line(format!(
                "struct strait_packet *q = {source} && jobs->count < RING ? copy_packet(pkt, {source}) : 0;"
            ));
        } else {
            if path.bytes == Bytes::Entered {
                t.line("if (entered && entered != p)");
                t.line("    write_packet(p, entered);");
            }
            t.line(format!("struct strait_packet *q = {source} ? p : 0;"));
        }
        t.line("struct job *job = q ? add_job(jobs, kind, to, q) : 0;");
        t.open("if (!job)");
        t.line(format!("{}(pkt, p, {no_buffer});", if copy { "count_drop" } else { "drop" }));
        t.line("return;");
        t.close("");
    }

    /// Emits the state of a packet that takes a path, but for what depends on its destination.
    fn new_state(&mut self, path: &Path) {
        let Carry::New { inputs, headers, passed } = &path.carry else {
            self.c.text.line("job->pkt = *pkt;");
            return self.c.text.line("set_buffer(&job->pkt, q);");
        };
        if *headers == Headers::Kept {
            self.c.text.line("job->pkt = *pkt;");
            self.c.text.line("set_buffer(&job->pkt, q);");
            self.c.text.line("reset_variables(n);");
        } else {
            self.c.text.line("init_packet(&job->pkt, pkt->frame.shared, pkt->frame.worker, q);");
        }
        let members = self.c.passed_members(passed);
        let pass = |native: &mut Self| {
            for (_, from, to) in &members {
                native.c.text.line(format!("n->{to} = s->{from};"));
            }
        };
        pass(self);
        self.c.write_inputs("n", inputs, &TO_PORT, Which::All);
        self.c.write_inputs("n", &path.sets, &TO_PORT, Which::All);
        if let Headers::Parsed(role) = headers {
            self.c.text.line(format!("{}(&job->pkt);", stage_name(*role)));
            self.c.text.line("n->ended = 0;");
            pass(self);
        }
    }

    /// Emits `group_N(pkt, p, group, jobs)`: lets a copy of the packet for each member of a multicast group enter a stage.
    fn group(&mut self, number: usize, path: &Path, stage: StageId) {
        let (missing, no_buffer) = (self.own_reason(drops::NO_SUCH_GROUP), self.own_reason(drops::NO_BUFFER));
        let t = &mut self.c.text;
        t.line("");
        t.open(format!(
            "UNUSED static void group_{number}(const struct packet *pkt, struct strait_packet *p, u32 group, struct jobs *jobs)"
        ));
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
        t.line("UNUSED struct state *n = &replica.state;");
        let inputs = &self.c.program.pipeline.stage(stage).inputs;
        self.c.write_inputs("n", inputs, &TO_MEMBER, Which::Independent);
        self.c.write_inputs("n", &path.sets, &TO_MEMBER, Which::Independent);
        self.c.text.line(self.enter(stage.index(), "&replica", "q", "(u32)copies[i]"));
        self.c.text.close("");
        self.c.text.close("");
    }

    /// Emits `path_N(pkt, p, entered, jobs)` for a copy that leaves at once, to a port or to the members of a group.
    fn leaving_copy(&mut self, number: usize, path: &Path, loc: Loc) {
        let (missing, no_buffer) = (self.own_reason(drops::NO_SUCH_GROUP), self.own_reason(drops::NO_BUFFER));
        let To::Session(session) = &path.to else {
            let hint = "run it on the interpreter";
            return self.c.refuse(loc, "a copy that leaves for a port or group that is no session's", hint);
        };
        let source = if path.bytes == Bytes::Entered { "entered" } else { "p" };
        let t = &mut self.c.text;
        t.line("");
        t.line(format!("UNUSED static void path_{number}(struct packet *pkt, struct strait_packet *p,"));
        t.open("                          UNUSED struct strait_packet *entered, UNUSED struct jobs *jobs)");
        t.line("UNUSED struct state *s = &pkt->state;");
        let session = self.c.frame_expr(session);
        let t = &mut self.c.text;
        t.line(format!("const u64 *session = find_id(ACQUIRE(pkt->frame.shared->mirrors), {session});"));
        t.line("if (!session)");
        t.line("    return;");
        t.line("u64 port[2] = { 1, (u32)session[1] };");
        t.line("const u64 *copies = port;");
        t.line("if (session[1] & MIRROR_GROUP)");
        t.line("    copies = find_id(ACQUIRE(pkt->frame.shared->groups), (u32)session[1]);");
        t.open("if (!copies || !copies[0])");
        t.line(format!("count_drop(pkt, p, {missing});"));
        t.line("return;");
        t.close("");
        t.open("for (u64 i = 1; i <= copies[0]; i++)");
        t.line(format!("struct strait_packet *q = {source} ? copy_packet(pkt, {source}) : 0;"));
        t.open("if (!q)");
        t.line(format!("count_drop(pkt, p, {no_buffer});"));
        t.line("continue;");
        t.close("");
        t.line("send_packet(pkt, q, (u32)copies[i]);");
        t.close("");
        t.close("");
    }

    /// Emits `path_N(pkt, p, entered, jobs)` for a packet that leaves.
    fn leave(&mut self, number: usize, path: &Path, loc: Loc) {
        let To::Port(port) = &path.to else {
            let hint = "run it on the interpreter";
            return self.c.refuse(loc, "a packet that leaves through several ports at once", hint);
        };
        let t = &mut self.c.text;
        t.line("");
        t.line(format!("UNUSED static void path_{number}(struct packet *pkt, struct strait_packet *p,"));
        t.open("                          UNUSED struct strait_packet *entered, UNUSED struct jobs *jobs)");
        t.line("UNUSED struct state *s = &pkt->state;");
        let port = self.c.frame_expr(port);
        self.c.text.line(format!("send_packet(pkt, p, {port});"));
        self.c.text.close("");
    }

    /// Emits `stage_N(pkt, p, jobs)`: the steps of a stage. The first steps of the first stage are in `enter_pipeline`.
    fn stage(&mut self, number: usize, stage: &Stage, decision: &mut usize) {
        let t = &mut self.c.text;
        t.line("");
        t.line(format!("/* Runs stage {}, and decides about the packet. */", stage.name));
        t.open(format!(
            "static void stage_{number}(struct packet *pkt, struct strait_packet *p, UNUSED struct jobs *jobs)"
        ));
        t.line("UNUSED struct state *s = &pkt->state;");
        t.line("UNUSED struct strait_packet *entered = p;");
        let skipped = if number == 0 { self.entering(stage) } else { 0 };
        if skipped > 0 {
            self.check_ended();
        }
        for (at, step) in stage.steps.iter().enumerate().skip(skipped) {
            match step {
                Step::Decide(d) => {
                    self.decision(number, *decision, d);
                    *decision += 1;
                }
                Step::Deparse(_) => {
                    self.keep_entered(&stage.steps[at + 1..]);
                    if self.c.program.arch == ir::Arch::Pna {
                        self.c.text.line("UNUSED u32 entered_length = p->length;");
                    }
                    self.step(step);
                    self.c.text.line("report_buffer(pkt, p);");
                }
                Step::Truncate(..) | Step::Fragment(_) => {
                    self.step(step);
                    self.c.text.line("report_buffer(pkt, p);");
                }
                Step::Parse(..) | Step::Control(_) => self.step(step),
            }
        }
        self.c.text.close("");
    }

    /// Emits the copy of the packet before a deparser, if a later decision about the packet as it entered the stage applies.
    fn keep_entered(&mut self, later: &[Step]) {
        if let Some(condition) = self.c.keeps_entered(later) {
            self.c.text.line(format!("entered = {condition} ? copy_packet(pkt, p) : 0;"));
        }
    }

    fn decision(&mut self, stage: usize, number: usize, decision: &ir::pipeline::Decision) {
        let condition = self.c.condition(&decision.when);
        self.c.text.open(condition.map_or(String::new(), |c| format!("if ({c})")));
        match &decision.then {
            Fate::Drop(name) => {
                let reason = self.own_reason(name);
                // PNA decides after the deparser. A dropped packet counts with the length that it had before.
                if self.c.program.arch == ir::Arch::Pna {
                    self.c.text.line("p->length = entered_length;");
                }
                self.c.text.line(format!("drop(pkt, p, s->site ? s->site - 1 : {reason});"));
                self.c.text.line("return;");
            }
            Fate::Copy(_) => {
                if stage > 0 {
                    self.c.text.line("jobs->rounds++;");
                }
                self.c.text.line(format!("path_{number}(pkt, p, entered, jobs);"));
            }
            Fate::Go(path) => {
                self.at_once(number, path);
                self.c.text.line(format!("path_{number}(pkt, p, entered, jobs);"));
                self.c.text.line("return;");
            }
        }
        self.c.text.close("");
    }

    /// Emits the direct call of the next stage for a packet with its own state, if no job waits.
    fn at_once(&mut self, number: usize, path: &Path) {
        let (Some(stage), Carry::All) = (path.stage, &path.carry) else { return };
        if stage == StageId(0) {
            return;
        }
        self.c.text.open("if (jobs->count <= jobs->busy)");
        match &path.to {
            To::Port(e) => {
                let port = self.c.frame_expr(e);
                self.c.text.line(format!("UNUSED u32 to = {port}, n_length = pkt->length;"));
                let inputs = &self.c.program.pipeline.stage(stage).inputs;
                self.c.write_inputs("s", inputs, &TO_PORT, Which::All);
                self.c.write_inputs("s", &path.sets, &TO_PORT, Which::All);
                self.c.text.line(self.enter(stage.index(), "pkt", "p", "to"));
            }
            To::Group(e) => {
                let group = self.c.frame_expr(e);
                self.c.text.line(format!("group_{number}(pkt, p, {group}, jobs);"));
            }
            To::Session(_) => {}
        }
        if !matches!(path.to, To::Session(_)) {
            self.c.text.line("return;");
        }
        self.c.text.close("");
    }

    /// Emits `run_job(job, jobs)`.
    fn run_job(&mut self, fates: &[&Fate]) {
        let budget = self.own_reason(drops::STEP_BUDGET);
        let enter = |stage| self.enter(stage, "&job->pkt", "job->p", "job->to");
        let entrances: Vec<String> = (0..self.c.program.pipeline.stages.len()).map(enter).collect();
        let t = &mut self.c.text;
        t.line("");
        t.open("static void run_job(struct job *job, struct jobs *jobs)");
        t.open(format!("if (jobs->rounds >= {})", abi::ROUNDS));
        t.line(format!("drop(&job->pkt, job->p, {budget});"));
        t.line("return;");
        t.close("");
        t.open("switch (job->kind)");
        for (stage, enter) in entrances.into_iter().enumerate() {
            t.margin(format!("case ENTER + {stage}:"));
            if stage == 0 {
                t.line("jobs->rounds++;");
                t.line("enter_pipeline(&job->pkt);");
            }
            t.line(enter);
            t.line("break;");
        }
        for (number, fate) in fates.iter().enumerate() {
            if fate.path().is_some_and(|path| path.stage.is_some() && !matches!(path.to, To::Port(_))) {
                t.margin(format!("case GROUP + {number}:"));
                t.line(format!("group_{number}(&job->pkt, job->p, job->to, jobs);"));
                t.line("break;");
            }
        }
        t.close("");
        t.close("");
    }
}

pub(super) const JOBS: &str = r#"
/* A job lets a packet enter a stage of the pipeline, or replicates it to a multicast group. */
struct job {
    struct packet pkt;
    struct strait_packet *p;
    u32 kind; /* ENTER plus a stage, or GROUP plus the number of a path */
    u32 to;   /* the port or the multicast group */
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

/* Lets a packet leave through a port. */
INLINE void send_packet(const struct packet *pkt, struct strait_packet *p, u32 port)
{
    p->port = port;
    p->verdict = SENT;
    pkt->frame.worker->sent[pkt->frame.worker->sent_count++] = p;
}

/* Lets a packet's state refer to another buffer with the same bytes. */
INLINE void set_buffer(struct packet *pkt, const struct strait_packet *p)
{
    pkt->frame.data = p->data;
    pkt->frame.headroom = p->headroom;
    pkt->frame.tailroom = p->tailroom;
}

/* Writes the bytes of a packet to the buffer of another one, which has room for them. */
INLINE void write_packet(struct strait_packet *to, const struct strait_packet *from)
{
    u8 *start = to->data - to->headroom;
    u32 room = to->capacity - from->length;
    to->headroom = from->headroom < room ? from->headroom : room;
    to->tailroom = room - to->headroom;
    to->data = start + to->headroom;
    to->length = from->length;
    __builtin_memcpy(to->data, from->data, from->length);
}

/* Copies a packet into a free buffer. Returns 0 if there is none, or if it is too small. */
static struct strait_packet *copy_packet(const struct packet *pkt, const struct strait_packet *p)
{
    struct worker *w = pkt->frame.worker;
    if (!w->free_count || w->free_packets[w->free_count - 1]->capacity < p->length)
        return 0;
    struct strait_packet *q = w->free_packets[--w->free_count];
    write_packet(q, p);
    q->port = p->port;
    q->flags = p->flags;
    q->token = p->token;
    q->verdict = q->reason = 0;
    return q;
}

/* Tells the host where the bytes of the packet are now. */
INLINE void report_buffer(const struct packet *pkt, struct strait_packet *p)
{
    p->data = pkt->frame.data;
    p->headroom = pkt->frame.headroom;
    p->length = pkt->length;
    p->tailroom = p->capacity - p->headroom - p->length;
}
"#;

pub(super) const FINISH: &str = r#"
/* Processes the jobs that a packet has left. */
INLINE void run_jobs(struct jobs *jobs)
{
    jobs->busy = 1;
    for (; jobs->count; jobs->count--, jobs->first = (jobs->first + 1) % RING)
        run_job(&jobs->ring[jobs->first], jobs);
}

/* Runs the pipeline for a packet and all its copies. */
static void process_packet(struct packet *pkt, struct strait_packet *p, struct jobs *jobs)
{
    jobs->first = jobs->count = jobs->rounds = jobs->busy = 0;
    stage_0(pkt, p, jobs);
    run_jobs(jobs);
}
"#;
