//! Runs p4c's packet cases on every target.

use harness::stf;
use interp::Interpreter;

use harness::targets::interp::InterpTarget;
use harness::targets::{Limits, Object, RunTarget, kernel};

/// The result of a packet case on a target.
#[derive(Clone, Debug)]
pub enum Case {
    Passed,
    /// The output differs from the expectations of p4c's case.
    Wrong(String),
    /// The target or this release does not support something in the case.
    Refused(String),
    /// The program is for an architecture that does not run on the target, or this machine cannot run the target.
    NotRun(String),
}

/// The targets that have a column, in order.
pub const TARGETS: [RunTarget; 4] = [RunTarget::Interp, RunTarget::Native, RunTarget::Tc, RunTarget::Xdp];

/// Runs a case on every target.
pub fn play(name: &str, program: &ir::Verified, text: &str) -> Vec<Case> {
    let case = match stf::parse(name, text) {
        Ok(case) => case,
        Err(errors) => {
            let text: String = errors.iter().map(|e| format!("{e}\n")).collect();
            return vec![Case::Refused(text); TARGETS.len()];
        }
    };
    TARGETS.iter().map(|target| on(*target, program, &case)).collect()
}

fn on(target: RunTarget, program: &ir::Verified, case: &stf::Case) -> Case {
    if target == RunTarget::Interp {
        return match Interpreter::new(program) {
            Ok(interpreter) => judged(&stf::run(case, &mut InterpTarget(interpreter))),
            Err(error) => Case::Refused(error.to_string()),
        };
    }
    let object = match Object::make(target, program) {
        Ok(Some(object)) => object,
        Ok(None) => return Case::NotRun("no such target".into()),
        Err(error) if error.is::<Limits>() => return Case::Refused(first_line(&error)),
        Err(error) => return Case::NotRun(first_line(&error)),
    };
    let report = match &object {
        Object::Kernel(object) => kernel::run_case(object, case, false),
        Object::Native(_) => object.load().map(|mut target| stf::run(case, &mut *target)),
    };
    match report {
        Ok(report) => judged(&report),
        Err(error) if matches!(target, RunTarget::Tc | RunTarget::Xdp) => Case::NotRun(first_line(&error)),
        Err(error) => Case::Wrong(format!("{error:#}")),
    }
}

fn judged(report: &stf::Report) -> Case {
    match (report.passed, report.unsupported()) {
        (true, _) => Case::Passed,
        (false, Some(why)) => Case::Refused(why.to_string()),
        (false, None) => Case::Wrong(report.text()),
    }
}

fn first_line(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    text.lines().next().unwrap_or_default().to_string()
}
