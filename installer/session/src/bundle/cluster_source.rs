//! An existing cluster, identified by its cluster.yaml, with or without a bundle.

use super::cluster_file::ClusterFile;
use super::opened::Opened;
use crate::error::SessionError;
use crate::options::{BundleOptions, ClusterOptions};
use crate::session::Session;

/// Where the description of the cluster is from.
#[derive(Debug)]
pub enum ClusterSource {
    /// The operator's own file.
    File(Box<ClusterFile>),
    /// A bundle, with its own cluster.yaml or the operator's; it also has the agents of other architectures.
    Bundle(Box<Opened>),
}

impl Session<'_> {
    /// Reads the cluster.yaml of an existing cluster.
    ///
    /// # Errors
    /// No cluster is named, or the file or bundle cannot be used.
    pub fn cluster(&self, options: &ClusterOptions) -> Result<ClusterSource, SessionError> {
        if let Some(bundle) = &options.bundle {
            let ClusterOptions { file, bases, trust, .. } = options.clone();
            // Nothing is installed from it, so `replace` does not matter.
            let bundle = BundleOptions { bundle: vec![bundle.clone()], bases, file, trust, ..BundleOptions::default() };
            let opened = self.open(&bundle)?;
            return Ok(ClusterSource::Bundle(Box::new(opened)));
        }
        let file = options.file.as_ref().ok_or(SessionError::NoCluster)?;
        Ok(ClusterSource::File(Box::new(ClusterFile::of_operator(file)?)))
    }
}

impl ClusterSource {
    /// The cluster.yaml.
    pub fn cluster(&self) -> &ClusterFile {
        match self {
            Self::File(cluster) => cluster,
            Self::Bundle(opened) => opened.cluster(),
        }
    }

    /// The bundle, if there is one.
    pub fn bundle(&self) -> Option<&Opened> {
        match self {
            Self::File(_) => None,
            Self::Bundle(opened) => Some(opened),
        }
    }
}
