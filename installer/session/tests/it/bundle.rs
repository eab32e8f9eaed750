//! A small bundle with everything that its cluster needs, by name: contents are a few bytes.

use std::path::{Path, PathBuf};

use kubexm_archive::{ArchiveError, Input, Options, Signing, members, write};
use kubexm_engine::sim;
use kubexm_manifests::Catalogue;
use kubexm_recipes::sample;
use kubexm_signing::{PrivateKey, sign_bundle};
use kubexm_spec::manifest::{Artifact, Blob, Manifest, Member};
use kubexm_spec::{Digest, Kind, SignedAt, cluster};

/// cluster.yaml of simulated hosts; the first is control plane, the others are workers.
pub fn cluster_yaml(name: &str, hosts: &[&str]) -> String {
    let host = |host: &&str| {
        let address = sim::facts(host).interfaces[0].addresses[0].replace("/24", "");
        format!("  - {{name: {host}, address: {address}, user: root, privateKeyPath: /nowhere/key}}\n")
    };
    format!(
        "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: {name}}}\nspec:\n  hosts:\n{}  \
         roleGroups: {{master: [{}], worker: [{}]}}\n  kubernetes: {{version: v1.34.4}}\n  network: {{plugin: flannel}}\n",
        hosts.iter().map(host).collect::<String>(),
        hosts[0],
        hosts.join(", "),
    )
}

/// Signs a bundle.
pub fn sign(bundle: &Path, key: &PrivateKey, date: i64) {
    let open = Signing::open(bundle).unwrap();
    let signed = SignedAt { date, sequence: None };
    let signature = sign_bundle(open.bundle(), signed, |bytes| Ok::<_, ArchiveError>(key.sign(bytes))).unwrap();
    open.replace(&[signature], &|_, _| {}).unwrap();
}

/// Writes the bundle of a cluster.
pub fn write_bundle(folder: &Path, cluster_yaml: &str) -> PathBuf {
    write_bundle_with(folder, cluster_yaml, None)
}

/// The same by another tool, which makes it another manifest.
pub fn write_bundle_by(folder: &Path, cluster_yaml: &str, tool: &str) -> PathBuf {
    write_bundle_of(folder, cluster_yaml, None, tool)
}

/// The same with this text for every material; none are carried without one.
pub fn write_bundle_with(folder: &Path, cluster_yaml: &str, material: Option<&str>) -> PathBuf {
    write_bundle_of(folder, cluster_yaml, material, "kubexm-bundle 0.1.0")
}

fn write_bundle_of(folder: &Path, cluster_yaml: &str, material: Option<&str>, tool: &str) -> PathBuf {
    let catalogue = Catalogue::embedded();
    let parsed = cluster::parse(cluster_yaml).unwrap();
    let sample = sample::manifest(&parsed, &catalogue).unwrap();
    let mut contents: Vec<(String, Vec<u8>)> = vec![
        ("lock.yaml".into(), b"lock: 1\n".to_vec()),
        ("cluster.yaml".into(), cluster_yaml.as_bytes().to_vec()),
        ("catalogue.json".into(), catalogue.to_json().unwrap()),
        ("oci-layout".into(), br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec()),
        ("index.json".into(), br#"{"schemaVersion":2,"manifests":[]}"#.to_vec()),
    ];
    let mut artifacts = Vec::new();
    for artifact in sample.artifacts {
        // It is stored as it is, since it looks compressed.
        let content = match (artifact.key.kind(), material) {
            (Kind::Material, Some(text)) => text.as_bytes().to_vec(),
            (Kind::Material, None) => continue,
            _ => [b"\x1f\x8b\x08\0", format!("what {} would be", artifact.key).as_bytes()].concat(),
        };
        let digest = Digest::of(&content);
        let blobs = vec![Blob { digest, size: content.len() as u64 }];
        artifacts.push(Artifact { digest, manifest: artifact.manifest.map(|_| digest), blobs, ..artifact });
        contents.push((members::blob_name(&digest), content));
    }
    let members = contents.iter().map(|(name, content)| Member {
        name: name.clone(),
        size: content.len() as u64,
        sha256: Digest::of(content),
    });
    let tool = tool.to_owned();
    let manifest = Manifest { tool, artifacts, lock: Digest::of(b"lock: 1\n"), members: members.collect(), ..sample };
    let inputs = contents.into_iter().map(|(name, content)| Input::bytes(name, content)).collect();
    let path = folder.join(format!("{}.tar.zst", parsed.name));
    write(&path, &manifest, inputs, &Options::default(), &|_, _| {}).unwrap();
    path
}
