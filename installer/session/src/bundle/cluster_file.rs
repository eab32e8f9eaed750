//! A cluster.yaml and its origin, which determines whether the hosts and secrets that it names may be used.

use std::ops::Deref;
use std::path::{Path, PathBuf};

use kubexm_archive::{Bundle, DOCUMENT_LIMIT};
use kubexm_spec::cluster::MaterialFile;
use kubexm_spec::{Cluster, Digest, cluster};

use super::trust::Provenance;
use crate::error::SessionError;

/// The origin of a cluster.yaml.
#[derive(Clone, Debug)]
pub enum Origin {
    /// Given with `-f`: the operator's own choice of hosts and secrets, whichever bundle is used.
    Operator,
    /// From a bundle with the signature of a trusted key.
    Signed,
    /// From a bundle without the signature of a trusted key: anybody may have written it.
    Unproven {
        /// The bundle.
        bundle: PathBuf,
        /// Why the signature is not trusted.
        provenance: Provenance,
    },
}

/// A cluster.yaml and its origin. Only the two functions below create one, so that the origin is always right.
#[derive(Clone, Debug)]
pub struct ClusterFile {
    cluster: Cluster,
    digest: Digest,
    origin: Origin,
    /// The operator's own file.
    path: Option<PathBuf>,
}

impl ClusterFile {
    /// Reads the operator's own file.
    pub fn of_operator(path: &Path) -> Result<Self, SessionError> {
        let text = kubexm_files::read(path, kubexm_files::TEXT_LIMIT)?;
        let file = Self::parsed(&path.display().to_string(), text, Origin::Operator)?;
        Ok(Self { path: Some(path.to_owned()), ..file })
    }

    /// Reads the one in a bundle. Its bytes are compared with the manifest, which is covered by the signature.
    pub fn of_bundle(bundle: &Bundle, provenance: &Provenance) -> Result<Self, SessionError> {
        let text = bundle.read("cluster.yaml", DOCUMENT_LIMIT)?;
        let origin = match provenance.vouches_for(bundle) {
            true => Origin::Signed,
            false => Origin::Unproven { bundle: bundle.path().to_owned(), provenance: provenance.clone() },
        };
        Self::parsed(&format!("cluster.yaml of {}", bundle.path().display()), text, origin)
    }

    fn parsed(name: &str, text: Vec<u8>, origin: Origin) -> Result<Self, SessionError> {
        let digest = Digest::of(&text);
        let text = kubexm_files::text_of(Path::new(name), text)?;
        let cluster =
            cluster::parse(&text).map_err(|problems| SessionError::Problems { name: name.to_owned(), problems })?;
        Ok(Self { cluster, digest, origin, path: None })
    }

    /// A cluster made by a test.
    #[cfg(test)]
    pub const fn of_test(cluster: Cluster, digest: Digest) -> Self {
        Self { cluster, digest, origin: Origin::Operator, path: None }
    }

    /// Lets a test change the cluster.
    #[cfg(test)]
    pub const fn cluster_mut(&mut self) -> &mut Cluster {
        &mut self.cluster
    }

    /// Where a file that it names lies, if it is the operator's own.
    pub fn beside(&self, file: &MaterialFile) -> Option<PathBuf> {
        Some(self.path.as_ref()?.parent().unwrap_or(Path::new("")).join(&file.name))
    }

    /// Digest of its bytes.
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    pub const fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Public keys of its operators; none if anybody may have written it: then they vouch for nothing.
    pub fn proven_operators(&self) -> Vec<String> {
        match self.origin {
            Origin::Operator | Origin::Signed => self.operators.iter().map(|one| one.recipient.clone()).collect(),
            Origin::Unproven { .. } => Vec::new(),
        }
    }
}

impl Deref for ClusterFile {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}
