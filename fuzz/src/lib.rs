//! What the fuzz targets share.
//!
//! | target | input | what must hold |
//! |---|---|---|
//! | preproc | any text | ends, without a panic, in bounded memory |
//! | parser | any text | the same; a tree always comes out |
//! | check | any text | the same; what is rejected has an error |
//! | program | P4, changed token by token ([`mutate`]) | the same; what is accepted becomes IR that `verify` takes, and runs |
//! | stf | any text | the same; what can be read is played on a program |
//! | p4runtime | any bytes | the same; what can be decoded is handled by a P4Runtime server, whose program goes on |
//! | names | any text, which becomes every name of a program | what is emitted is the same code, but for identifiers and comments |
//! | pref64 | any bytes | the same; what is read is a prefix that can carry IPv4 addresses |

pub mod mutate;

use p4::{Diagnostics, Embedded, SourceMap};

/// A program's text, checked, and lowered where it is right; nothing but the project's own includes is known.
pub fn accept(text: &str) -> (SourceMap, Diagnostics, Option<Option<ir::Verified>>) {
    let (mut map, mut diags) = (SourceMap::default(), Diagnostics::default());
    let made = p4::accept(&mut map, "fuzz.p4", text, &[], &Embedded, &mut diags, |typed, map, diags| {
        diags.extend(p4::lint(typed, map));
        let mut limits = Diagnostics::default();
        let program = p4::lower_verified(typed, map, &p4::Passes::default(), &mut limits);
        assert!(program.is_some() || limits.has_errors(), "does not run, and nobody says why");
        let bug = limits.list().iter().any(|d| d.code == "E0599");
        assert!(!bug, "{}", p4::render::text(map, limits.list(), false));
        program
    });
    assert!(made.is_some() || diags.has_errors(), "rejected without a reason");
    // What is said must be showable, too: places outside a file would panic here.
    p4::render::text(&map, diags.list(), false);
    (map, diags, made)
}
