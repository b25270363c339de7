//! Which hooks does a file name, and does it say what its author thinks it says?
//!
//! Unknown keys are refused, and so is whatever would make a hook silently never run: a matcher for no tool, a script
//! that is not there, an empty command. A file of the administrator that does not load starts no session.

use super::pins::Pin;
use super::{Event, Facts, Hook, Hooks, OnError, SCRIPT, tool};
use crate::audit::canonical;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs;
use std::io::{self, Read};
use std::path::Path;

const FILE_BYTES_MAX: u64 = 256 * 1024;
/// One argument of a program is at most 128 KiB long in Linux, and the script travels as one.
const SCRIPT_BYTES_MAX: usize = 96 * 1024;
const HOOKS_MAX: usize = 64;
const WORDS_MAX: usize = 64;
const SECONDS_DEFAULT: u64 = 30;
const SECONDS_MAX: u64 = 600;
const VERSION: u32 = 1;

/// Why hooks do not load.
#[derive(Debug, thiserror::Error)]
pub enum HooksError {
    /// The file, or a script that it names, cannot be read.
    #[error("{file}: cannot read it: {source}")]
    Read {
        /// The file.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// Not TOML, an unknown key, a wrong type.
    #[error("{file}: {why}")]
    Syntax {
        /// The file.
        file: String,
        /// What is wrong, with its line.
        why: String,
    },
    /// An entry that contradicts itself or could never run.
    #[error("{file}: hook {id}: {why}")]
    Hook {
        /// The file.
        file: String,
        /// The hook.
        id: String,
        /// What is wrong with it.
        why: String,
    },
}

/// For which tools a hook runs: names joined by `|`, each of which may end in `*`; `*` or nothing means all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matcher(Vec<String>);

impl Matcher {
    /// Reads a matcher. Regular expressions beyond `.*` at the end of a name are refused.
    pub fn parse(text: &str) -> Result<Self, String> {
        let plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        let alternative = |part: &str| {
            let part = part.trim();
            let (name, star) = match part.strip_suffix('*') {
                Some(name) => (name.strip_suffix('.').unwrap_or(name), "*"),
                None => (part, ""),
            };
            let all = part.is_empty() && text.trim().is_empty();
            let known = plain(name) && (!part.is_empty() || all);
            known.then(|| if all { "*".into() } else { format!("{name}{star}") }).ok_or_else(|| {
                format!("matcher {text:?}: write names joined by `|`, each of which may end in `*`; nothing means all")
            })
        };
        text.split('|').map(alternative).collect::<Result<_, _>>().map(Self)
    }

    /// Whether one of these names is meant. Where there is nothing to compare with, every matcher matches.
    #[must_use]
    pub fn matches(&self, subjects: &[&str]) -> bool {
        let one = |pattern: &String, subject: &str| match pattern.strip_suffix('*') {
            Some(start) => subject.starts_with(start),
            None => pattern == subject,
        };
        subjects.is_empty() || self.0.iter().any(|pattern| subjects.iter().any(|subject| one(pattern, subject)))
    }
}

/// One `[[hook]]` as written, with what was left out filled in.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    pub id: String,
    pub event: Event,
    #[serde(default)]
    pub matcher: String,
    pub argv: Vec<String>,
    pub script: Option<String>,
    #[serde(default = "seconds_default")]
    pub seconds_max: u64,
    #[serde(default)]
    pub on_error: OnError,
}

fn seconds_default() -> u64 {
    SECONDS_DEFAULT
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    #[serde(default)]
    hook: Vec<Entry>,
    #[serde(default)]
    pin: Vec<Pin>,
}

impl Entry {
    /// What an administrator pins: the hash of the entry in its canonical form.
    pub fn sha256(&self) -> String {
        sha256(canonical(&serde_json::to_value(self).unwrap_or_default()).as_bytes())
    }

    /// The hook, with the text of its script.
    pub fn into_hook(self, script: Option<&[u8]>) -> Result<Hook, String> {
        let name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        if self.id.is_empty() || self.id.len() > 64 || !self.id.bytes().all(name) {
            return Err("an id is 1 to 64 letters, digits, `-`, `_` and `.`".into());
        }
        if self.argv.first().is_none_or(String::is_empty) {
            return Err("argv is empty; write the program and its arguments as a list of words".into());
        }
        if self.argv.len() > WORDS_MAX || self.argv.iter().any(|word| word.contains('\0')) {
            return Err(format!("argv has more than {WORDS_MAX} words, or a NUL in one"));
        }
        if !(1..=SECONDS_MAX).contains(&self.seconds_max) {
            return Err(format!("seconds_max is {}; it must be 1 to {SECONDS_MAX}", self.seconds_max));
        }
        let placed = self.argv.iter().any(|word| word == SCRIPT);
        if placed != self.script.is_some() {
            return Err(format!("`script` names the file, and the word `{SCRIPT}` in argv says where its path goes"));
        }
        let matcher = Matcher::parse(&self.matcher)?;
        let about_tools = matches!(self.event, Event::PreToolUse | Event::PostToolUse);
        if about_tools && !tool::NAMES.iter().any(|names| matcher.matches(names)) {
            let names: Vec<&str> = tool::NAMES.iter().map(|names| names[0]).collect();
            return Err(format!("matcher {:?} matches no tool; there are {}", self.matcher, names.join(", ")));
        }
        let script = script.map(text_of_script).transpose()?;
        let Self { id, event, argv, seconds_max, on_error, .. } = self;
        Ok(Hook { id, event, matcher, argv, script, seconds_max, on_error })
    }
}

fn text_of_script(bytes: &[u8]) -> Result<String, String> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| text.len() <= SCRIPT_BYTES_MAX && !text.contains('\0'));
    text.map(str::to_owned).ok_or(format!("its script is not text of at most {SCRIPT_BYTES_MAX} bytes"))
}

impl Hooks {
    /// The administrator's hooks and pins. Scripts are relative to the file's directory and are read now.
    pub fn load(file: &Path) -> Result<Self, HooksError> {
        let name = file.display().to_string();
        let text = read(file)?;
        let text = String::from_utf8(text)
            .map_err(|_| HooksError::Syntax { file: name.clone(), why: "it is not UTF-8".into() })?;
        let directory = file.parent().unwrap_or(Path::new("."));
        Self::parse(&name, &text, &|script| read(&directory.join(script)))
    }

    /// The same from its text; `script` reads the bytes of a script, and `file` is what errors call it.
    pub fn parse(
        file: &str,
        text: &str,
        script: &dyn Fn(&str) -> Result<Vec<u8>, HooksError>,
    ) -> Result<Self, HooksError> {
        let File { hook, pin, .. } = entries(file, text)?;
        let mut active = Vec::new();
        for entry in hook {
            let id = entry.id.clone();
            let bytes = entry.script.as_deref().map(script).transpose()?;
            let wrong = |why| HooksError::Hook { file: file.to_owned(), id, why };
            active.push(entry.into_hook(bytes.as_deref()).map_err(wrong)?);
        }
        Ok(Self { active, inert: Vec::new(), facts: Facts::default(), pins: pin })
    }
}

/// The entries of a repository's file. It may not pin itself.
pub(super) fn from_repository(file: &str, text: &str) -> Result<Vec<Entry>, HooksError> {
    let File { hook, pin, .. } = entries(file, text)?;
    if !pin.is_empty() {
        return Err(HooksError::Syntax { file: file.into(), why: "only an administrator pins hooks".into() });
    }
    Ok(hook)
}

fn entries(file: &str, text: &str) -> Result<File, HooksError> {
    let syntax = |why: String| HooksError::Syntax { file: file.to_owned(), why };
    let read: File = toml::from_str(text).map_err(|error| syntax(error.to_string()))?;
    if read.version != VERSION {
        return Err(syntax(format!("version {} is unknown, this program reads version {VERSION}", read.version)));
    }
    if read.hook.len() > HOOKS_MAX {
        return Err(syntax(format!("it has more than {HOOKS_MAX} hooks")));
    }
    for (at, entry) in read.hook.iter().enumerate() {
        if read.hook[..at].iter().any(|earlier| earlier.id == entry.id) {
            return Err(syntax(format!("there are two hooks with the id {}", entry.id)));
        }
    }
    Ok(read)
}

/// A link is refused, as in policies.
fn read(file: &Path) -> Result<Vec<u8>, HooksError> {
    let inner = || {
        let meta = fs::symlink_metadata(file)?;
        if !meta.is_file() || meta.len() > FILE_BYTES_MAX {
            let why = format!("not a regular file of at most {FILE_BYTES_MAX} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let mut bytes = Vec::new();
        fs::File::open(file)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    inner().map_err(|source| HooksError::Read { file: file.display().to_string(), source })
}

pub(super) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
