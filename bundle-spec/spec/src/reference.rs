//! Names of images (distribution-spec 1.1, "Pulling manifests"; the grammar of distribution's `reference` package), and how
//! docker, containerd and CRI-O complete short ones.

use crate::Digest;

/// The longest tag in bytes (distribution-spec, "Pulling manifests").
pub const TAG_LENGTH: usize = 128;

/// The longest name of a repository in bytes (distribution's `reference` package).
const REPOSITORY_LENGTH: usize = 255;

/// The longest name of a host in bytes (RFC 1035, 2.3.4, without the last dot).
const HOST_LENGTH: usize = 253;

/// The parts of an image's name, completed: `busybox` is `docker.io/library/busybox`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// Host (and port) with the repository, `registry.k8s.io/coredns/coredns`.
    pub repository: String,
    /// Tag.
    pub tag: Option<String>,
    /// Digest of an index or a manifest.
    pub digest: Option<Digest>,
}

impl Reference {
    /// Reads a name, short or full; none when it is not the name of an image.
    pub fn read(text: &str) -> Option<Self> {
        let (name, digest) = match text.split_once('@') {
            Some((name, digest)) => (name, Some(digest.parse::<Digest>().ok()?)),
            None => (text, None),
        };
        let slash = name.rfind('/').map_or(0, |at| at + 1);
        let tag = name[slash..].split_once(':').map(|(_, tag)| tag);
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return None;
        }
        let short = &name[..name.len() - tag.map_or(0, |tag| tag.len() + 1)];
        let (host, path) = match short.split_once('/') {
            Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => (host, path.to_owned()),
            Some(_) => ("docker.io", short.to_owned()),
            None => ("docker.io", format!("library/{short}")),
        };
        let (host, path) = hub(host, path);
        if !is_host(host) || !is_repository(&path) {
            return None;
        }
        Some(Self { repository: format!("{host}/{path}"), tag: tag.map(str::to_owned), digest })
    }

    /// Whether something says which image of the repository is meant.
    pub const fn is_exact(&self) -> bool {
        self.tag.is_some() || self.digest.is_some()
    }
}

impl std::fmt::Display for Reference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        match &self.digest {
            Some(digest) => write!(f, "@{digest}"),
            None => Ok(()),
        }
    }
}

/// Docker Hub has three names, and short names of its `library`: host and path as nodes write them.
pub(crate) fn hub(host: &str, path: String) -> (&str, String) {
    if !is_hub(host) {
        return (host, path);
    }
    ("docker.io", if path.contains('/') { path } else { format!("library/{path}") })
}

fn is_hub(host: &str) -> bool {
    matches!(host, "docker.io" | "index.docker.io" | "registry-1.docker.io")
}

/// The name of an image or a repository, or an address without a scheme, with its host as hosts are compared: in lower case, without
/// the port of https and a last dot, and Docker Hub's by one name. What blocks a host or leads it elsewhere holds for every way to
/// write it. What follows the host is as it was.
pub fn by_host(name: &str) -> String {
    let (host, path) = name.split_at(name.find('/').unwrap_or(name.len()));
    let host = host.to_ascii_lowercase();
    let host = host.strip_suffix(":443").unwrap_or(&host);
    let host = host.strip_suffix('.').unwrap_or(host);
    format!("{}{path}", if is_hub(host) { "docker.io" } else { host })
}

/// Whether it is the name of a tag: one that is none (`../x`) could lead out of its repository.
pub fn is_tag(tag: &str) -> bool {
    tag.len() <= TAG_LENGTH
        && tag.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_')
        && tag.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

/// `https://host:port` of an address, `host:port` of an image's name.
pub fn server_of(origin: &str) -> &str {
    let start = origin.find("://").map_or(0, |at| at + 3);
    origin[start..].find('/').map_or(origin, |end| &origin[..start + end])
}

/// A name or an IPv4 address, with or without a port.
pub fn is_host(host: &str) -> bool {
    let (name, port) = host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port)));
    let label = |label: &str| {
        let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
        edge(label.bytes().next())
            && edge(label.bytes().last())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    name.len() <= HOST_LENGTH
        && name.split('.').all(label)
        && port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0))
}

/// Whether it is the name of a repository, without its registry (distribution-spec 1.1, "Pulling manifests"):
/// `[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*`, parted by `/`.
pub fn is_repository(name: &str) -> bool {
    name.len() <= REPOSITORY_LENGTH && name.split('/').all(is_part)
}

/// Lower-case letters and digits, with `.`, `_`, `__` or any number of `-` between them.
fn is_part(part: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let mut between = part.split(inner).filter(|separator| !separator.is_empty());
    part.starts_with(inner)
        && part.ends_with(inner)
        && between.all(|separator| matches!(separator, "." | "_" | "__") || separator.bytes().all(|b| b == b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full(text: &str) -> Option<String> {
        Reference::read(text).map(|reference| reference.to_string())
    }

    #[test]
    fn a_short_name_is_the_one_that_a_node_would_pull() {
        for (short, name) in [
            ("busybox:1", "docker.io/library/busybox:1"),
            ("index.docker.io/busybox:1", "docker.io/library/busybox:1"),
            ("registry-1.docker.io/calico/node:v3", "docker.io/calico/node:v3"),
            ("docker.io/busybox", "docker.io/library/busybox"),
            ("calico/node:v3", "docker.io/calico/node:v3"),
            ("localhost/x:1", "localhost/x:1"),
            ("localhost/x__y---z_1.2:1", "localhost/x__y---z_1.2:1"),
            ("10.0.0.1:5000/x/y:1", "10.0.0.1:5000/x/y:1"),
            ("quay.io/calico/node:v3.30.1", "quay.io/calico/node:v3.30.1"),
        ] {
            assert_eq!(full(short).as_deref(), Some(name), "{short}");
        }
        let digest = Digest::of("x");
        let both = format!("quay.io/x/y:1@{digest}");
        assert_eq!(full(&both), Some(both));
    }

    #[test]
    fn a_host_is_compared_however_it_is_written() {
        for (name, plain) in [
            ("Quay.IO/x/y:1", "quay.io/x/y:1"),
            ("quay.io:443/x/y", "quay.io/x/y"),
            ("quay.io.:443", "quay.io"),
            ("quay.io:4430/X", "quay.io:4430/X"),
            ("Index.docker.io/x", "docker.io/x"),
            ("registry-1.docker.io:443", "docker.io"),
            ("x.docker.io/y", "x.docker.io/y"),
            ("", ""),
        ] {
            assert_eq!(by_host(name), plain, "{name}");
        }
    }

    #[test]
    fn what_no_registry_could_have_is_no_name() {
        let long = format!("x/y:{}", "1".repeat(129));
        let host = format!("{}.test/x:1", "a.".repeat(125) + "b");
        for text in [
            "",
            ":",
            "/",
            "a//b:1",
            "A/b:1",
            "a/b..c:1",
            "a/b._c:1",
            "a/b___c:1",
            "a.b/-c:1",
            "https://a.b/c:1",
            "a.b/c:1:2",
            "a b:1",
            "a.b/c@sha256:12",
            "a.b:port/c:1",
            "-a.b/c:1",
            "a/b:",
            "a.b/c:-x",
            "äpfel:1",
            "{{ .Values.x }}:1",
            &long,
            &host,
        ] {
            assert_eq!(full(text), None, "{text}");
        }
    }
}
