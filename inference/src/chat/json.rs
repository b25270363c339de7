//! How would Python write this JSON?
//!
//! Templates are written for `json.dumps(value, ensure_ascii=False)`: a space after each colon and comma, non-ASCII
//! characters as they are, floats as `repr` writes them. The model saw that form in training, so the bytes matter.

use serde_json::Value;
use std::fmt::Write;

/// `json.dumps(value, ensure_ascii=False)`.
pub(super) fn dumps(value: &Value) -> String {
    let mut out = String::new();
    write_value(value, &mut out);
    out
}

fn write_value(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => write_float(float, out),
            _ => _ = write!(out, "{number}"),
        },
        Value::String(text) => write_text(text, out),
        Value::Array(values) => {
            out.push('[');
            for (i, value) in values.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                write_value(value, out);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            out.push('{');
            for (i, (key, value)) in fields.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                write_text(key, out);
                out.push_str(": ");
                write_value(value, out);
            }
            out.push('}');
        }
    }
}

fn write_text(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' => _ = write!(out, "\\u{:04x}", c as u32),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Python's `repr`: the shortest digits that read back the same, with an exponent below 1e-4 and from 1e16 on.
fn write_float(float: f64, out: &mut String) {
    let size = float.abs();
    if size != 0.0 && !(1e-4..1e16).contains(&size) {
        let text = format!("{float:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
        _ = write!(out, "{digits}e{sign}{exponent:0>2}");
    } else {
        _ = write!(out, "{float:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_written_as_python_writes_it() {
        let cases = [
            (
                r#"{"a":[1,2.5,true,null,{"k":{}}],"b":"é 😀"}"#,
                r#"{"a": [1, 2.5, true, null, {"k": {}}], "b": "é 😀"}"#,
            ),
            (r#"["\u0001\b\f\n\r\t\"\\/ \u007f"]"#, "[\"\\u0001\\b\\f\\n\\r\\t\\\"\\\\/ \u{7f}\"]"),
            (
                "[1.0,-0.0,1e15,1e16,1e100,0.0001,0.00001,1.5e-7]",
                "[1.0, -0.0, 1000000000000000.0, 1e+16, 1e+100, 0.0001, 1e-05, 1.5e-07]",
            ),
            ("[18446744073709551615,-9223372036854775808]", "[18446744073709551615, -9223372036854775808]"),
            ("{}", "{}"),
            ("[]", "[]"),
        ];
        for (json, python) in cases {
            assert_eq!(dumps(&serde_json::from_str(json).unwrap()), python, "{json}");
        }
    }
}
