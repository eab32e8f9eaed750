//! Texts that must have a form: names, addresses, networks, versions. Each gives the value or says what is wrong with it.

/// A DNS-1123 label: at most 63 of `a-z`, `0-9` and `-`, with a letter or digit at both ends.
pub(in crate::cluster) fn label(text: &str) -> Result<String, String> {
    if is_label(text) { Ok(text.to_owned()) } else { Err(not_a(text, "a DNS-1123 label (a-z, 0-9 and -, at most 63)")) }
}

/// A DNS-1123 subdomain: labels with dots between, at most 253.
pub(in crate::cluster) fn subdomain(text: &str) -> Result<String, String> {
    if text.len() <= 253 && text.split('.').all(is_label) {
        Ok(text.to_owned())
    } else {
        Err(not_a(text, "a DNS name (a-z, 0-9, - and ., at most 253)"))
    }
}

/// The key of a label or a taint (apimachinery, util/validation): a name, and before it a DNS name and a slash.
pub(in crate::cluster) fn is_label_key(key: &str) -> bool {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    !name.is_empty() && is_label_value(name) && prefix.is_none_or(|prefix| subdomain(prefix).is_ok())
}

/// The value of a label or a taint: it may be empty, and begins and ends with a letter or a digit.
pub(in crate::cluster) fn is_label_value(text: &str) -> bool {
    let edge = |c: char| c.is_ascii_alphanumeric();
    let good = text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    text.is_empty() || text.len() <= 63 && good && text.starts_with(edge) && text.ends_with(edge)
}

/// A key of the data of a Secret or a ConfigMap (apimachinery, util/validation: IsConfigMapKey).
pub(in crate::cluster) fn secret_key(text: &str) -> Result<String, String> {
    let good = !text.is_empty()
        && text.len() <= 253
        && !text.starts_with("..")
        && text != "."
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    if good { Ok(text.to_owned()) } else { Err(not_a(text, "a key of a Secret (letters, digits, -, _ and .)")) }
}

/// The type of a Secret (core/v1): a name, often with a domain before it.
pub(in crate::cluster) fn secret_type(text: &str) -> Result<String, String> {
    // The cluster makes these itself.
    if matches!(text, "kubernetes.io/service-account-token" | "bootstrap.kubernetes.io/token") {
        return Err(format!("Secrets of type {text} are made by the cluster itself"));
    }
    let good = is_label_key(text);
    if good { Ok(text.to_owned()) } else { Err(not_a(text, "a type of Secrets, like kubernetes.io/tls")) }
}

/// A Linux user name, as useradd takes it.
pub(in crate::cluster) fn user(text: &str) -> Result<String, String> {
    let good = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.len() <= 64
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'@' | b'\\'));
    match good {
        true => Ok(text.to_owned()),
        // Behind the colon somebody writes the password.
        false if text.contains(':') => Err("this is not a user name".to_owned()),
        false => Err(not_a(text, "a user name")),
    }
}

/// A network interface's name (IFNAMSIZ: at most 15 bytes). The kernel takes nearly any character; these mean nothing to shells, units and
/// configurations that it is written into.
pub(in crate::cluster) fn interface(text: &str) -> Result<String, String> {
    let good = !text.is_empty()
        && text.len() <= 15
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-' | b':' | b'@'));
    if good {
        Ok(text.to_owned())
    } else {
        Err(not_a(text, "a network interface's name (at most 15 of letters, digits, . _ - : @)"))
    }
}

/// `1.34`, `v1.34.4`, `1.34.4-rc.1` → with a `v`.
pub(in crate::cluster) fn kubernetes_version(text: &str) -> Result<String, String> {
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
pub(in crate::cluster) fn version(text: &str) -> Result<String, String> {
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

pub(in crate::cluster) fn number(part: &str) -> bool {
    !part.is_empty() && part.len() <= 9 && part.bytes().all(|b| b.is_ascii_digit())
}

/// An absolute path of a folder below another one, without `.`, `..` or anything that a config file could read otherwise;
/// a slash at its end is left out.
pub(in crate::cluster) fn folder(text: &str) -> Result<String, String> {
    let path = text.strip_suffix('/').unwrap_or(text);
    let plain = |part: &str| {
        !matches!(part, "" | "." | "..") && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-+@".contains(&b))
    };
    match path.strip_prefix('/') {
        Some(below) if path.len() <= 255 && below.split('/').all(plain) => Ok(path.to_owned()),
        _ => Err(not_a(text, "an absolute path of plain names (a-z, A-Z, 0-9 and ._-+@), like /mnt/registry")),
    }
}

/// A full image reference; short names and the other names of Docker Hub are completed as docker does (`busybox:1`,
/// `index.docker.io/busybox:1` → `docker.io/library/busybox:1`).
pub(in crate::cluster) fn image(text: &str) -> Result<String, String> {
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
    let (host, path) = crate::reference::hub(host, path);
    Ok(format!("{host}/{path}{}", &text[repository.len()..]))
}

/// A chart's version, or a tag: kept as it is.
pub(in crate::cluster) fn chart_version(text: &str) -> Result<String, String> {
    let good = text.starts_with(|c: char| c.is_ascii_alphanumeric()) && version_text(text);
    if good { Ok(text.to_owned()) } else { Err(not_a(text, "an exact version, like 1.2.3")) }
}

/// A name of the IANA time zone database.
pub(in crate::cluster) fn timezone(text: &str) -> Result<String, String> {
    let part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic())
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"_+-".contains(&b))
    };
    let good = text.len() <= 64 && text.split('/').all(part);
    if good { Ok(text.to_owned()) } else { Err(not_a(text, "a time zone, like Asia/Shanghai")) }
}

/// The name of an RPM or Debian package.
pub(in crate::cluster) fn package(text: &str) -> Result<String, String> {
    let good = text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.len() <= 128
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._+-".contains(&b));
    if good { Ok(text.to_owned()) } else { Err(not_a(text, "the name of a package")) }
}

/// The catalogue's name of an operating system: `debian-12`, `openeuler-22.03-sp3`.
pub(in crate::cluster) fn os(text: &str) -> Result<String, String> {
    let good = text.split_once('-').is_some() && repository(text).is_ok() && !text.contains('/');
    if good {
        Ok(text.to_owned())
    } else {
        Err(match crate::names::os_of_codename(text) {
            Some(name) => format!("{text:?} is the codename of {name}; write {name}"),
            None => not_a(text, "an operating system as the catalogue has it, like debian-12"),
        })
    }
}

/// A flag's name without its dashes.
pub(in crate::cluster) fn flag(text: &str) -> Result<String, String> {
    let good = text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if good { Ok(text.to_owned()) } else { Err(not_a(text, "a flag's name without its dashes, like event-ttl")) }
}

/// A feature gate's name.
pub(in crate::cluster) fn gate(text: &str) -> Result<String, String> {
    let good = text.starts_with(|c: char| c.is_ascii_uppercase()) && text.bytes().all(|b| b.is_ascii_alphanumeric());
    if good { Ok(text.to_owned()) } else { Err(not_a(text, "a feature gate, like SidecarContainers")) }
}

/// Bytes: `8Gi`, `512Mi`, or a plain number; Ki, Mi, Gi and Ti are powers of 1024.
pub(in crate::cluster) fn quantity(text: &str) -> Result<u64, String> {
    let bad = || not_a(text, "a number of bytes, like 8Gi");
    let units = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40)];
    let (digits, shift) = units
        .iter()
        .find_map(|(unit, shift)| text.strip_suffix(unit).map(|digits| (digits, *shift)))
        .unwrap_or((text, 0));
    let count: u64 =
        Some(digits).filter(|d| d.bytes().all(|b| b.is_ascii_digit())).and_then(|d| d.parse().ok()).ok_or_else(bad)?;
    count.checked_mul(1 << shift).filter(|bytes| *bytes > 0).ok_or_else(bad)
}

/// A line of text: not empty, no control characters.
pub(in crate::cluster) fn line(text: &str) -> Result<String, String> {
    if !text.trim().is_empty() && !text.contains(char::is_control) {
        Ok(text.to_owned())
    } else {
        Err("expected one line of text".to_owned())
    }
}

/// The user name of a login by HTTP Basic: a line without a colon, which ends it there (RFC 7617).
pub(in crate::cluster) fn login_name(text: &str) -> Result<String, String> {
    match line(text) {
        Ok(name) if !name.contains(':') => Ok(name),
        _ => Err("expected a user name: one line of text without a colon".to_owned()),
    }
}

/// What an NFS server exports.
pub(in crate::cluster) fn nfs_export(text: &str) -> Result<String, String> {
    // In the chart it stands without quotes; a colon ends the name of the server in mount(8).
    let plain = |c: char| !c.is_control() && !matches!(c, ':' | '#');
    let good = text.starts_with('/')
        && text.chars().all(plain)
        && !text.ends_with(' ')
        && !text.split('/').any(|part| matches!(part, "." | ".."));
    if good { Ok(text.to_owned()) } else { Err(not_a(text, "an export without : and #, like /srv/volumes")) }
}

/// One option of mount(8), or several with commas, as nfs(5) writes them. In the chart it stands without quotes.
pub(in crate::cluster) fn mount_option(text: &str) -> Result<String, String> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_.,:=/+-".contains(&b);
    let good = text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(plain);
    if good { Ok(text.to_owned()) } else { Err(not_a(text, "an option of mount, like nfsvers=4.1 or hard")) }
}

/// The longest path that the kernel takes, in bytes (PATH_MAX). A host's key is shown for each of its bastions.
const LONGEST_PATH: usize = 4096;

/// A path on this machine, as written. An address is none, and is not shown: it may hold a login.
pub(in crate::cluster) fn path(text: &str) -> Result<std::path::PathBuf, String> {
    if text.is_empty() {
        return Err("the path is empty".to_owned());
    }
    if text.len() > LONGEST_PATH {
        return Err(format!("the path has {} bytes, and Linux takes {LONGEST_PATH} at most", text.len()));
    }
    if text.contains(char::is_control) {
        // A key where the path of its file is wanted.
        return Err("expected a path, got several lines".to_owned());
    }
    if text.contains("://") {
        return Err("expected a path, got an address: fetch the file, and give its path".to_owned());
    }
    Ok(text.into())
}

/// Whether it is a DNS-1123 label.
pub fn is_label(text: &str) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.len() <= 63 && text.starts_with(edge) && text.ends_with(edge) && text.chars().all(|c| edge(c) || c == '-')
}

pub(in crate::cluster) fn not_a(text: &str, what: &str) -> String {
    format!("{text:?} is not {what}")
}

/// A mail address or a URL of a certificate, in which `*` stands for any characters; more than that alone.
pub(in crate::cluster) fn identity(text: &str) -> Result<String, String> {
    let good = text.len() <= 512 && !text.contains(|c: char| c.is_control() || c.is_whitespace());
    match good && text.contains(|c| c != '*') {
        true => Ok(text.to_owned()),
        false => Err(not_a(text, "a mail address or a URL, in which * stands for any characters")),
    }
}

/// A path of repositories' names (OCI distribution-spec, "Pulling manifests").
pub(in crate::cluster) fn repository(text: &str) -> Result<String, String> {
    let word = |part: &str| {
        let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        part.starts_with(edge) && part.ends_with(edge) && part.chars().all(|c| edge(c) || "._-".contains(c))
    };
    if text.len() <= 255 && text.split('/').all(word) {
        Ok(text.to_owned())
    } else {
        Err(not_a(text, "a path of repository names (a-z, 0-9 and ._-), like library"))
    }
}
/// What the keys of an API server in etcd begin with.
pub fn etcd_prefix(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._/-".contains(c);
    let good =
        text.len() > 1 && text.len() <= 128 && text.starts_with('/') && !text.ends_with('/') && text.chars().all(plain);
    let odd = text.split('/').skip(1).any(|part| matches!(part, "" | "." | ".."));
    match good && !odd {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "{text:?} is no prefix of keys: expected /registry, or /NAME/registry, of letters, digits and ._-"
        )),
    }
}
