//! Which words of a script need not be given to the grammar one by one?
//!
//! tree-sitter-bash takes some microseconds for every word, so a command of a thousand files would take longer than
//! all the rest of the gate. Inside a long run of plain words every word is an argument like its neighbours: the
//! grammar is given one word in their place, and whoever asks for the text of a node gets what stands in the script.

use std::ops::Range;

/// Shorter runs are left alone. What stands around a run decides what its first two words and its last one are, so
/// these are never left out.
const RUN_WORDS_MIN: usize = 5;
const KEPT_BEFORE: usize = 2;

/// What stands for the words that are left out.
const IN_PLACE: &str = "x";

/// Words that the grammar knows by name end a run.
const RESERVED: [&str; 17] = [
    "if", "then", "elif", "else", "fi", "for", "in", "do", "done", "while", "until", "case", "esac", "select",
    "function", "time", "coproc",
];

/// Where one of these stands, a word may be more than a word: patterns, names of variables, texts that end with a
/// line of their own, and sums.
const NOT_BESIDE: [&str; 4] = ["<<", "((", "[", "=~"];
const NOT_BESIDE_WORDS: [&str; 9] =
    ["case", "esac", "declare", "typeset", "export", "readonly", "local", "unset", "unsetenv"];

/// Words that are left out.
#[derive(Debug)]
struct Run {
    /// Where [`IN_PLACE`] stands in the shorter text.
    at: usize,
    /// What it stands for in the script.
    words: Range<usize>,
}

/// A script with the inner words of its long runs left out.
#[derive(Debug)]
pub(super) struct Shorter {
    pub text: String,
    runs: Vec<Run>,
}

impl Shorter {
    pub fn of(script: &str) -> Shorter {
        let mut shorter = Shorter { text: String::new(), runs: Vec::new() };
        let mut copied = 0;
        for words in inner_words(script) {
            shorter.text += &script[copied..words.start];
            shorter.runs.push(Run { at: shorter.text.len(), words: words.clone() });
            shorter.text += IN_PLACE;
            copied = words.end;
        }
        shorter.text += &script[copied..];
        shorter
    }

    /// Nothing is left out.
    #[cfg(test)]
    pub fn none(script: &str) -> Shorter {
        Shorter { text: script.to_owned(), runs: Vec::new() }
    }

    /// The place in the script of a place in the shorter text.
    pub fn in_script(&self, at: usize) -> usize {
        let before = self.runs.partition_point(|run| run.at + IN_PLACE.len() <= at);
        match before.checked_sub(1).map(|last| &self.runs[last]) {
            Some(run) => run.words.end + (at - run.at - IN_PLACE.len()),
            None => at,
        }
    }

    /// Where the words are for which a piece of the shorter text stands; none when it stands for itself.
    pub fn left_out(&self, piece: &Range<usize>) -> Option<Range<usize>> {
        let run = self.runs.binary_search_by_key(&piece.start, |run| run.at).ok().map(|found| &self.runs[found])?;
        (piece.len() == IN_PLACE.len()).then(|| run.words.clone())
    }
}

/// The places of the words that are left out: of every run all but the first two and the last.
fn inner_words(script: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    if NOT_BESIDE.iter().any(|text| script.contains(text)) || !only_names_are_expanded(script) {
        return found;
    }
    let mut run: Vec<Range<usize>> = Vec::new();
    let mut end_run = |run: &mut Vec<Range<usize>>| {
        if run.len() >= RUN_WORDS_MIN {
            found.push(run[KEPT_BEFORE].start..run[run.len() - 2].end);
        }
        run.clear();
    };
    let mut at = 0;
    for word in script.split([' ', '\t', '\n']) {
        let end = at + word.len();
        if word.split(|c| !is_plain_char(c)).any(|part| NOT_BESIDE_WORDS.contains(&part)) {
            return Vec::new();
        }
        if is_plain(word) {
            run.push(at..end);
        } else if !word.is_empty() {
            end_run(&mut run);
        }
        if script[end..].starts_with('\n') {
            end_run(&mut run);
        }
        at = end + 1;
    }
    end_run(&mut run);
    found
}

/// Whether a dollar only ever stands before a name or a substitution: in what computes, words are sums.
fn only_names_are_expanded(script: &str) -> bool {
    script.match_indices("${").all(|(at, _)| {
        let inner = &script[at + 2..];
        let end = inner.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(inner.len());
        inner[end..].starts_with('}')
    })
}

/// A word that can be nothing but itself, wherever it is an argument. What has no letter and no digit may be an
/// operator.
fn is_plain(word: &str) -> bool {
    let says_something = word.contains(|c: char| c.is_ascii_alphanumeric());
    says_something && word.chars().all(is_plain_char) && !RESERVED.contains(&word)
}

fn is_plain_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_./,:@%+-".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(script: &str, expected: &str) {
        let shorter = Shorter::of(script);
        assert_eq!(shorter.text, expected);
        assert_eq!(shorter.in_script(0), 0);
        assert_eq!(shorter.in_script(shorter.text.len()), script.len());
    }

    #[test]
    fn the_inner_words_of_a_long_run_are_left_out() {
        check("wc -l a b c d; ls", "wc -l x c d; ls");
        check("wc a b c d e f 2>x g", "wc a x f 2>x g");
        check("wc  a\tb c  d\ne f g h i", "wc  a\tx  d\ne f x i");
        check("echo 'a b c d e f g'", "echo 'a b c x f g'");
    }

    #[test]
    fn a_run_ends_at_what_the_grammar_knows_and_some_scripts_are_left_whole() {
        for script in [
            "a b c d",
            "for x in a b c d do e f",
            "a b c $d e f",
            "a b c - + d",
            "cat <<E\na b c d e f\nE",
            "[ a b c d e f ]",
            "export a b c d e f",
            "echo ${x:1 2 3 4 5 6}",
            "case a in b c d e f",
            "",
        ] {
            check(script, script);
        }
    }

    #[test]
    fn a_place_in_the_shorter_text_is_one_in_the_script() {
        let script = "wc a b c d e; wc f g h i j k";
        let shorter = Shorter::of(script);
        assert_eq!(shorter.text, "wc a x d e; wc f x k");
        for (at, c) in shorter.text.char_indices().filter(|(_, c)| *c != 'x') {
            assert_eq!(script[shorter.in_script(at)..].chars().next(), Some(c), "{at}");
        }
    }
}
