//! What stands for the vector lane in tests of a build without it? Rows in plain files, scanned from front to back.
//!
//! So the promises of the refresh about vectors are tested whether or not lancedb is compiled.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashSet;

use crate::hash::{PieceHash, short_hex};

#[derive(Debug, Clone, thiserror::Error)]
#[error("the vector lane failed: {0}")]
pub(crate) struct VectorError(String);

impl From<io::Error> for VectorError {
    fn from(error: io::Error) -> VectorError {
        VectorError(error.to_string())
    }
}

/// One file of rows: a line with the digest of the rest, then a line for each row, hash and numbers.
pub(crate) struct Vectors {
    path: PathBuf,
}

type Row = (PieceHash, Vec<f32>);

impl Vectors {
    pub(crate) fn open(directory: &Path, embedder: &str, dimension: usize) -> Result<Vectors, VectorError> {
        let path = directory.join(format!("{}-{dimension}", short_hex(embedder.as_bytes())));
        fs::metadata(&path)?;
        Ok(Vectors { path })
    }

    pub(crate) fn create(directory: &Path, embedder: &str, dimension: usize) -> Result<Vectors, VectorError> {
        fs::create_dir_all(directory)?;
        let path = directory.join(format!("{}-{dimension}", short_hex(embedder.as_bytes())));
        let vectors = Vectors { path };
        vectors.write(&[])?;
        Ok(vectors)
    }

    pub(crate) fn hashes(&self) -> Result<FxHashSet<PieceHash>, VectorError> {
        Ok(self.rows()?.into_iter().map(|(hash, _)| hash).collect())
    }

    pub(crate) fn probe(&self) -> Result<(), VectorError> {
        self.rows().map(|_| ())
    }

    pub(crate) fn add(&self, rows: &[Row]) -> Result<(), VectorError> {
        if rows.is_empty() {
            return Ok(());
        }
        let mut all = self.rows()?;
        all.extend(rows.iter().cloned());
        self.write(&all)
    }

    pub(crate) fn hold(&self, rows: &[Row]) -> Result<(), VectorError> {
        self.add(rows)
    }

    pub(crate) fn remove(&self, hashes: &[PieceHash]) -> Result<(), VectorError> {
        let mut all = self.rows()?;
        all.retain(|(hash, _)| !hashes.contains(hash));
        self.write(&all)
    }

    pub(crate) fn nearest(&self, vector: &[f32], limit: usize) -> Result<Vec<(PieceHash, f32)>, VectorError> {
        let length = |vector: &[f32]| vector.iter().map(|number| number * number).sum::<f32>().sqrt();
        let distance = |other: &[f32]| {
            let product: f32 = vector.iter().zip(other).map(|(left, right)| left * right).sum();
            1.0 - product / (length(vector) * length(other))
        };
        let mut found: Vec<(PieceHash, f32)> =
            self.rows()?.into_iter().map(|(hash, other)| (hash, distance(&other))).collect();
        found.sort_by(|left, right| left.1.total_cmp(&right.1).then_with(|| left.0.cmp(&right.0)));
        found.truncate(limit);
        Ok(found)
    }

    pub(crate) fn tidy(&self) -> Result<(), VectorError> {
        Ok(())
    }

    fn rows(&self) -> Result<Vec<Row>, VectorError> {
        let text = fs::read_to_string(&self.path)?;
        let (digest, rows) = text.split_once('\n').unwrap_or_default();
        if short_hex(rows.as_bytes()) != digest {
            return Err(VectorError("it is damaged".to_owned()));
        }
        let row = |line: &str| {
            let (hash, numbers) = line.split_once(' ').expect("as written");
            let hash = PieceHash::from_number(hash.parse().expect("as written"));
            (hash, numbers.split(' ').map(|number| number.parse().expect("as written")).collect())
        };
        Ok(rows.lines().map(row).collect())
    }

    fn write(&self, rows: &[Row]) -> Result<(), VectorError> {
        let mut text = String::new();
        for (hash, vector) in rows {
            let numbers: Vec<String> = vector.iter().map(f32::to_string).collect();
            text.push_str(&format!("{} {}\n", hash.number(), numbers.join(" ")));
        }
        let temporary = self.path.with_extension("new");
        fs::write(&temporary, format!("{}\n{text}", short_hex(text.as_bytes())))?;
        Ok(fs::rename(&temporary, &self.path)?)
    }
}
