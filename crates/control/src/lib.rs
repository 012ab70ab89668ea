//! What operators and controllers say.
