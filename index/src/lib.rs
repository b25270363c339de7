//! Where in two million lines is it?
//!
//! A hybrid index over one directory tree: text (BM25 over a tokenizer that knows identifiers), symbols (definitions
//! found by tree-sitter) and, when the caller brings an [`Embedder`], vectors. The three lanes are joined by
//! reciprocal rank fusion. Everything here is derived from the tree and can be thrown away and rebuilt.
//!
//! The usual order of calls is [`Index::open`], [`Index::refresh`], then [`Index::search`] and [`Index::symbol`].
//! [`grep`], [`outline`] and [`parses`] need no index: they answer about bytes that the caller holds.
//!
//! Absent on purpose: this crate knows no model. Embeddings come through the [`Embedder`] trait, and without one the
//! text and symbol lanes work alone and the answer says so.

mod admit;
mod chunk;
mod classify;
mod cochange;
mod commit;
mod diff;
mod document;
mod embed;
mod embedding;
mod file_no;
mod files;
mod files_segment;
mod fuse;
mod git;
mod graph;
pub mod grep;
mod grep_files;
mod grep_indexed;
#[doc(hidden)]
pub mod grep_trial;
mod hash;
mod index;
mod inflect;
mod issue;
mod lane;
mod lanes;
mod language;
mod lexical;
mod manifest;
mod map;
#[cfg(any(feature = "vectors", test))]
mod matrix;
mod navigate;
mod outline;
mod outline_rules;
mod overlay;
mod pace;
mod pack;
mod parsed;
mod pipeline;
mod plan;
mod prefix;
mod prose;
mod query;
mod quote;
mod references;
mod refresh;
mod report;
mod rerank;
mod rules;
mod search;
mod secret;
mod segment;
mod sql;
mod store;
mod symbols;
mod syntax;
mod tested;
mod tokenize;
mod trace;
mod trigram;
mod turn;
mod varint;
#[cfg(feature = "vectors")]
mod vector;
#[cfg(all(not(feature = "vectors"), not(test)))]
#[path = "vector_absent.rs"]
mod vector;
#[cfg(all(not(feature = "vectors"), test))]
#[path = "tests/vector_plain.rs"]
mod vector;
mod view;
mod walk;
mod watch;
mod weights;

pub use embed::{EmbedError, Embedder};
pub use git::inert_git;
pub use index::{Index, OpenError, Status};
pub use navigate::{Call, Usage, Usages};
pub use outline::{Definition, Kind, outline};
pub use pack::{Pack, Piece};
pub use query::QueryKind;
pub use references::UseKind;
pub use refresh::RefreshError;
pub use report::{Progress, Report, SkipReason, Skipped, Stage, StageSeconds};
pub use rerank::RERANKED_MAX;
pub use search::{Answer, Hit, Lane, Query, SearchError};
pub use symbols::{SymbolAnswer, SymbolDefinition};
pub use syntax::{SyntaxError, parses};
pub use weights::Weights;

#[cfg(test)]
mod tests;
