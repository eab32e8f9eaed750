//! Small bundles: images of one or several platforms that share layers, charts, files, and what is attached to images.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use kubexm_archive::{
    Bundle, Contents as Members, Delta, Documents as _, Input, Options, StoredMember, encoding_for, members,
    write_contents,
};
use kubexm_spec::lock::{Content, Descriptor, Lock, LockItem, Referrer};
use kubexm_spec::manifest::{Artifact, Blob, Manifest, Member};
use kubexm_spec::{ArtifactKey, Digest, Platform, Trust};
use serde_json::{Value, json};

pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const SIMPLE_SIGNING: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";

/// A bundle in the making.
#[derive(Default)]
pub struct Maker {
    blobs: BTreeMap<Digest, Vec<u8>>,
    items: Vec<LockItem>,
    entries: Vec<Value>,
    platforms: Vec<Platform>,
}

/// An image that was made.
pub struct Made {
    pub target: Descriptor,
    pub manifests: BTreeMap<Platform, Descriptor>,
}

impl Maker {
    pub fn new(platforms: &[Platform]) -> Self {
        Self { platforms: platforms.to_vec(), ..Self::default() }
    }

    /// The blobs as a host's content store has them: files by digest.
    pub fn store(&self, folder: &Path) -> kubexm_seed::BlobFolder {
        for (digest, bytes) in &self.blobs {
            std::fs::write(folder.join(digest.hex()), bytes).unwrap();
        }
        kubexm_seed::BlobFolder::at(folder)
    }

    fn blob(&mut self, media_type: &str, bytes: Vec<u8>) -> Descriptor {
        let descriptor =
            Descriptor { media_type: media_type.to_owned(), digest: Digest::of(&bytes), size: bytes.len() as u64 };
        self.blobs.insert(descriptor.digest, bytes);
        descriptor
    }

    /// An image for the bundle's platforms with these layers; an index that also names `absent` others when there are several
    /// or some are absent.
    pub fn image(&mut self, reference: &str, layers: &[Vec<u8>], absent: usize) -> Made {
        let mut manifests = BTreeMap::new();
        let mut blobs = BTreeMap::new();
        for platform in self.platforms.clone() {
            let layers: Vec<Descriptor> = layers.iter().map(|layer| self.blob(LAYER, layer.clone())).collect();
            let config = json!({"os": "linux", "architecture": platform.arch.as_str(), "rootfs": {"type": "layers", "diff_ids": []}});
            let config = self.blob(CONFIG, config.to_string().into_bytes());
            let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers});
            manifests.insert(platform, self.blob(MANIFEST, manifest.to_string().into_bytes()));
            blobs.insert(platform, std::iter::once(config).chain(layers).collect::<Vec<_>>());
        }
        let target = if self.platforms.len() == 1 && absent == 0 {
            manifests.values().next().unwrap().clone()
        } else {
            let own = manifests.iter().map(|(platform, one)| {
                json!({"mediaType": one.media_type, "digest": one.digest, "size": one.size,
                    "platform": {"os": "linux", "architecture": platform.arch.as_str()}})
            });
            let others = (0..absent).map(|n| {
                json!({"mediaType": MANIFEST, "digest": Digest::of(format!("absent {n}")), "size": 7,
                    "platform": {"os": "linux", "architecture": format!("other{n}")}})
            });
            let all: Vec<Value> = own.chain(others).collect();
            let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": all});
            self.blob(INDEX, index.to_string().into_bytes())
        };
        for (platform, manifest) in &manifests {
            self.items.push(LockItem {
                key: ArtifactKey::ExtraImage(reference.to_owned()),
                version: "1".to_owned(),
                platform: Some(*platform),
                trust: Trust::OciDigest,
                sources: Vec::new(),
                content: Content::Image {
                    reference: reference.to_owned(),
                    target: target.clone(),
                    manifest: manifest.clone(),
                    blobs: blobs[platform].clone(),
                    referrers: Vec::new(),
                    signed: None,
                },
            });
        }
        let name = json!({"org.opencontainers.image.ref.name": reference});
        let target_json =
            json!({"mediaType": target.media_type, "digest": target.digest, "size": target.size, "annotations": name});
        self.entries.push(target_json);
        Made { target, manifests }
    }

    /// Attaches something that looks like a signature to something of the image that was made last: by its subject, or under a tag of
    /// cosign's.
    pub fn attach(&mut self, reference: &str, subject: &Descriptor, by_tag: bool) -> Digest {
        let layer = self.blob(SIMPLE_SIGNING, format!("{subject:?}{by_tag}").into());
        self.attach_layer(reference, subject, by_tag, &layer, json!(layer))
    }

    /// Attaches a signature of a payload, under the tag of cosign's.
    pub fn sign(&mut self, reference: &str, subject: &Descriptor, payload: &[u8], signature: &str) -> Digest {
        let layer = self.blob(SIMPLE_SIGNING, payload.to_vec());
        let mut written = json!(layer);
        written["annotations"] = json!({"dev.cosignproject.cosign/signature": signature});
        self.attach_layer(reference, subject, true, &layer, written)
    }

    fn attach_layer(
        &mut self,
        reference: &str,
        subject: &Descriptor,
        by_tag: bool,
        layer: &Descriptor,
        written: Value,
    ) -> Digest {
        let config = self.blob("application/vnd.oci.empty.v1+json", b"{}".to_vec());
        let mut manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [written]});
        if !by_tag {
            manifest["artifactType"] = json!("application/vnd.dev.sigstore.bundle.v0.3+json");
            manifest["subject"] =
                json!({"mediaType": subject.media_type, "digest": subject.digest, "size": subject.size});
        }
        let manifest = self.blob(MANIFEST, manifest.to_string().into_bytes());
        let tag = by_tag.then(|| format!("sha256-{}.sig", subject.digest.hex()));
        let blobs = vec![config, layer.clone()];
        let referrer = Referrer { subject: subject.digest, tag, manifest: manifest.clone(), blobs };
        for item in &mut self.items {
            if let Content::Image { reference: of, referrers, .. } = &mut item.content
                && of == reference
            {
                referrers.push(referrer.clone());
            }
        }
        self.entries.push(json!({"mediaType": manifest.media_type, "digest": manifest.digest, "size": manifest.size}));
        manifest.digest
    }

    /// What is attached to the images has this tag in the lock.
    pub fn tag_attached(&mut self, tag: &str) {
        for item in &mut self.items {
            if let Content::Image { referrers, .. } = &mut item.content {
                referrers.iter_mut().for_each(|one| one.tag = Some(tag.to_owned()));
            }
        }
    }

    pub fn chart(&mut self, name: &str, version: &str) -> Digest {
        let text = format!("apiVersion: v2\nname: {name}\nversion: {version}\ndescription: a chart\n");
        let mut tar = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, format!("{name}/Chart.yaml"), text.as_bytes()).unwrap();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&tar.into_inner().unwrap()).unwrap();
        self.single(
            ArtifactKey::Chart(name.to_owned()),
            version,
            &format!("{name}-{version}.tgz"),
            gzip.finish().unwrap(),
        )
    }

    pub fn file(&mut self, name: &str, content: &[u8]) -> Digest {
        self.single(ArtifactKey::ExtraFile(name.to_owned()), "", name, content.to_vec())
    }

    fn single(&mut self, key: ArtifactKey, version: &str, file_name: &str, content: Vec<u8>) -> Digest {
        let blob = self.blob("", content);
        let content = Content::File { file_name: file_name.to_owned(), digest: blob.digest, size: blob.size };
        let (version, sources, platform) = (version.to_owned(), Vec::new(), None);
        self.items.push(LockItem { key, version, platform, trust: Trust::User, sources, content });
        blob.digest
    }

    /// Writes the bundle and opens it.
    pub fn bundle(self, folder: &Path) -> Bundle {
        Bundle::open(&self.write(folder)).unwrap()
    }

    /// Without the blobs that another bundle has.
    pub fn delta(self, folder: &Path, base: &Bundle) -> Bundle {
        Bundle::open(&self.write_without(folder, Some(base))).unwrap()
    }

    pub fn write(self, folder: &Path) -> PathBuf {
        self.write_without(folder, None)
    }

    /// As `split.tar.zst` in volumes of so many bytes; how many there are.
    pub fn write_split(self, folder: &Path, split: u64) -> usize {
        self.write_as(folder, None, Some(split));
        std::fs::read_dir(folder)
            .unwrap()
            .filter(|file| {
                let name = file.as_ref().unwrap().file_name();
                name.to_str().unwrap().starts_with("split.tar.zst.")
            })
            .count()
    }

    fn write_without(self, folder: &Path, base: Option<&Bundle>) -> PathBuf {
        self.write_as(folder, base, None)
    }

    fn write_as(mut self, folder: &Path, base: Option<&Bundle>, split: Option<u64>) -> PathBuf {
        self.items.sort_by(|a, b| (&a.key, a.platform).cmp(&(&b.key, b.platform)));
        let lock = Lock {
            schema: kubexm_spec::lock::SCHEMA.to_owned(),
            name: "demo".to_owned(),
            kubernetes: None,
            zone: None,
            items: self.items,
            renderings: Vec::new(),
            packages: Vec::new(),
        };
        // As YAML: the JSON is the lock file's.
        let lock_text = serde_saphyr::to_string(&lock).unwrap().into_bytes();
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": self.entries});
        let mut contents = vec![
            ("lock.yaml".to_owned(), lock_text.clone()),
            ("oci-layout".to_owned(), br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec()),
            ("index.json".to_owned(), index.to_string().into_bytes()),
        ];
        contents.extend(self.blobs.into_iter().map(|(digest, bytes)| (members::blob_name(&digest), bytes)));
        let artifacts = lock.items.iter().map(|item| Artifact {
            key: item.key.clone(),
            version: item.version.clone(),
            platform: item.platform,
            name: match &item.content {
                Content::Image { reference, .. } => reference.clone(),
                Content::File { file_name, .. } => file_name.clone(),
            },
            digest: item.digest(),
            manifest: match &item.content {
                Content::Image { manifest, .. } => Some(manifest.digest),
                Content::File { .. } => None,
            },
            blobs: item.blobs().into_iter().map(|(digest, size)| Blob { digest, size }).collect(),
            trust: item.trust,
            sources: None,
        });
        let listed = contents.iter().map(|(name, content)| Member {
            name: name.clone(),
            size: content.len() as u64,
            sha256: Digest::of(content),
        });
        let manifest = Manifest {
            format: kubexm_spec::manifest::FORMAT,
            name: "demo".to_owned(),
            cluster: None,
            platforms: self.platforms,
            zone: None,
            tool: "test".to_owned(),
            lock: Digest::of(&lock_text),
            artifacts: artifacts.collect(),
            members: listed.collect(),
        };
        let mut delta = Delta { base: base.map(Bundle::manifest_digest), left_out: Vec::new() };
        let mut inputs = Vec::new();
        for (name, content) in contents {
            match name.starts_with(members::BLOBS) && base.is_some_and(|base| base.size_of(&name).is_some()) {
                true => delta.left_out.push(StoredMember { name, encoding: encoding_for(&content) }),
                false => inputs.push(Input::bytes(name, content)),
            }
        }
        let path = match split {
            Some(_) => folder.join("split.tar.zst"),
            None => {
                folder.join(format!("{}{}.tar.zst", manifest.lock.short(), if base.is_some() { "-delta" } else { "" }))
            }
        };
        let contents =
            Members { manifest: &manifest, inputs, delta, signatures: &[], sources: None, groups: Vec::new() };
        write_contents(&path, contents, &Options { split, ..Options::default() }, &|_, _| {}).unwrap();
        path
    }
}

/// Bytes with no pattern, that look like gzip.
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = vec![0; length.next_multiple_of(8)];
    for chunk in bytes.chunks_exact_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        chunk.copy_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    for (place, byte) in bytes.iter_mut().zip(*b"\x1f\x8b\x08\0") {
        *place = byte;
    }
    bytes
}
