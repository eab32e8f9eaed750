//! A registry that takes pushes and fails as a test says: where a connection breaks, what is forgotten, who may come in.
//! Beside the real ones (`builder/cli/tests/bundle/push.rs`), which cannot be determined when to break.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use kubexm_spec::Digest;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// One request as it came in.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: String,
    /// Path and query.
    pub target: String,
    pub headers: HashMap<String, String>,
    /// Bytes of the body that were read.
    pub body: usize,
}

/// What a test wants to happen to a request.
pub enum Fault {
    None,
    /// So many bytes of the body are taken, then the connection breaks.
    BreakAfter(usize),
    /// The body is taken, and this is answered instead.
    Answer(u16, Vec<(String, String)>),
    /// The connection stays, and nothing is answered nor read.
    Silence,
    /// All uploads are forgotten, and the connection breaks.
    Forget,
    /// The request is carried out, and its answer gets lost.
    LoseAnswer,
}

#[derive(Default)]
pub struct State {
    pub blobs: HashMap<String, Vec<u8>>,
    pub uploads: HashMap<String, Vec<u8>>,
    pub manifests: HashMap<String, Vec<u8>>,
    pub seen: Vec<Seen>,
    /// Added to every answer.
    pub headers: Vec<(String, String)>,
    opened: usize,
}

impl State {
    pub fn count(&self, method: &str, part: &str) -> usize {
        self.seen.iter().filter(|seen| seen.method == method && seen.target.contains(part)).count()
    }

    /// Bytes of bodies that were read with a method.
    pub fn taken(&self, method: &str) -> usize {
        self.seen.iter().filter(|seen| seen.method == method).map(|seen| seen.body).sum()
    }
}

type Choose = dyn Fn(&Seen, usize) -> Fault + Send + Sync;

#[derive(Clone)]
pub struct FakeRegistry {
    pub address: String,
    pub state: Arc<Mutex<State>>,
}

impl FakeRegistry {
    /// `choose` gets each request with its number among those of its method.
    pub async fn start(choose: impl Fn(&Seen, usize) -> Fault + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let state = Arc::new(Mutex::new(State::default()));
        let (choose, kept): (Arc<Choose>, _) = (Arc::new(choose), Arc::clone(&state));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (choose, state) = (Arc::clone(&choose), Arc::clone(&kept));
                tokio::spawn(async move {
                    // A client that goes away is what many tests are about.
                    let _ = serve(stream, &*choose, &state).await;
                });
            }
        });
        Self { address, state }
    }
}

async fn serve(mut stream: TcpStream, choose: &Choose, state: &Mutex<State>) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let mut first = head.lines().next().unwrap_or_default().split(' ');
    let (method, target) = (first.next().unwrap_or_default(), first.next().unwrap_or_default());
    let headers: HashMap<String, String> = head
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length: usize = headers.get("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut seen = Seen { method: method.to_owned(), target: target.to_owned(), headers, body: 0 };
    let number = state.lock().unwrap().seen.iter().filter(|other| other.method == seen.method).count();
    let fault = choose(&seen, number);
    let wanted = match fault {
        Fault::BreakAfter(bytes) => bytes.min(length),
        Fault::Silence => 0,
        _ => length,
    };
    let mut body = vec![0; wanted];
    stream.read_exact(&mut body).await?;
    seen.body = wanted;
    let answer = {
        let mut state = state.lock().unwrap();
        state.seen.push(seen.clone());
        match &fault {
            Fault::Forget => {
                state.uploads.clear();
                None
            }
            // What came before the break is there, as at a registry that writes what it gets.
            Fault::BreakAfter(_) => {
                if let Some(upload) = state.uploads.get_mut(upload_of(target)) {
                    upload.extend_from_slice(&body);
                }
                None
            }
            Fault::Answer(status, headers) => Some((*status, headers.clone(), Vec::new())),
            Fault::Silence => None,
            Fault::LoseAnswer => {
                answer(&mut state, &seen, body);
                None
            }
            Fault::None => Some(answer(&mut state, &seen, body)),
        }
    };
    if let Fault::Silence = fault {
        // Until the client gives up.
        while stream.read_u8().await.is_ok() {}
    }
    let Some((status, mut headers, body)) = answer else {
        stream.set_zero_linger()?;
        return Ok(());
    };
    headers.extend(state.lock().unwrap().headers.clone());
    let mut text = format!("HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(format!("{text}\r\n").as_bytes()).await?;
    if method != "HEAD" {
        stream.write_all(&body).await?;
    }
    stream.shutdown().await
}

/// The id in `/v2/<name>/blobs/uploads/<id>?…`.
fn upload_of(target: &str) -> &str {
    target.split('?').next().unwrap_or_default().rsplit('/').next().unwrap_or_default()
}

type Answer = (u16, Vec<(String, String)>, Vec<u8>);

fn answer(state: &mut State, seen: &Seen, body: Vec<u8>) -> Answer {
    let header = |name: &str, value: String| vec![(name.to_owned(), value)];
    let path = seen.target.split('?').next().unwrap_or_default();
    let digest = seen.target.split(['?', '&']).find_map(|pair| pair.strip_prefix("digest="));
    let digest = digest.map(|text| text.replace("%3A", ":"));
    let last = path.rsplit('/').next().unwrap_or_default().to_owned();
    let of_upload = |state: &State, id: &str| {
        let end = state.uploads.get(id).map_or(0, Vec::len).saturating_sub(1);
        let mut headers = header("range", format!("0-{end}"));
        // Relative, with a query that has to be sent back.
        headers.push(("location".to_owned(), format!("/v2/a/blobs/uploads/{id}?state={end}")));
        headers
    };
    match (seen.method.as_str(), path) {
        (_, "/v2/") => (200, Vec::new(), Vec::new()),
        ("HEAD", _) if path.contains("/blobs/") => {
            (if state.blobs.contains_key(&last) { 200 } else { 404 }, Vec::new(), Vec::new())
        }
        ("POST", _) => {
            state.opened += 1;
            let id = format!("u{}", state.opened);
            state.uploads.insert(id.clone(), Vec::new());
            (202, of_upload(state, &id), Vec::new())
        }
        ("GET", _) if path.contains("/uploads/") => match state.uploads.contains_key(&last) {
            true => (204, of_upload(state, &last), Vec::new()),
            false => (404, Vec::new(), Vec::new()),
        },
        ("DELETE", _) => {
            state.uploads.remove(&last);
            (204, Vec::new(), Vec::new())
        }
        ("PATCH", _) => {
            let Some(upload) = state.uploads.get_mut(&last) else { return (404, Vec::new(), Vec::new()) };
            let from = seen.headers.get("content-range").and_then(|text| text.split('-').next()?.parse().ok());
            if from != Some(upload.len()) {
                return (416, of_upload(state, &last), Vec::new());
            }
            upload.extend(body);
            (202, of_upload(state, &last), Vec::new())
        }
        ("PUT", _) if path.contains("/uploads/") => {
            let Some(mut upload) = state.uploads.remove(&last) else { return (404, Vec::new(), Vec::new()) };
            upload.extend(body);
            let found = Digest::of(&upload).to_string();
            if digest.as_deref() != Some(&found) {
                let error = r#"{"errors":[{"code":"DIGEST_INVALID","message":"provided digest did not match"}]}"#;
                return (400, Vec::new(), error.into());
            }
            state.blobs.insert(found, upload);
            (201, header("location", "/v2/a/blobs/x".to_owned()), Vec::new())
        }
        ("PUT", _) => {
            let digest = Digest::of(&body).to_string();
            state.manifests.insert(last, body);
            (201, header("docker-content-digest", digest), Vec::new())
        }
        ("GET", _) if path.contains("/manifests/") || path.contains("/referrers/") => {
            match state.manifests.get(&last) {
                Some(bytes) => (200, Vec::new(), bytes.clone()),
                None => (404, Vec::new(), Vec::new()),
            }
        }
        _ => (404, Vec::new(), Vec::new()),
    }
}
