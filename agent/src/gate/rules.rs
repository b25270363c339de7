//! When does one rule match?

use std::borrow::Cow;
use std::collections::BTreeSet;

use globset::GlobMatcher;

use super::path::{can_meet, twin, with_ancestors};
use super::shell::{Part, Script, Word, program};
use super::{Access, Mode, Verdict};

/// What all rules have.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub id: String,
    pub verdict: Verdict,
    pub why: String,
    pub instead: String,
    pub from_project: bool,
}

/// A rule about kinds of action.
#[derive(Debug, Clone)]
pub(super) struct ToolRule {
    pub rule: Rule,
    pub tools: Vec<String>,
}

impl ToolRule {
    pub(super) fn matches(&self, tool: &str) -> bool {
        self.tools.iter().any(|t| t == tool)
    }
}

/// A rule about paths.
#[derive(Debug, Clone)]
pub(super) struct PathRule {
    pub rule: Rule,
    pub access: Vec<Access>,
    pub globs: Vec<(String, GlobMatcher)>,
}

impl PathRule {
    /// `path` is in normal form. A rule that tightens also covers what lies below a path that it names, the path's
    /// look-alikes, and, when `pattern` says that the shell will expand it, whatever it can expand to.
    pub(super) fn matches(&self, access: Access, path: &str, pattern: bool) -> bool {
        if !self.access.contains(&access) {
            return false;
        }
        let absolute = path.starts_with('/');
        if self.rule.verdict == Verdict::Allow {
            let top = path == "." && access == Access::Read;
            let same = |text: &str| text.starts_with('/') == absolute;
            // The glob that allows the workspace needs no matcher.
            let matches = |(text, glob): &(String, GlobMatcher)| text == "**" || glob.is_match(path);
            return top || self.globs.iter().any(|glob| same(&glob.0) && matches(glob));
        }
        // Outside, a pattern could meet each of `**/..`, and the rules about the system say what matters there.
        let anchored = |text: &str| text.starts_with('/') == absolute;
        if pattern && self.globs.iter().any(|(text, _)| anchored(text) && can_meet(path, text)) {
            return true;
        }
        if self.is_below(access, path) {
            return true;
        }
        let twin = twin(path);
        self.globs.iter().any(|glob| covers(glob, path, &twin))
    }

    /// Whether a rule that tightens is about something in this directory: what is written may be a directory with
    /// all that is in it, and `rm -rf /var` is about /var/lib.
    pub(super) fn is_below(&self, access: Access, path: &str) -> bool {
        let below = |text: &str| match text.get(..path.len()) {
            Some(begin) if begin.eq_ignore_ascii_case(path) => path == "/" || text[path.len()..].starts_with('/'),
            _ => false,
        };
        access == Access::Write && self.globs.iter().any(|(text, _)| below(text))
    }
}

/// Whether a glob of a rule that tightens is about a path, a directory that it lies in, or its look-alike. What may
/// lie anywhere, such as `**/.env`, may lie outside of the workspace too.
pub(super) fn covers((text, glob): &(String, GlobMatcher), path: &str, twin: &str) -> bool {
    let absolute = path.starts_with('/');
    let reaches = text.starts_with('/') == absolute || absolute && text.starts_with("**/");
    reaches
        && (with_ancestors(path).any(|p| glob.is_match(p))
            || twin != path && with_ancestors(twin).any(|p| glob.is_match(p)))
}

/// One place in the beginning of a command.
#[derive(Debug, Clone)]
pub(super) enum Slot {
    /// One of these words.
    OneOf(Vec<String>),
    /// `{lines}`: what sed prints: `5p`, `1,20p`, `10,$p`.
    Lines,
    /// `{script}`: a Python file in the workspace.
    Script,
}

impl Slot {
    fn accepts(&self, word: &str) -> bool {
        match self {
            Slot::OneOf(words) => words.iter().any(|w| w == word),
            Slot::Lines => is_line_range(word),
            Slot::Script => word.ends_with(".py") && !word.starts_with('-'),
        }
    }

    /// How a command's words begin of which the slot accepts the first, an option that may stand before it included;
    /// none where they can begin with anything.
    pub(super) fn first_bytes(&self) -> Option<BTreeSet<u8>> {
        let Slot::OneOf(words) = self else { return None };
        let bytes = words.iter().map(|word| word.bytes().next()).chain([Some(b'-'), Some(b'+')]);
        bytes.collect()
    }

    fn usage(&self) -> &str {
        match self {
            Slot::OneOf(words) => words.first().map_or("", String::as_str),
            Slot::Lines => "1,20p",
            Slot::Script => "FILE.py",
        }
    }
}

/// What may follow the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    Any,
    Nothing,
    /// No options.
    Operands,
}

/// A rule about commands.
#[derive(Debug, Clone)]
pub(super) struct CommandRule {
    pub rule: Rule,
    pub argv: Vec<Slot>,
    pub rest: Rest,
    /// Options that take the command out of an allow rule.
    pub without: Vec<String>,
    /// A deny or ask rule matches only with one of these options, if there are any here.
    pub with: Vec<String>,
    /// As `with`, but only before the first word that is no option.
    pub with_leading: Vec<String>,
    pub operands_max: Option<usize>,
    /// The first operand is a pattern and no path.
    pub pattern_first: bool,
    /// No argument makes it change anything: it stays in plan mode.
    pub reads_only: bool,
    /// Its arguments are words and nothing else: expansions may stand in them.
    pub expansions: bool,
    /// The modes in which a deny or ask rule holds; empty means all.
    pub modes: Vec<Mode>,
}

impl CommandRule {
    /// Whether this rule speaks for a command that is proven simple. Project rules only tighten, so they do not.
    pub(super) fn clears(&self, part: &Part) -> bool {
        let words = &part.words;
        if self.rule.from_project || self.rule.verdict == Verdict::Deny || words.len() < self.argv.len() {
            return false;
        }
        if !part.redirects.is_empty() || part.input || !(part.assigned.is_empty() || self.expansions) {
            return false;
        }
        let (begin, rest) = words.split_at(self.argv.len());
        let begins = begin.iter().zip(&self.argv).all(|(w, slot)| w.known && !w.glob && slot.accepts(&w.text));
        begins && self.expansions_are_allowed(rest) && self.rest_is_allowed(rest)
    }

    /// What a variable holds can be an option too, so where options matter a word that is none comes first.
    fn expansions_are_allowed(&self, rest: &[Word]) -> bool {
        let Some(first) = rest.iter().position(|w| !w.known) else { return true };
        self.expansions && (!self.is_strict() || rest[..first].iter().any(|w| !w.text.starts_with('-')))
    }

    /// Whether it matters what the arguments are.
    fn is_strict(&self) -> bool {
        !self.without.is_empty() || self.rest != Rest::Any || self.operands_max.is_some()
    }

    /// Whether this rule speaks for a program whatever its arguments are: what `xargs` adds is not known.
    pub(super) fn clears_any(&self, words: &[Word]) -> bool {
        let bare = Part { words: words.iter().filter(|w| w.known).cloned().collect(), ..Part::default() };
        self.reads_only && !self.is_strict() && !bare.words.is_empty() && self.clears(&bare)
    }

    /// Whether a deny or ask rule holds in a mode.
    pub(super) fn holds(&self, mode: Mode) -> bool {
        self.rule.verdict != Verdict::Allow && (self.modes.is_empty() || self.modes.contains(&mode))
    }

    fn rest_is_allowed(&self, rest: &[Word]) -> bool {
        // A lone hyphen is an operand, and so is all that follows `--`.
        let end = rest.iter().position(|w| w.text == "--").unwrap_or(rest.len());
        let before = rest[..end].iter().filter(|w| !w.text.starts_with('-') || w.text == "-").count();
        let operands = before + rest.len().saturating_sub(end + 1);
        // What a pattern of the shell expands to is not known: a file can be named like an option, and one
        // pattern can be many operands.
        let strict = !self.without.is_empty() || self.rest != Rest::Any;
        let loose_pattern = rest
            .iter()
            .any(|w| w.glob && (self.operands_max.is_some() || strict && w.text.starts_with(['*', '?', '['])));
        let fits = match self.rest {
            Rest::Any => true,
            Rest::Nothing => rest.is_empty(),
            Rest::Operands => operands == rest.len(),
        };
        let uses_forbidden = rest.iter().any(|w| self.without.iter().any(|option| uses(option, &w.text)));
        fits && !loose_pattern && !uses_forbidden && self.operands_max.is_none_or(|max| operands <= max)
    }

    /// The options that keep an allow rule from speaking for a command that begins as the rule says.
    pub(super) fn forbids<'a>(&'a self, words: &'a [Word]) -> impl Iterator<Item = &'a str> {
        let speaks = !self.rule.from_project && self.rule.verdict == Verdict::Allow && !self.without.is_empty();
        let (begin, rest) = words.split_at(self.argv.len().min(words.len()));
        let begins = speaks && begin.len() == self.argv.len();
        let begins = begins && begin.iter().zip(&self.argv).all(|(w, slot)| slot.accepts(&w.text));
        let used = |option: &&String| rest.iter().any(|w| uses(option, &w.text));
        self.without.iter().filter(move |option| begins && used(option)).map(String::as_str)
    }

    /// Whether this rule, which is about the program, finds its danger in a command that stands anywhere in a script.
    pub(super) fn finds(&self, said: &Said) -> bool {
        let (args, command) = (said.arguments(), said.command());
        // Of git it is known which options take a value, so that no value is taken for the subcommand, and that those
        // before the subcommand are not its own.
        let from = if said.is_git { command } else { args };
        let is_same = from.len() == command.len();
        let begins = |words: &[Word]| in_order(words, &self.argv[1..]);
        if !begins(from) && (is_same || !begins(command)) {
            return false;
        }
        let leading = &args[..args.len() - command.len()];
        let used = |options: &[String], words: &[Word]| {
            !options.is_empty() && words.iter().any(|w| options.iter().any(|option| uses(option, &w.text)))
        };
        (self.with.is_empty() && self.with_leading.is_empty())
            || used(&self.with, from)
            || used(&self.with_leading, leading)
    }

    /// Whether the rule has something to say about an example: an allow rule, that it clears a part of it.
    pub(super) fn matches_example(&self, command: &str) -> bool {
        let script = Script::read(command);
        if self.rule.verdict != Verdict::Allow {
            return script.commands().map(Said::by).any(|said| self.program_is(said.program()) && self.finds(&said));
        }
        let as_administrator = CommandRule { rule: Rule { from_project: false, ..self.rule.clone() }, ..self.clone() };
        script.proven.is_ok_and(|proven| proven.parts.iter().any(|part| as_administrator.clears(part)))
    }

    pub(super) fn program_is(&self, name: &str) -> bool {
        self.argv.first().is_some_and(|slot| slot.accepts(name))
    }

    /// How a command begins that this rule allows.
    pub(super) fn usage(&self) -> String {
        self.argv.iter().map(Slot::usage).collect::<Vec<_>>().join(" ")
    }

    /// What a command must not have, in words.
    pub(super) fn limits(&self) -> Option<String> {
        (!self.without.is_empty()).then(|| format!(" (without {})", self.without.join(", ")))
    }

    /// The index of the word that is a pattern, when there is one for certain: grep takes the first operand as its
    /// pattern unless an option gave one.
    pub(super) fn pattern_at(&self, words: &[Word]) -> Option<usize> {
        if !self.pattern_first {
            return None;
        }
        let args = words.iter().enumerate().skip(self.argv.len());
        let given =
            args.clone().any(|(_, w)| ["-e", "-f", "--regexp", "--file"].iter().any(|option| uses(option, &w.text)));
        let first = args.into_iter().find(|(_, w)| !w.text.starts_with('-')).map(|(at, _)| at);
        first.filter(|_| !given)
    }
}

/// A command as the rules look for danger in it. Read once: many rules look, and a wrapper may run any of its words.
pub(super) struct Said<'a> {
    words: Cow<'a, [Word]>,
    /// Where the subcommand stands, after the options of the program itself.
    command_at: usize,
    is_git: bool,
}

impl Said<'_> {
    /// The words are not empty.
    pub(super) fn by(words: &[Word]) -> Said<'_> {
        let words = spelled_out(words);
        let name = program(&words[0].text);
        let command = after_global_options(name, &words[1..]).len();
        Said { command_at: words.len() - command, is_git: name == "git", words }
    }

    pub(super) fn program(&self) -> &str {
        program(&self.words[0].text)
    }

    /// How the arguments and how the subcommand begin.
    pub(super) fn first_bytes(&self) -> [Option<u8>; 2] {
        [self.arguments(), self.command()].map(|words| words.first().and_then(|word| word.text.bytes().next()))
    }

    fn arguments(&self) -> &[Word] {
        &self.words[1..]
    }

    fn command(&self) -> &[Word] {
        &self.words[self.command_at..]
    }
}

/// Whether the slots come in this order, with nothing before and between them but options and what can be their
/// values: `stash -q drop` is `stash drop`.
fn in_order(words: &[Word], slots: &[Slot]) -> bool {
    let Some(first) = slots.first() else { return true };
    // Without an option before it the first comes first.
    if !words.first().is_some_and(|word| word.text.starts_with(['-', '+']) || first.accepts(&word.text)) {
        return false;
    }
    // `ends[at]`: what was looked for so far can end right before the word `at`, and nowhere behind `last`.
    let mut ends = vec![false; words.len() + 3];
    ends[0] = true;
    let mut last = 0;
    for slot in slots {
        let mut next = vec![false; words.len() + 3];
        let mut next_last = None;
        for (at, word) in words.iter().enumerate() {
            if at > last {
                break;
            }
            if !ends[at] {
                continue;
            }
            if slot.accepts(&word.text) {
                next[at + 1] = true;
                next_last = Some(at + 1);
            }
            if word.text.starts_with(['-', '+']) {
                ends[at + 1] = true;
                ends[at + 2] = true;
                last = last.max(at + 2);
            }
        }
        let Some(found) = next_last else { return false };
        (ends, last) = (next, found);
    }
    true
}

/// `git-reset --hard`, in the directory where git keeps its programs, is `git reset --hard`.
pub(super) fn spelled_out(words: &[Word]) -> Cow<'_, [Word]> {
    let name = words.first().map_or("", |w| program(&w.text));
    let Some(subcommand) = name.strip_prefix("git-") else { return Cow::Borrowed(words) };
    let word = |text: &str| Word { text: text.into(), ..words[0].clone() };
    Cow::Owned([word("git"), word(subcommand)].into_iter().chain(words[1..].iter().cloned()).collect())
}

/// Whether an argument uses an option: a long one also by an unambiguous beginning, a short one also inside a
/// cluster. Errs towards yes.
pub(super) fn uses(option: &str, arg: &str) -> bool {
    if option.starts_with('-') && !arg.starts_with('-') {
        return false;
    }
    if let Some(long) = option.strip_prefix("--") {
        let given = arg.strip_prefix("--").map(|a| a.split('=').next().unwrap_or(a));
        return given.is_some_and(|given| !given.is_empty() && long.starts_with(given));
    }
    match option.strip_prefix('-') {
        Some(letter) if letter.chars().count() == 1 => {
            arg.starts_with('-') && !arg.starts_with("--") && arg.contains(letter)
        }
        _ => arg.starts_with(option),
    }
}

/// The arguments from the subcommand on: `git -C dir -c key=value reset` begins with `reset`.
pub(super) fn after_global_options<'a>(program: &str, args: &'a [Word]) -> &'a [Word] {
    const WITH_VALUE: [&str; 9] = [
        "-C",
        "-c",
        "--git-dir",
        "--work-tree",
        "--namespace",
        "--config-env",
        "--super-prefix",
        "--attr-source",
        "--shallow-file",
    ];
    let mut at = 0;
    while let Some(word) = args.get(at).filter(|w| w.text.starts_with(['-', '+'])) {
        let value_follows = program == "git" && WITH_VALUE.contains(&word.text.as_str());
        at += 1 + usize::from(value_follows);
    }
    args.get(at..).unwrap_or_default()
}

/// `N p`, `N,M p` or `N,$ p` for sed, and nothing else that sed can do.
fn is_line_range(word: &str) -> bool {
    let number = |n: &str| !n.is_empty() && n.len() < 10 && n.bytes().all(|b| b.is_ascii_digit());
    match word.strip_suffix('p').map(|range| range.split_once(',').unwrap_or((range, "1"))) {
        Some((from, to)) => number(from) && (number(to) || to == "$"),
        None => false,
    }
}
