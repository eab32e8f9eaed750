//! Which hosts are members of a cluster. Two clusters may have the same name, but never the same id.

use std::collections::BTreeMap;

use kubexm_plan::facts::Stamp;
use kubexm_plan::{ClusterId, Facts};
use kubexm_spec::Cluster;

use crate::error::RecipeError;

/// The identity of a cluster of a given name, derived from the stamps of its hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The id of the cluster: that of its first control plane, or else of the first host that was prepared for it. None
    /// if no stamp has one: the hosts are free, or were prepared by a version without cluster ids.
    pub id: Option<ClusterId>,
    /// Hosts whose stamps have the cluster's name, but which are not members of it.
    pub non_members: BTreeMap<String, NonMember>,
}

/// Why a host whose stamp has the cluster's name is not a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NonMember {
    /// Its stamp has another id than the cluster.
    OtherId {
        /// The id in its stamp.
        found: ClusterId,
        /// The cluster's id.
        cluster: ClusterId,
    },
    /// It is joined to a cluster with another CA.
    OtherCa,
    /// It is joined to a cluster, or has a member of its etcd, and the first control plane is free.
    NoCluster,
}

impl Identity {
    /// Compares the stamps of a cluster's hosts. Hosts without facts are left out.
    pub fn of(cluster: &Cluster, facts: &BTreeMap<String, Facts>) -> Self {
        let stamped = |name: &str| facts.get(name).and_then(|facts| Some((facts, stamp(cluster, facts)?)));
        let first = cluster.first_control_plane().map(|host| host.name.as_str());
        let first_member = first.and_then(stamped);
        // A host that was not reached, or whose stamp is damaged, may not be free.
        let free = first
            .and_then(|name| facts.get(name))
            .is_some_and(|first| stamp(cluster, first).is_none() && first.unreadable_stamp.is_none());
        let mut non_members = BTreeMap::new();
        let mut members = Vec::new();
        for (name, (facts, stamp)) in in_order(cluster).filter_map(|name| Some((name, stamped(name)?))) {
            let cas = first_member.and_then(|(first, _)| first.cluster_ca_key).zip(facts.cluster_ca_key);
            if free && (facts.joined || facts.etcd_formed.is_some()) {
                non_members.insert(name.to_owned(), NonMember::NoCluster);
            } else if cas.is_some_and(|(own, other)| own != other) {
                non_members.insert(name.to_owned(), NonMember::OtherCa);
            } else {
                members.push((name, stamp.id));
            }
        }
        let id = first_member.and_then(|(_, stamp)| stamp.id).or_else(|| members.iter().find_map(|(_, id)| *id));
        for (name, found) in members {
            if let (Some(found), Some(cluster)) = (found, id)
                && found != cluster
            {
                non_members.insert(name.to_owned(), NonMember::OtherId { found, cluster });
            }
        }
        Self { id, non_members }
    }

    /// Whether a host was joined to the cluster by an earlier run.
    pub fn has_joined(&self, cluster: &Cluster, host: &str, facts: &Facts) -> bool {
        facts.joined && self.is_member(cluster, host, facts)
    }

    /// Refuses hosts that are members of a cluster which stays, when only some of its hosts are to be reset.
    ///
    /// # Errors
    /// Such a host, or a name that cluster.yaml does not have.
    pub fn may_be_reset(
        &self,
        cluster: &Cluster,
        facts: &BTreeMap<String, Facts>,
        only: &[String],
    ) -> Result<(), RecipeError> {
        let known = |name: &String| cluster.host(name).is_some();
        if let Some(host) = only.iter().find(|name| !known(name)) {
            let known: Vec<_> = cluster.hosts.iter().map(|host| host.name.as_str()).collect();
            let (host, cluster, known) = (host.clone(), cluster.name.clone(), known.join(", "));
            return Err(RecipeError::UnknownHost { host, cluster, known });
        }
        let member = |name: &String| facts.get(name).is_some_and(|facts| self.is_member(cluster, name, facts));
        let stays = facts.keys().any(|name| !only.contains(name) && member(name));
        match only.iter().find(|name| stays && member(name)) {
            None => Ok(()),
            Some(host) => Err(RecipeError::StillMember {
                host: host.clone(),
                cluster: cluster.name.clone(),
                id: self.id.map(|id| format!(" with id {id}")).unwrap_or_default(),
            }),
        }
    }

    /// Whether a host's stamp has the cluster's name and the host is a member of it.
    pub fn is_member(&self, cluster: &Cluster, host: &str, facts: &Facts) -> bool {
        stamp(cluster, facts).is_some() && !self.non_members.contains_key(host)
    }
}

fn stamp<'a>(cluster: &Cluster, facts: &'a Facts) -> Option<&'a Stamp> {
    facts.stamp.as_ref().filter(|stamp| stamp.cluster == cluster.name)
}

/// Every host once, control planes first.
fn in_order(cluster: &Cluster) -> impl Iterator<Item = &str> {
    let planes = &cluster.role_groups.control_plane;
    let others = cluster.hosts.iter().map(|host| &host.name).filter(|name| !planes.contains(name));
    planes.iter().chain(others).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use kubexm_spec::Digest;

    use super::*;
    use crate::sample;

    const A: ClusterId = ClusterId::from_random([0xa; 16]);
    const B: ClusterId = ClusterId::from_random([0xb; 16]);

    /// Hosts of two control planes and two workers, each `(id, joined)`.
    fn identity(hosts: [Option<(Option<ClusterId>, bool)>; 4]) -> Identity {
        let cluster = sample::fleet(2, 2);
        let mut facts = sample::all_facts(&cluster);
        for (facts, host) in facts.values_mut().zip(hosts) {
            let Some((id, joined)) = host else { continue };
            facts.stamp =
                Some(Stamp { cluster: cluster.name.clone(), id, run: "r".to_owned(), bundle: None, adopted: false });
            facts.joined = joined;
            facts.cluster_ca_key = joined.then(|| Digest::of(format!("{id:?}")));
        }
        Identity::of(&cluster, &facts)
    }

    fn non_members(identity: &Identity) -> Vec<&str> {
        identity.non_members.keys().map(String::as_str).collect()
    }

    #[test]
    fn a_host_whose_id_differs_from_that_of_the_first_control_plane_is_no_member() {
        let (a, b) = (Some((Some(A), true)), Some((Some(B), false)));
        let found = identity([a, None, b, a]);
        assert_eq!((found.id, non_members(&found)), (Some(A), vec!["node3"]));
        assert_eq!(found.non_members["node3"], NonMember::OtherId { found: B, cluster: A });
        let alone = identity([None, None, None, None]);
        assert_eq!(alone, Identity::default());
    }

    #[test]
    fn hosts_that_were_prepared_before_a_create_died_keep_their_id() {
        let prepared = |id| Some((Some(id), false));
        let found = identity([None, None, prepared(A), prepared(A)]);
        assert_eq!((found.id, non_members(&found)), (Some(A), vec![]));
        let found = identity([None, prepared(B), prepared(A), None]);
        assert_eq!((found.id, non_members(&found)), (Some(B), vec!["node3"]), "control planes come first");
    }

    #[test]
    fn a_joined_host_is_no_member_while_the_first_control_plane_is_free() {
        let found = identity([None, Some((Some(A), true)), Some((None, true)), Some((Some(B), false))]);
        assert_eq!((found.id, non_members(&found)), (Some(B), vec!["node2", "node3"]));
        assert!(found.non_members.values().all(|why| *why == NonMember::NoCluster));
    }

    #[test]
    fn without_ids_the_ca_decides_membership_and_members_may_get_an_id_later() {
        let old = Some((None, true));
        let found = identity([old, old, old, old]);
        assert_eq!(found, Identity::default());
        let mixed = identity([Some((Some(A), true)), old, None, None]);
        assert_eq!(non_members(&mixed), ["node2"], "its CA is another");
        let (half, prepared) = (Some((None, false)), Some((Some(A), false)));
        let found = identity([half, half, prepared, half]);
        assert_eq!((found.id, non_members(&found)), (Some(A), vec![]));
    }
}
