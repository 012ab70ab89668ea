//! Runs the IR directly. The oracle for every other target.
