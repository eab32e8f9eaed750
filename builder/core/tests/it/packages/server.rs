//! Files on loopback that a test may change at any time, with entity tags, and a list of what was asked for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use kubexm_spec::Digest;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

type Files = Arc<Mutex<HashMap<String, Vec<u8>>>>;

#[derive(Clone)]
pub struct Server {
    port: u16,
    files: Files,
    /// Status and path of each answer.
    answers: Arc<Mutex<Vec<(u16, String)>>>,
}

impl Server {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server =
            Self { port: listener.local_addr().unwrap().port(), files: Files::default(), answers: Arc::default() };
        let serving = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let serving = serving.clone();
                // A client may go away.
                tokio::spawn(async move { serving.answer(stream).await.ok() });
            }
        });
        server
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Puts files in, by path without a slash at its beginning.
    pub fn put(&self, files: impl IntoIterator<Item = (String, Vec<u8>)>) {
        self.files.lock().unwrap().extend(files);
    }

    pub fn remove(&self, wanted: impl Fn(&str) -> bool) {
        self.files.lock().unwrap().retain(|path, _| !wanted(path));
    }

    /// What was answered since the last call, in order.
    pub fn answers(&self) -> Vec<(u16, String)> {
        std::mem::take(&mut *self.answers.lock().unwrap())
    }

    async fn answer(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await?);
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        let path = head.split(' ').nth(1).unwrap_or_default().trim_start_matches('/').to_owned();
        let known =
            head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("if-none-match: ").map(str::to_owned));
        let file = self.files.lock().unwrap().get(&path).cloned();
        let (status, body, tag) = match file {
            None => (404, Vec::new(), String::new()),
            Some(body) => {
                let tag = format!("\"{}\"", Digest::of(&body).hex());
                if known.as_ref() == Some(&tag) { (304, Vec::new(), tag) } else { (200, body, tag) }
            }
        };
        self.answers.lock().unwrap().push((status, path));
        let head = format!(
            "HTTP/1.1 {status} x\r\nconnection: close\r\netag: {tag}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(&body).await?;
        stream.shutdown().await
    }
}
