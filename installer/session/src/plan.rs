//! The stages between observation and execution: a plan, and a plan that has passed the lint.

use kubexm_engine::drift::Drift;
use kubexm_plan::lint;
use kubexm_plan::{CheckedPlan, ClusterFacts, Pipeline, Plan, SEALED_AUTHORITIES};
use kubexm_recipes::{
    DeleteContext, Deletion, Drain, EtcdData, Identity, OwnAuthorities, PlanContext, Recipe, Renew, RenewContext,
    Renewed, ResetContext, ResetHost, Running, adoption,
};
use kubexm_spec::{Digest, one_line};

use crate::addons;
use crate::authorities::{Authorities, Hosts};
use crate::bundle::cluster_file::ClusterFile;
use crate::bundle::cluster_source::ClusterSource;
use crate::bundle::opened::Opened;
use crate::bundle::plan_file::ReviewedPlan;
use crate::certificate_requests;
use crate::cluster_facts::{self, Asked};
use crate::connected_cluster::ConnectedCluster;
use crate::drift;
use crate::error::{SessionError, problem_text};
use crate::events;
use crate::fields;
use crate::home::ClusterHome;
use crate::identity;
use crate::observe::Observed;
use crate::observe::subject::{BundleSurvey, LedgerSurvey, Subject};
use crate::reset_etcd::{self, ResetData};
use crate::run::to_continue;
use crate::session::Session;

/// A plan for observed hosts. Only [`Observed::plan`] creates one.
#[must_use]
pub struct Planned<'s, S: Subject> {
    site: ConnectedCluster<'s, S>,
    plan: Plan,
    clean: Vec<String>,
    created: bool,
    authorities: Authorities,
}

/// A plan that has passed the lint. Only [`Planned::check`] and [`Observed::reviewed`] create one.
#[must_use]
pub struct Checked<'s, S: Subject> {
    pub(crate) site: ConnectedCluster<'s, S>,
    pub(crate) plan: CheckedPlan,
    /// The digest of the file that it is from; none if it was made here, just now.
    pub(crate) file: Option<Digest>,
    /// Hosts with nothing to do.
    pub(crate) clean: Vec<String>,
    /// Whether every host belongs to the cluster already, so that the plan only mends.
    pub(crate) created: bool,
    pub(crate) authorities: Authorities,
}

impl<'s, S: Subject<Survey = BundleSurvey>> Observed<'s, S> {
    /// Plans with the bundle.
    ///
    /// # Errors
    /// The hosts do not pass preflight, or no plan can be made of them.
    pub async fn plan(self, recipe: Recipe<'_>) -> Result<Planned<'s, S>, SessionError> {
        let (site, mut survey) = self.into_parts();
        // What only looks may compare an adopted cluster with a plan.
        if S::CHANGES {
            let refused = adoption::refuse(recipe.pipeline(), site.subject.cluster(), &survey.facts);
            site.unless_refused(refused.map_err(SessionError::from)).await?;
        }
        // Nothing more is read from hosts that do not pass.
        site.unless_refused(survey.check(site.session)).await?;
        let cluster = site.subject.cluster();
        let running = match recipe.looks_at(cluster, &survey.facts) {
            Some(Running::ControlPlanes) => cluster_facts::trusted(&site.fleet, cluster, Asked::ControlPlanes).await,
            Some(Running::EveryHost) => cluster_facts::trusted(&site.fleet, cluster, Asked::All).await,
            None => Ok(ClusterFacts::default()),
        };
        let running = site.unless_refused(running).await?;
        let plan = match site.subject.bundle() {
            Some(opened) => with_bundle(site.session, opened, &site.home, (&mut survey, &running), recipe),
            None => Err(SessionError::NoCluster),
        };
        let (plan, authorities) = site.unless_refused(plan).await?;
        if let Some(opened) = site.subject.bundle() {
            let first = cluster.first_control_plane().and_then(|host| survey.facts.get(&host.name));
            let joined = first.is_some_and(|facts| facts.joined);
            let places = (&site.home, &site.fleet, &site.helm);
            let checked = addons::check(site.session, opened, places, &plan, (joined, S::CHANGES)).await;
            site.unless_refused(checked).await?;
        }
        let created = drift::is_created(&plan, &survey.facts);
        if created {
            drift::report_unrecorded(site.session.events, &survey.facts);
        } else {
            drift::report_newcomers(site.session.events, &plan, &survey.facts);
        }
        Ok(Planned { site, plan, clean: Vec::new(), created, authorities })
    }

    /// Uses a plan that was made earlier ([`crate::plan_file`]) instead of making one.
    ///
    /// # Errors
    /// The hosts do not pass preflight.
    pub async fn reviewed(self, reviewed: ReviewedPlan) -> Result<Checked<'s, S>, SessionError> {
        let ReviewedPlan { plan, digest } = reviewed;
        let (site, survey) = self.into_parts();
        let adopted = adoption::refuse_plan(plan.plan(), site.subject.cluster(), &survey.facts);
        let refused = adopted.map_err(SessionError::from).and_then(|()| survey.check(site.session)).and_then(|()| {
            let hosts = Identity::of(site.subject.cluster(), &survey.facts).id;
            identity::refuse_of_another(site.session.home, site.subject.cluster(), &survey.facts, hosts)?;
            identity::check_plan(plan.plan(), hosts)?;
            let hosts = Hosts { cluster: site.subject.cluster(), facts: &survey.facts, id: hosts, backup: None };
            Authorities::examine_for((site.session, &site.home), &hosts, plan.plan())
        });
        let authorities = site.unless_refused(refused).await?;
        let created = drift::is_created(plan.plan(), &survey.facts);
        Ok(Checked { site, plan, file: Some(digest), clean: Vec::new(), created, authorities })
    }
}

impl<'s> Observed<'s, ClusterSource> {
    /// Plans the reset of the reached hosts; if hosts are named, only of these.
    ///
    /// # Errors
    /// No plan can be made from the hosts' ledgers, or a named host is a member of a cluster that stays.
    pub async fn plan(self, only: &[String]) -> Result<Planned<'s, ClusterSource>, SessionError> {
        self.plan_reset(only, ResetData::default()).await
    }

    /// The same, with data that otherwise outlive the cluster.
    ///
    /// # Errors
    /// As [`Observed::plan`]. What the cluster has in an etcd of the user's cannot be deleted.
    pub async fn plan_reset(
        self,
        only: &[String],
        data: ResetData<'_>,
    ) -> Result<Planned<'s, ClusterSource>, SessionError> {
        let (site, survey) = self.into_parts();
        refuse_adopted(&site, Pipeline::Reset, &survey).await?;
        let etcd = match data.etcd {
            Some(backup) => {
                let found = reset_etcd::find((site.session, &site.fleet, &site.subject), &survey, backup).await;
                Some(site.unless_refused(found).await?)
            }
            None => None,
        };
        let planned = reset(site.session, &site.subject, &survey, only, (data.registry, etcd));
        let (plan, clean) = site.unless_refused(planned).await?;
        Ok(Planned { site, plan, clean, created: false, authorities: Authorities::default() })
    }

    /// Plans the deletion of hosts from a cluster that stays.
    ///
    /// # Errors
    /// The cluster cannot do without one of the hosts, it could not be observed, or no plan can be made from the hosts'
    /// ledgers.
    pub async fn plan_delete(
        self,
        deleted: &[String],
        drain: Drain,
    ) -> Result<Planned<'s, ClusterSource>, SessionError> {
        let (site, survey) = self.into_parts();
        refuse_adopted(&site, Pipeline::DeleteNode, &survey).await?;
        let running = cluster_facts::trusted(&site.fleet, site.subject.cluster(), Asked::ControlPlanes).await;
        let running = site.unless_refused(running).await?;
        if let Some(warning) = fields::since_applied(site.subject.cluster(), &running, deleted) {
            events::warning(site.session.events, one_line(&warning));
        }
        let planned = delete_node(&site, &survey, (&running, deleted), drain);
        let Deletion { plan, clean, warnings } = site.unless_refused(planned).await?;
        for warning in warnings {
            events::warning(site.session.events, one_line(&warning));
        }
        Ok(Planned { site, plan, clean, created: false, authorities: Authorities::default() })
    }
}

impl<'s> Observed<'s, ClusterSource> {
    /// Plans the renewal of the cluster's certificates.
    ///
    /// # Errors
    /// Something must be mended first: a clock, a host that is not healthy, an authority that has ended.
    pub async fn plan_renewal(self, wanted: Renew) -> Result<Planned<'s, ClusterSource>, SessionError> {
        let (site, survey) = self.into_parts();
        refuse_adopted(&site, Pipeline::CertsRenew, &survey).await?;
        let running = cluster_facts::trusted(&site.fleet, site.subject.cluster(), Asked::All).await;
        let running = site.unless_refused(running).await?;
        let cluster = site.subject.cluster();
        let (cluster_digest, cluster_id) = (cluster.digest(), Identity::of(cluster, &survey.facts).id);
        let (running, facts, now) = (&running, &survey.facts, site.session.unix_time());
        let signed = certificate_requests::of_source(site.session, &site.subject);
        let hosts = Hosts { cluster, facts, id: cluster_id, backup: None };
        let sealed = hosts.sealed_everywhere();
        let cx = RenewContext {
            cluster,
            cluster_digest,
            cluster_id,
            running,
            facts,
            now,
            wanted,
            begun: matches!(to_continue(&site.home, Pipeline::CertsRenew), Ok(Some(_))),
            sealed: &sealed,
            own: None,
            signed: signed.as_ref(),
        };
        let planned = renewal(site.session, &site.home, &hosts, &cx);
        let (Renewed { plan, warnings }, authorities) = site.unless_refused(planned).await?;
        for warning in warnings {
            events::warning(site.session.events, one_line(&warning));
        }
        Ok(Planned { site, plan, clean: Vec::new(), created: true, authorities })
    }
}

impl<'s, S: Subject> Planned<'s, S> {
    /// Of hosts that all have something to do.
    pub(crate) const fn of(site: ConnectedCluster<'s, S>, plan: Plan, authorities: Authorities) -> Self {
        Self { site, plan, clean: Vec::new(), created: false, authorities }
    }

    /// The same of a cluster that runs: its hosts are compared with the plan before anything is asked.
    pub(crate) const fn of_running(site: ConnectedCluster<'s, S>, plan: Plan, authorities: Authorities) -> Self {
        Self { site, plan, clean: Vec::new(), created: true, authorities }
    }

    /// Lints the plan, and reports the lint's warnings.
    ///
    /// # Errors
    /// The plan does not pass.
    pub async fn check(self) -> Result<Checked<'s, S>, SessionError> {
        let Self { site, plan, clean, created, authorities } = self;
        let checked = lint::check(plan).map_err(SessionError::Lint);
        let (plan, warnings) = site.unless_refused(checked).await?;
        if plan.plan().pipeline.row().shows_warnings {
            for warning in warnings {
                events::warning(site.session.events, problem_text(&warning));
            }
        }
        Ok(Checked { site, plan, file: None, clean, created, authorities })
    }
}

impl<S: Subject> Checked<'_, S> {
    /// The plan.
    pub const fn plan(&self) -> &CheckedPlan {
        &self.plan
    }

    /// What differs on the hosts from the plan. None if a host is not in the cluster yet, or does not answer: then the
    /// steps of the plan say what will be done.
    ///
    /// # Errors
    /// A host answered what it was not asked.
    pub async fn drift(&self) -> Result<Option<Drift>, SessionError> {
        drift::of(&self.site, &self.plan, self.created, &self.authorities).await
    }

    /// Removes the agents that connecting has installed, and returns the plan.
    pub async fn leave(self) -> CheckedPlan {
        self.site.fleet.revert_agents(self.site.session.events).await;
        self.plan
    }
}

/// Refuses what would change hosts of an adopted cluster.
pub(crate) async fn refuse_adopted<S: Subject>(
    site: &ConnectedCluster<'_, S>,
    pipeline: Pipeline,
    survey: &LedgerSurvey,
) -> Result<(), SessionError> {
    let refused = adoption::refuse(pipeline, site.subject.cluster(), &survey.facts);
    site.unless_refused(refused.map_err(SessionError::from)).await
}

/// The cluster's own authorities are opened only where they have to sign: what kubeadm manages needs no identity of an operator.
fn renewal(
    session: &Session<'_>,
    home: &ClusterHome,
    hosts: &Hosts<'_>,
    cx: &RenewContext<'_>,
) -> Result<(Renewed, Authorities), SessionError> {
    let (mut authorities, mut own) = (Authorities::default(), None);
    if kubexm_recipes::needs_authorities(cx)? {
        identity::refuse_of_another(session.home, hosts.cluster, hosts.facts, hosts.id)?;
        authorities = Authorities::examine((session, home), hosts, false, session.events)?;
        let (sealing, certificates) = (authorities.sealing.clone(), authorities.view(home)?.authorities()?);
        own = Some(OwnAuthorities { sealing, certificates });
    }
    events::phase(session.events, "plan");
    let renewed = kubexm_recipes::certs_renew(&RenewContext { own: own.as_ref(), ..cx.clone() })?;
    Ok((renewed, authorities))
}

fn with_bundle(
    session: &Session<'_>,
    opened: &Opened,
    home: &ClusterHome,
    (survey, running): (&mut BundleSurvey, &ClusterFacts),
    recipe: Recipe<'_>,
) -> Result<(Plan, Authorities), SessionError> {
    let (known, backup) = match recipe {
        // Hosts of another one are refused.
        Recipe::CreateFromBackup(source) => {
            (Some(source.cluster_id), source.texts.get(SEALED_AUTHORITIES).map(String::as_str))
        }
        _ => {
            let known = Identity::of(opened.cluster(), &survey.facts).id;
            identity::refuse_of_another(session.home, opened.cluster(), &survey.facts, known)?;
            (known, None)
        }
    };
    let hosts = Hosts { cluster: opened.cluster(), facts: &survey.facts, id: known, backup };
    let authorities = Authorities::examine((session, home), &hosts, opened.new_registry_ca(), session.events)?;
    events::phase(session.events, "plan");
    for note in opened.materials().notes() {
        events::note(session.events, note);
    }
    // Adds the signed repositories that hosts install packages from.
    survey.carried.publish(opened, home)?;
    let record = opened.record_after(&survey.facts, home)?;
    let id = match known {
        Some(id) => Some(id),
        // Of a cluster that runs without an id, only `create` stamps all hosts.
        None if !recipe.pipeline().needs().cluster => Some(identity::new_id()?),
        None => None,
    };
    let cx = PlanContext {
        cluster_id: id,
        bundle_record: Some(&record),
        sealing: Some(&authorities.sealing),
        ..opened.plan_cx(&survey.facts, &survey.carried.packages)
    };
    let (plan, warnings) = recipe.plan(&cx, running)?;
    for warning in warnings {
        events::warning(session.events, one_line(&warning));
    }
    Ok((plan, authorities))
}

fn reset(
    session: &Session<'_>,
    source: &ClusterSource,
    survey: &LedgerSurvey,
    only: &[String],
    (data, etcd_data): (bool, Option<EtcdData<'_>>),
) -> Result<(Plan, Vec<String>), SessionError> {
    let cluster = source.cluster();
    let identity = Identity::of(cluster, &survey.facts);
    identity.may_be_reset(cluster, &survey.facts, only)?;
    report_unreadable(session, survey);
    let wanted = |host: &str| only.is_empty() || only.iter().any(|name| name == host);
    let hosts: Vec<ResetHost<'_>> = ledger_hosts(cluster, survey).filter(|host| wanted(host.name)).collect();
    let mut clean: Vec<String> = hosts.iter().filter(|host| host.is_clean()).map(|host| host.name.to_owned()).collect();
    for host in &clean {
        events::note(session.events, format!("{host}: nothing of kubexm is there, and nothing is done"));
    }
    clean.extend(survey.facts.keys().filter(|host| !wanted(host)).cloned());
    if etcd_data.is_none() {
        reset_etcd::report_left(session, cluster);
    }
    events::phase(session.events, "plan");
    if let Some(warning) = kubexm_recipes::kept_snapshots(&hosts) {
        events::warning(session.events, warning);
    }
    let cluster_id = match only {
        [] => identity.id,
        _ => hosts.iter().find_map(|host| host.facts.stamp.as_ref()?.id),
    };
    let registry_data = data.then_some(cluster.registry.data_dir.as_str());
    let cluster_digest = cluster.digest();
    let cx = ResetContext { cluster: &cluster.name, cluster_id, cluster_digest, hosts, registry_data, etcd_data };
    Ok((kubexm_recipes::reset(&cx)?, clean))
}

fn delete_node(
    site: &ConnectedCluster<'_, ClusterSource>,
    survey: &LedgerSurvey,
    (running, deleted): (&ClusterFacts, &[String]),
    drain: Drain,
) -> Result<Deletion, SessionError> {
    let cluster = site.subject.cluster();
    report_unreadable(site.session, survey);
    events::phase(site.session.events, "plan");
    let (hosts, missing) = (ledger_hosts(cluster, survey).collect(), site.fleet.missing());
    let cluster_digest = cluster.digest();
    Ok(kubexm_recipes::delete_node(&DeleteContext {
        cluster,
        cluster_digest,
        running,
        deleted,
        hosts,
        missing,
        drain,
    })?)
}

/// A reset goes by the ledger then, and stops before it removes anything if that does not say enough.
fn report_unreadable(session: &Session<'_>, survey: &LedgerSurvey) {
    for (host, facts) in &survey.facts {
        if let Some(why) = &facts.unreadable_mark {
            events::warning(session.events, format!("{host}: {}", one_line(why)));
        }
    }
}

/// The hosts that were reached, in the order of cluster.yaml.
fn ledger_hosts<'a>(cluster: &'a ClusterFile, survey: &'a LedgerSurvey) -> impl Iterator<Item = ResetHost<'a>> {
    cluster.hosts.iter().filter_map(move |host| {
        Some(ResetHost {
            name: &host.name,
            roles: cluster.roles(&host.name),
            facts: survey.facts.get(&host.name)?,
            ledger: survey.ledgers.get(&host.name)?,
        })
    })
}
