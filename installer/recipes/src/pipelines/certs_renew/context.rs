//! The input of the recipe.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_plan::cluster_facts::Certificate;
use kubexm_plan::{Authority, ClusterFacts, ClusterId, Facts};
use kubexm_spec::Digest;
use kubexm_spec::cluster::{Cluster, Validity};

use crate::context::Sealing;
use crate::signed::SignedCertificates;

/// The whole input of the recipe.
#[derive(Clone, Debug)]
pub struct RenewContext<'a> {
    pub cluster: &'a Cluster,
    /// Digest of the bytes of cluster.yaml.
    pub cluster_digest: Digest,
    /// From the stamps of the hosts.
    pub cluster_id: Option<ClusterId>,
    /// The cluster as it is now, with the certificates of every host.
    pub running: &'a ClusterFacts,
    /// By host: every host that was reached.
    pub facts: &'a BTreeMap<String, Facts>,
    /// The controller's clock, in seconds of Unix time.
    pub now: i64,
    pub wanted: Renew,
    /// A renewal from this home has begun and not ended: a host may have one of two files, or a service that was not restarted.
    pub begun: bool,
    /// Digests of the certificates that are in the sealed authorities of every control plane; empty if there are none.
    pub sealed: &'a BTreeSet<Digest>,
    /// The cluster's own authorities. None until they were opened, which a plan needs if [`super::needs_authorities`].
    pub own: Option<&'a OwnAuthorities>,
    /// What the site's CA has signed, where its key stays with the site.
    pub signed: Option<&'a SignedCertificates>,
}

impl RenewContext<'_> {
    /// Whether a certificate of kubeadm's or of the site's is renewed.
    pub(super) fn is_due(&self, one: &Certificate) -> bool {
        self.wanted.force || one.ends.saturating_sub(self.now) < self.wanted.within_s
    }
}

/// The cluster's own authorities, as this home can use them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnAuthorities {
    pub sealing: Sealing,
    /// Digests of their certificates.
    pub certificates: BTreeMap<Authority, Digest>,
}

/// Which certificates are renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renew {
    /// Those that end within so many seconds.
    pub within_s: i64,
    /// All of kubeadm's and of the cluster's own authorities, whenever they end.
    pub force: bool,
    /// Authorities of kubeadm's, too, under their own keys.
    pub authorities: bool,
}

impl Default for Renew {
    fn default() -> Self {
        Self { within_s: Validity::OF_CERTIFICATES.soon_s(), force: false, authorities: false }
    }
}
