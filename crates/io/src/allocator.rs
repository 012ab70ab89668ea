//! A setting of mimalloc, the allocator of the command line.
//!
//! A module with `unsafe`. Its invariant: an option is set by its number, which mimalloc knows.
#![allow(unsafe_code)]

use libmimalloc_sys::{mi_option_eager_commit_delay, mi_option_set};

/// `mi_option_purge_delay` of mimalloc.h, which libmimalloc-sys does not name: it is the one behind this.
const PURGE_DELAY: i32 = mi_option_eager_commit_delay + 1;

/// Gives freed memory back to the system at once, and not at the next allocation behind some milliseconds, which an idle process does not make: a
/// server keeps nothing of what its clients had.
pub fn give_back_at_once() {
    // SAFETY: a number and a value are passed; the option is one of mimalloc's.
    unsafe { mi_option_set(PURGE_DELAY, 0) }
}
