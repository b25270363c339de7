//! Is it true? The workloads behind the numbers in SPEC.md; each is a binary of this crate.
//!
//! - `tasks`: how many real programs with one bug does `cloister run` repair, and at which cost?
