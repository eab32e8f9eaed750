//! A cluster.yaml with where it is from: what may be done with the hosts and secrets that it names follows from that.

use std::ops::Deref;
use std::path::{Path, PathBuf};

use kubexm_archive::{Bundle, DOCUMENT_LIMIT};
use kubexm_spec::{Cluster, Digest, cluster};

use super::trust::Provenance;
use crate::error::SessionError;

/// Where a cluster.yaml is from.
#[derive(Clone, Debug)]
pub enum Origin {
    /// Given with `-f`: the operator's own choice of hosts and secrets, whatever the bundle is.
    Operator,
    /// From a bundle that a trusted key has signed.
    Signed,
    /// Of a bundle that nobody who is trusted has signed: anybody may have written it.
    Unproven {
        /// The bundle.
        bundle: PathBuf,
        /// Why nobody vouches for it.
        provenance: Provenance,
    },
}

/// A cluster.yaml that was read. Made by the two functions below alone, so that the origin is never made up.
#[derive(Clone, Debug)]
pub struct ClusterFile {
    cluster: Cluster,
    digest: Digest,
    origin: Origin,
}

impl ClusterFile {
    /// The file that the operator gave.
    pub fn of_operator(path: &Path) -> Result<Self, SessionError> {
        let text = kubexm_files::read(path, kubexm_files::TEXT_LIMIT)?;
        Self::parsed(&path.display().to_string(), text, Origin::Operator)
    }

    /// The one that a bundle carries. Its bytes are compared with the manifest, which is what is signed.
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
        Ok(Self { cluster, digest, origin })
    }

    /// A cluster that a test has put together.
    #[cfg(test)]
    pub const fn of_test(cluster: Cluster, digest: Digest) -> Self {
        Self { cluster, digest, origin: Origin::Operator }
    }

    /// For a test to change what it put together.
    #[cfg(test)]
    pub const fn cluster_mut(&mut self) -> &mut Cluster {
        &mut self.cluster
    }

    /// Digest of its bytes.
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    pub const fn origin(&self) -> &Origin {
        &self.origin
    }
}

impl Deref for ClusterFile {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}
