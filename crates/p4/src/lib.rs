//! P4-16 text in; IR or diagnostics out.
