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
mod embed;
mod file_no;
mod fuse;
pub mod grep;
mod hash;
mod index;
mod language;
mod lexical;
mod manifest;
mod map;
#[cfg(any(feature = "vectors", test))]
mod matrix;
mod outline;
mod outline_rules;
mod pace;
mod plan;
mod prefix;
mod refresh;
mod report;
mod search;
mod segment;
mod store;
mod symbols;
mod syntax;
mod tokenize;
mod varint;
#[cfg(feature = "vectors")]
mod vector;
#[cfg(not(feature = "vectors"))]
#[path = "vector_absent.rs"]
mod vector;
mod walk;

pub use embed::{EmbedError, Embedder};
pub use index::{Index, OpenError, Status};
pub use outline::{Definition, Kind, outline};
pub use refresh::RefreshError;
pub use report::{Progress, Report, SkipReason, Skipped, Stage, StageSeconds};
pub use search::{Answer, Hit, Lane, Query, SearchError};
pub use symbols::{SymbolAnswer, SymbolDefinition};
pub use syntax::{SyntaxError, parses};

#[cfg(test)]
mod tests;
