//! A file that is wanted: where it may come from, what it must be, and what came.

use std::path::PathBuf;

use kubexm_spec::Digest;
use reqwest::Url;

use crate::address::{host_of, shown};
use crate::clients::Trusts;
use crate::{BasicLogin, Bearer, Identity, TransportError};

/// One address a file may come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileCandidate {
    /// `https://…`, or `http://…` where that is allowed; `file://…` below [`FileCandidate::folder`].
    pub url: String,
    /// Whether plain http is allowed, for the address and for what it redirects to.
    pub plain_http_allowed: bool,
    /// A PEM file of CA certificates to trust for this one besides the usual roots.
    pub ca_file: Option<PathBuf>,
    /// Who we are to a host that asks for it.
    pub identity: Option<Identity>,
    /// A token that is sent with each request, to this host only.
    pub bearer: Option<Bearer>,
    /// A name and a password that are sent with each request, to this host only.
    pub login: Option<BasicLogin>,
    /// The address of the folder that a `file:` address may not leave, without a slash at its end. Where there is none, no file
    /// of this machine is read.
    pub folder: Option<String>,
}

impl FileCandidate {
    /// An address over https with the usual roots.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), ..Self::default() }
    }

    /// Host and port; none of what is no address.
    pub(crate) fn host(&self) -> Option<String> {
        Url::parse(&self.url).ok().map(|url| host_of(&url))
    }

    pub(crate) fn parse(&self) -> Result<(Url, Trusts), TransportError> {
        let wrong =
            |problem: String| TransportError::Setting { what: format!("address {}", shown(&self.url)), problem };
        let url = Url::parse(&self.url).map_err(|e| wrong(format!("is not a URL: {e}")))?;
        match url.scheme() {
            "https" => {}
            "http" if self.plain_http_allowed => {}
            "http" => return Err(wrong("plain http is not allowed for it; use https, or allow it in the zone".into())),
            other => return Err(wrong(format!("{other} is not a scheme this program fetches from"))),
        }
        // Nobody can tell over plain http who reads; and what a certificate opens is for one host.
        if self.identity.is_some() && url.scheme() != "https" {
            return Err(wrong("a client certificate is shown over https only".into()));
        }
        if self.bearer.is_some() && url.scheme() != "https" {
            return Err(wrong("a token is sent over https only".into()));
        }
        if self.login.is_some() && url.scheme() != "https" {
            return Err(wrong("a login is sent over https only".into()));
        }
        let secret = self.identity.is_some() || self.bearer.is_some() || self.login.is_some();
        let plain_http = self.plain_http_allowed && !secret;
        let identity = self.identity.clone();
        Ok((url, Trusts { ca_file: self.ca_file.clone(), identity, secret_body: false, plain_http }))
    }
}

/// What is wanted of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Want {
    /// Its digest, when known beforehand. Without one, what comes is what is trusted.
    pub digest: Option<Digest>,
    /// Its size in bytes, when known beforehand.
    pub size: Option<u64>,
    /// The most bytes that it may have, whoever says how many they are; where nobody does and this is not given either, 16 GiB.
    pub most: Option<u64>,
    /// The file is a program or an archive: a page, JSON or XML in its place is refused by name, before hashing.
    pub refuse_html: bool,
}

/// The most bytes of a file whose size nobody says: who serves it would otherwise end when the disk is full.
const MOST: u64 = 16 << 30;

impl Want {
    /// How many bytes may come.
    pub(crate) fn bound(&self) -> u64 {
        let most = self.most.unwrap_or(if self.size.is_some() { u64::MAX } else { MOST });
        self.size.map_or(most, |size| size.min(most))
    }

    /// Refuses a size that is beyond the bound. A size that is known and another one is for others to refuse.
    pub(crate) fn check_bound(&self, origin: &str, found: Option<u64>) -> Result<(), TransportError> {
        let most = self.most.unwrap_or(MOST);
        let applies = self.most.is_some() || self.size.is_none();
        match self.size.max(found).filter(|size| applies && *size > most) {
            Some(_) => Err(TransportError::TooLarge { origin: origin.to_owned(), most }),
            None => Ok(()),
        }
    }
}

/// A file that is in the store now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// Of the bytes.
    pub digest: Digest,
    /// In bytes.
    pub size: u64,
    /// The address that answered; none when the store had it already.
    pub url: Option<String>,
}

/// What an address says about a file without sending it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// In bytes, when told.
    pub size: Option<u64>,
    /// The entity tag, when told.
    pub etag: Option<String>,
    /// The media type, when told.
    pub content_type: Option<String>,
}
