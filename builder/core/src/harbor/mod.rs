//! Harbor's offline installer carries its images itself, as one `docker save` inside its archive
//! (goharbor/harbor, `make package_offline`). What is in there is read once it is here and compared with the catalogue's list.

mod error;

use std::collections::BTreeSet;
use std::io::{self, Read};

use flate2::read::MultiGzDecoder;
use kubexm_manifests::{Catalogue, Requirements};
use kubexm_spec::event::EventKind;
use kubexm_spec::lock::Content;
use kubexm_spec::tar_headers::LimitedHeaders;
use kubexm_spec::{ArtifactKey, Digest, Lock, Program, Reference};
use kubexm_transport::Store;
use serde::Deserialize;

pub use self::error::HarborError;
use crate::arrivals::Arrivals;
use crate::base::Base;
use crate::origins::Origins;
use crate::resolve::Resolution;
use crate::{BuildError, Report, fetch};

/// The most bytes of the installer, unpacked; the real ones have less than one GiB.
const INSTALLER_LIMIT: u64 = 8 << 30;
/// The most bytes of the images inside, unpacked; the real ones have some two GiB.
const IMAGES_LIMIT: u64 = 32 << 30;
/// The most bytes of the list.
const LIST_LIMIT: u64 = 1 << 20;
/// The most members of either archive.
const MEMBERS_LIMIT: usize = 100_000;

/// What an installer has and the catalogue does not list, and the other way round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// In the archive, and in no list.
    pub unlisted: Vec<String>,
    /// In the list, and not in the archive.
    pub absent: Vec<String>,
}

impl Differences {
    /// Whether archive and list are one.
    pub fn is_empty(&self) -> bool {
        self.unlisted.is_empty() && self.absent.is_empty()
    }
}

/// Brings the installers of a lock here before anything is packed, unless a base has them: what is in them is looked at next.
pub async fn bring(
    lock: &Lock,
    resolution: &Resolution,
    base: Option<&Base>,
    origins: &Origins,
    jobs: usize,
    report: Report<'_>,
) -> Result<(), BuildError> {
    let harbor = |key: &ArtifactKey| *key == ArtifactKey::Binary(Program::Harbor);
    let pairs = lock.items.iter().zip(&resolution.items).filter(|(item, _)| harbor(&item.key));
    let (items, resolved): (Vec<_>, Vec<_>) = pairs.map(|(item, resolved)| (item.clone(), resolved.clone())).unzip();
    if items.is_empty() {
        return Ok(());
    }
    let (name, kubernetes, zone) = (lock.name.clone(), lock.kubernetes.clone(), lock.zone.clone());
    let only = Lock {
        schema: lock.schema.clone(),
        name,
        kubernetes,
        zone,
        items,
        renderings: Vec::new(),
        packages: Vec::new(),
    };
    let (name, kubernetes) = (resolution.name.clone(), resolution.kubernetes.clone());
    let resolution = Resolution { name, kubernetes, zone: resolution.zone.clone(), items: resolved };
    fetch::fetch(&only, &resolution, base, origins, jobs, &Arrivals::default(), report).await
}

/// Holds every installer of a lock that is in the store against the catalogue; differences are reported as warnings, since the
/// archive is what its digest says and carries what it carries.
pub fn check(
    lock: &Lock,
    requirements: &Requirements,
    catalogue: &Catalogue,
    store: &Store,
    report: Report<'_>,
) -> Result<(), BuildError> {
    let version = requirements.versions.as_ref().and_then(|versions| versions.of(Program::Harbor));
    let name = Program::Harbor.name();
    let feature = catalogue.features.values().find(|feature| feature.inside.as_deref() == Some(name));
    for item in lock.items.iter().filter(|item| item.key == ArtifactKey::Binary(Program::Harbor)) {
        let Content::File { digest, .. } = &item.content else { continue };
        if !store.contains(digest) {
            continue;
        }
        let found =
            listed(digest, store).map_err(|problem| BuildError::Harbor(HarborError { item: item.name(), problem }))?;
        let (Some(feature), Some(version)) = (feature, version) else { continue };
        let differences = compare(&found, &feature.references(version));
        if !differences.is_empty() {
            report(EventKind::Warning { text: text(&item.name(), version, &differences) });
        }
    }
    Ok(())
}

fn text(item: &str, version: &str, differences: &Differences) -> String {
    let list = |names: &[String]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    format!(
        "{item}: the images in the installer are not those that the catalogue lists for Harbor {version}; in the installer only: {}; in \
         the catalogue only: {}",
        list(&differences.unlisted),
        list(&differences.absent)
    )
}

/// What the one has and the other has not.
pub fn compare(found: &BTreeSet<String>, listed: &[String]) -> Differences {
    let full = |name: &String| Reference::read(name).map_or_else(|| name.clone(), |name| name.to_string());
    let listed: BTreeSet<String> = listed.iter().map(full).collect();
    Differences {
        unlisted: found.difference(&listed).cloned().collect(),
        absent: listed.difference(found).cloned().collect(),
    }
}

/// The images of an installer of the store; they are read once.
fn listed(digest: &Digest, store: &Store) -> Result<BTreeSet<String>, String> {
    let note = format!("harbor images {digest}");
    if let Ok(Some(recorded)) = store.recorded(&note)
        && let Ok(images) = serde_json::from_str(&recorded)
    {
        return Ok(images);
    }
    let file = store.open_blob(digest).map_err(|e| e.to_string())?;
    let found = images(io::BufReader::with_capacity(1 << 20, file))?;
    if let Ok(text) = serde_json::to_string(&found) {
        // What cannot be noted is read again.
        let _ = store.note(&note, &text);
    }
    Ok(found)
}

#[derive(Deserialize)]
struct Saved {
    #[serde(rename = "RepoTags", default)]
    tags: Option<Vec<String>>,
}

/// The images of an installer by full name, read as a stream; nothing is unpacked to the disk.
pub fn images(installer: impl Read) -> Result<BTreeSet<String>, String> {
    let outer = MultiGzDecoder::new(installer).take(INSTALLER_LIMIT);
    let mut found = None;
    each(outer, |name, entry| {
        let file = name.rsplit('/').next().unwrap_or(name);
        let is_images = file.starts_with("harbor.") && (file.ends_with(".tar.gz") || file.ends_with(".tgz"));
        if is_images {
            found = Some(saved(MultiGzDecoder::new(entry).take(IMAGES_LIMIT))?);
        }
        Ok(found.is_some())
    })?;
    found.ok_or_else(|| "it has no harbor.VERSION.tar.gz".to_owned())
}

/// What `docker save` lists in its manifest.json (docker, image/spec/v1.2: "Combined Image JSON + Filesystem Changeset Format").
fn saved(archive: impl Read) -> Result<BTreeSet<String>, String> {
    let mut list = None;
    each(archive, |name, entry| {
        if name != "manifest.json" {
            return Ok(false);
        }
        let mut text = Vec::new();
        entry.take(LIST_LIMIT + 1).read_to_end(&mut text).map_err(|e| e.to_string())?;
        if text.len() as u64 > LIST_LIMIT {
            return Err(format!("the list of its images has more than {LIST_LIMIT} bytes"));
        }
        let saved: Vec<Saved> =
            serde_json::from_slice(&text).map_err(|e| format!("the list of its images cannot be read: {e}"))?;
        list = Some(saved);
        Ok(true)
    })?;
    let list = list.ok_or_else(|| "its images have no manifest.json".to_owned())?;
    let mut all = BTreeSet::new();
    for tag in list.into_iter().filter_map(|image| image.tags).flatten() {
        let reference =
            Reference::read(&tag).ok_or_else(|| format!("{tag:?} in its list is not the name of an image"))?;
        all.insert(reference.to_string());
    }
    if all.is_empty() { Err("the list of its images is empty".to_owned()) } else { Ok(all) }
}

/// Shows the regular files of a tar archive in turn, until it was enough.
fn each(from: impl Read, mut look: impl FnMut(&str, &mut dyn Read) -> Result<bool, String>) -> Result<(), String> {
    let (from, members) = LimitedHeaders::of(from);
    let mut archive = tar::Archive::new(from);
    let unreadable = |e: io::Error| format!("it is not a gzip-compressed tar archive: {e}");
    let mut entries = archive.entries().map_err(unreadable)?;
    let mut count = 0;
    while let Some(entry) = members.next_of(&mut entries) {
        let mut entry = entry.map_err(unreadable)?;
        count += 1;
        if count > MEMBERS_LIMIT {
            return Err(format!("it has more than {MEMBERS_LIMIT} members"));
        }
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let name = name.strip_prefix("./").unwrap_or(&name);
        if entry.header().entry_type().is_file() && look(name, &mut entry)? {
            return Ok(());
        }
        // Its holes take no byte of the archive, and reading them would take years.
        if entry.header().entry_type().is_gnu_sparse() {
            return Err("it has a sparse member, and no installer of Harbor has one".to_owned());
        }
        io::copy(&mut entry, &mut io::sink()).map_err(unreadable)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn tgz(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for (name, bytes) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, name, *bytes).unwrap();
        }
        tar.into_inner().unwrap().finish().unwrap()
    }

    /// An installer of the real one's shape (harbor-offline-installer-v2.10.2.tgz), made small.
    fn installer(list: &str) -> Vec<u8> {
        let images =
            tgz(&[("4f53cda1.json", b"{}"), ("9c27e219/layer.tar", &[7; 5000]), ("manifest.json", list.as_bytes())]);
        tgz(&[
            ("harbor/harbor.v2.10.2.tar.gz", &images),
            ("harbor/prepare", b"#!/bin/bash\n"),
            ("harbor/LICENSE", b"Apache"),
            ("harbor/install.sh", b"#!/bin/bash\n"),
            ("harbor/common.sh", b"#!/bin/bash\n"),
            ("harbor/harbor.yml.tmpl", b"hostname: x\n"),
        ])
    }

    const LIST: &str = r#"[{"Config":"4f53cda1.json","RepoTags":["goharbor/harbor-core:v2.10.2"],"Layers":["9c27e219/layer.tar"]},
        {"Config":"1.json","RepoTags":["goharbor/nginx-photon:v2.10.2"],"Layers":[]},{"Config":"2.json","RepoTags":null}]"#;

    #[test]
    fn the_images_inside_are_those_that_the_archive_lists() {
        let found = images(installer(LIST).as_slice()).unwrap();
        let names = ["docker.io/goharbor/harbor-core:v2.10.2", "docker.io/goharbor/nginx-photon:v2.10.2"];
        assert_eq!(found.into_iter().collect::<Vec<_>>(), names);
    }

    #[test]
    fn a_list_that_differs_from_the_archive_is_reported_both_ways() {
        let found = images(installer(LIST).as_slice()).unwrap();
        let listed = ["goharbor/harbor-core:v2.10.2".to_owned(), "docker.io/goharbor/prepare:v2.10.2".to_owned()];
        let differences = compare(&found, &listed);
        assert_eq!(differences.unlisted, ["docker.io/goharbor/nginx-photon:v2.10.2"]);
        assert_eq!(differences.absent, ["docker.io/goharbor/prepare:v2.10.2"]);
        assert!(text("binary/harbor", "2.10.2", &differences).contains("goharbor/prepare"));
        assert!(compare(&found, &found.iter().cloned().collect::<Vec<_>>()).is_empty());
    }

    #[test]
    fn what_is_no_installer_is_refused_with_the_reason() {
        let images_of = |inner: &[u8]| tgz(&[("harbor/harbor.v2.10.2.tar.gz", inner)]);
        for (bytes, reason) in [
            (b"<html>".to_vec(), "not a gzip"),
            (tgz(&[("harbor/install.sh", b"x")]), "no harbor.VERSION.tar.gz"),
            (images_of(&tgz(&[("x", b"y")])), "no manifest.json"),
            (images_of(b"no archive"), "not a gzip"),
            (installer("{}"), "cannot be read"),
            (installer("[]"), "is empty"),
            (installer(&" ".repeat(LIST_LIMIT as usize + 10)), "more than"),
            (installer(r#"[{"RepoTags":["NO IMAGE"]}]"#), "not the name of an image"),
            (installer(LIST)[..150].to_vec(), "archive"),
        ] {
            let error = images(bytes.as_slice()).unwrap_err();
            assert!(error.contains(reason), "{reason}: {error}");
        }
    }

    #[test]
    fn a_header_that_would_fill_the_memory_is_refused() {
        let with = |kind: tar::EntryType, bytes: u64| {
            let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(kind);
            header.set_size(bytes);
            header.set_cksum();
            tar.append(&header, io::repeat(b'a').take(bytes)).unwrap();
            let mut header = tar::Header::new_gnu();
            header.set_size(0);
            tar.append_data(&mut header, "harbor/harbor.v2.10.2.tar.gz", io::empty()).unwrap();
            images(tar.into_inner().unwrap().finish().unwrap().as_slice()).unwrap_err()
        };
        for kind in [tar::EntryType::GNULongName, tar::EntryType::GNULongLink, tar::EntryType::XHeader] {
            assert!(with(kind, 2 << 20).contains("headers of a member have more than"), "{kind:?}");
        }
        // What a member has is passed over, however much.
        assert!(!with(tar::EntryType::Regular, 2 << 20).contains("headers"));
    }

    #[test]
    fn a_sparse_member_whose_holes_would_be_read_for_years_is_refused() {
        let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::GNUSparse);
        header.set_size(0);
        let gnu = header.as_gnu_mut().unwrap();
        gnu.set_real_size(1 << 62);
        gnu.sparse[0].set_offset(1 << 62);
        gnu.sparse[0].set_length(0);
        header.set_cksum();
        tar.append(&header, io::empty()).unwrap();
        let bytes = tar.into_inner().unwrap().finish().unwrap();
        assert!(images(bytes.as_slice()).unwrap_err().contains("sparse"));
    }

    #[test]
    fn a_harbor_installer_is_compared_with_the_catalogues_list_of_its_version() {
        use kubexm_spec::cluster::{Cluster, Registry, RegistryKind};
        use kubexm_spec::lock::{LockItem, SCHEMA};

        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let mut cluster = Cluster::named("x");
        cluster.registry = Registry::of(RegistryKind::Harbor);
        let catalogue = Catalogue::embedded();
        let requirements = kubexm_manifests::require(&cluster, &catalogue).unwrap();
        let needed = requirements.items.iter().find(|item| item.key == ArtifactKey::Binary(Program::Harbor)).unwrap();
        let reported = |bytes: &[u8]| {
            let (digest, size) = store.insert(bytes, None).unwrap();
            let (key, platform, version) = (needed.key.clone(), needed.platform, needed.version.clone());
            let content = Content::File { file_name: "harbor.tgz".to_owned(), digest, size };
            let item = LockItem { key, version, platform, trust: needed.trust, sources: Vec::new(), content };
            let (name, zone) = ("x".to_owned(), "global".to_owned());
            let lock = Lock {
                schema: SCHEMA.to_owned(),
                name,
                kubernetes: None,
                zone: Some(zone),
                items: vec![item],
                renderings: Vec::new(),
                packages: Vec::new(),
            };
            let texts = std::sync::Mutex::new(Vec::new());
            let report = |kind| {
                if let EventKind::Warning { text } = kind {
                    texts.lock().unwrap().push(text);
                }
            };
            check(&lock, &requirements, &catalogue, &store, &report).map(|()| texts.into_inner().unwrap())
        };
        let listed = catalogue.features["harbor"].references(&needed.version);
        let saved = |names: &[String]| serde_json::to_string(&[serde_json::json!({"RepoTags": names})]).unwrap();
        assert_eq!(reported(&installer(&saved(&listed))).unwrap(), [""; 0]);
        let less = reported(&installer(&saved(&listed[1..]))).unwrap();
        assert!(less.len() == 1 && less[0].contains(&listed[0]) && less[0].contains(&needed.version), "{less:?}");
        assert!(reported(b"<html>").unwrap_err().to_string().contains("not an offline installer"));
    }

    #[test]
    fn an_archive_is_read_once_and_its_list_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let (digest, _) = store.insert(installer(LIST).as_slice(), None).unwrap();
        let first = listed(&digest, &store).unwrap();
        std::fs::write(store.path(&digest), b"gone").unwrap();
        assert_eq!(listed(&digest, &store).unwrap(), first);
    }
}
