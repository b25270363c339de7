//! What must be on a page for this pattern to match a line of it?
//!
//! The pattern is parsed as the search parses it, and its parts are asked bottom up: which strings exactly do you
//! match (while those are few), with what does a match begin and end, and what did you need so far (Cox, "Regular
//! Expression Matching with a Trigram Index", 2012). Where letter case does not matter the parser has already put
//! a class in place of every letter, with all that fold to it (`k` and the Kelvin sign, `s` and the long s); after
//! ASCII folding those are one or two strings, and both are looked for.
//!
//! Everything is bounded, and where a bound is met less is asked: more pages are candidates, none is lost. The parser
//! refuses patterns that nest deeper than 250, so the depth of a plan and of what walks it is bounded as well.

use std::convert::Infallible;

use regex_syntax::hir::{Class, Hir, HirKind, Repetition, Visitor, visit};

use super::Trigram;
use super::sets::{End, Set};

/// More strings than this are no longer kept as they are.
const EXACT_MAX: usize = 8;
/// A class with more characters could be anything.
const CLASS_CHARS_MAX: usize = 64;
/// Of a repetition this many are looked at.
const COPIES_MAX: u32 = 4;
/// More parts of one conjunction are dropped: the ones before narrow enough.
const AND_MAX: usize = 64;
/// More parts of one disjunction are too many to look up.
const OR_MAX: usize = 256;
/// A plan never has more parts.
const PARTS_MAX: usize = 4096;

/// Which trigrams a page must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Nothing is needed: any page may match.
    All,
    /// No page can match.
    Nothing,
    /// This one.
    Trigram(Trigram),
    /// All of these.
    And(Vec<Plan>),
    /// One of these at least.
    Or(Vec<Plan>),
}

impl Plan {
    /// For a pattern as [`crate::grep::Matcher`] understands it: on one line, literal or not.
    pub(crate) fn of(pattern: &str, literal: bool, ignore_case: bool) -> Plan {
        let escaped = literal.then(|| regex_syntax::escape(pattern));
        // In a group, as grep-regex has it.
        let pattern = format!("(?:{})", escaped.as_deref().unwrap_or(pattern));
        let mut parser = regex_syntax::ParserBuilder::new();
        parser.utf8(false).multi_line(true).case_insensitive(ignore_case);
        let Ok(hir) = parser.build().parse(&pattern) else { return Plan::All };
        let Ok(known) = visit(&hir, Analysis(Vec::new()));
        known.needs()
    }

    pub(super) fn and_all(parts: impl IntoIterator<Item = Plan>) -> Plan {
        parts.into_iter().fold(Plan::All, Plan::and)
    }

    pub(super) fn or_all(parts: impl IntoIterator<Item = Plan>) -> Plan {
        parts.into_iter().fold(Plan::Nothing, Plan::or)
    }

    fn and(self, other: Plan) -> Plan {
        let (left, right) = match (self, other) {
            (Plan::Nothing, _) | (_, Plan::Nothing) => return Plan::Nothing,
            (Plan::All, other) | (other, Plan::All) => return other,
            both => both,
        };
        let flat = |plan| if let Plan::And(parts) = plan { parts } else { vec![plan] };
        let mut parts = flat(left);
        let mut size = parts.iter().map(Plan::size).sum::<usize>();
        for part in flat(right) {
            if parts.len() < AND_MAX && size + part.size() <= PARTS_MAX && !parts.contains(&part) {
                size += part.size();
                parts.push(part);
            }
        }
        one_or(parts, Plan::And)
    }

    fn or(self, other: Plan) -> Plan {
        let (left, right) = match (self, other) {
            (Plan::All, _) | (_, Plan::All) => return Plan::All,
            (Plan::Nothing, other) | (other, Plan::Nothing) => return other,
            both => both,
        };
        let flat = |plan| if let Plan::Or(parts) = plan { parts } else { vec![plan] };
        let mut parts = flat(left);
        for part in flat(right) {
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
        if parts.len() > OR_MAX || parts.iter().map(Plan::size).sum::<usize>() > PARTS_MAX {
            return Plan::All;
        }
        one_or(parts, Plan::Or)
    }

    fn size(&self) -> usize {
        match self {
            Plan::And(parts) | Plan::Or(parts) => 1 + parts.iter().map(Plan::size).sum::<usize>(),
            _ => 1,
        }
    }
}

fn one_or(mut parts: Vec<Plan>, many: fn(Vec<Plan>) -> Plan) -> Plan {
    if parts.len() == 1 { parts.remove(0) } else { many(parts) }
}

/// What is known of the matches of a part of the pattern.
#[derive(Clone)]
struct Known {
    strings: Strings,
    need: Plan,
}

#[derive(Clone)]
enum Strings {
    /// A match is one of these.
    Exact(Set),
    /// A match begins with one of the first and ends with one of the second.
    Ends(Set, Set),
}

impl Known {
    fn exact(strings: Vec<Vec<u8>>) -> Known {
        Known { strings: Strings::Exact(Set::new(strings)), need: Plan::All }
    }

    fn empty() -> Known {
        Known::exact(vec![Vec::new()])
    }

    fn anything() -> Known {
        Known { strings: Strings::Ends(Set::unknown(), Set::unknown()), need: Plan::All }
    }

    /// Matches nothing at all.
    fn never() -> Known {
        Known { need: Plan::Nothing, ..Known::anything() }
    }

    fn needs(self) -> Plan {
        match self.strings {
            Strings::Exact(strings) => self.need.and(strings.needs()),
            Strings::Ends(prefix, suffix) => self.need.and(prefix.needs()).and(suffix.needs()),
        }
    }

    /// Forgets the exact strings, after their trigrams are noted down.
    fn opened(self) -> Known {
        let Strings::Exact(strings) = self.strings else { return self };
        let need = self.need.and(strings.needs());
        let (prefix, suffix) = (strings.clone().cut(End::Prefix), strings.cut(End::Suffix));
        Known { strings: Strings::Ends(prefix, suffix), need }
    }

    /// Keeps the sets small.
    fn settled(self) -> Known {
        match self.strings {
            Strings::Exact(ref strings) if strings.len() > EXACT_MAX || strings.shortest() > 3 => self.opened(),
            Strings::Exact(_) => self,
            Strings::Ends(prefix, suffix) => {
                let need = self.need.and(prefix.needs()).and(suffix.needs());
                Known { strings: Strings::Ends(prefix.cut(End::Prefix), suffix.cut(End::Suffix)), need }
            }
        }
    }

    fn followed_by(self, next: Known) -> Known {
        let mut need = self.need.and(next.need);
        let strings = match (self.strings, next.strings) {
            (Strings::Exact(left), Strings::Exact(right)) => Strings::Exact(left.followed_by(&right)),
            (Strings::Exact(left), Strings::Ends(prefix, suffix)) => Strings::Ends(left.followed_by(&prefix), suffix),
            (Strings::Ends(prefix, suffix), Strings::Exact(right)) => Strings::Ends(prefix, suffix.followed_by(&right)),
            (Strings::Ends(prefix, left), Strings::Ends(right, suffix)) => {
                need = need.and(left.followed_by(&right).needs());
                Strings::Ends(prefix, suffix)
            }
        };
        Known { strings, need }.settled()
    }

    fn or(self, other: Known) -> Known {
        if let (Strings::Exact(left), Strings::Exact(right)) = (&self.strings, &other.strings) {
            let strings = Strings::Exact(left.clone().union(right.clone()));
            return Known { strings, need: self.need.or(other.need) }.settled();
        }
        let (left, right) = (self.opened(), other.opened());
        let need = left.need.or(right.need);
        let (Strings::Ends(prefix, suffix), Strings::Ends(other_prefix, other_suffix)) = (left.strings, right.strings)
        else {
            return Known { need, ..Known::anything() };
        };
        Known { strings: Strings::Ends(prefix.union(other_prefix), suffix.union(other_suffix)), need }.settled()
    }

    fn repeated(self, repetition: &Repetition) -> Known {
        match (repetition.min, repetition.max) {
            (_, Some(0)) => Known::empty(),
            (0, Some(1)) => self.or(Known::empty()),
            (0, _) => Known::anything(),
            (min, max) => {
                let copies = min.min(COPIES_MAX);
                let once = self.clone();
                let known = (1..copies).fold(self, |known, _| known.followed_by(once.clone()));
                // However many follow, the match still begins and ends with the copies that were looked at.
                if max == Some(copies) { known } else { known.opened() }
            }
        }
    }
}

/// Walks the pattern; what is known of the parts lies on a stack.
struct Analysis(Vec<Known>);

impl Analysis {
    fn take(&mut self) -> Known {
        self.0.pop().expect("every part was visited before the whole")
    }

    fn fold(&mut self, parts: usize, join: fn(Known, Known) -> Known) -> Known {
        let parts = self.0.split_off(self.0.len() - parts);
        parts.into_iter().reduce(join).unwrap_or_else(Known::empty)
    }
}

impl Visitor for Analysis {
    type Output = Known;
    type Err = Infallible;

    fn finish(mut self) -> Result<Known, Infallible> {
        Ok(self.take())
    }

    fn visit_post(&mut self, hir: &Hir) -> Result<(), Infallible> {
        let known = match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => Known::empty(),
            HirKind::Literal(literal) => Known::exact(vec![literal.0.to_ascii_lowercase()]).settled(),
            HirKind::Class(class) => of_class(class),
            HirKind::Repetition(repetition) => self.take().repeated(repetition),
            HirKind::Capture(_) => self.take(),
            HirKind::Concat(parts) => self.fold(parts.len(), Known::followed_by),
            HirKind::Alternation(parts) => self.fold(parts.len(), Known::or),
        };
        self.0.push(known);
        Ok(())
    }
}

fn of_class(class: &Class) -> Known {
    let characters: usize = match class {
        Class::Unicode(class) => class.ranges().iter().map(|range| range.len()).sum(),
        Class::Bytes(class) => class.ranges().iter().map(|range| range.len()).sum(),
    };
    if characters == 0 {
        return Known::never();
    }
    if characters > CLASS_CHARS_MAX {
        return Known::anything();
    }
    let strings = match class {
        Class::Unicode(class) => {
            let characters = class.ranges().iter().flat_map(|range| range.start()..=range.end());
            characters.map(|character| character.to_ascii_lowercase().to_string().into_bytes()).collect()
        }
        Class::Bytes(class) => {
            let bytes = class.ranges().iter().flat_map(|range| range.start()..=range.end());
            bytes.map(|byte| vec![byte.to_ascii_lowercase()]).collect()
        }
    };
    Known::exact(strings).settled()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(plan: &Plan) -> String {
        let join = |parts: &[Plan], with: &str| {
            let shown: Vec<String> = parts.iter().map(shown).collect();
            format!("({})", shown.join(with))
        };
        match plan {
            Plan::All => "all".to_owned(),
            Plan::Nothing => "nothing".to_owned(),
            Plan::Trigram(trigram) => String::from_utf8_lossy(&trigram.to_be_bytes()[1..]).into_owned(),
            Plan::And(parts) => join(parts, " "),
            Plan::Or(parts) => join(parts, "|"),
        }
    }

    #[track_caller]
    fn check(pattern: &str, ignore_case: bool, expected: &str) {
        assert_eq!(shown(&Plan::of(pattern, false, ignore_case)), expected, "{pattern}");
    }

    #[test]
    fn a_text_needs_all_of_its_trigrams_in_lower_case() {
        check("abc", false, "abc");
        check("Vec::new", false, "(vec ec: c:: ::n :ne new)");
        check("ab", false, "all");
        check(r"^\s*fn main\b", false, "(fn  n m  ma mai ain)");
        check("", false, "all");
    }

    #[test]
    fn an_alternative_is_needed_and_a_part_that_may_be_absent_is_not() {
        check("abc|xyz", false, "(abc|xyz)");
        check("abc|x", false, "all");
        check("abcd(efg)?", false, "(abc bcd)");
        check("(?:abc)+", false, "abc");
        check("(?:abc){2}", false, "(abc bca cab)");
        check("abc.*xyz", false, "(abc xyz)");
        check("ab[cd]", false, "(abc|abd)");
        check("ab[^c]de", false, "all");
        check("[a&&b]", false, "nothing");
    }

    #[test]
    fn where_case_does_not_matter_every_letter_that_folds_to_one_counts() {
        check("max", true, "max");
        check("kab", true, "(kab|(\u{212a} \u{fffd}\u{fffd}a \u{fffd}ab))");
        check("(?i)MAX", false, "max");
        check("(?i-u)kab", false, "kab");
    }

    #[test]
    fn a_hostile_pattern_gets_a_small_plan() {
        let words: Vec<String> = (0..5000).map(|at| format!("word{at}")).collect();
        assert!(Plan::of(&words.join("|"), false, false).size() <= PARTS_MAX);
        let nested = format!("{}abc{}", "(?:".repeat(100), "x?){3}".repeat(100));
        assert!(Plan::of(&nested, false, false).size() <= PARTS_MAX);
        let classes = "[a-z0-9][abc][xyz]".repeat(500);
        assert!(Plan::of(&classes, false, true).size() <= PARTS_MAX + 1);
        assert!(Plan::of(&"long".repeat(10_000), true, true).size() <= AND_MAX + 1);
    }
}
