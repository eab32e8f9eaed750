//! A fresh host in a directory, and trees to compare.
#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests: a fault here is a fault of the test")]

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use kubexm_plan::Texts;
use kubexm_plan::op::{Content, File};
use kubexm_spec::Digest;
use tempfile::TempDir;

use super::seed::seed;
use crate::{ActContext, Machine, dispatch};

/// Where containerd listens.
pub const SOCKET: &str = "unix:///run/containerd/containerd.sock";

pub struct Host {
    pub machine: Machine,
    pub texts: Texts,
    folder: TempDir,
}

impl Host {
    pub fn fresh() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let machine = seed(folder.path()).expect("a fresh host");
        let act = ActContext { run: "run".to_owned(), step: "node1/test.step".to_owned() };
        Self { machine: machine.with_act(act), texts: Texts::new(), folder }
    }

    pub fn put(&self, path: &str, text: impl AsRef<[u8]>) {
        let real = self.machine.path(path);
        std::fs::create_dir_all(real.parent().expect("a parent")).expect("folders");
        std::fs::write(real, text).expect("a file");
    }

    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.machine.path(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub fn blob(&self, bytes: impl AsRef<[u8]>) -> Digest {
        let digest = Digest::of(&bytes);
        self.put(&format!("/var/lib/kubexm/store/blobs/sha256/{}", digest.hex()), bytes);
        digest
    }

    pub fn text(&mut self, text: &str) -> Digest {
        let digest = Digest::of(text);
        self.texts.insert(digest, text.to_owned());
        self.machine = self.machine.with_texts(self.texts.clone());
        digest
    }

    pub fn file(&mut self, path: &str, text: &str) -> File {
        File { path: path.to_owned(), content: Content::Text { digest: self.text(text) }, mode: 0o644 }
    }

    pub fn unit(&self, name: &str, program: &str) {
        self.put(program, "#!/bin/true\n");
        let text = format!("[Service]\nExecStart={program} --flag\n[Install]\nWantedBy=multi-user.target\n");
        self.put(&format!("/etc/systemd/system/{name}"), text);
    }

    /// A running containerd, a kubelet, and kubeadm with its config.
    pub fn ready_for_init(&self) {
        use kubexm_plan::op::{Op, Unit};
        for program in ["kubeadm", "kubectl", "ctr"] {
            self.put(&format!("/usr/local/bin/{program}"), "#!/bin/true\n");
        }
        self.unit("containerd.service", "/usr/local/bin/containerd");
        self.unit("kubelet.service", "/usr/local/bin/kubelet");
        self.put("/etc/kubexm/kubeadm.yaml", "nodeRegistration:\n  name: node1\n");
        for (name, running) in [("containerd.service", Some(true)), ("kubelet.service", None)] {
            let unit =
                Op::from(Unit { name: name.to_owned(), enabled: true, running, loaded: vec![], reloaded: Vec::new() });
            dispatch::converge(&unit, &self.machine).expect("a unit");
        }
    }

    /// A cluster whose only control plane is this host.
    pub fn with_cluster(&self) {
        use kubexm_plan::op::{KubeadmInit, Op};
        self.ready_for_init();
        let (config, cri_socket) = ("/etc/kubexm/kubeadm.yaml".to_owned(), SOCKET.to_owned());
        let init = Op::from(KubeadmInit { config, cri_socket, ignore: Vec::new(), backup: None });
        dispatch::converge(&init, &self.machine).expect("kubeadm init");
    }

    /// Everything that a person would miss: path → kind, mode, content. Without what is the engine's own or volatile.
    pub fn tree(&self) -> BTreeMap<String, String> {
        self.walk(|metadata, content| format!("{:o} {content}", metadata.mode()))
    }

    /// As [`Self::tree`], and also what a rewrite with the same bytes would change.
    pub fn traces(&self) -> BTreeMap<String, String> {
        self.walk(|m, content| format!("{:o} {content} {} {}.{}", m.mode(), m.ino(), m.mtime(), m.mtime_nsec()))
    }

    fn walk(&self, show: impl Fn(&std::fs::Metadata, &str) -> String) -> BTreeMap<String, String> {
        let root = self.folder.path();
        let skipped = |path: &Path| {
            let below = path.strip_prefix(root).unwrap_or(path);
            ["run/kubexm-double", "var/lib/kubexm/ledger", "var/lib/kubexm/runs", "var/lib/kubexm/units", "run/kubexm"]
                .iter()
                .any(|skip| below.starts_with(skip))
        };
        walkdir::WalkDir::new(root)
            .into_iter()
            .filter_entry(|entry| !skipped(entry.path()))
            .map(|entry| entry.expect("an entry"))
            .filter(|entry| !["run", "var/lib/kubexm"].iter().any(|f| entry.path() == root.join(f)))
            .map(|entry| {
                let metadata = entry.path().symlink_metadata().expect("metadata");
                let content = if metadata.is_symlink() {
                    std::fs::read_link(entry.path()).expect("a link").display().to_string()
                } else if metadata.is_file() {
                    Digest::of(std::fs::read(entry.path()).expect("bytes")).to_string()
                } else {
                    String::new()
                };
                (entry.path().strip_prefix(root).expect("below").display().to_string(), show(&metadata, &content))
            })
            .collect()
    }
}

/// A tar.gz with these members.
pub fn archive(members: &[(&str, &str)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for (name, text) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o755);
        builder.append_data(&mut header, name, text.as_bytes()).expect("a member");
    }
    builder.into_inner().expect("tar").finish().expect("gzip")
}

/// Names the paths that differ, and nothing else.
pub fn same(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>, what: &str) {
    let paths: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let differ: Vec<String> = paths
        .into_iter()
        .filter(|path| before.get(*path) != after.get(*path))
        .map(|path| format!("{path}: {:?} → {:?}", before.get(path), after.get(path)))
        .collect();
    assert!(differ.is_empty(), "{what}: {differ:#?}");
}
