//! What is known of the cluster when its authorities are decided on: the documents of its control planes, and who may have made them.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_engine::{ClusterPki, Maker, OperatorIdentity, PkiFiles, SealedAuthorities, SealedError};
use kubexm_plan::{Authority, ClusterId, Facts};
use kubexm_recipes::Identity;
use kubexm_spec::Digest;

use super::error::AuthoritiesError;
use crate::bundle::cluster_file::ClusterFile;

/// Digests of certificates, by the name of their file.
type Certificates = BTreeMap<String, Digest>;

/// Its hosts, their facts and its id.
pub(crate) struct Hosts<'a> {
    pub cluster: &'a ClusterFile,
    pub facts: &'a BTreeMap<String, Facts>,
    pub id: Option<ClusterId>,
    /// The document in the backup that the cluster is made from.
    pub backup: Option<&'a str>,
}

/// The document of one control plane.
pub(super) struct Found<'a> {
    pub host: &'a str,
    pub text: &'a str,
    pub sealed: SealedAuthorities,
}

impl<'a> Hosts<'a> {
    /// The documents of the control planes that are members, in their order; that of the backup, if none has one yet.
    pub(super) fn documents(&self) -> Result<Vec<Found<'a>>, AuthoritiesError> {
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
        // Once they have one, its certificates of servers are those of the new hosts.
        if let Some(text) = self.backup.filter(|_| all.is_empty()) {
            let host = "the backup";
            let sealed = SealedAuthorities::parse(text)
                .map_err(|error| AuthoritiesError::Unusable { host: host.to_owned(), error })?;
            if sealed.about.cluster_id != id {
                let (cluster, found) = (sealed.about.cluster, sealed.about.cluster_id);
                return Err(AuthoritiesError::ClusterMismatch { host: host.to_owned(), cluster, found, wanted: id });
            }
            all.push(Found { host, text, sealed });
        }
        Ok(all)
    }

    /// Digests of the certificates that are in the document of every control plane, as they say; none if one of them has none that can be
    /// read. Nothing is trusted because of it.
    pub fn sealed_everywhere(&self) -> BTreeSet<Digest> {
        let documents = self.documents().unwrap_or_default();
        let of = |found: &Found<'_>| found.sealed.about.certificates.values().copied().collect::<BTreeSet<_>>();
        documents.iter().map(of).reduce(|one, other| &one & &other).unwrap_or_default()
    }

    /// Opens a document, and decides whether it may be used by a home with the certificates `here`. None if it is sealed for others.
    ///
    /// Its keys fit, so whoever made it has had those of its CA. If that is the CA of this home, nothing more is needed. Another one must
    /// be what every member trusts (an older document may have been put back), and replaces this home's only if its maker is known.
    pub(super) fn open(
        &self,
        found: &Found<'_>,
        identity: &OperatorIdentity,
        (known, here): (&[String], &Certificates),
    ) -> Result<Option<PkiFiles>, AuthoritiesError> {
        let unusable = |error| AuthoritiesError::Unusable { host: found.host.to_owned(), error };
        let files = match found.sealed.open(identity) {
            Ok(files) => files,
            Err(SealedError::ForOthers) => return Ok(None),
            Err(error) => return Err(unusable(error)),
        };
        let maker = found.sealed.maker(identity, known).map_err(unusable)?;
        let (is, was) = (registry_ca(&found.sealed.about.certificates), registry_ca(here));
        if is == was {
            return Ok(Some(files));
        }
        let other = self.members_ca(|ca| Some(&ca) != is).map(str::to_owned);
        let refused = |other, why| Err(AuthoritiesError::CaUnproven { host: found.host.to_owned(), other, why });
        match (other, maker) {
            (Some(other), Maker::Known) => {
                let why = "a run that makes a new one may not have ended (`kubexm-install status`), or somebody put an older file there";
                refused(other, why.to_owned())
            }
            (Some(other), Maker::Unknown(why)) => refused(other, why),
            (None, Maker::Unknown(why)) if was.is_some() => refused("this home".to_owned(), why),
            (None, _) => Ok(Some(files)),
        }
    }

    /// A member that trusts a CA of the registry, if no member trusts the one of this home.
    pub(super) fn unknown_ca(&self, here: &Certificates) -> Option<&'a str> {
        let own = registry_ca(here);
        match self.members_ca(|ca| Some(&ca) == own) {
            Some(_) => None,
            None => self.members_ca(|_| true),
        }
    }

    /// The first member that trusts such a CA of the registry.
    fn members_ca(&self, is_wanted: impl Fn(Digest) -> bool) -> Option<&'a str> {
        let identity = Identity::of(self.cluster, self.facts);
        let mut members = self.facts.iter().filter(|(host, facts)| identity.is_member(self.cluster, host, facts));
        let found = members.find(|(_, facts)| facts.registry_ca.is_some_and(&is_wanted));
        found.map(|(host, _)| host.as_str())
    }
}

/// The authorities themselves among certificates.
pub(super) fn cas(certificates: &Certificates) -> Certificates {
    let names = [Authority::Registry, Authority::Etcd].map(ClusterPki::file_of);
    certificates.iter().filter(|(name, _)| names.contains(name)).map(|(name, ca)| (name.clone(), *ca)).collect()
}

/// The CA of the registry among certificates.
pub(super) fn registry_ca(certificates: &Certificates) -> Option<&Digest> {
    certificates.get(&ClusterPki::file_of(Authority::Registry))
}
