//! Does the real binary do what it promises? Whole runs on a temporary home, offline, in parallel.

mod audit;
mod bad_input;
mod bench_serve;
mod crash;
mod embedders;
mod home;
mod hooks;
mod hostile;
mod lookup;
mod model_server;
mod offline;
mod real_model;
mod second_model;
mod session;
mod tidy;
