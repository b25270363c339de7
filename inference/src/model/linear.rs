//! How are rows multiplied by a quantised matrix so that no row feels its neighbours?
//!
//! candle picks its kernel by the number of rows, and two kernels need not round alike. [`Linear`] hides the
//! choices that would show (see `repack_x86::select` in candle 0.11.1):
//!
//! - Q6_K takes another kernel for one row than for several, so a single row is multiplied twice over and one
//!   result dropped. The output matrix is only ever multiplied row by row and keeps the compact kernel.
//! - F32 and F16 matrices go through candle's quantised path too, because the dense one blocks by shape.
//! - Off x86-64 the tiling by rows differs again; there, rows are multiplied one at a time.
//!
//! Q5_0 is widened to Q8_0 when it is loaded: the same numbers exactly, in a type that candle has vector code for.

use super::error::{ForwardError, LoadError};
use super::gguf::{Header, TensorType};
use candle_core::quantized::{GgmlDType, QStorage, QTensor};
use candle_core::{Device, Storage, Tensor};
use std::borrow::Cow;
use std::fs::File;

/// Above this many rows candle's AMX kernel, where the machine has one, beats its fused call.
const FUSED_ROWS_MAX: usize = 31;

/// Rows of `f32`, in candle's keeping so that a product is read where it was written.
pub(super) struct Matrix(Tensor);

impl Matrix {
    /// Takes `data` as rows of `columns` numbers.
    pub fn new(data: Vec<f32>, columns: usize) -> Result<Matrix, ForwardError> {
        let rows = data.len() / columns;
        Ok(Matrix(Tensor::from_vec(data, (rows, columns), &Device::Cpu)?))
    }

    /// Calls `read` with all rows, one after another.
    pub fn read<R>(&self, read: impl FnOnce(&[f32]) -> R) -> Result<R, ForwardError> {
        let (storage, layout) = self.0.storage_and_layout();
        let Storage::Cpu(storage) = &*storage else {
            return Err(ForwardError::Matmul { reason: "the result is not in main memory".into() });
        };
        let all = storage.as_slice::<f32>()?;
        let start = layout.start_offset();
        Ok(read(&all[start..start + self.0.elem_count()]))
    }

    fn rows(&self) -> usize {
        self.0.dims()[0]
    }
}

/// A matrix of weights, `[out, in]`.
pub(super) struct Linear {
    weights: QTensor,
    rows_apart: bool,
}

impl Linear {
    /// Reads the tensor `name`, which must be `out` by `input`.
    pub fn load(header: &Header, file: &mut File, name: &str, out: usize, input: usize) -> Result<Linear, LoadError> {
        let weights = load_tensor(header, file, name, &[out, input])?;
        Ok(Linear { weights, rows_apart: cfg!(not(target_arch = "x86_64")) })
    }

    /// Multiplies row by row from now on: for the output matrix, which is asked for single rows.
    pub fn rows_apart(mut self) -> Linear {
        self.rows_apart = true;
        self
    }

    /// `x` times the transpose of the weights.
    pub fn forward(&self, x: &Matrix) -> Result<Matrix, ForwardError> {
        let rows = x.rows();
        if self.rows_apart && rows > 1 {
            let rows: Vec<Tensor> = (0..rows)
                .map(|row| x.0.narrow(0, row, 1)?.apply_op1_no_bwd(&self.weights))
                .collect::<candle_core::Result<_>>()?;
            return Ok(Matrix(Tensor::cat(&rows, 0)?));
        }
        if rows == 1 && !self.rows_apart && self.weights.dtype() == GgmlDType::Q6K {
            let twice = Tensor::cat(&[&x.0, &x.0], 0)?;
            return Ok(Matrix(twice.apply_op1_no_bwd(&self.weights)?.narrow(0, 0, 1)?));
        }
        Ok(Matrix(x.0.apply_op1_no_bwd(&self.weights)?))
    }

    /// The rows `ids` of the weights themselves, dequantised: the embedding lookup.
    pub fn lookup(&self, ids: &[u32]) -> Result<Matrix, ForwardError> {
        let ids = Tensor::new(ids, &Device::Cpu)?;
        Ok(Matrix(self.weights.embedding(&ids)?))
    }

    /// Does now what candle would do in the first multiplication: lay the weights out for the kernel.
    pub fn warm(&self, input: usize) -> Result<(), ForwardError> {
        let rows = if self.rows_apart { 1 } else { 2 };
        self.forward(&Matrix::new(vec![0.0; rows * input], input)?)?;
        Ok(())
    }

    fn input(&self) -> usize {
        self.weights.shape().dims()[1]
    }
}

/// `x` times each of `parts`: in one parallel region where candle can, with the same bits where it cannot.
pub(super) fn forward_each<const N: usize>(parts: [&Linear; N], x: &Matrix) -> Result<[Matrix; N], ForwardError> {
    if x.rows() <= FUSED_ROWS_MAX && parts.iter().all(|part| part.weights.dtype() == GgmlDType::Q4K) {
        let weights = parts.map(|part| &part.weights);
        if let Some(products) = QTensor::gemv_fused_shared_lhs(&weights, &x.0)?
            && let Ok(products) = <[Tensor; N]>::try_from(products)
        {
            return Ok(products.map(Matrix));
        }
    }
    let products = parts.iter().map(|part| part.forward(x)).collect::<Result<Vec<_>, _>>()?;
    Ok(products.try_into().ok().expect("one product for each part"))
}

/// Lays out the weights of all `parts` for their kernels, on `threads` threads.
pub(super) fn warm_all(parts: &[&Linear], threads: usize) -> Result<(), ForwardError> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let work = || {
            loop {
                let i = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let Some(part) = parts.get(i) else { return Ok(()) };
                part.warm(part.input())?;
            }
        };
        let workers: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut result: Result<(), ForwardError> = work();
        for worker in workers {
            let other = worker.join().unwrap_or(Err(ForwardError::Matmul { reason: "a thread panicked".into() }));
            result = result.and(other);
        }
        result
    })
}

/// Reads a vector of `length` numbers, whatever their type in the file.
pub(super) fn load_vector(header: &Header, file: &mut File, name: &str, length: usize) -> Result<Vec<f32>, LoadError> {
    let tensor = load_tensor(header, file, name, &[length])?;
    let numbers = tensor.dequantize(&Device::Cpu).and_then(|t| t.to_vec1::<f32>());
    numbers.map_err(|error| header.corrupted(format!("{name}: {error}")))
}

fn load_tensor(header: &Header, file: &mut File, name: &str, shape: &[usize]) -> Result<QTensor, LoadError> {
    let info = header.tensor(name, shape)?;
    let mut bytes = header.tensor_bytes(file, info)?;
    let mut kind = info.kind;
    if kind == TensorType::Q5_0 {
        bytes = widen_q5_0(&bytes);
        kind = TensorType::Q8_0;
    }
    let storage = QStorage::from_data(Cow::Borrowed(&bytes), &Device::Cpu, dtype(kind));
    let tensor = storage.and_then(|storage| QTensor::new(storage, shape));
    tensor.map_err(|error| header.corrupted(format!("{name}: {error}")))
}

fn dtype(kind: TensorType) -> GgmlDType {
    match kind {
        TensorType::F32 => GgmlDType::F32,
        TensorType::F16 => GgmlDType::F16,
        TensorType::Bf16 => GgmlDType::BF16,
        TensorType::Q4_0 => GgmlDType::Q4_0,
        TensorType::Q4_1 => GgmlDType::Q4_1,
        TensorType::Q5_0 => GgmlDType::Q5_0,
        TensorType::Q5_1 => GgmlDType::Q5_1,
        TensorType::Q8_0 => GgmlDType::Q8_0,
        TensorType::Q2K => GgmlDType::Q2K,
        TensorType::Q3K => GgmlDType::Q3K,
        TensorType::Q4K => GgmlDType::Q4K,
        TensorType::Q5K => GgmlDType::Q5K,
        TensorType::Q6K => GgmlDType::Q6K,
    }
}

/// Q5_0 stores `scale * (q - 16)` with `q` in `0..32`: low four bits packed, fifth bits in one word. Q8_0 stores
/// `scale * q` with `q` in `-128..128`. So each number goes over unchanged.
fn widen_q5_0(bytes: &[u8]) -> Vec<u8> {
    let mut wide = Vec::with_capacity(bytes.len() / 22 * 34);
    for block in bytes.chunks_exact(22) {
        let (scale, rest) = block.split_at(2);
        let (high, low) = rest.split_at(4);
        let high = u32::from_le_bytes(high.try_into().expect("four bytes"));
        let number = |low: u8, i: usize| ((low | ((((high >> i) & 1) as u8) << 4)) as i8 - 16) as u8;
        wide.extend_from_slice(scale);
        wide.extend((0..16).map(|i| number(low[i] & 15, i)));
        wide.extend((0..16).map(|i| number(low[i] >> 4, i + 16)));
    }
    wide
}

impl From<candle_core::Error> for ForwardError {
    fn from(error: candle_core::Error) -> Self {
        ForwardError::Matmul { reason: error.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(n: usize) -> Vec<f32> {
        let mut state = 7u64;
        (0..n)
            .map(|_| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                ((state >> 40) as f32 / (1u64 << 24) as f32) - 0.5
            })
            .collect()
    }

    fn quantised(kind: GgmlDType, out: usize, input: usize) -> Linear {
        let dense = Tensor::from_vec(random(out * input), (out, input), &Device::Cpu).unwrap();
        Linear { weights: QTensor::quantize(&dense, kind).unwrap(), rows_apart: false }
    }

    #[test]
    fn widening_q5_0_to_q8_0_changes_no_number() {
        let narrow = quantised(GgmlDType::Q5_0, 16, 256).weights;
        let wide = widen_q5_0(&narrow.data().unwrap());
        let storage = QStorage::from_data(Cow::Owned(wide), &Device::Cpu, GgmlDType::Q8_0).unwrap();
        let wide = QTensor::new(storage, (16, 256)).unwrap();
        let numbers =
            |t: &QTensor| t.dequantize(&Device::Cpu).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
        assert_eq!(numbers(&narrow), numbers(&wide));
    }

    #[test]
    fn a_row_multiplied_alone_has_the_bits_it_has_among_others() {
        use GgmlDType as D;
        for kind in [D::Q4K, D::Q6K, D::Q8_0, D::Q5K, D::Q4_0, D::Q5_0, D::F32, D::F16] {
            for input in [256, 512, 768] {
                let linear = quantised(kind, 48, input);
                let x = random(37 * input);
                let together = linear.forward(&Matrix::new(x.clone(), input).unwrap()).unwrap();
                let together = together.read(<[f32]>::to_vec).unwrap();
                for rows in [1, 2, 5] {
                    let mut apart = Vec::new();
                    for part in x.chunks(rows * input) {
                        let [y] = forward_each([&linear], &Matrix::new(part.to_vec(), input).unwrap()).unwrap();
                        y.read(|y| apart.extend_from_slice(y)).unwrap();
                    }
                    assert!(together == apart, "{kind:?}, {input} wide, {rows} rows at a time");
                }
            }
        }
    }
}
