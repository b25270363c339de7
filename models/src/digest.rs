//! Are these the bytes we think? The sha256 of a file, as a value.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Deserializer};
use sha2::Digest as _;

/// Bytes read, hashed and written at a time; a cancel is noticed between two of these.
pub(crate) const CHUNK_BYTES: usize = 256 * 1024;

/// A sha256. Written as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

/// The text is not 64 hexadecimal digits.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a sha256: 64 hexadecimal digits are needed")]
pub struct ParseDigestError(String);

impl Digest {
    /// The digest of bytes in memory.
    pub fn of(bytes: &[u8]) -> Digest {
        let mut hasher = Hasher::default();
        hasher.update(bytes);
        hasher.digest()
    }

    /// The digest of a file, read to its end: about a second a gigabyte.
    pub fn of_file(path: &Path) -> io::Result<Digest> {
        let hashed = hash(File::open(path)?, |_| true)?;
        Ok(hashed.expect("nobody stops it").1.digest())
    }
}

/// A digest in the making. It can be read at any point, so that a download can go on after a look.
#[derive(Clone, Default)]
pub(crate) struct Hasher(sha2::Sha256);

impl Hasher {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn digest(&self) -> Digest {
        Digest(self.0.clone().finalize().into())
    }
}

/// Hashes a reader to its end. `go_on` sees the bytes read so far after each chunk; when it says false the result is
/// `None`.
pub(crate) fn hash(mut from: impl Read, mut go_on: impl FnMut(u64) -> bool) -> io::Result<Option<(u64, Hasher)>> {
    let mut hasher = Hasher::default();
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut bytes = 0;
    loop {
        if !go_on(bytes) {
            return Ok(None);
        }
        match from.read(&mut chunk) {
            Ok(0) => return Ok(Some((bytes, hasher))),
            Ok(n) => {
                hasher.update(&chunk[..n]);
                bytes += n as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<Digest, ParseDigestError> {
        let bad = || ParseDigestError(text.to_string());
        if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(bad());
        }
        let mut bytes = [0; 32];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).map_err(|_| bad())?;
        }
        Ok(Digest(bytes))
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Digest, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_prints_what_it_parses() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::of(b"").to_string(), empty);
        assert_eq!(empty.to_uppercase().parse(), Ok(Digest::of(b"")));
    }

    #[test]
    fn a_file_has_the_digest_of_its_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let (path, bytes) = (directory.path().join("file"), vec![7; CHUNK_BYTES + 1]);
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(Digest::of_file(&path).unwrap(), Digest::of(&bytes));
        assert!(Digest::of_file(&directory.path().join("none")).is_err());
    }

    #[test]
    fn what_is_not_64_hexadecimal_digits_is_no_digest() {
        for text in ["", "e3b0", &"g".repeat(64), &"é".repeat(32), &"+1".repeat(32), &"0".repeat(65)] {
            assert!(text.parse::<Digest>().is_err(), "{text}");
        }
    }

    #[test]
    fn hashing_stops_when_told() {
        assert!(hash(io::repeat(0), |bytes| bytes < 1_000_000).unwrap().is_none());
    }
}
