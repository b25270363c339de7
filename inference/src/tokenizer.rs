//! Which ids does this text have, and which text do these ids have?
//!
//! Byte-level BPE as the Qwen2 family uses it, built from the vocabulary inside the GGUF file. The `tokenizers` crate does
//! the merging; the control tokens (`<|im_start|>` and its like) are kept away from it and matched here, so that text
//! which only looks like a control token stays text unless the caller says otherwise. Tags that are ordinary words of
//! the vocabulary (`<tool_call>`) are not control tokens and are always matched, as the reference does.

use crate::model::{Header, LoadError, Value};
use std::collections::HashMap;
use std::path::Path;
use tokenizers::AddedToken;
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::normalizers::unicode::NFC;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::tokenizer::SplitDelimiterBehavior;

/// How Qwen2 cuts text before merging; each digit stands alone.
const QWEN2_SPLIT: &str = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Kinds of token in `tokenizer.ggml.token_type`.
const KIND_CONTROL: i64 = 3;
const KIND_USER_DEFINED: i64 = 4;

/// May text become control tokens?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// No: `<|im_end|>` in the text is seven ordinary tokens. For whatever a person, a file or a tool said.
    Forbid,
    /// Yes: for text that this program wrote itself.
    Allow,
}

/// The vocabulary of one model.
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    /// Control tokens, the longest first.
    control: Vec<(String, u32)>,
    /// The bytes of all tokens, one after another, and where each begins.
    bytes: Vec<u8>,
    starts: Vec<usize>,
    end_of_turn: Vec<u32>,
}

impl Tokenizer {
    /// Reads the header of a GGUF file, and nothing of its weights, and builds the tokenizer that it describes.
    pub fn open(path: &Path) -> Result<Tokenizer, LoadError> {
        Tokenizer::load(&Header::read(path)?)
    }

    /// Builds the tokenizer that the file describes.
    pub fn load(header: &Header) -> Result<Tokenizer, LoadError> {
        let unsupported = |what: String| LoadError::Unsupported { path: header.path.clone(), what };
        let corrupted =
            |reason: String| LoadError::Corrupted { path: header.path.clone(), reason: format!("tokenizer: {reason}") };
        let (model, pre) = (header.text("tokenizer.ggml.model")?, header.text("tokenizer.ggml.pre")?);
        if model != "gpt2" || pre != "qwen2" {
            return Err(unsupported(format!("a tokenizer of type {model:?} with the splitting rule {pre:?}")));
        }
        let tokens = header.texts("tokenizer.ggml.tokens")?;
        let kinds = header.integers("tokenizer.ggml.token_type")?;
        if kinds.len() != tokens.len() || tokens.is_empty() {
            return Err(corrupted(format!("{} tokens but {} kinds", tokens.len(), kinds.len())));
        }
        let merges = header.texts("tokenizer.ggml.merges")?.iter().map(|merge| {
            let (a, b) = merge.split_once(' ').ok_or_else(|| corrupted(format!("the merge {merge:?}")))?;
            Ok((a.to_owned(), b.to_owned()))
        });
        let merges = merges.collect::<Result<Vec<_>, LoadError>>()?;
        let of_kind = |kind: i64| {
            let all = tokens.iter().zip(kinds).enumerate();
            all.filter(move |(_, (_, k))| **k == kind).map(|(id, (token, _))| (token.clone(), id as u32))
        };
        let mut control: Vec<_> = of_kind(KIND_CONTROL).filter(|(token, _)| !token.is_empty()).collect();
        control.sort_by_key(|(token, _)| std::cmp::Reverse(token.len()));
        let user_defined: Vec<_> = of_kind(KIND_USER_DEFINED).map(|(token, _)| token).collect();

        let vocabulary: Vocab = tokens.iter().enumerate().map(|(id, token)| (token.clone(), id as u32)).collect();
        let bpe = BPE::builder().vocab_and_merges(vocabulary, merges).build();
        let bpe = bpe.map_err(|error| corrupted(error.to_string()))?;
        let mut inner = tokenizers::Tokenizer::new(bpe);
        assemble(&mut inner, user_defined).map_err(|error| corrupted(error.to_string()))?;

        let raw: Vec<bool> = kinds.iter().map(|kind| matches!(*kind, KIND_CONTROL | KIND_USER_DEFINED)).collect();
        let (bytes, starts) = byte_table(tokens, &raw);
        let end_of_turn = end_of_turn(header, &control, tokens.len());
        Ok(Tokenizer { inner, control, bytes, starts, end_of_turn })
    }

    /// The ids of `text`.
    pub fn encode(&self, text: &str, special: Special) -> Vec<u32> {
        let mut ids = Vec::new();
        match special {
            Special::Forbid => self.encode_plain(text, &mut ids),
            Special::Allow => self.each_piece(text, |piece| match piece {
                Piece::Control(id) => ids.push(id),
                Piece::Text(text) => self.encode_plain(text, &mut ids),
            }),
        }
        ids
    }

    /// The text of `ids`, control tokens included; bytes that are not UTF-8 become U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> String {
        let bytes: Vec<u8> = ids.iter().flat_map(|&id| self.bytes(id)).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The bytes that a token stands for; a token may end in the middle of a character. Empty for unknown ids.
    pub fn bytes(&self, id: u32) -> &[u8] {
        match self.starts.get(id as usize..id as usize + 2) {
            Some(&[start, end]) => &self.bytes[start..end],
            _ => &[],
        }
    }

    /// The id of a control token.
    pub fn control_id(&self, token: &str) -> Option<u32> {
        self.control.iter().find(|(known, _)| known == token).map(|&(_, id)| id)
    }

    /// Whether it is a control token.
    pub fn is_control(&self, id: u32) -> bool {
        self.control.iter().any(|&(_, known)| known == id)
    }

    /// The texts of all control tokens.
    pub fn control_tokens(&self) -> impl Iterator<Item = &str> {
        self.control.iter().map(|(token, _)| token.as_str())
    }

    /// Whether the model says with this token that its turn is over.
    pub fn ends_turn(&self, id: u32) -> bool {
        self.end_of_turn.contains(&id)
    }

    /// How many ids there are.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether there are no ids, which a file that loads does not have.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Cuts `text` at its control tokens.
    pub(crate) fn each_piece<'t>(&self, text: &'t str, mut found: impl FnMut(Piece<'t>)) {
        let mut rest = text;
        'pieces: while !rest.is_empty() {
            let starts = |c: char| self.control.iter().any(|(token, _)| token.starts_with(c));
            for (at, _) in rest.match_indices(starts) {
                let token = self.control.iter().find(|(token, _)| rest[at..].starts_with(token.as_str()));
                if let Some((token, id)) = token {
                    if at > 0 {
                        found(Piece::Text(&rest[..at]));
                    }
                    found(Piece::Control(*id));
                    rest = &rest[at + token.len()..];
                    continue 'pieces;
                }
            }
            found(Piece::Text(rest));
            return;
        }
    }

    fn encode_plain(&self, text: &str, ids: &mut Vec<u32>) {
        if text.is_empty() {
            return;
        }
        match self.inner.encode_fast(text, false) {
            Ok(encoding) => ids.extend_from_slice(encoding.get_ids()),
            // No step of this pipeline fails on valid UTF-8 (no truncation, every byte is in the vocabulary). Were one
            // ever to give up on a long text, losing text silently would be the worst answer: halve it.
            Err(_) => {
                let middle = (text.len() / 2..text.len()).find(|&i| text.is_char_boundary(i));
                if let Some(middle) = middle.filter(|&middle| middle > 0) {
                    self.encode_plain(&text[..middle], ids);
                    self.encode_plain(&text[middle..], ids);
                }
            }
        }
    }
}

/// A part of a text.
pub(crate) enum Piece<'t> {
    /// Text between control tokens.
    Text(&'t str),
    /// A control token.
    Control(u32),
}

fn assemble(inner: &mut tokenizers::Tokenizer, user_defined: Vec<String>) -> tokenizers::Result<()> {
    let split = Split::new(SplitPattern::Regex(QWEN2_SPLIT.into()), SplitDelimiterBehavior::Isolated, false)?;
    let byte_level = ByteLevel::new(false, false, false);
    let steps: Vec<PreTokenizerWrapper> = vec![split.into(), byte_level.into()];
    inner.with_normalizer(Some(NFC))?;
    inner.with_pre_tokenizer(Some(Sequence::new(steps)));
    inner.add_tokens(user_defined.into_iter().map(|token| AddedToken::from(token, false).normalized(false)))?;
    Ok(())
}

/// Undoes the byte-level alphabet: the vocabulary writes each byte as one printable character (GPT-2's table).
fn byte_table(tokens: &[String], raw: &[bool]) -> (Vec<u8>, Vec<usize>) {
    let mut of_char = HashMap::new();
    let mut spare = 256u32;
    for byte in 0..=255u8 {
        let printable = matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
        let code = if printable { u32::from(byte) } else { spare };
        spare += u32::from(!printable);
        of_char.insert(char::from_u32(code).expect("below the surrogates"), byte);
    }
    let mut bytes = Vec::new();
    let mut starts = vec![0];
    for (token, &raw) in tokens.iter().zip(raw) {
        let decoded: Option<Vec<u8>> = token.chars().map(|c| of_char.get(&c).copied()).collect();
        match decoded {
            Some(decoded) if !raw => bytes.extend(decoded),
            _ => bytes.extend(token.as_bytes()),
        }
        starts.push(bytes.len());
    }
    (bytes, starts)
}

fn end_of_turn(header: &Header, control: &[(String, u32)], count: usize) -> Vec<u32> {
    let mut ids = Vec::new();
    if let Some(Value::Unsigned(id)) = header.metadata.get("tokenizer.ggml.eos_token_id")
        && (*id as usize) < count
    {
        ids.push(*id as u32);
    }
    for (token, id) in control {
        if matches!(token.as_str(), "<|im_end|>" | "<|endoftext|>") && !ids.contains(id) {
            ids.push(*id);
        }
    }
    ids
}
