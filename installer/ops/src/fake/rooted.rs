//! The folder of a fake system: its files and settings, and a lock for one program at a time.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use kubexm_plan::facts::Interface;
use serde::de::DeserializeOwned;

use crate::{OpError, paths};

/// Folder of the fake's own state.
pub const FOLDER: &str = "/run/kubexm-double";
/// File of [`FOLDER`] with the paths that got SELinux's label, one in a line.
pub const RELABELLED: &str = "relabelled";

/// Programs, kernel and systemd of a machine that is only a directory.
#[derive(Debug)]
pub struct RootedSystem {
    pub(super) root: PathBuf,
    /// One program at a time: each reads the state, changes it and writes it back.
    pub(super) running: Mutex<()>,
}

impl RootedSystem {
    /// Nothing is written before a program runs.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), running: Mutex::new(()) }
    }

    /// Keeps the state of the cluster in a folder that several hosts share.
    pub fn share(&self, folder: &Path) -> Result<(), OpError> {
        std::fs::create_dir_all(folder).map_err(OpError::path("make the folder", folder))?;
        self.put("cluster", folder.to_string_lossy().as_bytes())
    }

    /// Writes one of the fake's settings.
    pub fn put(&self, name: &str, bytes: &[u8]) -> Result<(), OpError> {
        let path = self.at(&format!("{FOLDER}/{name}"));
        crate::fsio::make_parent(&path)?;
        std::fs::write(&path, bytes).map_err(OpError::path("write", &path))
    }

    pub(super) fn shared(&self) -> Option<PathBuf> {
        self.read(&format!("{FOLDER}/cluster")).map(|folder| PathBuf::from(folder.trim()))
    }

    /// One program at a time on this host, and one in the cluster.
    pub(super) fn lock(&self) -> Result<(std::sync::MutexGuard<'_, ()>, Option<std::fs::File>), OpError> {
        let here = self.running.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let Some(shared) = self.shared() else { return Ok((here, None)) };
        let path = shared.join("lock");
        let file = std::fs::File::create(&path).map_err(OpError::path("open", &path))?;
        file.lock().map_err(OpError::path("lock", &path))?;
        Ok((here, Some(file)))
    }

    /// The host's own address.
    pub(super) fn address(&self) -> Result<String, OpError> {
        let interfaces = self.own_interfaces();
        let first = interfaces.iter().flat_map(|interface| &interface.addresses).next();
        Ok(first.and_then(|address| address.split('/').next()).unwrap_or("127.0.0.1").to_owned())
    }

    pub(super) fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    pub(super) fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.at(path)).ok()
    }

    pub(super) fn setting<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        serde_json::from_str(&self.read(&format!("{FOLDER}/{name}"))?).ok()
    }

    pub(super) fn is_installed(&self, program: &str) -> bool {
        paths::PATH.split(':').any(|folder| self.at(&format!("{folder}/{program}")).is_file())
    }

    /// Its network interfaces: those that a test has set, or a default one.
    pub(super) fn own_interfaces(&self) -> Vec<Interface> {
        self.setting("interfaces.json").unwrap_or_else(|| {
            vec![Interface {
                name: "eth0".to_owned(),
                addresses: vec!["10.0.0.5/24".to_owned()],
                mac: "02:00:00:00:00:05".to_owned(),
                mtu: 1500,
            }]
        })
    }
}
