//! Which texts mean something similar, by an encoder of the BERT family out of a GGUF file?
//!
//! The weights are computed as those of MiniLM are, the tokens are those of [`super::wordpiece`]. A file spells its
//! vocabulary the other way round than BERT does: pieces that begin a word are marked (with `▁`), those inside are bare.
//! Whether a model tells letters apart by their case is not said in such a file; as everywhere, they are read in lower case.

use super::pooling::Pooling;
use super::wordpiece::{NODES_MAX, Names, UNKNOWN, WordPiece};
use super::{EmbedError, GGUF_TOKENS_MAX, TEXT_BYTES_MAX};
use crate::model::{Header, LoadError, SentenceEncoder, Value};

/// As llama.cpp names this kind of vocabulary.
const VOCABULARY_KIND: &str = "bert";
const BEGINS_WORD: char = '\u{2581}';

/// An encoder and its tokens.
pub(super) struct Encoder {
    encoder: SentenceEncoder,
    words: WordPiece,
    /// `[CLS]`.
    begin: u32,
    /// `[SEP]`.
    end: u32,
    pooling: Pooling,
    tokens_max: usize,
}

impl Encoder {
    pub(super) fn load(header: &Header) -> Result<Encoder, LoadError> {
        if header.tensors.is_empty() {
            return Err(LoadError::VocabularyOnly { path: header.path.clone() });
        }
        let kind = header.text("tokenizer.ggml.model")?;
        if kind != VOCABULARY_KIND {
            let what = format!("a vocabulary of the kind {kind:?} for an encoder");
            return Err(LoadError::Unsupported { path: header.path.clone(), what });
        }
        let pooling = Pooling::read(header, "bert")?;
        let mut vocabulary: Vec<String> =
            header.texts("tokenizer.ggml.tokens")?.iter().map(|token| as_bert_spells(token)).collect();
        if vocabulary.iter().map(|token| token.len() + UNKNOWN.len()).sum::<usize>() >= NODES_MAX {
            return Err(header.corrupted("the vocabulary is longer than any is".into()));
        }
        let begin = control(header, &vocabulary, &["cls_token_id", "bos_token_id"], "[CLS]")?;
        // The key is misspelled in the files that there are.
        let keys = ["seperator_token_id", "separator_token_id", "eos_token_id"];
        let end = control(header, &vocabulary, &keys, "[SEP]")?;
        let unknown = control(header, &vocabulary, &["unknown_token_id"], UNKNOWN)?;
        vocabulary[unknown as usize] = UNKNOWN.to_owned();
        let words = WordPiece::of(&vocabulary).expect("the unknown has its token");
        let encoder = SentenceEncoder::load_gguf(header, vocabulary.len())?;
        let tokens_max = GGUF_TOKENS_MAX.min(encoder.tokens_max());
        Ok(Encoder { encoder, words, begin, end, pooling, tokens_max })
    }

    pub(super) fn dimension(&self) -> usize {
        self.encoder.dimension()
    }

    pub(super) fn pooling(&self) -> Pooling {
        self.pooling
    }

    pub(super) fn tokens_max(&self) -> usize {
        self.tokens_max
    }

    pub(super) fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let rows: Vec<Vec<u32>> = texts.iter().map(|text| self.tokens(text)).collect();
        self.pooling.embed(&self.encoder, &rows).map_err(|error| EmbedError::Failed { reason: error.to_string() })
    }

    fn tokens(&self, text: &str) -> Vec<u32> {
        let mut tokens = vec![self.begin];
        self.words.encode(&text[..text.floor_char_boundary(TEXT_BYTES_MAX)], Names::Whole, &mut tokens);
        tokens.truncate(self.tokens_max - 1);
        tokens.push(self.end);
        tokens
    }
}

fn as_bert_spells(token: &str) -> String {
    match token.strip_prefix(BEGINS_WORD) {
        Some(word) => word.to_owned(),
        None if token.starts_with('[') && token.ends_with(']') => token.to_owned(),
        None => format!("##{token}"),
    }
}

/// The token that one of these keys names, else the one with this text.
fn control(header: &Header, vocabulary: &[String], keys: &[&str], text: &str) -> Result<u32, LoadError> {
    let keys = keys.iter().map(|key| format!("tokenizer.ggml.{key}"));
    let said = keys.filter_map(|key| header.metadata.get(&key)).next();
    let found = match said {
        Some(Value::Unsigned(id)) => usize::try_from(*id).ok().filter(|id| *id < vocabulary.len()),
        Some(_) => None,
        None => vocabulary.iter().position(|token| token == text),
    };
    found.map(|id| id as u32).ok_or_else(|| header.corrupted(format!("no token of the vocabulary is {text}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_spelled_as_bert_spells_them() {
        let spelled = ["▁word", "s", "[SEP]", "▁[", "]", "▁", "[unused0]"].map(as_bert_spells);
        assert_eq!(spelled, ["word", "##s", "[SEP]", "[", "##]", "", "[unused0]"]);
    }
}
