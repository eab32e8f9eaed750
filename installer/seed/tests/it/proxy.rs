//! A proxy in front of a real registry that fails as a test says, and counts what passes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// One request as it came in.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: String,
    /// Path and query.
    pub target: String,
    pub headers: HashMap<String, String>,
    /// Bytes of the body that went on to the registry.
    pub body: usize,
}

/// What happens to a request.
pub enum Fault {
    None,
    /// This is answered in the registry's place.
    Answer(u16, Vec<(&'static str, String)>, String),
    /// So many bytes of the body reach the registry, then both connections break.
    CutAfter(usize),
    /// The registry's answer with this host in its `Location`.
    LocationAt(String),
    /// The registry's answer, so much later.
    Late(Duration),
}

/// An error as registries write it.
pub fn error(status: u16, code: &str, message: &str) -> Fault {
    let body = serde_json::json!({"errors": [{"code": code, "message": message}]}).to_string();
    Fault::Answer(status, vec![("content-type", "application/json".to_owned())], body)
}

type Choose = dyn Fn(&Seen, usize) -> Fault + Send + Sync;

#[derive(Clone)]
pub struct Proxy {
    pub address: String,
    pub seen: Arc<Mutex<Vec<Seen>>>,
}

impl Proxy {
    /// `choose` gets each request with its number among those of its method.
    pub async fn before(upstream: &str, choose: impl Fn(&Seen, usize) -> Fault + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (choose, kept, upstream): (Arc<Choose>, _, _) = (Arc::new(choose), Arc::clone(&seen), upstream.to_owned());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (choose, seen, upstream) = (Arc::clone(&choose), Arc::clone(&kept), upstream.clone());
                tokio::spawn(async move {
                    // A client that goes away is what many tests are about.
                    let _ = serve(stream, &upstream, &*choose, &seen).await;
                });
            }
        });
        Self { address, seen }
    }

    /// Requests of a method whose target has this in it.
    pub fn count(&self, method: &str, part: &str) -> usize {
        self.seen.lock().unwrap().iter().filter(|seen| seen.method == method && seen.target.contains(part)).count()
    }

    /// All requests.
    pub fn requests(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    /// Bytes of blobs that went on to the registry.
    pub fn uploaded(&self) -> usize {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|seen| seen.target.contains("/blobs/uploads/")).map(|seen| seen.body).sum()
    }

    pub fn forget(&self) {
        self.seen.lock().unwrap().clear();
    }
}

async fn serve(mut stream: TcpStream, upstream: &str, choose: &Choose, all: &Mutex<Vec<Seen>>) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let text = String::from_utf8_lossy(&head).into_owned();
    let mut first = text.lines().next().unwrap_or_default().split(' ');
    let (method, target) = (first.next().unwrap_or_default(), first.next().unwrap_or_default());
    let headers: HashMap<String, String> = text
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length: usize = headers.get("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut seen = Seen { method: method.to_owned(), target: target.to_owned(), headers, body: 0 };
    let number = all.lock().unwrap().iter().filter(|other| other.method == seen.method).count();
    let fault = choose(&seen, number);
    let at = {
        let mut all = all.lock().unwrap();
        all.push(seen.clone());
        all.len() - 1
    };
    let passes = match &fault {
        Fault::CutAfter(bytes) => length.min(*bytes),
        _ => length,
    };
    if let Fault::Answer(status, headers, body) = &fault {
        let mut sink = vec![0; length];
        stream.read_exact(&mut sink).await?;
        let mut answer = format!("HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in headers {
            answer.push_str(&format!("{name}: {value}\r\n"));
        }
        let body = if seen.method == "HEAD" { "" } else { body };
        return stream.write_all(format!("{answer}\r\n{body}").as_bytes()).await;
    }
    let mut to = TcpStream::connect(upstream).await?;
    let without: String = text
        .trim_end()
        .lines()
        .filter(|line| !line.to_ascii_lowercase().starts_with("connection:"))
        .map(|l| format!("{l}\r\n"))
        .collect();
    to.write_all(format!("{without}connection: close\r\n\r\n").as_bytes()).await?;
    let mut left = passes;
    let mut piece = vec![0; 64 << 10];
    while left > 0 {
        let most = left.min(piece.len());
        let read = stream.read(&mut piece[..most]).await?;
        if read == 0 {
            return Ok(());
        }
        to.write_all(&piece[..read]).await?;
        left -= read;
        if let Some(one) = all.lock().unwrap().get_mut(at) {
            one.body += read;
        }
    }
    seen.body = passes;
    if matches!(fault, Fault::CutAfter(_)) {
        return Ok(());
    }
    let mut answer = Vec::new();
    to.read_to_end(&mut answer).await?;
    if let Fault::Late(by) = &fault {
        tokio::time::sleep(*by).await;
    }
    if let Fault::LocationAt(host) = &fault {
        let text = String::from_utf8_lossy(&answer).into_owned();
        let here = seen.headers.get("host").cloned().unwrap_or_default();
        answer = text.replace(&format!("http://{here}/"), &format!("http://{host}/")).into_bytes();
    }
    stream.write_all(&answer).await
}
