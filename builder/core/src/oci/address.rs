//! `oci://HOST[:PORT]/REPOSITORY[:TAG|@DIGEST]`.

use std::fmt;
use std::str::FromStr;

use kubexm_spec::Digest;
use kubexm_spec::reference::{TAG_LENGTH, is_repository, is_tag};

/// Where a bundle is in a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// `registry.example:5000`.
    pub host: String,
    /// `team/bundles`.
    pub repository: String,
    /// Which of its artifacts.
    pub wanted: Wanted,
}

/// What names an artifact in a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A tag, which may be moved.
    Tag(String),
    /// A digest, which binds.
    Digest(Digest),
}

impl FromStr for Address {
    type Err = String;

    /// The error says what is wrong, and never shows a name or password that is before the host.
    fn from_str(text: &str) -> Result<Self, String> {
        let rest = text.strip_prefix("oci://").ok_or("it does not begin with oci://")?;
        let (host, path) = rest.split_once('/').ok_or("it names no repository (oci://HOST/REPOSITORY)")?;
        if host.contains('@') {
            return Err("it holds credentials; log in with `docker login` or `skopeo login` instead".to_owned());
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']');
        if host.is_empty() || !host.chars().all(plain) {
            return Err(format!("{host:?} is not a host"));
        }
        let (repository, wanted) = match path.split_once('@') {
            Some((name, digest)) => {
                let digest = digest.parse().map_err(|e: kubexm_spec::digest::ParseDigestError| e.to_string())?;
                (name, Wanted::Digest(digest))
            }
            None => match path.rsplit_once(':') {
                Some((name, tag)) => (name, Wanted::Tag(tag.to_owned())),
                None => (path, Wanted::Tag("latest".to_owned())),
            },
        };
        if !is_repository(repository) {
            return Err(format!("{repository:?} is not the name of a repository (small letters, digits, . _ - and /)"));
        }
        if let Wanted::Tag(tag) = &wanted
            && !is_tag(tag)
        {
            return Err(format!("{tag:?} is not a tag (letters, digits, . _ -; at most {TAG_LENGTH})"));
        }
        Ok(Self { host: host.to_owned(), repository: repository.to_owned(), wanted })
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tag(tag) => f.write_str(tag),
            Self::Digest(digest) => digest.fmt(f),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = if matches!(self.wanted, Wanted::Tag(_)) { ':' } else { '@' };
        write!(f, "oci://{}/{}{join}{}", self.host, self.repository, self.wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown_as_they_were_written() {
        let digest = Digest::of("x");
        for text in ["oci://r.example/team/site:v1", &format!("oci://127.0.0.1:5000/a.b/c__d-e@{digest}")] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), *text);
        }
        assert_eq!("oci://[::1]:5000/a".parse::<Address>().unwrap().to_string(), "oci://[::1]:5000/a:latest");
    }

    #[test]
    fn what_no_registry_can_have_is_refused_and_credentials_are_not_shown() {
        for bad in [
            "r/a:b",
            "oci://r",
            "oci:///a",
            "oci://r/",
            "oci://r/A",
            "oci://r/a/../b",
            "oci://r/a//b",
            "oci://r/a:",
            "oci://r/a:b c",
            "oci://r/a@sha256:12",
            "oci://r/a___b",
            "oci://r/.a",
            "oci://r?x/a",
        ] {
            assert!(bad.parse::<Address>().is_err(), "{bad}");
        }
        let secret = "oci://me:sesame@r/a".parse::<Address>().unwrap_err();
        assert!(!secret.contains("sesame") && secret.contains("login"), "{secret}");
    }
}
