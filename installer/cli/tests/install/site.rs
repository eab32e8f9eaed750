//! A home, a small bundle that has everything its cluster needs (by name: contents are a few bytes), and the program.

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use kubexm_archive::{Input, Options, members, write};
use kubexm_manifests::Catalogue;
use kubexm_recipes::sample;
use kubexm_spec::manifest::{Artifact, Blob, Manifest, Member};
use kubexm_spec::{ArtifactKey, Digest, cluster};
use tempfile::TempDir;

/// A folder with everything in it.
pub struct Site {
    pub folder: TempDir,
}

impl Site {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The program with a home of its own and no terminal.
    pub fn install(&self, args: &[&str]) -> Command {
        let mut command = Command::cargo_bin("kubexm-install").unwrap();
        command.args(args).env("KUBEXM_HOME", self.path("home")).env("HOME", self.folder.path()).env_remove("RUST_LOG");
        command
    }

    /// A folder with what a backup says of itself: nobody has made it, and what is behind it is not looked at in these tests.
    pub fn backup(&self) -> PathBuf {
        let folder = self.path("backups");
        std::fs::create_dir(&folder).unwrap();
        let header = serde_json::json!({
            "schema": "kubexm.io/backup/v1", "cluster": "demo", "clusterId": "01010101-0101-4101-8101-010101010101",
            "created": 1_800_000_000, "kubernetes": null, "host": "node1", "program": "test", "recipients": [],
            "archive": {"sha256": Digest::of("an archive"), "size": 10}, "etcd": {"revision": 9, "keys": 3, "size": 4096},
            "sealed": "", "sender": null,
        });
        std::fs::write(folder.join("backup.json"), header.to_string()).unwrap();
        folder
    }

    /// A whole bundle for one host at this port of 127.0.0.1.
    pub fn bundle(&self, port: u16) -> PathBuf {
        self.bundle_with(&cluster_yaml(&[("node1", port)]), |_| true)
    }

    /// A bundle of this cluster, with the artifacts that are to be in it.
    pub fn bundle_with(&self, cluster_yaml: &str, carried: impl Fn(&Artifact) -> bool) -> PathBuf {
        let path = self.path("site.tar.zst");
        write_bundle(&path, cluster_yaml, carried);
        path
    }

    /// The same bundle, and arguments that say yes, also to its own cluster.yaml.
    pub fn create(&self, bundle: &Path) -> Command {
        self.install(&["create", "-y", "--allow-unsigned", "--bundle", bundle.to_str().unwrap()])
    }
}

/// A cluster.yaml with hosts at ports of 127.0.0.1.
pub fn cluster_yaml(hosts: &[(&str, u16)]) -> String {
    let mut text =
        "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\nspec:\n  hosts:\n".to_owned();
    for (number, (name, port)) in hosts.iter().enumerate() {
        text.push_str(&format!(
            "  - {{name: {name}, address: 127.0.0.{}, port: {port}, user: root, privateKeyPath: /nowhere/key}}\n",
            number + 1,
        ));
    }
    let first = hosts.first().map_or("node1", |(name, _)| *name);
    text.push_str(&format!(
        "  roleGroups: {{master: [{first}], worker: [{}]}}\n  kubernetes: {{version: v1.34.4}}\n  network: {{plugin: flannel}}\n",
        hosts.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "),
    ));
    text
}

/// A port of 127.0.0.1 where nobody listens.
/// It is held until the program ends: let go, the next server of another test could get it.
pub fn closed_port() -> u16 {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    std::mem::forget(socket);
    address.port()
}

/// A blob that is stored as it is, since it looks compressed.
pub fn content_of(key: &ArtifactKey) -> Vec<u8> {
    let mut content = b"\x1f\x8b\x08\0".to_vec();
    content.extend(format!("what {key} would be").bytes());
    content
}

fn write_bundle(path: &Path, cluster_yaml: &str, carried: impl Fn(&Artifact) -> bool) {
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
    for artifact in sample.artifacts.into_iter().filter(|artifact| carried(artifact)) {
        let content = content_of(&artifact.key);
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
    let manifest = Manifest { artifacts, lock: Digest::of(b"lock: 1\n"), members: members.collect(), ..sample };
    let inputs = contents.into_iter().map(|(name, content)| Input::bytes(name, content)).collect();
    write(path, &manifest, inputs, &Options::default(), &|_, _| {}).unwrap();
}
