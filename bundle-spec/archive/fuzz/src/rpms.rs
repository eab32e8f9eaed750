//! What repositories of Red Hat's family say, and the packages themselves.

use std::collections::BTreeSet;

use kubexm_packages::model::RepoId;
use kubexm_packages::rpm::file::Rpm;
use kubexm_packages::rpm::modules::Modules;
use kubexm_packages::rpm::publish::{Item, metadata};
use kubexm_packages::rpm::repomd::Repomd;
use kubexm_packages::rpm::streams::Choice;
use kubexm_packages::rpm::{dependency, filelists, mirrors, primary, version};
use kubexm_spec::Digest;

/// repomd.xml, filelists.xml, metalinks and lists of mirrors.
pub(crate) fn documents(bytes: &[u8]) {
    if let Ok(repomd) = Repomd::read(bytes) {
        let _ = (repomd.made(), repomd.data.iter().filter(|data| data.wanted().is_ok()).count());
    }
    let wanted: BTreeSet<Box<str>> = ["/usr/share/a".into(), "".into()].into();
    if let Ok(found) = filelists::read(bytes, &wanted) {
        assert!(found.values().flatten().all(|path| wanted.contains(path)));
    }
    if let Ok(metalink) = mirrors::metalink(bytes) {
        assert!(!metalink.repomd.is_empty() && metalink.mirrors.iter().all(|url| url.starts_with("http")));
    }
    for base in mirrors::mirrorlist(&String::from_utf8_lossy(bytes)) {
        assert!(base.starts_with("http") && !base.contains('\n'));
    }
}

/// primary.xml.
pub(crate) fn primary(bytes: &[u8]) {
    let Ok(packages) = primary::read(bytes, RepoId(0), |_| true) else { return };
    for package in &packages {
        assert!(
            !package.name.is_empty() && !package.name.contains('/') && !package.location.contains(char::is_control)
        );
        let _ = package.relations();
    }
    let _ = filelists::wanted(&packages);
}

/// modules.yaml.
pub(crate) fn modules(bytes: &[u8]) {
    let Ok(modules) = Modules::read(&String::from_utf8_lossy(bytes)) else { return };
    for enabled in [&[][..], &[("db", "10")]] {
        let choice = Choice { arch: "x86_64", platform: Some("el8"), enabled, hotfixes: &[] };
        if let Ok(visible) = modules.visible(Vec::new(), &choice) {
            assert!(visible.is_empty());
        }
    }
}

/// A package up to its payload.
pub(crate) fn header(bytes: &[u8]) {
    let mut left = bytes;
    let Ok(rpm) = Rpm::read(&mut left) else { return };
    assert_eq!(rpm.range.1, (bytes.len() - left.len()) as u64, "more was read than the headers");
    let digest = Digest::of(bytes);
    let _ = (rpm.payload(), rpm.package(RepoId(0), "a.rpm", 1, digest).map(|package| package.relations()));
    let item = Item { rpm: &rpm, location: "a.rpm", size: 1, digest };
    if let Ok(files) = metadata(&[item], 1) {
        Repomd::read(files.last().unwrap().bytes.as_slice()).unwrap();
    }
}

/// Dependencies as they are written, and versions, one a line.
pub(crate) fn dependency(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = (dependency::parse(&text), dependency::relations(&text));
    let mut lines = text.lines();
    if let (Some(one), Some(other)) = (lines.next(), lines.next()) {
        let order = version::compare(one, other);
        assert_eq!(order, version::compare(other, one).reverse(), "{one} {other}");
        assert!(version::compare(one, one).is_eq());
    }
}
