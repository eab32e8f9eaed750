//! What a depot serves: the text of `/etc/kubexm/depot/config.json`, written by a plan and read by the depot.
//!
//! The depot knows nothing but this and its content store. Media types are not repeated here: a manifest says its
//! own (`mediaType`), and blobs are served as `application/octet-stream` (OCI distribution-spec, "Pulling blobs").

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::{ArtifactKey, Digest, Family, Manifest, Platform};

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
        for artifact in manifest.artifacts.iter().filter(|artifact| is_served(&artifact.key)) {
            match artifact.manifest {
                Some(platform_manifest) => {
                    let (name, tag) = split_reference(&artifact.name);
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

#[cfg(test)]
mod tests {
    use super::*;

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
