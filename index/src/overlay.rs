//! What has the agent changed that is not in the tree yet? A small layer in memory, above the committed state.
//!
//! A file in it hides the file of the same path below, a path without content hides it for good. The layer has lanes of
//! its own for words and names, weighed by the statistics of the state below; pieces that an edit left as they were
//! keep their vectors, others have none.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::admit::{GREP_FILE_BYTES_MAX, Stamp, judge_head, why_bare};
use crate::document::{Content, Document};
use crate::file_no::FileNo;
use crate::files::Files;
use crate::lexical::{Commit, Lexical, LexicalError};
use crate::secret::is_secret_path;
use crate::symbols::{SymbolError, SymbolSegment, SymbolWriter};

/// The layer.
pub(crate) struct Overlay {
    /// Contents by path; nothing where the file is gone.
    contents: BTreeMap<String, Option<Vec<u8>>>,
    pub files: Files,
    pub lexical: Lexical,
    pub symbols: Arc<SymbolSegment>,
    /// By row.
    texts: Vec<String>,
}

/// Why the layer cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OverlayError {
    #[error("{0}")]
    Text(#[from] LexicalError),
    #[error("{0}")]
    Symbols(#[from] SymbolError),
}

impl Overlay {
    /// The layer of these contents. What may not enter an index hides what is below and is not found itself.
    pub(crate) fn of(contents: BTreeMap<String, Option<Vec<u8>>>) -> Result<Overlay, OverlayError> {
        let lexical = Lexical::in_memory()?;
        let mut writer = lexical.writer()?;
        let (mut files, mut texts, mut symbols) = (Files::default(), Vec::new(), SymbolWriter::default());
        // In the order of the paths, so that a row is the place in the list of texts.
        for (path, bytes) in &contents {
            let enters = |bytes: &&Vec<u8>| may_be_searched(path, bytes) && why_bare(path, bytes).is_none();
            let Some(bytes) = bytes.as_ref().filter(enters) else { continue };
            // From above, where no file of the store is ever numbered.
            let file = FileNo(u32::MAX - texts.len() as u32);
            let stamp = Stamp { size: bytes.len() as u64, mtime: 0, ctime: 0, inode: 0 };
            let document = Document::new(file, path, Content::of(path, bytes.clone(), stamp));
            writer.add(&document)?;
            files.add_document(&document, 0);
            symbols.add(file, &document.syntax, document.text.as_bytes());
            texts.push(document.text);
        }
        writer.commit(Commit { generation: 0, purged: 0, next_file: 0 })?;
        lexical.reload()?;
        files.settle(&FxHashSet::default());
        let symbols = Arc::new(symbols.in_memory()?);
        Ok(Overlay { contents, files, lexical, symbols, texts })
    }

    pub(crate) fn into_contents(self) -> BTreeMap<String, Option<Vec<u8>>> {
        self.contents
    }

    /// Whether the file of this path in the tree does not count.
    pub(crate) fn hides(&self, path: &str) -> bool {
        self.contents.contains_key(path)
    }

    /// The contents whose lines can be searched: bare ones, which are in no lane, are among them.
    pub(crate) fn searchable(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let present = self.contents.iter().filter_map(|(path, bytes)| Some((path.as_str(), bytes.as_deref()?)));
        present.filter(|(path, bytes)| may_be_searched(path, bytes))
    }

    pub(crate) fn text(&self, row: usize) -> &str {
        &self.texts[row]
    }
}

fn may_be_searched(path: &str, bytes: &[u8]) -> bool {
    !is_secret_path(path) && bytes.len() as u64 <= GREP_FILE_BYTES_MAX && judge_head(bytes).is_ok()
}
