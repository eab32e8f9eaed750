//! A bundle with everything a cluster requires and nothing in it: tiny programs, archives and images, made from the
//! catalogue's own list, so that recipes and engine can be tried without upstream.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use kubexm_engine::link::BlobSource;
use kubexm_manifests::requirements::{PackageNeed, Requirement, Source};
use kubexm_manifests::{Catalogue, Payload, require};
use kubexm_recipes::packages::{CarriedPackages, CarriedSet};
use kubexm_recipes::sample;
use kubexm_spec::manifest::{Artifact, Blob, ClusterSummary, FORMAT, Manifest};
use kubexm_spec::{Arch, ArtifactKey, Cluster, Digest, Platform, Program, Trust};

/// The bundle: its manifest, and its blobs in memory.
#[derive(Clone, Debug)]
pub struct SyntheticBundle {
    /// As `manifest.json` would say it.
    pub manifest: Manifest,
    /// By digest.
    pub blobs: BTreeMap<Digest, Vec<u8>>,
    /// What it has of the hosts' distributions, for a cluster whose `spec.bundle.os` names them.
    pub packages: Arc<CarriedPackages>,
}

/// What an archive has that is unpacked as a whole.
const ALL: [&str; 2] = ["one", "two"];
/// The same of CRI-O: what its unit starts and ops run.
const CRI_O: [&str; 3] = ["crio", "crictl", "runc"];
/// The same of docker.
const DOCKER: [&str; 2] = ["dockerd", "docker"];
/// An add-on of YAML.
const OBJECTS: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: site}\ndata: {a: b}\n---\napiVersion: v1\nkind: Secret\n\
                       metadata: {name: site}\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: site}\n";

impl SyntheticBundle {
    /// A bundle for a cluster, by this catalogue.
    pub fn of(cluster: &Cluster, catalogue: &Catalogue) -> Result<Self, String> {
        let requirements = require(cluster, catalogue).map_err(|e| e.to_string())?;
        let mut bundle = Self { manifest: empty(cluster), blobs: BTreeMap::new(), packages: Arc::default() };
        for item in &requirements.items {
            let artifact = match &item.source {
                Source::Image { reference, .. } | Source::LocalImage { reference, .. } => bundle.image(item, reference),
                Source::File { file_name, .. } => bundle.file(item, file_name, catalogue)?,
                Source::LocalFile { .. } | Source::Installer | Source::Chart { .. } | Source::LocalYaml { .. } => {
                    bundle.file(item, &item.key.name(), catalogue)?
                }
            };
            bundle.manifest.artifacts.push(artifact);
        }
        let mut packages = sample::packages(cluster, catalogue).map_err(|e| e.to_string())?;
        for (carried, need) in packages.sets.iter_mut().zip(&requirements.packages) {
            bundle.packages(carried, need);
        }
        bundle.packages = Arc::new(packages);
        Ok(bundle)
    }

    /// The packages of a set, each of a few bytes of its own.
    fn packages(&mut self, carried: &mut CarriedSet, need: &PackageNeed) {
        let mut all: Vec<_> = carried.pool.packages().cloned().collect();
        for package in &mut all {
            let blob = self.keep(format!("{} of {}\n", package.name, need.os).into_bytes());
            (package.digest, package.size) = (blob.digest, blob.size);
            self.manifest.artifacts.push(Artifact {
                key: ArtifactKey::Package { os: need.os.clone(), name: package.name.to_string() },
                version: package.version.to_string(),
                platform: Some(need.platform),
                name: package.location.to_string(),
                digest: blob.digest,
                manifest: None,
                blobs: vec![blob],
                trust: Trust::Gpg,
                sources: None,
            });
        }
        carried.pool = sample::pool(need, all);
    }

    /// Digest of its manifest.json.
    pub fn digest(&self) -> Result<Digest, serde_json::Error> {
        Ok(Digest::of(self.manifest.canonical_json()?))
    }

    fn keep(&mut self, bytes: Vec<u8>) -> Blob {
        let blob = Blob { digest: Digest::of(&bytes), size: bytes.len() as u64 };
        self.blobs.insert(blob.digest, bytes);
        blob
    }

    fn file(&mut self, item: &Requirement, name: &str, catalogue: &Catalogue) -> Result<Artifact, String> {
        let arch = item.platform.map_or(Arch::Amd64, |platform| platform.arch);
        let text = format!("{} {} for {arch:?}\n", item.key, item.version);
        let archive = match &item.key {
            ArtifactKey::Binary(program) => catalogue.component(*program).map(|c| c.payload(&item.version, arch)),
            _ => None,
        };
        let bytes = match archive {
            Some(Payload::Archive(archive)) => {
                let mut members: Vec<String> = archive.members.keys().cloned().collect();
                // Upstream's archive has the server beside its tools.
                let beside =
                    members.iter().filter_map(|member| Some(format!("{}etcd", member.strip_suffix("etcdctl")?)));
                members.extend(beside.collect::<Vec<_>>());
                let all: &[&str] = match item.key {
                    ArtifactKey::Binary(Program::CriO) => &CRI_O,
                    ArtifactKey::Binary(Program::Docker) => &DOCKER,
                    _ => &ALL,
                };
                members.extend(archive.all.iter().flat_map(|folder| all.iter().map(|name| join(folder, name))));
                tar_gz(&members, &text).map_err(|e| e.to_string())?
            }
            _ if matches!(item.key, ArtifactKey::Yaml(_)) => OBJECTS.into(),
            _ => text.into_bytes(),
        };
        let blob = self.keep(bytes);
        Ok(artifact(item, name, blob.digest, None, vec![blob]))
    }

    /// An image of one layer, and an index that also names a platform which the bundle does not carry.
    fn image(&mut self, item: &Requirement, reference: &str) -> Artifact {
        let config = self.keep(format!("{{\"architecture\":\"amd64\",\"name\":\"{reference}\"}}").into_bytes());
        let layer = self.keep(format!("layer of {reference}\n").into_bytes());
        let manifest = self.keep(
            serde_json::json!({
                "schemaVersion": 2,
                "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": descriptor("application/vnd.oci.image.config.v1+json", config),
                "layers": [descriptor("application/vnd.oci.image.layer.v1.tar+gzip", layer)],
            })
            .to_string()
            .into_bytes(),
        );
        let platform = |arch: &str| serde_json::json!({ "os": "linux", "architecture": arch });
        let mut here = descriptor("application/vnd.oci.image.manifest.v1+json", manifest);
        here["platform"] = platform("amd64");
        let absent = Blob { digest: Digest::of(format!("arm64 of {reference}")), size: 7 };
        let mut elsewhere = descriptor("application/vnd.oci.image.manifest.v1+json", absent);
        elsewhere["platform"] = platform("arm64");
        let index = self.keep(
            serde_json::json!({
                "schemaVersion": 2,
                "mediaType": "application/vnd.oci.image.index.v1+json",
                "manifests": [here, elsewhere],
            })
            .to_string()
            .into_bytes(),
        );
        artifact(item, reference, index.digest, Some(manifest.digest), vec![index, manifest, config, layer])
    }
}

#[async_trait]
impl BlobSource for SyntheticBundle {
    async fn open(&self, digest: Digest, offset: u64) -> std::io::Result<Box<dyn tokio::io::AsyncRead + Send + Unpin>> {
        let missing = || std::io::Error::new(std::io::ErrorKind::NotFound, format!("no blob {digest}"));
        let bytes = self.blobs.get(&digest).ok_or_else(missing)?;
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        Ok(Box::new(std::io::Cursor::new(bytes[start..].to_vec())))
    }
}

fn empty(cluster: &Cluster) -> Manifest {
    Manifest {
        format: FORMAT,
        name: cluster.name.clone(),
        cluster: cluster.kubernetes.as_ref().map(|kubernetes| ClusterSummary {
            kubernetes: format!("v{}", kubernetes.version.clone().unwrap_or_default()),
            runtime: "containerd".to_owned(),
            network: "flannel".to_owned(),
        }),
        platforms: vec![Platform { arch: Arch::Amd64 }],
        zone: None,
        tool: "synthetic".to_owned(),
        lock: Digest::of("lock.yaml"),
        artifacts: Vec::new(),
        members: Vec::new(),
    }
}

fn artifact(item: &Requirement, name: &str, digest: Digest, manifest: Option<Digest>, blobs: Vec<Blob>) -> Artifact {
    Artifact {
        key: item.key.clone(),
        version: item.version.clone(),
        platform: item.platform,
        name: name.to_owned(),
        digest,
        manifest,
        blobs,
        trust: Trust::User,
        sources: None,
    }
}

fn descriptor(media_type: &str, blob: Blob) -> serde_json::Value {
    serde_json::json!({ "mediaType": media_type, "digest": blob.digest.to_string(), "size": blob.size })
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

fn tar_gz(members: &[String], text: &str) -> std::io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for member in members {
        let content = format!("{member} of {text}");
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o755);
        archive.append_data(&mut header, member, content.as_bytes())?;
    }
    archive.into_inner()?.finish()
}
