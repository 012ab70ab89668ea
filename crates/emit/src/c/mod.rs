//! The parts of the C emitter that the compiled targets share. A target adds table lookups, the deparser and the entry point.
//!
//! * `text` writes lines with indentation, and `names` converts P4 names to C names.
//! * `place` decides which variables are locals, and `facts` collects what the emitter must know about the program. It also names the
//!   [`Machine`] and the [`Hook`].
//! * `expr`, `stmt`, `special` and `stack` emit expressions and statements.
//! * `header` converts fields between packet and state. `access` is the only way to the bytes of the packet that leaves.
//! * `pipeline` emits what the architecture does between the controls.
//! * `parser`, `table`, `deparse` and `sums` emit functions, and `emitter` emits the program.
//! * `partial` emits the numbers that updates of partial checksums need.
//! * `layout` makes the manifest's layouts of tables, counters and registers.
//! * `wide` emits values of more than 128 bits, which only native has, and the varbit fields of native. `varbit` emits those of the kernel.
//!
//! A value of at most 8, 16, 32 or 64 bits has the type `u8`, `u16`, `u32` or `u64`, and a value of at most 128 bits `u128`. The bits above
//! the value's width are always zero: an operation that could set them masks its result.

mod access;
mod deparse;
mod emitter;
mod expr;
mod facts;
pub mod header;
pub mod layout;
mod loops;
mod names;
mod parser;
pub mod partial;
mod pipeline;
mod place;
mod special;
pub mod stack;
mod stmt;
pub mod sums;
pub mod table;
mod text;
pub mod varbit;
pub mod wide;

pub use access::Emitted;
pub use deparse::UpdateAt;
pub use emitter::{BUFFER, Emitter};
pub use expr::{constant, equal, flipped, mask, signed_range};
pub use facts::{Facts, Hook, Machine};
pub use names::Names;
pub use pipeline::{FIRST, Known, Which, fits_the_stack, goes_again, has_rounds, is_straight, stage_name};
pub use place::{Home, Unit, Units};
pub use stmt::Body;
pub use text::Text;

use ir::Ty;

/// The common part of all programs.
pub const PRELUDE: &str = include_str!("prelude.h");

/// The drop reason of PSA and PNA programs, which is the last one of each target. v1model programs do not have it.
pub const DROPPED: (&str, &str) =
    (abi::drops::DROP, "the program set its metadata to drop, or did not send the packet");

/// The C type of a value. `None` for `varbit` and for more than 128 bits.
pub fn c_type(ty: Ty) -> Option<&'static str> {
    if ty.is_varbit() {
        return None;
    }
    Some(match ty.width() {
        0..=8 => "u8",
        9..=16 => "u16",
        17..=32 => "u32",
        33..=64 => "u64",
        65..=128 => "u128",
        _ => return None,
    })
}

/// The size in bits of the C type that holds a value of `width` bits.
pub fn container(width: u32) -> u32 {
    abi::manifest::Param::size_of(width) * 8
}
