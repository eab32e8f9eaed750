//! HTTP/1.1, as far as a client of ours speaks it.

use std::io::{self, Read, Write};

/// A request as it came.
pub(super) struct Request {
    pub method: String,
    /// Path and query, as they were sent.
    pub target: String,
    /// Lower-case names.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    /// The next one; none at the end.
    pub fn read(stream: &mut impl Read) -> io::Result<Option<Self>> {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            if stream.read(&mut byte)? == 0 {
                return Ok(None);
            }
            head.push(byte[0]);
            if !head[0].is_ascii_alphabetic() {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        let mut lines = head.split("\r\n");
        let mut first = lines.next().unwrap_or_default().split(' ');
        let (method, target) = (first.next().unwrap_or_default(), first.next().unwrap_or_default());
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let (method, target) = (method.to_owned(), target.to_owned());
        let mut request = Self { method, target, headers, body: Vec::new() };
        let length = request.header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
        request.body = vec![0; length];
        stream.read_exact(&mut request.body)?;
        Ok(Some(request))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// Names and values, still encoded.
    pub fn query(&self) -> Vec<(&str, &str)> {
        let query = self.target.split_once('?').map(|(_, query)| query).unwrap_or_default();
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).collect()
    }
}

/// An answer.
pub(super) struct Response {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

impl Response {
    pub fn new(status: u16, body: Vec<u8>) -> Self {
        Self { status, headers: Vec::new(), body }
    }

    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// What comes before the body.
    pub fn head(&self) -> String {
        let date = httpdate::fmt_http_date(std::time::SystemTime::now());
        let date = match self.headers.iter().any(|(name, _)| *name == "date") {
            true => String::new(),
            false => format!("date: {date}\r\n"),
        };
        let headers: String = self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        format!("HTTP/1.1 {} x\r\n{date}{headers}content-length: {}\r\n\r\n", self.status, self.body.len())
    }

    pub fn write(&self, stream: &mut impl Write) -> io::Result<()> {
        stream.write_all(self.head().as_bytes())?;
        stream.write_all(&self.body)?;
        stream.flush()
    }
}

/// A refusal, as S3 has it.
pub(super) fn refusal(status: u16, code: &str, message: &str) -> Response {
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code><Message>{message}</Message><Resource>/</Resource></Error>"
    );
    Response::new(status, body.into_bytes())
}
