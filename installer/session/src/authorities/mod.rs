//! The authorities of a cluster belong to the cluster, not to a home: every control plane has them, sealed for the operators
//! ([decision 0034](../../../../docs/decisions/0034-the-registrys-ca-belongs-to-the-cluster.md)). A home opens them and
//! keeps a copy, which a run uses.

mod error;
mod home;
mod hosts;

use std::sync::Arc;

use kubexm_engine::sealed::About;
use kubexm_engine::{ClusterPki, EventSink, OperatorIdentity, PkiFiles};
use kubexm_plan::{Authority, Pipeline, Plan, SlotProvider};
use kubexm_recipes::Sealing;
use kubexm_spec::cluster::EtcdKind;
use kubexm_spec::{Digest, one_line};

pub use error::AuthoritiesError;
pub(crate) use hosts::Hosts;
use hosts::{cas, registry_ca};

use crate::error::SessionError;
use crate::events;
use crate::home::ClusterHome;
use crate::run::to_continue;
use crate::session::Session;

/// The authorities to use, and for whom they are sealed.
#[derive(Default)]
pub(crate) struct Authorities {
    pub sealing: Sealing,
    /// In whose name they are sealed; none if this run seals nothing.
    pub operator: Option<Arc<OperatorIdentity>>,
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
    /// Replaced by what was opened, with the document to keep.
    Replace(PkiFiles, String),
    /// Replaced by a new CA.
    New,
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
        let operator = Arc::new(session.home.operator(session.credentials)?);
        let (identity, own) = (&*operator, operator.recipient());
        let with = |others: Vec<String>, change| {
            let others = others.into_iter().chain([own.clone()]).collect();
            let sealing = Sealing { others, new_registry_ca };
            Self { sealing, operator: Some(Arc::clone(&operator)), change }
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
            return Ok(with(Vec::new(), Change::New));
        }
        let kept = ClusterPki::sealed_in(&home.pki())?.filter(|(_, kept)| Some(kept.about.cluster_id) == hosts.id);
        // For whom it is sealed by this home's own document, if that is of this CA.
        let of_home = |ca: Option<&Digest>| {
            let kept = kept.as_ref().map(|(_, kept)| &kept.about).filter(|kept| registry_ca(&kept.certificates) == ca);
            kept.map(|kept| unnamed(kept, &own))
        };
        let alone = || with(of_home(registry_ca(&here)).unwrap_or_default(), Change::None);
        let found = hosts.documents()?;
        let Some(first) = found.first() else {
            return match hosts.unknown_ca(&here) {
                Some(host) => Err(AuthoritiesError::Elsewhere { host: host.to_owned(), own: own.clone() }.into()),
                None => Ok(alone()),
            };
        };
        let known = known(hosts, &own, kept.as_ref().map(|(_, kept)| &kept.about));
        let mut wanted = &first.sealed.about.certificates;
        if let Some(other) = found.iter().find(|other| other.sealed.about.certificates != *wanted) {
            // A renewal of this home did not reach all control planes: the authorities are the same, or have other certificates under their
            // keys. Another home may have the earlier certificates only.
            let mut same = true;
            for one in found.iter().filter(|one| cas(&one.sealed.about.certificates) != cas(&here)) {
                let files = hosts.open(one, identity, (&known, &here))?;
                same &= files
                    .map(|files| ClusterPki::view(&home.pki(), false).has_keys_of(&files))
                    .transpose()?
                    .unwrap_or(false);
            }
            let begun = matches!(to_continue(home, Pipeline::CertsRenew), Ok(Some(_)));
            if !same || !begun || !found.iter().any(|one| one.sealed.about.certificates == here) {
                let (one, other) = (first.host.to_owned(), other.host.to_owned());
                return Err(AuthoritiesError::Different { one, other }.into());
            }
            wanted = &here;
        }
        let mut opened = None;
        for one in &found {
            if let Some(files) = hosts.open(one, identity, (&known, &here))?
                && one.sealed.about.certificates == *wanted
            {
                let _ = opened.get_or_insert((one, files));
            }
        }
        let Some((one, files)) = opened else {
            let for_whom = one_line(&first.sealed.about.for_whom());
            if here != *wanted {
                return Err(AuthoritiesError::ForOthers { for_whom, own: own.clone() }.into());
            }
            let text = format!("the CA of the registry is sealed for {for_whom}; this home has it, and seals it anew");
            events::warning(shown, text);
            return Ok(alone());
        };
        // Those of cluster.yaml are added by the recipe, by their names. Others only if this home knows them, or knows nobody yet:
        // a recipient that was added on a host gets nothing.
        let found_for = unnamed(&one.sealed.about, &own);
        let of_home = of_home(registry_ca(wanted));
        let is_stranger = |key: &&String| of_home.as_ref().is_some_and(|known| !known.contains(*key));
        let strangers: Vec<&str> = found_for.iter().filter(is_stranger).map(String::as_str).collect();
        let document = match &kept {
            Some((text, _)) if !strangers.is_empty() => {
                let warning = format!(
                    "{}: the CA of the registry is sealed for {} too, whom this home does not know; it is sealed anew without them. If \
                     that is an operator, add the key to spec.operators of cluster.yaml",
                    one.host,
                    strangers.join(", ")
                );
                events::warning(shown, warning);
                text.clone()
            }
            _ => one.text.to_owned(),
        };
        let change = match here == *wanted {
            true => Change::Keep(document),
            false => Change::Replace(files, document),
        };
        Ok(with(of_home.unwrap_or(found_for), change))
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

/// Public keys of the recipients without a name, except for this home's own.
fn unnamed(about: &About, own: &str) -> Vec<String> {
    let unnamed = about.recipients.iter().filter(|one| one.name.is_none() && one.key != own);
    unnamed.map(|one| one.key.clone()).collect()
}

/// Whose documents are trusted, besides this home's own: the operators of a cluster.yaml that is proven, or for whom this home has
/// sealed before, and those without a name for whom it has.
fn known(hosts: &Hosts<'_>, own: &str, kept: Option<&About>) -> Vec<String> {
    let mut known = hosts.cluster.proven_operators();
    if let Some(kept) = kept {
        let named = hosts.cluster.operators.iter().map(|operator| operator.recipient.clone());
        known.extend(named.filter(|key| kept.recipients.iter().any(|one| one.key == *key)));
        known.extend(unnamed(kept, own));
    }
    known
}
