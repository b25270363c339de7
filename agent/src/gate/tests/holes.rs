//! Holes that an attacker found in auto mode, where nobody is asked; each stays closed.

use super::*;

mod files;
mod git;
mod others;
mod programs;

/// What auto mode lets through of commands that must be denied, and denies of those that must not be.
#[track_caller]
fn in_auto(denied: &[&str], allowed: &[&str]) {
    let policy = shipped();
    let context = Context { mode: Mode::Auto, ..Context::default() };
    let verdict = |command: &&&str| judge(&policy, &run(command), &context).verdict;
    let through: Vec<_> = denied.iter().filter(|c| verdict(c) != Verdict::Deny).collect();
    let stopped = allowed.iter().filter(|c| verdict(c) == Verdict::Deny);
    let stopped: Vec<_> = stopped.map(|c| format!("{c}: {}", judge(&policy, &run(c), &context).message())).collect();
    assert!(through.is_empty() && stopped.is_empty(), "let through: {through:#?}\nstopped: {stopped:#?}");
}
