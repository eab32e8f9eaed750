//! What a depot serves: the text of `/etc/kubexm/depot/config.json`, written by a plan and read by the depot.
//!
//! The depot knows nothing but this and its content store. Media types are not repeated here: a manifest says its
//! own (`mediaType`), and blobs are served as `application/octet-stream` (OCI distribution-spec, "Pulling blobs").

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::{ArtifactKey, Digest, Family, Kind, Manifest, Platform};

/// The schema this program writes and reads.
pub const SCHEMA: &str = "kubexm.io/depot/v1";

/// The folder beside the config with the configs of all bundles that the cluster has had, of which images and files are served too.
pub const BUNDLES: &str = "bundles";

/// The file of a repository of packages that says how a host comes to use it.
pub const HOW_TO: &str = "README";

/// Everything a depot needs to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DepotConfig {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// Where it listens, `0.0.0.0:5443`.
    pub listen: SocketAddr,
    /// Content store of the node it runs on; blobs below `sha256/`.
    pub store: String,
    /// Server certificate.
    pub tls: Tls,
    /// File of the only login that is accepted, a line of htpasswd (`user:$2b$…`); whoever asks is answered without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<String>,
    /// Repositories by `<upstream host>/<repository>`, so that two upstreams never collide.
    pub images: BTreeMap<String, Repository>,
    /// What `/files/<name>` answers with.
    pub files: BTreeMap<String, Digest>,
    /// What `/packages/` answers with; none where the bundle has no packages of an operating system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packages: Option<Packages>,
}

/// Repositories of packages, for apt and dnf of any host of the site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Packages {
    /// Where they are for clients, `https://10.77.0.11:5443/packages`: an address, so that no host needs our names.
    pub url: String,
    /// Folder of what the controller wrote, by digest below `blobs/sha256/` as in the content store: the files of a repository
    /// change together, when this config does.
    pub metadata: String,
    /// By `debian-12-amd64`.
    pub repositories: BTreeMap<String, PackageRepository>,
}

/// What `/packages/<repository>/<file>` answers with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PackageRepository {
    /// Whose package manager reads it.
    pub family: Family,
    /// Signed metadata, keys, and what makes the repository known to a host, by path: `InRelease`, `repodata/repomd.xml`.
    pub metadata: BTreeMap<String, Digest>,
    /// Packages by file name, out of the content store.
    pub packages: BTreeMap<String, Digest>,
}

/// The packages of a bundle for one operating system and platform, by file name.
pub fn packages_of(manifest: &Manifest, os: &str, platform: Platform) -> BTreeMap<String, Digest> {
    let of_set = |artifact: &&crate::manifest::Artifact| {
        matches!(&artifact.key, ArtifactKey::Package { os: of, .. } if of == os) && artifact.platform == Some(platform)
    };
    manifest.artifacts.iter().filter(of_set).map(|artifact| (artifact.name.clone(), artifact.digest)).collect()
}

/// Paths of PEM files on the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Tls {
    /// Certificate chain.
    pub cert: String,
    /// PKCS#8 key.
    pub key: String,
}

/// One repository. What is not named here is not served, whatever the store holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Repository {
    /// Tag → the index (or single manifest) it names.
    pub tags: BTreeMap<String, Digest>,
    /// Indexes and platform manifests.
    pub manifests: BTreeSet<Digest>,
    /// Configs and layers.
    pub blobs: BTreeSet<Digest>,
}

impl DepotConfig {
    /// A depot that serves a bundle, but for files of the user's own.
    pub fn serving(manifest: &Manifest, listen: SocketAddr, store: &str, tls: Tls) -> Self {
        let mut config = Self {
            schema: SCHEMA.to_owned(),
            listen,
            store: store.to_owned(),
            tls,
            login: None,
            images: BTreeMap::new(),
            files: BTreeMap::new(),
            packages: None,
        };
        let by_tag = by_tag(manifest);
        for artifact in manifest.artifacts.iter().filter(|artifact| is_served(&artifact.key)) {
            match artifact.manifest {
                Some(platform_manifest) => {
                    let (name, tag) = served_as(&artifact.name, &by_tag);
                    let repository = config.images.entry(name.to_owned()).or_default();
                    if let Some(tag) = tag {
                        repository.tags.insert(tag.to_owned(), artifact.digest);
                    }
                    let manifests = [artifact.digest, platform_manifest];
                    repository.manifests.extend(manifests);
                    repository.blobs.extend(artifact.blobs.iter().map(|b| b.digest).filter(|d| !manifests.contains(d)));
                }
                None => {
                    config.files.insert(file_name(artifact), artifact.digest);
                }
            }
        }
        config
    }

    /// Adds what an earlier bundle has. Where names meet, what is here already stays.
    pub fn add_earlier(&mut self, mut earlier: Self) {
        if self.images.is_empty() {
            // They are in another registry.
            earlier.images.clear();
        }
        for (name, repository) in earlier.images {
            let served = self.images.entry(name).or_default();
            for (tag, digest) in repository.tags {
                served.tags.entry(tag).or_insert(digest);
            }
            served.manifests.extend(repository.manifests);
            served.blobs.extend(repository.blobs);
        }
        for (name, digest) in earlier.files {
            self.files.entry(name).or_insert(digest);
        }
    }
}

/// Whether a depot has an artifact: whatever reaches its port may read it, and nothing that hosts do needs files of the user's own,
/// which may be secrets (`--allow-secret`). They are in the bundle.
pub fn is_served(key: &ArtifactKey) -> bool {
    !matches!(key, ArtifactKey::ExtraFile(_) | ArtifactKey::Material(_))
}

/// The name under `/files/`: the user's own for what is the same everywhere, else `kubeadm-1.34.4-linux-amd64`,
/// since upstream's own names (`kubeadm`) are the same for every platform. Packages have their own, behind that of the release:
/// `debian-12-amd64-socat_1.7.4.4-2_amd64.deb`.
fn file_name(artifact: &crate::manifest::Artifact) -> String {
    match artifact.platform {
        None => artifact.name.clone(),
        Some(platform) => {
            if let ArtifactKey::Package { os, .. } = &artifact.key {
                return format!("{os}-{}-{}", platform.arch, artifact.name);
            }
            format!("{}-{}-{}-{}", artifact.key.name(), artifact.version, platform.os(), platform.arch)
        }
    }
}

/// `registry.k8s.io/pause:3.10.1` → (`registry.k8s.io/pause`, `3.10.1`); a digest reference has no tag.
pub fn split_reference(reference: &str) -> (&str, Option<&str>) {
    let name = reference.split_once('@').map_or(reference, |(name, _)| name);
    match name.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => (repository, Some(tag)),
        _ => (name, None),
    }
}

/// The images of a bundle that are named without a digest: their tags are theirs.
pub fn by_tag(manifest: &Manifest) -> BTreeSet<&str> {
    let names = manifest.artifacts.iter().filter(|artifact| artifact.key.kind() == Kind::Image);
    names.map(|artifact| artifact.name.as_str()).filter(|name| !name.contains('@')).collect()
}

/// Repository and tag by which a registry has an image. One that is named by tag and digest is pulled by the digest: where another has the
/// tag alone ([`by_tag`]), it is that one's.
pub fn served_as<'a>(reference: &'a str, by_tag: &BTreeSet<&str>) -> (&'a str, Option<&'a str>) {
    let is_taken = reference.split_once('@').is_some_and(|(name, _)| by_tag.contains(name));
    let (repository, tag) = split_reference(reference);
    (repository, tag.filter(|_| !is_taken))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Trust;
    use crate::manifest::{Artifact, FORMAT};

    fn image(key: ArtifactKey, name: &str, content: &str) -> Artifact {
        Artifact {
            key,
            version: "1".to_owned(),
            platform: Some(Platform::LINUX_AMD64),
            name: name.to_owned(),
            digest: Digest::of(content),
            manifest: Some(Digest::of(content)),
            blobs: Vec::new(),
            trust: Trust::OciDigest,
            sources: None,
        }
    }

    #[test]
    fn a_name_with_a_digest_takes_no_tag_that_another_is_named_by() {
        let other = format!("a.test/x:1@{}", Digest::of("other"));
        let alone = format!("a.test/y:2@{}", Digest::of("alone"));
        let artifacts = vec![
            image(ArtifactKey::ChartImage(other.clone()), &other, "other"),
            image(ArtifactKey::ExtraImage("a.test/x:1".to_owned()), "a.test/x:1", "own"),
            image(ArtifactKey::ChartImage(alone.clone()), &alone, "alone"),
        ];
        let mut manifest = Manifest {
            format: FORMAT,
            name: "prod".to_owned(),
            cluster: None,
            platforms: vec![Platform::LINUX_AMD64],
            zone: None,
            tool: "kubexm-bundle 1".to_owned(),
            lock: Digest::of("lock"),
            artifacts,
            members: Vec::new(),
        };
        for _ in 0..2 {
            let tls = Tls { cert: "/c".to_owned(), key: "/k".to_owned() };
            let images = DepotConfig::serving(&manifest, SocketAddr::from(([0, 0, 0, 0], 1)), "/s", tls).images;
            let x = &images["a.test/x"];
            assert_eq!(x.tags, BTreeMap::from([("1".to_owned(), Digest::of("own"))]));
            assert!(x.manifests.contains(&Digest::of("other")), "it is served by its digest");
            assert_eq!(images["a.test/y"].tags["2"], Digest::of("alone"));
            manifest.artifacts.reverse();
        }
    }

    #[test]
    fn a_port_is_no_tag_and_a_digest_is_no_tag() {
        assert_eq!(split_reference("registry.k8s.io/pause:3.10.1"), ("registry.k8s.io/pause", Some("3.10.1")));
        assert_eq!(split_reference("localhost:5000/pause"), ("localhost:5000/pause", None));
        assert_eq!(split_reference("localhost:5000/pause:1"), ("localhost:5000/pause", Some("1")));
        let pinned = format!("docker.io/library/busybox@{}", Digest::of("x"));
        assert_eq!(split_reference(&pinned), ("docker.io/library/busybox", None));
    }

    #[test]
    fn an_unknown_key_in_the_config_is_refused() {
        let config = DepotConfig {
            schema: SCHEMA.to_owned(),
            listen: SocketAddr::from(([0, 0, 0, 0], 5443)),
            store: "/var/lib/kubexm/store".to_owned(),
            tls: Tls { cert: "/c".to_owned(), key: "/k".to_owned() },
            login: None,
            images: BTreeMap::new(),
            files: BTreeMap::new(),
            packages: None,
        };
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<DepotConfig>(&text).unwrap(), config);
        let more = text.replacen('{', "{\"extra\":1,", 1);
        assert!(serde_json::from_str::<DepotConfig>(&more).is_err());
        assert!(!text.contains("packages"), "a depot from before reads what it can serve: {text}");
        let packages = "\"packages\":{\"url\":\"u\",\"metadata\":\"m\",\"repositories\":{},\"extra\":1},";
        assert!(serde_json::from_str::<DepotConfig>(&text.replacen('{', &format!("{{{packages}"), 1)).is_err());
    }
}
