//! What does a build without the `vectors` feature say about vectors? That it has none.

use std::collections::HashSet;
use std::hash::Hash;
use std::path::Path;

/// The one thing that can go wrong.
#[derive(Debug, Clone, thiserror::Error)]
#[error("this build has no vector lane (feature `vectors`)")]
pub(crate) struct VectorError;

/// Never made.
pub(crate) enum Vectors {}

impl Vectors {
    pub(crate) fn open(_: &Path, _: &str, _: usize) -> Result<Vectors, VectorError> {
        Err(VectorError)
    }

    pub(crate) fn create(_: &Path, _: &str, _: usize) -> Result<Vectors, VectorError> {
        Err(VectorError)
    }

    pub(crate) fn hashes<K: Eq + Hash>(&self) -> Result<HashSet<K>, VectorError> {
        match *self {}
    }

    pub(crate) fn probe(&self) -> Result<(), VectorError> {
        match *self {}
    }

    pub(crate) fn add<K>(&self, _: &[(K, Vec<f32>)]) -> Result<(), VectorError> {
        match *self {}
    }

    pub(crate) fn remove<K>(&self, _: &[K]) -> Result<(), VectorError> {
        match *self {}
    }

    pub(crate) fn nearest<K>(&self, _: &[f32], _: usize) -> Result<Vec<(K, f32)>, VectorError> {
        match *self {}
    }

    pub(crate) fn tidy(&self) -> Result<(), VectorError> {
        match *self {}
    }
}
