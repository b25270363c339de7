//! How does a file come from a model hub? hf-hub names the URL and the token; the body is streamed here, so that it
//! can be hashed on the way, cancelled, and resumed by an HTTP range (RFC 9110, section 14).

use std::time::Duration;

use hf_hub::api::sync::{ApiBuilder, ApiRepo};
use hf_hub::{Cache, Repo, RepoType};
use ureq::config::RedirectAuthHeaders;
use ureq::tls::{PemItem, RootCerts, TlsConfig};

use super::{FetchError, Stop, Transfer};
use crate::PullOptions;
use crate::partial::Partial;
use crate::pull::Origin;

/// How often a transfer that broke off is resumed within one pull, as long as each try brings bytes.
const RESUMES_MAX: u32 = 5;

/// The longest time that a connection may take, whatever the options say: a host without a network must find out soon.
const CONNECT_SECONDS_MAX: u64 = 5;

/// Fetches every part from one repository of a hub.
pub(crate) fn fetch(
    transfer: &mut Transfer<'_, '_>,
    parts: &mut [Partial],
    repo: &str,
    revision: &str,
) -> Result<(), Stop> {
    transfer.origin = Origin::Hf;
    let hub = Hub::new(transfer.options, repo, revision)?;
    for part in parts {
        let whole = part.want().bytes;
        transfer.resume_at(part, whole)?;
        transfer.tell(part.want(), part.bytes_done());
        hub.fetch_file(transfer, part)?;
        part.commit(&transfer.store.blob_dir())?;
    }
    Ok(())
}

struct Hub {
    agent: ureq::Agent,
    repo: ApiRepo,
    token: Option<String>,
}

impl Hub {
    fn new(options: &PullOptions, repo: &str, revision: &str) -> Result<Hub, FetchError> {
        // hf-hub panics where there is no home directory at all, so it is asked only where there is one.
        let has_home = std::env::var_os("HF_HOME").is_some() || std::env::home_dir().is_some();
        let cache = if has_home { Cache::from_env() } else { Cache::new("/nonexistent/hub".into()) };
        let token = options.hf_token.clone().or_else(|| cache.token());
        let mut builder = ApiBuilder::from_cache(cache).with_progress(false);
        if let Some(endpoint) = &options.hf_endpoint {
            builder = builder.with_endpoint(endpoint.trim_end_matches('/').to_string());
        }
        let settings = |reason| FetchError::Settings { what: "the hub cannot be set up".to_string(), reason };
        let api = builder.build().map_err(|e| settings(e.to_string()))?;
        let repo = Repo::with_revision(repo.to_string(), RepoType::Model, revision.to_string());
        Ok(Hub { agent: agent(options)?, repo: api.repo(repo), token })
    }

    fn fetch_file(&self, transfer: &mut Transfer<'_, '_>, part: &mut Partial) -> Result<(), Stop> {
        for _ in 0..RESUMES_MAX {
            let before = part.bytes_done();
            match self.request(transfer, part) {
                Err(Stop::Source(FetchError::Interrupted { .. })) if part.bytes_done() > before => {}
                other => return other,
            }
        }
        self.request(transfer, part)
    }

    /// One request, for whatever is missing.
    fn request(&self, transfer: &mut Transfer<'_, '_>, part: &mut Partial) -> Result<(), Stop> {
        let (start, want) = (part.bytes_done(), part.want().clone());
        if start == want.bytes {
            return Ok(());
        }
        transfer.check_cancel()?;
        let url = self.repo.url(&want.name);
        // A compressed body would have other bytes and another length than the file.
        let mut request = self.agent.get(&url).header("Accept-Encoding", "identity");
        if start > 0 {
            request = request.header("Range", format!("bytes={start}-"));
        }
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let unreachable = |e: ureq::Error| FetchError::Unreachable { url: url.clone(), reason: reason(&e) };
        let response = request.call().map_err(unreachable)?;
        match response.status().as_u16() {
            206 if range_start(&response) == Some(start) => {}
            // The server does not know ranges, so the file begins again.
            200 => part.restart()?,
            status => return Err(FetchError::Status { url, status }.into()),
        }
        let start = part.bytes_done();
        if let Some(length) = response.body().content_length()
            && start + length != want.bytes
        {
            return Err(FetchError::wrong_size(&want, start + length).into());
        }
        let mut body = response.into_body().into_reader();
        let interrupted = |bytes_done, reason| FetchError::Interrupted { file: want.name.clone(), bytes_done, reason };
        let copied = transfer.copy(&mut body, part, &|e| interrupted(0, e.to_string()));
        let reason = match copied {
            Ok(()) if part.bytes_done() == want.bytes => return Ok(()),
            Ok(()) => "the server closed the connection".to_string(),
            Err(Stop::Source(FetchError::Interrupted { reason, .. })) => reason,
            Err(other) => return Err(other),
        };
        Err(interrupted(part.bytes_done(), reason).into())
    }
}

fn agent(options: &PullOptions) -> Result<ureq::Agent, FetchError> {
    let connect = Duration::from_secs(options.connect_seconds_max.clamp(1, CONNECT_SECONDS_MAX));
    let silence = Duration::from_secs(options.silence_seconds_max.max(1));
    let mut tls = TlsConfig::builder();
    if let Some(path) = &options.ca_file {
        let settings = |reason| FetchError::Settings { what: format!("SSL_CERT_FILE {}", path.display()), reason };
        let pem = std::fs::read(path).map_err(|e| settings(e.to_string()))?;
        let certificates: Vec<_> = ureq::tls::parse_pem(&pem)
            .filter_map(|item| match item {
                Ok(PemItem::Certificate(certificate)) => Some(certificate),
                _ => None,
            })
            .collect();
        if certificates.is_empty() {
            return Err(settings("it holds no certificate".to_string()));
        }
        tls = tls.root_certs(RootCerts::from(certificates));
    }
    let config = ureq::Agent::config_builder()
        .tls_config(tls.build())
        .timeout_resolve(Some(connect))
        .timeout_connect(Some(connect))
        .timeout_recv_response(Some(silence))
        .timeout_per_read(Some(silence))
        .timeout_per_write(Some(silence))
        // A hub redirects to a store on another host, which must not see the token.
        .redirect_auth_headers(RedirectAuthHeaders::SameHost)
        .http_status_as_error(false)
        .user_agent(concat!("cloister/", env!("CARGO_PKG_VERSION")))
        .build();
    Ok(config.into())
}

/// The first byte that a partial answer begins with: `Content-Range: bytes START-END/TOTAL`.
fn range_start(response: &ureq::http::Response<ureq::Body>) -> Option<u64> {
    let value = response.headers().get("Content-Range")?.to_str().ok()?;
    value.strip_prefix("bytes ")?.split('-').next()?.parse().ok()
}

fn reason(error: &ureq::Error) -> String {
    match error {
        ureq::Error::HostNotFound => "the host name is not known here (no network, or no such host)".to_string(),
        ureq::Error::Timeout(_) => format!("no answer in time ({error})"),
        ureq::Error::Io(error) => error.to_string(),
        other => other.to_string(),
    }
}
