//! What a P4 program means.
