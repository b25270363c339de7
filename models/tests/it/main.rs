//! Does the crate do what it says, seen from outside? One binary for all of it; nothing here needs a network.

mod catalogue;
mod crash;
mod hub;
mod hub_pull;
mod store;
mod wheel_pull;
mod world;
