//! The authorities of a cluster belong to the cluster, not to a home: every control plane has them, sealed for the operators
//! ([decision 0034](../../../../docs/decisions/0034-the-registrys-ca-belongs-to-the-cluster.md)). A home opens them and
//! keeps a copy, which a run uses.

mod error;
mod home;

use std::collections::BTreeMap;

use kubexm_engine::{ClusterPki, EventSink, PkiFiles, SealedAuthorities, SealedError};
use kubexm_plan::{Authority, ClusterId, Facts, Plan, SlotProvider};
use kubexm_recipes::{Identity, Sealing};
use kubexm_spec::cluster::EtcdKind;
use kubexm_spec::{Cluster, Digest};

pub use error::AuthoritiesError;

use crate::error::SessionError;
use crate::events;
use crate::home::ClusterHome;
use crate::session::Session;

/// The authorities to use, and for whom they are sealed.
#[derive(Default)]
pub(crate) struct Authorities {
    pub sealing: Sealing,
    change: Change,
}

/// What becomes of the copy in the home.
#[derive(Default)]
enum Change {
    /// It is right, or there is none yet.
    #[default]
    None,
    /// It has the same certificates; this is how they are sealed on the hosts.
    Keep(String),
    /// Replaced by what was opened.
    Replace(PkiFiles, String),
    /// Replaced by a new CA.
    New,
}

/// What is known of the cluster: its hosts, their facts and its id.
pub(crate) struct Hosts<'a> {
    pub cluster: &'a Cluster,
    pub facts: &'a BTreeMap<String, Facts>,
    pub id: Option<ClusterId>,
}

/// The document of one control plane.
struct Found<'a> {
    host: &'a str,
    text: &'a str,
    sealed: SealedAuthorities,
}

impl Authorities {
    /// Decides which authorities are used. Only the operator's identity may be written; nothing else is.
    ///
    /// # Errors
    /// Those of the cluster cannot be used from this home.
    pub fn examine(
        (session, home): (&Session<'_>, &ClusterHome),
        hosts: &Hosts<'_>,
        new_registry_ca: bool,
        shown: &dyn EventSink,
    ) -> Result<Self, SessionError> {
        let identity = session.home.operator(session.credentials)?;
        let own = identity.recipient();
        let alone = |change| {
            let sealing = Sealing { others: vec![own.clone()], new_registry_ca };
            Self { sealing, change }
        };
        let here = ClusterPki::certificates_in(&home.pki())?;
        if new_registry_ca {
            let etcd = ClusterPki::file_of(Authority::Etcd);
            if hosts.id.is_some() && hosts.cluster.etcd.kind == EtcdKind::Kubexm && !here.contains_key(&etcd) {
                return Err(AuthoritiesError::NoEtcdCa { own }.into());
            }
            let text = "a new CA is made for the registry, and every host gets it: the depot's certificate is replaced, and what \
                        loads these files is restarted";
            events::warning(shown, text.to_owned());
            return Ok(alone(Change::New));
        }
        let found = hosts.documents()?;
        let Some(first) = found.first() else {
            return match hosts.unknown_ca(here.get(&ClusterPki::file_of(Authority::Registry))) {
                Some(host) => Err(AuthoritiesError::Elsewhere { host: host.to_owned(), own }.into()),
                None => Ok(alone(Change::None)),
            };
        };
        let wanted = &first.sealed.about.certificates;
        if let Some(other) = found.iter().find(|other| other.sealed.about.certificates != *wanted) {
            let (one, other) = (first.host.to_owned(), other.host.to_owned());
            return Err(AuthoritiesError::Different { one, other }.into());
        }
        for one in &found {
            let files = match one.sealed.open(&identity) {
                Ok(files) => files,
                Err(SealedError::ForOthers) => continue,
                Err(error) => return Err(AuthoritiesError::Unusable { host: one.host.to_owned(), error }.into()),
            };
            // Those of cluster.yaml are added by the recipe, by their names.
            let unnamed = one.sealed.about.recipients.iter().filter(|one| one.name.is_none() && one.key != own);
            let others = unnamed.map(|one| one.key.clone()).chain([own.clone()]).collect();
            let change = match here == *wanted {
                true => Change::Keep(one.text.to_owned()),
                false => Change::Replace(files, one.text.to_owned()),
            };
            return Ok(Self { sealing: Sealing { others, new_registry_ca }, change });
        }
        let for_whom = first.sealed.about.for_whom();
        match here == *wanted {
            true => {
                let text =
                    format!("the CA of the registry is sealed for {for_whom}; this home has it, and seals it anew");
                events::warning(shown, text);
                Ok(alone(Change::None))
            }
            false => Err(AuthoritiesError::ForOthers { for_whom, own }.into()),
        }
    }

    /// The same for a plan that was made earlier.
    pub fn examine_for(
        (session, home): (&Session<'_>, &ClusterHome),
        hosts: &Hosts<'_>,
        plan: &Plan,
    ) -> Result<Self, SessionError> {
        let new =
            |provider: &SlotProvider| matches!(provider, SlotProvider::SealedAuthorities { new_registry_ca: true, .. });
        Self::examine((session, home), hosts, plan.slots.values().any(new), session.events)
    }
}

impl<'a> Hosts<'a> {
    /// The documents of the control planes that are members, in their order.
    fn documents(&self) -> Result<Vec<Found<'a>>, AuthoritiesError> {
        let Some(id) = self.id else { return Ok(Vec::new()) };
        let identity = Identity::of(self.cluster, self.facts);
        let mut all = Vec::new();
        for host in &self.cluster.role_groups.control_plane {
            let Some(facts) = self.facts.get(host).filter(|facts| identity.is_member(self.cluster, host, facts)) else {
                continue;
            };
            let Some(text) = facts.sealed_authorities.as_deref() else { continue };
            let sealed = SealedAuthorities::parse(text)
                .map_err(|error| AuthoritiesError::Unusable { host: host.clone(), error })?;
            if sealed.about.cluster_id != id {
                let (cluster, found) = (sealed.about.cluster, sealed.about.cluster_id);
                return Err(AuthoritiesError::ClusterMismatch { host: host.clone(), cluster, found, wanted: id });
            }
            all.push(Found { host, text, sealed });
        }
        Ok(all)
    }

    /// A member that trusts a CA of the registry, if no member trusts the one of this home.
    fn unknown_ca(&self, own: Option<&Digest>) -> Option<&'a str> {
        let identity = Identity::of(self.cluster, self.facts);
        let is_member = |(host, facts): &(&'a String, &Facts)| identity.is_member(self.cluster, host, facts);
        let members = self.facts.iter().filter(is_member);
        let trusted: Vec<(&str, Digest)> =
            members.filter_map(|(host, facts)| Some((host.as_str(), facts.registry_ca?))).collect();
        match trusted.iter().any(|(_, ca)| Some(ca) == own) {
            true => None,
            false => trusted.first().map(|(host, _)| *host),
        }
    }
}
