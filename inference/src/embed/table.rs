//! How does a token table lie on the disk, and is what lies there what was written?
//!
//! Magic, method, sizes, the vocabulary (one token a line), one scale and one row of int8 per token, then the SHA-256
//! of all that. Little-endian. The file is written aside and renamed, so that there is either none or a whole one.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use models::Digest;

use super::wordpiece::NODES_MAX;

/// Changes whenever the same model would give another table.
pub(crate) const METHOD: u32 = 1;

const MAGIC: &[u8; 8] = b"cloistab";
const HEADER_BYTES: usize = 24;
const DIGEST_BYTES: usize = 64;
const TOKENS_MAX: usize = 1 << 20;
const DIMENSION_MAX: usize = 4096;
const FILE_BYTES_MAX: u64 = 1 << 30;

/// One vector per token of a vocabulary.
#[derive(Debug, PartialEq)]
pub(crate) struct Table {
    /// In the order of their numbers; none holds a line feed.
    pub vocabulary: Vec<String>,
    /// Numbers in a row.
    pub dimension: usize,
    /// What each row is to be multiplied with.
    pub scales: Vec<f32>,
    /// All rows, one after the other.
    pub rows: Vec<i8>,
}

/// Why there is no table to be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TableError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Damaged(&'static str),
}

impl Table {
    /// Rounds rows of floats to int8, each with a scale of its own.
    pub(crate) fn round(vocabulary: Vec<String>, dimension: usize, values: &[f32]) -> Table {
        let (mut scales, mut rows) = (Vec::with_capacity(vocabulary.len()), Vec::with_capacity(values.len()));
        for row in values.chunks(dimension) {
            let largest = row.iter().fold(0f32, |largest, x| largest.max(x.abs()));
            let scale = largest / f32::from(i8::MAX);
            scales.push(scale);
            rows.extend(row.iter().map(|x| if scale > 0.0 { (x / scale).round() as i8 } else { 0 }));
        }
        Table { vocabulary, dimension, scales, rows }
    }

    /// The row of a token and its scale.
    pub(crate) fn row(&self, token: u32) -> (&[i8], f32) {
        let at = token as usize;
        (&self.rows[at * self.dimension..(at + 1) * self.dimension], self.scales[at])
    }

    /// Reads a table and checks every byte of it.
    pub(crate) fn read(path: &Path) -> Result<Table, TableError> {
        let mut bytes = Vec::new();
        File::open(path)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
        let short = TableError::Damaged("it is too short");
        let body = bytes.len().checked_sub(DIGEST_BYTES).ok_or(short)?;
        let (body, digest) = bytes.split_at(body);
        if Digest::of(body).to_string().as_bytes() != digest {
            return Err(TableError::Damaged("its checksum does not match"));
        }
        Table::parse(body).ok_or(TableError::Damaged("it is of another form"))
    }

    fn parse(body: &[u8]) -> Option<Table> {
        let (header, rest) = body.split_at_checked(HEADER_BYTES)?;
        let number = |at: usize| Some(u32::from_le_bytes(header.get(at..at + 4)?.try_into().ok()?));
        let (method, tokens, dimension, text_bytes) = (number(8)?, number(12)?, number(16)?, number(20)?);
        let (tokens, dimension) = (tokens as usize, dimension as usize);
        let is_right = header.starts_with(MAGIC) && method == METHOD;
        if !is_right || tokens > TOKENS_MAX || !(1..=DIMENSION_MAX).contains(&dimension) {
            return None;
        }
        let (text, rest) = rest.split_at_checked(text_bytes as usize)?;
        let (scales, rows) = rest.split_at_checked(tokens * 4)?;
        let vocabulary: Vec<String> =
            std::str::from_utf8(text).ok()?.split_terminator('\n').map(str::to_owned).collect();
        let scales: Vec<f32> =
            scales.chunks_exact(4).map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]])).collect();
        let fits = vocabulary.len() == tokens && rows.len() == tokens * dimension && text.len() < NODES_MAX / 2;
        let rows = rows.iter().map(|&byte| byte as i8).collect();
        (fits && scales.iter().all(|scale| scale.is_finite())).then_some(Table { vocabulary, dimension, scales, rows })
    }

    /// Puts the table in its place, whole or not at all.
    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        let text: String = self.vocabulary.iter().flat_map(|token| [token.as_str(), "\n"]).collect();
        let sizes = [METHOD, self.vocabulary.len() as u32, self.dimension as u32, text.len() as u32];
        let mut body = MAGIC.to_vec();
        body.extend(sizes.iter().flat_map(|size| size.to_le_bytes()));
        body.extend(text.as_bytes());
        body.extend(self.scales.iter().flat_map(|scale| scale.to_le_bytes()));
        body.extend(self.rows.iter().map(|&x| x as u8));
        let digest = Digest::of(&body).to_string();
        let directory = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(directory)?;
        let aside = aside(path);
        let written = (|| {
            let mut file = File::create(&aside)?;
            file.write_all(&body)?;
            file.write_all(digest.as_bytes())?;
            file.sync_all()?;
            fs::rename(&aside, path)?;
            File::open(directory)?.sync_all()
        })();
        if written.is_err() {
            let _ = fs::remove_file(&aside);
        }
        written
    }
}

/// Of this process alone, so that two that make the same table do not meet.
fn aside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let vocabulary = ["[UNK]", "a", "##é"].map(str::to_owned).into();
        Table::round(vocabulary, 2, &[0.0, 0.0, 1.0, -2.0, 0.25, 0.125])
    }

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("below/table");
        table().write(&path).unwrap();
        assert_eq!(Table::read(&path).unwrap(), table());
        assert_eq!(table().rows, [0, 0, 64, -127, 127, 64]);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left aside");
    }

    #[test]
    fn no_damage_goes_unseen() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("table");
        table().write(&path).unwrap();
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 4;
            fs::write(&path, &bytes).unwrap();
            assert!(matches!(Table::read(&path), Err(TableError::Damaged(_))), "a change of byte {at}");
            fs::write(&path, &whole[..at]).unwrap();
            assert!(matches!(Table::read(&path), Err(TableError::Damaged(_))), "a cut at byte {at}");
        }
    }
}
