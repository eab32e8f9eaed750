//! Texts that must have a form: names, addresses, networks, versions. Each gives the value or says what is wrong with it.

use std::net::{IpAddr, Ipv4Addr};

/// A DNS-1123 label: at most 63 of `a-z`, `0-9` and `-`, with a letter or digit at both ends.
pub(super) fn label(text: &str) -> Result<String, String> {
    if is_label(text) { Ok(text.to_owned()) } else { Err(not_a(text, "a DNS-1123 label (a-z, 0-9 and -, at most 63)")) }
}

/// A DNS-1123 subdomain: labels with dots between, at most 253.
pub(super) fn subdomain(text: &str) -> Result<String, String> {
    if text.len() <= 253 && text.split('.').all(is_label) {
        Ok(text.to_owned())
    } else {
        Err(not_a(text, "a DNS name (a-z, 0-9, - and ., at most 253)"))
    }
}

/// An IPv4 address or a DNS name.
pub(super) fn host(text: &str) -> Result<String, String> {
    if text.parse::<Ipv4Addr>().is_ok() {
        return Ok(text.to_owned());
    }
    let numbers = text.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
    if numbers { Err(not_a(text, "an IPv4 address")) } else { subdomain(text) }
}

/// A name of an API server's certificate: an address, a DNS name, or `*.` and a DNS name.
pub(super) fn san(text: &str) -> Result<String, String> {
    if text.parse::<IpAddr>().is_ok() {
        return Ok(text.to_owned());
    }
    host(text.strip_prefix("*.").unwrap_or(text)).map(|_| text.to_owned())
}

/// A Linux user name, as useradd takes it.
pub(super) fn user(text: &str) -> Result<String, String> {
    let good = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.len() <= 64
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'@' | b'\\'));
    if good { Ok(text.to_owned()) } else { Err(not_a(text, "a user name")) }
}

/// A network interface's name (IFNAMSIZ: at most 15 bytes).
pub(super) fn interface(text: &str) -> Result<String, String> {
    let good = !text.is_empty()
        && text.len() <= 15
        && text.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'/' | b'"' | b'\'' | b'\\'));
    if good { Ok(text.to_owned()) } else { Err(not_a(text, "a network interface's name (at most 15 characters)")) }
}

/// `1.34`, `v1.34.4`, `1.34.4-rc.1` → with a `v`.
pub(super) fn kubernetes_version(text: &str) -> Result<String, String> {
    let bare = text.strip_prefix('v').unwrap_or(text);
    let main = bare.split_once('-').map_or(bare, |(main, _)| main);
    let parts: Vec<&str> = main.split('.').collect();
    let suffix_only_on_patch = main.len() == bare.len() || parts.len() == 3;
    if matches!(parts.len(), 2 | 3) && suffix_only_on_patch && version_text(bare) && parts.iter().all(|p| number(p)) {
        Ok(format!("v{bare}"))
    } else {
        Err(not_a(text, "a Kubernetes version, like v1.34.4 or v1.34"))
    }
}

/// `2.2.1` or `v2.2.1` → without `v`.
pub(super) fn version(text: &str) -> Result<String, String> {
    let bare = text.strip_prefix('v').unwrap_or(text);
    let main = bare.split_once('-').map_or(bare, |(main, _)| main);
    if main.split('.').count() == 3 && main.split('.').all(number) && version_text(bare) {
        Ok(bare.to_owned())
    } else {
        Err(not_a(text, "a version, like 2.2.1"))
    }
}

fn version_text(bare: &str) -> bool {
    bare.len() <= 64 && bare.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'+'))
}

fn number(part: &str) -> bool {
    !part.is_empty() && part.len() <= 9 && part.bytes().all(|b| b.is_ascii_digit())
}

/// An IPv4 network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cidr {
    base: u32,
    bits: u32,
}

impl Cidr {
    /// Reads `10.233.0.0/18`; bits behind the prefix must be zero.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let bad = || not_a(text, "an IPv4 network, like 10.233.64.0/18");
        let (address, bits) = text.split_once('/').ok_or_else(bad)?;
        let address: Ipv4Addr = address.parse().map_err(|_| bad())?;
        let bits: u32 =
            Some(bits).filter(|b| number(b)).and_then(|b| b.parse().ok()).filter(|b| *b <= 32).ok_or_else(bad)?;
        let cidr = Self { base: u32::from(address), bits };
        let first = cidr.base & cidr.mask();
        if first == cidr.base {
            Ok(cidr)
        } else {
            Err(format!("{text} is an address inside a network; the network is {}/{bits}", Ipv4Addr::from(first)))
        }
    }

    fn mask(self) -> u32 {
        u32::MAX.checked_shl(32 - self.bits).unwrap_or(0)
    }

    /// Length of the prefix.
    pub(super) fn bits(self) -> u32 {
        self.bits
    }

    /// Whether two networks share an address.
    pub(super) fn overlaps(self, other: Self) -> bool {
        let mask = self.mask() & other.mask();
        self.base & mask == other.base & mask
    }

    /// Whether an address is in the network.
    pub(super) fn holds(self, address: Ipv4Addr) -> bool {
        u32::from(address) & self.mask() == self.base
    }
}

/// An absolute path of a folder below another one, without `.`, `..` or anything that a config file could read otherwise;
/// a slash at its end is left out.
pub(super) fn folder(text: &str) -> Result<String, String> {
    let path = text.strip_suffix('/').unwrap_or(text);
    let plain = |part: &str| {
        !matches!(part, "" | "." | "..") && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-+@".contains(&b))
    };
    match path.strip_prefix('/') {
        Some(below) if path.len() <= 255 && below.split('/').all(plain) => Ok(path.to_owned()),
        _ => Err(not_a(text, "an absolute path of plain names (a-z, A-Z, 0-9 and ._-+@), like /mnt/registry")),
    }
}

/// A full image reference; short names are completed as docker does (`busybox:1` → `docker.io/library/busybox:1`).
pub(super) fn image(text: &str) -> Result<String, String> {
    let bad = || not_a(text, "an image with tag or digest, like docker.io/library/busybox:1");
    let (name, digest) = text.split_once('@').map_or((text, None), |(name, digest)| (name, Some(digest)));
    if digest.is_some_and(|digest| digest.parse::<crate::Digest>().is_err()) {
        return Err(bad());
    }
    let slash = name.rfind('/').map_or(0, |at| at + 1);
    let tag = name[slash..].split_once(':').map(|(_, tag)| tag);
    let repository = &name[..name.len() - tag.map_or(0, |tag| tag.len() + 1)];
    let word = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    if (tag.is_none() && digest.is_none()) || tag.is_some_and(|tag| !word(tag) || tag.len() > 128) {
        return Err(bad());
    }
    let (host, path) = match repository.split_once('/') {
        Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => (host, path.to_owned()),
        Some(_) => ("docker.io", repository.to_owned()),
        None => ("docker.io", format!("library/{repository}")),
    };
    let part = |text: &str| word(text) && !text.bytes().any(|b| b.is_ascii_uppercase());
    let host_good = host.split(':').count() <= 2 && host.split(':').all(word);
    if !host_good || !path.split('/').all(part) {
        return Err(bad());
    }
    Ok(format!("{host}/{path}{}", &text[repository.len()..]))
}

fn is_label(text: &str) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.len() <= 63 && text.starts_with(edge) && text.ends_with(edge) && text.chars().all(|c| edge(c) || c == '-')
}

fn not_a(text: &str, what: &str) -> String {
    format!("{text:?} is not {what}")
}
