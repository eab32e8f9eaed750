//! `filelists.xml`: the paths that primary does not list, read only when one of them is needed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;

use kubexm_spec::Digest;

use super::xml::{Document, DocumentError, Node, sha256};
use crate::model::{Package, RelationError, Requirement};

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

/// More files that packages need are in no repository: each is named by some package's requirement.
const MOST: usize = 1_000_000;

/// Which of the wanted paths each package has, by the digest of its file.
pub fn read(
    reader: impl BufRead,
    wanted: &BTreeSet<Box<str>>,
) -> Result<BTreeMap<Digest, BTreeSet<Box<str>>>, DocumentError> {
    let mut document = Document::new("filelists.xml", "filelists", reader);
    let (mut found, mut entries) = (BTreeMap::<Digest, BTreeSet<Box<str>>>::new(), 0);
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
                        entries += 1;
                        if entries > MOST {
                            return Err(document.wrong(format!("it has more than {MOST} files that packages need")));
                        }
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

/// Adds what [`read`] found to the packages.
pub fn add(packages: &mut [Package], found: &BTreeMap<Digest, BTreeSet<Box<str>>>) {
    for package in packages {
        for path in found.get(&package.digest).into_iter().flatten() {
            if !package.files.contains(path) {
                package.files.push(path.clone());
            }
        }
    }
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
    fn paths_in_primary_are_distinguished_from_the_others() {
        for path in ["/usr/bin/perl", "/bin/sh", "/usr/sbin/ip", "/etc/passwd", "/usr/lib/sendmail", "/opt/x/bin/y"] {
            assert!(in_primary(path), "{path}");
        }
        for path in ["/usr/share/x", "/usr/lib64/a.so", "/etc", "/usr/libexec/x"] {
            assert!(!in_primary(path), "{path}");
        }
    }
}
