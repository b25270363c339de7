//! Which words may a grammar be written with?

use crate::tokenizer::{Special, Tokenizer};
use llguidance::toktrie::{TokRxInfo, TokTrie, TokenId, TokenizerEnv};
use std::sync::Arc;

/// The tokens of a model, as far as a grammar must know them.
pub trait Vocabulary: Send + Sync + 'static {
    /// How many ids there are.
    fn ids(&self) -> usize;

    /// The bytes of an id; empty for one that is never written.
    fn word(&self, id: u32) -> &[u8];

    /// Whether it is a control token, which no text contains.
    fn controls(&self, id: u32) -> bool;

    /// Whether it ends the turn.
    fn ends(&self, id: u32) -> bool;

    /// The ids of a text in which nothing controls.
    fn ids_of(&self, text: &str) -> Vec<u32>;
}

impl Vocabulary for Arc<Tokenizer> {
    fn ids(&self) -> usize {
        self.len()
    }

    fn word(&self, id: u32) -> &[u8] {
        self.bytes(id)
    }

    fn controls(&self, id: u32) -> bool {
        self.is_control(id)
    }

    fn ends(&self, id: u32) -> bool {
        self.ends_turn(id)
    }

    fn ids_of(&self, text: &str) -> Vec<u32> {
        self.encode(text, Special::Forbid)
    }
}

/// The same as llguidance reads it.
pub(super) struct Words {
    vocabulary: Arc<dyn Vocabulary>,
    trie: TokTrie,
}

impl Words {
    pub fn new(vocabulary: Arc<dyn Vocabulary>) -> Result<Words, String> {
        let ids = u32::try_from(vocabulary.ids()).map_err(|_| "the vocabulary is too large".to_owned())?;
        let ends: Vec<u32> = (0..ids).filter(|&id| vocabulary.ends(id)).collect();
        let [end, ..] = ends[..] else {
            return Err("the vocabulary has no token that ends a turn".into());
        };
        let word = |id: u32| match vocabulary.controls(id) || vocabulary.ends(id) {
            // The mark keeps it out of every text.
            true => [&[TokTrie::SPECIAL_TOKEN_MARKER], vocabulary.word(id)].concat(),
            false => vocabulary.word(id).to_vec(),
        };
        let words: Vec<Vec<u8>> = (0..ids).map(word).collect();
        let trie = TokTrie::from(&TokRxInfo::new(ids, end), &words).with_eos_tokens(&ends);
        Ok(Words { vocabulary, trie })
    }
}

impl TokenizerEnv for Words {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        self.trie.tokenize_with_greedy_fallback(bytes, |text| self.vocabulary.ids_of(text))
    }
}
