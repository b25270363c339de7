//! What does a build without the `vectors` feature say about vectors? That it has none.

use std::path::Path;

use rustc_hash::FxHashSet;

use crate::hash::PieceHash;

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

    pub(crate) fn hashes(&self) -> Result<FxHashSet<PieceHash>, VectorError> {
        match *self {}
    }

    pub(crate) fn probe(&self) -> Result<(), VectorError> {
        match *self {}
    }

    pub(crate) fn add(&self, _: &[(PieceHash, Vec<f32>)]) -> Result<(), VectorError> {
        match *self {}
    }

    pub(crate) fn hold(&self, _: &[(PieceHash, Vec<f32>)]) -> Result<(), VectorError> {
        match *self {}
    }

    pub(crate) fn remove(&self, _: &[PieceHash]) -> Result<(), VectorError> {
        match *self {}
    }

    pub(crate) fn nearest(&self, _: &[f32], _: usize) -> Result<Vec<(PieceHash, f32)>, VectorError> {
        match *self {}
    }

    pub(crate) fn tidy(&self) -> Result<(), VectorError> {
        match *self {}
    }
}
