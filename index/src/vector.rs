//! Which chunks mean something like this? Vectors at rest in LanceDB, scanned exactly in memory; the only file that
//! names LanceDB.
//!
//! A row is the hash of a chunk's embedding text and its vector, rounded to four bits a number. Rows are content-addressed: a row is right for ever under its embedder's name, in whatever order writes and crashes happened. So this lane bears
//! no generation. Rows that the manifest does not name are ignored by searches and dropped by the next refresh, rows
//! that are missing are computed by it, and a cancelled refresh loses none that it has written.
//!
//! The first search reads all rows into a [`Matrix`], which later writes through the same handle keep in step. A
//! handle is cheap to keep and dear to open: keep it for as long as the index is open. There is no approximate index:
//! see docs/decisions/9-static-vectors.md for where it would begin to pay.
//!
//! LanceDB is asynchronous. It gets a runtime of its own, entered only from threads of its own, so that callers may
//! be inside another runtime.

use std::future::Future;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::types::{UInt8Type, UInt64Type};
use arrow_array::{FixedSizeListArray, RecordBatch, UInt8Array, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use futures::TryStreamExt;
use lancedb::Table;
use lancedb::query::{ExecutableQuery, QueryBase, Select};
use lancedb::table::{CompactionOptions, Duration, OptimizeAction};
use rustc_hash::FxHashSet;

use crate::hash::{PieceHash, short_hex};
use crate::matrix::{Matrix, NUMBERS_MAX, pack, round};

const HASH: &str = "hash";
const VECTOR: &str = "vector";
/// Rows named in one delete.
const DELETE_ROWS: usize = 2000;
/// So many rows are held unwritten at most.
const HELD_ROWS_MAX: usize = 512;
/// With more data files than this the table is compacted.
const DATA_FILES_MAX: usize = 24;
/// Old versions stay this long for those who are reading them right now; who comes too late reads the newest.
const VERSION_SECONDS: i64 = 30;

/// Why the vector lane failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the vector lane failed: {0}")]
pub(crate) struct VectorError(String);

impl From<lancedb::Error> for VectorError {
    fn from(error: lancedb::Error) -> VectorError {
        VectorError(first_line(&error.to_string()))
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(300).collect()
}

/// The vectors of one embedder in one directory.
pub(crate) struct Vectors {
    runtime: Runtime,
    table: Table,
    data_directory: std::path::PathBuf,
    dimension: usize,
    /// Whether this handle made it: nobody else reads it yet.
    is_new: bool,
    /// All rows, once somebody has asked for them.
    matrix: Mutex<Option<Arc<Matrix>>>,
    /// Rows that are not written yet. Locked after `matrix`, where both are.
    held: Mutex<Rows>,
}

/// Keys and, one after the other, their numbers, packed.
type Rows = (Vec<PieceHash>, Vec<u8>);

impl Vectors {
    /// Opens the table of this embedder, or fails where there is none.
    pub(crate) fn open(directory: &Path, embedder: &str, dimension: usize) -> Result<Vectors, VectorError> {
        if !directory.is_dir() {
            return Err(VectorError("its directory is gone".to_owned()));
        }
        Vectors::with(directory, embedder, dimension, false)
    }

    /// Makes an empty table for this embedder.
    pub(crate) fn create(directory: &Path, embedder: &str, dimension: usize) -> Result<Vectors, VectorError> {
        Vectors::with(directory, embedder, dimension, true)
    }

    fn with(directory: &Path, embedder: &str, dimension: usize, create: bool) -> Result<Vectors, VectorError> {
        if !(1..=NUMBERS_MAX).contains(&dimension) {
            return Err(VectorError(format!("a vector of {dimension} numbers; at most {NUMBERS_MAX} are possible")));
        }
        let runtime = Runtime::start()?;
        let uri = directory.to_str().ok_or_else(|| VectorError("its path is not UTF-8".to_owned()))?.to_owned();
        let name = format!("int4_{}_{dimension}", short_hex(embedder.as_bytes()));
        let table_name = name.clone();
        let table = runtime.block_on(async move {
            let connection = lancedb::connect(&uri).execute().await?;
            let table = if create {
                connection.create_empty_table(&table_name, schema(dimension)).execute().await?
            } else {
                connection.open_table(&table_name).execute().await?
            };
            Ok::<Table, lancedb::Error>(table)
        })??;
        let data_directory = directory.join(format!("{name}.lance")).join("data");
        Ok(Vectors {
            runtime,
            table,
            data_directory,
            dimension,
            is_new: create,
            matrix: Mutex::new(None),
            held: Mutex::default(),
        })
    }

    /// The hashes of all rows.
    pub(crate) fn hashes(&self) -> Result<FxHashSet<PieceHash>, VectorError> {
        if let Some(matrix) = self.lock().as_ref() {
            return Ok(matrix.keys().iter().copied().collect());
        }
        let mut hashes = FxHashSet::default();
        for batch in &self.read(&[HASH])? {
            hashes.extend(keys_of(batch)?);
        }
        hashes.extend(&self.held().0);
        Ok(hashes)
    }

    /// Reads every vector once, as a search does, so that damage shows before it matters.
    pub(crate) fn probe(&self) -> Result<(), VectorError> {
        self.matrix().map(|_| ())
    }

    /// Adds rows that are not there yet. A call is a commit with files of its own: few calls with many rows each.
    pub(crate) fn add(&self, rows: &[(PieceHash, Vec<f32>)]) -> Result<(), VectorError> {
        let (keys, numbers) = self.rounded(rows)?;
        let mut held = self.held();
        self.write(&[&held.0[..], &keys].concat(), &[&held.1[..], &numbers].concat())?;
        *held = Rows::default();
        drop(held);
        self.extend(&keys, &numbers);
        Ok(())
    }

    /// Adds a few rows to this handle alone: a commit costs more than they do. They are written with the next
    /// [`Vectors::add`], or once they are many; a process that dies before makes another compute them again.
    pub(crate) fn hold(&self, rows: &[(PieceHash, Vec<f32>)]) -> Result<(), VectorError> {
        let (keys, numbers) = self.rounded(rows)?;
        let mut held = self.held();
        held.0.extend(&keys);
        held.1.extend(&numbers);
        if held.0.len() >= HELD_ROWS_MAX {
            self.write(&held.0, &held.1)?;
            *held = Rows::default();
        }
        drop(held);
        self.extend(&keys, &numbers);
        Ok(())
    }

    fn rounded(&self, rows: &[(PieceHash, Vec<f32>)]) -> Result<Rows, VectorError> {
        let mut packed = Vec::with_capacity(rows.len() * self.width());
        let mut numbers = Vec::with_capacity(self.dimension);
        for (_, vector) in rows {
            if vector.len() != self.dimension {
                return Err(VectorError(format!("a vector of {} numbers, not {}", vector.len(), self.dimension)));
            }
            numbers.clear();
            round(vector, &mut numbers);
            pack(&numbers, &mut packed);
        }
        Ok((rows.iter().map(|(key, _)| *key).collect(), packed))
    }

    /// Bytes of a row.
    fn width(&self) -> usize {
        self.dimension.div_ceil(2)
    }

    fn write(&self, keys: &[PieceHash], packed: &[u8]) -> Result<(), VectorError> {
        if keys.is_empty() {
            return Ok(());
        }
        let item = Arc::new(Field::new("item", DataType::UInt8, false));
        let width = self.width() as i32;
        let batch = FixedSizeListArray::try_new(item, width, Arc::new(UInt8Array::from(packed.to_vec())), None)
            .and_then(|vectors| {
                let hashes = UInt64Array::from_iter_values(keys.iter().map(|key| key.number()));
                RecordBatch::try_new(schema(self.dimension), vec![Arc::new(hashes), Arc::new(vectors)])
            })
            .map_err(|error| VectorError(error.to_string()))?;
        let table = self.table.clone();
        self.runtime.block_on(async move { table.add(batch).execute().await })??;
        Ok(())
    }

    fn extend(&self, keys: &[PieceHash], numbers: &[u8]) {
        if let Some(matrix) = self.lock().as_mut() {
            Arc::make_mut(matrix).extend(keys, numbers);
        }
    }

    /// Drops rows.
    pub(crate) fn remove(&self, hashes: &[PieceHash]) -> Result<(), VectorError> {
        if hashes.is_empty() {
            return Ok(());
        }
        for some in hashes.chunks(DELETE_ROWS) {
            let list: Vec<String> = some.iter().map(|hash| hash.number().to_string()).collect();
            let predicate = format!("{HASH} IN ({})", list.join(", "));
            let table = self.table.clone();
            self.runtime.block_on(async move { table.delete(predicate.as_str()).await })??;
        }
        let gone: FxHashSet<PieceHash> = hashes.iter().copied().collect();
        self.forget(&gone);
        if let Some(matrix) = self.lock().as_mut() {
            Arc::make_mut(matrix).remove(&gone);
        }
        Ok(())
    }

    fn forget(&self, hashes: &FxHashSet<PieceHash>) {
        let mut held = self.held();
        let (keys, numbers) = std::mem::take(&mut *held);
        for (key, row) in keys.iter().zip(numbers.chunks_exact(self.width())).filter(|(key, _)| !hashes.contains(key)) {
            held.0.push(*key);
            held.1.extend(row);
        }
    }

    /// The hashes of the nearest rows with their cosine distances (0 is the same direction), nearest first.
    pub(crate) fn nearest(&self, vector: &[f32], limit: usize) -> Result<Vec<(PieceHash, f32)>, VectorError> {
        if vector.len() != self.dimension {
            return Err(VectorError(format!("a query of {} numbers, not {}", vector.len(), self.dimension)));
        }
        Ok(self.matrix()?.nearest(vector, limit.max(1)))
    }

    /// Merges small files once there are many, and drops versions that nobody reads any more. Only with the writer's
    /// lock held: files that no version names are taken for those of a writer that died.
    pub(crate) fn tidy(&self) -> Result<(), VectorError> {
        let files = std::fs::read_dir(&self.data_directory).map(|entries| entries.count()).unwrap_or(0);
        let seconds = if self.is_new { 0 } else { VERSION_SECONDS };
        if files <= DATA_FILES_MAX { Ok(()) } else { self.tidy_older_than(seconds) }
    }

    fn tidy_older_than(&self, seconds: i64) -> Result<(), VectorError> {
        let table = self.table.clone();
        self.runtime.block_on(async move {
            table
                .optimize(OptimizeAction::Compact { options: CompactionOptions::default(), remap_options: None })
                .await?;
            table
                .optimize(OptimizeAction::Prune {
                    older_than: Some(Duration::seconds(seconds)),
                    delete_unverified: Some(true),
                    error_if_tagged_old_versions: None,
                })
                .await
        })??;
        Ok(())
    }

    /// All rows, read by the first who asks.
    fn matrix(&self) -> Result<Arc<Matrix>, VectorError> {
        let mut held = self.lock();
        if let Some(matrix) = held.as_ref() {
            return Ok(matrix.clone());
        }
        let batches = match self.read(&[HASH, VECTOR]) {
            Ok(batches) => batches,
            // Another process may have tidied the version away that was the newest when this table was opened.
            Err(_) => {
                let table = self.table.clone();
                self.runtime.block_on(async move { table.checkout_latest().await })??;
                self.read(&[HASH, VECTOR])?
            }
        };
        let mut matrix = Matrix::new(self.dimension);
        let mut seen = FxHashSet::default();
        for batch in &batches {
            let (keys, rows) = (keys_of(batch)?, packed_of(batch, self.width())?);
            // A writer that died after a write and did not know of it wrote the same row again.
            for (key, row) in keys.zip(rows.chunks_exact(self.width())) {
                if seen.insert(key) {
                    matrix.extend(&[key], row);
                }
            }
        }
        let own = self.held();
        for (key, row) in own.0.iter().zip(own.1.chunks_exact(self.width())).filter(|(key, _)| !seen.contains(*key)) {
            matrix.extend(&[*key], row);
        }
        drop(own);
        Ok(held.insert(Arc::new(matrix)).clone())
    }

    fn read(&self, columns: &[&str]) -> Result<Vec<RecordBatch>, VectorError> {
        let query = self.table.query().select(Select::columns(columns));
        Ok(self.runtime.block_on(async move { query.execute().await?.try_collect::<Vec<RecordBatch>>().await })??)
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Rows> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Arc<Matrix>>> {
        self.matrix.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn schema(dimension: usize) -> Arc<Schema> {
    let two_numbers = Arc::new(Field::new("item", DataType::UInt8, false));
    Arc::new(Schema::new(vec![
        Field::new(HASH, DataType::UInt64, false),
        Field::new(VECTOR, DataType::FixedSizeList(two_numbers, dimension.div_ceil(2) as i32), false),
    ]))
}

fn keys_of(batch: &RecordBatch) -> Result<impl Iterator<Item = PieceHash> + '_, VectorError> {
    let column = batch.column_by_name(HASH).and_then(|column| column.as_primitive_opt::<UInt64Type>());
    let column = column.ok_or_else(|| VectorError("a row has no hash".to_owned()))?;
    Ok(column.values().iter().copied().map(PieceHash::from_number))
}

fn packed_of(batch: &RecordBatch, width: usize) -> Result<&[u8], VectorError> {
    let lists = batch.column_by_name(VECTOR).and_then(|column| column.as_fixed_size_list_opt());
    let lists = lists.filter(|lists| lists.value_length() as usize == width);
    let packed = lists.and_then(|lists| lists.values().as_primitive_opt::<UInt8Type>());
    let packed = packed.map(|packed| &packed.values()[..]).filter(|packed| packed.len() == batch.num_rows() * width);
    packed.ok_or_else(|| VectorError("a row has no vector".to_owned()))
}

/// A small tokio runtime that may be entered and dropped anywhere.
struct Runtime(Option<tokio::runtime::Runtime>);

impl Runtime {
    fn start() -> Result<Runtime, VectorError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("index-vectors")
            .enable_all()
            .build()
            .map_err(|error| VectorError(error.to_string()))?;
        Ok(Runtime(Some(runtime)))
    }

    /// Runs a future to its end on a thread of its own. A panic over a damaged file becomes an error.
    fn block_on<F>(&self, future: F) -> Result<F::Output, VectorError>
    where
        F: Future + Send,
        F::Output: Send,
    {
        let runtime = self.0.as_ref().expect("taken only when dropped");
        std::thread::scope(|scope| scope.spawn(|| runtime.block_on(future)).join())
            .map_err(|_| VectorError("a file of it is damaged".to_owned()))
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
#[path = "vector_tests.rs"]
mod tests;
