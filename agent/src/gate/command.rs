//! What does a policy say about one command of the shell?
//!
//! In this order: the deny and ask rules over every command that stands anywhere in it; then, when the script is
//! plain, its files and hosts by the same rules as the tools', and what the allow rules speak for. A script that is
//! not plain is refused with the reason.

use super::effects::{Effect, effects, lowers};
use super::explain::{Finding, QUOTE_READ_BYTES_MAX, silence, unlisted};
use super::hosts::Endpoint;
use super::near::Near;
use super::path::{PathError, located};
use super::policy::{IN_WORKSPACE, verb};
use super::rules::{CommandRule, Said};
use super::shell::{Doubt, Part, Proven, Script, Word, program};
use super::vars::changes_meaning;
use super::{Access, Layer, Mode, Policy, Verdict};

/// Directories in which a command of one script can run, by its `cd`.
const DIRECTORIES_MAX: usize = 16;

/// What may always be named: reading it gives nothing, and what is written to it is lost.
const NOWHERE: [&str; 4] = ["/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr"];

const NO_NETWORK: &str = "use what is in the repository";

impl Policy {
    /// Everything that the command rules, and the path and host rules about its words, say. Danger comes first, so
    /// that the reason names it rather than a mere doubt.
    pub(super) fn command_findings(&self, command: &str, mode: Mode) -> Vec<Finding> {
        let script = Script::read(command);
        let mut findings = Vec::new();
        let inner = script.proven.iter().flat_map(|proven| proven.inner.iter().map(|part| &*part.words));
        for words in script.commands().chain(inner) {
            let said = Said::by(words);
            let what = || Finding::quoted("the command", &words[0].text);
            let dangers = self.commands.dangers(&said, mode);
            findings.extend(dangers.map(|rule| rule.rule.finding(Layer::Commands, &what())));
        }
        match &script.proven {
            Ok(proven) => findings.extend(self.proven_findings(proven, mode)),
            Err(doubt) => {
                let here = [".".to_owned()];
                let named =
                    script.found.iter().flat_map(|words| &**words).chain(script.redirects.iter().map(|(_, file)| file));
                let near = Near::of(&self.paths, named.map(|w| w.text.as_str()));
                for (access, target) in &script.redirects {
                    findings.extend(self.located_findings(*access, target, &here, &near));
                }
                for words in &script.found {
                    let part = Part { words: words.clone(), ..Part::default() };
                    findings.extend(self.argument_findings(&part, &here, &near));
                }
                findings.push(doubted(doubt));
            }
        }
        findings
    }

    fn proven_findings(&self, proven: &Proven, mode: Mode) -> Vec<Finding> {
        let mut findings = Vec::new();
        let directories = match directories(proven) {
            Ok(directories) => directories,
            Err(why) => return vec![unclear(&why)],
        };
        let parts: Vec<_> = proven.parts.iter().chain(&proven.inner).map(|part| (part, effects(&part.words))).collect();
        let written = parts.iter().flat_map(|(_, effects)| effects).filter_map(|effect| match effect {
            Effect::Writes(word) => Some(word),
            _ => None,
        });
        let named =
            parts.iter().flat_map(|(part, _)| part.words.iter().chain(part.redirects.iter().map(|(_, file)| file)));
        let near = Near::of(&self.paths, named.chain(written).map(|word| word.text.as_str()));
        for (part, effects) in &parts {
            for (access, target) in &part.redirects {
                findings.extend(self.located_findings(*access, target, &directories, &near));
            }
            for effect in effects {
                findings.extend(self.effect_findings(effect, &directories, &near));
            }
            findings.extend(self.argument_findings(part, &directories, &near));
            findings.extend(self.assignment_finding(part));
            findings.extend(self.forbidden_finding(part));
        }
        findings.extend(proven.inner.iter().filter_map(|part| self.unknown_finding(part)));
        findings.extend(proven.parts.iter().map(|part| self.clearance(part, mode)));
        if proven.parts.is_empty() {
            findings.push(unlisted(Layer::Commands, "the command is refused: it is empty".into(), self.allowed_list()));
        }
        findings
    }

    fn effect_findings<'p>(&'p self, effect: &Effect, directories: &[String], near: &Near<'p>) -> Vec<Finding> {
        match effect {
            Effect::Writes(word) => self.located_findings(Access::Write, word, directories, near),
            Effect::Reaches(end) => self.host_findings(end),
            Effect::Unclear(why) => vec![unclear(why)],
        }
    }

    /// What the host rules say. Silence is Deny in every mode: a box has no network unless somebody gave it one.
    fn host_findings(&self, end: &Endpoint) -> Vec<Finding> {
        let what = Finding::quoted("connecting to", &end.host);
        let said = self.hosts.iter().filter(|r| r.matches(end));
        let mut findings: Vec<_> = said.map(|r| r.rule.finding(Layer::Hosts, &what)).collect();
        if !findings.iter().any(|f| f.layer == Layer::Hosts) {
            let reason = format!("{what} is refused: the box has no network");
            findings.push(Finding::own(Layer::Hosts, reason, NO_NETWORK.into()));
        }
        findings
    }

    /// What the path rules say about a file that a command certainly uses.
    fn located_findings<'p>(
        &'p self,
        access: Access,
        word: &Word,
        directories: &[String],
        near: &Near<'p>,
    ) -> Vec<Finding> {
        if !word.known {
            return vec![unclear(&format!("{} a file whose name is not written out", verb(access)))];
        }
        if let Some(end) = device_of_bash(&word.text) {
            return end.map_or_else(
                || vec![unclear("it connects to a host that is not understood")],
                |end| self.host_findings(&end),
            );
        }
        if NOWHERE.contains(&word.text.as_str()) {
            return vec![];
        }
        let what = || Finding::quoted(verb(access), &word.text);
        let (text, glob) = whole_directory(word);
        let mut findings = Vec::new();
        for directory in directories {
            match located(directory, text) {
                Ok(path) => {
                    let tightening = near.about(access, &path, glob);
                    let spoken_for =
                        tightening.iter().any(|r| !r.rule.from_project) || self.paths.allow(access, &path, glob);
                    if !spoken_for {
                        findings.push(unlisted(
                            Layer::Paths,
                            format!("{} is refused: {}", what(), PathError::Outside),
                            IN_WORKSPACE.into(),
                        ));
                    }
                    let first = tightening.into_iter().filter(|r| near.speaks_first(r));
                    findings.extend(first.map(|r| r.rule.finding(Layer::Paths, &what())));
                }
                Err(why) => {
                    let reason = format!("{} is refused: {why}", what());
                    findings.push(Finding::own(Layer::Paths, reason, IN_WORKSPACE.into()));
                }
            }
        }
        findings
    }

    /// What the path rules say about the arguments of one command. Only words that are refused matter: most
    /// arguments are no paths, so silence about them means nothing.
    fn argument_findings<'p>(&'p self, part: &Part, directories: &[String], near: &Near<'p>) -> Vec<Finding> {
        let rule = self.commands.about(&part.words[0].text).find(|r| r.clears(part));
        let pattern_at = rule.and_then(|r| r.pattern_at(&part.words));
        let mut findings = Vec::new();
        let far = !directories.iter().any(|directory| near.may_refuse(directory));
        for (at, word) in part.words.iter().enumerate() {
            for candidate in candidates(&word.text) {
                // Wherever it stays below a directory, no rule is about it.
                if far && !word.glob && stays_below(candidate) && !near.may_refuse(candidate) {
                    continue;
                }
                if NOWHERE.contains(&candidate) {
                    continue;
                }
                for directory in directories {
                    let may_lead_out = Some(at) != pattern_at && !directory.starts_with('/');
                    findings.extend(self.candidate_findings(candidate, word.glob, directory, may_lead_out, near));
                }
            }
        }
        findings
    }

    /// The same about one text that can be a path. `leads_out` is false where it does not matter: a pattern for grep
    /// may begin with a slash, and after `cd /tmp` everything is outside.
    fn candidate_findings<'p>(
        &'p self,
        text: &str,
        glob: bool,
        directory: &str,
        leads_out: bool,
        near: &Near<'p>,
    ) -> Vec<Finding> {
        // Most words are of this kind: they stay inside, and no rule is about anything like them.
        let inside = !text.starts_with(['/', '~']) && !text.contains("..") && !directory.starts_with('/');
        if inside && !glob && !near.may_refuse_reading() {
            return vec![];
        }
        let what = || Finding::quoted("reading", text);
        let outside = || format!("{} is refused: {}", what(), PathError::Outside);
        let path = match located(directory, text) {
            Ok(path) => path,
            Err(PathError::Outside) => return vec![Finding::own(Layer::Paths, outside(), IN_WORKSPACE.into())],
            // A word that cannot be a path is none.
            Err(_) => return vec![],
        };
        let absolute = path.starts_with('/');
        if absolute && !leads_out && !directory.starts_with('/') {
            return vec![];
        }
        let tightening = near.about(Access::Read, &path, glob);
        let first = tightening.iter().filter(|r| near.speaks_first(r));
        let mut findings: Vec<_> = first.map(|r| r.rule.finding(Layer::Paths, &what())).collect();
        if absolute && leads_out && tightening.is_empty() && !self.paths.allow(Access::Read, &path, glob) {
            findings.push(unlisted(Layer::Paths, outside(), IN_WORKSPACE.into()));
        }
        findings
    }

    /// The rule that allows one proven part, or the silence.
    fn clearance(&self, part: &Part, mode: Mode) -> Finding {
        let words = &part.words;
        let what = Finding::quoted("the command", &shown(words));
        let speaks = |r: &&CommandRule| r.clears(part) && (r.rule.verdict == Verdict::Allow || r.holds(mode));
        if let Some(rule) = self.commands.about(&words[0].text).find(speaks) {
            return match mode {
                Mode::Plan if !rule.reads_only => changes_something(&what),
                _ => rule.rule.finding(Layer::Commands, &what),
            };
        }
        if mode == Mode::Plan {
            return changes_something(&what);
        }
        if words.iter().any(|w| !w.known) {
            return unclear("$ (an expansion) where it matters what it says");
        }
        let beside = match (part.assigned.is_empty(), part.redirects.is_empty(), part.input) {
            (false, ..) => " with a variable assignment",
            (_, false, _) => " with a redirection to or from a file",
            (.., true) => " with a text as its input",
            _ => "",
        };
        let near: Vec<_> = self.commands.about(&words[0].text).filter(|r| r.rule.verdict == Verdict::Allow).collect();
        // A rule about the same program explains better than the whole list. Where nobody speaks, auto allows and
        // shows nothing.
        let instead = if mode == Mode::Auto {
            String::new()
        } else if near.is_empty() {
            self.allowed_list()
        } else {
            let limits = near.iter().filter_map(|r| r.limits()).next().unwrap_or_default();
            let usages: Vec<_> = near.iter().map(|r| r.usage()).collect();
            format!("these commands are allowed: {}{limits}", usages.join(", "))
        };
        Finding { silent: true, ..silence(Layer::Commands, &format!("{what}{beside}"), instead) }
    }

    fn allowed_list(&self) -> String {
        format!("these commands are allowed: {}", self.allowed_commands().join(", "))
    }

    /// What `xargs` and `find -exec` add to a command is not known: only a rule about a command that reads,
    /// whatever its arguments are, speaks for it.
    fn unknown_finding(&self, part: &Part) -> Option<Finding> {
        if part.words.iter().all(|w| w.known) {
            return None;
        }
        let fine = self
            .commands
            .iter()
            .any(|r| r.rule.verdict == Verdict::Allow && r.clears_any(&part.words) || r.clears(part));
        (!fine).then(|| unclear(&format!("{} with arguments that are not written out", program(&part.words[0].text))))
    }

    /// An option that a rule names as what it does not allow is more than silence, unless what the option does is
    /// judged by itself.
    fn forbidden_finding(&self, part: &Part) -> Option<Finding> {
        let name = program(&part.words[0].text);
        let forbidden =
            |rule: &'_ CommandRule| rule.forbids(&part.words).find(|option| !lowers(name, option)).map(str::to_owned);
        let mut rules = self.commands.about(&part.words[0].text);
        let (rule, option) = rules.find_map(|rule| Some((rule, forbidden(rule)?)))?;
        let what = Finding::quoted("the command", &format!("{} {option}", rule.usage()));
        let instead = format!("run {}{}", rule.usage(), rule.limits().unwrap_or_default());
        let reason = format!("{what} is refused: with this option it runs or writes something else");
        Some(Finding::own(Layer::Commands, reason, instead))
    }

    /// A variable that changes which program runs or what it does hides a command.
    fn assignment_finding(&self, part: &Part) -> Option<Finding> {
        let (name, _) = part.assigned.iter().find(|(name, _)| changes_meaning(name))?;
        let only_words = self.commands.about(&part.words[0].text).any(|r| r.expansions && r.clears(part));
        (!only_words).then(|| unclear(&format!("the variable {name}, which changes what a command does")))
    }
}

fn doubted(doubt: &Doubt) -> Finding {
    Finding::own(Layer::Commands, format!("the command is refused: {doubt}"), doubt.instead())
}

/// A doubt about what a command does, when every word of it was read.
fn unclear(what: &str) -> Finding {
    doubted(&Doubt::Construct(what.to_owned()))
}

fn changes_something(what: &str) -> Finding {
    let instead = "look and search, and say in the end what you would change".into();
    Finding::own(Layer::Mode, format!("{what} may change something, and plan mode changes nothing"), instead)
}

/// Where commands may run: each `cd` adds places to those before it. The workspace is always one.
fn directories(proven: &Proven) -> Result<Vec<String>, String> {
    let mut all = vec![".".to_owned()];
    for part in proven.parts.iter().chain(&proven.inner) {
        if !["cd", "pushd", "popd"].contains(&part.words[0].text.as_str()) {
            continue;
        }
        let operands: Vec<_> =
            part.words[1..].iter().filter(|w| !["-P", "-L", "--"].contains(&w.text.as_str())).collect();
        let [target] = operands[..] else { return Err("a change to a directory that is not written out".into()) };
        if !target.known || target.glob || target.text.starts_with(['-', '+']) {
            return Err("a change to a directory that is not written out".into());
        }
        for from in all.clone() {
            let to = located(&from, &target.text).map_err(|why| format!("a change to a directory: {why}"))?;
            if !all.contains(&to) {
                all.push(to);
            }
        }
        if all.len() > DIRECTORIES_MAX {
            return Err(format!("more than {DIRECTORIES_MAX} directories"));
        }
    }
    Ok(all)
}

/// A pattern for all that is in a directory means the directory.
fn whole_directory(word: &Word) -> (&str, bool) {
    let (parent, last) = word.text.rsplit_once('/').unwrap_or((".", word.text.as_str()));
    let all = word.glob && !last.is_empty() && last.chars().all(|c| c == '*' || c == '.' || c == '?');
    let parent = if parent.is_empty() { "/" } else { parent };
    if all { (parent, parent.contains(['*', '?', '['])) } else { (&word.text, word.glob) }
}

/// bash connects where /dev/tcp/HOST/PORT is opened.
fn device_of_bash(path: &str) -> Option<Option<Endpoint>> {
    let rest = path.strip_prefix("/dev/tcp/").or_else(|| path.strip_prefix("/dev/udp/"))?;
    Some(Endpoint::parse(&rest.replacen('/', ":", 1), None))
}

/// What in a word can be a path: all of it, what follows `=` or `:`, and what is glued to a short option.
fn candidates(word: &str) -> impl Iterator<Item = &str> {
    let glued = word
        .strip_prefix('-')
        .filter(|rest| !rest.starts_with('-'))
        .and_then(|rest| rest.char_indices().nth(1).map(|(at, _)| &rest[at..]));
    let whole = Some(word).filter(|word| !word.starts_with('-'));
    let value = word.split_once('=').map(|(_, value)| value);
    let behind = word.split_once(':').map(|(_, value)| value).filter(|value| !value.starts_with(':'));
    [whole, glued, value, behind].into_iter().flatten().filter(|candidate| !candidate.is_empty())
}

/// Whether a path leads to nothing but what lies below the directory in which it is used.
fn stays_below(path: &str) -> bool {
    let bytes = path.as_bytes();
    bytes.first() != Some(&b'/') && !bytes.contains(&b'~') && !bytes.windows(2).any(|pair| pair == b"..")
}

/// The beginning of a command, as much of it as is shown.
fn shown(words: &[Word]) -> String {
    let mut text = words[0].text.to_string();
    for word in &words[1..] {
        if text.len() > QUOTE_READ_BYTES_MAX {
            break;
        }
        text.push(' ');
        text.push_str(&word.text);
    }
    text
}
