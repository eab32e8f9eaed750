//! A cluster that is named by its cluster.yaml, with or without a bundle.

use super::cluster_file::ClusterFile;
use super::opened::Opened;
use crate::error::SessionError;
use crate::options::{BundleOptions, ClusterOptions};
use crate::session::Session;

/// The cluster.
#[derive(Debug)]
pub enum ClusterSource {
    /// The operator's own file.
    File(Box<ClusterFile>),
    /// By a bundle, with its own cluster.yaml or the operator's: agents of other architectures come from it.
    Bundle(Box<Opened>),
}

impl Session<'_> {
    /// Reads the cluster.yaml of a cluster that exists.
    ///
    /// # Errors
    /// No cluster is named, or what names it cannot be used.
    pub fn cluster(&self, options: &ClusterOptions) -> Result<ClusterSource, SessionError> {
        if let Some(bundle) = &options.bundle {
            let ClusterOptions { file, bases, trust, .. } = options.clone();
            // It takes the place of nothing.
            let bundle = BundleOptions { bundle: vec![bundle.clone()], bases, file, trust, ..BundleOptions::default() };
            let opened = self.open(&bundle)?;
            return Ok(ClusterSource::Bundle(Box::new(opened)));
        }
        let file = options.file.as_ref().ok_or(SessionError::NoCluster)?;
        Ok(ClusterSource::File(Box::new(ClusterFile::of_operator(file)?)))
    }
}

impl ClusterSource {
    /// Its hosts above all.
    pub fn cluster(&self) -> &ClusterFile {
        match self {
            Self::File(cluster) => cluster,
            Self::Bundle(opened) => opened.cluster(),
        }
    }

    /// The bundle, where there is one.
    pub fn bundle(&self) -> Option<&Opened> {
        match self {
            Self::File(_) => None,
            Self::Bundle(opened) => Some(opened),
        }
    }
}
