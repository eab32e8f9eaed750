//! Folders of the controller, as values: nothing here reads the environment.

use std::path::{Path, PathBuf};

use kubexm_engine::RunId;
use kubexm_engine::run;

use crate::error::SessionError;

/// Default keys if cluster.yaml names none, as in ssh.
const KEYS: [&str; 3] = [".ssh/id_ed25519", ".ssh/id_ecdsa", ".ssh/id_rsa"];

/// The program's folder and the user's home.
#[derive(Clone, Debug)]
pub struct Home {
    root: PathBuf,
    user: Option<PathBuf>,
    ssh_agent: Option<PathBuf>,
}

/// The folder of one cluster.
#[derive(Clone, Debug)]
pub struct ClusterHome {
    /// `clusters/<name>`.
    pub folder: PathBuf,
    /// `metadata.name`.
    pub name: String,
}

impl Home {
    /// The program's folder, as an absolute path so that printed commands work in any folder; the user's home and the
    /// socket of an ssh-agent, if they exist.
    pub fn new(root: PathBuf, user: Option<PathBuf>, ssh_agent: Option<PathBuf>) -> Self {
        Self { root, user, ssh_agent }
    }

    /// The folder of a cluster.
    pub fn cluster(&self, name: &str) -> ClusterHome {
        ClusterHome { folder: self.root.join("clusters").join(name), name: name.to_owned() }
    }

    /// Every cluster that has a folder, by name.
    pub fn clusters(&self) -> Result<Vec<ClusterHome>, SessionError> {
        let folder = self.root.join("clusters");
        let entries = match std::fs::read_dir(&folder) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(|error| SessionError::disk("list", &folder, &error))?,
        };
        let mut clusters = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| SessionError::disk("list", &folder, &error))?;
            let is_cluster = |name: &&str| !name.starts_with('.') && entry.path().is_dir();
            if let Some(name) = entry.file_name().to_str().filter(is_cluster) {
                clusters.push(self.cluster(name));
            }
        }
        clusters.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(clusters)
    }

    /// Folder of the cache of verified bundles.
    pub fn verified(&self) -> PathBuf {
        self.root.join("verified")
    }

    /// Folder of what is remembered of registries that bundles were seeded into.
    pub fn seeded(&self) -> PathBuf {
        self.root.join("seeded")
    }

    /// Folder of backups that are kept elsewhere, while they are made or used.
    pub fn staging(&self) -> PathBuf {
        self.root.join("staging")
    }

    /// Folder of trusted public keys. If it contains one, bundles need a valid signature.
    pub fn trusted_keys(&self) -> PathBuf {
        self.root.join("trusted-keys")
    }

    /// The identity by which this home opens what is sealed for it, in age's format.
    pub fn identity(&self) -> PathBuf {
        self.root.join("identity")
    }

    /// Files of known host keys: kubexm's, to which new keys are added, then the user's and the system's.
    pub fn known_hosts(&self) -> Vec<PathBuf> {
        let users = self.user.iter().map(|user| user.join(".ssh/known_hosts"));
        let ours = [self.root.join("known_hosts")];
        ours.into_iter().chain(users).chain([PathBuf::from("/etc/ssh/ssh_known_hosts")]).collect()
    }

    /// The user's default key: the first of ssh's defaults that exists.
    pub fn default_key(&self) -> Option<PathBuf> {
        let user = self.user.as_deref()?;
        KEYS.iter().map(|key| user.join(key)).find(|path| path.is_file())
    }

    /// The socket of the user's ssh-agent.
    pub fn ssh_agent(&self) -> Option<PathBuf> {
        self.ssh_agent.clone()
    }

    /// Replaces `~/` by the user's home.
    pub fn expand(&self, path: &Path) -> PathBuf {
        match (path.strip_prefix("~"), &self.user) {
            (Ok(rest), Some(user)) => user.join(rest),
            _ => path.to_owned(),
        }
    }
}

impl ClusterHome {
    /// Where programs of a bundle are unpacked: beside the clusters' folders, since one that only looks makes none.
    pub(crate) fn programs(&self) -> &Path {
        self.folder.parent().unwrap_or(&self.folder)
    }

    /// The folder of its runs.
    pub fn runs(&self) -> PathBuf {
        self.folder.join("runs")
    }

    /// Its certificates.
    pub fn pki(&self) -> PathBuf {
        self.folder.join("pki")
    }

    /// File with the last successful check of the pod networks.
    pub fn network(&self) -> PathBuf {
        self.folder.join("network.json")
    }

    /// The operator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// Its runs, oldest first.
    pub fn run_ids(&self) -> Result<Vec<RunId>, SessionError> {
        run::list(&self.runs()).map_err(SessionError::from)
    }
}
