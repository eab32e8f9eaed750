//! `filelists.xml`: the paths that primary does not list, read only when one of them is needed.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::BufRead;

use kubexm_spec::Digest;

use super::xml::{Document, DocumentError, Node, sha256};
use crate::model::{Package, RelationError, Requirement};

const NAME: &str = "filelists.xml";

/// Whether primary lists a path: what lies in a folder whose name ends in `bin`, below `/etc`, and sendmail, as createrepo does.
pub fn in_primary(path: &str) -> bool {
    path.starts_with("/etc/") || path.contains("bin/") || path == "/usr/lib/sendmail"
}

/// The paths that the packages need and that only filelists has.
pub fn wanted(packages: &[Package]) -> Result<BTreeSet<Box<str>>, RelationError> {
    let mut paths = BTreeSet::new();
    for package in packages {
        for requirement in &package.relations()?.requires {
            each(requirement, &mut |name| {
                if name.starts_with('/') && !in_primary(name) && !paths.contains(name) {
                    paths.insert(name.into());
                }
            });
        }
    }
    Ok(paths)
}

/// Calls with every name in a requirement.
fn each(requirement: &Requirement, call: &mut impl FnMut(&str)) {
    match requirement {
        Requirement::One(constraint) => call(&constraint.name),
        Requirement::All(all) | Requirement::Any(all) | Requirement::With(all) => {
            all.iter().for_each(|one| each(one, call));
        }
        Requirement::If { condition, then, otherwise } | Requirement::Unless { condition, then, otherwise } => {
            each(condition, call);
            each(then, call);
            otherwise.iter().for_each(|one| each(one, call));
        }
        Requirement::Without(one, other) => {
            each(one, call);
            each(other, call);
        }
    }
}

/// More files that packages need are in no repository: each is named by some package's requirement. EL's have some ten thousand.
const MOST: usize = 1_000_000;
/// Of all their paths, in bytes: 256 for each, and real ones have some 60.
const MOST_BYTES: usize = 256 << 20;

/// What may still be kept.
struct Room {
    files: usize,
    bytes: usize,
}

impl Room {
    const fn new() -> Self {
        Self { files: MOST, bytes: MOST_BYTES }
    }

    /// Takes one path; the error says that there are too many.
    fn take(&mut self, path: &str) -> Result<(), String> {
        match (self.files.checked_sub(1), self.bytes.checked_sub(path.len())) {
            (Some(files), Some(bytes)) => {
                *self = Self { files, bytes };
                Ok(())
            }
            _ => {
                let most = MOST_BYTES >> 20;
                Err(format!("it has more than {MOST} files that packages need, or {most} MiB of their paths"))
            }
        }
    }
}

/// Which of the wanted paths each package has, by the digest of its file.
pub fn read(
    reader: impl BufRead,
    wanted: &BTreeSet<Box<str>>,
) -> Result<BTreeMap<Digest, BTreeSet<Box<str>>>, DocumentError> {
    read_within(reader, wanted, Room::new())
}

fn read_within(
    reader: impl BufRead,
    wanted: &BTreeSet<Box<str>>,
    mut room: Room,
) -> Result<BTreeMap<Digest, BTreeSet<Box<str>>>, DocumentError> {
    let mut document = Document::new(NAME, "filelists", reader);
    let mut found = BTreeMap::<Digest, BTreeSet<Box<str>>>::new();
    let (mut package, mut in_file, mut text) = (None, false, String::new());
    loop {
        match document.next()? {
            Node::Open(element) => {
                in_file = element.name() == "file";
                if element.name() == "package" {
                    let id = element.attribute("pkgid")?.unwrap_or_default();
                    // A repository with weak checksums was refused with its primary.
                    package = sha256("sha256", &id).ok();
                }
                text.clear();
            }
            Node::Text(more) if in_file => text.push_str(&more),
            Node::Close(element) if element.name() == "file" => {
                if let (Some(package), Some(path)) = (package, wanted.get(text.as_str())) {
                    let paths = found.entry(package).or_default();
                    if !paths.contains(path) {
                        room.take(path).map_err(|why| document.wrong(why))?;
                        paths.insert(path.clone());
                    }
                }
                in_file = false;
            }
            Node::End => return Ok(found),
            _ => {}
        }
    }
}

/// Adds what [`read`] found to the packages. Several may have one digest, and each gets all of its paths: so they are counted again.
pub fn add(packages: &mut [Package], found: &BTreeMap<Digest, BTreeSet<Box<str>>>) -> Result<(), DocumentError> {
    add_within(packages, found, Room::new())
}

fn add_within(
    packages: &mut [Package],
    found: &BTreeMap<Digest, BTreeSet<Box<str>>>,
    mut room: Room,
) -> Result<(), DocumentError> {
    for package in packages {
        let Some(paths) = found.get(&package.digest) else { continue };
        let there: HashSet<&str> = package.files.iter().map(|path| &**path).collect();
        let mut new = Vec::new();
        for path in paths.iter().filter(|path| !there.contains(&***path)) {
            room.take(path).map_err(|why| DocumentError { document: NAME, why, at: 0 })?;
            new.push(path.clone());
        }
        package.files.extend(new);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_wanted_paths_are_taken() {
        let text = "<filelists><package pkgid=\"00000000000000000000000000000000000000000000000000000000000000ff\" name=\"a\">\
                    <version ver=\"1\"/><file>/usr/share/a&amp;b</file><file type=\"dir\">/usr/share</file>\
                    <file>/other</file></package></filelists>";
        let wanted = BTreeSet::from(["/usr/share/a&b".into(), "/usr/share".into()]);
        let found = read(text.as_bytes(), &wanted).unwrap();
        assert_eq!(found.into_values().collect::<Vec<_>>(), [wanted]);
    }

    #[test]
    fn more_paths_than_packages_can_need_are_refused_while_they_are_read() {
        let package = |id: u32| {
            // A path that is listed twice is kept, and counted, once.
            let files = "<file>/x/1</file><file>/x/2</file><file>/x/2</file><file>/other</file>";
            format!("<package pkgid=\"{id:064}\" name=\"a\"><version ver=\"1\"/>{files}</package>")
        };
        let text = format!("<filelists>{}</filelists>", (0..50).map(package).collect::<String>());
        let wanted = BTreeSet::from(["/x/1".into(), "/x/2".into()]);
        let read = |files, bytes| read_within(text.as_bytes(), &wanted, Room { files, bytes });
        assert_eq!(read(100, 400).unwrap().len(), 50);
        for (files, bytes) in [(99, 400), (100, 399)] {
            let error = read(files, bytes).unwrap_err();
            assert!(error.to_string().contains("more than 1000000 files that packages need"), "{error}");
        }
    }

    #[test]
    fn what_many_packages_of_one_digest_get_is_counted_for_each() {
        let text = "<metadata><package type=\"rpm\"><name>a</name><arch>noarch</arch><version ver=\"1\" rel=\"1\"/>\
                    <checksum type=\"sha256\">00000000000000000000000000000000000000000000000000000000000000ff</checksum>\
                    <location href=\"a.rpm\"/><format><file>/x/1</file></format></package></metadata>";
        let one = crate::rpm::primary::read(text.as_bytes(), crate::model::RepoId(0), |_| true).unwrap().remove(0);
        let found = BTreeMap::from([(one.digest, BTreeSet::from(["/x/1".into(), "/x/2".into(), "/x/3".into()]))]);
        let mut packages = vec![one; 50];
        let more = add_within(&mut packages.clone(), &found, Room { files: 99, bytes: 1000 }).unwrap_err();
        assert!(more.to_string().contains("more than 1000000 files that packages need"), "{more}");
        assert!(add_within(&mut packages.clone(), &found, Room { files: 100, bytes: 399 }).is_err());
        add_within(&mut packages, &found, Room { files: 100, bytes: 400 }).unwrap();
        assert_eq!(packages[49].files, ["/x/1".into(), "/x/2".into(), "/x/3".into()]);
    }

    #[test]
    fn paths_in_primary_are_distinguished_from_the_others() {
        for path in ["/usr/bin/perl", "/bin/sh", "/usr/sbin/ip", "/etc/passwd", "/usr/lib/sendmail", "/opt/x/bin/y"] {
            assert!(in_primary(path), "{path}");
        }
        for path in ["/usr/share/x", "/usr/lib64/a.so", "/etc", "/usr/libexec/x"] {
            assert!(!in_primary(path), "{path}");
        }
    }
}
