//! Which path rules can a command with these words touch at all?
//!
//! A command of 10 KiB can have thousands of words, and a policy a hundred globs. Almost every glob has a piece that
//! must stand literally in any path that it matches, such as `.env`; when no word holds it, no word is tried.

use super::path::twin;
use super::rules::{PathRule, covers};
use super::{Access, Verdict};

/// The globs of the rules that tighten, as far as they can match.
pub(super) struct Near<'a> {
    rules: Vec<(&'a PathRule, Vec<usize>)>,
}

impl<'a> Near<'a> {
    pub(super) fn of<'w>(rules: &'a [PathRule], words: impl Iterator<Item = &'w str>) -> Near<'a> {
        let text = words.collect::<Vec<_>>().join("\n").to_lowercase();
        let tightening = rules.iter().filter(|r| r.rule.verdict != Verdict::Allow);
        let near = |r: &PathRule| -> Vec<usize> {
            let can = |glob: &str| needle(glob).is_none_or(|needle| text.contains(&needle));
            r.globs.iter().enumerate().filter(|(_, (glob, _))| can(glob)).map(|(at, _)| at).collect()
        };
        Near { rules: tightening.map(|r| (r, near(r))).collect() }
    }

    /// Whether some word may be a path that may not be read.
    pub(super) fn may_refuse_reading(&self) -> bool {
        self.rules.iter().any(|(rule, globs)| !globs.is_empty() && rule.access.contains(&Access::Read))
    }

    /// The rules that do not simply allow this to be done to a path, which is in normal form and no pattern.
    pub(super) fn about(&self, access: Access, path: &str) -> Vec<&'a PathRule> {
        let twin = twin(path);
        let about = |(rule, globs): &&(&PathRule, Vec<usize>)| {
            rule.access.contains(&access)
                && (globs.iter().any(|at| covers(&rule.globs[*at], path, &twin)) || rule.is_below(access, path))
        };
        self.rules.iter().filter(about).map(|(rule, _)| *rule).collect()
    }
}

/// The longest part of a name that every match of the glob holds, in lower case.
fn needle(glob: &str) -> Option<String> {
    if glob.contains(['[', '{', '!']) {
        return None;
    }
    let longest = glob.split(['*', '?', '/']).max_by_key(|piece| piece.len())?;
    (!longest.trim_end_matches(['.', ' ']).is_empty()).then(|| longest.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::needle;

    #[test]
    fn the_needle_is_the_longest_literal_piece() {
        for (glob, expected) in [
            ("**/.env", Some(".env")),
            ("**/.env.*.local", Some(".local")),
            ("**/.docker/config.json", Some("config.json")),
            ("/etc/Shadow*", Some("shadow")),
            ("**", None),
            (".", None),
            ("/", None),
            ("**/*.{pem,key}", None),
        ] {
            assert_eq!(needle(glob).as_deref(), expected, "{glob}");
        }
    }
}
