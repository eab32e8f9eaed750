//! An existing cluster, identified by its cluster.yaml, with or without a bundle.

use kubexm_recipes::RecipeError;
use kubexm_spec::Cluster;

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
            return ClusterSource::Bundle(Box::new(opened)).with_hosts();
        }
        let file = options.file.as_ref().ok_or(SessionError::NoCluster)?;
        ClusterSource::File(Box::new(ClusterFile::of_operator(file)?)).with_hosts()
    }
}

impl ClusterSource {
    /// Nothing can be said of a cluster without hosts, least of all that it is gone.
    fn with_hosts(self) -> Result<Self, SessionError> {
        if self.cluster().hosts.is_empty() { Err(RecipeError::NoHosts { what: "hosts" }.into()) } else { Ok(self) }
    }

    /// Whether these are hosts of the cluster: a name that was typed wrong is said before hosts are connected to.
    ///
    /// # Errors
    /// One is not.
    pub fn check_hosts(&self, named: &[String]) -> Result<(), SessionError> {
        check_hosts(self.cluster(), named)
    }

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

/// The same of a bundle's cluster.
///
/// # Errors
/// One is not.
pub fn check_hosts(cluster: &Cluster, named: &[String]) -> Result<(), SessionError> {
    let names: Vec<&str> = cluster.hosts.iter().map(|host| host.name.as_str()).collect();
    match named.iter().find(|name| !names.contains(&name.as_str())) {
        None => Ok(()),
        Some(host) => {
            let (host, cluster, known) = (host.clone(), cluster.name.clone(), names.join(", "));
            Err(RecipeError::UnknownHost { host, cluster, known }.into())
        }
    }
}
