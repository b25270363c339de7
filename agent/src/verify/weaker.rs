//! Does a changed test still say what it said? If not, it is put back and never carried over.

use super::review::{PythonSource, Sort};
use crate::workspace::Change;
use std::collections::HashSet;

/// What a test file claims, counted.
#[derive(Debug, Default)]
struct Claims {
    tests: usize,
    asserts: usize,
    loose: usize,
    skips: usize,
    literals: HashSet<String>,
}

const SKIPS: &[&str] =
    &["skip", "skipIf", "skipUnless", "skipTest", "SkipTest", "xfail", "expectedFailure", "importorskip"];
const LOOSE: &[&str] = &[
    "assertGreater",
    "assertGreaterEqual",
    "assertLess",
    "assertLessEqual",
    "assertAlmostEqual",
    "assertTrue",
    "assertIsNotNone",
    "assertIn",
    "assertIsInstance",
    "assertNotEqual",
    "approx",
];

impl Claims {
    fn read(text: &str) -> Self {
        let source = PythonSource::read(text);
        let mut claims = Self::default();
        for line in &source.lines {
            let is_test = line.opens("def") && line.tokens.iter().any(|token| token.text.starts_with("test"));
            claims.tests += usize::from(is_test);
            let names = || line.tokens.iter().filter(|token| token.sort == Sort::Name);
            let asserts = names().filter(|token| token.text.starts_with("assert") || token.is("raises")).count();
            claims.asserts += asserts;
            claims.loose += names().filter(|token| LOOSE.contains(&&*token.text)).count();
            claims.skips += names().filter(|token| SKIPS.contains(&&*token.text)).count();
            // A test that returns at once, or asks what is never true, is skipped too.
            let never = line.opens("if") && line.tokens.get(1).is_some_and(|token| token.is("False") || token.is("0"));
            claims.skips += usize::from(never || line.opens("return"));
            let values = line.tokens.iter().filter(|token| matches!(token.sort, Sort::Number | Sort::Text));
            claims.literals.extend(values.map(|token| token.text.clone()));
        }
        claims
    }

    /// The values that assertions compare with.
    fn asserted(text: &str) -> HashSet<String> {
        let source = PythonSource::read(text);
        let asserts = source.lines.iter().filter(|line| {
            line.tokens[0].is("assert")
                || line.tokens.iter().any(|t| t.sort == Sort::Name && t.text.starts_with("assert"))
        });
        let tokens =
            asserts.flat_map(|line| &line.tokens).filter(|token| matches!(token.sort, Sort::Number | Sort::Text));
        tokens.map(|token| token.text.clone()).collect()
    }
}

/// A new test says something of its own; a changed one must keep its tests, its values and its strictness.
pub fn still_says(change: &Change) -> bool {
    let text = |side: &Option<Vec<u8>>| side.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let (before, after) = match (text(&change.before), text(&change.after)) {
        (None, Some(_)) => return true,
        (Some(before), Some(after)) if change.path.ends_with(".py") => (before, after),
        // Gone, or in a language or a form that is not read here.
        _ => return false,
    };
    let (was, is) = (Claims::read(&before), Claims::read(&after));
    let kept = Claims::asserted(&before).is_subset(&is.literals);
    let asserts = is.asserts > 0 || was.asserts == 0;
    is.tests >= was.tests && is.skips <= was.skips && is.loose <= was.loose && asserts && kept
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "class T(TestCase):\n    def test_a(self):\n        self.assertEqual(f(2), 5)\n        self.assertEqual(f(3), 7)\n";

    #[track_caller]
    fn check(after: &str, expected: bool) {
        let bytes = |text: &str| Some(text.as_bytes().to_vec());
        let change = Change { path: "test_a.py".into(), before: bytes(BASE), after: bytes(after) };
        assert_eq!(still_says(&change), expected, "{after}");
    }

    #[test]
    fn a_refactored_test_that_keeps_its_values_still_says_what_it_said() {
        check(
            "class T(TestCase):\n    def test_a(self):\n        for n, want in ((2, 5), (3, 7)):\n            self.assertEqual(f(n), want)\n",
            true,
        );
        check(&BASE.replace("test_a", "test_f_of_small_numbers"), true);
    }

    #[test]
    fn a_weakened_test_does_not() {
        check(&BASE.replace("assertEqual(f(2), 5)", "assertGreaterEqual(f(2), 5)"), false);
        check(&BASE.replace("5)", "4)"), false);
        check(&BASE.replace("    def test_a", "    @unittest.skip('x')\n    def test_a"), false);
        check("class T(TestCase):\n    def test_a(self):\n        pass\n", false);
        check(&BASE.replace("test_a", "check_a"), false);
        check(&BASE.replace("        self.assertEqual(f(2)", "        return\n        self.assertEqual(f(2)"), false);
    }
}
