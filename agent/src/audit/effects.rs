//! What did an action really write, and what reached the working tree? Told from the bytes, not from what was declared.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::canonical;
use crate::workspace::Change;

/// Files that one record names one by one; of the others it gives their number and one digest over all.
pub const FILES_NAMED_MAX: usize = 200;
/// Hunks that are recorded one by one for one file; the last record then stands for the rest of the file.
pub const HUNKS_NAMED_MAX: usize = 200;
/// After this long, hunks are larger than they need to be, and not less true.
const DIFF_TIME_MAX: Duration = Duration::from_secs(2);

/// SHA-256 in hex.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// SHA-256 of the canonical form, for a prompt or a policy. What cannot be written as JSON has the digest of null.
#[must_use]
pub fn sha256_of(value: &impl serde::Serialize) -> String {
    sha256(canonical(&serde_json::to_value(value).unwrap_or_default()).as_bytes())
}

/// What the box held when it was last looked at: path to the digest of its bytes, `None` where there are none.
#[derive(Debug, Clone, Default)]
pub struct Held {
    files: BTreeMap<String, Option<String>>,
}

impl Held {
    /// The body of a record `wrote`: every file that is not as it was at the last call, given all that differs from
    /// the base now. `None` when nothing was written.
    pub fn wrote(&mut self, changes: &[Change]) -> Option<Value> {
        let digest = |change: &Change| (change.path.clone(), change.after.as_deref().map(sha256));
        let now: BTreeMap<String, Option<String>> = changes.iter().map(digest).collect();
        let mut files: Vec<Value> = Vec::new();
        for change in changes.iter().filter(|change| self.files.get(&change.path) != now.get(&change.path)) {
            let bytes = change.after.as_ref().map(Vec::len);
            files.push(
                json!({ "path": change.path, "is": is(change), "sha256": now[&change.path], "size_bytes": bytes }),
            );
        }
        for path in self.files.keys().filter(|path| !now.contains_key(*path)) {
            files.push(json!({ "path": path, "is": "as_before" }));
        }
        self.files = now;
        if files.is_empty() {
            return None;
        }
        let all = files.len();
        let digest = (all > FILES_NAMED_MAX).then(|| sha256_of(&files));
        files.truncate(FILES_NAMED_MAX);
        Some(json!({ "files": files, "files_all": all, "list_sha256": digest }))
    }
}

fn is(change: &Change) -> &'static str {
    match (&change.before, &change.after) {
        (None, Some(_)) => "created",
        (Some(_), Some(_)) => "changed",
        (Some(_), None) => "removed",
        (None, None) => "unreadable",
    }
}

/// The files of an apply, with the digests before and after: the body of `applying`, which is on the disk before the
/// working tree is touched.
#[must_use]
pub fn applying(changes: &[Change]) -> Value {
    json!({ "files": changes.iter().map(whole).collect::<Vec<_>>() })
}

/// The bodies of the records `applied` of one file: one for each hunk, or one for a file that has none (binary,
/// removed, created empty).
#[must_use]
pub fn applied(change: &Change) -> Vec<Value> {
    let text = |side: &Option<Vec<u8>>| match side {
        None => Some(String::new()),
        Some(bytes) => String::from_utf8(bytes.clone()).ok(),
    };
    let (Some(before), Some(after)) = (text(&change.before), text(&change.after)) else {
        return vec![whole(change)];
    };
    let (before, after) = (lines(&before), lines(&after));
    let diff =
        similar::TextDiff::configure().timeout(DIFF_TIME_MAX).newline_terminated(true).diff_slices(&before, &after);
    let unified = diff.unified_diff();
    let mut bodies: Vec<Value> = Vec::new();
    for hunk in unified.iter_hunks().take(HUNKS_NAMED_MAX) {
        let mut body = whole(change);
        body["hunk"] = hunk.header().to_string().trim_end().into();
        body["hunk_sha256"] = sha256(hunk.to_string().as_bytes()).into();
        bodies.push(body);
    }
    if bodies.is_empty() { vec![whole(change)] } else { bodies }
}

/// Lines as git and `patch` see them. `similar` alone also ends a line at a lone carriage return, which no reader of
/// its diff does.
fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

fn whole(change: &Change) -> Value {
    json!({
        "path": change.path, "is": is(change),
        "before_sha256": change.before.as_deref().map(sha256), "sha256": change.after.as_deref().map(sha256),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(path: &str, before: Option<&str>, after: Option<&str>) -> Change {
        let bytes = |text: Option<&str>| text.map(|text| text.as_bytes().to_vec());
        Change { path: path.into(), before: bytes(before), after: bytes(after) }
    }

    #[track_caller]
    fn check(held: &mut Held, changes: &[Change], expected: &[(&str, &str)]) {
        let body = held.wrote(changes).unwrap_or(json!({ "files": [] }));
        let told: Vec<(&str, &str)> = body["files"]
            .as_array()
            .unwrap()
            .iter()
            .map(|file| (file["path"].as_str().unwrap(), file["is"].as_str().unwrap()))
            .collect();
        assert_eq!(told, expected);
    }

    #[test]
    fn only_what_is_not_as_it_was_is_told_and_a_file_put_back_too() {
        let mut held = Held::default();
        let (a, b) = (change("a", Some("1"), Some("2")), change("b", None, Some("x")));
        check(&mut held, &[a.clone(), b.clone()], &[("a", "changed"), ("b", "created")]);
        check(&mut held, &[a.clone(), b.clone()], &[]);
        check(&mut held, &[change("a", Some("1"), Some("3")), b], &[("a", "changed")]);
        check(&mut held, &[change("a", Some("1"), None)], &[("a", "removed"), ("b", "as_before")]);
        check(&mut held, &[], &[("a", "as_before")]);
    }

    #[test]
    fn a_written_file_has_the_digest_of_its_bytes() {
        let body = Held::default().wrote(&[change("a", None, Some("abc"))]).unwrap();
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(body["files"][0], json!({ "path": "a", "is": "created", "sha256": abc, "size_bytes": 3 }));
    }

    #[test]
    fn of_very_many_files_some_are_named_and_all_are_counted() {
        let many: Vec<Change> = (0..FILES_NAMED_MAX + 7).map(|n| change(&n.to_string(), None, Some("x"))).collect();
        let body = Held::default().wrote(&many).unwrap();
        assert_eq!(body["files"].as_array().unwrap().len(), FILES_NAMED_MAX);
        assert_eq!(body["files_all"], FILES_NAMED_MAX + 7);
        assert_eq!(body["list_sha256"].as_str().unwrap().len(), 64);
    }

    #[test]
    fn every_hunk_is_a_record_and_a_binary_file_is_one() {
        let old: String = (0..40).map(|n| format!("line {n}\n")).collect();
        let new = old.replace("line 3\n", "line three\n").replace("line 33\n", "");
        let hunks = applied(&change("a.py", Some(&old), Some(&new)));
        let headers: Vec<&str> = hunks.iter().map(|hunk| hunk["hunk"].as_str().unwrap()).collect();
        assert_eq!(headers, ["@@ -1,7 +1,7 @@", "@@ -31,7 +31,6 @@"]);
        assert!(hunks.iter().all(|hunk| hunk["sha256"] == sha256(new.as_bytes())));
        let lone = applied(&change("a", Some("a\ra\nb\n"), Some("a\rc\nb\n")));
        assert_eq!(lone[0]["hunk"], "@@ -1,2 +1,2 @@", "a lone carriage return ends no line");
        let binary = Change { path: "b".into(), before: None, after: Some(vec![0, 159, 255]) };
        assert_eq!(applied(&binary).len(), 1);
        assert_eq!(applied(&change("gone", Some("x\n"), None)).len(), 1);
    }
}
