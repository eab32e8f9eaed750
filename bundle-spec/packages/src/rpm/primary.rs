//! `primary.xml`: the packages of a repository.

use std::borrow::Cow;
use std::io::BufRead;

use kubexm_spec::Digest;

use super::dependency::{Kind, Lines, comparison};
use super::repomd::located;
use super::version::Evr;
use super::xml::{Document, DocumentError, Element, Node, sha256};
use crate::model::{Comparison, Deferred, MultiArch, Package, Provide, RepoId};

/// Longest location of a package, in bytes.
const LOCATION: usize = 4096;
/// The most that packages of one index provide, need, cannot stand and list as paths, together: each takes some 60 bytes of memory, though
/// a few bits may say it in the packed index. EL's AppStream has some two million; ten times that leaves room for repositories that keep
/// every earlier build, and takes 1.2 GB.
const ENTRIES: u64 = 20_000_000;
/// The most packages of one index, for the same reason: each takes some 400 bytes of memory. Fedora has some 70,000.
const PACKAGES: usize = 1_000_000;
/// Of a dependency in parentheses, the bytes that count as one more of [`ENTRIES`]: in so many it can name another package.
const NAMED: usize = 4;
/// The longest name or version, in bytes: a solver keeps some of them for each package that they are about. Paths are the longest real
/// ones, and the kernel takes no longer ones.
const NAME: usize = 4096;
/// The longest name or version of a package, in bytes: both are in the name of a file, which has no more.
const PACKAGE: usize = 255;
/// The longest dependency in parentheses, which may name many packages. Real ones have some hundred bytes.
pub(super) const BOOLEAN: usize = 64 << 10;

/// The packages of an index, in its order. `keep` says which architectures are wanted (`x86_64`, `noarch`): the others are not
/// held in memory.
pub fn read(reader: impl BufRead, repo: RepoId, keep: impl Fn(&str) -> bool) -> Result<Vec<Package>, DocumentError> {
    read_within(reader, repo, keep, ENTRIES, PACKAGES)
}

fn read_within(
    reader: impl BufRead,
    repo: RepoId,
    keep: impl Fn(&str) -> bool,
    most: u64,
    most_packages: usize,
) -> Result<Vec<Package>, DocumentError> {
    let mut entries = 0;
    let mut document = Document::new("primary.xml", "metadata", reader);
    let mut packages = Vec::new();
    let mut entry: Option<Entry> = None;
    let mut text = String::new();
    loop {
        let step = match document.next()? {
            Node::Open(element) => {
                text.clear();
                if entry.is_some() && matches!(element.name(), "entry" | "file") {
                    entries += 1;
                }
                match (element.name(), &mut entry) {
                    _ if entries > most => Err(too_many(most)),
                    ("package", _) => {
                        let rpm = element.attribute("type")?.is_none_or(|kind| kind == "rpm");
                        entry = rpm.then(Entry::default);
                        Ok(())
                    }
                    (_, Some(entry)) => match entry.open(&element)? {
                        Ok(named) if entries + named > most => Err(too_many(most)),
                        Ok(named) => {
                            entries += named;
                            Ok(())
                        }
                        Err(why) => Err(why),
                    },
                    _ => Ok(()),
                }
            }
            Node::Text(more) => {
                if entry.as_ref().is_some_and(|entry| entry.listens) {
                    text.push_str(&more);
                }
                Ok(())
            }
            Node::Close(element) => {
                let step = match (element.name(), &mut entry) {
                    ("package", Some(_)) if packages.len() == most_packages => {
                        Err(format!("it lists more than {most_packages} packages"))
                    }
                    ("package", Some(done)) => {
                        let done = std::mem::take(done);
                        entry = None;
                        done.finish(repo, &keep).map(|package| packages.extend(package))
                    }
                    (name, Some(entry)) => entry.close(name, &text),
                    _ => Ok(()),
                };
                // Not once more for each element that it lies in.
                text.clear();
                step
            }
            Node::Nothing => Ok(()),
            Node::End => return Ok(packages),
        };
        step.map_err(|why| document.wrong(why))?;
    }
}

/// A package while it is read.
#[derive(Default)]
struct Entry {
    name: Box<str>,
    arch: Box<str>,
    version: Box<str>,
    location: String,
    /// What is wrong with its version or location: reported once it is known whether the package is wanted.
    odd: Option<String>,
    checksum: String,
    digest: Option<Digest>,
    size: u64,
    installed_size: u64,
    provides: Vec<Provide>,
    files: Vec<Box<str>>,
    lines: Lines,
    within: Option<Within>,
    /// Whether text is waited for.
    listens: bool,
}

/// Which list the entries belong to.
#[derive(Clone, Copy)]
enum Within {
    Provides,
    Relations(Kind),
    /// What is recommended and the like is not followed.
    Ignored,
}

impl Entry {
    /// The inner error is about what the element says. How many others it names beside its own one.
    fn open(&mut self, element: &Element<'_>) -> Result<Result<u64, String>, DocumentError> {
        self.listens = false;
        match element.name() {
            "name" | "arch" | "file" => self.listens = true,
            "checksum" => {
                self.listens = true;
                self.checksum = element.attribute("type")?.unwrap_or_default().into_owned();
            }
            "version" => {
                let [epoch, version, release] = element.attributes(["epoch", "ver", "rel"])?;
                match written(&epoch, &version, &release) {
                    Ok(version) => self.version = version.into(),
                    Err(why) => self.odd = Some(why),
                }
            }
            "size" => {
                self.size = element.number("package")?.unwrap_or_default();
                self.installed_size = element.number("installed")?.unwrap_or_default();
            }
            "location" => {
                let [base, href] = element.attributes(["xml:base", "href"])?;
                match located(base.as_deref(), &href.unwrap_or_default()) {
                    Ok(location) => self.location = location,
                    Err(why) => self.odd = Some(why),
                }
            }
            "provides" => self.within = Some(Within::Provides),
            "requires" => self.within = Some(Within::Relations(Kind::Requires)),
            "conflicts" => self.within = Some(Within::Relations(Kind::Conflicts)),
            "obsoletes" => self.within = Some(Within::Relations(Kind::Obsoletes)),
            "recommends" | "suggests" | "supplements" | "enhances" => self.within = Some(Within::Ignored),
            "entry" => return self.entry(element),
            _ => {}
        }
        Ok(Ok(0))
    }

    fn entry(&mut self, element: &Element<'_>) -> Result<Result<u64, String>, DocumentError> {
        let within = self.within.unwrap_or(Within::Ignored);
        if matches!(within, Within::Ignored) {
            return Ok(Ok(0));
        }
        let [name, flags, epoch, version, release] = element.attributes(["name", "flags", "epoch", "ver", "rel"])?;
        let name = name.unwrap_or_default();
        let most = if name.starts_with('(') { BOOLEAN } else { NAME };
        if name.len() > most || [&epoch, &version, &release].into_iter().flatten().any(|part| part.len() > NAME) {
            let begin = &name[..name.floor_char_boundary(80)];
            return Ok(Err(format!(
                "the dependency {begin:?} has a name of more than {most} bytes, or a version of more than {NAME}"
            )));
        }
        let version = match versions(flags.as_deref(), || written(&epoch, &version, &release)) {
            Ok(version) => version,
            Err(why) => return Ok(Err(format!("{name} has {why}"))),
        };
        // The lines of what is kept for later are parted by these.
        if name.contains(['\t', '\n']) || version.as_ref().is_some_and(|(_, version)| version.contains(['\t', '\n'])) {
            return Ok(Err(format!("a dependency has a line break or a tab: {name:?}")));
        }
        match within {
            Within::Provides => {
                let version = version.map(|(comparison, version)| (comparison, version.into()));
                self.provides.push(Provide { name: (*name).into(), version });
            }
            Within::Relations(kind) => {
                let version = version.as_ref().map(|(comparison, version)| (*comparison, version.as_str()));
                self.lines.push(kind, &name, version);
            }
            Within::Ignored => {}
        }
        Ok(Ok(if name.starts_with('(') { (name.len() / NAMED) as u64 } else { 0 }))
    }

    fn close(&mut self, element: &str, text: &str) -> Result<(), String> {
        match element {
            "name" => self.name = text.trim().into(),
            "arch" => self.arch = text.trim().into(),
            "checksum" => {
                let digest = sha256(&self.checksum, text);
                self.digest = Some(digest.map_err(|why| format!("package {}: {why}", self.name))?);
            }
            "file" => self.files.push(text.into()),
            "provides" | "requires" | "conflicts" | "obsoletes" | "recommends" | "suggests" | "supplements"
            | "enhances" => self.within = None,
            _ => {}
        }
        self.listens = false;
        Ok(())
    }

    fn finish(self, repo: RepoId, keep: impl Fn(&str) -> bool) -> Result<Option<Package>, String> {
        if !keep(&self.arch) {
            return Ok(None);
        }
        let name = &self.name;
        // It is an argument of programs later.
        if name.is_empty() || name.starts_with('-') || name.contains(|c: char| c == '/' || c.is_control()) {
            return Err(format!("a package has the name {:?}", &name[..name.floor_char_boundary(80)]));
        }
        if name.len() > PACKAGE || self.version.len() > PACKAGE {
            let begin = &name[..name.floor_char_boundary(80)];
            return Err(format!("the package {begin:?} has a name or version of more than {PACKAGE} bytes"));
        }
        if let Some(why) = self.odd {
            return Err(format!("package {name} has {why}"));
        }
        if self.version.is_empty() {
            return Err(format!("package {name} has no version"));
        }
        let location = &self.location;
        if location.is_empty() || location.len() > LOCATION || location.contains(char::is_control) {
            let begin = &location[..location.floor_char_boundary(80)];
            return Err(format!("package {name} has the location {begin:?}"));
        }
        let digest = self.digest.ok_or_else(|| format!("package {name} has no checksum"))?;
        let mut provides = self.provides;
        let own = Some((Comparison::Equal, self.version.clone()));
        provides.retain(|provide| provide.name != self.name || provide.version != own);
        Ok(Some(Package {
            name: self.name,
            version: self.version,
            arch: self.arch,
            repo,
            location: self.location.into(),
            size: self.size,
            digest,
            installed_size: self.installed_size,
            provides,
            files: self.files,
            multi_arch: MultiArch::No,
            module: None,
            essential: false,
            priority: 3,
            relations: Deferred::Rpm(self.lines.finish()),
        }))
    }
}

fn too_many(most: u64) -> String {
    format!("it lists more than {most} provides, relations and paths")
}

fn written(
    epoch: &Option<Cow<'_, str>>,
    version: &Option<Cow<'_, str>>,
    release: &Option<Cow<'_, str>>,
) -> Result<String, String> {
    let epoch = epoch.as_deref().unwrap_or_default();
    if !epoch.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("the epoch {epoch:?}"));
    }
    Ok(Evr::written(epoch, version.as_deref().unwrap_or_default(), release.as_deref()))
}

/// The versions that an entry means: any without flags.
fn versions(
    flags: Option<&str>,
    version: impl Fn() -> Result<String, String>,
) -> Result<Option<(Comparison, String)>, String> {
    match flags {
        None | Some("") => Ok(None),
        Some(flags) => {
            let comparison = comparison(flags).ok_or_else(|| format!("the flags {flags:?}"))?;
            Ok(Some((comparison, version()?)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Requirement;

    const TEXT: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<metadata xmlns="http://linux.duke.edu/metadata/common" xmlns:rpm="http://linux.duke.edu/metadata/rpm" packages="2">
<package type="rpm">
  <name>socat</name><arch>x86_64</arch><version epoch="0" ver="1.7.4" rel="5.el9"/>
  <checksum type="sha256" pkgid="YES">00000000000000000000000000000000000000000000000000000000000000ff</checksum>
  <summary>cat &amp; sockets</summary><description>&lt;name&gt;</description>
  <size package="300" installed="900" archive="1000"/>
  <location href="Packages/socat.rpm"/>
  <format>
    <rpm:provides>
      <rpm:entry name="socat" flags="EQ" epoch="0" ver="1.7.4" rel="5.el9"/>
      <rpm:entry name="socat(x86-64)" flags="EQ" epoch="0" ver="1.7.4" rel="5.el9"/>
      <rpm:entry name="netcat"/>
    </rpm:provides>
    <rpm:requires>
      <rpm:entry name="rpmlib(RichDependencies)" flags="LE" epoch="0" ver="4.12.0" rel="1"/>
      <rpm:entry name="(a &gt;= 1 if b)"/>
      <rpm:entry name="libssl.so.3()(64bit)"/>
      <rpm:entry name="/bin/sh" pre="1"/>
    </rpm:requires>
    <rpm:recommends><rpm:entry name="docs"/></rpm:recommends>
    <rpm:obsoletes><rpm:entry name="old" flags="LT" epoch="2" ver="3"/></rpm:obsoletes>
    <file>/usr/bin/a&amp;b</file><file type="dir">/etc/socat</file>
  </format>
</package>
<package type="rpm"><name>socat</name><arch>i686</arch></package>
</metadata>"#;

    #[test]
    fn a_package_is_read_with_all_that_a_solver_asks() {
        let packages = read(TEXT.as_bytes(), RepoId(3), |arch| arch != "i686").unwrap();
        let [package] = packages.as_slice() else { panic!("{packages:?}") };
        assert_eq!(package.to_string(), "socat 1.7.4-5.el9 x86_64");
        assert_eq!((&*package.location, package.size, package.installed_size), ("Packages/socat.rpm", 300, 900));
        assert!(package.digest.hex().ends_with("ff"));
        let provides: Vec<_> = package.provides.iter().map(|provide| &*provide.name).collect();
        assert_eq!(provides, ["socat(x86-64)", "netcat"]);
        assert_eq!(package.files, ["/usr/bin/a&b".into(), "/etc/socat".into()]);
        let relations = package.relations().unwrap();
        assert!(matches!(&relations.requires[0], Requirement::If { .. }));
        assert_eq!(relations.requires.len(), 3);
        assert_eq!(relations.obsoletes[0].version, Some((Comparison::Less, "2:3".into())));
    }

    #[test]
    fn a_package_without_a_digest_is_refused() {
        for (from, to, why) in [
            ("type=\"sha256\"", "type=\"sha\"", "package socat: its checksum is sha"),
            ("<checksum", "<xchecksum", "</checksum>"),
            ("href=\"Packages/socat.rpm\"", "", "the location \"\""),
            ("href=\"Packages", "href=\"../../../../etc", "leads out of the repository"),
            ("href=\"Packages", "href=\"Packages/%2e%2e/%2E./etc", "leads out of the repository"),
            ("href=\"Packages", "href=\"http://elsewhere.example", "leads out of the repository"),
            ("href=\"Packages", "xml:base=\"file:///etc\" href=\"Packages", "http"),
            ("href=\"Packages", "xml:base=\"http://h/a/../..\" href=\"Packages", "leads out"),
            ("href=\"Packages", "xml:base=\"http://h/a\" href=\"../Packages", "leads out"),
            ("<name>socat", "<name>../socat", "the name \"../socat\""),
            ("<name>socat", "<name>--socat", "the name \"--socat\""),
            ("<name>socat", "<name>so\u{1b}cat", "the name \"so\\u{1b}cat\""),
            ("<metadata", "<filelists", "begins with <filelists>, not with <metadata>"),
            ("epoch=\"0\"", "epoch=\"x\"", "package socat has the epoch \"x\""),
            ("epoch=\"2\"", "epoch=\"-2\"", "old has the epoch \"-2\""),
            ("flags=\"LT\"", "flags=\"XX\"", "old has the flags"),
            ("name=\"netcat\"", "name=\"a&#10;b\"", "line break"),
        ] {
            let text = TEXT.replacen(from, to, 1);
            let error = read(text.as_bytes(), RepoId(0), |_| true).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
    }

    #[test]
    fn names_and_versions_that_no_package_has_are_refused() {
        let long = "x".repeat(NAME + 1);
        for (from, to, why) in [
            ("name=\"netcat\"", format!("name=\"{long}\""), "a name of more than 4096 bytes"),
            ("ver=\"3\"", format!("ver=\"{long}\""), "a version of more than 4096"),
            ("<name>socat", format!("<name>{long}"), "a name or version of more than 255 bytes"),
            ("(a &gt;= 1 if b)", format!("(a or {})", long.repeat(16)), "a name of more than 65536 bytes"),
        ] {
            let error = read(TEXT.replacen(from, &to, 1).as_bytes(), RepoId(0), |arch| arch != "i686").unwrap_err();
            assert!(error.to_string().contains(why) && error.to_string().len() < 400, "{error}");
        }
        let wide = TEXT.replacen("(a &gt;= 1 if b)", &format!("(a or {})", long[2..].repeat(8)), 1);
        assert!(read(wide.as_bytes(), RepoId(0), |arch| arch != "i686").is_ok());
    }

    #[test]
    fn an_index_that_unpacks_to_entries_without_end_is_refused_before_they_fill_the_memory() {
        // TEXT has eleven, and a dependency in parentheses of 13 bytes.
        let text = TEXT.replacen("<file>", "<file/><file>", 1);
        let of = |text: &str, most| read_within(text.as_bytes(), RepoId(0), |arch| arch != "i686", most, PACKAGES);
        assert!(of(TEXT, 14).is_ok());
        let error = of(TEXT, 13).unwrap_err().to_string();
        assert!(error.contains("more than 13 provides, relations and paths"), "{error}");
        assert!(of(&text, 14).is_err() && of(&text, 15).is_ok(), "an empty path is one, too");
        // One that names five thousand packages takes the memory of as many.
        let wide = TEXT.replacen("(a &gt;= 1 if b)", &format!("(a{})", " or a".repeat(5_000)), 1);
        assert!(of(&wide, 6_000).is_err() && of(&wide, 7_000).is_ok());
    }

    #[test]
    fn a_text_is_kept_once_however_many_elements_it_lies_in() {
        let nested = format!("{}/usr/bin/long{}", "<file>".repeat(50), "</file>".repeat(50));
        let text = TEXT.replacen("<file>/usr/bin/a&amp;b</file>", &nested, 1);
        let packages = read(text.as_bytes(), RepoId(0), |arch| arch != "i686").unwrap();
        let long = packages[0].files.iter().filter(|path| path.contains("long")).count();
        assert_eq!((long, packages[0].files.len()), (1, 51));
    }

    #[test]
    fn packages_without_end_that_say_nothing_are_refused_before_they_fill_the_memory() {
        let begin = TEXT.find("<package ").unwrap();
        let one = &TEXT[begin..TEXT.find("</package>").unwrap() + "</package>".len()];
        let of = |count: usize, most| {
            let text = format!("<metadata>{}</metadata>", one.repeat(count));
            read_within(text.as_bytes(), RepoId(0), |_| true, ENTRIES, most)
        };
        assert_eq!(of(3, 3).unwrap().len(), 3);
        assert!(of(4, 3).unwrap_err().to_string().contains("more than 3 packages"));
    }

    #[test]
    fn a_base_of_its_own_makes_a_whole_address_and_a_slash_before_a_path_nothing() {
        for (href, location) in [
            ("xml:base=\"https://h/b/\" href=\"/socat.rpm\"", "https://h/b/socat.rpm"),
            ("xml:base=\"media\" href=\"a/socat.rpm\"", "a/socat.rpm"),
            ("href=\"//etc/socat.rpm\"", "etc/socat.rpm"),
            ("href=\"a..b/..socat:1.rpm\"", "a..b/..socat:1.rpm"),
        ] {
            let text = TEXT.replacen("href=\"Packages/socat.rpm\"", href, 1);
            let packages = read(text.as_bytes(), RepoId(0), |arch| arch != "i686").unwrap();
            assert_eq!(&*packages[0].location, location);
        }
    }
}
