//! What is due on the hosts.

use kubexm_plan::cluster_facts::Certificate;
use kubexm_plan::kubeadm_certificates::{AUTHORITIES, MANAGED, authority};
use kubexm_plan::op::{KUBELET_CLIENT, Renewal};
use kubexm_spec::Digest;
use kubexm_spec::cluster::EtcdKind;

use super::context::RenewContext;
use super::kubeadm_authorities::Authorities;
use super::own::Own;
use super::site;
use crate::modules::site_certificates::HostFile;

/// kubelet renews its certificate when at least a tenth of its year is left: one that ends so soon was not renewed, so
/// kubelet cannot.
const KUBELET_LATE_S: i64 = 7 * 24 * 3600;

/// A control plane.
pub(super) struct Plane<'a> {
    pub name: &'a str,
    /// The user who logs in with SSH, and has a kubeconfig there.
    pub user: &'a str,
    pub due: Vec<Renewal>,
    /// Files with what the site's CA has signed anew.
    pub site: Vec<HostFile>,
    /// Digest of its kubelet's certificate, if kubelet cannot renew it any more.
    pub kubelet: Option<Digest>,
    /// Digest of its admin.conf, of which users may have copies.
    pub admin: Option<Digest>,
}

/// What is due.
pub(super) struct Due<'a> {
    pub planes: Vec<Plane<'a>>,
    /// Workers whose kubelet cannot renew its certificate any more.
    pub workers: Vec<(&'a str, Digest)>,
    /// Workers, with what the site's CA has signed anew for them.
    pub site_workers: Vec<(&'a str, Vec<HostFile>)>,
    /// The control plane that does what is done once.
    pub first: &'a str,
    /// Whether a certificate of a control plane has ended, so that it may not be healthy.
    pub ended: bool,
    /// Whether kubexm has not made the cluster.
    pub adopted: bool,
    /// Whether the operator gets the administrator's kubeconfig on the controller.
    pub operator: bool,
    pub warnings: Vec<String>,
    /// What the cluster's own authorities sign.
    pub own: Own<'a>,
    /// Those of kubeadm's.
    pub authorities: Authorities<'a>,
}

/// What is due of a host's certificates, in the order of [`MANAGED`].
pub(super) fn due(certificates: &[&Certificate], cx: &RenewContext<'_>) -> Vec<Renewal> {
    // kubeadm renews nothing of an etcd that is not its own, also where the files have its names.
    let stacked = cx.cluster.etcd.kind == EtcdKind::Kubeadm;
    let signs = |path: &str| !site::signs(cx, path) && (stacked || authority(path) != AUTHORITIES[1]);
    let found = MANAGED.iter().filter(|(_, path)| signs(path)).filter_map(|(name, path)| {
        let one = certificates.iter().find(|one| one.path == *path).filter(|one| cx.is_due(one))?;
        Some(Renewal { name: (*name).to_owned(), path: one.path.clone(), was: one.file? })
    });
    found.collect()
}

/// The certificate of a host's kubelet, if kubelet cannot renew it any more.
pub(super) fn late_kubelet(certificates: &[&Certificate], cx: &RenewContext<'_>) -> Option<Digest> {
    let one = certificates.iter().find(|one| one.path == KUBELET_CLIENT)?;
    one.file.filter(|_| one.ends.saturating_sub(cx.now) < KUBELET_LATE_S)
}
