//! What names a piece of content? A file its SHA-256, a piece of one the first 64 bits of its.
//!
//! Only the name of a whole file decides whether something is the same, so only it withstands a forger. Pieces are
//! hashed by the hundred thousand, and two that were made to collide share no more than a vector.

use std::fmt;

use sha2::{Digest, Sha256};

/// Names the content of a file: SHA-256 of `blob LENGTH\0` and its bytes, which is git's own name for it in a
/// repository whose object format is SHA-256.
pub(crate) type ContentKey = [u8; 32];

/// See [`ContentKey`].
pub(crate) fn content_key(bytes: &[u8]) -> ContentKey {
    let mut digest = Sha256::new();
    digest.update(format!("blob {}\0", bytes.len()));
    digest.update(bytes);
    digest.finalize().into()
}

/// Names a piece of text, wherever it stands: the first 64 bits of its SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PieceHash(u64);

impl PieceHash {
    /// Of the parts one after the other.
    pub(crate) fn of(parts: &[&[u8]]) -> PieceHash {
        let mut digest = Sha256::new();
        parts.iter().for_each(|part| digest.update(part));
        let bytes: [u8; 32] = digest.finalize().into();
        PieceHash(u64::from_le_bytes(bytes[..8].try_into().expect("eight of 32 bytes")))
    }

    pub(crate) fn from_bytes(bytes: [u8; 8]) -> PieceHash {
        PieceHash(u64::from_le_bytes(bytes))
    }

    pub(crate) fn to_bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }

    #[cfg(any(test, feature = "vectors"))]
    pub(crate) fn from_number(number: u64) -> PieceHash {
        PieceHash(number)
    }

    #[cfg(any(test, feature = "vectors"))]
    pub(crate) fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for PieceHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The first half of the SHA-256 of `bytes` as 32 hex digits.
#[cfg(any(test, feature = "vectors"))]
pub(crate) fn short_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes)[..16])
}

#[cfg(any(test, feature = "vectors"))]
fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(DIGITS[usize::from(byte >> 4)] as char);
        text.push(DIGITS[usize::from(byte & 15)] as char);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_the_one_that_the_standard_gives() {
        assert_eq!(short_hex(b"abc"), "ba7816bf8f01cfea414140de5dae2223");
    }

    #[test]
    fn the_content_key_is_the_name_that_git_gives_in_a_sha_256_repository() {
        // git hash-object --object-format=sha256 of an empty file
        assert_eq!(hex(&content_key(b"")), "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813");
    }

    #[test]
    fn a_piece_hash_is_of_the_whole_however_it_is_cut() {
        assert_eq!(PieceHash::of(&[b"a", b"b"]), PieceHash::of(&[b"ab"]));
    }
}
