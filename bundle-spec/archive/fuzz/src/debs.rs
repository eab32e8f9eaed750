//! What repositories of Debian's family say, and the packages themselves.

use std::cmp::Ordering;

use kubexm_packages::deb::listing::Listing;
use kubexm_packages::deb::publish::{Entry, packages};
use kubexm_packages::deb::release::{Release, format_date, parse_date};
use kubexm_packages::deb::{archive, index, relation, status, version};
use kubexm_packages::model::RepoId;
use kubexm_spec::Digest;

/// Release: what it lists is found again, by paths that stay below the suite where it lists such.
pub(crate) fn release(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(release) = Release::parse(&text) else { return };
    for component in release.components.iter().map(String::as_str).chain(["main", ""]) {
        for index in release.indexes(component, "amd64").into_iter().flatten().chain(release.flat_index()) {
            assert!(!index.paths.is_empty() && release.files.values().any(|listed| *listed == index.packed));
        }
    }
    for date in release.date.into_iter().chain(release.valid_until) {
        assert_eq!(parse_date(&format_date(date)), Some(date));
    }
}

/// Packages, read paragraph by paragraph and as one text, which give the same; and dpkg's status.
pub(crate) fn index(bytes: &[u8]) {
    let (read, listing) = (index::read(bytes, RepoId(0), "amd64"), Listing::read(bytes.to_vec(), "amd64"));
    assert_eq!(read.as_ref().err().map(ToString::to_string), listing.as_ref().err().map(ToString::to_string));
    let mut packages = read.unwrap_or_default();
    packages.sort_by(|one, other| one.name.cmp(&other.name));
    let listed = listing.iter().flat_map(|listing| (0..listing.len()).map(|at| listing.package(at, RepoId(0))));
    assert!(listed.eq(packages.iter().cloned()));
    for package in packages {
        assert!(!package.name.is_empty() && !package.location.starts_with('/'));
        assert!(package.location.split('/').all(|part| part != ".."), "{}", package.location);
        let _ = package.relations();
    }
    for installed in status::read(bytes, "amd64").into_iter().flatten() {
        let _ = installed.package.relations();
    }
}

/// Fields of relations, and versions: a text and its other half have one order.
pub(crate) fn relation(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = (relation::parse(&text), relation::parse_source(&text, "arm64"), relation::parse_provides(&text, "amd64"));
    let (one, other) = text.split_at(text.floor_char_boundary(text.len() / 2));
    let order = version::compare(one, other);
    assert_eq!(version::compare(other, one), order.reverse());
    assert_eq!(version::compare(one, one), Ordering::Equal);
    let _ = version::is_valid(&text);
}

/// A package's control paragraph: what is published of it is one package again.
pub(crate) fn archive(bytes: &[u8]) {
    let Ok(control) = archive::control(bytes) else { return };
    let entry = Entry { control, file_name: "a.deb".to_owned(), size: 1, digest: Digest::of(bytes) };
    let Ok(text) = packages(&[entry]) else { return };
    let listed = index::read(text.as_bytes(), RepoId(0), "amd64").into_iter().flatten().collect::<Vec<_>>();
    assert!(listed.len() <= 1 && listed.iter().all(|package| &*package.location == "a.deb"), "{text}");
}
