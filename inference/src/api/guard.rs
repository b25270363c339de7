//! Is this request really meant for a server on this machine?
//!
//! A web page can make its own name resolve to 127.0.0.1 (DNS rebinding) and then read what it likes from a local
//! server; the Host header still carries the page's name. So a host that is not this machine's is refused, and no CORS
//! header ever invites a page in. Where keys are asked for, a page has none, and the host may be another machine's name.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, HOST};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::Backend;
use super::error::ApiError;
use super::state::Server;

/// Whose cached prompts a request may use; in the extensions of one that came with a key.
#[derive(Clone, Copy)]
pub(super) struct Namespace(pub u64);

/// Middleware: where there are keys, lets a request pass with one of them, else one that is meant for this machine. Only how
/// the server is can be asked without a key.
pub(super) async fn admit<B: Backend>(State(server): State<Server<B>>, mut request: Request, next: Next) -> Response {
    let Some(keys) = &server.limits.keys else { return local_host_only(request, next).await };
    if request.uri().path() != "/health" {
        let Some(namespace) = presented(&request).and_then(|key| keys.namespace(key)) else {
            return ApiError::key_not_known().into_response();
        };
        request.extensions_mut().insert(Namespace(namespace));
    }
    next.run(request).await
}

/// The key: `Authorization: Bearer KEY`, or `x-api-key: KEY` as other clients send it.
fn presented(request: &Request) -> Option<&str> {
    let text = |name: &str| request.headers().get(name)?.to_str().ok();
    let bearer = text(AUTHORIZATION.as_str()).and_then(|value| value.split_once(' '));
    let bearer = bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, key)| key.trim());
    bearer.or_else(|| text("x-api-key"))
}

/// Middleware: lets a request pass when every host that it names is this machine.
pub(super) async fn local_host_only(request: Request, next: Next) -> Response {
    let in_url = request.uri().authority().map(|authority| authority.as_str());
    let mut hosts = request.headers().get_all(HOST).iter();
    let header = hosts.next().and_then(|value| value.to_str().ok());
    if header.is_some_and(is_local) && hosts.next().is_none() && in_url.is_none_or(is_local) {
        next.run(request).await
    } else {
        ApiError::host_not_allowed().into_response()
    }
}

/// Whether a Host value, with or without a port, is `localhost` or a loopback address.
fn is_local(host: &str) -> bool {
    if let Ok(address) = host.parse::<SocketAddr>() {
        return is_loopback(address.ip());
    }
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() && !name.contains(':') => name,
        _ => host,
    };
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    bare.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok_and(is_loopback)
}

/// Loopback in either family, or an IPv4 loopback address written as IPv6.
pub(super) fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::is_local;

    #[test]
    fn only_names_and_addresses_of_this_machine_are_local() {
        for host in ["localhost", "LocalHost:8080", "127.0.0.1", "127.1.2.3:1", "[::1]", "[::1]:80"] {
            assert!(is_local(host), "{host}");
        }
        for host in [
            "",
            ":80",
            "example.org",
            "example.org:80",
            "localhost.example.org",
            "127.0.0.1.example.org",
            "10.0.0.1",
            "0.0.0.0:80",
            "localhost:80:80",
            "localhost:99999",
            "me@localhost",
            "[::]:80",
            "127.1",
            "2130706433",
        ] {
            assert!(!is_local(host), "{host}");
        }
    }
}
