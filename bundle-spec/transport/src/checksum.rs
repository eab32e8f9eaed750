//! Checksum files as upstreams publish them: a bare digest, or lines of `sha256sum`.

use kubexm_spec::Digest;

/// The digest of `name` in the text of a checksum file. Known forms: `<hex>` alone, `<hex>  name`, `<hex> *name`,
/// `sha256:<hex>`, and BSD's `SHA256 (name) = <hex>`. Names count without their folder. A text with a single bare digest
/// answers for every name; two different digests for one name answer for none.
pub fn parse(text: &str, name: &str) -> Option<Digest> {
    let mut found: Vec<Digest> = Vec::new();
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')).collect();
    if let [only] = lines[..]
        && let Some(digest) = hex(only)
    {
        return Some(digest);
    }
    for line in lines {
        let entry = match line.strip_prefix("SHA256 (").and_then(|rest| rest.rsplit_once(") = ")) {
            Some((file, digest)) => Some((digest, file)),
            None => line.split_once(char::is_whitespace).map(|(digest, file)| (digest, file.trim_start())),
        };
        let Some((digest, file)) = entry else { continue };
        let file = file.strip_prefix('*').unwrap_or(file);
        if file.rsplit('/').next() == Some(name)
            && let Some(digest) = hex(digest)
        {
            found.push(digest);
        }
    }
    found.dedup();
    match found[..] {
        [digest] => Some(digest),
        _ => None,
    }
}

fn hex(text: &str) -> Option<Digest> {
    Digest::from_hex(&text.strip_prefix("sha256:").unwrap_or(text).to_ascii_lowercase()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_form_is_read() {
        let (one, two) = (Digest::of("one"), Digest::of("two"));
        let (a, b) = (one.hex(), two.hex());
        for text in [
            a.clone(),
            format!("{a}\n"),
            a.to_uppercase(),
            format!("{a}  runc.amd64\n"),
            format!("{b}  runc.arm64\n{a} *runc.amd64\n"),
            format!("# made by hand\n{a}  ./out/runc.amd64\r\n{b}  other\n"),
            format!("SHA256 (runc.amd64) = {a}\n"),
        ] {
            assert_eq!(parse(&text, "runc.amd64"), Some(one), "{text}");
        }
    }

    #[test]
    fn a_digest_of_another_file_or_an_ambiguous_one_is_not_taken() {
        let (a, b) = (Digest::of("one").hex(), Digest::of("two").hex());
        for text in [
            String::new(),
            "<html>not found</html>".to_owned(),
            format!("{a}  runc.arm64"),
            format!("{a}  xrunc.amd64"),
            format!("{a}  runc.amd64\n{b}  runc.amd64"),
            format!("{a}\n{b}"),
        ] {
            assert_eq!(parse(&text, "runc.amd64"), None, "{text}");
        }
    }
}
