//! `repodata/repomd.xml`: what a repository has, with digests. All trust in an index hangs on it.

use std::io::BufRead;

use kubexm_spec::Digest;

use super::xml::{Document, DocumentError, Node, sha256};
use crate::location::{has_login, leads_out};

/// Of the whole document, in bytes; real ones have 2 to 10 KiB.
pub const LIMIT: u64 = 1024 * 1024;

/// What `repomd.xml` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repomd {
    /// What the repository calls its state: seconds of Unix time for most, any text for some.
    pub revision: String,
    /// Its files.
    pub data: Vec<Data>,
}

/// One file of a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Data {
    /// `primary`, `filelists`, `modules`, `primary_db` …
    pub kind: String,
    /// Below the base address of the repository, or a whole address where the index names another base.
    pub location: String,
    /// Of the file as it is sent; why there is none otherwise.
    pub digest: Option<Digest>,
    /// What its checksum is, when it is not sha256.
    pub other_checksum: Option<String>,
    /// In bytes, as it is sent.
    pub size: Option<u64>,
    /// Of what is unpacked from it.
    pub open_digest: Option<Digest>,
    /// In bytes, unpacked.
    pub open_size: Option<u64>,
    /// When it was made, in seconds of Unix time.
    pub timestamp: Option<u64>,
}

impl Repomd {
    /// Reads the document.
    pub fn read(reader: impl BufRead) -> Result<Self, DocumentError> {
        let mut document = Document::new("repomd.xml", "repomd", reader);
        let mut repomd = Self::default();
        let mut data: Option<Data> = None;
        let (mut text, mut checksum) = (String::new(), String::new());
        loop {
            match document.next()? {
                Node::Open(element) => {
                    text.clear();
                    match (element.name(), &mut data) {
                        ("data", _) => {
                            let kind = element.attribute("type")?.unwrap_or_default().into_owned();
                            data = Some(Data { kind, ..Data::default() });
                        }
                        ("checksum" | "open-checksum", _) => {
                            checksum = element.attribute("type")?.unwrap_or_default().into_owned();
                        }
                        ("location", Some(data)) => {
                            let [base, href] = element.attributes(["xml:base", "href"])?;
                            let location = located(base.as_deref(), &href.unwrap_or_default());
                            data.location =
                                location.map_err(|why| document.wrong(format!("{} has {why}", data.kind)))?;
                        }
                        _ => {}
                    }
                }
                Node::Text(more) => text.push_str(&more),
                Node::Close(element) => {
                    let value = text.trim();
                    let number = || value.split('.').next().and_then(|whole| whole.parse().ok());
                    match (element.name(), &mut data) {
                        ("revision", None) => repomd.revision = value.to_owned(),
                        ("checksum", Some(data)) if checksum == "sha256" => {
                            let digest = sha256(&checksum, value).map_err(|why| format!("{}: {why}", data.kind));
                            data.digest = Some(digest.map_err(|why| document.wrong(why))?);
                        }
                        ("checksum", Some(data)) => data.other_checksum = Some(checksum.clone()),
                        ("open-checksum", Some(data)) => data.open_digest = sha256(&checksum, value).ok(),
                        ("size", Some(data)) => data.size = number(),
                        ("open-size", Some(data)) => data.open_size = number(),
                        ("timestamp", Some(data)) => data.timestamp = number(),
                        ("data", _) => repomd.data.extend(data.take()),
                        _ => {}
                    }
                    text.clear();
                }
                Node::Nothing => {}
                Node::End => return Ok(repomd),
            }
        }
    }

    /// A file by its kind; none when the repository has none.
    pub fn get(&self, kind: &str) -> Option<&Data> {
        self.data.iter().find(|data| data.kind == kind)
    }

    /// When the newest of its files was made, in seconds of Unix time; its revision where files say nothing. A repository that
    /// once said a later time is not trusted with an earlier one.
    pub fn made(&self) -> Option<u64> {
        self.data.iter().filter_map(|data| data.timestamp).max().or_else(|| self.revision.parse().ok())
    }
}

impl Data {
    /// The digest that what comes must have.
    pub fn wanted(&self) -> Result<Digest, DocumentError> {
        self.digest.ok_or_else(|| {
            let kind = self.other_checksum.as_deref().unwrap_or("absent");
            let why = format!("the checksum of {} is {kind}, and only sha256 is trusted", self.kind);
            DocumentError { document: "repomd.xml", why, at: 0 }
        })
    }
}

/// A location below the repository, or a whole address where a base of its own is named. The error is what is wrong with it.
pub(super) fn located(base: Option<&str>, href: &str) -> Result<String, String> {
    // A slash before it means the repository's own folder to all that read it.
    let path = href.trim_start_matches('/');
    if leads_out(path) {
        return Err(format!("the location {path:?}, which leads out of the repository"));
    }
    let Some(base) = base.filter(|base| base.contains("://")) else { return Ok(path.to_owned()) };
    let scheme = |name: &str| base.get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name));
    let Some((_, behind)) = base.split_once("://").filter(|_| scheme("http://") || scheme("https://")) else {
        return Err(format!("the base {base:?}; only http:// and https:// are followed"));
    };
    // Nobody serves packages behind a login that everybody can read, and it would go to whoever the index says.
    if has_login(base) {
        return Err("a base with a login".to_owned());
    }
    if leads_out(behind) {
        return Err(format!("the base {base:?}, which leads out of itself"));
    }
    Ok(format!("{}/{path}", base.trim_end_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<repomd xmlns="http://linux.duke.edu/metadata/repo" xmlns:rpm="http://linux.duke.edu/metadata/rpm">
  <revision>1700000000</revision>
  <data type="primary">
    <checksum type="sha256">0000000000000000000000000000000000000000000000000000000000000001</checksum>
    <open-checksum type="sha256">0000000000000000000000000000000000000000000000000000000000000002</open-checksum>
    <location href="repodata/x-primary.xml.gz"/>
    <timestamp>1700000001.5</timestamp><size>10</size><open-size>20</open-size>
  </data>
  <data type="group"><checksum type="sha">ab</checksum><location xml:base="http://h/b/" href="comps.xml"/></data>
</repomd>"#;

    #[test]
    fn files_are_found_with_what_they_must_be() {
        let repomd = Repomd::read(TEXT.as_bytes()).unwrap();
        let primary = repomd.get("primary").unwrap();
        assert_eq!(primary.location, "repodata/x-primary.xml.gz");
        assert_eq!((primary.size, primary.open_size), (Some(10), Some(20)));
        assert!(primary.wanted().unwrap().hex().ends_with('1') && primary.open_digest.unwrap().hex().ends_with('2'));
        assert_eq!((repomd.revision.as_str(), repomd.made()), ("1700000000", Some(1_700_000_001)));
        let group = repomd.get("group").unwrap();
        assert_eq!(group.location, "http://h/b/comps.xml");
        assert!(group.wanted().unwrap_err().why.contains("sha,"), "a weak checksum was trusted");
    }

    #[test]
    fn a_file_that_is_not_below_the_repository_is_refused() {
        for path in ["../../etc/x-primary", "%2e%2e/x-primary", "file:///x-primary"] {
            let text = TEXT.replace("repodata/x-primary", path);
            let error = Repomd::read(text.as_bytes()).unwrap_err();
            assert!(error.to_string().contains("leads out of the repository"), "{error}");
        }
    }

    #[test]
    fn a_base_with_a_login_is_refused_and_not_repeated() {
        for base in ["http://good.test@127.0.0.1:1/b/", "HTTPS://a:b@h", "https://h:x@/b"] {
            let error = Repomd::read(TEXT.replace("http://h/b/", base).as_bytes()).unwrap_err().to_string();
            assert!(error.contains("group has a base with a login") && !error.contains('@'), "{error}");
        }
        assert!(Repomd::read(TEXT.replace("http://h/b/", "http://h/b@c/").as_bytes()).is_ok());
    }

    #[test]
    fn what_is_cut_or_no_repomd_is_refused() {
        for (text, why) in [
            (&TEXT[..TEXT.len() - 9], "ends"),
            ("", "empty"),
            ("<repomd>&bomb;</repomd>", "entity"),
            ("<!DOCTYPE x [<!ENTITY a 'b'>]><repomd/>", "document type"),
            ("<repomd></data></repomd>", "data"),
        ] {
            let error = Repomd::read(text.as_bytes()).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
        let endless = format!("<repomd a=\"{}\"/>", "x".repeat(5 * 1024 * 1024));
        assert!(Repomd::read(endless.as_bytes()).is_err(), "a tag may have any length");
    }
}
