//! By how much does what a file is, and what it is called, move it up or down?

use rustc_hash::FxHashSet;

use crate::classify::{Class, is_test_symbol};
use crate::inflect::root;
use crate::query::{Asked, QueryKind};
use crate::tokenize::words;

/// What a chunk counts that is a test inside of a file that is none.
const TEST_FACTOR: f64 = 0.5;
/// What a chunk counts that defines what the question names.
const DEFINITION_FACTOR: f64 = 1.5;

/// What a file counts, beyond 1, whose name the question holds whole. A long text holds the name of half the tree.
fn stem_bonus(kind: QueryKind) -> f64 {
    if kind.is_long() { 0.0 } else { 0.5 }
}

/// What a file counts by what it is, where that was not asked for.
fn class_factor(class: Class) -> f64 {
    match class {
        Class::Source => 1.0,
        Class::Barrel => 0.8,
        Class::Test | Class::Example | Class::Vendored | Class::Generated | Class::Docs => 0.5,
        Class::Fixture | Class::Minified | Class::Lock | Class::Secret => 0.25,
    }
}

/// Names of files that say nothing: their directory bears the name.
const NAMELESS: &[&str] = &["mod", "lib", "main", "index", "__init__", "__main__", "init", "package"];

/// The rules for one question.
pub(crate) struct Rules<'a> {
    kind: QueryKind,
    words: FxHashSet<&'a str>,
    roots: FxHashSet<&'a str>,
    tests_asked: bool,
    docs_asked: bool,
}

impl Rules<'_> {
    /// `tests_asked` is what the caller wants, beside what the question says.
    pub(crate) fn of(asked: &Asked, tests_asked: bool) -> Rules<'_> {
        let words: FxHashSet<&str> = asked.wanted.iter().map(|word| word.text.as_str()).collect();
        let roots = words.iter().map(|word| root(word)).collect();
        Rules {
            kind: asked.kind,
            words,
            roots,
            tests_asked: tests_asked || asked.tests_asked,
            docs_asked: asked.docs_asked,
        }
    }

    /// The factor of a file of this class.
    pub(crate) fn file(&self, class: Class, path: &str) -> f64 {
        let class = match class {
            Class::Test | Class::Fixture if self.tests_asked => Class::Source,
            Class::Docs if self.docs_asked => Class::Source,
            class => class,
        };
        class_factor(class) * (1.0 + stem_bonus(self.kind) * self.coverage(path))
    }

    /// Which share of the words of the file's name the question holds, in one form or another.
    fn coverage(&self, path: &str) -> f64 {
        let parts = parts(stem(path));
        let held = parts.iter().filter(|part| self.roots.contains(root(part))).count();
        held as f64 / parts.len().max(1) as f64
    }

    /// The factor of a chunk within its file.
    pub(crate) fn chunk(&self, symbol: Option<&str>) -> f64 {
        let is_test = symbol.is_some_and(is_test_symbol);
        let name = symbol.and_then(|symbol| symbol.rsplit('.').next());
        let test = if is_test && !self.tests_asked { TEST_FACTOR } else { 1.0 };
        let definition = if name.is_some_and(|name| self.asks_for(name)) { DEFINITION_FACTOR } else { 1.0 };
        test * definition
    }

    /// Whether the question asks for the thing of this name: it holds the identifier, or the words of the name are
    /// most of its words. "merge policy" asks for `MergePolicy`, and not for `merge`.
    fn asks_for(&self, name: &str) -> bool {
        let parts = parts(name);
        let is_compound = parts.len() > 1;
        if is_compound && self.words.contains(name.to_lowercase().as_str()) {
            return true;
        }
        !parts.is_empty()
            && parts.iter().all(|part| self.words.contains(part.as_str()))
            && parts.len() * 2 > self.words.len()
    }
}

/// The words of a name; the whole of a compound one is not among them.
fn parts(name: &str) -> Vec<String> {
    let mut all: Vec<String> = words(name).map(|word| word.text).collect();
    if all.len() > 1 {
        all.remove(0);
    }
    all
}

/// The name of the file without its endings, or of its directory where the file's own says nothing.
fn stem(path: &str) -> &str {
    let mut parts = path.rsplit('/');
    let name = parts.next().unwrap_or(path);
    let stem = name.split('.').find(|part| !part.is_empty()).unwrap_or(name);
    if NAMELESS.contains(&stem) { parts.next().unwrap_or(stem) } else { stem }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::classify;

    #[test]
    fn a_file_whose_name_is_asked_for_counts_more_and_one_that_is_no_source_less() {
        let file = |rules: &Rules<'_>, path: &str| rules.file(classify(path, b""), path);
        let asked = Asked::of("where are routes nested");
        let rules = Rules::of(&asked, false);
        assert!(file(&rules, "src/route.rs") > file(&rules, "src/other.rs"));
        assert!(file(&rules, "src/routing/mod.rs") > file(&rules, "src/other/mod.rs"));
        assert!(file(&rules, "tests/route.rs") < file(&rules, "src/other.rs"));
        assert_eq!(file(&Rules::of(&asked, true), "tests/other.rs"), file(&rules, "src/other.rs"));
        let asked = Asked::of("documentation of nesting");
        assert_eq!(file(&Rules::of(&asked, false), "docs/other.md"), file(&rules, "src/other.rs"));
    }

    #[test]
    fn a_definition_is_asked_for_by_its_name_or_by_most_of_the_words() {
        let asked = Asked::of("merge policy");
        let rules = Rules::of(&asked, false);
        assert!(rules.asks_for("MergePolicy") && rules.asks_for("merge_policy") && !rules.asks_for("merge"));
        assert!(rules.chunk(Some("a.MergePolicy")) > rules.chunk(Some("a.merge")));
        assert!(rules.chunk(Some("tests.merge")) < rules.chunk(None));
    }
}
