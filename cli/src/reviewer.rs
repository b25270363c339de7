//! Who is the second model? `--review-by`: one of this host, or one behind a URL.

use crate::exit::Fatal;
use crate::local::{self, LocalModel};
use crate::state::State;
use crate::weights;
use agent::Model;
use agent::http::HttpModel;
use agent::verify::Review;
use models::{Role, Weights};

const HTTP_CONTEXT_TOKENS: usize = 32_768;

/// What was named, found but not yet loaded.
pub enum Wanted {
    /// The server's base and, after a `#`, the model's name.
    Url(String, Option<String>),
    /// A model of this host.
    Here(Weights),
}

/// A reviewer that can be asked.
pub enum Reviewer {
    /// The model that works: it is loaded once.
    Author,
    /// Another one.
    Other(Box<dyn Model>),
}

impl Wanted {
    /// Finds it; refuses what is not there.
    pub fn find(named: &str, state: &State) -> Result<Self, Fatal> {
        if named.starts_with("http://") || named.starts_with("https://") {
            let (base, model) = named.split_once('#').unwrap_or((named, ""));
            return Ok(Self::Url(base.to_owned(), (!model.is_empty()).then(|| model.to_owned())));
        }
        Ok(Self::Here(weights::resolve(&state.store()?, Some(named), Role::Chat)?))
    }

    /// Loads or reaches it. `working` is the model of this host that works, if one does.
    pub fn open(self, state: &State, working: Option<&str>) -> Result<Reviewer, Fatal> {
        Ok(match self {
            Self::Url(base, named) => {
                let hint = "start the reviewing server, or leave --review-by out";
                let first = || HttpModel::first_model(&base).map_err(|error| Fatal::missing(error, hint));
                let name = named.map_or_else(first, Ok)?;
                Reviewer::Other(Box::new(HttpModel::new(&base, &name, HTTP_CONTEXT_TOKENS)))
            }
            Self::Here(weights) if working == Some(weights.name.as_str()) => Reviewer::Author,
            Self::Here(weights) => {
                // No two reviews begin alike, so nothing of them is kept on the disk.
                let engine = local::load(state, &weights, 0)?;
                Reviewer::Other(Box::new(LocalModel { engine, name: weights.name }))
            }
        })
    }
}

/// For the loop.
pub fn review(reviewer: &mut Option<Reviewer>) -> Review<'_> {
    match reviewer {
        None => Review::Nobody,
        Some(Reviewer::Author) => Review::Author,
        Some(Reviewer::Other(model)) => Review::By(model.as_mut()),
    }
}
