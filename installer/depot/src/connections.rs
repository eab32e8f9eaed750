//! Connections of clients: how many there may be, how long one may say nothing, and how fast it must take what it asked for.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use crate::paced::{Pace, Paced};

/// A client that says nothing is let go after this long, be it before the handshake, within a request or between two.
const PATIENCE: Duration = Duration::from_secs(20);

/// Connections at the same time. Each needs two open files (itself and the blob it reads), and a unit has 1024.
const MOST: usize = 400;
/// Connections at the same time from one address: what a node's runtime and agent open together, with room. One node
/// that opens more cannot keep the others out.
const MOST_OF_ONE: usize = 32;
/// How long a client may leave what was sent to it unread or unacknowledged (RFC 5482).
const UNREAD: Duration = Duration::from_secs(120);
/// The least that a client must take: about 9 kB/s. A send buffer of the system has at most 4 MiB and is refilled by thirds, so
/// that an honest client on a bad line moves at least this much each time.
const PACE: Pace = Pace { bytes: 1 << 20, within: UNREAD };

/// What clients may do.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long one may say nothing.
    pub patience: Duration,
    /// The least that one must take.
    pub pace: Pace,
    /// Connections in all.
    pub most: usize,
    /// Connections from one address.
    pub most_of_one: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { patience: PATIENCE, pace: PACE, most: MOST, most_of_one: MOST_OF_ONE }
    }
}

/// The open connections of a server.
pub struct Connections {
    limits: Limits,
    server: http1::Builder,
    all: Arc<Semaphore>,
    clients: Clients,
}

/// An accepted connection, before its handshake.
pub struct Connection {
    stream: TcpStream,
    limits: Limits,
    server: http1::Builder,
    seat: Seat,
    permit: OwnedSemaphorePermit,
}

impl Connections {
    pub fn new(limits: Limits) -> Self {
        // HTTP/1.1 alone: every client of a registry speaks it, and what has no second protocol has no attacks on it.
        let mut server = http1::Builder::new();
        server.timer(TokioTimer::new()).header_read_timeout(limits.patience);
        Self { limits, server, all: Arc::new(Semaphore::new(limits.most)), clients: Clients::default() }
    }

    /// The next client; none if it was not let in. One bad client is never an end.
    pub async fn next(&self, listener: &TcpListener) -> Option<Connection> {
        // When all are taken the next client waits in the system's queue; silent ones are let go meanwhile.
        let permit = Arc::clone(&self.all).acquire_owned().await.ok()?;
        let (stream, from) = match listener.accept().await {
            Ok((stream, from)) => (stream, from.ip()),
            Err(error) => {
                // Out of file descriptors, most often: wait for some connection to end.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(200)).await;
                return None;
            }
        };
        // Closed at once: the client tries again, and what it has open continues.
        let Some(seat) = self.clients.seat(from, self.limits.most_of_one) else {
            tracing::warn!(client = %from, most = self.limits.most_of_one, "too many connections from one address");
            return None;
        };
        Some(Connection { stream, limits: self.limits, server: self.server.clone(), seat, permit })
    }
}

impl Connection {
    /// Whose it is.
    pub fn client(&self) -> IpAddr {
        self.seat.of
    }

    /// Answers its requests until it ends, each by what `router` gives when it comes: a runtime keeps its connections, and pulls over
    /// them what a reload has just brought.
    pub async fn answer(self, tls: TlsAcceptor, router: impl Fn(&mut Request<Incoming>) -> Router) {
        let Self { stream, limits, server, seat, permit } = self;
        let _held = (permit, seat);
        let _ = stream.set_nodelay(true);
        let unread = u32::try_from(UNREAD.as_millis()).unwrap_or(u32::MAX);
        let _ = rustix::net::sockopt::set_tcp_user_timeout(&stream, unread);
        let shaken = tls.accept(Paced::new(stream, limits.pace));
        let Ok(Ok(stream)) = tokio::time::timeout(limits.patience, shaken).await else { return };
        let service = service_fn(|mut request| router(&mut request).oneshot(request));
        if let Err(error) = server.serve_connection(TokioIo::new(stream), service).await {
            tracing::debug!(%error, "connection ended");
        }
    }
}

/// Connections by address.
#[derive(Clone, Default)]
struct Clients(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// One connection of an address; given back when dropped.
struct Seat {
    clients: Clients,
    of: IpAddr,
}

impl Clients {
    fn seat(&self, of: IpAddr, most: usize) -> Option<Seat> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(of).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Seat { clients: self.clone(), of })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut counts = self.clients.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.of) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.of);
            }
        }
    }
}
