//! How does a block of code from the model become a file? Whole functions are put in the place of those they replace.
//!
//! Small models write a whole function well and a diff badly, so the harness supplies everything around it.

use crate::code::{Code, Definition};

/// Why an edit was not made; the text goes back to the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The commonest failure of small models.
    #[error("your edit changes nothing: the code in the block is the same as in {path}. Change the line that is wrong")]
    NoChange {
        /// The file.
        path: String,
    },
    /// The result would not parse.
    #[error(
        "your edit was not made: {path} would have a syntax error at line {line}: `{text}`. Write the complete function again"
    )]
    DoesNotParse {
        /// The file.
        path: String,
        /// From 1.
        line: usize,
        /// What stands there.
        text: String,
    },
    /// A mark of a redacted secret that could mean more than one, or none.
    #[error(
        "your code holds a redacted secret, and which one of {path} is meant cannot be told. Leave that part out of the code block"
    )]
    Redacted {
        /// The file.
        path: String,
    },
    /// A line to replace that is not there, or more than once.
    #[error("your edit was not made: {path} does not have the line `{line}` exactly once. Write the complete function")]
    NoSuchLine {
        /// The file.
        path: String,
        /// As it was quoted.
        line: String,
    },
    /// A fragment of a file without functions to go by.
    #[error(
        "your edit was not made: the block has {new} lines, {path} has {old}, and no function in the block is in the file. Write the complete function, or the whole file. Functions in {path}: {names}"
    )]
    Fragment {
        /// The file.
        path: String,
        /// Lines in the block.
        new: usize,
        /// Lines in the file.
        old: usize,
        /// What could have been written.
        names: String,
    },
}

/// The text of `path` with another text for the one line that reads `from`; its indentation stays.
pub fn replace_line(path: &str, old: &str, from: &str, to: &str, code: &dyn Code) -> Result<String, EditError> {
    let mut found = old.split_inclusive('\n').filter(|line| line.trim() == from.trim());
    let (Some(line), None) = (found.next(), found.next()) else {
        return Err(EditError::NoSuchLine { path: path.into(), line: from.chars().take(120).collect() });
    };
    let at = old.split_inclusive('\n').take_while(|other| other.trim() != from.trim()).map(str::len).sum::<usize>();
    let indent = line.len() - line.trim_start().len();
    let end = at + line.trim_end().len();
    // Who quotes a line often leaves its last mark out of the quotation.
    let mark = from.trim().chars().last().filter(|mark| ":{;,".contains(*mark) && !to.trim().ends_with(*mark));
    let mark = mark.map(String::from).unwrap_or_default();
    checked(path, old, format!("{}{}{mark}{}", &old[..at + indent], to.trim(), &old[end..]), code)
}

/// The text of `path` after the edit.
pub fn splice(path: &str, old: &str, block: &str, code: &dyn Code) -> Result<String, EditError> {
    let block = dedent(block);
    checked(path, old, merge(path, old, &block, code)?, code)
}

/// `new`, where it changes something and parses at least as well as `old`.
fn checked(path: &str, old: &str, new: String, code: &dyn Code) -> Result<String, EditError> {
    if new.trim() == old.trim() || squeeze(&new) == squeeze(old) {
        return Err(EditError::NoChange { path: path.into() });
    }
    if let Some(Err(line)) = code.parses(path, new.as_bytes())
        && code.parses(path, old.as_bytes()) == Some(Ok(()))
    {
        let text = new.lines().nth(line.saturating_sub(1)).unwrap_or_default().trim().chars().take(120).collect();
        return Err(EditError::DoesNotParse { path: path.into(), line, text });
    }
    Ok(new)
}

fn merge(path: &str, old: &str, block: &str, code: &dyn Code) -> Result<String, EditError> {
    let theirs = code.outline(path, block.as_bytes());
    let ours = code.outline(path, old.as_bytes());
    let fragment = || EditError::Fragment {
        path: path.into(),
        new: block.lines().count(),
        old: old.lines().count(),
        names: ours.iter().take(20).map(|d| d.name.as_str()).collect::<Vec<_>>().join(", "),
    };
    if ours.is_empty() || theirs.is_empty() {
        let short = block.lines().count() * 10 < old.lines().count() * 6;
        return if short { Err(fragment()) } else { Ok(block.to_owned()) };
    }
    if is_whole_file(old, &ours, block, &theirs) {
        return Ok(block.to_owned());
    }
    let pieces = pieces(&ours, &theirs);
    let mut cuts: Vec<(std::ops::Range<usize>, String)> = Vec::new();
    let mut added: Vec<&str> = Vec::new();
    for piece in pieces {
        let text = &block[line_start(block, piece.bytes.start)..piece.bytes.end];
        match place(&ours, piece) {
            Some(target) => {
                let from = line_start(old, target.bytes.start);
                let column = target.bytes.start - from;
                cuts.push((from..target.bytes.end, indent(&dedent(text), &old[from..from + column])));
            }
            None => added.push(text),
        }
    }
    if cuts.is_empty() {
        return Err(fragment());
    }
    cuts.sort_by_key(|(range, _)| range.start);
    cuts.dedup_by(|later, earlier| later.0.start < earlier.0.end);
    if !added.is_empty() {
        let first = cuts[0].0.start;
        let column = old[first..].len() - old[first..].trim_start_matches([' ', '\t']).len();
        let text: String =
            added.iter().map(|text| indent(&dedent(text), &old[first..first + column]) + "\n\n").collect();
        cuts[0].1.insert_str(0, &text);
    }
    let mut new = String::with_capacity(old.len() + block.len());
    let mut at = 0;
    for (range, text) in cuts {
        new.push_str(&old[at..range.start]);
        new.push_str(text.trim_end());
        at = range.end;
    }
    new.push_str(&old[at..]);
    Ok(with_imports(&new, old, block, &theirs))
}

/// The block holds every top-level definition and about as much else as the file did.
fn is_whole_file(old: &str, ours: &[Definition], block: &str, theirs: &[Definition]) -> bool {
    let has = |name: &str| theirs.iter().any(|d| d.parent.is_none() && d.name == name);
    let every = ours.iter().filter(|d| d.parent.is_none()).all(|d| has(&d.name));
    let methods = |all: &[Definition]| all.iter().filter(|d| d.parent.is_some()).count();
    every && methods(theirs) >= methods(ours) && loose_lines(block, theirs) * 10 >= loose_lines(old, ours) * 8
}

/// Non-blank lines outside of every definition.
fn loose_lines(text: &str, definitions: &[Definition]) -> usize {
    let mut offset = 0;
    let outside = |at: usize| !definitions.iter().any(|d| line_start(text, d.bytes.start) <= at && at < d.bytes.end);
    text.split_inclusive('\n')
        .filter(|line| {
            offset += line.len();
            !line.trim().is_empty() && outside(offset - line.len())
        })
        .count()
}

/// What the block brings: its top-level definitions, but a class that shows only some of its methods brings those alone.
fn pieces<'a>(ours: &[Definition], theirs: &'a [Definition]) -> Vec<&'a Definition> {
    let members = |all: &[Definition], class: &str| {
        all.iter().filter(|d| d.parent.as_deref() == Some(class)).map(|d| d.name.clone()).collect::<Vec<_>>()
    };
    let mut found = Vec::new();
    for piece in theirs.iter().filter(|d| d.parent.is_none()) {
        let (had, shown) = (members(ours, &piece.name), members(theirs, &piece.name));
        if !shown.is_empty() && had.iter().any(|name| !shown.contains(name)) {
            found.extend(theirs.iter().filter(|d| d.parent.as_deref() == Some(piece.name.as_str())));
        } else {
            found.push(piece);
        }
    }
    found
}

/// The definition that a piece replaces: the same parent, else the only one of that name.
fn place<'a>(ours: &'a [Definition], piece: &Definition) -> Option<&'a Definition> {
    let named: Vec<&Definition> = ours.iter().filter(|d| d.name == piece.name).collect();
    let same = named.iter().find(|d| d.parent == piece.parent).copied();
    same.or_else(|| (named.len() == 1 && piece.parent.is_none()).then(|| named[0]))
}

/// Import lines that the block has and the file has not, put before the file's first import or line of code.
fn with_imports(new: &str, old: &str, block: &str, theirs: &[Definition]) -> String {
    let first = theirs.iter().map(|d| line_start(block, d.bytes.start)).min().unwrap_or(0);
    let missing: Vec<&str> = block[..first]
        .lines()
        .filter(|line| line.starts_with("import ") || (line.starts_with("from ") && line.contains(" import ")))
        .filter(|line| !line.starts_with("from .") || old.contains("from ."))
        .filter(|line| !old.lines().any(|have| have.trim() == line.trim()))
        .collect();
    if missing.is_empty() {
        return new.to_owned();
    }
    let is_import = |line: &str| line.starts_with("import ") || line.starts_with("from ");
    let at = match new.lines().position(is_import) {
        Some(line) => new.split_inclusive('\n').take(line).map(str::len).sum(),
        None => new.find("def ").map_or(0, |at| line_start(new, at)),
    };
    format!(
        "{}{}\n{}{}",
        &new[..at],
        missing.join("\n"),
        if new[at..].starts_with("def ") { "\n\n" } else { "" },
        &new[at..]
    )
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

fn dedent(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let depth = |line: &&str| line.len() - line.trim_start().len();
    let least = lines.iter().filter(|line| !line.trim().is_empty()).map(depth).min().unwrap_or(0);
    let mut out: String =
        lines.iter().map(|line| line.get(least..).unwrap_or("").trim_end().to_owned() + "\n").collect();
    out.truncate(out.trim_end().len());
    out + "\n"
}

fn indent(text: &str, by: &str) -> String {
    let put = |line: &str| if line.is_empty() { "\n".to_owned() } else { format!("{by}{line}\n") };
    text.lines().map(put).collect::<String>().trim_end().to_owned()
}

/// Without blank lines and trailing blanks, for the question "is it the same code?".
fn squeeze(text: &str) -> String {
    text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::fake::Indents;

    const OLD: &str = "import os\n\n\ndef one(x):\n    return x\n\n\nclass Box:\n    def get(self):\n        return 1\n\n    def put(self):\n        return 2\n\n\n\"\"\"notes\"\"\"\n";

    #[track_caller]
    fn check(block: &str, expected: &str) {
        assert_eq!(splice("a.py", OLD, block, &Indents).as_deref(), Ok(expected), "{block}");
    }

    #[test]
    fn a_function_replaces_its_namesake_and_nothing_else() {
        check("def one(x):\n    return x + 1\n", &OLD.replace("return x\n", "return x + 1\n"));
    }

    #[test]
    fn a_method_is_found_and_indented() {
        check("def get(self):\n    return 7\n", &OLD.replace("return 1\n", "return 7\n"));
        check("    def get(self):\n        return 7\n", &OLD.replace("return 1\n", "return 7\n"));
    }

    #[test]
    fn a_class_that_shows_some_methods_keeps_the_others() {
        check("class Box:\n    def put(self):\n        return 9\n", &OLD.replace("return 2\n", "return 9\n"));
    }

    #[test]
    fn a_new_function_and_a_new_import_come_along() {
        let new =
            splice("a.py", OLD, "import sys\n\ndef extra():\n    pass\n\ndef one(x):\n    return extra()\n", &Indents)
                .unwrap();
        assert!(new.starts_with("import sys\nimport os\n"), "{new}");
        assert!(new.contains("def extra():\n    pass\n\ndef one(x):\n    return extra()\n"), "{new}");
        assert!(new.ends_with("\"\"\"notes\"\"\"\n"), "{new}");
    }

    #[test]
    fn the_whole_file_replaces_the_whole_file() {
        let whole = OLD.replace("return 2", "return 3");
        check(&whole, &whole);
    }

    #[test]
    fn an_edit_that_changes_nothing_is_an_error() {
        let same = "def one(x):\n\n    return x   \n";
        assert_eq!(splice("a.py", OLD, same, &Indents), Err(EditError::NoChange { path: "a.py".into() }));
    }

    #[test]
    fn one_line_is_replaced_where_it_stands_and_keeps_its_indentation() {
        let new = replace_line("a.py", OLD, "return 2", "return 3", &Indents).unwrap();
        assert_eq!(new, OLD.replace("        return 2\n", "        return 3\n"));
        let new = replace_line("a.py", OLD, "def one(x):", "def one(x, y)", &Indents).unwrap();
        assert!(new.contains("def one(x, y):\n"), "the mark at its end stays: {new}");
        let same = replace_line("a.py", OLD, "return 2", " return 2 ", &Indents);
        assert_eq!(same, Err(EditError::NoChange { path: "a.py".into() }));
        let twice = OLD.replace("return 2", "return 1");
        for (text, line) in [(OLD, "return 4"), (twice.as_str(), "return 1")] {
            let error = replace_line("a.py", text, line, "pass", &Indents).unwrap_err();
            assert!(error.to_string().contains("exactly once"), "{error}");
        }
    }

    #[test]
    fn a_fragment_is_refused_with_the_names_that_exist() {
        let error = splice("a.py", OLD, "    return x + 1\n", &Indents).unwrap_err();
        assert!(error.to_string().contains("Functions in a.py: one, Box, get, put"), "{error}");
    }
}
