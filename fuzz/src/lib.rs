//! What the fuzz targets share.
//!
//! | target | input | what must hold |
//! |---|---|---|
//! | preproc | any text | ends, without a panic, in bounded memory |
//! | parser | any text | the same; a tree always comes out |
//! | check | any text | the same; what is rejected has an error |
//! | program | P4, changed token by token ([`mutate`]) | the same; what is accepted becomes IR that `verify` takes, and runs |
//! | stf | any text | the same; what can be read is played on a program |

pub mod mutate;

use p4::{Diagnostics, Embedded, SourceMap};

/// A program's text, checked; nothing but the project's own includes is known.
pub fn accept(text: &str) -> (SourceMap, Diagnostics, Option<p4::ast::Program>) {
    let (mut map, mut diags) = (SourceMap::default(), Diagnostics::default());
    let tree = p4::accept(&mut map, "fuzz.p4", text, &[], &Embedded, &mut diags);
    assert!(tree.is_some() || diags.has_errors(), "rejected without a reason");
    if let Some(tree) = &tree {
        diags.extend(p4::lint(&p4::check(tree, &map).0, &map));
    }
    // What is said must be showable, too: places outside a file would panic here.
    p4::render::text(&map, diags.list(), false);
    (map, diags, tree)
}
