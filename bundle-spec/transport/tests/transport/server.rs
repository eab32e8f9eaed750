//! An HTTP server whose every answer a test decides, down to where the connection breaks.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A request as far as tests look at it. Header names are lower-case.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    /// What was sent with it.
    pub body: String,
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

/// How much of the body is sent, and what then.
#[derive(Clone, Copy, Debug)]
pub enum How {
    Whole,
    /// Closed in order after so many bytes.
    Cut(usize),
    /// Reset after so many bytes.
    Reset(usize),
    /// Nothing more after so many bytes, the connection stays.
    Stall(usize),
    /// So many bytes at a time, with this pause between.
    Slowly(usize, Duration),
}

#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub how: How,
    /// Whether the length of the body is said beforehand.
    pub length: bool,
}

impl Reply {
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), body: body.into(), how: How::Whole, length: true }
    }

    /// Ends where the connection does.
    pub fn without_length(self) -> Self {
        Self { length: false, ..self }
    }

    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    pub fn how(mut self, how: How) -> Self {
        self.how = how;
        self
    }
}

/// What a well-behaved file server answers: ranges, entity tags.
pub fn file(request: &Request, body: &[u8], etag: &str) -> Reply {
    let holds = request.header("if-range").is_none_or(|tag| tag == etag);
    let reply = match request.offset().filter(|_| holds) {
        Some(offset) if offset >= body.len() => {
            Reply::new(416, "").header("content-range", format!("bytes */{}", body.len()))
        }
        Some(offset) => Reply::new(206, &body[offset..])
            .header("content-range", format!("bytes {offset}-{}/{}", body.len() - 1, body.len())),
        None => Reply::new(200, body),
    };
    reply.header("etag", etag).header("accept-ranges", "bytes").header("content-type", "application/octet-stream")
}

/// A running server; ends with the test's runtime.
#[derive(Clone)]
pub struct Server {
    address: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    pub async fn start(handler: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (handler, seen) = (Arc::new(handler), Arc::clone(&requests));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (handler, seen) = (Arc::clone(&handler), Arc::clone(&seen));
                // A client that goes away in the middle is what many tests are about.
                tokio::spawn(async move {
                    let _ = answer(stream, &*handler, &seen).await;
                });
            }
        });
        Self { address, requests }
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
}

async fn answer(
    mut stream: TcpStream,
    handler: &(dyn Fn(&Request) -> Reply + Send + Sync),
    seen: &Mutex<Vec<Request>>,
) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
        // TLS, which whoever does not know better tries first: servers of plain HTTP answer it at once.
        if head == [0x16] {
            stream.write_all(b"HTTP/1.1 400 x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").await?;
            stream.shutdown().await?;
            // What it sent is taken, or it would see a reset in place of the answer.
            return tokio::io::copy(&mut stream, &mut tokio::io::sink()).await.map(drop);
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let mut lines = head.lines();
    let mut first = lines.next().unwrap_or_default().split(' ');
    let (method, path) = (first.next().unwrap_or_default().to_owned(), first.next().unwrap_or_default().to_owned());
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().to_owned()))
        .collect::<Vec<(String, String)>>();
    let length = headers.iter().find(|(name, _)| name == "content-length").and_then(|(_, value)| value.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).await?;
    let request = {
        let mut seen = seen.lock().unwrap();
        let body = String::from_utf8_lossy(&body).into_owned();
        let request = Request { method, path, headers, body, number: seen.len() };
        seen.push(request.clone());
        request
    };
    let reply = handler(&request);
    let mut text = format!("HTTP/1.1 {} x\r\nconnection: close\r\n", reply.status);
    if reply.length {
        text.push_str(&format!("content-length: {}\r\n", reply.body.len()));
    }
    for (name, value) in &reply.headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(format!("{text}\r\n").as_bytes()).await?;
    if request.method == "HEAD" {
        return stream.shutdown().await;
    }
    match reply.how {
        How::Whole => stream.write_all(&reply.body).await?,
        How::Cut(length) => stream.write_all(&reply.body[..length.min(reply.body.len())]).await?,
        How::Stall(length) => {
            stream.write_all(&reply.body[..length.min(reply.body.len())]).await?;
            // Until the client gives up.
            let _ = stream.read_u8().await;
        }
        How::Reset(length) => {
            stream.write_all(&reply.body[..length.min(reply.body.len())]).await?;
            stream.flush().await?;
            stream.set_zero_linger()?;
            return Ok(());
        }
        How::Slowly(chunk, pause) => {
            for part in reply.body.chunks(chunk) {
                stream.write_all(part).await?;
                tokio::time::sleep(pause).await;
            }
        }
    }
    stream.shutdown().await
}
