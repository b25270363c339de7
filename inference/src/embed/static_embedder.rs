//! Which texts mean something similar, by a table alone?
//!
//! The vector of a text is the mean of the rows of its tokens, scaled to length 1: thousands of texts a second on one
//! core. The table is made from a sentence encoder once (`distil.rs`) and kept. Names in the text are split where
//! their case changes before tokens are looked up, because the vocabulary is one of prose.

use std::path::{Path, PathBuf};

use super::distil::distil;
use super::table::{METHOD, Table};
use super::wordpiece::{Names, WordPiece};
use super::{EmbedError, Embedder, TEXT_BYTES_MAX};

/// Turns texts into vectors by a table. Calls may come from several threads.
pub struct StaticEmbedder {
    words: WordPiece,
    table: Table,
}

/// Why there is no table.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StaticError {
    /// The model that it is made from cannot be loaded or computed.
    #[error(transparent)]
    Model(#[from] EmbedError),
    /// It cannot be written.
    #[error("cannot write the token table {}", path.display())]
    Write {
        /// Its file.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: std::io::Error,
    },
    /// `on_progress` said to stop.
    #[error("stopped while the token table was made")]
    Cancelled,
}

impl StaticEmbedder {
    /// The file of the table that is made from the model called `source`, in the directory of all tables.
    pub fn path(tables: &Path, source: &str) -> PathBuf {
        tables.join(format!("{source}-{METHOD}.table"))
    }

    /// Reads a table; `None` where there is none, or a damaged one.
    pub fn read(path: &Path) -> Option<StaticEmbedder> {
        let table = Table::read(path).ok()?;
        Some(StaticEmbedder { words: WordPiece::of(&table.vocabulary)?, table })
    }

    /// Makes the table from the model in `directory`, writes it to `path` and takes it. About a minute on two cores;
    /// `on_progress` hears tokens done and tokens in all, and stops it by saying false.
    pub fn make(
        directory: &Path,
        path: &Path,
        on_progress: &mut dyn FnMut(usize, usize) -> bool,
    ) -> Result<StaticEmbedder, StaticError> {
        let model = Embedder::load(directory)?;
        let table = distil(&model, on_progress)?.ok_or(StaticError::Cancelled)?;
        let words = WordPiece::of(&table.vocabulary)
            .ok_or_else(|| EmbedError::Failed { reason: "the vocabulary has no [UNK]".into() })?;
        table.write(path).map_err(|source| StaticError::Write { path: path.to_owned(), source })?;
        Ok(StaticEmbedder { words, table })
    }

    /// Numbers in a vector.
    pub fn dimension(&self) -> usize {
        self.table.dimension
    }

    /// One vector of length 1 for each text, in the order of the texts; zeros for a text without a known word.
    pub fn embed(&self, texts: &[String]) -> Vec<Vec<f32>> {
        let mut tokens = Vec::new();
        let embed = |text: &String| {
            tokens.clear();
            self.words.encode(&text[..text.floor_char_boundary(TEXT_BYTES_MAX)], Names::Split, &mut tokens);
            self.mean(&tokens)
        };
        texts.iter().map(embed).collect()
    }

    fn mean(&self, tokens: &[u32]) -> Vec<f32> {
        let mut sum = vec![0f32; self.table.dimension];
        for &token in tokens.iter().filter(|&&token| token != self.words.unknown()) {
            let (row, scale) = self.table.row(token);
            sum.iter_mut().zip(row).for_each(|(sum, &x)| *sum += f32::from(x) * scale);
        }
        super::unit(sum)
    }
}
