//! What could be asked about a tree? Names, patterns and sentences taken from its own files, with a fixed seed.
//!
//! Where a name is defined is read off the text here, line by line, and not asked of the index's own parser: an answer
//! is measured against a second opinion.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// Files that are read for names, patterns and sentences.
const FILES_MAX: usize = 4_000;
const NAME_CHARS: std::ops::RangeInclusive<usize> = 4..=60;
const MODIFIERS: [&str; 16] = [
    "pub",
    "pub(crate)",
    "pub(super)",
    "async",
    "unsafe",
    "const",
    "export",
    "default",
    "static",
    "public",
    "private",
    "protected",
    "final",
    "abstract",
    "extern",
    "inline",
];
const KEYWORDS: [&str; 10] =
    ["fn", "struct", "enum", "trait", "def", "class", "function", "func", "interface", "union"];

/// A place at which a line says that a name is defined.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Defined {
    /// The name.
    pub name: String,
    /// The file, relative to the tree.
    pub path: String,
    /// From 1.
    pub line: usize,
}

/// What was taken from a tree.
#[derive(Default)]
pub struct Sample {
    /// Definitions in the files that were read.
    pub defined: Vec<Defined>,
    /// First sentences of comments.
    pub sentences: Vec<String>,
    /// Lines of code with a call in them.
    pub calls: Vec<String>,
}

/// The next number of SplitMix64 (Steele, Lea and Flood 2014): the same on every machine.
pub struct Seed(pub u64);

impl Seed {
    /// Anything below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((word ^ (word >> 31)) % bound as u64) as usize
    }

    /// At most `count` of `all`, each at most once.
    pub fn pick<T: Clone>(&mut self, all: &[T], count: usize) -> Vec<T> {
        let mut order: Vec<usize> = (0..all.len()).collect();
        for at in 0..count.min(all.len()) {
            let other = at + self.below(all.len() - at);
            order.swap(at, other);
        }
        order.into_iter().take(count).map(|at| all[at].clone()).collect()
    }
}

/// Reads a sample of the files at `paths`, which are relative to `root`.
pub fn sample(root: &Path, paths: &[String], seed: &mut Seed) -> Sample {
    let mut sample = Sample::default();
    let mut chosen = seed.pick(paths, FILES_MAX);
    chosen.sort();
    for path in chosen {
        let full = root.join(&path);
        let fits = std::fs::metadata(&full).is_ok_and(|found| found.is_file() && found.len() <= FILE_BYTES_MAX);
        let Some(text) = fits.then(|| std::fs::read(&full).ok()).flatten() else { continue };
        read(&path, &String::from_utf8_lossy(&text), &mut sample);
    }
    sample
}

fn read(path: &str, text: &str, sample: &mut Sample) {
    let is_code =
        ["rs", "py", "js", "ts", "go", "java", "c", "h", "cpp"].iter().any(|end| path.ends_with(&format!(".{end}")));
    if !is_code {
        return;
    }
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(name) = defined_name(line) {
            sample.defined.push(Defined { name: name.to_owned(), path: path.to_owned(), line: at + 1 });
        } else if let Some(said) = line.strip_prefix("/// ").or_else(|| line.strip_prefix("# ")) {
            let said = said.trim_end_matches('.');
            let words = said.split_whitespace().count();
            if (4..=12).contains(&words) && said.chars().all(|sign| sign.is_alphanumeric() || " -'`".contains(sign)) {
                sample.sentences.push(said.to_owned());
            }
        } else if line.len() < 100 && line.contains('(') && line.ends_with(';') {
            sample.calls.push(line.to_owned());
        }
    }
}

/// The name that a line defines, where it does so in one of the usual ways.
pub fn defined_name(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    loop {
        let (word, after) = rest.split_once(' ')?;
        rest = after.trim_start();
        if KEYWORDS.contains(&word) {
            break;
        }
        let is_quoted = word.starts_with('"') && word.ends_with('"');
        if !MODIFIERS.contains(&word) && !is_quoted {
            return None;
        }
    }
    let end = rest.find(|sign: char| !(sign.is_alphanumeric() || sign == '_')).unwrap_or(rest.len());
    let name = &rest[..end];
    let begins = name.starts_with(|sign: char| sign.is_alphabetic() || sign == '_');
    // "fn the_name(", "class Name:", "struct Name {", and no sentence that begins with one of the words.
    let goes_on = rest[end..].trim_start().starts_with(['(', '{', ':', '<', ';']) || rest[end..].trim().is_empty();
    (begins && goes_on && NAME_CHARS.contains(&name.chars().count())).then_some(name)
}

/// Names that are defined in exactly one place of the sample, in a fixed order.
pub fn unique(defined: &[Defined]) -> Vec<Defined> {
    let mut places: BTreeMap<&str, Vec<&Defined>> = BTreeMap::new();
    for place in defined {
        places.entry(&place.name).or_default().push(place);
    }
    places.into_values().filter(|places| places.len() == 1).map(|places| places[0].clone()).collect()
}

/// Patterns as people type them: names, the start of a call, words in either case, alternatives, gaps.
pub fn patterns(sample: &Sample, seed: &mut Seed, count: usize) -> Vec<String> {
    let names: Vec<String> = {
        let mut seen = HashSet::new();
        sample.defined.iter().map(|place| place.name.clone()).filter(|name| seen.insert(name.clone())).collect()
    };
    if names.is_empty() {
        return Vec::new();
    }
    let mut patterns = Vec::new();
    while patterns.len() < count {
        let name = &names[seed.below(names.len())];
        let other = &names[seed.below(names.len())];
        let half: String = name.chars().take(name.chars().count().div_ceil(2).max(4)).collect();
        patterns.push(match patterns.len() % 10 {
            0 | 1 => name.clone(),
            2 => format!(r"\b{name}\b"),
            3 => format!(r"{name}\("),
            4 => format!("(?i){name}"),
            5 => format!("{name}|{other}"),
            6 => format!(r"{half}\w+\("),
            7 => format!(r"(fn|def|func|function)\s+{half}"),
            8 => format!(r"\.{name}\(.*\)"),
            _ => format!(r"{half}.*\{{"),
        });
    }
    patterns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_which_name_it_defines() {
        let defines = [
            ("pub async fn read_all(&self) {", "read_all"),
            ("    def close(self):", "close"),
            ("class Session(Base):", "Session"),
            ("export default function renderPage(x) {", "renderPage"),
            ("pub(crate) struct SymbolTable;", "SymbolTable"),
            ("extern \"C\" fn callback()", "callback"),
        ];
        for (line, name) in defines {
            assert_eq!(defined_name(line), Some(name), "{line}");
        }
        let nothing = ["let fn_name = 1;", "// fn of_old()", "class action lawsuits are", "return x;", "fn", "fn a()"];
        assert!(nothing.iter().all(|line| defined_name(line).is_none()));
    }

    #[test]
    fn a_seed_always_picks_the_same() {
        let all: Vec<usize> = (0..100).collect();
        let picked = Seed(7).pick(&all, 10);
        assert_eq!(picked, Seed(7).pick(&all, 10));
        assert_ne!(picked, Seed(8).pick(&all, 10));
        assert_eq!(picked.iter().collect::<HashSet<_>>().len(), 10);
        assert_eq!(Seed(7).pick(&all, 1_000).len(), 100);
    }

    #[test]
    fn a_sample_holds_names_sentences_and_patterns() {
        let dir = tempfile::tempdir().unwrap();
        let text = "/// Reads the whole file into memory\nfn read_file() {\n    open(path);\n}\nfn read_file() {}\nfn other() {}\n";
        std::fs::write(dir.path().join("a.rs"), text).unwrap();
        let sample = sample(dir.path(), &["a.rs".to_owned(), "gone.rs".to_owned()], &mut Seed(1));
        assert_eq!(sample.sentences, ["Reads the whole file into memory"]);
        assert_eq!(unique(&sample.defined), [Defined { name: "other".to_owned(), path: "a.rs".to_owned(), line: 6 }]);
        assert_eq!(patterns(&sample, &mut Seed(1), 20).len(), 20);
    }
}
