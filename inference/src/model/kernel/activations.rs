//! What do the rows look like when they meet the weights?
//!
//! As eight-bit integers with one scale for each span of a row: 256 numbers for the k-quants (the format that ggml
//! calls Q8_K), 32 for the others. Each row is rounded by itself, so it has the same bits whatever rows it came with.
//!
//! Rows stand together in groups of up to [`GROUP_ROWS`]. Within a group the four bytes that one `vpdpbusd` takes from
//! each row are neighbours, so a kernel walks one pointer however many rows it works on.

use super::pool::Pool;

/// How many rows a kernel takes through one pass over a tile of weights: their sums fill the registers.
pub(super) const GROUP_ROWS: usize = 8;

/// The largest magnitude of a rounded number.
const LARGEST: f32 = 127.0;

/// A span whose largest magnitude is below this is taken as zero: its reciprocal would overflow.
const SMALLEST: f32 = 1e-36;

/// How many numbers of a row share a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// 256, for Q4_K and Q6_K.
    By256,
    /// 32, for Q8_0 and Q5_0.
    By32,
}

impl Grain {
    pub(super) fn span(self) -> usize {
        match self {
            Grain::By256 => 256,
            Grain::By32 => 32,
        }
    }
}

/// Rounded rows, ready to be multiplied by any number of matrices of the same width and grain.
pub struct Activations {
    grain: Grain,
    rows: usize,
    width: usize,
    groups: Vec<Group>,
}

impl Activations {
    /// No rows yet.
    pub fn new(grain: Grain) -> Activations {
        Activations { grain, rows: 0, width: 0, groups: Vec::new() }
    }

    /// Rounds the `rows` rows of `x`, in a new place. See [`fill`](Activations::fill).
    pub fn quantise(grain: Grain, x: &[f32], rows: usize, pool: &Pool) -> Activations {
        let mut activations = Activations::new(grain);
        activations.fill(grain, x, rows, pool);
        activations
    }

    /// Rounds the `rows` rows of `x`, which stand one after another, over what was here before. A span that holds an
    /// infinity or a NaN makes every product of its row NaN.
    ///
    /// # Panics
    ///
    /// When `x` is not `rows` rows of a width that the grain divides.
    pub fn fill(&mut self, grain: Grain, x: &[f32], rows: usize, pool: &Pool) {
        let width = x.len().checked_div(rows).unwrap_or(0);
        assert_eq!(x.len(), rows * width, "x is not {rows} whole rows");
        assert_eq!(width % grain.span(), 0, "a row of {width} is not whole spans of {}", grain.span());
        (self.grain, self.rows, self.width) = (grain, rows, width);
        self.groups.resize_with(rows.div_ceil(GROUP_ROWS), Group::default);
        pool.each_chunk(&mut self.groups, 1, |i, group| {
            let rows_here = GROUP_ROWS.min(rows - i * GROUP_ROWS);
            let begin = i * GROUP_ROWS * width;
            group[0].fill(grain, &x[begin..begin + rows_here * width], rows_here);
        });
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many numbers a row has.
    pub fn width(&self) -> usize {
        self.width
    }

    /// How many numbers share a scale.
    pub fn grain(&self) -> Grain {
        self.grain
    }

    pub(super) fn groups(&self) -> &[Group] {
        &self.groups
    }
}

/// Up to [`GROUP_ROWS`] rows. In each array the row is the fastest index.
#[derive(Default)]
pub(super) struct Group {
    rows: usize,
    /// Four numbers of a row, as bytes.
    quads: Vec<i32>,
    /// `-32` times the sum of 16 numbers (by 256), or `-16` times the sum of 32 (by 32): what weights that are stored
    /// without their sign owe, and where a sum of products starts.
    owed: Vec<i32>,
    /// The sums of two neighbouring runs of 32 numbers, as halves of a word. By 256 only.
    pairs: Vec<i32>,
    scales: Vec<f32>,
}

/// The arrays of a [`Group`] of `R` rows.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a, const R: usize> {
    pub quads: &'a [[i32; R]],
    pub owed: &'a [[i32; R]],
    pub pairs: &'a [[i32; R]],
    pub scales: &'a [[f32; R]],
}

impl Group {
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The arrays, for a kernel that is made for `R` rows.
    pub fn view<const R: usize>(&self) -> Rows<'_, R> {
        assert_eq!(self.rows, R, "a kernel for another number of rows");
        Rows {
            quads: self.quads.as_chunks().0,
            owed: self.owed.as_chunks().0,
            pairs: self.pairs.as_chunks().0,
            scales: self.scales.as_chunks().0,
        }
    }

    fn fill(&mut self, grain: Grain, x: &[f32], rows: usize) {
        let width = x.len() / rows;
        let by_256 = grain == Grain::By256;
        self.rows = rows;
        self.quads.resize(rows * width / 4, 0);
        self.owed.resize(rows * width / if by_256 { 16 } else { 32 }, 0);
        self.pairs.resize(if by_256 { rows * width / 64 } else { 0 }, 0);
        self.scales.resize(rows * width / grain.span(), 0.0);
        for (row, x) in x.chunks_exact(width).enumerate() {
            match grain {
                Grain::By256 => self.fill_row_by_256(row, x),
                Grain::By32 => self.fill_row_by_32(row, x),
            }
        }
    }

    fn fill_row_by_256(&mut self, row: usize, x: &[f32]) {
        let rows = self.rows;
        for (s, x) in x.as_chunks::<256>().0.iter().enumerate() {
            let mut rounded = [0i8; 256];
            self.scales[s * rows + row] = round(x, &mut rounded);
            self.store(s * 64, row, &rounded);
            let mut sums = [0i32; 16];
            for (i, run) in rounded.as_chunks::<16>().0.iter().enumerate() {
                sums[i] = sum(run);
                self.owed[(s * 16 + i) * rows + row] = -32 * sums[i];
            }
            for (i, four) in sums.as_chunks::<4>().0.iter().enumerate() {
                // At most 32 * 127 each, so they fit in sixteen bits.
                let (low, high) = (four[0] + four[1], four[2] + four[3]);
                self.pairs[(s * 4 + i) * rows + row] = (low & 0xffff) | (high << 16);
            }
        }
    }

    fn fill_row_by_32(&mut self, row: usize, x: &[f32]) {
        let rows = self.rows;
        for (s, x) in x.as_chunks::<32>().0.iter().enumerate() {
            let mut rounded = [0i8; 32];
            self.scales[s * rows + row] = round(x, &mut rounded);
            self.store(s * 8, row, &rounded);
            self.owed[s * rows + row] = -16 * sum(&rounded);
        }
    }

    fn store(&mut self, quad: usize, row: usize, rounded: &[i8]) {
        let rows = self.rows;
        let places = self.quads[quad * rows..].chunks_exact_mut(rows);
        for (place, four) in places.zip(rounded.as_chunks::<4>().0) {
            place[row] = i32::from_le_bytes(four.map(|number| number as u8));
        }
    }
}

fn sum(numbers: &[i8]) -> i32 {
    numbers.iter().map(|&number| i32::from(number)).sum()
}

/// Rounds `x` to `scale` times integers of at most [`LARGEST`], half to even, and returns the scale.
#[inline]
fn round<const N: usize>(x: &[f32; N], rounded: &mut [i8; N]) -> f32 {
    // As integers, magnitudes order like the numbers, with infinity and NaN above all of them.
    let largest = x.iter().fold(0, |largest, x| largest.max(x.to_bits() & 0x7fff_ffff));
    let largest = f32::from_bits(largest);
    if !largest.is_finite() || largest < SMALLEST {
        *rounded = [0; N];
        return if largest.is_finite() { 0.0 } else { f32::NAN };
    }
    // Added to this number, a small one loses its fraction to rounding and stands in the low bits.
    const SHIFT: f32 = (3 << 22) as f32;
    let inverse = LARGEST / largest;
    for (rounded, x) in rounded.iter_mut().zip(x) {
        *rounded = (x * inverse + SHIFT).to_bits() as i8;
    }
    largest / LARGEST
}
