//! Which matrix, which tiles of it, which rows: how is a product cut into tasks?
//!
//! A task takes some tiles' worth of columns of the output for all rows. Its weights stay in the second-level cache
//! while group after group of rows passes over them, and a group stays in the first while it meets the task's weights.

use super::activations::{Activations, GROUP_ROWS, Grain, Group, Rows};
use super::pool::Pool;
use super::q4k::Q4K;
use super::q5_0::Q5_0;
use super::q6k::Q6K;
use super::q8_0::Q8_0;
use super::tile::{LANES, Tile};
use std::sync::LazyLock;

/// The weights of a task when there are many rows: they fit in the second-level cache with room for the rows.
const PANEL_BYTES: usize = 512 << 10;

/// The weights of a task when one group holds all rows: enough to be worth a task, not more, so that threads of
/// unequal speed finish together.
const STREAM_BYTES: usize = 64 << 10;

/// With many rows, at least this many tasks for each thread, for the same reason.
const TASKS_PER_THREAD: usize = 4;

/// A type of weights in a GGUF file that can be packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types, reason = "the names that the format has")]
pub enum Kind {
    /// Four bits with a scale and a minimum for each 32.
    Q4K,
    /// Six bits with a scale for each 16.
    Q6K,
    /// Eight bits with a scale for each 32.
    Q8_0,
    /// Five bits with a scale for each 32.
    Q5_0,
}

impl Kind {
    /// The activations that weights of this type are multiplied with.
    pub fn grain(self) -> Grain {
        match self {
            Kind::Q4K | Kind::Q6K => Grain::By256,
            Kind::Q8_0 | Kind::Q5_0 => Grain::By32,
        }
    }

    /// Columns of a tile, and the bytes of a GGUF row that hold them.
    fn unit(self) -> (usize, usize) {
        match self {
            Kind::Q4K => (Q4K::SPAN, Q4K::BLOCK_BYTES),
            Kind::Q6K => (Q6K::SPAN, Q6K::BLOCK_BYTES),
            Kind::Q8_0 => (Q8_0::SPAN, Q8_0::BLOCK_BYTES),
            Kind::Q5_0 => (Q5_0::SPAN, Q5_0::BLOCK_BYTES),
        }
    }
}

/// Why a matrix cannot be packed. The caller multiplies it some other way.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PackError {
    /// The rows do not fill tiles.
    #[error("{rows} rows are not a multiple of {LANES}")]
    Rows {
        /// Rows of the matrix: outputs.
        rows: usize,
    },
    /// The columns do not fill tiles.
    #[error("{columns} columns are not a multiple of {span}")]
    Columns {
        /// Columns of the matrix: inputs.
        columns: usize,
        /// Columns of a tile.
        span: usize,
    },
    /// The blocks are not those of a matrix of this shape.
    #[error("{found} bytes where the shape has {expected}")]
    Bytes {
        /// How many bytes were given.
        found: usize,
        /// How many the shape has.
        expected: usize,
    },
}

/// A matrix of weights, laid out for multiplication.
pub struct Packed {
    rows: usize,
    columns: usize,
    tiles: Tiles,
}

#[allow(non_camel_case_types, reason = "the names that the format has")]
enum Tiles {
    Q4K(Box<[Q4K]>),
    Q6K(Box<[Q6K]>),
    Q8_0(Box<[Q8_0]>),
    Q5_0(Box<[Q5_0]>),
}

/// Evaluates `$body` with `$tiles` bound to the tiles, whatever their type.
macro_rules! with_tiles {
    ($of:expr, $tiles:ident => $body:expr) => {
        match $of {
            Tiles::Q4K($tiles) => $body,
            Tiles::Q6K($tiles) => $body,
            Tiles::Q8_0($tiles) => $body,
            Tiles::Q5_0($tiles) => $body,
        }
    };
}

impl Packed {
    /// Packs the matrix `[rows, columns]` whose GGUF blocks are `raw`, which is not needed afterwards.
    pub fn new(kind: Kind, rows: usize, columns: usize, raw: &[u8], pool: &Pool) -> Result<Packed, PackError> {
        let (span, block_bytes) = kind.unit();
        if rows == 0 || !rows.is_multiple_of(LANES) {
            return Err(PackError::Rows { rows });
        }
        if columns == 0 || !columns.is_multiple_of(span) {
            return Err(PackError::Columns { columns, span });
        }
        let expected = (columns / span * block_bytes).saturating_mul(rows);
        if raw.len() != expected {
            return Err(PackError::Bytes { found: raw.len(), expected });
        }
        let spans = columns / span;
        let tiles = match kind {
            Kind::Q4K => Tiles::Q4K(pack(spans, raw, pool)),
            Kind::Q6K => Tiles::Q6K(pack(spans, raw, pool)),
            Kind::Q8_0 => Tiles::Q8_0(pack(spans, raw, pool)),
            Kind::Q5_0 => Tiles::Q5_0(pack(spans, raw, pool)),
        };
        Ok(Packed { rows, columns, tiles })
    }

    /// How many numbers a product has.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many numbers a row of activations has.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The type of the weights.
    pub fn kind(&self) -> Kind {
        match self.tiles {
            Tiles::Q4K(_) => Kind::Q4K,
            Tiles::Q6K(_) => Kind::Q6K,
            Tiles::Q8_0(_) => Kind::Q8_0,
            Tiles::Q5_0(_) => Kind::Q5_0,
        }
    }

    /// How much memory it takes.
    pub fn bytes(&self) -> usize {
        with_tiles!(&self.tiles, tiles => size_of_val::<[_]>(tiles))
    }

    /// The products of the `m` rows of `x` with every row of the matrix: `out[i][j]` is `x[i]` times row `j`.
    ///
    /// # Panics
    ///
    /// When `x` is not `m` rows of [`columns`](Packed::columns), or `out` not `m` of [`rows`](Packed::rows).
    pub fn forward(&self, x: &[f32], m: usize, out: &mut [f32], pool: &Pool) {
        forward_each(&Activations::quantise(self.kind().grain(), x, m, pool), &mut [(self, out)], pool);
    }

    /// Row `row` as numbers: the embedding lookup.
    ///
    /// # Panics
    ///
    /// When there is no such row, or `out` is not [`columns`](Packed::columns) long.
    pub fn row(&self, row: usize, out: &mut [f32]) {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        assert_eq!(out.len(), self.columns);
        with_tiles!(&self.tiles, tiles => unpack(tiles, row, out));
    }

    /// How many tiles stand side by side above the same [`LANES`] rows.
    fn spans(&self) -> usize {
        self.columns / self.kind().unit().0
    }

    /// How many strips of [`LANES`] rows a task takes.
    fn strips_per_task(&self, groups: usize, threads: usize) -> usize {
        let strips = self.rows / LANES;
        let strip_bytes = self.bytes() / strips;
        if groups <= 1 {
            (STREAM_BYTES / strip_bytes).max(1)
        } else {
            (PANEL_BYTES / strip_bytes).min(strips / (threads * TASKS_PER_THREAD)).max(1)
        }
    }
}

/// Multiplies the rows of `x` with several matrices at once: for query, key and value, or gate and up. Each matrix comes
/// with the place for its product, as for [`Packed::forward`].
///
/// # Panics
///
/// When a matrix wants activations of another grain or width, or a place has another size.
pub fn forward_each(x: &Activations, products: &mut [(&Packed, &mut [f32])], pool: &Pool) {
    static BEST: LazyLock<Level> = LazyLock::new(|| Level::available().pop().unwrap_or(Level::Portable));
    forward_at(*BEST, x, products, pool);
}

/// Which instructions to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Level {
    /// Those that this processor has, the best last.
    pub fn available() -> Vec<Level> {
        let mut levels = vec![Level::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            levels.extend((is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")).then_some(Level::Avx2));
            levels.extend(super::avx512::detected().then_some(Level::Avx512));
        }
        levels
    }
}

pub(super) fn forward_at(level: Level, x: &Activations, products: &mut [(&Packed, &mut [f32])], pool: &Pool) {
    let mut tasks = Vec::new();
    for (matrix, out) in products.iter_mut() {
        assert_eq!(matrix.kind().grain(), x.grain(), "activations for another type of weights");
        assert_eq!(out.len(), x.rows() * matrix.rows, "a place of another size");
        assert!(x.rows() == 0 || x.width() == matrix.columns, "activations of another width");
        let place = Place { start: out.as_mut_ptr(), width: matrix.rows };
        let strips = matrix.rows / LANES;
        let each = matrix.strips_per_task(x.groups().len(), pool.threads());
        tasks.extend((0..strips).step_by(each).map(|first| (*matrix, first..strips.min(first + each), place)));
    }
    pool.run(tasks.len(), |i| {
        let (matrix, strips, place) = &tasks[i];
        with_tiles!(&matrix.tiles, tiles => {
            for (g, group) in x.groups().iter().enumerate() {
                for strip in strips.clone() {
                    let tiles = &tiles[strip * matrix.spans()..][..matrix.spans()];
                    multiply(level, tiles, group, |row, product| {
                        // SAFETY: the row is one of `x` and the strip one of the matrix, and the place was seen to
                        // have room for the products of both. No other task has the strip. The place is borrowed
                        // mutably until `run` has returned.
                        unsafe { place.put(g * GROUP_ROWS + row, strip, product) };
                    });
                }
            }
        });
    });
}

/// Calls `put` with each row of the group and its products with the rows of the strip.
fn multiply<T: Tile>(level: Level, tiles: &[T], group: &Group, put: impl FnMut(usize, &[f32; LANES])) {
    match group.rows() {
        1 => multiply_rows::<T, 1>(level, tiles, group, put),
        2 => multiply_rows::<T, 2>(level, tiles, group, put),
        3 => multiply_rows::<T, 3>(level, tiles, group, put),
        4 => multiply_rows::<T, 4>(level, tiles, group, put),
        5 => multiply_rows::<T, 5>(level, tiles, group, put),
        6 => multiply_rows::<T, 6>(level, tiles, group, put),
        7 => multiply_rows::<T, 7>(level, tiles, group, put),
        8 => multiply_rows::<T, 8>(level, tiles, group, put),
        rows => unreachable!("a group of {rows} rows"),
    }
}

fn multiply_rows<T: Tile, const R: usize>(
    level: Level,
    tiles: &[T],
    group: &Group,
    mut put: impl FnMut(usize, &[f32; LANES]),
) {
    let x = group.view::<R>();
    let products = match level {
        Level::Portable => T::dot(tiles, x),
        // SAFETY: this level is only chosen where its instructions were detected.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { dot_avx2(tiles, x) },
        // SAFETY: likewise.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { T::dot_avx512(tiles, x) },
    };
    for (row, product) in products.iter().enumerate() {
        put(row, product);
    }
}

/// The portable loop, compiled for a processor with wider registers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn dot_avx2<T: Tile, const R: usize>(tiles: &[T], x: Rows<'_, R>) -> [[f32; LANES]; R] {
    T::dot(tiles, x)
}

/// Where a product goes: rows of `width` numbers, written by several threads, each in its own columns.
#[derive(Clone, Copy)]
struct Place {
    start: *mut f32,
    width: usize,
}

// SAFETY: a pointer by itself does nothing; see `put`.
unsafe impl Sync for Place {}

impl Place {
    /// # Safety
    ///
    /// The place has the row and the strip, and nobody else reads or writes that strip of that row meanwhile.
    unsafe fn put(&self, row: usize, strip: usize, product: &[f32; LANES]) {
        // SAFETY: within the place and not aliased, as the caller promises.
        unsafe {
            let target = self.start.add(row * self.width + strip * LANES);
            target.copy_from_nonoverlapping(product.as_ptr(), LANES);
        }
    }
}

fn pack<T: Tile>(spans: usize, raw: &[u8], pool: &Pool) -> Box<[T]> {
    let row_bytes = spans * T::BLOCK_BYTES;
    let mut tiles = zeroed::<T>(raw.len() / row_bytes / LANES * spans);
    pool.each_chunk(&mut tiles, spans, |strip, tiles| {
        for lane in 0..LANES {
            let row = &raw[(strip * LANES + lane) * row_bytes..][..row_bytes];
            for (tile, block) in tiles.iter_mut().zip(row.chunks_exact(T::BLOCK_BYTES)) {
                tile.put(lane, block);
            }
        }
    });
    tiles
}

/// Memory for `count` tiles that the system has not handed over yet: the threads that pack touch it first. It is asked for in
/// large pages, because a forward pass goes over all of it and would look up a page in every sixty-fourth line.
fn zeroed<T: Tile>(count: usize) -> Box<[T]> {
    // SAFETY: tiles are arrays of integers, for which zero bytes are a value.
    let tiles = unsafe { Box::<[T]>::new_zeroed_slice(count).assume_init() };
    #[cfg(target_os = "linux")]
    {
        let start = tiles.as_ptr() as usize;
        let (first, end) =
            (start.next_multiple_of(PAGE_BYTES), (start + size_of_val(&*tiles)) / PAGE_BYTES * PAGE_BYTES);
        if first < end {
            // SAFETY: the range lies within the allocation; the advice changes no contents. Refused, it changes nothing.
            unsafe { libc::madvise(first as *mut _, end - first, libc::MADV_HUGEPAGE) };
        }
    }
    tiles
}

/// A multiple of the page size of every system that we know.
#[cfg(target_os = "linux")]
const PAGE_BYTES: usize = 64 << 10;

fn unpack<T: Tile>(tiles: &[T], row: usize, out: &mut [f32]) {
    let spans = out.len() / T::SPAN;
    let tiles = &tiles[row / LANES * spans..][..spans];
    for (tile, out) in tiles.iter().zip(out.chunks_exact_mut(T::SPAN)) {
        tile.get(row % LANES, out);
    }
}
