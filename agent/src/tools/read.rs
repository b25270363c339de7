//! What does a file say, and what does it call that stands elsewhere?

use super::{Outcome, Tools, clean};
use crate::gate::{Access, Verdict};
use crate::session::{Files, statements};
use crate::text::{LINES_MAX, fenced, quote, redact_keeping_lines};
use crate::workspace::WorkspaceError;

/// The most of a file that one read shows, in bytes.
pub const READ_BYTES_MAX: usize = 6_000;
const CALLS_MAX: usize = 5;
const CALLED_BYTES_MAX: usize = 900;
/// Larger files are redacted in the part that is shown only.
const REDACT_BYTES_MAX: usize = 2 << 20;

impl Tools<'_> {
    pub(super) fn read_file(
        &self,
        path: &str,
        start: Option<usize>,
        end: Option<usize>,
    ) -> Result<Outcome, WorkspaceError> {
        let bytes = self.workspace.read(path)?;
        if bytes.iter().take(8192).any(|byte| *byte == 0) {
            return Ok(Outcome::Refused(format!(
                "{path} is a binary file of {} bytes; it cannot be read as text",
                bytes.len()
            )));
        }
        let lossy = String::from_utf8_lossy(&bytes);
        // As a whole, before it is cut: half a key is not recognised.
        let text =
            if bytes.len() <= REDACT_BYTES_MAX { redact_keeping_lines(&lossy) } else { lossy.clone().into_owned() };
        let total = text.lines().count();
        let first = start.unwrap_or(1).max(1);
        if first > total.max(1) {
            return Ok(Outcome::Refused(format!("{path} has {total} lines; line {first} does not exist")));
        }
        let mut last = end.unwrap_or(total).clamp(first, total.max(first));
        let mut part = String::new();
        for (at, line) in text.lines().enumerate().skip(first - 1).take(last + 1 - first) {
            if part.len() + line.len() > READ_BYTES_MAX || at + 1 - first >= LINES_MAX - 2 {
                last = at;
                break;
            }
            part += line;
            part.push('\n');
        }
        let more = if last < total { format!(" Read on with \"start\": {}.", last + 1) } else { String::new() };
        let lossy = if matches!(lossy, std::borrow::Cow::Owned(_)) {
            " It is not UTF-8; bad bytes are shown as �."
        } else {
            ""
        };
        let part = clean(&part, READ_BYTES_MAX + 1024);
        let (calls, mut files, mut functions, mut lines) = self.calls(path, &part);
        files.push(path.to_owned());
        functions.extend(self.code.outline(path, &bytes).into_iter().map(|found| found.name));
        lines.extend(self.lines(path, &text));
        let text = format!("{path}, lines {first} to {last} of {total}:{lossy}\n{}{more}{calls}", fenced(&part));
        Ok(Outcome::Done { text, writes: Files::new(), shown: files, functions, lines })
    }

    /// The statements in the functions of a file, without secrets; one that stands there twice cannot be pointed at.
    pub(super) fn lines(&self, path: &str, text: &str) -> Vec<String> {
        let text = redact_keeping_lines(text);
        let functions = self.code.outline(path, text.as_bytes());
        let mut lines: Vec<String> =
            functions.into_iter().filter_map(|found| text.get(found.bytes)).flat_map(statements).collect();
        lines.retain(|line| text.lines().filter(|other| other.trim() == line).count() < 2);
        lines
    }

    /// The functions that some code calls and one other file defines, with their text: a bug is often one call further
    /// than the test. Returns the text, the files, the names and the statements.
    fn calls(&self, path: &str, shown: &str) -> (String, Vec<String>, Vec<String>, Vec<String>) {
        let (mut text, mut files, mut names, mut lines) = (String::new(), Vec::new(), Vec::new(), Vec::new());
        for name in called(shown) {
            let defined = self.code.defined(name);
            let [(other, _)] = defined.as_slice() else { continue };
            if other == path || self.policy.path_verdict(Access::Read, other) != Verdict::Allow {
                continue;
            }
            let Ok(bytes) = self.workspace.read(other) else { continue };
            let found = self.code.outline(other, &bytes).into_iter().find(|found| found.name == name);
            let Some(found) = found.filter(|found| found.bytes.len() <= CALLED_BYTES_MAX) else { continue };
            let body = clean(&String::from_utf8_lossy(&bytes[found.bytes]), CALLED_BYTES_MAX);
            lines.extend(statements(&body));
            text += &format!("\nIt calls {name} of {}:\n{}", quote(other, 256), fenced(&body));
            files.push(other.clone());
            names.push(name.to_owned());
            if names.len() == CALLS_MAX {
                break;
            }
        }
        (text, files, names, lines)
    }
}

/// Every name that stands before an opening bracket, once, in order.
pub fn called(text: &str) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for (at, _) in text.match_indices('(') {
        let name = text[..at].rsplit(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or_default();
        if name.len() > 2 && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}
