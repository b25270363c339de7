//! What is the one way to write a JSON value down?
//!
//! Keys sorted by their bytes, no spaces, strings as serde_json escapes them. Close to RFC 8785, except that
//! numbers are written as serde_json writes them; the log holds integers only.

use serde_json::Value;

/// The canonical form of `value`, without a newline anywhere.
#[must_use]
pub fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

/// Recursion is bounded: serde_json parses at most 128 levels, and an append takes fewer.
fn write(value: &Value, out: &mut String) {
    match value {
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by(|a, b| a.0.cmp(b.0));
            out.push('{');
            for (at, (key, item)) in entries.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write(&Value::String(key.clone()), out);
                out.push(':');
                write(item, out);
            }
            out.push('}');
        }
        // Display of a scalar is its compact JSON.
        scalar => out.push_str(&scalar.to_string()),
    }
}
