//! The report of a run: text for people, a document for machines.

use kubexm_engine::{RunId, Status, run};

use crate::error::SessionError;
use crate::home::{ClusterHome, Home};

/// A run whose report can be read, also while the run is active.
#[derive(Clone, Debug)]
pub struct RunReport {
    cluster: ClusterHome,
    id: RunId,
}

impl Home {
    /// Finds a run: the named one or the latest, of one cluster or of all.
    ///
    /// # Errors
    /// There is no such run, or a folder cannot be listed.
    pub fn run_report(&self, cluster: Option<&str>, named: Option<&str>) -> Result<RunReport, SessionError> {
        let clusters = match cluster {
            Some(name) => vec![self.cluster(name)],
            None => self.clusters()?,
        };
        let mut found: Option<RunReport> = None;
        for cluster in clusters {
            let mut runs = cluster.run_ids()?.into_iter();
            let candidate = match named {
                Some(name) => runs.find(|id| id.as_str() == name),
                None => runs.next_back(),
            };
            // Runs of different clusters have no common numbering, so the times in their ids are compared.
            if let Some(id) = candidate
                && (named.is_some() || found.as_ref().is_none_or(|latest| id > latest.id))
            {
                found = Some(RunReport { cluster, id });
            }
        }
        found.ok_or_else(|| {
            SessionError::Run(match named {
                Some(name) => format!("there is no run {name}; `kubexm-install status` lists the runs"),
                None => "there are no runs yet; `kubexm-install --bundle FILE` starts one".to_owned(),
            })
        })
    }
}

impl RunReport {
    /// The text that is also in the run's folder, as report.md.
    ///
    /// # Errors
    /// The plan or the journal of the run cannot be read.
    pub fn text(&self) -> Result<String, SessionError> {
        Ok(run::read_report(&self.cluster.runs(), &self.id)?)
    }

    /// The same for machines; the serialised status is the document of `--json`.
    ///
    /// # Errors
    /// The plan or the journal of the run cannot be read.
    pub fn status(&self) -> Result<Status, SessionError> {
        Ok(run::read_status(&self.cluster.runs(), &self.id)?)
    }
}
