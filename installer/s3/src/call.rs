//! One request, as a value.

use bytes::Bytes;
use reqwest::Method;

/// A request to a bucket.
#[derive(Clone, Debug)]
pub struct Call {
    /// `GET`.
    pub method: Method,
    /// The object's name; none for the bucket itself.
    pub key: Option<String>,
    /// Names and values, not encoded.
    pub query: Vec<(&'static str, String)>,
    /// Lower-case names.
    pub headers: Vec<(&'static str, String)>,
    /// What is sent.
    pub body: Bytes,
    /// What a key must be allowed for it, in the words of policies.
    pub permission: &'static str,
    /// What is done, for people: `read s3://bucket/key`.
    pub what: String,
}

impl Call {
    /// Without query, headers and body.
    pub fn new(method: Method, key: Option<&str>, permission: &'static str, what: String) -> Self {
        let key = key.map(str::to_owned);
        Self { method, key, query: Vec::new(), headers: Vec::new(), body: Bytes::new(), permission, what }
    }

    /// With a parameter.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
        self
    }

    /// With a header.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// With a body.
    #[must_use]
    pub fn body(mut self, body: Bytes) -> Self {
        self.body = body;
        self
    }
}
