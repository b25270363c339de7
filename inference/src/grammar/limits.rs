//! How much may a schema ask for?
//!
//! A schema comes from a stranger. What it may cost when it is compiled and followed is bounded by llguidance's own fuel;
//! what is bounded here is what that fuel does not count, and what would be refused anyway with worse words.

use super::GrammarError;
use serde_json::Value;
use std::collections::HashSet;

/// Bytes of one schema, written without white space.
pub(super) const BYTES_MAX: usize = 64 << 10;
/// Values inside values.
pub(super) const DEPTH_MAX: usize = 48;
/// Values of one schema, keys not counted.
pub(super) const NODES_MAX: usize = 8192;
/// Properties that one object names: a parser keeps four items for each, and at most 2,000 at a time.
pub(super) const PROPERTIES_MAX: usize = 400;
/// Bytes of one regular expression.
pub(super) const REGEX_BYTES_MAX: usize = 512;
/// The largest number of characters, items or properties that may be asked for.
pub(super) const COUNT_MAX: u64 = 4096;
/// Keywords by which two regular expressions may come to hold for one text. Whether any text fits both can take for ever
/// to find out, and no fuel counts it (measured: forty of 30 bytes each, minutes). So beside these there is one at most.
const JOINERS: [&str; 8] = ["allOf", "anyOf", "oneOf", "not", "if", "$ref", "$dynamicRef", "dependentSchemas"];
/// Bytes of the reason that is told.
const REASON_BYTES_MAX: usize = 300;

const COUNTS: [&str; 6] = ["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"];

/// Refuses what is too much, by its place in the schema.
pub(super) fn check(path: &str, schema: &Value) -> Result<(), GrammarError> {
    let refuse = |reason: String| Err(GrammarError { path: path.to_owned(), reason });
    if !matches!(schema, Value::Object(_) | Value::Bool(_)) {
        return refuse("a schema is an object or a boolean".into());
    }
    // Values wait in a list, so that depth costs no stack.
    let (mut waiting, mut nodes) = (vec![(schema, path.to_owned(), 0)], 0);
    let (mut regexes, mut joined) = (HashSet::new(), false);
    while let Some((value, at, depth)) = waiting.pop() {
        nodes += 1;
        if depth > DEPTH_MAX {
            return Err(GrammarError { path: short(&at), reason: format!("deeper than {DEPTH_MAX} values in values") });
        }
        if nodes > NODES_MAX {
            return refuse(format!("more than {NODES_MAX} values"));
        }
        match value {
            Value::Object(fields) => {
                joined |= JOINERS.iter().any(|name| fields.contains_key(*name));
                regexes.extend(fields.get("pattern").and_then(Value::as_str));
                let names = fields.get("patternProperties").and_then(Value::as_object);
                regexes.extend(names.into_iter().flat_map(|names| names.keys().map(String::as_str)));
                for (name, value) in fields {
                    let place = format!("{at}.{name}");
                    if let Err(reason) = field(name, value) {
                        return Err(GrammarError { path: short(&place), reason });
                    }
                    waiting.push((value, place, depth + 1));
                }
            }
            Value::Array(items) => {
                waiting.extend(items.iter().enumerate().map(|(i, item)| (item, format!("{at}[{i}]"), depth + 1)));
            }
            _ => {}
        }
    }
    if joined && regexes.len() > 1 {
        return refuse(format!("beside {} there is at most one regular expression", JOINERS.join(", ")));
    }
    // Only now, because to write something deep would cost stack.
    if schema.to_string().len() > BYTES_MAX { refuse(format!("longer than {BYTES_MAX} bytes")) } else { Ok(()) }
}

/// What one keyword says. A property of the same name holds a schema, so other types pass.
fn field(name: &str, value: &Value) -> Result<(), String> {
    let regex = |text: &str| match text.len() > REGEX_BYTES_MAX {
        true => Err(format!("a regular expression has at most {REGEX_BYTES_MAX} bytes")),
        false => Ok(()),
    };
    match (name, value) {
        ("properties", Value::Object(fields)) if fields.len() > PROPERTIES_MAX => {
            Err(format!("an object names at most {PROPERTIES_MAX} properties"))
        }
        ("pattern", Value::String(text)) => regex(text),
        ("patternProperties", Value::Object(fields)) if fields.len() > 1 => {
            Err("at most one regular expression for the names of one object".into())
        }
        ("patternProperties", Value::Object(fields)) => fields.keys().try_for_each(|text| regex(text)),
        (name, Value::Number(count)) if COUNTS.contains(&name) && count.as_f64() > Some(COUNT_MAX as f64) => {
            Err(format!("at most {COUNT_MAX}"))
        }
        _ => Ok(()),
    }
}

/// As much of an error as helps.
pub(super) fn first_words(error: &str) -> String {
    short(error.lines().next().unwrap_or_default())
}

fn short(text: &str) -> String {
    let end = text.floor_char_boundary(REASON_BYTES_MAX);
    if end < text.len() { format!("{}…", &text[..end]) } else { text.to_owned() }
}
