//! Which weights do we have, and are they the ones we think?
//!
//! A [`Catalogue`] names models, the sha256 of each of their files and where the bytes can be had. A [`Store`] holds
//! the bytes by their hash under a [`Home`] and shows a model only when it is whole. Bytes come in by
//! [`Store::pull`] (network) or [`Store::import`] (a disk); both hash while they copy, and nothing is trusted but
//! the hash. This crate prints nothing and knows no other room of the project.

mod catalogue;
mod digest;
mod fetch;
mod home;
mod import;
mod partial;
mod pull;
mod resolve;
mod store;
mod verify;

pub use catalogue::{Catalogue, CatalogueError, Model, ModelFile, Role, Source, Wheel, is_plain_name};
pub use digest::{Digest, ParseDigestError};
pub use fetch::{FetchError, Pip};
pub use home::{Home, HomeError};
pub use import::{ImportError, Imported};
pub use pull::{Attempt, Origin, Progress, ProgressFn, PullError, PullOptions, Pulled};
pub use resolve::{PathError, ResolveError, WeightFile, Weights};
pub use store::{Entry, FreeBytes, Removed, Store, StoreError};
pub use verify::{FileCheck, Verdict, VerifyError};
