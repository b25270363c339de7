//! Which path rules can a command with these words touch at all?
//!
//! A command of 10 KiB can have thousands of words, and a policy a hundred globs. Almost every glob has a piece that
//! must stand literally in any path that it matches, such as `.env`; when no word holds it, no word is tried. A pattern
//! of the shell holds no such piece, so of a pattern each part is tried once against the parts of all globs.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::rc::Rc;

use regex::bytes::{RegexSet, RegexSetBuilder};
use rustc_hash::{FxHashMap, FxHashSet};

use super::path::{Ends, can_meet, part_can_meet, twin};
use super::rules::{PathRule, covers};
use super::{Access, Verdict};

/// The globs of a policy together take so much as one automaton at most; without one all of them are tried.
const AUTOMATON_BYTES_MAX: usize = 64 << 20;

/// Room for the words of most commands.
const TEXT_BYTES: usize = 16 << 10;

/// A glob of a rule, by their places.
type At = (usize, usize);

/// A glob, as a pattern of the shell may meet it.
#[derive(Debug, Clone)]
struct Met {
    at: At,
    absolute: bool,
    /// `**/part` and `**/part/**`: the part is all there is to it.
    is_part: bool,
    /// Its first part may stand anywhere.
    floats: bool,
    /// Something may stand between its parts.
    stretches: bool,
}

impl Met {
    fn of(at: At, glob: &str) -> Met {
        let body = glob.strip_prefix("**/").map(|body| body.strip_suffix("/**").unwrap_or(body));
        Met {
            at,
            absolute: glob.starts_with('/'),
            is_part: body.is_some_and(|body| !body.contains('/')),
            floats: glob.starts_with("**"),
            stretches: glob.contains("**"),
        }
    }
}

/// The path rules of a policy, and what can be seen of all their globs at once.
#[derive(Debug, Clone, Default)]
pub(super) struct PathRules {
    rules: Vec<PathRule>,
    /// The rules that do not simply allow: those about reading, and those about writing.
    tightening: [Vec<usize>; 2],
    /// Pieces that must stand in what some globs match, and these globs.
    needles: Vec<(String, Vec<At>)>,
    /// All the needles.
    automaton: Option<RegexSet>,
    /// Globs that have no needle.
    without_needle: Vec<At>,
    /// The first parts that name something, and the globs in which they are the first.
    parts: Vec<(String, Ends, Vec<Met>)>,
    /// For a first byte the parts that begin with it.
    by_first: FxHashMap<u8, Vec<usize>>,
    /// The parts that may begin with any.
    any_first: Vec<usize>,
    /// Globs in which no part names anything.
    without_part: Vec<Met>,
    /// The directories above everything that may not be written, in lower case.
    above: FxHashSet<String>,
}

impl Deref for PathRules {
    type Target = [PathRule];

    fn deref(&self) -> &[PathRule] {
        &self.rules
    }
}

impl PathRules {
    pub(super) fn extend(&mut self, more: Vec<PathRule>) {
        self.rules.extend(more);
        let rules = std::mem::take(&mut self.rules);
        let (mut needles, mut parts) = (BTreeMap::<_, Vec<At>>::new(), BTreeMap::<_, Vec<Met>>::new());
        let mut index = PathRules::default();
        for (r, rule) in rules.iter().enumerate().filter(|(_, rule)| rule.rule.verdict != Verdict::Allow) {
            for access in &rule.access {
                index.tightening[*access as usize].push(r);
            }
            for (g, (text, _)) in rule.globs.iter().enumerate() {
                match needle(text) {
                    Some(needle) => needles.entry(needle).or_default().push((r, g)),
                    None => index.without_needle.push((r, g)),
                }
                let lower = text.to_lowercase();
                match lower.split('/').find(|part| !part.is_empty() && *part != "**") {
                    Some(part) => parts.entry(part.to_owned()).or_default().push(Met::of((r, g), text)),
                    None => index.without_part.push(Met::of((r, g), text)),
                }
                index.above.extend(text.match_indices('/').map(|(at, _)| text[..at].to_ascii_lowercase()));
            }
        }
        index.needles = needles.into_iter().collect();
        index.parts = parts.into_iter().map(|(part, globs)| (part.clone(), Ends::of(&part), globs)).collect();
        for (at, (part, ends, _)) in index.parts.iter().enumerate() {
            match ends.first_byte(part) {
                Some(first) => index.by_first.entry(first).or_default().push(at),
                None => index.any_first.push(at),
            }
        }
        let escaped = index.needles.iter().map(|(needle, _)| regex::escape(needle));
        let mut automaton = RegexSetBuilder::new(escaped);
        automaton.unicode(false).case_insensitive(true).size_limit(AUTOMATON_BYTES_MAX);
        index.automaton = automaton.build().ok();
        *self = PathRules { rules, ..index };
    }

    /// Whether a rule that tightens may be about something in this directory.
    fn is_above(&self, path: &str) -> bool {
        let upper = path.bytes().any(|byte| byte.is_ascii_uppercase());
        path == "/" || self.above.contains(path) || upper && self.above.contains(&path.to_ascii_lowercase())
    }
}

/// The globs of the rules that tighten, as far as they can match.
pub(super) struct Near<'a> {
    rules: &'a PathRules,
    /// For every rule its globs that are near.
    globs: Vec<Vec<usize>>,
    /// Their needles.
    needles: Vec<&'a str>,
    /// Whether some word may be a path that may not be read.
    may_refuse_reading: bool,
    /// Whether every word may be one.
    may_refuse_all: bool,
    /// For a part of a pattern the parts of globs that can mean the same.
    met: RefCell<FxHashMap<String, Rc<[usize]>>>,
    /// The rules that have said something already.
    spoke: RefCell<FxHashSet<*const PathRule>>,
}

impl<'a> Near<'a> {
    pub(super) fn of<'w>(rules: &'a PathRules, words: impl Iterator<Item = &'w str>) -> Near<'a> {
        let mut text = String::with_capacity(TEXT_BYTES);
        for word in words {
            text.push_str(word);
            text.push('\n');
        }
        let held = rules.automaton.as_ref().map(|set| set.matches(text.as_bytes()));
        let is_held = |at: &usize| held.as_ref().is_none_or(|held| held.matched(*at));
        let near: Vec<_> = (0..rules.needles.len()).filter(is_held).map(|at| &rules.needles[at]).collect();
        let mut globs = vec![Vec::new(); rules.len()];
        for (r, g) in near.iter().flat_map(|(_, globs)| globs).chain(&rules.without_needle) {
            globs[*r].push(*g);
        }
        globs.iter_mut().for_each(|of_rule| of_rule.sort_unstable());
        let reads = |r: usize| rules[r].access.contains(&Access::Read);
        Near {
            rules,
            may_refuse_reading: globs.iter().enumerate().any(|(r, globs)| !globs.is_empty() && reads(r)),
            may_refuse_all: rules.without_needle.iter().any(|(r, _)| reads(*r)),
            needles: near.iter().map(|(needle, _)| needle.as_str()).collect(),
            globs,
            met: RefCell::default(),
            spoke: RefCell::default(),
        }
    }

    /// Whether a rule speaks for the first time about this command. What it says again changes neither the verdict nor
    /// the reason.
    pub(super) fn speaks_first(&self, rule: &PathRule) -> bool {
        self.spoke.borrow_mut().insert(rule)
    }

    /// Whether some word may be a path that may not be read.
    pub(super) fn may_refuse_reading(&self) -> bool {
        self.may_refuse_reading
    }

    /// Whether this text, which is no pattern, may be a part of such a path.
    pub(super) fn may_refuse(&self, text: &str) -> bool {
        self.may_refuse_all || self.needles.iter().any(|needle| holds(text, needle))
    }

    /// The rules that do not simply allow this to be done to a path, which is in normal form. `pattern` says that the
    /// shell will expand it. What [`PathRule::matches`] says, only sooner.
    pub(super) fn about(&self, access: Access, path: &str, pattern: bool) -> Vec<&'a PathRule> {
        let twin = twin(path);
        let is_above = access == Access::Write && self.rules.is_above(path);
        let met = if pattern { self.met_by(path) } else { vec![] };
        let about = |(r, rule): &(usize, &PathRule)| {
            met.get(*r) == Some(&true)
                || self.globs[*r].iter().any(|at| covers(&rule.globs[*at], path, &twin))
                || is_above && rule.is_below(access, path)
        };
        let tightening = self.rules.tightening[access as usize].iter().map(|r| (*r, &self.rules.rules[*r]));
        tightening.filter(about).map(|(_, rule)| rule).collect()
    }

    /// The rules of which a glob can match what a pattern of the shell can.
    fn met_by(&self, path: &str) -> Vec<bool> {
        let mut rules = vec![false; self.rules.len()];
        let lower = path.to_lowercase();
        let absolute = path.starts_with('/');
        // `at`: which of the pattern's parts meets the first that the glob names.
        let mut meet = |glob: &Met, at: Option<usize>| {
            let (r, g) = glob.at;
            if glob.absolute != absolute || rules[r] {
                return;
            }
            // Without stars the part that was met is the first.
            let is_all = at.is_some() && glob.is_part;
            let comes_late = at.is_some_and(|at| at > usize::from(absolute)) && !glob.stretches;
            let begins_late = at.is_some_and(|at| at > 0) && !absolute && !glob.floats;
            rules[r] = is_all || !(comes_late || begins_late) && can_meet(path, &self.rules[r].globs[g].0);
        };
        for (at, part) in lower.split('/').enumerate() {
            for met in self.parts_met_by(part).iter() {
                self.rules.parts[*met].2.iter().for_each(|glob| meet(glob, Some(at)));
            }
        }
        self.rules.without_part.iter().for_each(|glob| meet(glob, None));
        rules
    }

    /// The parts of globs that one part of a pattern, in lower case, can meet.
    fn parts_met_by(&self, part: &str) -> Rc<[usize]> {
        if let Some(met) = self.met.borrow().get(part) {
            return met.clone();
        }
        let ends = Ends::of(part);
        let can = |at: &usize| {
            let (text, of_glob, _) = &self.rules.parts[*at];
            ends.fit(part, of_glob, text) && part_can_meet(part, text)
        };
        let met: Rc<[usize]> = match ends.first_byte(part) {
            Some(first) => {
                let same = self.rules.by_first.get(&first).into_iter().flatten();
                same.chain(&self.rules.any_first).copied().filter(can).collect()
            }
            None => (0..self.rules.parts.len()).filter(can).collect(),
        };
        self.met.borrow_mut().insert(part.to_owned(), met.clone());
        met
    }
}

/// Whether a text holds a needle, without regard to case.
fn holds(text: &str, needle: &str) -> bool {
    let (text, needle) = (text.as_bytes(), needle.as_bytes());
    text.len() >= needle.len() && text.windows(needle.len()).any(|window| window.eq_ignore_ascii_case(needle))
}

/// The longest part of a name that every match of the glob holds, in lower case.
fn needle(glob: &str) -> Option<String> {
    if glob.contains(['[', '{', '!']) {
        return None;
    }
    let longest = glob.split(['*', '?', '/']).max_by_key(|piece| piece.len())?;
    (!longest.trim_end_matches(['.', ' ']).is_empty()).then(|| longest.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::{Access, Near, Verdict, needle};
    use crate::gate::Policy;

    const PROJECT: &str = "version = 1\n[[path]]\nid = \"p\"\nverdict = \"ask\"\naccess = [\"read\", \"write\"]\n\
        glob = [\"a/B?.py\", \"*/[a-c]*\", \"**/x/**/y.q\", \"**/*.{r,s}\", \"a//b\", \"x/**/z\", \"/tmp/*/w\"]\n";

    #[test]
    fn the_rules_that_are_near_are_those_that_match() {
        let policy = Policy::shipped().unwrap().tightened("p.toml", PROJECT).unwrap();
        let parts =
            ["a", "B1.py", "*", "a*", ".e?v", ".ENV.", "x", "y.q", "i[dx]_rsa", "etc", "c.r", "tmp", "z", ".git"];
        let one = || parts.iter().map(|part| (*part).to_owned());
        let two: Vec<_> = one().flat_map(|a| one().map(move |b| format!("{a}/{b}"))).collect();
        let three = two.iter().flat_map(|a| one().map(move |b| format!("{a}/{b}")));
        let relative: Vec<_> = one().chain(two.iter().cloned()).chain(three).chain([".".to_owned()]).collect();
        let absolute = relative.iter().filter(|path| path.len() < 12).map(|path| format!("/{path}"));
        for path in relative.iter().cloned().chain(absolute).chain(["/".to_owned()]) {
            let near = Near::of(&policy.paths, [path.as_str()].into_iter());
            for (access, pattern) in
                [Access::Read, Access::Write].into_iter().flat_map(|a| [false, true].map(|p| (a, p)))
            {
                let about: Vec<_> = near.about(access, &path, pattern).iter().map(|r| &r.rule.id).collect();
                let tightens = policy.paths.iter().filter(|r| r.rule.verdict != Verdict::Allow);
                let matches: Vec<_> =
                    tightens.filter(|r| r.matches(access, &path, pattern)).map(|r| &r.rule.id).collect();
                assert_eq!(about, matches, "{access:?} {path} {pattern}");
                let reads = access == Access::Read && !pattern;
                assert!(!reads || matches.is_empty() || near.may_refuse(&path), "{path} is not seen");
            }
        }
    }

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
