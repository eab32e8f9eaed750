//! An HTTP server whose every answer a test decides, down to where the connection breaks.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A request as far as tests look at it.
#[derive(Clone, Debug)]
pub struct Request {
    /// `GET`, `HEAD` …
    pub method: String,
    /// Without the first `/`.
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// How many came before it.
    pub number: usize,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// First byte of the range asked for.
    pub fn offset(&self) -> Option<usize> {
        self.header("range")?.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok()
    }
}

/// How the body is sent.
#[derive(Clone, Copy)]
pub enum How {
    Whole,
    /// Closed after so many bytes.
    Cut(usize),
    /// So many bytes at a time, with this pause between.
    Slowly(usize, Duration),
    /// Nothing more after so many bytes, until the client goes away.
    Stall(usize),
    /// The rest after so many bytes when the flag is no longer set.
    Held(usize, &'static AtomicBool),
}

pub struct Reply {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
    pub how: How,
}

impl Reply {
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), body: body.into(), how: How::Whole }
    }

    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub fn how(self, how: How) -> Self {
        Self { how, ..self }
    }
}

/// What a well-behaved file server answers: ranges, entity tags.
pub fn file(request: &Request, body: &[u8]) -> Reply {
    let reply = match request.offset() {
        Some(offset) if offset >= body.len() => {
            Reply::new(416, "").header("content-range", format!("bytes */{}", body.len()))
        }
        Some(offset) => Reply::new(206, &body[offset..])
            .header("content-range", format!("bytes {offset}-{}/{}", body.len() - 1, body.len())),
        None => Reply::new(200, body),
    };
    reply.header("etag", "\"one\"").header("content-type", "application/octet-stream")
}

/// A running server; its thread ends with the test program.
pub struct Server {
    address: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    pub fn start(handler: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (handler, seen) = (Arc::new(handler), Arc::clone(&requests));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (handler, seen) = (Arc::clone(&handler), Arc::clone(&seen));
                // A client that goes away in the middle is what many tests are about.
                std::thread::spawn(move || answer(stream, &*handler, &seen).ok());
            }
        });
        Self { address, requests }
    }

    /// Serves files by their path, well-behaved.
    pub fn files(files: Vec<(&'static str, Vec<u8>)>) -> Self {
        Self::start(move |request| match files.iter().find(|(name, _)| *name == request.path) {
            Some((_, body)) => file(request, body),
            None => Reply::new(404, "no such file"),
        })
    }

    /// `127.0.0.1:PORT`.
    pub fn address(&self) -> &str {
        &self.address
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }

    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// How often a path was asked for.
    pub fn count(&self, path: &str) -> usize {
        self.requests().iter().filter(|request| request.path == path).count()
    }
}

/// An address where nobody listens.
/// It is held until the program ends: let go, the next server of another test could get it.
pub fn nobody() -> String {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    std::mem::forget(socket);
    address.to_string()
}

fn answer(stream: TcpStream, handler: &dyn Fn(&Request) -> Reply, seen: &Mutex<Vec<Request>>) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    let method = first.split(' ').next().unwrap_or_default().to_owned();
    let path = first.split(' ').nth(1).unwrap_or_default().trim_start_matches('/').to_owned();
    let mut headers = Vec::new();
    for line in lines {
        let line = line?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
    }
    let request = {
        let mut seen = seen.lock().unwrap();
        let request = Request { method, path, headers, number: seen.len() };
        seen.push(request.clone());
        request
    };
    let reply = handler(&request);
    let mut stream = stream;
    let mut head =
        format!("HTTP/1.1 {} x\r\nconnection: close\r\ncontent-length: {}\r\n", reply.status, reply.body.len());
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(format!("{head}\r\n").as_bytes())?;
    if request.method == "HEAD" {
        return Ok(());
    }
    match reply.how {
        How::Whole => stream.write_all(&reply.body),
        How::Cut(length) => stream.write_all(&reply.body[..length.min(reply.body.len())]),
        How::Slowly(chunk, pause) => reply.body.chunks(chunk).try_for_each(|part| {
            stream.write_all(part)?;
            std::thread::sleep(pause);
            Ok(())
        }),
        How::Stall(length) => {
            stream.write_all(&reply.body[..length.min(reply.body.len())])?;
            stream.read_exact(&mut [0])
        }
        How::Held(length, held) => {
            let (first, rest) = reply.body.split_at(length.min(reply.body.len()));
            stream.write_all(first)?;
            while held.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(5));
            }
            stream.write_all(rest)
        }
    }
}
