//! Which strings look like credentials that nobody meant to show to a model?
//!
//! A short table of shapes. It is a courtesy, not a wall: the wall is that secrets are denied by path and are not
//! in the box.

/// What stands before a secret, how many characters must follow, and what it is.
const SHAPES: [(&str, usize, &str); 13] = [
    ("ghp_", 30, "access token"),
    ("gho_", 30, "access token"),
    ("ghs_", 30, "access token"),
    ("github_pat_", 22, "access token"),
    ("glpat-", 20, "access token"),
    ("npm_", 36, "access token"),
    ("pypi-", 40, "access token"),
    ("xoxb-", 20, "access token"),
    ("xoxp-", 20, "access token"),
    ("sk-", 32, "api key"),
    ("AKIA", 16, "access key"),
    ("ASIA", 16, "access key"),
    ("eyJhbGciOi", 40, "signed token"),
];

/// Replaces private key blocks and common token shapes by `[redacted: KIND]`. Returns the text and how many.
#[must_use]
pub fn redact_secrets(text: &str) -> (String, u64) {
    let (text, keys) = redact_key_blocks(text);
    let mut out = String::with_capacity(text.len());
    let mut count = keys;
    let mut word_start = true;
    let mut rest = text.as_str();
    while let Some(c) = rest.chars().next() {
        if word_start && let Some((length, kind)) = secret_at(rest) {
            out.push_str(&format!("[redacted: {kind}]"));
            rest = &rest[length..];
            count += 1;
            word_start = false;
            continue;
        }
        word_start = !in_token(c);
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    (out, count)
}

fn secret_at(text: &str) -> Option<(usize, &'static str)> {
    SHAPES.iter().find_map(|(prefix, more, kind)| {
        let body = text.strip_prefix(prefix)?;
        let length = body.find(|c| !in_token(c)).unwrap_or(body.len());
        (length >= *more).then_some((prefix.len() + length, *kind))
    })
}

fn in_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}

/// A key block ends at its END line; one that was cut off ends with the text.
fn redact_key_blocks(text: &str) -> (String, u64) {
    let mut out = String::with_capacity(text.len());
    let mut count = 0;
    let mut rest = text;
    while let Some(begin) = rest.find("-----BEGIN ") {
        let block = &rest[begin..];
        let label = block.lines().next().unwrap_or_default();
        if !label.contains("PRIVATE KEY") {
            out.push_str(&rest[..begin + 11]);
            rest = &block[11..];
            continue;
        }
        out.push_str(&rest[..begin]);
        out.push_str("[redacted: private key]");
        count += 1;
        let end = block
            .find("-----END ")
            .map_or(block.len(), |at| block[at..].find('\n').map_or(block.len(), |newline| at + newline));
        rest = &block[end..];
    }
    out.push_str(rest);
    (out, count)
}
