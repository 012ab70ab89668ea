//! Plays packet tests: each program is compiled once for a target, and loaded again for each case.

use std::collections::BTreeMap;

use interp::Interpreter;

use crate::stf::{self, Case, Report};
use crate::targets::interp::InterpTarget;
use crate::targets::{Limits, Object, RunTarget, kernel};

/// A case, and the targets of its line `# only: interp`, which are the only ones that can run it.
#[derive(Clone, Debug)]
pub struct Played {
    /// What is played, without the line that names targets.
    pub case: Case,
    only: String,
}

impl Played {
    /// Reads a case. The error has a line for each mistake, with its place.
    pub fn read(name: &str, text: &str) -> Result<Played, String> {
        let case = stf::parse(name, text)
            .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
        let only = text.lines().find_map(|line| line.strip_prefix("# only:")).unwrap_or_default();
        Ok(Played { case, only: only.trim().to_string() })
    }

    /// The targets that the case is for, if this target is not one of them.
    pub fn excludes(&self, target: RunTarget) -> Option<&str> {
        let named = self.only.split([',', ' ']).any(|name| name == target.name());
        (!self.only.is_empty() && !named).then_some(&self.only)
    }
}

/// What became of a case.
#[derive(Debug)]
pub enum Outcome {
    /// It was played.
    Done(Report),
    /// The target cannot play it, and why.
    Skipped(String),
}

/// The programs that were compiled so far.
#[derive(Default)]
pub struct Player {
    objects: BTreeMap<(String, &'static str), Object>,
}

impl Player {
    /// Plays a case on a target. `path` names the program among others. On tc and xdp, `veth` sends packets over interfaces.
    pub fn play(
        &mut self,
        target: RunTarget,
        (path, program): (&str, &ir::Verified),
        played: &Played,
        veth: bool,
    ) -> anyhow::Result<Outcome> {
        if let Some(only) = played.excludes(target) {
            return Ok(Outcome::Skipped(format!("the case is for {only} only")));
        }
        let report = match self.report(target, (path, program), &played.case, veth) {
            Err(error) if error.is::<Limits>() => return Ok(Outcome::Skipped(error.to_string())),
            report => report?,
        };
        Ok(match report.unsupported() {
            Some(why) if !report.passed => Outcome::Skipped(why.to_string()),
            _ => Outcome::Done(report),
        })
    }

    fn report(
        &mut self,
        target: RunTarget,
        (path, program): (&str, &ir::Verified),
        case: &Case,
        veth: bool,
    ) -> anyhow::Result<Report> {
        let key = (path.to_string(), target.name());
        if !self.objects.contains_key(&key) {
            let Some(object) = Object::make(target, program)? else {
                return Ok(stf::run(case, &mut InterpTarget(Interpreter::new(program)?)));
            };
            self.objects.insert(key.clone(), object);
        }
        match &self.objects[&key] {
            Object::Kernel(object) => kernel::run_case(object, case, veth),
            object => {
                let mut target = object.load()?;
                let report = stf::run(case, &mut *target);
                target.end()?;
                Ok(report)
            }
        }
    }
}
