//! Connections of clients: how many there may be, how long one may say nothing, and how fast it must take what it asked for.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use hyper::Request;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use crate::paced::{Pace, Paced};
use crate::seats::{Seat, Seats, Working};

/// A client that says nothing is let go after this long, be it before the handshake, within a request or between two.
const PATIENCE: Duration = Duration::from_secs(20);

/// Connections at the same time. Each needs two open files (itself and the blob it reads), and a unit has 1024.
const MOST: usize = 400;
/// Connections at the same time from one address: what a node's runtime and agent open together, with room. Pods have their node's
/// address, most often: one that waits for its client ends for the next client.
const MOST_OF_ONE: usize = 32;
/// How long the next client waits for a connection that was asked to end.
const TURN: Duration = Duration::from_millis(200);
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
    seats: Seats,
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
        Self { limits, server, all: Arc::new(Semaphore::new(limits.most)), seats: Seats::default() }
    }

    /// The next client; none if it was not let in. One bad client is never an end.
    pub async fn next(&self, listener: &TcpListener) -> Option<Connection> {
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
        let Some(seat) = self.seats.take(from, self.limits.most_of_one) else {
            tracing::warn!(client = %from, most = self.limits.most_of_one, "too many connections from one address");
            return None;
        };
        let permit = self.permit(&seat).await?;
        Some(Connection { stream, limits: self.limits, server: self.server.clone(), seat, permit })
    }

    /// When all answer requests, this client waits, and the next ones do in the system's queue.
    async fn permit(&self, seat: &Seat) -> Option<OwnedSemaphorePermit> {
        loop {
            if let Ok(permit) = Arc::clone(&self.all).try_acquire_owned() {
                return Some(permit);
            }
            self.seats.end_one_for(seat);
            if let Ok(permit) = tokio::time::timeout(TURN, Arc::clone(&self.all).acquire_owned()).await {
                return permit.ok();
            }
        }
    }
}

impl Connection {
    /// Whose it is.
    pub fn client(&self) -> IpAddr {
        self.seat.of()
    }

    /// Answers its requests until it ends, each by what `router` gives when it comes: a runtime keeps its connections, and pulls over
    /// them what a reload has just brought.
    pub async fn answer(self, tls: TlsAcceptor, router: impl Fn(&mut Request<Incoming>) -> Router) {
        let Self { stream, limits, server, seat, permit } = self;
        let _held = permit;
        let _ = stream.set_nodelay(true);
        let unread = u32::try_from(UNREAD.as_millis()).unwrap_or(u32::MAX);
        let _ = rustix::net::sockopt::set_tcp_user_timeout(&stream, unread);
        let served = async {
            let shaken = tls.accept(Paced::new(stream, limits.pace));
            let Ok(Ok(stream)) = tokio::time::timeout(limits.patience, shaken).await else { return };
            let service = service_fn(|mut request| {
                let working = seat.works();
                let answered = router(&mut request).oneshot(request);
                async {
                    let answer = answered.await?;
                    if answer.status().is_success() {
                        working.gives();
                    }
                    Ok::<_, std::convert::Infallible>(answer.map(|body| Answer { body, _working: working }))
                }
            });
            if let Err(error) = server.serve_connection(TokioIo::new(stream), service).await {
                tracing::debug!(%error, "connection ended");
            }
        };
        tokio::select! {
            () = served => {}
            () = seat.ended() => tracing::debug!(client = %seat.of(), "a connection that waited ended for another"),
        }
    }
}

/// What is sent to a client: until its end its connection works.
struct Answer {
    body: Body,
    _working: Working,
}

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
