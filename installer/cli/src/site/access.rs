//! Permission to connect to the hosts of a cluster.yaml, and to use the secrets that it names for that.
//!
//! A bundle that nobody who is trusted has signed may name any host and any secret of the operator's: were they used as
//! they stand there, whoever made the bundle would choose who gets which password. So nothing connects without an
//! [`Access`], and only this file makes one:
//!
//! ```text
//! ClusterFile (of the operator, or of a signed bundle) ─┐
//! ClusterFile (unproven) ─ --allow-unsigned, or yes ────┼→ Access ─→ Fleet::connect
//! a run of exactly this cluster.yaml and bundle ────────┘
//! ```

mod approach;
mod question;

use std::path::Path;

use kubexm_engine::link::LinkError;
use kubexm_engine::link::ssh::SshTarget;
use kubexm_engine::{EventSink, Run, RunId};
use kubexm_plan::CheckedPlan;
use kubexm_spec::{Cluster, ExitCode};
use kubexm_terminal::{Display, Failure, Mode};

use self::approach::Approach;
pub use self::approach::escaped;
use super::cluster_file::{ClusterFile, Origin};
use super::opened::Opened;
use crate::commands::args::HostArgs;
use crate::run::consent::somebody_is_there;
use crate::site::trust::TrustArgs;
use crate::support::home::Home;
use crate::support::{events, failures};

/// Hosts that may be connected to, each with the secrets that may be used for it. None of these was read yet.
#[derive(Debug)]
#[must_use]
pub struct Access(Vec<Approach>);

impl Access {
    /// For a verb that begins something, or only looks: granted by where the cluster.yaml is from, by the operator's flag,
    /// or by the answer to one question. Asked before anything that cluster.yaml names is read or connected to.
    pub fn obtain(
        file: &ClusterFile,
        trust: &TrustArgs,
        hosts: &HostArgs,
        home: &Home,
        display: &Display,
        events: &dyn EventSink,
    ) -> Result<Self, Failure> {
        let access = Self::to(file, home);
        let (bundle, provenance) = match file.origin() {
            Origin::Operator | Origin::Signed => return Ok(access),
            Origin::Unproven { bundle, provenance } => (bundle, provenance),
        };
        let who = format!("{} is {provenance}", escaped(&bundle.to_string_lossy()));
        let wanted = question::wanted(&file.name, &access.0, hosts.accept_new_host_keys);
        if trust.allow_unsigned {
            events::warning(events, format!("{who}. Its own cluster.yaml is used (--allow-unsigned):"));
            wanted.iter().for_each(|line| events::note(events, line));
            return Ok(access);
        }
        if display.mode() == Mode::Json || !somebody_is_there() {
            let text = format!(
                "{who}, so its own cluster.yaml is not used without your consent, and there is no terminal to ask at. \
                 Nothing of it was read, and nobody was connected to. It wants:\n{}\nto go on: give a cluster.yaml of your \
                 own with -f (`kubexm-bundle cat BUNDLE cluster.yaml` prints this one), or accept this one with \
                 --allow-unsigned; or have the bundle signed, and trust the key with --key",
                wanted.join("\n")
            );
            return Err(Failure::new(ExitCode::UnsignedCluster, text));
        }
        events::warning(
            events,
            format!("{who}. Anybody who had it in hands may have written its cluster.yaml, which wants:"),
        );
        wanted.iter().for_each(|line| events::note(events, line));
        display.clear();
        match question::is_accepted() {
            true => Ok(access),
            false => Err(Failure::new(
                ExitCode::Declined,
                "declined; nothing was read and nobody was connected to. With -f a cluster.yaml of your own is used",
            )),
        }
    }

    /// For a run that was begun: whoever began it agreed to connect to the hosts of this very cluster.yaml, and to install
    /// this very bundle, whose digests the run's plan has ([`Run::load`] refuses others). To ask again would change
    /// nothing for who holds the run, and would stop a resume after a power cut that nobody watches.
    pub fn of_run(opened: &Opened, home: &Home, runs: &Path, id: &RunId) -> Result<(Run, CheckedPlan, Self), Failure> {
        let (run, plan) = Run::load(runs, id, opened.belongs()).map_err(failures::engine)?;
        Ok((run, plan, Self::to(&opened.cluster, home)))
    }

    /// Where to connect to, and with what, by host name. The secrets are read now.
    pub fn targets(&self, home: &Home) -> impl Iterator<Item = (&str, Result<SshTarget, LinkError>)> {
        self.0.iter().map(|approach| (approach.name(), approach.resolve(home)))
    }

    fn to(cluster: &Cluster, home: &Home) -> Self {
        Self(cluster.hosts.iter().map(|host| Approach::of(host, home)).collect())
    }
}
