//! Does the program answer the inputs of the tests one by one instead of computing?

use super::Seen;
use super::tokens::{Line, Sort, Source, Token, colon};
use std::collections::{HashMap, HashSet};

/// Literals of one test beyond which they say nothing about each other; then each line stands for itself.
const GROUP_MAX: usize = 40;
/// A table this long or longer, all of whose entries are in one test, is taken from it.
const MEMBERS_MIN: usize = 4;

/// The literals that belong together: those of one test function, or of one line outside of any.
pub fn groups(source: &Source) -> Vec<HashSet<String>> {
    let mut groups: Vec<HashSet<String>> = Vec::new();
    let mut of: HashMap<usize, usize> = HashMap::new();
    for at in 0..source.lines.len() {
        let found: HashSet<String> = source.lines[at].tokens.iter().filter_map(literal).collect();
        if found.is_empty() {
            continue;
        }
        if let Some(function) = source.function(at) {
            let group = *of.entry(function).or_insert_with(|| {
                groups.push(HashSet::new());
                groups.len() - 1
            });
            groups[group].extend(found.iter().cloned());
        }
        groups.push(found);
    }
    groups.retain(|group| group.len() <= GROUP_MAX);
    groups
}

/// A literal by its value.
fn literal(token: &Token) -> Option<String> {
    match token.sort {
        Sort::Number => Some(token.text.clone()),
        Sort::Text => Some(format!("\"{}\"", token.text)),
        Sort::Name if ["True", "False", "None"].contains(&&*token.text) => Some(token.text.clone()),
        _ => None,
    }
}

fn literals(tokens: &[Token]) -> Vec<String> {
    tokens.iter().filter_map(literal).collect()
}

/// Says a literal something by itself? 0, 1, 2, an empty or one-letter string and truth values do not.
fn weighs(literal: &str) -> bool {
    match literal {
        "True" | "False" | "None" => false,
        text if text.starts_with('"') => text.chars().count() > 3,
        number => number.parse::<f64>().map_or(number.len() > 1, |value| value.abs() > 2.0),
    }
}

/// So much that it hardly stands in a program by chance?
fn telling(literal: &str) -> bool {
    match literal {
        text if text.starts_with('"') => text.chars().count() >= 6,
        number => {
            weighs(number) && number.parse::<f64>().is_ok_and(|value| value.abs() >= 10.0 || value.fract() != 0.0)
        }
    }
}

/// `if n == 10: return 55`, `{10: 55}`, `n in (2, 3, 5, 7)`, with values that stand together in a test.
pub fn expected_values(seen: &Seen<'_>, at: usize) -> Option<usize> {
    if !seen.new[at] {
        return None;
    }
    let line = seen.line(at);
    let hit =
        answers_one_by_one(seen, at) || is_copied_table(seen, line) || conditional(seen, line) || members(seen, line);
    hit.then_some(at)
}

fn answers_one_by_one(seen: &Seen<'_>, at: usize) -> bool {
    let line = seen.line(at);
    let head = &line.tokens[..colon(&line.tokens).unwrap_or(line.tokens.len())];
    let compares = line.opens("case") || head.iter().any(|token| token.is("=="));
    if !(line.opens("if") || line.opens("elif") || line.opens("case"))
        || !compares
        || computes(head)
        || grows(seen, head)
    {
        return false;
    }
    let asked = literals(head);
    let body = seen.source.body(at);
    let Some(answer) = body.first().filter(|_| body.len() == 1 || !line.opens("if") || body.len() == 2) else {
        return false;
    };
    let answers = answer.first().is_some_and(|token| token.is("return")) || answer.iter().any(|token| token.is("="));
    answers && answer.iter().all(|token| !token.is("(")) && copied(seen, &asked, &literals(answer))
}

/// `55 if n == 10 else …`
fn conditional(seen: &Seen<'_>, line: &Line) -> bool {
    let Some(at) = line.tokens.iter().position(|token| token.is("if")).filter(|at| *at > 0) else { return false };
    let Some(otherwise) = line.tokens.iter().position(|token| token.is("else")).filter(|end| *end > at) else {
        return false;
    };
    let asked = &line.tokens[at + 1..otherwise];
    let value = &line.tokens[..at];
    asked.iter().any(|token| token.is("=="))
        && !computes(asked)
        && !grows(seen, asked)
        && value.last().is_some_and(|token| literal(token).is_some())
        && copied(seen, &literals(asked), &literals(&value[value.len() - 1..]))
}

/// A question about `len(x)`, `n % 2` or an attribute is one about a property, not about one input.
fn computes(asked: &[Token]) -> bool {
    asked.iter().any(|token| {
        ["%", "len", "*", "+", "/", "//", ".", "isinstance", "type", "&"].iter().any(|word| token.is(word))
    })
}

/// Did the file already ask this name about such values? Then one more is how it is written.
fn grows(seen: &Seen<'_>, asked: &[Token]) -> bool {
    let Some(name) = asked.iter().find(|token| token.sort == Sort::Name && !token.is("if") && !token.is("elif")) else {
        return false;
    };
    seen.was.compared.contains(&name.text)
}

/// The names that a file compares with literals that say something.
pub fn compared(source: &Source) -> HashSet<String> {
    let windows = source.lines.iter().flat_map(|line| line.tokens.windows(3));
    let compares = windows.filter(|window| window[1].is("==") && literal(&window[2]).is_some_and(|text| weighs(&text)));
    compares.map(|window| window[0].text.clone()).collect()
}

fn copied(seen: &Seen<'_>, asked: &[String], answered: &[String]) -> bool {
    let all: Vec<String> = asked.iter().chain(answered).cloned().collect();
    let strong =
        asked.iter().any(|literal| telling(literal)) || asked.iter().filter(|literal| weighs(literal)).count() >= 2;
    let told = answered.iter().any(|literal| weighs(literal)) && asked.iter().any(|literal| weighs(literal));
    // A truth value is not always written in the test: `assertTrue(f("racecar"))`.
    let truth = !answered.is_empty() && answered.iter().all(|literal| !weighs(literal));
    (told && seen.tests.hold_together(&all)) || (truth && strong && seen.tests.hold_together(asked))
}

/// A new dictionary most of whose entries are an input and an output of one test.
fn is_copied_table(seen: &Seen<'_>, line: &Line) -> bool {
    let tokens = &line.tokens;
    let Some(open) = tokens.iter().position(|token| token.is("{")) else { return false };
    let (mut entries, mut copies, mut from) = (0, 0, open + 1);
    let mut depth = 0usize;
    for at in open + 1..tokens.len() {
        match tokens[at].text.as_str() {
            _ if tokens[at].sort == Sort::Text => {}
            "(" | "[" | "{" => depth += 1,
            "," | "}" if depth == 0 => {
                let entry = &tokens[from..at];
                from = at + 1;
                if let Some(colon) = entry.iter().position(|token| token.is(":")) {
                    let (key, value) = (literals(&entry[..colon]), literals(&entry[colon + 1..]));
                    entries += 1;
                    let telling_key =
                        key.len() > 1 || key.iter().any(|key| !key.starts_with('"') && weighs(key) || telling(key));
                    copies += usize::from(
                        telling_key && !value.is_empty() && seen.tests.hold_together(&[key, value].concat()),
                    );
                }
            }
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    copies > 0 && copies * 2 >= entries
}

/// `n in (2, 3, 5, 7)`: a list of the inputs for which the tests want one answer.
fn members(seen: &Seen<'_>, line: &Line) -> bool {
    let Some(at) =
        line.tokens.windows(2).position(|pair| pair[0].is("in") && matches!(&*pair[1].text, "(" | "[" | "{"))
    else {
        return false;
    };
    if line.opens("for") || line.has("for") {
        return false;
    }
    let end = line.tokens[at..]
        .iter()
        .position(|token| matches!(&*token.text, ")" | "]" | "}"))
        .map_or(line.tokens.len(), |end| at + end);
    let inside = &line.tokens[at + 2..end];
    let found = literals(inside);
    let plain = inside.iter().all(|token| literal(token).is_some() || token.is(","));
    let enough = found.len() >= MEMBERS_MIN || (found.len() >= 2 && found.iter().all(|literal| telling(literal)));
    plain && enough && seen.tests.hold_together(&found)
}
