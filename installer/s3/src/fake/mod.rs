//! An S3 server in the process: it keeps objects in memory, computes each signature by itself from what came over the wire, and fails as
//! a test wants.

#![allow(clippy::unwrap_used, reason = "for tests")]

mod check;
mod faults;
mod operations;
mod state;
mod wire;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

pub use faults::{Fault, What};
pub use state::{ACCESS_KEY, BUCKET, REGION, SECRET_KEY, State, Upload};

use wire::Request;

/// A server on 127.0.0.1. It ends when it is dropped.
pub struct S3Server {
    address: SocketAddr,
    scheme: &'static str,
    state: Arc<Mutex<State>>,
    ended: Arc<AtomicBool>,
}

impl S3Server {
    /// Over http.
    pub fn start() -> Self {
        Self::listen(None)
    }

    /// Over https.
    pub fn start_tls(config: Arc<ServerConfig>) -> Self {
        Self::listen(Some(config))
    }

    fn listen(tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let state = Arc::new(Mutex::new(State { page: 1000, ..State::default() }));
        let ended = Arc::new(AtomicBool::new(false));
        let (of_thread, is_ended) = (Arc::clone(&state), Arc::clone(&ended));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if is_ended.load(Ordering::Relaxed) {
                    return;
                }
                let (state, tls) = (Arc::clone(&of_thread), tls.clone());
                std::thread::spawn(move || {
                    let _ = stream.set_read_timeout(Some(Duration::from_secs(30)));
                    match tls {
                        None => serve(stream, &state),
                        Some(config) => {
                            let Ok(connection) = ServerConnection::new(config) else { return };
                            serve(StreamOwned::new(connection, stream), &state);
                        }
                    }
                });
            }
        });
        Self { address, scheme, state, ended }
    }

    /// `http://127.0.0.1:PORT`.
    pub fn endpoint(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// What it has.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The requests whose text has a word.
    pub fn asked(&self, word: &str) -> usize {
        self.state().asked.iter().filter(|line| line.contains(word)).count()
    }

    /// Makes something go wrong.
    pub fn fail(&self, fault: Fault) {
        self.state().faults.push(fault);
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // So that it looks.
        let _ = TcpStream::connect(self.address);
    }
}

/// Answers the requests of a connection.
fn serve<S: Read + Write>(mut stream: S, state: &Mutex<State>) {
    loop {
        let request = match Request::read(&mut stream) {
            Ok(Some(request)) => request,
            Ok(None) => return,
            Err(_) => {
                // As web servers answer what is no HTTP.
                let _ = stream.write_all(b"HTTP/1.0 400 Bad Request\r\n\r\n");
                return;
            }
        };
        let (answer, fault) = {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            state.asked.push(format!("{} {}", request.method, request.target));
            let fault = faults::next(&mut state.faults, &request);
            let answer = match fault.as_ref().and_then(faults::instead) {
                Some(answer) => answer,
                None => match check::check(&request, &state) {
                    Ok(()) => operations::answer(&request, &mut state),
                    Err(refusal) => refusal,
                },
            };
            (answer, fault)
        };
        if !faults::write(&mut stream, &answer, fault.as_ref()) {
            return;
        }
    }
}
