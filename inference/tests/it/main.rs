//! Does the crate keep its promises, seen from outside?
//!
//! Tests on a tiny random model always run. Those that load a real model run with `CLOISTER_SLOW=1` and the files of
//! `CLOISTER_TEST_MODELS` (or `dev/models` beside the checkout); those on reference cases need `CLOISTER_CASES` (or
//! `shared/cases` beside the checkout); the one on other people's clients needs `CLOISTER_TEST_CLIENTS`. Each says so when it is skipped.

mod api;
mod batching;
mod bert;
mod chat;
mod clients;
mod embedding;
mod engine;
mod found;
mod gguf_embedding;
mod loading;
mod model;
mod steered;
mod tiny;
mod tokenizer;
