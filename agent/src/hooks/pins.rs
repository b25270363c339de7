//! May a hook run that the repository itself brings?
//!
//! Only when an administrator has pinned it: the hash of its entry and the hash of the script that it runs. Both are
//! taken when the session begins, from the base, and what runs is the text that was hashed: neither a new commit nor
//! the agent can put another one in its place.

use super::config::{self, Entry, sha256};
use super::{Event, Hook, Hooks};
use crate::gate::normalise;
use serde::Deserialize;

/// Where a repository keeps its hooks.
pub const REPOSITORY_HOOKS: &str = ".cloister/hooks.toml";

/// `[[pin]]` in the administrator's file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pin {
    entry_sha256: String,
    script_sha256: String,
}

/// A hook of the repository that does not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inert {
    /// Its id, made safe; the file itself when it does not load.
    pub id: String,
    /// When it would run.
    pub event: Option<Event>,
    /// Why it does not.
    pub why: String,
    /// What an administrator would add to `hooks.toml` to let it run; empty where that is impossible.
    pub pin: String,
}

impl Hooks {
    /// Adds the hooks of a repository, pinned ones to the active and all others to the inert. `read` gives the bytes
    /// of a file of the base; it must not follow links out of it.
    pub fn add_repository(&mut self, read: &dyn Fn(&str) -> Option<Vec<u8>>) {
        let Some(bytes) = read(REPOSITORY_HOOKS) else { return };
        let text = String::from_utf8_lossy(&bytes);
        let entries = match config::from_repository(REPOSITORY_HOOKS, &text) {
            Ok(entries) => entries,
            Err(error) => {
                let why = crate::text::quote(&error.to_string(), 400);
                self.inert.push(Inert { id: REPOSITORY_HOOKS.into(), event: None, why, pin: String::new() });
                return;
            }
        };
        for entry in entries {
            match self.pinned(entry, read) {
                Ok(hook) => self.active.push(hook),
                Err(inert) => self.inert.push(*inert),
            }
        }
    }

    fn pinned(&self, entry: Entry, read: &dyn Fn(&str) -> Option<Vec<u8>>) -> Result<Hook, Box<Inert>> {
        let inert = |entry: &Entry, why: String, pin: String| {
            let id = crate::text::quote(&entry.id, 64);
            Box::new(Inert { id, event: Some(entry.event), why, pin })
        };
        let script = entry.script.as_deref().and_then(|path| normalise(path).ok()).and_then(|path| read(&path));
        let Some(script) = script else {
            let why = "a hook of a repository needs `script`, a file of the repository, so that it can be pinned";
            return Err(inert(&entry, why.into(), String::new()));
        };
        let pin = Pin { entry_sha256: entry.sha256(), script_sha256: sha256(&script) };
        if !self.pins.contains(&pin) {
            let Pin { entry_sha256, script_sha256 } = pin;
            let pin = format!("[[pin]]\nentry_sha256 = \"{entry_sha256}\"\nscript_sha256 = \"{script_sha256}\"\n");
            return Err(inert(&entry, "no administrator has pinned it".into(), pin));
        }
        let twin = self.active.iter().any(|hook| hook.id == entry.id);
        if twin {
            return Err(inert(&entry, "a hook with its id runs already".into(), String::new()));
        }
        let copy = entry.clone();
        entry.into_hook(Some(&script)).map_err(|why| inert(&copy, why, String::new()))
    }
}
