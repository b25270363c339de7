//! Which values does a failing test expect, and does a line of source simply say one of them?

use std::collections::BTreeSet;

const VALUES_MAX: usize = 64;
/// Shorter strings and numbers are everywhere.
const STRING_CHARS_MIN: usize = 4;
const NUMBER_CHARS_MIN: usize = 3;

/// The distinctive literals in the lines of a test's output that compare: strings with their quotes, numbers.
pub(super) fn expected(output: &str) -> BTreeSet<String> {
    let compares = |line: &&str| {
        ["==", "!=", "assert", "expected", "Expected", "left:", "right:", "want", "but was", "First differing"]
            .iter()
            .any(|sign| line.contains(sign))
    };
    output.lines().filter(compares).flat_map(literals).take(VALUES_MAX).collect()
}

/// The literal of `values` that a new line returns, compares with or maps to.
pub(super) fn copied(new_lines: &str, values: &BTreeSet<String>) -> Option<String> {
    let says = |line: &&str| {
        ["return ", "==", "=>", "if ", "elif ", "case ", "when "].iter().any(|sign| line.contains(sign))
            || line.contains(": ") && line.ends_with(',')
    };
    let code = |line: &&str| !line.starts_with('#') && !line.starts_with("//") && !line.starts_with('*');
    new_lines.lines().filter(code).filter(says).flat_map(literals).find(|literal| values.contains(literal))
}

/// Strings are noted by their content, whatever their quotes.
fn literals(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = line;
    let mut outside = String::new();
    while let Some(at) = rest.find(['"', '\'', '`']) {
        let quote = rest[at..].chars().next().unwrap_or('"');
        outside.push_str(&rest[..at]);
        outside.push(' ');
        let inner = &rest[at + 1..];
        let Some(end) = inner.find(quote) else {
            rest = inner;
            continue;
        };
        let text = &inner[..end];
        if text.chars().count() >= STRING_CHARS_MIN && text.chars().any(char::is_alphanumeric) {
            found.push(text.to_owned());
        }
        rest = &inner[end + 1..];
    }
    outside.push_str(rest);
    let words = outside.split(|c: char| !(c.is_alphanumeric() || c == '.' || c == '_'));
    let number = |word: &&str| {
        let digits = word.bytes().filter(u8::is_ascii_digit).count();
        digits >= NUMBER_CHARS_MIN && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    };
    found.extend(words.filter(number).map(|word| word.trim_matches('.').to_owned()));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_a_test_expects_is_known_again() {
        let values =
            expected("E       assert 'h_t_m_l' == 'html_parser'\nAssertionError: 1234 != 5678\nRan 3 tests in 0.1s\n");
        assert_eq!(copied("    return 'html_parser'", &values).as_deref(), Some("html_parser"));
        assert_eq!(copied("if x == 5:\n    return 5678", &values).as_deref(), Some("5678"));
        assert_eq!(copied("    if name == \"h_t_m_l\":", &values).as_deref(), Some("h_t_m_l"));
        assert_eq!(copied("    return re.sub('_', '', name)", &values), None);
        assert_eq!(copied("# returns html_parser", &values), None);
        assert_eq!(copied("    return 1", &values), None);
    }
}
