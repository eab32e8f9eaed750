//! Permission to connect to the hosts of a cluster.yaml, and to use the secrets that it names for that.
//!
//! A bundle without a trusted signature may name any host and any of the operator's secrets. If these were used as they
//! are, the author of the bundle would choose which host receives which password. So nothing connects without an
//! [`Access`], and only this file makes one:
//!
//! ```text
//! ClusterFile (of the operator, or of a signed bundle) ─┐
//! ClusterFile (unproven) ─ --allow-unsigned, or yes ────┼→ Access ─→ Fleet::connect
//! a run of exactly this cluster.yaml and bundle ────────┘
//! ```

mod approach;
mod wanted;

use std::path::Path;

use kubexm_engine::link::LinkError;
use kubexm_engine::link::ssh::SshTarget;
use kubexm_engine::{Run, RunId};
use kubexm_plan::CheckedPlan;
use kubexm_spec::Cluster;

use self::approach::Approach;
use crate::bundle::cluster_file::{ClusterFile, Origin};
use crate::bundle::opened::Opened;
use crate::confirm::{Answer, UnsignedCluster};
use crate::error::SessionError;
use crate::escaped::escaped;
use crate::events;
use crate::home::Home;
use crate::options::{HostOptions, TrustOptions};
use crate::session::Session;

/// Hosts that may be connected to, each with the secrets that may be used for it. No secret has been read yet.
#[derive(Debug)]
#[must_use]
pub struct Access(Vec<Approach>);

impl Access {
    /// For commands that start a run or only observe: granted by the origin of the cluster.yaml, by an option, or by
    /// the answer to one question. Nothing that cluster.yaml names is read or connected to before.
    ///
    /// # Errors
    /// The answer was no, or nobody could be asked.
    pub fn obtain(
        session: &Session<'_>,
        file: &ClusterFile,
        trust: &TrustOptions,
        hosts: &HostOptions,
    ) -> Result<Self, SessionError> {
        Self::asked(session, file, trust, hosts, None)
    }

    /// The same for a run that gives the hosts what is in a backup.
    ///
    /// # Errors
    /// As [`Self::obtain`].
    pub fn obtain_with_backup(
        session: &Session<'_>,
        file: &ClusterFile,
        (trust, hosts): (&TrustOptions, &HostOptions),
        backup: &Path,
    ) -> Result<Self, SessionError> {
        Self::asked(session, file, trust, hosts, Some(backup))
    }

    fn asked(
        session: &Session<'_>,
        file: &ClusterFile,
        trust: &TrustOptions,
        hosts: &HostOptions,
        backup: Option<&Path>,
    ) -> Result<Self, SessionError> {
        let access = Self::to(file, session.home);
        let Origin::Unproven { bundle, provenance } = file.origin() else { return Ok(access) };
        let question = UnsignedCluster {
            bundle: format!("{} is {provenance}", escaped(&bundle.to_string_lossy())),
            wanted: wanted::wanted(file, &access.0, hosts.accept_new_host_keys, backup),
        };
        if trust.allow_unsigned {
            let text = format!("{}. Its own cluster.yaml is used (--allow-unsigned):", question.bundle);
            events::warning(session.events, text);
            question.wanted.iter().for_each(|line| events::note(session.events, line));
            return Ok(access);
        }
        match session.confirm.trust_cluster(&question) {
            Answer::Yes => Ok(access),
            Answer::No => Err(SessionError::UnsignedDeclined),
            Answer::Nobody => {
                let UnsignedCluster { bundle, wanted } = question;
                Err(SessionError::UnsignedCluster { bundle, wanted })
            }
        }
    }

    /// For a run that was started: the operator has agreed to connect to the hosts of this cluster.yaml and to install
    /// this bundle, whose digests are in the run's plan ([`Run::load`] refuses others). Asking again would protect
    /// nobody, and would stop an unattended resume after a power cut.
    pub(crate) fn of_run(
        opened: &Opened,
        home: &Home,
        runs: &Path,
        id: &RunId,
    ) -> Result<(Run, CheckedPlan, Self), SessionError> {
        let (run, plan) = Run::load(runs, id, opened.belongs())?;
        Ok((run, plan, Self::to(opened.cluster(), home)))
    }

    /// The connection parameters of each host, by name. The secrets are read now.
    pub(crate) fn targets(&self, session: &Session<'_>) -> impl Iterator<Item = (&str, Result<SshTarget, LinkError>)> {
        self.0.iter().map(|approach| (approach.name(), approach.resolve(session.credentials, session.home)))
    }

    fn to(cluster: &Cluster, home: &Home) -> Self {
        Self(cluster.hosts.iter().map(|host| Approach::of(cluster, host, home)).collect())
    }
}
