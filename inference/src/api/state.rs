//! What do the requests of one server share?

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use super::Backend;
use super::error::ApiError;
use super::keys::Keys;
use super::metrics::Metrics;
use super::steady::Rules;

/// The place of an engine that may still be loading. The server answers from the first moment on: until
/// [`Slot::fill`] is called, `/health` says that it loads.
pub struct Slot<B>(Arc<OnceLock<Result<B, String>>>);

impl<B> Slot<B> {
    /// A place with nothing in it yet.
    pub fn loading() -> Self {
        Self(Arc::new(OnceLock::new()))
    }

    /// Puts the engine in place, or the reason why there is none. Only the first call counts.
    pub fn fill(&self, loaded: Result<B, String>) {
        let _ = self.0.set(loaded);
    }

    pub(super) fn get(&self) -> Result<&B, ApiError> {
        match self.0.get() {
            None => Err(ApiError::loading()),
            Some(Err(reason)) => Err(ApiError::failed(reason)),
            Some(Ok(backend)) => Ok(backend),
        }
    }
}

impl<B> Clone for Slot<B> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<B: Backend> From<B> for Slot<B> {
    fn from(backend: B) -> Self {
        Self(Arc::new(OnceLock::from(Ok(backend))))
    }
}

/// What a server allows at most, and what it does to requests.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// The size of a request's body.
    pub body_bytes_max: usize,
    /// The time from a request's headers to the end of its answer, waiting included.
    pub request_time_max: Duration,
    /// How many prompts are rendered and encoded at the same time.
    pub encoders_max: usize,
    /// After a stop is asked for: how long the answers under way may still take.
    pub drain_time_max: Duration,
    /// Who may ask; `None`: whoever is on this machine.
    pub keys: Option<Keys>,
    /// What is taken out of requests because it would cost the cache and says nothing to the model.
    pub steady: Rules,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes_max: 8 << 20,
            request_time_max: Duration::from_secs(1800),
            encoders_max: 2,
            drain_time_max: Duration::from_secs(5),
            keys: None,
            steady: Rules::default(),
        }
    }
}

/// Cloned into every request.
pub(super) struct Server<B> {
    pub slot: Slot<B>,
    pub limits: Limits,
    pub encoders: Arc<Semaphore>,
    pub metrics: Arc<Metrics>,
    /// Turns true when answers under way must end now.
    pub cut: watch::Receiver<bool>,
}

impl<B: Backend> Server<B> {
    pub fn new(slot: Slot<B>, limits: Limits, cut: watch::Receiver<bool>) -> Self {
        let encoders = Arc::new(Semaphore::new(limits.encoders_max));
        Self { slot, limits, encoders, metrics: Arc::default(), cut }
    }

    /// The engine, if it is there and well.
    pub fn backend(&self) -> Result<&B, ApiError> {
        let backend = self.slot.get()?;
        backend.health().map_err(|reason| ApiError::failed(&reason))?;
        Ok(backend)
    }

    /// Awaits `work`, but not past the deadline and not past the server's own end.
    pub async fn bounded<T>(&self, deadline: Instant, work: impl Future<Output = T>) -> Result<T, ApiError> {
        let mut cut = self.cut.clone();
        let cut = async {
            if cut.wait_for(|cut| *cut).await.is_err() {
                // Nobody is left who could cut: a router without a server around it.
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = cut => Err(ApiError::shutting_down()),
            () = tokio::time::sleep_until(deadline) => Err(ApiError::deadline(self.limits.request_time_max.as_secs())),
        }
    }
}

impl<B> Clone for Server<B> {
    fn clone(&self) -> Self {
        Self {
            slot: self.slot.clone(),
            limits: self.limits.clone(),
            encoders: Arc::clone(&self.encoders),
            metrics: Arc::clone(&self.metrics),
            cut: self.cut.clone(),
        }
    }
}
