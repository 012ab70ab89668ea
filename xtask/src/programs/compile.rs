//! Compiles the text of a program to the IR.

use ir::pass::Passes;
use p4::{Diagnostics, Severity, SourceMap};

use crate::include::Beside;

/// The reason why a program was not compiled: its first error, and whether that is a limit of this release (E05xx) and not a mistake.
pub struct Rejected {
    pub text: String,
    pub limit: bool,
}

/// A program as the front end lowers it, and the same program after all passes.
pub struct Forms {
    pub literal: ir::Verified,
    pub optimised: ir::Verified,
}

/// Compiles a program with all passes, as `strait` does, and without passes.
pub fn program(name: &str, text: &str) -> Result<Forms, Rejected> {
    let (mut map, mut diags) = (SourceMap::default(), Diagnostics::default());
    let forms = p4::accept(&mut map, name, text, &[], &Beside, &mut diags, |typed, map, diags| {
        let literal = p4::lower_verified(typed, map, &Passes::none(), diags)?;
        Some((Passes::default().run(literal.clone()), literal))
    });
    let (optimised, literal) = forms.flatten().ok_or_else(|| {
        let Some(first) = diags.list().iter().find(|d| d.severity == Severity::Error) else {
            return Rejected { text: "rejected without an error".into(), limit: false };
        };
        let line = map.position(first.primary.span).line;
        let limit = first.code.starts_with("E05") && first.code != "E0599";
        Rejected { text: format!("{} {} (line {line})", first.code, first.message), limit }
    })?;
    match optimised {
        Ok(optimised) => Ok(Forms { literal, optimised }),
        Err(faults) => Err(Rejected { text: format!("a pass breaks the program: {faults:?}"), limit: false }),
    }
}
