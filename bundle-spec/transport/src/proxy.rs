//! The proxy that a request goes through: the environment names it, `reqwest` uses it, and what it refuses is not the
//! origin's doing.

use std::time::Duration;

use hyper_util::client::proxy::matcher::Matcher;
use reqwest::header::HeaderValue;
use reqwest::{StatusCode, Url};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::address::host_of;

/// Variables in the order in which `reqwest` looks at them; the first that is set counts, empty or not.
const HTTP: [&str; 2] = ["HTTP_PROXY", "http_proxy"];
const HTTPS: [&str; 2] = ["HTTPS_PROXY", "https_proxy"];
const ALL: [&str; 2] = ["ALL_PROXY", "all_proxy"];
/// The most of an answer to CONNECT that is looked at, in bytes: its first line is all that is wanted.
const ANSWER: usize = 512;

/// The environment's proxies, as `reqwest` reads them.
#[derive(Debug)]
pub(crate) struct Proxies(Option<Matcher>);

/// The one that a request goes through.
#[derive(Clone)]
pub(crate) struct Proxy {
    scheme: String,
    host: String,
    port: u16,
    login: Option<HeaderValue>,
    /// Which variable names it; none where that cannot be determined.
    variable: Option<&'static str>,
}

impl Proxies {
    /// Of the environment as it is now, which is when `reqwest` reads it too; none where they are not to be used.
    pub fn of_environment(used: bool) -> Self {
        Self(used.then(Matcher::from_env))
    }

    /// The proxy of an address.
    pub fn of(&self, url: &Url) -> Option<Proxy> {
        let found = self.0.as_ref()?.intercept(&url.as_str().parse().ok()?)?;
        let uri = found.uri();
        let scheme = uri.scheme_str().unwrap_or("http").to_owned();
        let usual = match scheme.as_str() {
            "http" => 80,
            "https" => 443,
            _ => 1080,
        };
        let own = if url.scheme() == "http" { HTTP } else { HTTPS };
        let names = |text: &str| uri.host().is_some_and(|host| text.contains(host));
        let is_set = |name: &&&str| std::env::var(name).is_ok_and(|text| names(&text));
        let variable = own.iter().chain(&ALL).find(is_set).copied();
        let (host, port) = (uri.host()?.to_owned(), uri.port_u16().unwrap_or(usual));
        Some(Proxy { scheme, host, port, login: found.basic_auth().cloned(), variable })
    }
}

impl Proxy {
    /// Asks once more for the way to an origin, to learn with which status it is refused: `reqwest` tells only that it
    /// is. None where the proxy lets us through now, or cannot be asked like this.
    pub async fn refusal(&self, url: &Url, patience: Duration) -> Option<StatusCode> {
        if self.scheme != "http" {
            return None;
        }
        tokio::time::timeout(patience, self.ask(url)).await.ok()?.filter(|status| !status.is_success())
    }

    async fn ask(&self, url: &Url) -> Option<StatusCode> {
        let to = host_of(url);
        let mut request = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n").into_bytes();
        if let Some(login) = &self.login {
            request.extend_from_slice(b"Proxy-Authorization: ");
            request.extend_from_slice(login.as_bytes());
            request.extend_from_slice(b"\r\n");
        }
        request.extend_from_slice(b"\r\n");
        let host = self.host.trim_matches(['[', ']']);
        let mut stream = TcpStream::connect((host, self.port)).await.ok()?;
        stream.write_all(&request).await.ok()?;
        let mut answer = Vec::with_capacity(ANSWER);
        while answer.len() < ANSWER && !answer.contains(&b'\n') {
            stream.read_buf(&mut answer).await.ok().filter(|read| *read > 0)?;
        }
        let text = String::from_utf8_lossy(&answer);
        let mut words = text.lines().next()?.split(' ');
        words.next().filter(|version| version.starts_with("HTTP/"))?;
        words.next()?.parse().ok()
    }
}

impl std::fmt::Display for Proxy {
    /// Its address without a login, and the variable that names it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}:{}", self.scheme, self.host, self.port)?;
        self.variable.map_or(Ok(()), |variable| write!(f, " ({variable})"))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    use super::*;

    fn through(proxy: &str) -> Proxies {
        Proxies(Some(Matcher::builder().all(proxy).no("inside.test").build()))
    }

    #[test]
    fn a_proxy_is_named_without_its_login_and_only_where_it_is_used() {
        let proxies = through("http://user:sesame@proxy.test:3128");
        let of = |url: &str| proxies.of(&Url::parse(url).unwrap()).map(|proxy| proxy.to_string());
        assert_eq!(of("https://dl.k8s.io/x").as_deref(), Some("http://proxy.test:3128"));
        assert_eq!(of("https://inside.test/x"), None);
        assert_eq!(of("https://a.inside.test/x"), None);
        assert!(Proxies::of_environment(false).of(&Url::parse("https://dl.k8s.io/").unwrap()).is_none());
        let usual = through("socks5h://proxy.test").of(&Url::parse("https://dl.k8s.io/").unwrap()).unwrap();
        assert_eq!(usual.to_string(), "socks5h://proxy.test:1080");
    }

    #[tokio::test]
    async fn the_status_of_a_refused_connect_is_read_from_its_first_line() {
        for (answer, expected) in [
            ("HTTP/1.1 403 Forbidden\r\nx: y\r\n\r\n", Some(StatusCode::FORBIDDEN)),
            ("HTTP/1.0 502\r\n\r\n", Some(StatusCode::BAD_GATEWAY)),
            ("HTTP/1.1 200 Connection established\r\n\r\n", None),
            ("SSH-2.0-x\r\n", None),
            ("", None),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let proxies = through(&format!("http://user:pass@{}", listener.local_addr().unwrap()));
            let url = Url::parse("https://dl.k8s.io/x").unwrap();
            let proxy = proxies.of(&url).unwrap();
            let serve = async {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut asked = vec![0; 1024];
                let read = stream.read(&mut asked).await.unwrap();
                stream.write_all(answer.as_bytes()).await.unwrap();
                String::from_utf8_lossy(&asked[..read]).into_owned()
            };
            let (found, asked) = tokio::join!(proxy.refusal(&url, Duration::from_secs(5)), serve);
            assert_eq!(found, expected, "{answer}");
            let wanted = "CONNECT dl.k8s.io:443 HTTP/1.1\r\nHost: dl.k8s.io:443\r\nProxy-Authorization: Basic dXNlcjpwYXNz\r\n\r\n";
            assert_eq!(asked, wanted);
        }
    }
}
