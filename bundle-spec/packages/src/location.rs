//! Where a file of a repository is, as an index says it: below the repository, and nowhere else.

/// Whether a path leads out of the folder it is given for, or may for whoever asks for it: a whole address, one from the root, a part
/// `..` in any of the spellings that programs and servers take for it (`%2e%2e`, with `\` as URLs of the web have it), or what is no
/// letter, which they leave out.
pub(crate) fn leads_out(path: &str) -> bool {
    let first = path.split(['/', '\\']).next().unwrap_or_default();
    // Most have none of these, and there are a hundred thousand.
    let suspect = |byte: u8| matches!(byte, b'%' | b'\\') || byte.is_ascii_control();
    if path.starts_with(['/', '\\']) || first.ends_with(':') || path.contains("://") {
        return true;
    }
    if !path.contains("..") && !path.bytes().any(suspect) {
        return false;
    }
    let plain = decoded(path);
    plain.starts_with(['/', '\\'])
        || plain.contains(char::is_control)
        || plain.split(['/', '\\']).any(|part| part == "..")
}

/// Whether an address has a name or a password of somebody before its host.
pub(crate) fn has_login(address: &str) -> bool {
    let rest = address.split_once("://").map(|(_, rest)| rest);
    rest.and_then(|rest| rest.split(['/', '\\', '?', '#']).next()).is_some_and(|host| host.contains('@'))
}

/// With what stands for dots and slashes as these.
fn decoded(path: &str) -> String {
    let mut plain = path.to_owned();
    for (written, means) in [("%2e", "."), ("%2E", "."), ("%2f", "/"), ("%2F", "/"), ("%5c", "\\"), ("%5C", "\\")] {
        plain = plain.replace(written, means);
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::leads_out;

    #[test]
    fn only_what_is_below_the_repository_stays_in_it() {
        for within in ["a.deb", "pool/a_1%3a2.deb", "a..b/..c/d...deb", "pool/a:b.deb", "./a.deb", "%2e/a", "a+b~c", ""]
        {
            assert!(!leads_out(within), "{within}");
        }
        for out in [
            "..",
            "../a",
            "a/../b",
            "a/..",
            "/a",
            "//a/b",
            "http://a/b",
            "a/http://b",
            "file:/a",
            "C:\\a",
            "%2e%2e/a",
            ".%2E/a",
            "a/%2e./b",
            "a%2f..%2Fb",
            "%2fa",
            "a\\..\\b",
            "\\a",
            "a%5c..%5Cb",
            "a/.\t./b",
            "a\n",
        ] {
            assert!(leads_out(out), "{out}");
        }
    }
}
