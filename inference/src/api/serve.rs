//! When does the server start, where does it listen, and how does it end?

use std::future::IntoFuture;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::{Router, middleware};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::guard::{is_loopback, local_host_only};
use super::keys::Keys;
use super::state::{Limits, Server, Slot};
use super::{Backend, routes};

/// How often [`serve_blocking`] looks whether it shall stop.
const STOP_POLL: Duration = Duration::from_millis(50);
/// How long connections may take to close once every answer has been ended.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(1);

/// Why a server did not start or did not last.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The address can be reached from other machines.
    #[error("{0} can be reached from other machines, so it must ask for API keys; or use 127.0.0.1 or [::1]")]
    NotLoopback(SocketAddr),
    /// The address is taken, or not ours.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// Where it should have listened.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// No async runtime, or no more connections.
    #[error("the server cannot run: {0}")]
    Run(#[source] std::io::Error),
}

/// Listens on a loopback address, or on any where keys are asked for; port 0 takes any free one.
pub async fn bind(address: SocketAddr, keys: Option<&Keys>) -> Result<TcpListener, ServeError> {
    if keys.is_none() && !is_loopback(address.ip()) {
        return Err(ServeError::NotLoopback(address));
    }
    TcpListener::bind(address).await.map_err(|source| ServeError::Bind { address, source })
}

/// Serves on `address` until `shutdown` completes, then lets the answers under way end; see [`Limits::drain_time_max`].
pub async fn serve<B: Backend>(
    address: SocketAddr,
    backend: impl Into<Slot<B>>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), ServeError> {
    serve_on(bind(address, None).await?, backend, Limits::default(), shutdown).await
}

/// [`serve`] with a listener that [`bind`] gave, and limits.
///
/// After `shutdown` no connection is accepted. Answers that last longer than the drain time end with an error.
pub async fn serve_on<B: Backend>(
    listener: TcpListener,
    backend: impl Into<Slot<B>>,
    limits: Limits,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), ServeError> {
    let drain_time_max = limits.drain_time_max;
    let (cut_now, cut) = watch::channel(false);
    let (stopping, mut stopped) = watch::channel(false);
    let shutdown = async move {
        shutdown.await;
        let _ = stopping.send(true);
    };
    let router = routes(Server::new(backend.into(), limits, cut));
    let server = axum::serve(listener, router).with_graceful_shutdown(shutdown).into_future();
    tokio::pin!(server);
    let drained = async {
        let _ = stopped.wait_for(|stopped| *stopped).await;
        tokio::time::sleep(drain_time_max).await;
    };
    tokio::select! {
        served = &mut server => return served.map_err(ServeError::Run),
        () = drained => {}
    }
    let _ = cut_now.send(true);
    match tokio::time::timeout(CLOSE_TIME_MAX, server).await {
        Ok(served) => served.map_err(ServeError::Run),
        // A client that does not read its last words does not keep the server.
        Err(_) => Ok(()),
    }
}

/// [`serve_on`] for a program without an async runtime: blocks until `stop` turns true. `on_ready` is called once with
/// the address, when connections are accepted.
pub fn serve_blocking<B: Backend>(
    address: SocketAddr,
    backend: impl Into<Slot<B>>,
    limits: Limits,
    stop: Arc<AtomicBool>,
    on_ready: impl FnOnce(SocketAddr),
) -> Result<(), ServeError> {
    let keys = limits.keys.clone();
    blocking(address, keys, on_ready, async |listener| serve_on(listener, backend, limits, turned(stop)).await)
}

/// Serves routes of the caller like [`serve_blocking`]: on loopback, and only requests that are meant for this machine.
/// After `stop` answers under way have [`Limits::drain_time_max`] to end.
pub fn serve_routes_blocking(
    address: SocketAddr,
    routes: Router,
    stop: Arc<AtomicBool>,
    on_ready: impl FnOnce(SocketAddr),
) -> Result<(), ServeError> {
    let routes = routes.layer(middleware::from_fn(local_host_only));
    blocking(address, None, on_ready, async |listener| {
        let server = axum::serve(listener, routes).with_graceful_shutdown(turned(stop.clone())).into_future();
        let drained = async {
            turned(stop).await;
            tokio::time::sleep(Limits::default().drain_time_max).await;
        };
        tokio::select! {
            served = server => served.map_err(ServeError::Run),
            () = drained => Ok(()),
        }
    })
}

/// Completes once the flag is true.
async fn turned(stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(STOP_POLL).await;
    }
}

/// Runs a server on a runtime of its own.
fn blocking(
    address: SocketAddr,
    keys: Option<Keys>,
    on_ready: impl FnOnce(SocketAddr),
    serve: impl AsyncFnOnce(TcpListener) -> Result<(), ServeError>,
) -> Result<(), ServeError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("http")
        .enable_all()
        .build()
        .map_err(ServeError::Run)?;
    let served = runtime.block_on(async {
        let listener = bind(address, keys.as_ref()).await?;
        on_ready(listener.local_addr().map_err(ServeError::Run)?);
        serve(listener).await
    });
    runtime.shutdown_background();
    served
}
