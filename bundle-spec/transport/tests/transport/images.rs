//! Small images written as OCI layouts, and what reading one from a folder must hold.

use std::path::{Path, PathBuf};

use kubexm_spec::lock::Descriptor;
use kubexm_spec::{Digest, ExitCode, Platform};
use kubexm_transport::{Layout, TransportError};
use serde_json::{Value, json};

use crate::support::{bytes, store};

pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
pub const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";

/// A layout that is being written.
pub struct Maker {
    dir: tempfile::TempDir,
}

impl Maker {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("blobs/sha256")).unwrap();
        std::fs::write(dir.path().join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
        Self { dir }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn blob_path(&self, digest: &Digest) -> PathBuf {
        self.dir.path().join("blobs/sha256").join(digest.hex())
    }

    pub fn blob(&self, media_type: &str, content: &[u8]) -> Descriptor {
        let digest = Digest::of(content);
        std::fs::write(self.blob_path(&digest), content).unwrap();
        Descriptor { media_type: media_type.to_owned(), digest, size: content.len() as u64 }
    }

    pub fn json(&self, media_type: &str, value: &Value) -> Descriptor {
        // Blanks, as no tool would write them again: only the raw bytes have this digest.
        self.blob(media_type, serde_json::to_string_pretty(value).unwrap().as_bytes())
    }

    /// An image whose config says `architecture`; its layers are given.
    pub fn manifest(&self, media_type: &str, architecture: &str, layers: &[Descriptor]) -> Descriptor {
        let docker = media_type == DOCKER_MANIFEST;
        let diffs: Vec<String> = layers.iter().map(|layer| layer.digest.to_string()).collect();
        let (architecture, variant) = architecture.split_once('/').unwrap_or((architecture, ""));
        let mut config = json!({
            "architecture": architecture, "os": "linux", "config": {},
            "rootfs": {"type": "layers", "diff_ids": diffs},
        });
        if !variant.is_empty() {
            config["variant"] = variant.into();
        }
        let config_type = match docker {
            true => "application/vnd.docker.container.image.v1+json",
            false => "application/vnd.oci.image.config.v1+json",
        };
        let config = self.json(config_type, &config);
        self.json(media_type, &json!({"schemaVersion": 2, "mediaType": media_type, "config": config, "layers": layers}))
    }

    pub fn layer(&self, seed: u64, size: usize) -> Descriptor {
        self.blob("application/vnd.oci.image.layer.v1.tar", &bytes(seed, size))
    }

    /// An index of `(platform or none, descriptor)`.
    pub fn index(&self, media_type: &str, entries: &[(Option<&str>, Descriptor)]) -> Descriptor {
        let manifests: Vec<Value> = entries
            .iter()
            .map(|(platform, descriptor)| {
                let mut entry = serde_json::to_value(descriptor).unwrap();
                if let Some((os, arch)) = platform.and_then(|platform| platform.split_once('/')) {
                    let (arch, variant) = arch.split_once('/').unwrap_or((arch, ""));
                    entry["platform"] = json!({"os": os, "architecture": arch});
                    if !variant.is_empty() {
                        entry["platform"]["variant"] = variant.into();
                    }
                }
                entry
            })
            .collect();
        self.json(media_type, &json!({"schemaVersion": 2, "mediaType": media_type, "manifests": manifests}))
    }

    /// Writes `index.json` with these names.
    pub fn finish(&self, named: &[(&str, &Descriptor)]) {
        let manifests: Vec<Value> = named
            .iter()
            .map(|(name, descriptor)| {
                let mut entry = serde_json::to_value(descriptor).unwrap();
                entry["annotations"] = json!({"org.opencontainers.image.ref.name": name});
                entry
            })
            .collect();
        let index = json!({"schemaVersion": 2, "manifests": manifests});
        std::fs::write(self.dir.path().join("index.json"), index.to_string()).unwrap();
    }

    /// The usual image: an index of two platforms that share their first layer.
    pub fn two_platforms(&self, size: usize) -> (Descriptor, Descriptor, Descriptor) {
        let shared = self.layer(11, size);
        let amd64 = self.manifest(MANIFEST, "amd64", &[shared.clone(), self.layer(12, size)]);
        let arm64 = self.manifest(MANIFEST, "arm64", &[shared, self.layer(13, size)]);
        let index = self.index(INDEX, &[(Some("linux/amd64"), amd64.clone()), (Some("linux/arm64"), arm64.clone())]);
        (index, amd64, arm64)
    }
}

#[tokio::test]
async fn an_image_of_a_folder_is_resolved_by_platform_with_its_raw_bytes() {
    let maker = Maker::new();
    let (index, amd64, arm64) = maker.two_platforms(10_000);
    maker.finish(&[("one", &index)]);
    let layout = Layout::open(maker.path()).unwrap();
    for (platform, manifest) in [(Platform::LINUX_AMD64, amd64), (Platform::LINUX_ARM64, arm64)] {
        let image = layout.resolve(None, None, platform).await.unwrap();
        assert_eq!((&image.target, &image.manifest), (&index, &manifest));
        assert_eq!(Digest::of(&image.target_bytes), index.digest);
        let (_dir, store) = store();
        image.keep(&store).unwrap();
        layout.fetch_blobs(&image.blobs(), &store).unwrap();
        for blob in image.blobs().iter().chain([&index, &manifest]) {
            assert!(store.holds(&blob.digest, blob.size).unwrap());
            assert!(store.verify(&blob.digest).unwrap());
        }
    }
}

#[tokio::test]
async fn a_nested_index_is_walked_and_its_middle_is_kept() {
    let maker = Maker::new();
    let manifest = maker.manifest(DOCKER_MANIFEST, "amd64", &[maker.layer(1, 100)]);
    let attestation = maker.manifest(MANIFEST, "unknown", &[maker.layer(2, 100)]);
    let inner =
        maker.index(DOCKER_LIST, &[(Some("unknown/unknown"), attestation), (Some("linux/amd64"), manifest.clone())]);
    let outer = maker.index(INDEX, &[(None, inner.clone())]);
    maker.finish(&[("one", &outer)]);
    let image = Layout::open(maker.path()).unwrap().resolve(Some("one"), None, Platform::LINUX_AMD64).await.unwrap();
    assert_eq!((image.target.digest, image.manifest.digest), (outer.digest, manifest.digest));
    assert_eq!(image.nested.iter().map(|raw| raw.descriptor.digest).collect::<Vec<_>>(), [inner.digest]);
    let (_dir, store) = store();
    image.keep(&store).unwrap();
    assert!(store.contains(&inner.digest));
}

/// Each entry would have a copy of the indexes above it: 28,000 of 4 MiB.
#[tokio::test]
async fn an_index_that_names_others_without_end_ends_after_some_looks() {
    let maker = Maker::new();
    let none = Descriptor { media_type: INDEX.to_owned(), digest: Digest::of("none"), size: 1 };
    let inner = maker.index(INDEX, &vec![(None, none); 28_000]);
    let outer = maker.index(INDEX, &[(None, inner)]);
    maker.finish(&[("one", &outer)]);
    let layout = Layout::open(maker.path()).unwrap();
    let error = layout.resolve(Some("one"), None, Platform::LINUX_AMD64).await.unwrap_err();
    assert!(error.to_string().contains("blobs/sha256"), "{error}");
}

/// What must be refused, and the words that say why.
#[tokio::test]
async fn images_that_cannot_be_carried_are_refused_with_the_reason() {
    type Make = fn(&Maker) -> Descriptor;
    let table: [(&str, Make, ExitCode, &str); 12] = [
        (
            "an index entry that lies about its platform",
            |m| {
                let arm64 = m.manifest(MANIFEST, "arm64", &[m.layer(1, 10)]);
                m.index(INDEX, &[(Some("linux/amd64"), arm64)])
            },
            ExitCode::OriginMissing,
            "linux/arm64, as its config says",
        ),
        (
            "a single image of another architecture",
            |m| m.manifest(MANIFEST, "s390x", &[m.layer(1, 10)]),
            ExitCode::OriginMissing,
            "linux/s390x",
        ),
        (
            "an image for newer processors only",
            |m| m.manifest(MANIFEST, "amd64/v3", &[m.layer(1, 10)]),
            ExitCode::OriginMissing,
            "nothing for linux/amd64; it has linux/amd64/v3, as its config says",
        ),
        (
            "an index of newer processors only",
            |m| {
                let v3 = m.manifest(MANIFEST, "amd64/v3", &[m.layer(1, 10)]);
                m.index(INDEX, &[(Some("linux/amd64/v3"), v3)])
            },
            ExitCode::OriginMissing,
            "nothing for linux/amd64; it has linux/amd64/v3",
        ),
        (
            "an index without the platform",
            |m| {
                let arm64 = m.manifest(MANIFEST, "arm64", &[m.layer(1, 10)]);
                m.index(INDEX, &[(Some("linux/arm64"), arm64)])
            },
            ExitCode::OriginMissing,
            "nothing for linux/amd64; it has linux/arm64",
        ),
        (
            "a foreign layer",
            |m| {
                let mut layer = m.layer(1, 10);
                layer.media_type = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip".into();
                m.manifest(DOCKER_MANIFEST, "amd64", &[layer])
            },
            ExitCode::OriginMismatch,
            "may not be distributed",
        ),
        (
            "a layer with addresses of its own",
            |m| {
                let config =
                    m.json("application/vnd.oci.image.config.v1+json", &json!({"architecture":"amd64","os":"linux"}));
                let mut layer = serde_json::to_value(m.layer(1, 10)).unwrap();
                layer["urls"] = json!(["https://vendor.example/layer"]);
                m.json(MANIFEST, &json!({"schemaVersion": 2, "config": config, "layers": [layer]}))
            },
            ExitCode::OriginMismatch,
            "may not be distributed",
        ),
        (
            "schema 1",
            |m| m.json(MANIFEST, &json!({"schemaVersion": 1, "fsLayers": []})),
            ExitCode::OriginMismatch,
            "schema 1",
        ),
        (
            "an index and an image at once",
            |m| {
                let layer = m.layer(1, 10);
                m.json(MANIFEST, &json!({"schemaVersion": 2, "manifests": [], "config": layer, "layers": []}))
            },
            ExitCode::OriginMismatch,
            "both at once",
        ),
        (
            "an index that nests in itself without end",
            |m| {
                let mut index = m.index(INDEX, &[]);
                for _ in 0..8 {
                    index = m.index(INDEX, &[(None, index)]);
                }
                index
            },
            ExitCode::OriginMismatch,
            "nests too deep",
        ),
        (
            "more than any disk has",
            |m| {
                let layer = Descriptor { size: 5 << 30, ..m.layer(1, 10) };
                m.manifest(MANIFEST, "amd64", &vec![layer; 20])
            },
            ExitCode::OriginMismatch,
            "more than 64 GiB",
        ),
        ("no JSON", |m| m.blob(MANIFEST, b"<html>"), ExitCode::OriginMismatch, "not an image manifest"),
    ];
    for (name, make, code, text) in table {
        let maker = Maker::new();
        let target = make(&maker);
        maker.finish(&[("one", &target)]);
        let layout = Layout::open(maker.path()).unwrap();
        let error = layout.resolve(None, None, Platform::LINUX_AMD64).await.expect_err(name);
        assert_eq!(error.exit_code(), code, "{name}: {error}");
        assert!(error.to_string().contains(text), "{name}: {error}");
    }
}

#[tokio::test]
async fn arm64_v8_is_arm64_and_the_plain_entry_comes_first() {
    let maker = Maker::new();
    let spelled = maker.manifest(MANIFEST, "arm64/v8", &[maker.layer(1, 10)]);
    let plain = maker.manifest(MANIFEST, "arm64", &[maker.layer(2, 10)]);
    let only = maker.index(INDEX, &[(Some("linux/arm64/v8"), spelled.clone())]);
    let both = maker.index(INDEX, &[(Some("linux/arm64/v8"), spelled.clone()), (Some("linux/arm64"), plain.clone())]);
    maker.finish(&[("only", &only), ("both", &both), ("single", &spelled)]);
    let layout = Layout::open(maker.path()).unwrap();
    for (name, manifest) in [("only", &spelled), ("both", &plain), ("single", &spelled)] {
        let image = layout.resolve(Some(name), None, Platform::LINUX_ARM64).await.unwrap();
        assert_eq!(image.manifest.digest, manifest.digest, "{name}");
    }
}

#[tokio::test]
async fn damage_in_a_folder_is_found_before_it_gets_into_the_store() {
    let maker = Maker::new();
    let layer = maker.layer(1, 1000);
    let manifest = maker.manifest(MANIFEST, "amd64", std::slice::from_ref(&layer));
    maker.finish(&[("one", &manifest)]);
    let layout = Layout::open(maker.path()).unwrap();
    let image = layout.resolve(None, None, Platform::LINUX_AMD64).await.unwrap();
    let (_dir, store) = store();
    std::fs::write(maker.blob_path(&layer.digest), bytes(2, 1000)).unwrap();
    let error = layout.fetch_blobs(&image.blobs(), &store).unwrap_err();
    assert!(matches!(error, TransportError::Mismatch { .. }), "{error}");
    assert!(!store.contains(&layer.digest));
    std::fs::remove_file(maker.blob_path(&layer.digest)).unwrap();
    assert_eq!(layout.fetch_blobs(&image.blobs(), &store).unwrap_err().exit_code(), ExitCode::OriginMissing);
    std::fs::write(maker.blob_path(&manifest.digest), "{}").unwrap();
    let error = layout.resolve(None, None, Platform::LINUX_AMD64).await.unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::OriginMismatch, "{error}");
}

#[tokio::test]
async fn a_folder_of_several_images_wants_a_name() {
    let maker = Maker::new();
    let one = maker.manifest(MANIFEST, "amd64", &[maker.layer(1, 10)]);
    let two = maker.manifest(MANIFEST, "amd64", &[maker.layer(2, 10)]);
    maker.finish(&[("one", &one), ("two", &two)]);
    let layout = Layout::open(maker.path()).unwrap();
    let resolve = |name| layout.resolve(name, None, Platform::LINUX_AMD64);
    assert_eq!(resolve(Some("two")).await.unwrap().target.digest, two.digest);
    assert!(resolve(None).await.unwrap_err().to_string().contains("one, two"));
    assert!(matches!(resolve(Some("three")).await, Err(TransportError::Missing { .. })));
    assert!(matches!(Layout::open(maker.path().join("none")), Err(TransportError::Missing { .. })));
}
