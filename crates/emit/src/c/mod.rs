//! The C that compiled targets share. A target adds how tables are looked up, how packets leave, and what is around them.
//!
//! * `text`: lines and braces; `names`: P4 names as C names; `place`: where variables live; `facts`: what is known before a line is written,
//!   and for which [`Dialect`] it is;
//! * `access`: the one way to the bytes of the packet that leaves; `expr`, `stmt`, `special`, `stack`: code; `header`: fields in packets;
//!   `layout`: what a host must know; `parser`, `table`, `deparse`, `sums`: functions; `emitter`: the text as a whole.
//!
//! A value of at most 8, 16, 32 or 64 bits is a `u8` … `u64`, one of at most 128 a `u128`. Bits above a value's width
//! are zero, always: whatever may set them masks its result.

mod access;
mod deparse;
mod emitter;
mod expr;
mod facts;
pub mod header;
pub mod layout;
mod names;
mod parser;
mod place;
mod special;
pub mod stack;
mod stmt;
pub mod sums;
pub mod table;
mod text;

pub use access::Emitted;
pub use deparse::UpdateAt;
pub use emitter::{Emitter, stage_name};
pub use expr::{constant, equal, mask, signed_range};
pub use facts::{Dialect, Facts};
pub use names::Names;
pub use place::{Home, Stage, Unit, Units};
pub use stmt::Body;
pub use text::Text;

use ir::Ty;

/// The C that all programs begin with.
pub const PRELUDE: &str = include_str!("prelude.h");

/// The C type of a value, if it has one.
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

/// Bits of the C type that holds a value of that width.
pub fn container(width: u32) -> u32 {
    abi::manifest::Param::size_of(width) * 8
}
