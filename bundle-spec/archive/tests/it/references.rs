//! What a bundle names must be in it; what it does not carry on purpose need not.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first thing that is not as it must be")]

use std::path::Path;

use crate::support::{self, blob, inputs, manifest};
use kubexm_archive::{Bundle, Incomplete, Input, Options, check_references, write};
use kubexm_spec::manifest::{Artifact, Blob};
use kubexm_spec::{ArtifactKey, ClusterImage, Digest, ExitCode, Platform, Trust};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

fn descriptor(media_type: &str, content: &[u8], platform: Option<&str>) -> String {
    let platform =
        platform.map(|arch| format!(r#","platform":{{"os":"linux","architecture":"{arch}"}}"#)).unwrap_or_default();
    format!(r#"{{"mediaType":"{media_type}","digest":"{}","size":{}{platform}}}"#, Digest::of(content), content.len())
}

/// An image of two platforms, of which amd64 is carried.
struct Image {
    config: Vec<u8>,
    layer: Vec<u8>,
    amd64: Vec<u8>,
    index: Vec<u8>,
}

impl Image {
    fn new() -> Self {
        let (config, layer) = (b"{\"config\":1}".to_vec(), b"layer".to_vec());
        let amd64 = format!(
            r#"{{"schemaVersion":2,"config":{},"layers":[{}]}}"#,
            descriptor("application/vnd.oci.image.config.v1+json", &config, None),
            descriptor("application/vnd.oci.image.layer.v1.tar+gzip", &layer, None)
        )
        .into_bytes();
        let index = format!(
            r#"{{"schemaVersion":2,"manifests":[{},{}]}}"#,
            descriptor(MANIFEST, &amd64, Some("amd64")),
            descriptor(MANIFEST, b"not carried", Some("arm64"))
        )
        .into_bytes();
        Self { config, layer, amd64, index }
    }

    fn blobs(&self) -> Vec<&Vec<u8>> {
        vec![&self.index, &self.amd64, &self.config, &self.layer]
    }

    fn artifact(&self) -> Artifact {
        Artifact {
            key: ArtifactKey::Image(ClusterImage::Pause),
            version: "3.10".into(),
            platform: Some(Platform::LINUX_AMD64),
            name: "registry.k8s.io/pause:3.10".into(),
            digest: Digest::of(&self.index),
            manifest: Some(Digest::of(&self.amd64)),
            blobs: self.blobs().into_iter().map(|b| Blob { digest: Digest::of(b), size: b.len() as u64 }).collect(),
            trust: Trust::Pinned,
            sources: None,
        }
    }

    /// A bundle with these of its blobs, for these platforms.
    fn bundle(&self, dir: &Path, with: &[&Vec<u8>], artifacts: bool, platforms: &[Platform]) -> Bundle {
        let index_json = format!(r#"{{"schemaVersion":2,"manifests":[{}]}}"#, descriptor(INDEX, &self.index, None));
        let mut contents = vec![
            ("lock.yaml".to_owned(), b"lock: 1\n".to_vec()),
            ("oci-layout".to_owned(), b"{}".to_vec()),
            ("index.json".to_owned(), index_json.into_bytes()),
        ];
        contents.extend(with.iter().map(|content| blob((*content).clone())));
        let mut manifest = manifest(&contents);
        manifest.platforms = platforms.to_vec();
        if artifacts {
            manifest.artifacts = vec![self.artifact()];
        }
        let path = dir.join("x.tar.zst");
        let inputs: Vec<Input<'_>> = inputs(&contents);
        write(&path, &manifest, inputs, &Options::default(), &|_, _| {}).unwrap();
        Bundle::open(&path).unwrap()
    }
}

fn missing(result: Result<(), Incomplete>) -> Vec<String> {
    let error = result.unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::BundleIncomplete);
    match error {
        Incomplete::Missing { missing, .. } => missing.iter().map(ToString::to_string).collect(),
        Incomplete::Unreadable(error) => panic!("{error}"),
    }
}

#[test]
fn an_index_may_lack_the_platforms_that_are_not_carried() {
    let (dir, image) = (tempfile::tempdir().unwrap(), Image::new());
    let bundle = image.bundle(dir.path(), &image.blobs(), true, &[Platform::LINUX_AMD64]);
    check_references(&bundle).unwrap();
}

#[test]
fn a_carried_platform_that_the_index_has_must_be_there() {
    let (dir, image) = (tempfile::tempdir().unwrap(), Image::new());
    let bundle = image.bundle(dir.path(), &image.blobs(), true, &Platform::ALL);
    let missing = missing(check_references(&bundle));
    assert_eq!(missing, [format!("the manifest for linux/arm64, named by {}", Digest::of(&image.index))]);
}

#[test]
fn every_blob_that_is_left_out_is_named_with_who_names_it() {
    let (dir, image) = (tempfile::tempdir().unwrap(), Image::new());
    for left_out in image.blobs() {
        let with: Vec<_> = image.blobs().into_iter().filter(|b| *b != left_out).collect();
        for artifacts in [true, false] {
            let bundle = image.bundle(dir.path(), &with, artifacts, &[Platform::LINUX_AMD64]);
            let found = missing(check_references(&bundle));
            let digest = Digest::of(left_out).to_string();
            let by_index = left_out == &image.amd64 && found.iter().any(|m| m.contains("manifest for linux/amd64"));
            assert!(by_index || found.iter().any(|m| m.contains(&digest)), "{found:?}");
            assert!(!artifacts || found.iter().any(|m| m.ends_with("named by image/pause")), "{found:?}");
        }
    }
}

#[test]
fn a_bundle_without_lock_index_and_layout_is_incomplete() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.tar.zst");
    support::write_with(&path, &[], 1).unwrap();
    let found = missing(check_references(&Bundle::open(&path).unwrap()));
    assert_eq!(found.len(), 3, "{found:?}");
}

#[test]
fn an_index_of_millions_of_values_is_refused_before_it_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.tar.zst");
    let mut contents = support::small();
    contents[2].1 = format!("{{\"manifests\":[],\"x\":[{}]}}", vec!["\"\""; 1_000_001].join(",")).into_bytes();
    support::write_with(&path, &contents, 1).unwrap();
    let error = check_references(&Bundle::open(&path).unwrap()).unwrap_err().to_string();
    assert!(error.contains("million values"), "{error}");
}

#[test]
fn of_more_missing_things_than_anybody_reads_the_first_are_kept_and_the_rest_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let contents = vec![
        ("lock.yaml".to_owned(), b"lock: 1\n".to_vec()),
        ("oci-layout".to_owned(), b"{}".to_vec()),
        ("index.json".to_owned(), br#"{"schemaVersion":2,"manifests":[]}"#.to_vec()),
    ];
    let mut manifest = manifest(&contents);
    let blob = |number: usize| Blob { digest: Digest::of(number.to_string()), size: 1 };
    let image = Image::new().artifact();
    manifest.artifacts = vec![Artifact {
        key: ArtifactKey::ExtraFile("k".repeat(1000)),
        platform: None,
        digest: blob(0).digest,
        manifest: None,
        blobs: (0..1500).map(blob).collect(),
        ..image
    }];
    let path = dir.path().join("x.tar.zst");
    write(&path, &manifest, inputs(&contents), &Options::default(), &|_, _| {}).unwrap();
    match check_references(&Bundle::open(&path).unwrap()).unwrap_err() {
        Incomplete::Missing { missing, more, .. } => {
            // The first blob is named twice.
            assert_eq!((missing.len(), more), (1000, 501));
            assert!(missing.iter().all(|one| one.named_by.len() == 400));
        }
        error @ Incomplete::Unreadable(_) => panic!("{error}"),
    }
}
