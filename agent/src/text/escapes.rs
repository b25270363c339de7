//! Which characters act on a terminal, and where does each of their sequences end? (ECMA-48, xterm's ctlseqs.)

/// A string sequence (OSC, DCS, APC, PM, SOS) longer than this is taken as unterminated: only its introducer is
/// removed, so that a program cannot hide the rest of its output behind an escape that never ends.
const STRING_CHARS_MAX: usize = 8192;

/// `text` without escape sequences and without control characters other than newline and tab; `\r\n` and a lone
/// `\r` become `\n`, because a lone one would let a line overwrite the one before. Returns how many were removed.
pub(super) fn strip(text: &str) -> (String, u64) {
    let mut out = String::with_capacity(text.len());
    let mut removed = 0;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        match c {
            '\r' => {
                out.push('\n');
                rest = after.strip_prefix('\n').unwrap_or(after);
                continue;
            }
            '\x1b' => rest = escape(after),
            '\u{9b}' => rest = control_sequence(after),
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => rest = string_sequence(after),
            '\n' | '\t' => {
                out.push(c);
                rest = after;
                continue;
            }
            c if c.is_control() => rest = after,
            c => {
                out.push(c);
                rest = after;
                continue;
            }
        }
        removed += 1;
    }
    (out, removed)
}

/// What follows an ESC that was removed.
fn escape(after: &str) -> &str {
    match after.chars().next() {
        Some('[') => control_sequence(&after[1..]),
        Some('P' | 'X' | ']' | '^' | '_') => string_sequence(&after[1..]),
        // An nF or two-character escape: intermediates, then one final character.
        Some(' '..='~') => {
            let middle = after.find(|c| !matches!(c, ' '..='/')).unwrap_or(after.len());
            let ends_well = after[middle..].starts_with(|c| matches!(c, '0'..='~'));
            if ends_well { &after[middle + 1..] } else { &after[middle..] }
        }
        _ => after,
    }
}

/// CSI: parameters, intermediates, one final character. A broken one ends at the first character that is neither.
fn control_sequence(after: &str) -> &str {
    let parameters = after.find(|c| !matches!(c, '0'..='?')).unwrap_or(after.len());
    let middle = &after[parameters..];
    let end = middle.find(|c| !matches!(c, ' '..='/')).unwrap_or(middle.len());
    let ends_well = middle[end..].starts_with(|c| matches!(c, '@'..='~'));
    if ends_well { &middle[end + 1..] } else { &middle[end..] }
}

/// Everything up to BEL or ST. A newline or too great a length means that it was never ended.
fn string_sequence(after: &str) -> &str {
    for (at, c) in after.char_indices().take(STRING_CHARS_MAX) {
        match c {
            '\x07' | '\u{9c}' => return &after[at + c.len_utf8()..],
            '\x1b' if after[at + 1..].starts_with('\\') => return &after[at + 2..],
            '\n' | '\r' => return after,
            _ => {}
        }
    }
    after
}
