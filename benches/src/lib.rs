//! Is it true? The workloads behind the numbers in SPEC.md.
//!
//! - `tasks`, a binary: how many real programs with one bug does `cloister run` repair, and at which cost?
//! - [`serve`]: how fast is a model server at what an agent does? `cloister bench serve`.
//! - [`table`]: how what was measured is shown.

pub mod serve;
pub mod table;
