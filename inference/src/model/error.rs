//! What can be wrong with a model file, and with a forward call?

use std::io;
use std::path::PathBuf;

/// Why a model file was not loaded. Each variant names the file or the thing in it that is wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// There is no file at the path.
    #[error("no model file at {}", path.display())]
    NotFound {
        /// Where we looked.
        path: PathBuf,
    },
    /// The file exists but the operating system will not let us read it.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// The file does not begin as a GGUF file of a version that we know (2 and 3) does.
    #[error("{} is not a GGUF file: {reason}", path.display())]
    NotGguf {
        /// The file.
        path: PathBuf,
        /// What stands there instead.
        reason: String,
    },
    /// The file ends before what its header promises.
    #[error("{} is truncated: {what} ends at byte {needed_bytes}, the file has {file_bytes}", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// The part that is cut off.
        what: String,
        /// How long the file must be at least.
        needed_bytes: u64,
        /// How long it is.
        file_bytes: u64,
    },
    /// The header contradicts itself, the format or our limits.
    #[error("{} is corrupted: {reason}", path.display())]
    Corrupted {
        /// The file.
        path: PathBuf,
        /// The contradiction.
        reason: String,
    },
    /// The file holds a model family that this build has no decoder for.
    #[error("the model architecture {name:?} is not known; known are: {known}")]
    UnknownArchitecture {
        /// What the file says it is.
        name: String,
        /// The families that this build can run, separated by commas.
        known: &'static str,
    },
    /// The header names no tensor: such files are made to test tokenizers.
    #[error("{} holds a vocabulary and no weights", path.display())]
    VocabularyOnly {
        /// The file.
        path: PathBuf,
    },
    /// A metadata key that the decoder, the tokenizer or the chat template needs is not there.
    #[error("{} lacks the metadata key {key}", path.display())]
    MissingKey {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
    },
    /// A tensor that the decoder needs is not there.
    #[error("{} lacks the tensor {name}", path.display())]
    MissingTensor {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
    },
    /// The file is sound but asks for something that this build cannot do.
    #[error("{} needs what this build cannot do: {what}", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// The missing ability.
        what: String,
    },
    /// A number of threads was asked for that the process cannot have any more.
    #[error(
        "{asked} compute threads asked for, but this process runs {running}; start it with CLOISTER_THREADS={asked}"
    )]
    Threads {
        /// Threads in the settings.
        asked: usize,
        /// Threads in the process-wide pool.
        running: usize,
    },
    /// The memory allowed for KV does not hold one block.
    #[error("{kv_bytes_max} bytes for KV are too few: one block of this model takes {block_bytes}")]
    KvTooSmall {
        /// Bytes allowed in the settings.
        kv_bytes_max: usize,
        /// Bytes that one block takes.
        block_bytes: usize,
    },
    /// The operating system gave us no thread for the engine.
    #[error("cannot start the engine thread")]
    Thread {
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
}

/// Why a forward call failed. None of these is expected in operation; they are bugs or bad ids.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForwardError {
    /// A token id beyond the vocabulary.
    #[error("token id {id} is outside the vocabulary of {vocabulary}")]
    UnknownToken {
        /// The id.
        id: u32,
        /// How many ids there are.
        vocabulary: usize,
    },
    /// The blocks given do not reach the positions asked for.
    #[error("{blocks} KV blocks do not hold {tokens} tokens")]
    BlocksMissing {
        /// How many blocks were given.
        blocks: usize,
        /// How many tokens they should hold.
        tokens: usize,
    },
    /// Scores were asked of a model that was loaded for its hidden states alone.
    #[error("the model was loaded without its output matrix")]
    OutputNotLoaded,
    /// candle refused a multiplication.
    #[error("matrix multiplication failed: {reason}")]
    Matmul {
        /// candle's words.
        reason: String,
    },
}
