//! Does the sandbox keep its promises? One binary; each module asks about one part of it.

mod apply;
mod boxes;
mod docker;
mod escapes;
mod forks;
mod harness;
mod limits;
mod reap;
mod thousand;
mod view;
mod warm;
