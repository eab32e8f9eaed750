//! The stage after connecting: hosts that were looked at.

use kubexm_engine::ClusterLock;

use super::findings::Findings;
use super::subject::{BundleSurvey, Subject};
use crate::access::Access;
use crate::error::SessionError;
use crate::events;
use crate::fleet::{Fleet, Reach, Unreachable};
use crate::options::HostOptions;
use crate::session::Session;
use crate::site::Site;

/// Hosts that were looked at. Made by [`Session::observe`] alone; the agents that connecting put there go again with
/// [`Observed::leave`], or when a later stage is refused.
#[must_use]
pub struct Observed<'s, S: Subject> {
    site: Site<'s, S>,
    survey: S::Survey,
}

impl Session<'_> {
    /// Connects to the hosts of a cluster and looks at them. `verb` is for anybody who finds a host locked meanwhile.
    ///
    /// # Errors
    /// Another program works on the cluster, the bundle may not take the place of what is installed, or a host cannot be worked with; nothing stays on any host.
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
        // With the lock: no other run of this controller changes it meanwhile.
        subject.check_remembered(self)?;
        let reach = Reach { access, bundle: subject.bundle(), hosts, holder: &holder };
        let fleet = Fleet::connect(self, reach, unreachable).await?;
        let site = Site { session: self, subject, fleet, home, lock };
        let survey = match self.check_interrupt() {
            Ok(()) => site.subject.survey(self, &site.fleet).await,
            Err(interrupted) => Err(interrupted),
        };
        let survey = site.unless_refused(survey).await?;
        Ok(Observed { site, survey })
    }
}

impl<'s, S: Subject> Observed<'s, S> {
    /// Takes the agents away that connecting put there, and gives what was seen.
    ///
    /// # Errors
    /// It was interrupted meanwhile.
    pub async fn leave(self) -> Result<S::Survey, SessionError> {
        self.site.fleet.withdraw(self.site.session.events).await;
        self.site.session.check_interrupt()?;
        Ok(self.survey)
    }

    pub(crate) fn into_parts(self) -> (Site<'s, S>, S::Survey) {
        (self.site, self.survey)
    }
}

impl BundleSurvey {
    /// What preflight found.
    pub const fn findings(&self) -> &Findings {
        &self.findings
    }

    /// Refuses hosts that do not pass preflight, and reports its warnings.
    pub(crate) fn check(&self, session: &Session<'_>) -> Result<(), SessionError> {
        self.findings.check()?;
        for warning in self.findings.warnings() {
            events::warning(session.events, warning.to_string());
        }
        Ok(())
    }
}
