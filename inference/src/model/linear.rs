//! How are rows multiplied by a quantised matrix so that no row feels its neighbours?
//!
//! With the kernels of this crate ([`kernel`](super::kernel)) for the types that the models of the catalogue are made
//! of. Any other type goes through candle, one row at a time: candle picks its kernel by the number of rows, and two
//! kernels need not round alike.

use super::error::{ForwardError, LoadError};
use super::gguf::{Header, TensorType};
use super::kernel::{self, Activations, Kind, Packed};
use super::pool;
use candle_core::quantized::{GgmlDType, QStorage, QTensor};
use candle_core::{Device, Tensor};
use std::borrow::Cow;
use std::fs::File;

/// Rows of `f32`.
pub(super) struct Matrix {
    data: Vec<f32>,
    columns: usize,
}

impl Matrix {
    /// Takes `data` as rows of `columns` numbers.
    pub fn new(data: Vec<f32>, columns: usize) -> Matrix {
        Matrix { data, columns }
    }

    /// All rows, one after another.
    pub fn data(&self) -> &[f32] {
        &self.data
    }

    /// The same, given away.
    pub fn into_data(self) -> Vec<f32> {
        self.data
    }

    fn rows(&self) -> usize {
        self.data.len() / self.columns
    }
}

/// A matrix of weights, `[out, in]`.
pub(super) struct Linear {
    weights: Weights,
    out: usize,
    input: usize,
}

enum Weights {
    /// Laid out for our own kernels.
    Packed(Packed),
    /// A type or a shape that they do not have: candle's product, one row at a time.
    Candle(QTensor),
}

impl Linear {
    /// Reads the tensor `name`, which must be `out` by `input`, and lays it out.
    pub fn load(header: &Header, file: &mut File, name: &str, out: usize, input: usize) -> Result<Linear, LoadError> {
        let info = header.tensor(name, &[out, input])?;
        let kind = match info.kind {
            TensorType::Q4K => Some(Kind::Q4K),
            TensorType::Q6K => Some(Kind::Q6K),
            TensorType::Q8_0 => Some(Kind::Q8_0),
            TensorType::Q5_0 => Some(Kind::Q5_0),
            _ => None,
        };
        if let Some(kind) = kind {
            let bytes = header.tensor_bytes(file, info)?;
            if let Ok(packed) = Packed::new(kind, out, input, &bytes, pool::shared()) {
                return Ok(Linear { weights: Weights::Packed(packed), out, input });
            }
        }
        let weights = Weights::Candle(load_tensor(header, file, name, &[out, input])?);
        Ok(Linear { weights, out, input })
    }

    /// `x` times the transpose of the weights.
    pub fn forward(&self, x: &Matrix) -> Result<Matrix, ForwardError> {
        let [product] = forward_each([self], x)?;
        Ok(product)
    }

    /// The rows `ids` of the weights themselves, dequantised: the embedding lookup.
    pub fn lookup(&self, ids: &[u32]) -> Result<Matrix, ForwardError> {
        let mut rows = vec![0.0; ids.len() * self.input];
        match &self.weights {
            Weights::Packed(packed) => {
                for (id, row) in ids.iter().zip(rows.chunks_mut(self.input)) {
                    packed.row(*id as usize, row);
                }
            }
            Weights::Candle(weights) => {
                let ids = Tensor::new(ids, &Device::Cpu)?;
                rows = weights.embedding(&ids)?.flatten_all()?.to_vec1()?;
            }
        }
        Ok(Matrix::new(rows, self.input))
    }
}

/// `x` times each of `parts`: rounded once and in one parallel region where all have kernels of ours.
pub(super) fn forward_each<const N: usize>(parts: [&Linear; N], x: &Matrix) -> Result<[Matrix; N], ForwardError> {
    let rows = x.rows();
    let mut products = parts.map(|part| Matrix::new(vec![0.0; rows * part.out], part.out));
    let mut rounded: Option<Activations> = None;
    let mut packed: Vec<(&Packed, &mut [f32])> = Vec::with_capacity(N);
    for (part, product) in parts.iter().zip(&mut products) {
        match &part.weights {
            Weights::Candle(weights) => row_by_row(weights, x, product)?,
            Weights::Packed(weights) => {
                let grain = weights.kind().grain();
                let fits = rounded.as_ref().is_some_and(|rounded| rounded.grain() == grain);
                if !fits
                    && let Some(earlier) = rounded.replace(Activations::quantise(grain, x.data(), rows, pool::shared()))
                {
                    kernel::forward_each(&earlier, &mut packed, pool::shared());
                    packed.clear();
                }
                packed.push((weights, &mut product.data));
            }
        }
    }
    if let Some(rounded) = rounded {
        kernel::forward_each(&rounded, &mut packed, pool::shared());
    }
    Ok(products)
}

fn row_by_row(weights: &QTensor, x: &Matrix, product: &mut Matrix) -> Result<(), ForwardError> {
    for (x, y) in x.data.chunks(x.columns).zip(product.data.chunks_mut(product.columns)) {
        let x = Tensor::from_slice(x, (1, x.len()), &Device::Cpu)?;
        y.copy_from_slice(&x.apply_op1_no_bwd(weights)?.flatten_all()?.to_vec1::<f32>()?);
    }
    Ok(())
}

/// Reads a vector of `length` numbers, whatever their type in the file.
pub(super) fn load_vector(header: &Header, file: &mut File, name: &str, length: usize) -> Result<Vec<f32>, LoadError> {
    let tensor = load_tensor(header, file, name, &[length])?;
    let numbers = tensor.dequantize(&Device::Cpu).and_then(|t| t.to_vec1::<f32>());
    numbers.map_err(|error| header.corrupted(format!("{name}: {error}")))
}

/// Reads a tensor as it is stored.
pub(super) fn load_tensor(header: &Header, file: &mut File, name: &str, shape: &[usize]) -> Result<QTensor, LoadError> {
    let info = header.tensor(name, shape)?;
    let bytes = header.tensor_bytes(file, info)?;
    let storage = QStorage::from_data(Cow::Borrowed(&bytes), &Device::Cpu, dtype(info.kind));
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
        let weights = QTensor::quantize(&dense, kind).unwrap();
        let own = match kind {
            GgmlDType::Q4K => Some(Kind::Q4K),
            GgmlDType::Q6K => Some(Kind::Q6K),
            GgmlDType::Q8_0 => Some(Kind::Q8_0),
            GgmlDType::Q5_0 => Some(Kind::Q5_0),
            _ => None,
        };
        let weights = match own {
            Some(kind) => {
                Weights::Packed(Packed::new(kind, out, input, &weights.data().unwrap(), pool::shared()).unwrap())
            }
            None => Weights::Candle(weights),
        };
        Linear { weights, out, input }
    }

    #[test]
    fn a_row_multiplied_alone_has_the_bits_it_has_among_others() {
        use GgmlDType as D;
        for kind in [D::Q4K, D::Q6K, D::Q8_0, D::Q5K, D::Q4_0, D::Q5_0, D::F32, D::F16] {
            for input in [256, 512, 768] {
                let linear = quantised(kind, 48, input);
                let x = random(37 * input);
                let together = linear.forward(&Matrix::new(x.clone(), input)).unwrap().into_data();
                for rows in [1, 2, 5] {
                    let mut apart = Vec::new();
                    for part in x.chunks(rows * input) {
                        apart.extend(linear.forward(&Matrix::new(part.to_vec(), input)).unwrap().into_data());
                    }
                    assert!(together == apart, "{kind:?}, {input} wide, {rows} rows at a time");
                }
            }
        }
    }

    #[test]
    fn matrices_of_several_types_are_multiplied_together_as_they_are_alone() {
        use GgmlDType as D;
        let parts = [D::Q4K, D::Q8_0, D::Q6K, D::F32].map(|kind| quantised(kind, 32, 256));
        let x = Matrix::new(random(3 * 256), 256);
        let together = forward_each([&parts[0], &parts[1], &parts[2], &parts[3]], &x).unwrap();
        for (part, product) in parts.iter().zip(together) {
            assert!(part.forward(&x).unwrap().into_data() == product.into_data());
        }
    }
}
