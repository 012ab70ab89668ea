//! p4c's packet cases on every target.

use control::stf::{self, Target};
use interp::Interpreter;

use crate::targets::interp::InterpTarget;
use crate::targets::{Limits, Object, RunTarget, tc};

/// What became of a packet case on a target.
#[derive(Clone, Debug)]
pub enum Case {
    Passed,
    /// What came out is not what p4c's case says.
    Wrong(String),
    /// The target, or this release, says that it lacks something.
    Refused(String),
    /// Of an architecture that does not run there, or on a machine that cannot.
    NotRun(String),
}

/// The targets that have a column, in order.
pub const TARGETS: [RunTarget; 3] = [RunTarget::Interp, RunTarget::Native, RunTarget::Tc];

/// Plays a case on every target.
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
            Ok(interpreter) => judged(&stf::run(case, &mut InterpTarget::new(interpreter))),
            Err(error) => Case::Refused(error.to_string()),
        };
    }
    if program.arch != ir::Arch::V1Model {
        return Case::NotRun("not v1model".into());
    }
    let object = match Object::make(target, program) {
        Ok(Some(object)) => object,
        Ok(None) => return Case::NotRun("no such target".into()),
        Err(error) if error.is::<Limits>() => return Case::Refused(first_line(&error)),
        Err(error) => return Case::NotRun(first_line(&error)),
    };
    match &object {
        Object::Tc(object) => on_kernel(object, case),
        Object::Native(_) => match object.load() {
            Ok(mut target) => judged(&stf::run(case, &mut *target)),
            Err(error) => Case::Wrong(format!("{error:#}")),
        },
    }
}

/// By test runs; where these do not take a frame, over interfaces of a network namespace of its own.
fn on_kernel(object: &tc::Object, case: &stf::Case) -> Case {
    match by_test_run(object, case) {
        Case::Passed => Case::Passed,
        first => match over_wires(object, case) {
            Case::NotRun(_) => first,
            second => second,
        },
    }
}

fn by_test_run(object: &tc::Object, case: &stf::Case) -> Case {
    match tc::TcTarget::load(object) {
        Ok(target) => finish(target, case),
        Err(error) => Case::NotRun(first_line(&error)),
    }
}

fn over_wires(object: &tc::Object, case: &stf::Case) -> Case {
    let run = io::netns::run_in_fresh(|| match tc::TcTarget::load_with_wires(object) {
        Ok(target) => finish(target, case),
        Err(error) => Case::NotRun(first_line(&error)),
    });
    run.unwrap_or_else(|error| Case::NotRun(error.to_string()))
}

fn finish(mut target: tc::TcTarget, case: &stf::Case) -> Case {
    let mut judged = judged(&stf::run(case, &mut target));
    // What the kernel refused to make shorter or longer was dropped, and counted: that is no wrong answer.
    if matches!(judged, Case::Wrong(_)) && target.drops(abi::drops::BAD_RESIZE).is_ok_and(|n| n.packets > 0) {
        judged =
            Case::Refused("a frame that the kernel cannot make as long or short as the program asks".into());
    }
    match target.remove() {
        Ok(()) => judged,
        Err(error) => Case::NotRun(first_line(&error)),
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
