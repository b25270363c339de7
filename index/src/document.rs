//! What do the lanes get to see of a file? One document: read, judged, parsed and cut once, whatever the lanes.

use std::path::Path;

use crate::admit::{FILE_BYTES_MAX, GREP_FILE_BYTES_MAX, Stamp, open, why_bare};
use crate::chunk::{Chunk, Cut, cut};
use crate::classify::{Class, classify};
use crate::file_no::FileNo;
use crate::hash::{ContentKey, content_key};
use crate::parsed::{Syntax, read};
use crate::report::SkipReason;
use crate::turn::{Turn, Turns};

/// One file as the lanes see it.
#[derive(Debug)]
pub(crate) struct Document {
    pub file: FileNo,
    /// Relative to the root, `/` between components.
    pub path: String,
    /// The content; bytes that are not UTF-8 are replaced. Empty where the document is bare.
    pub text: String,
    /// The content as it is, where that is not `text`.
    raw: Option<Vec<u8>>,
    /// Why it is in no lane but that of the trigrams. Then it has no lines, no chunks and no syntax.
    pub bare: Option<SkipReason>,
    pub class: Class,
    pub key: ContentKey,
    pub stamp: Stamp,
    pub lines: usize,
    pub chunks: Vec<Chunk>,
    /// What it defines, uses and imports; offsets are of the text.
    pub syntax: Syntax,
    /// Held while a large content is.
    _turn: Option<Turn>,
}

impl Document {
    /// The content as it lies on the disk.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.raw.as_deref().unwrap_or(self.text.as_bytes())
    }

    /// Whether bytes had to be replaced.
    pub(crate) fn is_lossy(&self) -> bool {
        self.raw.is_some() && self.bare.is_none()
    }

    /// The lines of one chunk.
    pub(crate) fn text_of(&self, chunk: &Chunk) -> &str {
        &self.text[chunk.bytes.clone()]
    }

    /// Cuts content that is at hand.
    pub(crate) fn new(file: FileNo, path: &str, content: Content) -> Document {
        let Content { bytes, key, stamp, bare, turn } = content;
        let class = classify(path, &bytes);
        // The text of a bare one is empty, and so is what is made of it.
        let (text, raw) = if bare.is_some() { (String::new(), Some(bytes)) } else { decoded(bytes) };
        let syntax = read(path, text.as_bytes()).unwrap_or_default();
        let Cut { chunks, lines } = cut(&text, &syntax.outline);
        Document { file, path: path.to_owned(), text, raw, bare, class, key, stamp, lines, chunks, syntax, _turn: turn }
    }
}

/// The text, and the bytes where they are not the same.
fn decoded(bytes: Vec<u8>) -> (String, Option<Vec<u8>>) {
    match String::from_utf8(bytes) {
        Ok(text) => (text, None),
        Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), Some(error.into_bytes())),
    }
}

/// The bytes of a file that may enter the index.
pub(crate) struct Content {
    pub bytes: Vec<u8>,
    pub key: ContentKey,
    pub stamp: Stamp,
    /// See [`Document::bare`].
    pub bare: Option<SkipReason>,
    turn: Option<Turn>,
}

impl Content {
    /// Reads one file, or says why it may not enter. A large one waits for its turn.
    pub(crate) fn read(path: &str, absolute: &Path, turns: &Turns) -> Result<Content, SkipReason> {
        let opened = open(absolute)?;
        let turn = opened.is_large().then(|| turns.take());
        // A file that grows meanwhile has no turn and must not become large.
        let bytes_max = if turn.is_some() { GREP_FILE_BYTES_MAX } else { FILE_BYTES_MAX };
        let stamp = opened.stamp;
        let bytes = opened.read(bytes_max)?;
        Ok(Content { turn, ..Content::of(path, bytes, stamp) })
    }

    /// Content that is at hand and may enter.
    pub(crate) fn of(path: &str, bytes: Vec<u8>, stamp: Stamp) -> Content {
        Content { key: content_key(&bytes), bare: why_bare(path, &bytes), bytes, stamp, turn: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_are_kept_beside_the_text() {
        let bytes = b"/* gr\xfc\xdfe */\n".to_vec();
        let stamp = Stamp { size: 0, mtime: 0, ctime: 0, inode: 0 };
        let document = Document::new(FileNo(1), "a.c", Content::of("a.c", bytes.clone(), stamp));
        assert!(document.is_lossy() && document.text.contains('\u{fffd}'));
        assert_eq!(document.bytes(), bytes);
    }

    #[test]
    fn a_bare_document_has_its_bytes_and_nothing_else() {
        let bytes = b"def f(): pass\n".to_vec();
        let stamp = Stamp { size: 0, mtime: 0, ctime: 0, inode: 0 };
        let content = Content { bare: Some(SkipReason::Minified), ..Content::of("a.py", bytes.clone(), stamp) };
        let document = Document::new(FileNo(1), "a.py", content);
        assert_eq!(document.bytes(), bytes);
        assert!(document.text.is_empty() && document.chunks.is_empty() && document.syntax.outline.is_empty());
        assert_eq!((document.lines, document.is_lossy()), (0, false));
    }
}
