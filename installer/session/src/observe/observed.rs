//! The stage after connecting: observed hosts.

use kubexm_engine::ClusterLock;
use kubexm_engine::events::Silent;
use kubexm_recipes::Identity;

use super::findings::Findings;
use super::subject::{BundleSurvey, Subject};
use crate::access::Access;
use crate::addons::Ahead;
use crate::authorities::{Authorities, Hosts};
use crate::connected_cluster::ConnectedCluster;
use crate::error::SessionError;
use crate::events;
use crate::fleet::{Fleet, Reach, Unreachable};
use crate::options::HostOptions;
use crate::session::Session;

/// Observed hosts. Only [`Session::observe`] creates one. Agents that connecting has installed are removed by
/// [`Observed::leave`], or if a later stage fails.
#[must_use]
pub struct Observed<'s, S: Subject> {
    site: ConnectedCluster<'s, S>,
    survey: S::Survey,
}

impl Session<'_> {
    /// Connects to the hosts of a cluster and observes them. `verb` is shown to another run that finds a host locked.
    ///
    /// # Errors
    /// Another program holds the cluster's lock, the bundle may not replace the installed one, or a host cannot be
    /// used. Nothing is left on any host.
    pub async fn observe<'s, S: Subject>(
        &'s self,
        verb: &str,
        subject: S,
        access: &Access,
        hosts: &HostOptions,
        unreachable: Unreachable<'_>,
    ) -> Result<Observed<'s, S>, SessionError> {
        let name = subject.cluster().name.clone();
        let (home, holder) = (self.home.cluster(&name), self.holder(verb, &name));
        let lock = match S::CHANGES {
            true => Some(ClusterLock::take(&home.folder, &name, &holder)?),
            false => None,
        };
        // Under the lock, so that no other run of this controller can change the record in between.
        subject.check_remembered(self)?;
        let helm = Ahead::begin(subject.bundle(), &home);
        let reach = Reach { access, bundle: subject.bundle(), hosts, holder: &holder };
        let fleet = Fleet::connect(self, reach, unreachable).await?;
        let site = ConnectedCluster { session: self, subject, fleet, home, helm, lock };
        let survey = match self.check_interrupt() {
            Ok(()) => site.subject.survey(self, &site.fleet).await,
            Err(interrupted) => Err(interrupted),
        };
        let survey = site.unless_refused(survey).await?;
        Ok(Observed { site, survey })
    }
}

impl<'s, S: Subject> Observed<'s, S> {
    /// Removes the agents that connecting has installed, and returns the observation.
    ///
    /// # Errors
    /// It was interrupted.
    pub async fn leave(self) -> Result<S::Survey, SessionError> {
        self.site.fleet.revert_agents(self.site.session.events).await;
        self.site.session.check_interrupt()?;
        Ok(self.survey)
    }

    /// Adds to the results of preflight what `create` would refuse of the authorities that the control planes keep.
    pub fn with_authorities(mut self) -> Self
    where
        S: Subject<Survey = BundleSurvey>,
    {
        let Self { site, survey } = &mut self;
        let cluster = site.subject.cluster();
        let id = Identity::of(cluster, &survey.facts).id;
        let hosts = Hosts { cluster, facts: &survey.facts, id, backup: None };
        // What it would report of a run is not about preflight.
        let examined = Authorities::examine((site.session, &site.home), &hosts, false, &Silent);
        survey.findings.add_authorities(examined.err().as_ref());
        self
    }

    pub(crate) fn into_parts(self) -> (ConnectedCluster<'s, S>, S::Survey) {
        (self.site, self.survey)
    }
}

impl BundleSurvey {
    /// The results of preflight.
    pub const fn findings(&self) -> &Findings {
        &self.findings
    }

    /// Fails if hosts do not pass preflight, and reports its warnings.
    pub(crate) fn check(&self, session: &Session<'_>) -> Result<(), SessionError> {
        self.findings.check()?;
        for warning in self.findings.warnings() {
            events::warning(session.events, warning.to_string());
        }
        Ok(())
    }
}
