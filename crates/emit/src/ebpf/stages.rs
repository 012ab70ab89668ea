//! The stages of the pipeline: the parsers, controls, decisions and deparsers that a packet passes.

use abi::drops;
use ir::Role;
use ir::pipeline::{Bytes, Carry, Decision, Fate, Path, PathKind, Step, To, When};

use super::{BUSY, Ebpf, GSO_CHECKSUM, LONG_CHECKSUM};
use crate::c::{FIRST, Hook, Known, Which, fits_the_stack, goes_again};

impl Ebpf<'_> {
    /// Emits all stages, from the packet that arrived to the packet that leaves. `unchanged` is the beginning of the call that drops a packet
    /// before it has been deparsed, and `drop` of the call that drops it afterwards.
    pub(super) fn stages(&mut self, unchanged: &str, drop: &str) {
        let program = self.c.program;
        if self.c.facts.rounds {
            self.c.text.open("if (!again)");
            if self.completes() {
                self.c.text.line("t->completion = 0;");
            }
        }
        self.c.text.line("zero_state(s);");
        if let Some(first) = program.pipeline.stages.first() {
            let known = match self.tells_again() {
                true => Known { port: "arrived_at(skb, from)", ..self.at_stage() },
                false => {
                    Known { port: "from->port", direction: "is_host_port(from->port)", ..self.at_stage() }
                }
            };
            self.c.write_inputs("s", &first.inputs, &known, Which::All);
        }
        if self.c.facts.rounds {
            self.c.text.close("");
        }
        let (mut call, mut number) = (unchanged, 0);
        for stage in &program.pipeline.stages {
            let leaves = stage.steps.iter().position(|step| leaving(step).is_some());
            for (at, step) in stage.steps.iter().enumerate() {
                if matches!(step, Step::Deparse(_)) {
                    self.unless_sent(&stage.steps[at + 1..], call);
                    self.unless_again(&stage.steps[at + 1..], number);
                }
                let decides = matches!(step, Step::Decide(_));
                number += usize::from(decides);
                // A packet that comes so far leaves.
                if leaves.is_some_and(|leaves| at >= leaves) {
                    continue;
                }
                match step.decision().filter(|d| goes_again(program, self.c.facts.hook, d)) {
                    Some(d) => {
                        let is_entered = d.then.path().is_some_and(|path| path.bytes == Bytes::Entered);
                        if is_entered {
                            self.again(d, number - 1);
                        }
                    }
                    None => self.step(step, call),
                }
                if matches!(step, Step::Deparse(_)) {
                    call = drop;
                }
            }
        }
    }

    /// PNA: emits the drop of a packet that the decisions after the deparser do not send. It comes before the deparser, which needs a port.
    fn unless_sent(&mut self, later: &[Step], drop: &str) {
        let drops = |d: &Decision| if let Fate::Drop(name) = &d.then { Some(*name) } else { None };
        let reason = later.iter().filter_map(Step::decision).find_map(drops);
        let condition = match later.iter().find_map(leaving) {
            Some(when) => self.c.condition(when),
            // The program never sends a packet.
            None if later.iter().all(drops_all) => Some("0".to_string()),
            None => None,
        };
        let reason = self.reason(reason.unwrap_or(drops::DROP));
        if let Some(condition) = condition {
            self.c.text.line(format!("if (!({condition}))"));
            self.c.text.line(format!("    return {drop}, s->site ? s->site - 1 : {reason});"));
        }
    }

    /// What a packet on the way to the port `to` knows.
    pub(super) fn at_stage(&self) -> Known<'static> {
        let length = self.c.facts.hook.length();
        Known {
            port: "to",
            replica: "0",
            length,
            clock: "micros()",
            direction: "is_host_port(to)",
            queue: None,
        }
    }

    /// The C of the port where packets leave.
    pub(super) fn port_of_departure(&mut self) -> Option<String> {
        let mut decisions = self.c.program.pipeline.decisions();
        let port = decisions.find_map(|d| match d.then.path()? {
            Path { stage: None, to: To::Port(port), .. } => Some(port.clone()),
            _ => None,
        })?;
        Some(self.c.frame_expr(&port))
    }

    /// The C of the greatest size of a fragment, and of the identification; `None` if the program does not fragment packets.
    pub(super) fn fragment_request(&self) -> Option<[String; 2]> {
        let fragment = self.c.program.pipeline.fragment()?;
        Some([fragment.size, fragment.identification].map(|var| format!("s->{}", self.c.names.var(var))))
    }

    /// Emits the end of a packet that is to leave as fragments and is in a lane, or arrives where the host says that it goes on: it goes on unchanged
    /// to where fragments are made.
    fn fragmented_elsewhere(&mut self) {
        if let (true, Some([size, _])) = (self.options.lanes, self.fragment_request()) {
            let unchanged = if self.c.facts.rounds { " && !(again && t->changed)" } else { "" };
            self.c.text.line(format!("if ({size} && (from->lane || from->flags & DEFER){unchanged})"));
            let verdict = if self.c.facts.hook == Hook::Xdp { "XDP_PASS" } else { "TC_ACT_OK" };
            self.c.text.line(format!("    return {verdict};"));
        }
    }

    /// Emits the departure of all fragments but the last one, if the packet is to leave as fragments. If it cannot, it is dropped.
    pub(super) fn leave_as_fragments(&mut self) {
        let Some([size, identification]) = self.fragment_request() else { return };
        let reason = self.reason(drops::CANNOT_FRAGMENT);
        let (packet, t) = (self.c.facts.hook.packet(), &mut self.c.text);
        t.line(match self.c.facts.hook {
            Hook::Xdp => format!("if ({size} && needs_fragments(xdp, {size}))"),
            Hook::Tc | Hook::Frame => format!(
                "if ({size} && fragment(skb, (u64)to->flags << 32 | to->ifindex, {size}, {identification}))"
            ),
        });
        t.line(format!("    return count_and_drop({packet}, t, {reason});"));
    }

    /// Emits the drop of a packet that was ended by a parser or an assertion.
    fn unless_ended(&mut self, drop: &str) {
        self.c.text.line("if (s->ended)");
        self.c.text.line(format!("    return {drop}, s->ended - 1);"));
    }

    /// Emits a step of a stage. `drop` is the beginning of the call that drops the packet.
    pub(super) fn step(&mut self, step: &Step, drop: &str) {
        let packet = self.c.facts.hook.packet();
        match step {
            Step::Parse(role, errors) => {
                let call = self.c.facts.call_stage(*role);
                self.c.text.line(format!("{call};"));
                if self.c.facts.hook == Hook::Xdp {
                    self.xdp_beyond(drop);
                }
                self.unless_ended(drop);
                self.c.write_errors(errors);
            }
            Step::Control(role) if self.c.program.control(*role).is_none() => {}
            Step::Control(role) => {
                let call = self.c.facts.call_stage(*role);
                self.c.text.line(format!("{call};"));
                if self.c.facts.ends {
                    self.unless_ended(drop);
                }
                let applies = matches!(role, Role::PreControl | Role::Ingress | Role::Egress);
                if applies && self.can_be_busy() {
                    let busy = self.reason(BUSY);
                    self.c.text.line("if (t->busy)");
                    self.c.text.line(format!("    return {drop}, {busy});"));
                }
            }
            Step::Deparse(role) => {
                if *role == Role::Deparser {
                    self.fragmented_elsewhere();
                }
                // The last deparser runs only for a packet whose port is attached.
                if *role == Role::Deparser && !self.paths {
                    match self.c.facts.hook {
                        Hook::Xdp => self.xdp_destination(drop),
                        Hook::Tc | Hook::Frame => self.tc_destination(drop),
                    }
                }
                self.deparse(*role);
            }
            Step::Truncate(var, _) => {
                let resize = self.reason(drops::BAD_RESIZE);
                let length = format!("s->{}", self.c.names.var(*var));
                self.c.text.line(format!("if ({length} && truncate({packet}, {length} - 1))"));
                self.c.text.line(format!("    return {drop}, {resize});"));
            }
            // [`Ebpf::leave_as_fragments`] does it.
            Step::Fragment(_) => {}
            Step::Decide(decision) => self.decision(decision, drop),
        }
    }

    /// Emits the call of a deparser.
    pub(super) fn deparse(&mut self, role: Role) {
        let drop = self.drop_call();
        let no_sum = match self.c.facts.hook {
            Hook::Xdp => LONG_CHECKSUM,
            Hook::Tc | Hook::Frame => GSO_CHECKSUM,
        };
        let [sum, resize] = [no_sum, drops::BAD_RESIZE].map(|r| self.reason(r));
        self.c.text.open("");
        let call = self.c.facts.call_stage(role);
        self.c.text.line(format!("int failed = {call};"));
        self.c.text.line("if (failed)");
        self.c.text.line(format!("    return {drop}, failed == 2 ? {sum} : {resize});"));
        self.c.text.close("");
        if self.c.facts.ends {
            self.unless_ended(drop);
        }
    }

    /// Emits a decision. A packet can be dropped, go on to the next stage, or leave.
    fn decision(&mut self, decision: &Decision, drop: &str) {
        match &decision.then {
            Fate::Drop(name) => {
                let condition = self.c.condition(&decision.when);
                let reason = self.reason(name);
                self.c.text.line(format!("if ({})", condition.as_deref().unwrap_or("1")));
                self.c.text.line(format!("    return {drop}, s->site ? s->site - 1 : {reason});"));
            }
            Fate::Go(path) if decision.when == When::Always && path.stage != Some(FIRST) => {
                if let Carry::New { passed, .. } = &path.carry
                    && !fits_the_stack(self.c.program, passed)
                {
                    let what = "more than 128 bytes of metadata and headers from ingress to egress";
                    let loc = self.c.program.controls.first().map(|c| c.loc).unwrap_or_default();
                    self.c.refuse(loc, what, "pass less, or run it on the native target");
                }
                self.c.go_on(path, &self.at_stage(), |emitter| emitter.text.line("zero_state(s);"));
            }
            // PSA at the XDP hook: no interface is attached to the port of recirculation, and the program does not name it.
            Fate::Go(path) if path.kind == PathKind::Recirculate => {
                let condition = self.c.condition(&decision.when);
                let reason = self.reason(drops::NO_SUCH_PORT);
                self.c.text.line(format!("if ({})", condition.as_deref().unwrap_or("1")));
                self.c.text.line(format!("    return {drop}, {reason});"));
            }
            // A program with such decisions has paths.
            Fate::Go(_) | Fate::Copy(_) => {}
        }
    }
}

/// The condition of a step that lets only some packets leave, as in PNA.
fn leaving(step: &Step) -> Option<&When> {
    let Decision { when, then, .. } = step.decision()?;
    let leaves = matches!(then, Fate::Go(Path { stage: None, to: To::Port(_), .. }));
    (leaves && *when != When::Always).then_some(when)
}

/// Whether a step drops every packet.
fn drops_all(step: &Step) -> bool {
    matches!(step, Step::Decide(decision) if decision.when == When::Always && matches!(decision.then, Fate::Drop(_)))
}
