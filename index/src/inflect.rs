//! Which other forms of an English word may stand in the code?
//!
//! The index holds words as they are written. A question in prose is widened instead: "routes" also asks for `route`,
//! `routing` and `router`. So nothing is stemmed on disk, names stay exact, and only forms that really occur cost
//! anything.

/// Endings that are taken off, longest first, and how many letters must remain.
const ENDINGS: &[(&str, usize)] = &[
    ("ations", 4),
    ("ation", 4),
    ("ings", 3),
    ("ions", 4),
    ("ing", 3),
    ("ion", 4),
    ("ies", 3),
    ("ers", 4),
    ("ors", 4),
    ("ed", 3),
    ("er", 4),
    ("or", 4),
    ("es", 3),
    ("e", 3),
    ("s", 3),
    ("y", 3),
];

/// Endings that a stem may bear instead.
const FORMS: &[&str] =
    &["", "e", "s", "es", "ed", "er", "ers", "ing", "ings", "or", "ors", "ion", "ions", "ation", "ations", "y", "ies"];

/// Forms of `word`, lower case, without itself. Most of them are no words at all: the caller asks the index.
pub(crate) fn forms(word: &str) -> Vec<String> {
    if !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return Vec::new();
    }
    let stem = stem(word);
    if stem.len() < 3 {
        return Vec::new();
    }
    let mut forms: Vec<String> = FORMS.iter().map(|ending| format!("{stem}{ending}")).collect();
    let last = &stem[stem.len() - 1..];
    if stem.ends_with(&last.repeat(2)) {
        // "mapping" is a form of "map".
        let single = &stem[..stem.len() - 1];
        forms.extend(["", "s"].map(|ending| format!("{single}{ending}")));
    } else if "bdgklmnprt".contains(last) {
        forms.extend(["ed", "er", "ing"].map(|ending| format!("{stem}{last}{ending}")));
    }
    forms.retain(|form| form != word);
    forms
}

/// What all forms of a word have in common. No word by itself; two words with one root are taken for forms of one.
pub(crate) fn root(word: &str) -> &str {
    let stem = stem(word);
    let is_doubled = stem.len() > 3 && stem.as_bytes()[stem.len() - 1] == stem.as_bytes()[stem.len() - 2];
    if is_doubled && stem != word && stem.is_ascii() { &stem[..stem.len() - 1] } else { stem }
}

fn stem(word: &str) -> &str {
    if word.ends_with("ss") || word.ends_with("us") || word.ends_with("is") {
        return word;
    }
    let cut = |(ending, remain): &(&str, usize)| word.strip_suffix(ending).filter(|stem| stem.len() >= *remain);
    let stem = ENDINGS.iter().find_map(cut).unwrap_or(word);
    // "string" is no form of "str".
    if stem.bytes().any(|byte| b"aeiouy".contains(&byte)) { stem } else { word }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_of_a_word_find_each_other() {
        for group in [
            &["route", "routes", "routing", "router", "routed"][..],
            &["extract", "extractor", "extraction", "extracting", "extracts"],
            &["convert", "converts", "converting", "converter"],
            &["map", "maps", "mapping", "mapped"],
            &["query", "queries"],
            &["cache", "cached", "caching", "caches"],
        ] {
            for word in group {
                let forms = forms(word);
                assert_eq!(root(word), root(group[0]));
                for other in group.iter().filter(|other| *other != word) {
                    assert!(forms.iter().any(|form| form == other), "{word} lacks {other}: {forms:?}");
                }
            }
        }
    }

    #[test]
    fn words_that_only_look_inflected_stay_whole() {
        assert_eq!((stem("string"), stem("class"), stem("status"), stem("red")), ("string", "class", "status", "red"));
        assert!(forms("größe").is_empty() && forms("").is_empty() && forms("is").is_empty());
    }
}
