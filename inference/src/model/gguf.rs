//! What does this GGUF file say about itself, before a byte of its weights is trusted?
//!
//! Our own reader, and a strict one, because a model file is hostile input: each length is checked against what is left of
//! the file before memory is taken for it, each tensor's bytes against the length of the file, and the header as a
//! whole against [`HEADER_BYTES_MAX`]. Format: docs/gguf.md of the ggml project,
//! versions 2 and 3, little endian.

use super::error::LoadError;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// A header longer than this is refused; those of models with 150,000 tokens take about 6 MiB.
pub const HEADER_BYTES_MAX: u64 = 32 << 20;
const TENSORS_MAX: u64 = 1 << 16;
const KEYS_MAX: u64 = 1 << 16;
const DIMENSIONS_MAX: u32 = 4;
const ALIGNMENT_DEFAULT: u64 = 32;
const ALIGNMENT_MAX: u64 = 1 << 16;

/// The header of one GGUF file whose tensors were all found to lie inside the file.
#[derive(Debug)]
pub struct Header {
    /// The file it came from.
    pub path: PathBuf,
    /// Length of the whole file.
    pub file_bytes: u64,
    /// Metadata by key.
    pub metadata: BTreeMap<String, Value>,
    /// Tensors by name.
    pub tensors: BTreeMap<String, TensorInfo>,
}

/// One metadata value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Any unsigned integer type.
    Unsigned(u64),
    /// Any signed integer type.
    Signed(i64),
    /// 32 or 64 bit floating point.
    Float(f64),
    /// One byte, 0 or 1.
    Bool(bool),
    /// UTF-8, repaired where it was not.
    Text(String),
    /// A list of one type.
    Array(Array),
}

/// A list in the metadata. Lists of lists do not occur in model files and are refused.
#[derive(Clone, Debug, PartialEq)]
pub enum Array {
    /// Strings, such as the vocabulary.
    Texts(Vec<String>),
    /// Any integer type, such as the kinds of the tokens.
    Integers(Vec<i64>),
    /// Floating point, such as scores.
    Floats(Vec<f64>),
}

/// Where one tensor lies in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// How its numbers are stored.
    pub kind: TensorType,
    /// Rows first: `[out, in]` for a matrix (the file stores them the other way round).
    pub shape: Vec<usize>,
    /// First byte, counted from the start of the file.
    pub start: u64,
    /// Length.
    pub bytes: usize,
}

/// How the numbers of a tensor are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are ggml's own")]
pub enum TensorType {
    F32,
    F16,
    Bf16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q2K,
    Q3K,
    Q4K,
    Q5K,
    Q6K,
}

impl TensorType {
    fn from_code(code: u32) -> Option<TensorType> {
        Some(match code {
            0 => Self::F32,
            1 => Self::F16,
            2 => Self::Q4_0,
            3 => Self::Q4_1,
            6 => Self::Q5_0,
            7 => Self::Q5_1,
            8 => Self::Q8_0,
            10 => Self::Q2K,
            11 => Self::Q3K,
            12 => Self::Q4K,
            13 => Self::Q5K,
            14 => Self::Q6K,
            30 => Self::Bf16,
            _ => return None,
        })
    }

    /// Numbers in one block, and the bytes that it takes.
    pub fn block(self) -> (usize, usize) {
        match self {
            Self::F32 => (1, 4),
            Self::F16 | Self::Bf16 => (1, 2),
            Self::Q4_0 => (32, 18),
            Self::Q4_1 => (32, 20),
            Self::Q5_0 => (32, 22),
            Self::Q5_1 => (32, 24),
            Self::Q8_0 => (32, 34),
            Self::Q2K => (256, 84),
            Self::Q3K => (256, 110),
            Self::Q4K => (256, 144),
            Self::Q5K => (256, 176),
            Self::Q6K => (256, 210),
        }
    }
}

impl Header {
    /// Reads and checks the header of the file at `path`. Reads no weights.
    pub fn read(path: &Path) -> Result<Header, LoadError> {
        let unreadable = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => LoadError::NotFound { path: path.to_owned() },
            _ => LoadError::Unreadable { path: path.to_owned(), source },
        };
        let file = File::open(path).map_err(unreadable)?;
        let about = file.metadata().map_err(unreadable)?;
        if !about.is_file() {
            return Err(LoadError::NotGguf { path: path.to_owned(), reason: "it is not a regular file".into() });
        }
        let mut bytes = Vec::new();
        file.take(HEADER_BYTES_MAX).read_to_end(&mut bytes).map_err(unreadable)?;
        Header::parse(path, &bytes, about.len())
    }

    /// Parses a header from the first bytes of a file that is `file_bytes` long. Pure: this is what the fuzz tests call.
    pub fn parse(path: &Path, bytes: &[u8], file_bytes: u64) -> Result<Header, LoadError> {
        let mut reader = Reader { path, bytes, at: 0, file_bytes };
        let magic = reader.take(4, "the magic number")?;
        if magic != b"GGUF" {
            let reason = format!("it begins with the bytes {magic:02x?}");
            return Err(LoadError::NotGguf { path: path.to_owned(), reason });
        }
        let version = reader.u32()?;
        if version != 2 && version != 3 {
            let reason = format!("version {version} is neither 2 nor 3");
            return Err(LoadError::NotGguf { path: path.to_owned(), reason });
        }
        let tensor_count = reader.count("tensors", TENSORS_MAX)?;
        let key_count = reader.count("metadata keys", KEYS_MAX)?;
        let mut metadata = BTreeMap::new();
        for _ in 0..key_count {
            let key = reader.text()?;
            let kind = reader.u32()?;
            let value = reader.value(kind)?;
            metadata.insert(key, value);
        }
        let mut tensors = BTreeMap::new();
        for _ in 0..tensor_count {
            let (name, info) = reader.tensor()?;
            tensors.insert(name, info);
        }
        let alignment = match metadata.get("general.alignment") {
            None => ALIGNMENT_DEFAULT,
            Some(Value::Unsigned(n)) if n.is_power_of_two() && *n <= ALIGNMENT_MAX => *n,
            Some(other) => return Err(reader.corrupted(format!("general.alignment is {other:?}"))),
        };
        let data_start = (reader.at as u64).next_multiple_of(alignment);
        for (name, tensor) in &mut tensors {
            let start = data_start.saturating_add(tensor.start);
            let end = start.saturating_add(tensor.bytes as u64);
            if end > file_bytes {
                let what = format!("the tensor {name}");
                return Err(LoadError::Truncated { path: path.to_owned(), what, needed_bytes: end, file_bytes });
            }
            tensor.start = start;
        }
        Ok(Header { path: path.to_owned(), file_bytes, metadata, tensors })
    }

    /// An unsigned number that must be there and must lie in `1..=max`.
    pub fn number(&self, key: &str, max: u64) -> Result<usize, LoadError> {
        let value = match self.required(key)? {
            Value::Unsigned(n) => *n,
            Value::Signed(n) if *n >= 0 => *n as u64,
            other => return Err(self.corrupted(format!("{key} is {other:?}, not a count"))),
        };
        if value == 0 || value > max {
            return Err(self.corrupted(format!("{key} is {value}, outside 1..={max}")));
        }
        Ok(value as usize)
    }

    /// A floating point number that must be there, finite and positive.
    pub fn positive(&self, key: &str) -> Result<f32, LoadError> {
        match self.required(key)? {
            Value::Float(x) if x.is_finite() && *x > 0.0 => Ok(*x as f32),
            other => Err(self.corrupted(format!("{key} is {other:?}, not a positive number"))),
        }
    }

    /// A string that must be there.
    pub fn text(&self, key: &str) -> Result<&str, LoadError> {
        match self.required(key)? {
            Value::Text(text) => Ok(text),
            _ => Err(self.corrupted(format!("{key} is not a string"))),
        }
    }

    /// A list of strings that must be there.
    pub fn texts(&self, key: &str) -> Result<&[String], LoadError> {
        match self.required(key)? {
            Value::Array(Array::Texts(texts)) => Ok(texts),
            _ => Err(self.corrupted(format!("{key} is not a list of strings"))),
        }
    }

    /// A list of integers that must be there.
    pub fn integers(&self, key: &str) -> Result<&[i64], LoadError> {
        match self.required(key)? {
            Value::Array(Array::Integers(numbers)) => Ok(numbers),
            _ => Err(self.corrupted(format!("{key} is not a list of integers"))),
        }
    }

    /// Where the tensor `name` lies; its shape must be `shape`.
    pub fn tensor(&self, name: &str, shape: &[usize]) -> Result<&TensorInfo, LoadError> {
        let info = self
            .tensors
            .get(name)
            .ok_or_else(|| LoadError::MissingTensor { path: self.path.clone(), name: name.to_owned() })?;
        if info.shape != shape {
            return Err(self.corrupted(format!("{name} has the shape {:?}, expected {shape:?}", info.shape)));
        }
        Ok(info)
    }

    /// The file itself, to read weights from.
    pub(super) fn open(&self) -> Result<File, LoadError> {
        File::open(&self.path).map_err(|source| LoadError::Unreadable { path: self.path.clone(), source })
    }

    /// Reads the bytes of one tensor of this header from `file`, which must be the same file.
    pub(super) fn tensor_bytes(&self, file: &mut File, info: &TensorInfo) -> Result<Vec<u8>, LoadError> {
        let unreadable = |source| LoadError::Unreadable { path: self.path.clone(), source };
        file.seek(SeekFrom::Start(info.start)).map_err(unreadable)?;
        let mut bytes = vec![0; info.bytes];
        file.read_exact(&mut bytes).map_err(unreadable)?;
        Ok(bytes)
    }

    pub(crate) fn corrupted(&self, reason: String) -> LoadError {
        LoadError::Corrupted { path: self.path.clone(), reason }
    }

    fn required(&self, key: &str) -> Result<&Value, LoadError> {
        self.metadata.get(key).ok_or_else(|| LoadError::MissingKey { path: self.path.clone(), key: key.to_owned() })
    }
}

struct Reader<'a> {
    path: &'a Path,
    bytes: &'a [u8],
    at: usize,
    file_bytes: u64,
}

impl<'a> Reader<'a> {
    fn corrupted(&self, reason: String) -> LoadError {
        LoadError::Corrupted { path: self.path.to_owned(), reason: format!("at byte {}: {reason}", self.at) }
    }

    fn left(&self) -> u64 {
        (self.bytes.len() - self.at) as u64
    }

    /// The next `n` bytes; the reason when there are fewer tells a short file from a long header.
    fn take(&mut self, n: u64, what: &str) -> Result<&'a [u8], LoadError> {
        if n > self.left() {
            let needed_bytes = (self.at as u64).saturating_add(n);
            if needed_bytes <= self.file_bytes {
                return Err(self.corrupted(format!("the header is longer than {HEADER_BYTES_MAX} bytes")));
            }
            let what = format!("{what} in the header");
            return Err(LoadError::Truncated {
                path: self.path.to_owned(),
                what,
                needed_bytes,
                file_bytes: self.file_bytes,
            });
        }
        let start = self.at;
        self.at += n as usize;
        Ok(&self.bytes[start..self.at])
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], LoadError> {
        let bytes = self.take(N as u64, "a number")?;
        Ok(bytes.try_into().expect("take gave N bytes"))
    }

    fn u32(&mut self) -> Result<u32, LoadError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, LoadError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn count(&mut self, what: &str, max: u64) -> Result<u64, LoadError> {
        let n = self.u64()?;
        if n > max {
            return Err(self.corrupted(format!("{n} {what} declared, at most {max} are accepted")));
        }
        Ok(n)
    }

    fn text(&mut self) -> Result<String, LoadError> {
        let length = self.u64()?;
        let bytes = self.take(length, "a string")?;
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }

    fn value(&mut self, kind: u32) -> Result<Value, LoadError> {
        Ok(match kind {
            7 => match self.array::<1>()?[0] {
                0 => Value::Bool(false),
                1 => Value::Bool(true),
                other => return Err(self.corrupted(format!("{other} where a boolean belongs"))),
            },
            8 => Value::Text(self.text()?),
            9 => Value::Array(self.list()?),
            6 | 12 => Value::Float(self.float(kind)?),
            0 | 2 | 4 | 10 => Value::Unsigned(self.integer(kind)? as u64),
            1 | 3 | 5 | 11 => Value::Signed(self.integer(kind)?),
            _ => return Err(self.corrupted(format!("{kind} is not a type of value"))),
        })
    }

    fn integer(&mut self, kind: u32) -> Result<i64, LoadError> {
        Ok(match kind {
            0 | 7 => i64::from(self.array::<1>()?[0]),
            1 => i64::from(i8::from_le_bytes(self.array()?)),
            2 => i64::from(u16::from_le_bytes(self.array()?)),
            3 => i64::from(i16::from_le_bytes(self.array()?)),
            4 => i64::from(self.u32()?),
            5 => i64::from(i32::from_le_bytes(self.array()?)),
            // Values above i64::MAX wrap; `Value::Unsigned` casts them back, lists have no use for them.
            10 => self.u64()? as i64,
            _ => i64::from_le_bytes(self.array()?),
        })
    }

    fn float(&mut self, kind: u32) -> Result<f64, LoadError> {
        match kind {
            6 => Ok(f64::from(f32::from_le_bytes(self.array()?))),
            _ => Ok(f64::from_le_bytes(self.array()?)),
        }
    }

    fn list(&mut self) -> Result<Array, LoadError> {
        let kind = self.u32()?;
        let count = self.u64()?;
        let element_bytes = match kind {
            0 | 1 | 7 => 1,
            2 | 3 => 2,
            4..=6 => 4,
            8 | 10..=12 => 8,
            9 => return Err(self.corrupted("a list of lists".into())),
            _ => return Err(self.corrupted(format!("{kind} is not a type of value"))),
        };
        let needed = count.saturating_mul(element_bytes);
        if needed > self.left() {
            self.take(needed, "a list")?;
        }
        // From here on `count` is at most HEADER_BYTES_MAX, so a list takes at most some hundred MiB.
        Ok(match kind {
            8 => Array::Texts((0..count).map(|_| self.text()).collect::<Result<_, _>>()?),
            6 | 12 => Array::Floats((0..count).map(|_| self.float(kind)).collect::<Result<_, _>>()?),
            _ => Array::Integers((0..count).map(|_| self.integer(kind)).collect::<Result<_, _>>()?),
        })
    }

    fn tensor(&mut self) -> Result<(String, TensorInfo), LoadError> {
        let name = self.text()?;
        let dimensions = self.u32()?;
        if dimensions == 0 || dimensions > DIMENSIONS_MAX {
            return Err(self.corrupted(format!("the tensor {name} has {dimensions} dimensions")));
        }
        let mut shape = Vec::new();
        let mut elements = 1usize;
        for _ in 0..dimensions {
            let n = usize::try_from(self.u64()?).unwrap_or(usize::MAX);
            elements = match elements.checked_mul(n) {
                Some(product) if product > 0 && product < 1 << 44 => product,
                _ => return Err(self.corrupted(format!("the tensor {name} is empty or too large"))),
            };
            shape.push(n);
        }
        let row = shape[0];
        shape.reverse();
        let code = self.u32()?;
        let kind = TensorType::from_code(code).ok_or_else(|| LoadError::Unsupported {
            path: self.path.to_owned(),
            what: format!("tensor type {code} of {name}"),
        })?;
        let (block, block_bytes) = kind.block();
        if !row.is_multiple_of(block) {
            return Err(self.corrupted(format!("rows of {row} in {name} are not whole blocks of {block}")));
        }
        let start = self.u64()?;
        Ok((name, TensorInfo { kind, shape, start, bytes: elements / block * block_bytes }))
    }
}
