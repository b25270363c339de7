//! Which chunks mean something like this? Exact scan over LanceDB; the only file that names it.
//!
//! A row is the hash of a chunk's embedding text and its vector. Rows are content-addressed: a row is right for ever
//! under its embedder's name, in whatever order writes and crashes happened. So this lane bears no generation. Rows
//! that the manifest does not name are ignored by searches and dropped by the next refresh, rows that are missing are
//! computed by it, and a cancelled refresh loses none that it has written.
//!
//! LanceDB is asynchronous. It gets a runtime of its own, entered only from threads of its own, so that callers may
//! be inside another runtime.

use std::collections::HashSet;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float32Type;
use arrow_array::{FixedSizeListArray, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use futures::TryStreamExt;
use lancedb::query::{ExecutableQuery, QueryBase, Select};
use lancedb::table::{CompactionOptions, Duration, OptimizeAction};
use lancedb::{DistanceType, Table};

use crate::hash::short_hex;

const HASH: &str = "hash";
const VECTOR: &str = "vector";
const DISTANCE: &str = "_distance";
/// Rows named in one delete.
const DELETE_ROWS: usize = 500;
/// With more data files than this the table is compacted.
const DATA_FILES_MAX: usize = 24;
/// Old versions stay this long for those who still read them.
const VERSION_HOURS: i64 = 1;

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
}

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
        let runtime = Runtime::start()?;
        let uri = directory.to_str().ok_or_else(|| VectorError("its path is not UTF-8".to_owned()))?.to_owned();
        let name = format!("vectors_{}_{dimension}", short_hex(embedder.as_bytes()));
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
        Ok(Vectors { runtime, table, data_directory, dimension })
    }

    /// The hashes of all rows.
    pub(crate) fn hashes(&self) -> Result<HashSet<String>, VectorError> {
        let query = self.table.query().select(Select::columns(&[HASH]));
        let batches =
            self.runtime.block_on(async move { query.execute().await?.try_collect::<Vec<RecordBatch>>().await })??;
        let mut hashes = HashSet::new();
        for batch in &batches {
            let column = text_column(batch)?;
            hashes.extend(column.iter().flatten().map(str::to_owned));
        }
        Ok(hashes)
    }

    /// Reads every vector once, as a search does, so that damage shows before it matters.
    pub(crate) fn probe(&self) -> Result<(), VectorError> {
        let mut somewhere = vec![0.0; self.dimension];
        somewhere[0] = 1.0;
        self.nearest(&somewhere, 1).map(|_| ())
    }

    /// Adds rows that are not there yet.
    pub(crate) fn add(&self, rows: &[(String, Vec<f32>)]) -> Result<(), VectorError> {
        if rows.is_empty() {
            return Ok(());
        }
        let hashes = StringArray::from_iter_values(rows.iter().map(|(hash, _)| hash));
        let vectors = FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(
            rows.iter().map(|(_, vector)| Some(vector.iter().copied().map(Some))),
            self.dimension as i32,
        );
        let batch = RecordBatch::try_new(schema(self.dimension), vec![Arc::new(hashes), Arc::new(vectors)])
            .map_err(|error| VectorError(error.to_string()))?;
        let table = self.table.clone();
        self.runtime.block_on(async move { table.add(batch).execute().await })??;
        Ok(())
    }

    /// Drops rows.
    pub(crate) fn remove(&self, hashes: &[String]) -> Result<(), VectorError> {
        for some in hashes.chunks(DELETE_ROWS) {
            let list: Vec<String> = some.iter().map(|hash| format!("'{hash}'")).collect();
            let predicate = format!("{HASH} IN ({})", list.join(", "));
            let table = self.table.clone();
            self.runtime.block_on(async move { table.delete(predicate.as_str()).await })??;
        }
        Ok(())
    }

    /// The hashes of the nearest rows with their cosine distances (0 is the same direction), nearest first.
    pub(crate) fn nearest(&self, vector: &[f32], limit: usize) -> Result<Vec<(String, f32)>, VectorError> {
        let query = self
            .table
            .query()
            .nearest_to(vector)?
            .column(VECTOR)
            .distance_type(DistanceType::Cosine)
            .bypass_vector_index()
            .select(Select::columns(&[HASH, DISTANCE]))
            .limit(limit.max(1));
        let batches =
            self.runtime.block_on(async move { query.execute().await?.try_collect::<Vec<RecordBatch>>().await })??;
        let mut found = Vec::new();
        for batch in &batches {
            let hashes = text_column(batch)?;
            let distances = batch
                .column_by_name(DISTANCE)
                .and_then(|column| column.as_primitive_opt::<Float32Type>())
                .ok_or_else(|| VectorError("a search gave no distances".to_owned()))?;
            let rows = hashes.iter().zip(distances.iter());
            found.extend(rows.filter_map(|(hash, distance)| Some((hash?.to_owned(), distance?))));
        }
        found.sort_by(|left, right| left.1.total_cmp(&right.1).then_with(|| left.0.cmp(&right.0)));
        Ok(found)
    }

    /// Merges small files once there are many, and drops versions that nobody reads any more.
    pub(crate) fn tidy(&self) -> Result<(), VectorError> {
        let files = std::fs::read_dir(&self.data_directory).map(|entries| entries.count()).unwrap_or(0);
        if files <= DATA_FILES_MAX {
            return Ok(());
        }
        let table = self.table.clone();
        self.runtime.block_on(async move {
            table
                .optimize(OptimizeAction::Compact { options: CompactionOptions::default(), remap_options: None })
                .await?;
            let older_than = Some(Duration::hours(VERSION_HOURS));
            let prune =
                OptimizeAction::Prune { older_than, delete_unverified: None, error_if_tagged_old_versions: None };
            table.optimize(prune).await
        })??;
        Ok(())
    }
}

fn schema(dimension: usize) -> Arc<Schema> {
    let number = Arc::new(Field::new("item", DataType::Float32, true));
    Arc::new(Schema::new(vec![
        Field::new(HASH, DataType::Utf8, false),
        Field::new(VECTOR, DataType::FixedSizeList(number, dimension as i32), true),
    ]))
}

fn text_column(batch: &RecordBatch) -> Result<&StringArray, VectorError> {
    let column = batch.column_by_name(HASH).and_then(|column| column.as_string_opt::<i32>());
    column.ok_or_else(|| VectorError("a row has no hash".to_owned()))
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
