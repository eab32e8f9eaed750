//! The clusters that this controller has installed, from their folders: no host is contacted.

use kubexm_engine::{ClusterLock, Status, run};
use kubexm_plan::BundleRecord;
use kubexm_spec::{ExitCode, error_chain};
use serde_json::{Value, json};

use crate::bundle::installed::installed_bundle;
use crate::cluster_facts::ClusterView;
use crate::error::SessionError;
use crate::home::{ClusterHome, Home};

/// The schema of [`status_document`].
const SCHEMA: &str = "kubexm.io/status/v1";

/// A cluster as this controller knows it.
#[derive(Clone, Debug)]
pub struct ClusterStatus {
    /// Its folder.
    pub home: ClusterHome,
    /// The process that works on it now.
    pub holder: Option<String>,
    /// Oldest first.
    pub runs: Vec<RecordedRun>,
    /// The bundle that it was made from, or why the record of it cannot be read.
    pub installed: Result<Option<BundleRecord>, String>,
}

/// A run, as far as it can be read.
#[derive(Clone, Debug)]
pub enum RecordedRun {
    /// From its journal.
    Read(Box<Status>),
    /// Its plan or journal cannot be read.
    Unreadable {
        /// Its id.
        run: String,
        /// Why.
        error: String,
        /// What a program ends with that needs this run.
        code: ExitCode,
    },
}

impl Home {
    /// One cluster, or all that have a folder. Runs that are active, or that cannot be read, are included.
    ///
    /// # Errors
    /// A folder cannot be listed.
    pub fn status(&self, cluster: Option<&str>) -> Result<Vec<ClusterStatus>, SessionError> {
        let clusters = match cluster {
            Some(name) => vec![self.cluster(name)],
            None => self.clusters()?,
        };
        clusters.into_iter().map(ClusterStatus::of).collect()
    }
}

impl ClusterStatus {
    /// [`ExitCode::Ok`], or the code of its last run that cannot be read: `resume`, `rollback` and `report` end with the same. Of
    /// earlier ones nothing depends any more.
    pub fn exit_code(&self) -> ExitCode {
        match self.runs.last() {
            Some(RecordedRun::Unreadable { code, .. }) => *code,
            Some(RecordedRun::Read(_)) | None => ExitCode::Ok,
        }
    }

    fn of(home: ClusterHome) -> Result<Self, SessionError> {
        let read = |id| match run::read_status(&home.runs(), &id) {
            Ok(status) => RecordedRun::Read(Box::new(status)),
            Err(error) => {
                RecordedRun::Unreadable { run: id.to_string(), code: error.exit_code(), error: error_chain(&error) }
            }
        };
        let holder = ClusterLock::holder(&home.folder);
        let runs = home.run_ids()?.into_iter().map(read).collect();
        let installed = installed_bundle(&home).map_err(|error| error.to_string());
        Ok(Self { holder, runs, installed, home })
    }

    fn document(&self, view: Option<&ClusterView>) -> Value {
        let Self { home, holder, runs, installed } = self;
        let installed = match installed {
            Ok(bundle) => json!(bundle),
            Err(error) => json!({ "error": error }),
        };
        let runs = runs.iter().map(|run| match run {
            RecordedRun::Read(status) => json!(status),
            RecordedRun::Unreadable { run, error, .. } => json!({ "run": run, "error": error }),
        });
        let kubeconfig = Some(home.kubeconfig()).filter(|path| path.is_file());
        let mut document = json!({
            "name": home.name,
            "kubeconfig": kubeconfig,
            "installed": installed,
            "atWork": holder,
            "runs": runs.collect::<Vec<_>>(),
        });
        if let Some(view) = view {
            document["facts"] = json!(view.facts);
        }
        document
    }
}

/// The document of `status --json`. `view`: what the hosts of the one cluster report.
pub fn status_document(clusters: &[ClusterStatus], view: Option<&ClusterView>) -> Value {
    let clusters: Vec<Value> = clusters.iter().map(|cluster| cluster.document(view)).collect();
    json!({ "schema": SCHEMA, "clusters": clusters })
}
