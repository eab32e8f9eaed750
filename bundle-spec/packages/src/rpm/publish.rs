//! The metadata of a repository of our own: `repodata/`, as yum 3 and dnf read it. The same packages and date give the same
//! bytes.
//!
//! What packages recommend is left out: nothing of it was resolved. Packages of modules carry their label and the repository no
//! `modules.yaml`, so its `.repo` file needs `module_hotfixes=1`.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use kubexm_spec::Digest;

use super::file::{File, FileKind, Rpm};
use super::filelists::in_primary;
use super::header::HeaderError;
use super::tag;
use super::version::{self, Evr};
use crate::compression::gzip;
use crate::model::{Comparison, Provide};

/// A package that is to be listed.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// What it says of itself.
    pub rpm: &'a Rpm,
    /// Below the folder of the repository: `socat-1.7.4-5.el9.x86_64.rpm`.
    pub location: &'a str,
    /// Of the file, in bytes.
    pub size: u64,
    /// Of the file.
    pub digest: Digest,
}

/// A file of the repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Below the folder of the repository: `repodata/…-primary.xml.gz`.
    pub path: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// The metadata of these packages, dated `date` (seconds of Unix time). The last file is `repodata/repomd.xml`, which is
/// what is signed and what must be put into place last.
pub fn metadata(items: &[Item<'_>], date: u64) -> Result<Vec<Written>, HeaderError> {
    let Texts { primary, filelists, other } = texts(items, date, in_primary)?;
    let pack = |text: String| (gzip(text.as_bytes()), text);
    let all = [("primary", pack(primary)), ("filelists", pack(filelists)), ("other", pack(other))];
    Ok(index(all, "xml.gz", date))
}

/// The same as texts, and primary alone: it has every path that one of the packages needs, so that no other list is
/// needed.
pub fn plain(items: &[Item<'_>], date: u64) -> Result<Vec<Written>, HeaderError> {
    let mut wanted = BTreeSet::new();
    for item in items {
        let requires = item.rpm.dependencies(tag::REQUIRES)?;
        // A path is in a boolean dependency, too.
        let words = requires.iter().flat_map(|one| one.name.split([' ', '(', ')']));
        wanted.extend(words.filter(|word| word.starts_with('/')).map(str::to_owned));
    }
    let Texts { primary, .. } = texts(items, date, |path| in_primary(path) || wanted.contains(path))?;
    Ok(index([("primary", (primary.clone().into_bytes(), primary))], "xml", date))
}

struct Texts {
    primary: String,
    filelists: String,
    other: String,
}

fn texts(items: &[Item<'_>], date: u64, in_primary: impl Fn(&str) -> bool) -> Result<Texts, HeaderError> {
    let mut listed = Vec::new();
    for item in items {
        let evr = item.rpm.version();
        listed.push((item.rpm.main.text(tag::NAME).unwrap_or_default().into_owned(), evr, item.rpm.arch(), *item));
    }
    listed.sort_by(|one, other| {
        (one.0.cmp(&other.0))
            .then_with(|| version::compare(&one.1, &other.1))
            .then_with(|| (&one.2, one.3.location).cmp(&(&other.2, other.3.location)))
    });
    let count = listed.len();
    let mut primary = format!(
        "{XML}<metadata xmlns=\"http://linux.duke.edu/metadata/common\" xmlns:rpm=\"http://linux.duke.edu/metadata/rpm\" \
         packages=\"{count}\">\n"
    );
    let mut filelists =
        format!("{XML}<filelists xmlns=\"http://linux.duke.edu/metadata/filelists\" packages=\"{count}\">\n");
    let mut other = format!("{XML}<otherdata xmlns=\"http://linux.duke.edu/metadata/other\" packages=\"{count}\">\n");
    for (name, evr, arch, item) in &listed {
        let files = item.rpm.files()?;
        describe(&mut primary, item, (name, evr, arch), files.iter().filter(|file| in_primary(&file.path)), date)?;
        let head = format!(
            "<package pkgid=\"{}\" name=\"{}\" arch=\"{}\">\n  <version {}/>\n",
            item.digest.hex(),
            escaped(name),
            escaped(arch),
            attributes(evr)
        );
        filelists.push_str(&head);
        list(&mut filelists, files.iter());
        filelists.push_str("</package>\n");
        other.push_str(&head);
        other.push_str("</package>\n");
    }
    primary.push_str("</metadata>\n");
    filelists.push_str("</filelists>\n");
    other.push_str("</otherdata>\n");
    Ok(Texts { primary, filelists, other })
}

/// Each list as it is served, with its text, and `repodata/repomd.xml`, which names them.
fn index<const N: usize>(lists: [(&str, (Vec<u8>, String)); N], suffix: &str, date: u64) -> Vec<Written> {
    let mut written = Vec::new();
    let mut repomd = format!(
        "{XML}<repomd xmlns=\"http://linux.duke.edu/metadata/repo\" xmlns:rpm=\"http://linux.duke.edu/metadata/rpm\">\n  \
         <revision>{date}</revision>\n"
    );
    for (kind, (bytes, text)) in lists {
        let (packed, open) = (Digest::of(&bytes), Digest::of(text.as_bytes()));
        let path = format!("repodata/{}-{kind}.{suffix}", packed.hex());
        push(
            &mut repomd,
            format_args!(
                "  <data type=\"{kind}\">\n    <checksum type=\"sha256\">{}</checksum>\n    \
                 <open-checksum type=\"sha256\">{}</open-checksum>\n    <location href=\"{path}\"/>\n    \
                 <timestamp>{date}</timestamp>\n    <size>{}</size>\n    <open-size>{}</open-size>\n  </data>\n",
                packed.hex(),
                open.hex(),
                bytes.len(),
                text.len()
            ),
        );
        written.push(Written { path, bytes });
    }
    repomd.push_str("</repomd>\n");
    written.push(Written { path: "repodata/repomd.xml".to_owned(), bytes: repomd.into_bytes() });
    written
}

const XML: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";

fn describe<'f>(
    xml: &mut String,
    item: &Item<'_>,
    (name, evr, arch): (&str, &str, &str),
    files: impl Iterator<Item = &'f File>,
    date: u64,
) -> Result<(), HeaderError> {
    let rpm = item.rpm;
    let text = |tag| escaped(&rpm.main.text(tag).unwrap_or_default());
    let number = |tag| rpm.main.number(tag).unwrap_or(0);
    push(
        xml,
        format_args!(
            "<package type=\"rpm\">\n  <name>{}</name>\n  <arch>{}</arch>\n  <version {}/>\n  \
             <checksum type=\"sha256\" pkgid=\"YES\">{}</checksum>\n  <summary>{}</summary>\n  \
             <description>{}</description>\n  <packager>{}</packager>\n  <url>{}</url>\n  \
             <time file=\"{date}\" build=\"{}\"/>\n  <size package=\"{}\" installed=\"{}\" archive=\"{}\"/>\n  \
             <location href=\"{}\"/>\n  <format>\n",
            escaped(name),
            escaped(arch),
            attributes(evr),
            item.digest.hex(),
            text(tag::SUMMARY),
            text(tag::DESCRIPTION),
            text(tag::PACKAGER),
            text(tag::URL),
            number(tag::BUILDTIME),
            item.size,
            rpm.installed_size(),
            number(tag::ARCHIVESIZE),
            escaped(item.location),
        ),
    );
    push(
        xml,
        format_args!(
            "    <rpm:license>{}</rpm:license>\n    <rpm:vendor>{}</rpm:vendor>\n    <rpm:group>{}</rpm:group>\n    \
             <rpm:buildhost>{}</rpm:buildhost>\n    <rpm:sourcerpm>{}</rpm:sourcerpm>\n    \
             <rpm:header-range start=\"{}\" end=\"{}\"/>\n",
            text(tag::LICENSE),
            text(tag::VENDOR),
            text(tag::GROUP),
            text(tag::BUILDHOST),
            text(tag::SOURCERPM),
            rpm.range.0,
            rpm.range.1,
        ),
    );
    for (kind, tags) in [
        ("provides", tag::PROVIDES),
        ("requires", tag::REQUIRES),
        ("conflicts", tag::CONFLICTS),
        ("obsoletes", tag::OBSOLETES),
    ] {
        entries(xml, kind, &rpm.dependencies(tags)?);
    }
    list(xml, files);
    xml.push_str("  </format>\n</package>\n");
    Ok(())
}

fn entries(xml: &mut String, kind: &str, dependencies: &[Provide]) {
    let (mut lines, mut seen) = (String::new(), BTreeSet::new());
    for dependency in dependencies {
        let mut line = format!("      <rpm:entry name=\"{}\"", escaped(&dependency.name));
        if let Some((comparison, version)) = &dependency.version {
            push(&mut line, format_args!(" flags=\"{}\" {}", flags(*comparison), attributes(version)));
        }
        line.push_str("/>\n");
        // rpm itself is no package; one that is needed for several steps of an install is one.
        if !dependency.name.starts_with("rpmlib(") && !seen.contains(&line) {
            lines.push_str(&line);
            seen.insert(line);
        }
    }
    if !lines.is_empty() {
        push(xml, format_args!("    <rpm:{kind}>\n{lines}    </rpm:{kind}>\n"));
    }
}

fn list<'a>(xml: &mut String, files: impl Iterator<Item = &'a File>) {
    for file in files {
        let kind = match file.kind {
            FileKind::File => "",
            FileKind::Folder => " type=\"dir\"",
            FileKind::Ghost => " type=\"ghost\"",
        };
        push(xml, format_args!("    <file{kind}>{}</file>\n", escaped(&file.path)));
    }
}

const fn flags(comparison: Comparison) -> &'static str {
    match comparison {
        Comparison::Less => "LT",
        Comparison::LessOrEqual => "LE",
        Comparison::Equal => "EQ",
        Comparison::GreaterOrEqual => "GE",
        Comparison::Greater => "GT",
    }
}

/// `epoch="0" ver="1.7.4" rel="5.el9"`; yum 3 wants the epoch.
fn attributes(evr: &str) -> String {
    let evr = Evr::parse(evr);
    let epoch = if evr.epoch.is_empty() { "0" } else { evr.epoch };
    let mut attributes = format!("epoch=\"{}\" ver=\"{}\"", escaped(epoch), escaped(evr.version));
    if let Some(release) = evr.release {
        push(&mut attributes, format_args!(" rel=\"{}\"", escaped(release)));
    }
    attributes
}

/// As XML, without what XML cannot say (section 2.2 of its 1.0).
fn escaped(text: &str) -> String {
    let said = |c: &char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..);
    let text: String = text.chars().filter(said).collect();
    quick_xml::escape::escape(text.as_str()).into_owned()
}

fn push(xml: &mut String, text: std::fmt::Arguments<'_>) {
    // A String takes whatever is written to it.
    let _ = xml.write_fmt(text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compression::all_unpacked;
    use crate::model::RepoId;
    use crate::rpm::{filelists, primary, repomd::Repomd};

    const ALPHA: &[u8] = include_bytes!("../../tests/data/alpha-2.0-3.el9.noarch.rpm");

    #[test]
    fn what_is_written_reads_back_as_the_packages_were() {
        let rpm = Rpm::read(&mut &ALPHA[..]).unwrap();
        let item = Item { rpm: &rpm, location: "alpha.rpm", size: 6471, digest: Digest::of(ALPHA) };
        let written = metadata(&[item], 1_700_000_000).unwrap();
        assert_eq!(written, metadata(&[item], 1_700_000_000).unwrap(), "the same input gave other bytes");
        let of = |path: &str| written.iter().find(|file| file.path == path).unwrap().bytes.as_slice();
        assert_eq!(written.last().unwrap().path, "repodata/repomd.xml");

        let repomd = Repomd::read(of("repodata/repomd.xml")).unwrap();
        assert_eq!((repomd.revision.as_str(), repomd.made()), ("1700000000", Some(1_700_000_000)));
        let text = |kind: &str| {
            let data = repomd.get(kind).unwrap();
            assert_eq!(data.wanted().unwrap(), Digest::of(of(&data.location)));
            let text = all_unpacked(of(&data.location), 100_000).unwrap();
            assert_eq!((data.open_digest, data.open_size), (Some(Digest::of(&text)), Some(text.len() as u64)));
            text
        };
        let mut read = primary::read(text("primary").as_slice(), RepoId(0), |_| true).unwrap();
        let wanted = ["/usr/share/alpha".into(), "/usr/share/alpha/f".into()].into();
        filelists::add(&mut read, &filelists::read(text("filelists").as_slice(), &wanted).unwrap()).unwrap();
        assert_eq!(read, [rpm.package(RepoId(0), "alpha.rpm", 6471, Digest::of(ALPHA)).unwrap()]);
        assert!(!text("other").is_empty());
    }

    #[test]
    fn texts_alone_have_every_path_that_a_package_needs_and_no_other_list() {
        let rpm = Rpm::read(&mut &ALPHA[..]).unwrap();
        let item = Item { rpm: &rpm, location: "alpha.rpm", size: 6471, digest: Digest::of(ALPHA) };
        let written = plain(&[item], 1_700_000_000).unwrap();
        let [list, repomd] = written.as_slice() else { panic!("{} files", written.len()) };
        let data = Repomd::read(repomd.bytes.as_slice()).unwrap().get("primary").unwrap().clone();
        assert_eq!((&data.location, data.wanted().unwrap()), (&list.path, Digest::of(&list.bytes)));
        let read = primary::read(list.bytes.as_slice(), RepoId(0), |_| true).unwrap();
        let mut whole = rpm.package(RepoId(0), "alpha.rpm", 6471, Digest::of(ALPHA)).unwrap();
        whole.files.retain(|path| in_primary(path));
        assert_eq!(read, [whole.clone()]);

        // As if another package needed a file of it.
        let wanted = texts(&[item], 1_700_000_000, |path| in_primary(path) || path == "/usr/share/alpha/f").unwrap();
        let read = primary::read(wanted.primary.as_bytes(), RepoId(0), |_| true).unwrap();
        assert!(read[0].files.contains(&"/usr/share/alpha/f".into()), "{:?}", read[0].files);
    }

    #[test]
    fn characters_that_xml_cannot_hold_are_left_out() {
        assert_eq!(escaped("a\u{1}<b>&\"\u{1b}[0m\n\u{ffff}"), "a&lt;b&gt;&amp;&quot;[0m\n");
    }
}
