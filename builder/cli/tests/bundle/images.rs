//! Small images written as OCI layouts.

use std::path::{Path, PathBuf};

use kubexm_spec::Digest;
use kubexm_spec::lock::Descriptor;
use serde_json::{Value, json};

use crate::site::noise;

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// A layout that is being written.
pub struct Maker {
    dir: PathBuf,
}

impl Maker {
    pub fn new(dir: PathBuf) -> Self {
        std::fs::create_dir_all(dir.join("blobs/sha256")).unwrap();
        std::fs::write(dir.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
        Self { dir }
    }

    pub fn path(&self) -> &Path {
        &self.dir
    }

    pub fn blob(&self, media_type: &str, content: &[u8]) -> Descriptor {
        let digest = Digest::of(content);
        std::fs::write(self.dir.join("blobs/sha256").join(digest.hex()), content).unwrap();
        Descriptor { media_type: media_type.to_owned(), digest, size: content.len() as u64 }
    }

    /// Blanks, as no tool would write them again: only the raw bytes have this digest.
    pub fn json(&self, media_type: &str, value: &Value) -> Descriptor {
        self.blob(media_type, serde_json::to_string_pretty(value).unwrap().as_bytes())
    }

    /// An image of two layers whose config says `architecture`; the first layer is the same in every image.
    pub fn manifest(&self, architecture: &str, seed: u64) -> Descriptor {
        let layers = [11, seed].map(|seed| self.blob("application/vnd.oci.image.layer.v1.tar", &noise(seed, 60_000)));
        let diffs: Vec<String> = layers.iter().map(|layer| layer.digest.to_string()).collect();
        let config = self.json(
            "application/vnd.oci.image.config.v1+json",
            &json!({"architecture": architecture, "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": diffs}}),
        );
        self.json(MANIFEST, &json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers}))
    }

    /// An index of `(architecture it claims, manifest)`.
    pub fn index(&self, entries: &[(&str, &Descriptor)]) -> Descriptor {
        let manifests: Vec<Value> = entries
            .iter()
            .map(|(architecture, descriptor)| {
                let mut entry = serde_json::to_value(descriptor).unwrap();
                entry["platform"] = json!({"os": "linux", "architecture": architecture});
                entry
            })
            .collect();
        self.json(INDEX, &json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}))
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
        std::fs::write(self.dir.join("index.json"), index.to_string()).unwrap();
    }
}

/// The usual image in a folder of its own: index, amd64, arm64.
pub fn two_platforms(dir: PathBuf, name: &str) -> (Maker, Descriptor, [Descriptor; 2]) {
    let maker = Maker::new(dir);
    let both = [maker.manifest("amd64", 12), maker.manifest("arm64", 13)];
    let index = maker.index(&[("amd64", &both[0]), ("arm64", &both[1])]);
    maker.finish(&[(name, &index)]);
    (maker, index, both)
}
