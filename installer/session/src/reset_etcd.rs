//! A reset that deletes what the cluster has in an etcd of the user's (`spec.etcd.type: external`): with a whole backup of this very
//! cluster, below its own prefix, and only where nobody else's keys are found there.

use std::collections::BTreeMap;

use kubexm_engine::backup::BackupError;
use kubexm_engine::clock::rfc3339;
use kubexm_plan::Facts;
use kubexm_plan::etcd_check::{EtcdAsk, KeysOf};
use kubexm_recipes::modules::etcd_client::{is_keyspace, named_in};
use kubexm_recipes::{EtcdData, Identity, RecipeError};
use kubexm_spec::cluster::{Cluster, EtcdKind, ExternalEtcd};
use kubexm_spec::{counted, one_line};

use crate::backup::OpenedBackup;
use crate::backup_place::LocalBackup;
use crate::bundle::cluster_source::ClusterSource;
use crate::error::SessionError;
use crate::events;
use crate::fleet::Fleet;
use crate::observe::subject::LedgerSurvey;
use crate::session::Session;

/// Data that outlive a cluster, unless they are named.
#[derive(Clone, Copy, Default)]
pub struct ResetData<'a> {
    /// Of the cluster's Harbor, which holds what others have pushed.
    pub registry: bool,
    /// In an etcd of the user's, with a backup of it.
    pub etcd: Option<&'a EtcdBackup>,
}

/// A whole backup of a cluster whose etcd is the user's. Only [`Session::etcd_backup`] creates one.
pub struct EtcdBackup(OpenedBackup);

impl Session<'_> {
    /// Reads a backup to its end, before any host is contacted; this home or an operator of a proven cluster.yaml must have made it.
    ///
    /// # Errors
    /// It was cut off or altered, is sealed for others, or was made by somebody else. The cluster's etcd is not the user's.
    pub fn etcd_backup(&self, source: &ClusterSource, backup: LocalBackup) -> Result<EtcdBackup, SessionError> {
        let cluster = source.cluster();
        if external(cluster).is_none() {
            let text = format!(
                "spec.etcd.type of cluster {} is {}: a reset removes its data without being asked",
                cluster.name, cluster.etcd.kind
            );
            return Err(refused(vec![text]));
        }
        let operators = cluster.proven_operators();
        Ok(EtcdBackup(self.open_backup(backup, &operators, false, &|_| false)?))
    }
}

fn external(cluster: &Cluster) -> Option<&ExternalEtcd> {
    cluster.etcd.external.as_ref().filter(|_| cluster.etcd.kind == EtcdKind::External)
}

fn refused(problems: Vec<String>) -> SessionError {
    RecipeError::CannotDeleteEtcd { problems }.into()
}

/// What stays in an etcd of the user's, and how it is removed.
pub(crate) fn report_left(session: &Session<'_>, cluster: &Cluster) {
    let Some(ExternalEtcd { endpoints, prefix, .. }) = external(cluster) else { return };
    let at = endpoints.join(",");
    events::warning(
        session.events,
        format!(
            "what the cluster has in your etcd stays: the keys below {prefix}/ at {at}. `kubexm-install reset --etcd-data BACKUP` deletes them \
             with the cluster; afterwards `etcdctl --endpoints {at} --cacert CA --cert CERT --key KEY del --prefix {prefix}/` does"
        ),
    );
}

/// Finds the keys, and refuses whatever is in doubt.
pub(crate) async fn find<'a>(
    (session, fleet, source): (&Session<'_>, &Fleet, &'a ClusterSource),
    survey: &LedgerSurvey,
    EtcdBackup(backup): &EtcdBackup,
) -> Result<EtcdData<'a>, SessionError> {
    let cluster = source.cluster();
    let Some(external) = external(cluster) else { return Err(refused(vec!["etcd is not the user's".to_owned()])) };
    let identity = Identity::of(cluster, &survey.facts);
    let id = identity.id.ok_or_else(|| {
        let text = "the hosts have no cluster id, so it is not known whether the backup is of this cluster";
        BackupError::CannotMake(text.to_owned())
    })?;
    backup.local.named(backup.header.check_cluster(backup.local.folder(), &cluster.name, id))?;
    let (host, endpoints) = keyspace(cluster, external, &survey.facts, &identity)?;
    let gone = || refused(vec![format!("{host} is not connected any more")]);
    let link = fleet.link_of(host).ok_or_else(gone)?;
    let [ca, certificate] = [const { String::new() }; 2];
    let (prefix, of, as_api_server) = (external.prefix.clone(), Some(id), false);
    let ask = EtcdAsk { endpoints: endpoints.clone(), ca, certificate, prefix, of, as_api_server };
    let answer = link.link().ask_etcd(&ask, &[]).await.map_err(|error| SessionError::links([error]))?;
    let (Some(keys), Some(of)) = (answer.keys, answer.keys_of) else {
        let why = answer.why.unwrap_or_else(|| "it does not say how many keys there are".to_owned());
        return Err(refused(vec![one_line(&format!("{host}: {why}"))]));
    };
    if let Some(doubt) = judge(of, host, &external.prefix)? {
        events::warning(session.events, doubt);
    }
    let about = &backup.header.about;
    let (made, has) = (rfc3339(about.created), counted(about.etcd.keys, "key"));
    events::note(session.events, format!("the backup of {made} is whole, and of this cluster: etcd with {has}"));
    Ok(EtcdData { host, endpoints, prefix: &external.prefix, keys })
}

/// The control plane that is asked, and the endpoints that its API server was given. Every control plane must be there.
fn keyspace<'a>(
    cluster: &'a Cluster,
    external: &ExternalEtcd,
    facts: &BTreeMap<String, Facts>,
    identity: &Identity,
) -> Result<(&'a str, Vec<String>), SessionError> {
    let planes = &cluster.role_groups.control_plane;
    let away = planes.iter().filter(|name| !facts.contains_key(*name));
    let away: Vec<String> =
        away.map(|name| format!("{name} was not reached: its API server may run, and would write again")).collect();
    if !away.is_empty() {
        return Err(refused(away));
    }
    let given = planes.iter().find_map(|name| {
        let facts = facts.get(name).filter(|facts| identity.is_member(cluster, name, facts))?;
        let found = facts.etcd_keyspace.as_ref().filter(|found| is_keyspace(found, external))?;
        // Another endpoint of cluster.yaml may be of another etcd.
        Some((name.as_str(), named_in(found, external)))
    });
    given.ok_or_else(|| {
        let text = format!(
            "no control plane of this cluster says that it has its objects below {}/ of these endpoints: a reset that was interrupted has \
             deleted them, or cluster.yaml names others; without --etcd-data they are left alone",
            external.prefix
        );
        refused(vec![text])
    })
}

/// Whether they may be deleted; with what is not certain.
fn judge(of: KeysOf, host: &str, prefix: &str) -> Result<Option<String>, SessionError> {
    match of {
        KeysOf::This => Ok(None),
        KeysOf::Unknown => Ok(Some(format!(
            "the keys below {prefix}/ do not say of which cluster they are; the API server of {host} was given that prefix"
        ))),
        KeysOf::Other => {
            Err(refused(vec![format!("the keys below {prefix}/ are another cluster's, by the record among them")]))
        }
        KeysOf::Shared(folder) => {
            let text = format!("keys of another cluster are below {prefix}/{folder}/: they would be deleted, too");
            Err(refused(vec![one_line(&text)]))
        }
    }
}

#[cfg(test)]
mod tests {
    use kubexm_recipes::sample;
    use kubexm_spec::{ExitCode, ExitError as _};

    use super::*;

    fn external() -> ExternalEtcd {
        ExternalEtcd {
            endpoints: ["https://10.0.0.5:2379", "https://10.0.0.6:2379"].map(str::to_owned).to_vec(),
            prefix: "/lab/registry".to_owned(),
            ca_file: None,
            cert_file: None,
            key: None,
        }
    }

    #[test]
    fn keys_that_are_or_may_be_of_others_are_not_deleted() {
        assert_eq!(judge(KeysOf::This, "cp1", "/registry").unwrap(), None);
        assert!(judge(KeysOf::Unknown, "cp1", "/registry").unwrap().is_some_and(|text| text.contains("cp1")));
        for (of, named) in
            [(KeysOf::Other, "another cluster's"), (KeysOf::Shared("lab2".to_owned()), "/registry/lab2/")]
        {
            let error = judge(of, "cp1", "/registry").unwrap_err();
            assert_eq!(error.exit_code(), ExitCode::Preflight);
            assert!(error.to_string().contains(named) && error.to_string().contains("nothing was changed"), "{error}");
        }
    }

    #[test]
    fn every_control_plane_is_needed_and_only_endpoints_that_an_api_server_was_given_are_asked() {
        let (cluster, external) = (sample::cluster(), external());
        let first = cluster.role_groups.control_plane[0].clone();
        let mut facts = BTreeMap::new();
        let identity = Identity::of(&cluster, &facts);
        let error = keyspace(&cluster, &external, &facts, &identity).unwrap_err().to_string();
        assert!(error.contains(&format!("{first} was not reached")), "{error}");
        for name in &cluster.role_groups.control_plane {
            let mut one = sample::facts(name, 11);
            let (cluster, run) = (cluster.name.clone(), "r".to_owned());
            one.stamp = Some(kubexm_plan::facts::Stamp { cluster, run, id: None, bundle: None, adopted: false });
            facts.insert(name.clone(), one);
        }
        let identity = Identity::of(&cluster, &facts);
        let error = keyspace(&cluster, &external, &facts, &identity).unwrap_err().to_string();
        assert!(error.contains("no control plane") && error.contains("/lab/registry/"), "{error}");
        let given = "/lab/registry\nhttps://10.0.0.6:2379\nhttps://10.0.0.7:2379\n";
        facts.get_mut(&first).unwrap().etcd_keyspace = Some(given.to_owned());
        let found = keyspace(&cluster, &external, &facts, &identity).unwrap();
        assert_eq!(found, (first.as_str(), vec!["https://10.0.0.6:2379".to_owned()]));
        let other = ExternalEtcd { prefix: "/registry".to_owned(), ..external };
        assert!(keyspace(&cluster, &other, &facts, &identity).is_err(), "another prefix than it was given");
    }
}
