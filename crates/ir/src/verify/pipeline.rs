//! The rules for the pipeline.

use super::{Check, Rule};
use crate::expr::Ty;
use crate::pipeline::{Carry, Decision, Fate, Input, Path, Source, Stage, Step, To, When};
use crate::program::VarId;

impl Check<'_> {
    pub(super) fn pipeline(&mut self) {
        for stage in &self.p.pipeline.stages {
            self.stage(stage);
        }
    }

    fn stage(&mut self, stage: &Stage) {
        self.inputs(&stage.inputs);
        for step in &stage.steps {
            match step {
                Step::Parse(..) | Step::Control(_) | Step::Deparse(_) => {}
                Step::Truncate(var, _) => self.request(*var),
                Step::Fragment(fragment) => {
                    self.loc = fragment.loc;
                    self.request(fragment.size);
                    self.request(fragment.identification);
                    self.expr(&fragment.port);
                    self.require(matches!(fragment.port.ty, Ty::Bit(_)), Rule::IndexType);
                }
                Step::Decide(decision) => self.decision(decision),
            }
        }
        let ends = match stage.steps.last() {
            Some(Step::Decide(decision)) => {
                decision.when == When::Always && !matches!(decision.then, Fate::Copy(_))
            }
            _ => false,
        };
        self.require(ends, Rule::StageEnds);
    }

    fn decision(&mut self, decision: &Decision) {
        self.loc = decision.loc;
        match &decision.when {
            When::Always => {}
            When::Holds(e) => self.condition(e),
            When::Requested(var, _) => self.request(*var),
        }
        if let Some(path) = decision.then.path() {
            self.path(path);
        }
    }

    fn path(&mut self, path: &Path) {
        match &path.to {
            To::Port(e) | To::Group(e) | To::Session(e) => {
                self.expr(e);
                self.require(matches!(e.ty, Ty::Bit(_)), Rule::IndexType);
            }
        }
        let known = path.stage.is_none_or(|s| s.index() < self.p.pipeline.stages.len());
        self.require(known, Rule::KnownStage);
        if let Carry::New { inputs, .. } = &path.carry {
            self.inputs(inputs);
        }
        self.inputs(&path.sets);
    }

    fn inputs(&mut self, inputs: &[Input]) {
        for input in inputs {
            if let Source::Value(e) = &input.value {
                self.expr(e);
            }
        }
    }

    fn request(&mut self, var: VarId) {
        let ty = self.p.vars.get(var.index()).map(|v| v.ty);
        self.require(ty.is_none_or(|ty| ty == Ty::Bit(32)), Rule::RequestType);
    }
}
