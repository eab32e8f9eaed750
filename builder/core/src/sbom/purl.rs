//! Package URLs (ECMA-427): one line that names a package in any tool.

use kubexm_spec::{Digest, Platform};

/// `pkg:oci/…`: the last part of the repository's name, the manifest's digest, and where the repository is.
pub(crate) fn oci(repository: &str, tag: Option<&str>, digest: &Digest, platform: Option<Platform>) -> String {
    let name = repository.rsplit('/').next().unwrap_or(repository).to_lowercase();
    let arch = platform.map(|platform| platform.arch.as_str());
    let qualifiers = [("arch", arch), ("repository_url", Some(repository)), ("tag", tag)];
    assemble("oci", &name, &digest.to_string(), &qualifiers)
}

/// `pkg:generic/…`: a file by name, version, address and checksum.
pub(crate) fn generic(
    name: &str,
    version: &str,
    digest: &Digest,
    url: Option<&str>,
    platform: Option<Platform>,
) -> String {
    let (arch, checksum) = (platform.map(|platform| platform.arch.as_str()), digest.to_string());
    let qualifiers = [("arch", arch), ("checksum", Some(checksum.as_str())), ("download_url", url)];
    assemble("generic", name, version, &qualifiers)
}

/// Qualifiers come sorted by name; empty parts are left out.
fn assemble(kind: &str, name: &str, version: &str, qualifiers: &[(&str, Option<&str>)]) -> String {
    let mut purl = format!("pkg:{kind}/{}", encoded(name, false));
    if !version.is_empty() {
        purl.push('@');
        purl.push_str(&encoded(version, false));
    }
    let mut separator = '?';
    for (key, value) in qualifiers {
        let Some(value) = value.filter(|value| !value.is_empty()) else { continue };
        purl.push(separator);
        purl.push_str(key);
        purl.push('=');
        purl.push_str(&encoded(value, true));
        separator = '&';
    }
    purl
}

/// Percent-encodes all but letters, digits, `-._~` and the colon; in qualifiers the slash stays too.
fn encoded(text: &str, slash: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' => out.push(byte.into()),
            b'/' if slash => out.push('/'),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_letter_of_a_purl_is_encoded() {
        let digest = Digest::of(b"");
        let purl = generic("a b/c@1", "1.0+x", &digest, Some("https://h.test/a?b=c&d#e"), None);
        assert_eq!(
            purl,
            format!(
                "pkg:generic/a%20b%2Fc%401@1.0%2Bx?checksum={digest}&download_url=https://h.test/a%3Fb%3Dc%26d%23e"
            )
        );
    }

    #[test]
    fn an_image_is_named_by_its_digest_and_repository() {
        let digest = Digest::of(b"");
        let purl = oci("registry.k8s.io/coredns/CoreDNS", Some("v1"), &digest, Some(Platform::LINUX_ARM64));
        let wanted =
            format!("pkg:oci/coredns@{digest}?arch=arm64&repository_url=registry.k8s.io/coredns/CoreDNS&tag=v1");
        assert_eq!(purl, wanted);
    }
}
