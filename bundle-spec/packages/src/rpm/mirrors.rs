//! Lists of mirrors: a plain list, or a metalink (RFC 5854's forerunner, Metalink 3.0, as MirrorManager writes it), which also
//! says which `repomd.xml` is the right one.

use std::io::BufRead;

use kubexm_spec::Digest;

use super::xml::{Document, DocumentError, Node, sha256};
use crate::location::has_login;

/// Of either list, in bytes.
pub const LIMIT: u64 = 4 * 1024 * 1024;
const REPOMD: &str = "repodata/repomd.xml";

/// What a metalink says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metalink {
    /// Digests that `repomd.xml` may have: that of now, and those of a while ago, which mirrors still may have.
    pub repomd: Vec<Digest>,
    /// Base addresses of mirrors with http or https, the best first.
    pub mirrors: Vec<String>,
}

/// Whether a mirror may be asked: over http or https, and without a login, which nobody gives to all who ask for a list.
fn is_usable(url: &str) -> bool {
    (url.starts_with("https://") || url.starts_with("http://")) && !has_login(url)
}

/// The base addresses of a plain list, in its order. Lines that are no address with http or https, or have a login, are left out.
pub fn mirrorlist(text: &str) -> Vec<String> {
    let base = |line: &str| {
        let line = line.trim();
        is_usable(line).then(|| line.trim_end_matches('/').to_owned())
    };
    text.lines().filter_map(base).collect()
}

/// Reads a metalink.
pub fn metalink(reader: impl BufRead) -> Result<Metalink, DocumentError> {
    let mut document = Document::new("the metalink", "metalink", reader);
    let mut metalink = Metalink::default();
    let mut urls: Vec<(u64, String)> = Vec::new();
    let (mut text, mut hash, mut preference) = (String::new(), None, None);
    let mut files = 0;
    loop {
        match document.next()? {
            Node::Open(element) => {
                text.clear();
                match element.name() {
                    "file" => files += 1,
                    "hash" => hash = element.attribute("type")?.map(|kind| kind.into_owned()),
                    "url" => {
                        let protocol = element.attribute("protocol")?;
                        let fits = protocol.is_none_or(|protocol| matches!(&*protocol, "http" | "https"));
                        preference = if fits { Some(element.number("preference")?.unwrap_or(0)) } else { None };
                    }
                    _ => {}
                }
            }
            Node::Text(more) => text.push_str(&more),
            Node::Close(element) => {
                match element.name() {
                    "hash" if files == 1 && hash.as_deref() == Some("sha256") => {
                        let digest = sha256("sha256", &text);
                        metalink.repomd.push(digest.map_err(|why| document.wrong(why))?);
                    }
                    "url" if files == 1 => {
                        let base = text.trim().strip_suffix(REPOMD).map(|base| base.trim_end_matches('/').to_owned());
                        urls.extend(preference.zip(base.filter(|url| is_usable(url))));
                    }
                    _ => {}
                }
                text.clear();
            }
            Node::Nothing => {}
            Node::End => break,
        }
    }
    // Stable: mirrors of the same preference stay in the order of the list.
    urls.sort_by_key(|(preference, _)| std::cmp::Reverse(*preference));
    metalink.mirrors = urls.into_iter().map(|(_, url)| url).collect();
    if metalink.repomd.is_empty() {
        return Err(document.wrong("it has no sha256 of repomd.xml"));
    }
    Ok(metalink)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirrors_come_in_the_order_of_their_preference_with_the_digests() {
        let text = r#"<metalink version="3.0" xmlns="http://www.metalinker.org/" xmlns:mm0="http://fedorahosted.org/mirrormanager">
 <files><file name="repomd.xml"><mm0:timestamp>1</mm0:timestamp><size>9</size>
  <verification><hash type="md5">x</hash><hash type="sha256">0000000000000000000000000000000000000000000000000000000000000001</hash></verification>
  <mm0:alternates><mm0:alternate><verification><hash type="sha256">0000000000000000000000000000000000000000000000000000000000000002</hash></verification></mm0:alternate></mm0:alternates>
  <resources maxconnections="1">
   <url protocol="rsync" preference="100">rsync://a/x/repodata/repomd.xml</url>
   <url protocol="http" type="http" location="DE" preference="9">http://b/x/repodata/repomd.xml</url>
   <url protocol="https" preference="99">https://c/x&amp;y/repodata/repomd.xml</url>
  </resources></file></files></metalink>"#;
        let metalink = metalink(text.as_bytes()).unwrap();
        assert_eq!(metalink.mirrors, ["https://c/x&y", "http://b/x"]);
        assert_eq!(metalink.repomd.len(), 2);
    }

    #[test]
    fn a_metalink_without_a_digest_is_refused() {
        let error = metalink("<metalink><files><file/></files></metalink>".as_bytes()).unwrap_err();
        assert!(error.to_string().contains("sha256"), "{error}");
        assert!(metalink("<html>sorry".as_bytes()).is_err());
    }

    #[test]
    fn a_plain_list_gives_its_addresses_only() {
        let text = "# repo = baseos\nhttps://a/b/\r\nftp://c/d\n\nhttp://e\nhttps://f@g/h\nInvalid release\n";
        assert_eq!(mirrorlist(text), ["https://a/b", "http://e"]);
    }
}
