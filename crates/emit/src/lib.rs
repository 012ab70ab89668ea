//! Verified IR to text.
