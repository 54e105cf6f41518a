//! The HTTP server: access control, routes, answers and their limits.
//!
//! # Layout
//! - [`Server`]: the routes. `site`: the state that every answer can use.
//! - `connection`: accepting connections, their limits, shutdown. `write_timeout`: clients that do not read.
//! - `socket`: a Unix socket with its mode and group.
//! - `guard`: host, token, headers of every answer. `session`: the cookie that replaces the token. `login`: its page.
//! - `api`, `subject`: JSON. `csv`: rows as CSV. `query`: query parameters. `answer`: JSON answers and errors. `live`: the stream of events.
//! - `page`, `assets`: the page and its files.

mod answer;
mod api;
mod assets;
mod connection;
mod csv;
mod flame;
mod guard;
mod live;
mod login;
mod page;
pub(crate) mod query;
mod session;
pub(crate) mod site;
mod socket;
mod subject;
mod write_timeout;

pub(crate) use assets::module;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use rustix::net::sockopt::set_socket_send_buffer_size;
use tokio::sync::{Semaphore, watch};

use self::site::Site;
use crate::gather::Asking;
use crate::metrics::{self, Format};
use crate::options::{Endpoint, Limits, Options};
use crate::source::Machine;
use crate::survey::Survey;

/// Where requests come from.
#[derive(Debug)]
enum Listener {
    Tcp(std::net::TcpListener),
    Unix(std::os::unix::net::UnixListener, socket::Name),
}

/// Answers requests until shutdown.
#[derive(Debug)]
pub struct Server {
    listener: Listener,
    #[cfg(feature = "otlp")]
    otlp: Option<crate::push::Otlp>,
}

impl Server {
    /// Takes the address or the name.
    ///
    /// # Errors
    /// If it is taken, or not this machine's.
    pub fn bind(endpoint: &Endpoint, limits: &Limits) -> io::Result<Server> {
        let listener = match endpoint {
            Endpoint::Tcp(address) => {
                let listener = std::net::TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                // Accepted connections inherit it. Without a limit the buffer of a client that does
                // not read grows to megabytes.
                set_socket_send_buffer_size(&listener, limits.send_buffer_bytes)?;
                Listener::Tcp(listener)
            }
            Endpoint::Unix { path, group } => {
                let (listener, name) = socket::take(path, *group)?;
                Listener::Unix(listener, name)
            }
        };
        Ok(Server {
            listener,
            #[cfg(feature = "otlp")]
            otlp: None,
        })
    }

    /// Pushes the metrics to a collector as well, at every interval.
    #[cfg(feature = "otlp")]
    #[must_use]
    pub fn pushing(self, otlp: crate::push::Otlp) -> Server {
        Server {
            otlp: Some(otlp),
            ..self
        }
    }

    /// The address where it listens; none for a Unix socket.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn address(&self) -> io::Result<Option<SocketAddr>> {
        match &self.listener {
            Listener::Tcp(listener) => listener.local_addr().map(Some),
            Listener::Unix(..) => Ok(None),
        }
    }

    /// Answers requests until `end` says so; then what is being answered gets a moment.
    ///
    /// # Errors
    /// If there can be no runtime, or nothing can be accepted any more.
    pub fn run(
        self,
        asking: Asking,
        survey: Survey,
        machine: Arc<Machine>,
        options: Arc<Options>,
        end: watch::Receiver<bool>,
    ) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let limits = options.limits;
        let port = self.address()?.map(|address| address.port());
        let site = Site {
            asking,
            survey,
            machine,
            options,
            session: Arc::new(session::Session::new(port)?),
            streams: Arc::new(AtomicUsize::new(0)),
            room: Arc::new(Semaphore::new(limits.answers_bytes as usize >> 10)),
            ending: end.clone(),
        };
        runtime.block_on(async {
            #[cfg(feature = "otlp")]
            if let Some(otlp) = self.otlp {
                // Ends with the runtime.
                tokio::spawn(crate::push::push(site.clone(), otlp));
            }
            let router = router(site);
            match self.listener {
                Listener::Tcp(listener) => {
                    let listener = tokio::net::TcpListener::from_std(listener)?;
                    connection::accept(listener, router, limits, end).await
                }
                Listener::Unix(listener, _name) => {
                    let listener = tokio::net::UnixListener::from_std(listener)?;
                    connection::accept(listener, router, limits, end).await
                }
            }
        })
    }
}

fn router(site: Site) -> Router {
    Router::new()
        .route("/", get(page::page))
        .route("/login", get(login::page).post(login::enter))
        .route("/assets/{name}", get(assets::asset))
        .route("/favicon.ico", get(assets::icon))
        .route("/flame.svg", get(flame::flame))
        .route("/metrics", get(scrape))
        .route("/healthz", get(healthy))
        .route("/api/v1/openapi.json", get(api::openapi))
        .route("/api/v1/machine", get(api::machine))
        .route("/api/v1/stretch", get(api::interval))
        .route("/api/v1/totals", get(api::totals))
        .route("/api/v1/history", get(api::history))
        .route("/api/v1/processes", get(api::processes))
        .route("/api/v1/files", get(api::files))
        .route("/api/v1/cgroups", get(api::cgroups))
        .route("/api/v1/devices", get(api::devices))
        .route("/api/v1/evictions", get(api::evictions))
        .route("/api/v1/findings", get(api::findings))
        .route("/api/v1/cache", get(api::cache))
        .route("/api/v1/subject", get(subject::subject))
        .route("/api/v1/tables", get(subject::tables))
        .route("/api/v1/events", get(live::events))
        .fallback(api::unknown)
        .method_not_allowed_fallback(api::other_method)
        .layer(from_fn_with_state(site.clone(), guard::guard))
        .with_state(site)
}

async fn scrape(State(site): State<Site>, headers: HeaderMap) -> Response {
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok());
    let format = Format::from_accept(accept);
    match metrics::scrape(&site.asking, &site.survey, format).await {
        Ok(text) => ([(header::CONTENT_TYPE, format.content_type())], text).into_response(),
        Err(error) => answer::problem(StatusCode::SERVICE_UNAVAILABLE, error),
    }
}

/// Whether numbers can be had: what supervisors ask.
async fn healthy(State(site): State<Site>) -> Response {
    let failed = site.asking.ask(|gathered, _| gathered.failed.clone()).await;
    match failed {
        Ok(None) => "ok\n".into_response(),
        Ok(Some(_)) | Err(_) => {
            // The reason is for authorized clients: the log and /api/v1 have it.
            (StatusCode::SERVICE_UNAVAILABLE, "no numbers can be had\n").into_response()
        }
    }
}
