//! Are these the tokens that the `tokenizers` crate gives?

use super::*;
use proptest::prelude::*;
use std::path::PathBuf;
use std::sync::OnceLock;
use tokenizers::Tokenizer;

/// The vocabulary of MiniLM where it is at hand, else a small one: what is compared is the same.
fn reference() -> &'static (Tokenizer, WordPiece) {
    static REFERENCE: OnceLock<(Tokenizer, WordPiece)> = OnceLock::new();
    REFERENCE.get_or_init(|| {
        let mut tokenizer = match real() {
            Some(path) => Tokenizer::from_file(path).unwrap(),
            None => small(),
        };
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).unwrap();
        let mut vocabulary = vec![String::new(); tokenizer.get_vocab_size(true)];
        for (text, token) in tokenizer.get_vocab(true) {
            vocabulary[token as usize] = text;
        }
        let words = WordPiece::of(&vocabulary).unwrap();
        (tokenizer, words)
    })
}

fn real() -> Option<PathBuf> {
    let beside = || [env!("CARGO_MANIFEST_DIR"), "../../dev/models"].iter().collect();
    let models: PathBuf = std::env::var_os("CLOISTER_TEST_MODELS").map_or_else(beside, PathBuf::from);
    let path = models.join("all-minilm-l6-v2/tokenizer.json");
    if !path.exists() {
        println!("with a small vocabulary: there is no {}", path.display());
    }
    path.exists().then_some(path)
}

fn small() -> Tokenizer {
    let mut texts: Vec<String> =
        ["[PAD]", "[UNK]", "the", "parse", "http", "unaffable", "##able", "##aff", "中", "é"].map(str::to_owned).into();
    for c in ('!'..='~').filter(|c| !c.is_ascii_uppercase()).chain("αβγςσжиüß日本語한ᄒ।".chars()) {
        texts.extend([c.to_string(), format!("##{c}")]);
    }
    let mut vocabulary = serde_json::Map::new();
    for text in texts {
        let next = vocabulary.len();
        vocabulary.entry(text).or_insert(next.into());
    }
    let parts = serde_json::json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": null, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"}, "post_processor": null, "decoder": null,
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": vocabulary},
    });
    Tokenizer::from_bytes(parts.to_string()).unwrap()
}

fn ours(text: &str, names: Names) -> Vec<u32> {
    let mut tokens = Vec::new();
    reference().1.encode(text, names, &mut tokens);
    tokens
}

#[track_caller]
fn check(text: &str) {
    let theirs = reference().0.encode_fast(text, false).unwrap();
    assert_eq!(ours(text, Names::Whole), theirs.get_ids(), "{text:?}");
}

#[test]
fn texts_that_are_hard_to_read_fall_into_the_same_tokens() {
    let long = |c: &str, count: usize| c.repeat(count);
    for text in [
        "",
        " \t\r\n",
        "fn parse_http(request: &Request) -> Result<(), Error> { /* … */ }",
        "a\u{b}b\u{c}c\u{1c}d\u{85}e\u{0}f\u{7f}g",
        "non\u{a0}breaking\u{2028}line\u{3000}wide",
        "Ünïcödé naïve café CAFÉ cafe\u{301}s İstanbul ẞtraße ΣΊΣΥΦΟΣ ﬁ",
        "中文字符mixed日本語テキスト한국어 ภาษาไทย हिन्दी",
        "zero\u{200b}width\u{200d}joiner\u{feff}bom\u{fffd}lost \u{e000}private \u{10ffff}",
        "“quoted” — dash… ¿qué? 。、「」 $+<=>^`|~ €£ ½ ² № ™",
        "emoji 🙂👩\u{200d}💻 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𠀀𪜀 豈更",
        "\u{301}\u{302} leading marks, tone \u{302e}\u{302f} and \u{1d165}\u{1d16e} order",
        &long("a", 100),
        &long("a", 101),
        &long("é", 100),
        &long("é", 101),
        &long("中", 300),
        &long("#", 300),
        &format!("{}\u{0}{}", long("x", 60), long("y", 60)),
    ] {
        check(text);
    }
}

#[test]
fn every_character_alone_and_in_a_word_falls_into_the_same_tokens() {
    for c in ('\0'..=char::MAX).step_by(7).chain('\0'..'\u{3100}') {
        check(&format!("{c} a{c}b"));
    }
}

#[test]
fn no_text_spells_a_control_token() {
    let unknown = reference().1.unknown();
    let spelt = ours("[UNK] [CLS] [unused1]", Names::Whole);
    assert!(spelt.len() >= 9 && !spelt.contains(&unknown), "{spelt:?}");
}

#[test]
fn names_are_split_where_their_case_changes() {
    for (name, parts) in [
        ("parseHttpHeader", "parse http header"),
        ("HTTPServer", "http server"),
        ("parse_http_HEADER", "parse_http_header"),
        ("utf8Name", "utf8 name"),
        ("ALLCAPS", "allcaps"),
        ("größeÄndern", "größe ändern"),
        ("a", "a"),
    ] {
        assert_eq!(ours(name, Names::Split), ours(parts, Names::Whole), "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn any_text_falls_into_the_same_tokens(text in any::<String>()) {
        check(&text);
    }

    #[test]
    fn any_words_fall_into_the_same_tokens(
        words in prop::collection::vec("[a-zA-Z0-9_]{0,30}|[ -~]{0,9}|[à-ÿĀ-ſḀ-ỿ\u{300}-\u{345}a-c]{1,9}|[一-三あ-か가-깋]{1,5}|\\p{M}{1,3}a?", 0..12),
        gap in "[ \n\t\u{b}\u{a0}]{0,2}",
    ) {
        check(&words.join(&gap));
    }
}
