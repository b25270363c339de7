//! What do the lanes get to see of a file? One document: read, judged, parsed and cut once, whatever the lanes.

use std::path::Path;

use crate::admit::{Stamp, admit};
use crate::chunk::{Chunk, cut};
use crate::file_no::FileNo;
use crate::hash::{ContentKey, content_key};
use crate::outline::Outlined;
use crate::report::SkipReason;

/// A generator says so in one of this many first lines.
const MARKER_LINES: usize = 5;

/// What a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Class {
    Source,
    Test,
    Example,
    Docs,
    Generated,
    Vendored,
    Fixture,
    Lock,
    Config,
}

impl Class {
    const ALL: [Class; 9] = [
        Class::Source,
        Class::Test,
        Class::Example,
        Class::Docs,
        Class::Generated,
        Class::Vendored,
        Class::Fixture,
        Class::Lock,
        Class::Config,
    ];

    /// As the manifest writes it.
    pub(crate) fn number(self) -> u8 {
        self as u8
    }

    /// What [`Class::number`] wrote; a number of the future is a source.
    pub(crate) fn of_number(number: u8) -> Class {
        Class::ALL.get(usize::from(number)).copied().unwrap_or(Class::Source)
    }

    /// By the path and the first lines.
    pub(crate) fn of(path: &str, text: &str) -> Class {
        let says_generated =
            |line: &str| line.contains("@generated") || line.contains("DO NOT EDIT") || line.contains("Do not edit");
        if text.lines().take(MARKER_LINES).any(says_generated) {
            return Class::Generated;
        }
        let mut parts: Vec<&str> = path.split('/').collect();
        let name = parts.pop().unwrap_or_default();
        let within = |names: &[&str]| parts.iter().any(|part| names.contains(part));
        if within(&["vendor", "third_party", "node_modules"]) {
            Class::Vendored
        } else if within(&["fixtures", "testdata"]) {
            Class::Fixture
        } else if crate::fuse::is_test_path(path) {
            Class::Test
        } else if within(&["examples", "example"]) {
            Class::Example
        } else if within(&["docs", "doc"]) || [".md", ".rst", ".adoc"].iter().any(|end| name.ends_with(end)) {
            Class::Docs
        } else if [".toml", ".yml", ".yaml", ".ini", ".cfg", ".json"].iter().any(|end| name.ends_with(end)) {
            Class::Config
        } else {
            Class::Source
        }
    }
}

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
    /// All definitions, in the order of their first byte.
    pub outline: Vec<Outlined>,
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
        let pieces = cut(path, &text);
        Document {
            file,
            path: path.to_owned(),
            class: Class::of(path, &text),
            text,
            raw,
            key,
            stamp,
            lines: pieces.lines,
            chunks: pieces.chunks,
            outline: pieces.outline,
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

    #[track_caller]
    fn check(path: &str, text: &str, expected: Class) {
        assert_eq!(Class::of(path, text), expected, "{path}");
        assert_eq!(Class::of_number(expected.number()), expected);
    }

    #[test]
    fn what_a_file_is_for_shows_in_its_place_and_its_first_lines() {
        check("src/a.rs", "fn a() {}\n", Class::Source);
        check("src/a.rs", "// @generated by a tool\nfn a() {}\n", Class::Generated);
        check("src/a.go", "\n// Code generated by a tool. DO NOT EDIT.\n", Class::Generated);
        check("src/a.go", "1\n2\n3\n4\n5\n// DO NOT EDIT\n", Class::Source);
        check("vendor/x/a.c", "", Class::Vendored);
        check("tests/a.rs", "", Class::Test);
        check("testdata/a.json", "", Class::Fixture);
        check("examples/a.rs", "", Class::Example);
        check("README.md", "", Class::Docs);
        check("Cargo.toml", "", Class::Config);
    }

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
