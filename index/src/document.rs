//! What do the lanes get to see of a file? One document: read, judged, parsed and cut once, whatever the lanes.

use std::path::Path;

use crate::admit::{Stamp, admit};
use crate::chunk::{Chunk, cut};
use crate::classify::{Class, classify};
use crate::file_no::FileNo;
use crate::hash::{ContentKey, content_key};
use crate::parsed::{Syntax, read};
use crate::report::SkipReason;

/// One file as the lanes see it.
#[derive(Debug)]
pub(crate) struct Document {
    pub file: FileNo,
    /// Relative to the root, `/` between components.
    pub path: String,
    /// The content; bytes that are not UTF-8 are replaced.
    pub text: String,
    /// The content as it is, where that is not UTF-8.
    raw: Option<Vec<u8>>,
    pub class: Class,
    pub key: ContentKey,
    pub stamp: Stamp,
    pub lines: usize,
    pub chunks: Vec<Chunk>,
    /// What it defines, uses and imports; offsets are of the text.
    pub syntax: Syntax,
}

impl Document {
    /// The content as it lies on the disk.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.raw.as_deref().unwrap_or(self.text.as_bytes())
    }

    /// Whether bytes had to be replaced.
    pub(crate) fn is_lossy(&self) -> bool {
        self.raw.is_some()
    }

    /// The lines of one chunk.
    pub(crate) fn text_of(&self, chunk: &Chunk) -> &str {
        &self.text[chunk.bytes.clone()]
    }

    /// Cuts content that is at hand.
    pub(crate) fn new(file: FileNo, path: &str, content: Content) -> Document {
        let Content { bytes, key, stamp } = content;
        let (text, raw) = match String::from_utf8(bytes) {
            Ok(text) => (text, None),
            Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), Some(error.into_bytes())),
        };
        let syntax = read(path, text.as_bytes()).unwrap_or_default();
        let pieces = cut(&text, &syntax.outline);
        Document {
            file,
            path: path.to_owned(),
            class: classify(path, text.as_bytes()),
            text,
            raw,
            key,
            stamp,
            lines: pieces.lines,
            chunks: pieces.chunks,
            syntax,
        }
    }
}

/// The bytes of a file that may enter the index.
pub(crate) struct Content {
    pub bytes: Vec<u8>,
    pub key: ContentKey,
    pub stamp: Stamp,
}

impl Content {
    /// Reads one file, or says why it may not enter.
    pub(crate) fn read(path: &Path) -> Result<Content, SkipReason> {
        let admitted = admit(path)?;
        Ok(Content { key: content_key(&admitted.bytes), bytes: admitted.bytes, stamp: admitted.stamp })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_are_kept_beside_the_text() {
        let bytes = b"/* gr\xfc\xdfe */\n".to_vec();
        let stamp = Stamp { size: 0, mtime: 0, ctime: 0, inode: 0 };
        let content = Content { key: content_key(&bytes), bytes: bytes.clone(), stamp };
        let document = Document::new(FileNo(1), "a.c", content);
        assert!(document.is_lossy() && document.text.contains('\u{fffd}'));
        assert_eq!(document.bytes(), bytes);
    }
}
