//! What names a piece of content? Its SHA-256, written in lower-case hex.

use sha2::{Digest, Sha256};

/// The SHA-256 of `bytes` as 64 hex digits.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// The first half of the SHA-256 of `bytes` as 32 hex digits: enough to name a chunk, half the room.
pub(crate) fn short_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes)[..16])
}

/// A number that names the parts in their order. Parts are length-prefixed, so ("ab", "c") differs from ("a", "bc").
pub(crate) fn number_of(parts: &[&[u8]]) -> u64 {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    let bytes = digest.finalize();
    u64::from_le_bytes(bytes[..8].try_into().expect("a SHA-256 has 32 bytes"))
}

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
        assert_eq!(sha256_hex(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(short_hex(b"abc"), "ba7816bf8f01cfea414140de5dae2223");
    }

    #[test]
    fn the_borders_between_parts_count() {
        assert_ne!(number_of(&[b"ab", b"c"]), number_of(&[b"a", b"bc"]));
    }
}
