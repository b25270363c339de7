//! Into which tokens of a BERT vocabulary does a text fall?
//!
//! The same tokens as the `tokenizers` crate gives (a property test compares them): controls dropped, CJK characters
//! apart, accents gone, lower case, punctuation apart, then the longest piece of the vocabulary again and again. It is
//! several times as fast, because ASCII takes a short way and the pieces lie in a trie. Two differences are meant: a
//! text that spells `[CLS]` gets no control token, and names can be split where their case changes.

use unicode_categories::UnicodeCategories;
use unicode_normalization_alignments::UnicodeNormalization;

/// A longer word is unknown as a whole.
const WORD_CHARS_MAX: usize = 100;
pub(crate) const UNKNOWN: &str = "[UNK]";
const INSIDE_PREFIX: &str = "##";

/// What happens to `parseHttpHeader`?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Names {
    /// One word, as in the texts that the model was trained on.
    Whole,
    /// `parse http header`.
    Split,
}

/// A vocabulary, ready to be matched.
pub(crate) struct WordPiece {
    trie: Trie,
    unknown: u32,
}

impl WordPiece {
    /// `None` where the vocabulary has no token for the unknown.
    pub(crate) fn of(vocabulary: &[String]) -> Option<WordPiece> {
        let unknown = vocabulary.iter().position(|token| token == UNKNOWN)? as u32;
        Some(WordPiece { trie: Trie::of(vocabulary), unknown })
    }

    /// The token for what the vocabulary cannot spell.
    pub(crate) fn unknown(&self) -> u32 {
        self.unknown
    }

    /// Appends the tokens of a text, without `[CLS]` and `[SEP]`.
    pub(crate) fn encode(&self, text: &str, names: Names, tokens: &mut Vec<u32>) {
        let mut word = Word::default();
        // Vertical tabs and form feeds are no spaces here: they are controls, and gone before words are made.
        for run in text.as_bytes().split(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')) {
            if run.is_ascii() {
                self.encode_ascii(run, names, &mut word, tokens);
            } else if let Ok(run) = std::str::from_utf8(run) {
                self.encode_unicode(run, names, &mut word, tokens);
            }
        }
    }

    fn encode_ascii(&self, run: &[u8], names: Names, word: &mut Word, tokens: &mut Vec<u32>) {
        for (at, &byte) in run.iter().enumerate() {
            if byte.is_ascii_alphanumeric() {
                if names == Names::Split && at > 0 && starts_part(run[at - 1], byte, run.get(at + 1).copied()) {
                    self.end(word, tokens);
                }
                word.push(byte.to_ascii_lowercase() as char);
            } else if byte.is_ascii_punctuation() {
                self.end(word, tokens);
                word.push(byte as char);
                self.end(word, tokens);
            }
        }
        self.end(word, tokens);
    }

    fn encode_unicode(&self, run: &str, names: Names, word: &mut Word, tokens: &mut Vec<u32>) {
        let kept = run.chars().filter(|&c| c != char::REPLACEMENT_CHARACTER && !c.is_other());
        let spaced = kept.flat_map(|c| {
            let around = is_ideograph(c).then_some(' ');
            around.into_iter().chain([if c.is_whitespace() { ' ' } else { c }]).chain(around)
        });
        let mut before_is_small = false;
        for (c, _) in spaced.nfd().filter(|(c, _)| !c.is_mark_nonspacing()) {
            if names == Names::Split && before_is_small && c.is_uppercase() {
                self.end(word, tokens);
            }
            before_is_small = c.is_lowercase() || c.is_numeric();
            for c in c.to_lowercase() {
                let is_apart = c.is_ascii_punctuation() || c.is_punctuation();
                if is_apart || c == ' ' {
                    self.end(word, tokens);
                }
                if c != ' ' {
                    word.push(c);
                }
                if is_apart {
                    self.end(word, tokens);
                }
            }
        }
        self.end(word, tokens);
    }

    /// Spells the word and empties it.
    fn end(&self, word: &mut Word, tokens: &mut Vec<u32>) {
        if word.chars == 0 {
            return;
        }
        let first = tokens.len();
        let (mut rest, mut root) = (word.text.as_bytes(), Trie::START);
        let mut is_known = word.chars <= WORD_CHARS_MAX;
        while is_known && !rest.is_empty() {
            match self.trie.longest(root, rest) {
                Some((length, token)) => {
                    tokens.push(token);
                    rest = &rest[length..];
                }
                None => is_known = false,
            }
            root = Trie::INSIDE;
        }
        if !is_known {
            tokens.truncate(first);
            tokens.push(self.unknown);
        }
        word.text.clear();
        word.chars = 0;
    }
}

/// Whether a part of a name begins here: `fileName`, `HTTPServer`, `utf8Name`.
fn starts_part(before: u8, byte: u8, after: Option<u8>) -> bool {
    byte.is_ascii_uppercase()
        && (before.is_ascii_lowercase()
            || before.is_ascii_digit()
            || (before.is_ascii_uppercase() && after.is_some_and(|after| after.is_ascii_lowercase())))
}

/// The blocks that BERT puts spaces around.
fn is_ideograph(c: char) -> bool {
    matches!(c as u32,
        0x4E00..=0x9FFF | 0x3400..=0x4DBF | 0x20000..=0x2A6DF | 0x2A700..=0x2B73F | 0x2B740..=0x2B81F
        | 0x2B920..=0x2CEAF | 0xF900..=0xFAFF | 0x2F800..=0x2FA1F)
}

/// The word that is being read.
#[derive(Default)]
struct Word {
    text: String,
    /// Characters seen; those past the limit are counted, not kept.
    chars: usize,
}

impl Word {
    fn push(&mut self, c: char) {
        self.chars += 1;
        if self.chars <= WORD_CHARS_MAX {
            self.text.push(c);
        }
    }
}

/// All tokens by their bytes. An edge is (node, byte) in one flat hash table with linear probing.
struct Trie {
    edges: Vec<Edge>,
    /// The token that ends at a node, or [`NONE`].
    tokens: Vec<u32>,
    shift: u32,
}

#[derive(Clone, Copy)]
struct Edge {
    /// Node above the lowest eight bits, byte in them; [`NONE`] in an empty slot.
    from: u32,
    to: u32,
}

const NONE: u32 = u32::MAX;
/// Nodes that fit beside a byte.
pub(crate) const NODES_MAX: usize = (1 << 24) - 1;

impl Trie {
    /// Where a word begins.
    const START: u32 = 0;
    /// Where the rest of a word goes on.
    const INSIDE: u32 = 1;

    /// The bytes of all tokens together must be fewer than [`NODES_MAX`].
    fn of(vocabulary: &[String]) -> Trie {
        let bytes: usize = vocabulary.iter().map(String::len).sum();
        assert!(bytes + 2 < NODES_MAX, "the vocabulary was checked when it was read");
        let size = (bytes + 2).next_power_of_two();
        let mut trie = Trie {
            edges: vec![Edge { from: NONE, to: NONE }; size],
            tokens: vec![NONE; 2],
            shift: u32::BITS - size.trailing_zeros(),
        };
        for (token, text) in vocabulary.iter().enumerate() {
            let inside = text.strip_prefix(INSIDE_PREFIX).filter(|rest| !rest.is_empty());
            let mut node = if inside.is_some() { Trie::INSIDE } else { Trie::START };
            for &byte in inside.unwrap_or(text).as_bytes() {
                node = trie.child_or_new(node, byte);
            }
            trie.tokens[node as usize] = token as u32;
        }
        trie
    }

    fn slot(&self, from: u32) -> usize {
        let mut slot = (from.wrapping_mul(0x9E37_79B1) >> self.shift) as usize;
        while self.edges[slot].from != from && self.edges[slot].from != NONE {
            slot = (slot + 1) & (self.edges.len() - 1);
        }
        slot
    }

    fn child_or_new(&mut self, node: u32, byte: u8) -> u32 {
        let from = node << 8 | u32::from(byte);
        let slot = self.slot(from);
        if self.edges[slot].from == NONE {
            self.edges[slot] = Edge { from, to: self.tokens.len() as u32 };
            self.tokens.push(NONE);
        }
        self.edges[slot].to
    }

    /// The longest token that `text` begins with, and its length in bytes.
    fn longest(&self, root: u32, text: &[u8]) -> Option<(usize, u32)> {
        let (mut node, mut best) = (root, None);
        for (at, &byte) in text.iter().enumerate() {
            let edge = self.edges[self.slot(node << 8 | u32::from(byte))];
            if edge.from == NONE {
                break;
            }
            node = edge.to;
            let token = self.tokens[node as usize];
            if token != NONE {
                best = Some((at + 1, token));
            }
        }
        best
    }
}

#[cfg(test)]
#[path = "wordpiece_tests.rs"]
mod tests;
