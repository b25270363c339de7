//! How is the next reply begun? A small model that has looked at enough goes on looking, because its own last turns are
//! its strongest example. So its reply is begun for it: with the code at once, with an open diagnosis, and later with
//! one suspect after the other. What it finds and what it writes stay its own.

use super::words;

/// Tries for which the model itself says where the bug is.
const FREE_TRIES: usize = 4;
/// Of every so many later tries, one is the code at once.
const CODE_FIRST_EVERY: usize = 4;
/// Statements that are suspected, at most.
const LINES_MAX: usize = 60;

/// How a condition begins in most languages.
const CONDITIONS: [&str; 7] = ["if ", "if(", "elif ", "} else if ", "while ", "while(", "for "];

/// What can be wrong, in the order in which it was seen.
#[derive(Debug, Default)]
pub struct Suspects {
    functions: Vec<String>,
    lines: Vec<String>,
}

/// The beginning of a reply, and how it is drawn.
#[derive(Debug, PartialEq, Eq)]
pub struct Approach {
    pub prefix: String,
    pub draw: Draw,
}

/// How a reply is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Draw {
    /// As the attempt of this number: the first is greedy.
    Attempt(usize),
    /// The likeliest words.
    Greedy,
    /// One line, warm, with this seed.
    Line(usize),
}

impl Suspects {
    /// The model has now seen these functions and these statements of them.
    pub fn saw(&mut self, functions: &[String], lines: &[String]) {
        let more = |seen: &mut Vec<String>, new: &[String]| {
            for name in new {
                if !seen.contains(name) {
                    seen.push(name.clone());
                }
            }
        };
        more(&mut self.functions, functions);
        more(&mut self.lines, lines);
        self.lines.truncate(LINES_MAX);
    }

    /// A file was changed for good; these are its statements now.
    pub fn changed(&mut self, lines: Vec<String>) {
        let before = std::mem::replace(&mut self.lines, lines);
        self.saw(&[], &before);
    }

    /// After so many tries in vain the suspects are gone through; what was tried before is not told any more, so that
    /// every reply starts from the same words and costs nothing to begin.
    pub fn closing_in(tries: usize) -> bool {
        tries >= FREE_TRIES
    }

    /// How the reply after so many tries in vain is begun; `files` have been seen.
    pub fn approach(&self, tries: usize, files: &[String]) -> Approach {
        if files.is_empty() {
            return Approach { prefix: words::READ_PREFIX.into(), draw: Draw::Attempt(tries) };
        }
        let free = Approach { prefix: words::DIAGNOSIS_PREFIX.into(), draw: Draw::Attempt(tries) };
        let code = Approach { prefix: words::code_first(files), draw: Draw::Attempt(tries) };
        let Some(turn) = tries.checked_sub(FREE_TRIES) else {
            return if tries.is_multiple_of(2) { code } else { free };
        };
        if turn % CODE_FIRST_EVERY == CODE_FIRST_EVERY - 1 {
            return code;
        }
        let at = turn - turn / CODE_FIRST_EVERY;
        // Where one function was seen, its name says nothing.
        let functions = if self.functions.len() > 1 { self.functions.as_slice() } else { &[] };
        if let Some(name) = functions.get(at) {
            return Approach { prefix: words::suspect_function(name), draw: Draw::Greedy };
        }
        let at = at - functions.len();
        let Some(line) = self.lines.get(at % self.lines.len().max(1)) else { return free };
        // The first answer is the likeliest; a second question has to be answered another way.
        let draw = if at < self.lines.len() { Draw::Greedy } else { Draw::Line(tries) };
        Approach { prefix: words::suspect_line(line), draw }
    }
}

/// The lines of a function that do something, without indentation: what a suspicion can point at.
pub fn statements(code: &str) -> Vec<String> {
    let mut quoted = false;
    let mut found = Vec::new();
    for line in code.lines().skip(1).map(str::trim) {
        let marks = line.matches("\"\"\"").count() + line.matches("'''").count();
        let text = quoted || marks > 0 || line.contains('`');
        quoted ^= marks % 2 == 1;
        let comment = line.starts_with(['#', '@', '/', '*']);
        let acts = line.contains(['=', '<', '>', '+', '-', '*', '/', '%', '(', '[']) || line.starts_with("return");
        let names = ["def ", "class ", "fn ", "func ", "function ", "import ", "from "];
        if !text && !comment && acts && !names.iter().any(|name| line.starts_with(name)) {
            found.push(line.to_owned());
        }
    }
    // Faults in conditions are the commonest; the order is otherwise that of the text.
    found.sort_by_key(|line| !CONDITIONS.iter().any(|word| line.starts_with(word)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "def f(a):\n    \"\"\"Adds = one.\n    more = text\n    \"\"\"\n    # a = 1\n    b = a + 1\n    if b > 2:\n        pass\n    return b\n";

    #[test]
    fn statements_are_the_lines_that_do_something_conditions_first() {
        assert_eq!(statements(CODE), ["if b > 2:", "b = a + 1", "return b"]);
    }

    #[test]
    fn every_suspect_has_its_turn_and_is_asked_about_greedily_once() {
        let mut suspects = Suspects::default();
        suspects.saw(&["f".into(), "g".into()], &statements(CODE));
        let files = ["a.py".to_owned()];
        let begun: Vec<_> = (0..16).map(|tries| suspects.approach(tries, &files)).collect();
        assert_eq!(begun[0].prefix, "edit_file a.py\n```python\n");
        assert_eq!(begun[1].prefix, "The bug is");
        let second = suspects.approach(FREE_TRIES + 9, &files);
        assert_eq!(second.prefix, "The bug is in the line `return b`. It should be `");
        assert_eq!(second.draw, Draw::Line(FREE_TRIES + 9));
        for wanted in ["`f`", "`g`", "`b = a + 1`", "`if b > 2:`", "`return b`"] {
            let found = begun.iter().filter(|approach| approach.prefix.contains(wanted));
            assert!(found.clone().any(|approach| approach.draw == Draw::Greedy), "{wanted}");
        }
    }

    #[test]
    fn nothing_is_edited_before_a_file_was_read() {
        assert!(Suspects::default().approach(0, &[]).prefix.contains("read_file"));
    }
}
