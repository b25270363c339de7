//! What happens next, and is it allowed?
//!
//! The pure parts of the agent: the gate judges an action, the audit log remembers it, the budget bounds it, and
//! `text` makes what comes back safe to show to a model and to a person.

pub mod audit;
pub mod budget;
pub mod gate;
pub mod text;
