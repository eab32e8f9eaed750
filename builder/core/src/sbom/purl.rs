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

/// `pkg:deb/…` and `pkg:rpm/…`: a package of a distribution, whose architecture its file's name ends with. `os` is the release
/// as the catalogue calls it, `debian-12`: what is before the first hyphen is the vendor.
pub(crate) fn package(os: &str, name: &str, version: &str, file_name: &str) -> String {
    let vendor = os.split('-').next().unwrap_or(os);
    let (kind, stem, separator) = match file_name.strip_suffix(".rpm") {
        Some(stem) => ("rpm", stem, '.'),
        None => ("deb", file_name.strip_suffix(".deb").unwrap_or(file_name), '_'),
    };
    let arch = stem.rsplit_once(separator).map(|(_, arch)| arch);
    // rpm's epoch is a qualifier, Debian's is a part of the version
    let (epoch, version) = match version.split_once(':') {
        Some((epoch, rest)) if kind == "rpm" => (Some(epoch), rest),
        _ => (None, version),
    };
    let qualifiers = [("arch", arch), ("distro", Some(os)), ("epoch", epoch)];
    let mut purl =
        format!("pkg:{kind}/{}/{}@{}", encoded(vendor, false), encoded(name, false), encoded(version, false));
    qualify(&mut purl, &qualifiers);
    purl
}

/// Qualifiers come sorted by name; empty parts are left out.
fn assemble(kind: &str, name: &str, version: &str, qualifiers: &[(&str, Option<&str>)]) -> String {
    let mut purl = format!("pkg:{kind}/{}", encoded(name, false));
    if !version.is_empty() {
        purl.push('@');
        purl.push_str(&encoded(version, false));
    }
    qualify(&mut purl, qualifiers);
    purl
}

fn qualify(purl: &mut String, qualifiers: &[(&str, Option<&str>)]) {
    let mut separator = '?';
    for (key, value) in qualifiers {
        let Some(value) = value.filter(|value| !value.is_empty()) else { continue };
        purl.push(separator);
        purl.push_str(key);
        purl.push('=');
        purl.push_str(&encoded(value, true));
        separator = '&';
    }
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
    fn packages_of_both_families_are_named_by_vendor_release_and_architecture() {
        assert_eq!(
            package("debian-12", "libstdc++6", "1:12.2.0-14", "libstdc++6_12.2.0-14_amd64.deb"),
            "pkg:deb/debian/libstdc%2B%2B6@1:12.2.0-14?arch=amd64&distro=debian-12"
        );
        assert_eq!(
            package("openeuler-22.03", "bind", "32:9.16.23-20.oe2203", "bind-9.16.23-20.oe2203.aarch64.rpm"),
            "pkg:rpm/openeuler/bind@9.16.23-20.oe2203?arch=aarch64&distro=openeuler-22.03&epoch=32"
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
