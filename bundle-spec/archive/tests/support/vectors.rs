//! The bundles under `bundle-spec/vectors`: everything that the format has, in a few kilobytes each.

use std::path::{Path, PathBuf};

use kubexm_archive::{
    Contents, Delta, Group, Input, Options, Signature, StoredMember, Written, members, write_contents,
};
use kubexm_spec::manifest::{Artifact, Blob, Manifest, Member};
use kubexm_spec::sources::{self, ArtifactSources};
use kubexm_spec::{ArtifactKey, Digest, Platform, Sources, Trust};
use serde_json::json;

/// The most bytes of a volume of the split one.
pub const VOLUME: u64 = 20_000;

/// Writes `base.tar.zst` (without sources), `full.tar.zst`, `delta.tar.zst` (the full one on the base), `split.tar.zst.001` … (the full one in
/// volumes), `grouped.tar.zst` (the full one, three members in a group), `grouped-delta.tar.zst` (that one on the base) and, with
/// signatures, `signed.tar.zst` (the full one). The same bytes every time.
pub fn make(folder: &Path, signatures: &[Signature]) -> Vec<PathBuf> {
    let (old, new) = (Vector::new("1.0", b"notes of the old one\n"), Vector::new("1.1", b"notes of the new one\n"));
    let options = Options { level: 3, threads: 2, split: None };
    let at = |name: &str| folder.join(name);
    let base = old.write_from(&at("base.tar.zst"), Delta::default(), &[], &options, None);
    let full = new.write(&at("full.tar.zst"), Delta::default(), &[], &options);
    let split = new.write(&at("split.tar.zst"), Delta::default(), &[], &Options { split: Some(VOLUME), ..options });
    let had: Vec<String> = old.contents.iter().map(|(name, _)| name.clone()).collect();
    let stored = new.contents.iter().filter(|(name, _)| name.starts_with(members::BLOBS) && had.contains(name));
    let left_out = stored
        .map(|(name, content)| StoredMember { name: name.clone(), encoding: kubexm_archive::encoding_for(content) })
        .collect();
    let left_out = Delta { base: Some(base.manifest), left_out };
    let delta = new.write(&at("delta.tar.zst"), left_out.clone(), &[], &options);
    let grouped = new.grouped();
    let whole = grouped.write(&at("grouped.tar.zst"), Delta::default(), &[], &options);
    let part = grouped.write(&at("grouped-delta.tar.zst"), left_out, &[], &options);
    let mut all = vec![base, full, split, delta, whole, part];
    if !signatures.is_empty() {
        all.push(new.write(&at("signed.tar.zst"), Delta::default(), signatures, &options));
    }
    all.into_iter().flat_map(|written| written.files).collect()
}

struct Vector {
    manifest: Manifest,
    contents: Vec<(String, Vec<u8>)>,
    sources: Vec<u8>,
    groups: Vec<Group>,
}

impl Vector {
    /// The same with a group: the text of more than one frame, the empty one and the notes.
    fn grouped(&self) -> Self {
        let first = self.manifest.artifacts[0].digest;
        let groups = vec![Group { first: members::blob_name(&first), level: 3, members: 3 }];
        Self { groups, manifest: self.manifest.clone(), contents: self.contents.clone(), sources: self.sources.clone() }
    }

    /// A text that compresses, one of more than one frame, one that is stored raw and one that is empty; each as the OCI
    /// artifact of a file.
    fn new(version: &str, notes: &[u8]) -> Self {
        let gzip: Vec<u8> =
            b"\x1f\x8b\x08\0".iter().copied().chain((0..400_u32).map(|n| (n * n % 251) as u8)).collect();
        let files = [
            ("big.txt", b"a line of a text that is longer than a frame\n".repeat(190_000)),
            ("empty", Vec::new()),
            ("notes.txt", notes.to_vec()),
            ("packed.gz", gzip),
        ];
        let (mut blobs, mut entries, mut artifacts) = (vec![b"{}".to_vec()], Vec::new(), Vec::new());
        for (name, content) in &files {
            let wrapper = json!({
                "schemaVersion": 2,
                "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "artifactType": "application/vnd.kubexm.file.v1",
                "config": { "mediaType": "application/vnd.oci.empty.v1+json", "digest": Digest::of(b"{}"), "size": 2 },
                "layers": [{
                    "mediaType": "application/octet-stream", "digest": Digest::of(content), "size": content.len(),
                    "annotations": { "org.opencontainers.image.title": name },
                }],
            });
            let wrapper = wrapper.to_string().into_bytes();
            entries.push(json!({
                "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "artifactType": "application/vnd.kubexm.file.v1",
                "digest": Digest::of(&wrapper), "size": wrapper.len(),
                "annotations": { "org.opencontainers.image.ref.name": format!("kubexm/file/{name}") },
            }));
            blobs.push(wrapper);
            artifacts.push(Artifact {
                key: ArtifactKey::ExtraFile((*name).to_owned()),
                version: String::new(),
                platform: None,
                name: (*name).to_owned(),
                digest: Digest::of(content),
                manifest: None,
                blobs: vec![Blob { digest: Digest::of(content), size: content.len() as u64 }],
                trust: Trust::User,
                sources: None,
            });
        }
        blobs.extend(files.map(|(_, content)| content));
        let lock = format!("schema: kubexm.io/lock/v1\nname: vector\nversion: {version}\nitems: []\n");
        let index = json!({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": entries,
        });
        let mut contents: Vec<(String, Vec<u8>)> = vec![
            ("lock.yaml".into(), lock.clone().into_bytes()),
            ("oci-layout".into(), br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec()),
            ("index.json".into(), index.to_string().into_bytes()),
        ];
        contents.extend(blobs.into_iter().map(|blob| (members::blob_name(&Digest::of(&blob)), blob)));
        let members = contents
            .iter()
            .map(|(name, content)| Member {
                name: name.clone(),
                size: content.len() as u64,
                sha256: Digest::of(content),
            })
            .collect();
        let manifest = Manifest {
            format: 2,
            name: "vector".into(),
            cluster: None,
            platforms: vec![Platform::LINUX_AMD64],
            zone: None,
            tool: "kubexm-bundle 0.1.0".into(),
            lock: Digest::of(lock),
            artifacts,
            members,
        };
        let places = |artifact: &Artifact| ArtifactSources {
            key: artifact.key.clone(),
            platform: None,
            asked: Some(format!("https://files.test/{version}/{}", artifact.name)),
            candidates: ["mirror", "files"]
                .map(|host| format!("https://{host}.test/{version}/{}", artifact.name))
                .to_vec(),
            from: vec![format!("https://mirror.test/{version}/{}", artifact.name)],
        };
        let artifacts = manifest.artifacts.iter().map(places).collect();
        let sources = Sources { schema: sources::SCHEMA.into(), zone: "office".into(), artifacts };
        // Seven spaces are its padding.
        let sources = sources.to_padded(sources.canonical().len() + 7).unwrap();
        Self { manifest, contents, sources, groups: Vec::new() }
    }

    fn write(&self, target: &Path, delta: Delta, signatures: &[Signature], options: &Options) -> Written {
        self.write_from(target, delta, signatures, options, Some(Input::sources(self.sources.clone())))
    }

    fn write_from(
        &self,
        target: &Path,
        delta: Delta,
        signatures: &[Signature],
        options: &Options,
        sources: Option<Input<'_>>,
    ) -> Written {
        let left_out = |name: &str| delta.left_out.iter().any(|stored| stored.name == name);
        let inputs = self
            .contents
            .iter()
            .filter(|(name, _)| !left_out(name))
            .map(|(name, content)| Input::bytes(name.clone(), content.clone()))
            .collect();
        let contents =
            Contents { manifest: &self.manifest, inputs, delta, signatures, groups: self.groups.clone(), sources };
        write_contents(target, contents, options, &|_, _| {}).unwrap()
    }
}
