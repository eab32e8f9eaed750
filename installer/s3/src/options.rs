//! Where a server is and how it is asked, as values.

use std::time::Duration;

use reqwest::Url;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use crate::credentials::S3Credentials;
use crate::encode::encode;
use crate::error::S3Error;

/// Where a bucket's name stands in an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Addressing {
    /// In the path, as servers of one's own have it.
    #[default]
    Path,
    /// In the host's name, as Amazon wants it.
    VirtualHost,
}

/// A server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    url: Url,
    addressing: Addressing,
}

impl Endpoint {
    /// One that is named by its address.
    ///
    /// # Errors
    /// It is none, or has something that no endpoint has; http without permission.
    pub fn parse(text: &str, addressing: Addressing, plain_http: bool) -> Result<Self, S3Error> {
        let wrong = |problem: &str| S3Error::Setting { what: "the endpoint".to_owned(), problem: problem.to_owned() };
        let url: Url = text.parse().map_err(|_| wrong("is no address; wanted is https://HOST[:PORT]"))?;
        if !["http", "https"].contains(&url.scheme()) || url.host_str().is_none() {
            return Err(wrong("is no address of a web server; wanted is https://HOST[:PORT]"));
        }
        let bare = url.username().is_empty() && url.password().is_none() && url.path() == "/";
        if !bare || url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("has more than a host and a port (a login, a path or a query); leave it out"));
        }
        if url.scheme() == "http" && !plain_http {
            return Err(wrong(
                "is http, so that whoever is on the way reads and keeps each request and, with it, a session's token; name https, or allow it with \
                 --s3-plain-http",
            ));
        }
        Ok(Self { url, addressing })
    }

    /// Amazon's own of a region. A bucket with dots stands in the path, since no certificate has such a name.
    ///
    /// # Errors
    /// The region is none.
    pub fn amazon(region: &str, bucket: &str) -> Result<Self, S3Error> {
        check_region(region)?;
        let end = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
        let addressing = if bucket.contains('.') { Addressing::Path } else { Addressing::VirtualHost };
        Self::parse(&format!("https://s3.{region}.{end}"), addressing, false)
    }

    /// `https://HOST[:PORT]`, for people.
    pub fn shown(&self) -> &str {
        self.url.as_str().trim_end_matches('/')
    }

    /// The address of a bucket or of an object in it, and its path and query as they are signed.
    pub(crate) fn address(&self, bucket: &str, key: Option<&str>, query: &[(String, String)]) -> Result<Url, S3Error> {
        let mut url = self.url.clone();
        let key = key.map(|key| encode(key, true)).unwrap_or_default();
        let path = match self.addressing {
            Addressing::Path => format!("/{bucket}/{key}"),
            Addressing::VirtualHost => {
                let host = format!("{bucket}.{}", url.host_str().unwrap_or_default());
                url.set_host(Some(&host)).map_err(|_| S3Error::Setting {
                    what: "the endpoint".to_owned(),
                    problem: "has no name that a bucket's can stand before; use path addressing".to_owned(),
                })?;
                format!("/{key}")
            }
        };
        url.set_path(&path);
        if !query.is_empty() {
            let query = query.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&");
            url.set_query(Some(&query));
        }
        Ok(url)
    }
}

/// Refuses what cannot stand in a signature.
fn check_region(region: &str) -> Result<(), S3Error> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    match !region.is_empty() && region.len() <= 64 && region.chars().all(plain) {
        true => Ok(()),
        false => Err(S3Error::Setting {
            what: "the region".to_owned(),
            problem: "is none; wanted is something like us-east-1".to_owned(),
        }),
    }
}

/// How often and how patiently a server is asked.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// How often a request is tried in all, unless bytes come.
    pub tries: u32,
    /// The pause before the second try; it doubles.
    pub first_pause: Duration,
    /// The longest pause.
    pub longest_pause: Duration,
    /// How long nothing may come.
    pub silence: Duration,
    /// How long one request may take that sends a part or gets a short answer.
    pub request: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            tries: 6,
            first_pause: Duration::from_millis(500),
            longest_pause: Duration::from_secs(20),
            silence: Duration::from_secs(60),
            // A part at 28 KB/s.
            request: Duration::from_secs(300),
        }
    }
}

/// What a client needs.
#[derive(Clone, Debug)]
pub struct S3Options {
    /// The server.
    pub endpoint: Endpoint,
    /// Part of every signature.
    pub region: String,
    /// The keys.
    pub credentials: S3Credentials,
    /// Who signs the server's certificate, instead of the usual roots; with the name of its file.
    pub authorities: Option<(String, Vec<CertificateDer<'static>>)>,
    /// Program and version.
    pub user_agent: String,
    /// How often and how patiently it is asked.
    pub patience: Patience,
}

impl S3Options {
    /// For a server, as is usual.
    ///
    /// # Errors
    /// The region is none.
    pub fn new(endpoint: Endpoint, region: &str, credentials: S3Credentials) -> Result<Self, S3Error> {
        check_region(region)?;
        let (region, user_agent) = (region.to_owned(), "kubexm".to_owned());
        Ok(Self { endpoint, region, credentials, authorities: None, user_agent, patience: Patience::default() })
    }

    /// With the certificates of a file (PEM) as the only authorities.
    ///
    /// # Errors
    /// It has none.
    pub fn with_authorities(self, file: &str, pem: &[u8]) -> Result<Self, S3Error> {
        let wrong = |problem: String| S3Error::Setting { what: format!("the CA file {file}"), problem };
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let found = found.map_err(|error| wrong(format!("is not PEM: {error}")))?;
        if found.is_empty() {
            return Err(wrong("has no certificate (wanted is PEM, `-----BEGIN CERTIFICATE-----`)".to_owned()));
        }
        Ok(Self { authorities: Some((file.to_owned(), found)), ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_stands_in_the_path_of_ones_own_server_and_in_the_name_of_amazons() {
        let own = Endpoint::parse("https://[::1]:9000", Addressing::Path, false).unwrap();
        let query = [("prefix".to_owned(), "a%2Fb".to_owned())];
        let url = own.address("bucket", None, &query).unwrap();
        assert_eq!(url.as_str(), "https://[::1]:9000/bucket/?prefix=a%2Fb");
        assert_eq!(own.address("bucket", Some("a b/c"), &[]).unwrap().path(), "/bucket/a%20b/c");
        let amazon = Endpoint::amazon("eu-central-1", "bucket").unwrap();
        let url = amazon.address("bucket", Some("a/b"), &[]).unwrap();
        assert_eq!(url.as_str(), "https://bucket.s3.eu-central-1.amazonaws.com/a/b");
        let dotted = Endpoint::amazon("cn-north-1", "a.bucket").unwrap();
        let url = dotted.address("a.bucket", Some("b"), &[]).unwrap();
        assert_eq!(url.as_str(), "https://s3.cn-north-1.amazonaws.com.cn/a.bucket/b");
    }

    #[test]
    fn an_endpoint_is_a_host_and_no_secret_of_a_wrong_one_is_shown() {
        for wrong in [
            "minio:9000",
            "ftp://minio",
            "https://key:hunter2@minio",
            "https://minio/hunter2",
            "https://minio?a=hunter2",
            "http://minio",
        ] {
            let error = Endpoint::parse(wrong, Addressing::Path, false).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
        let plain = Endpoint::parse("http://minio:9000", Addressing::Path, true).unwrap();
        assert_eq!(plain.shown(), "http://minio:9000");
        assert!(Endpoint::amazon("eu/west", "bucket").is_err());
    }
}
