//! The operator's kubeconfig: the credentials of kubeadm's admin.conf, with an address that the controller can reach.

use kubexm_engine::link::LinkError;
use kubexm_spec::Cluster;
use zeroize::Zeroizing;

use crate::error::SessionError;
use crate::files;
use crate::fleet::Fleet;
use crate::home::ClusterHome;

/// Fetches it from a control plane, verifies it and rewrites it. None if that host cannot be reached.
pub(super) async fn of_host(
    fleet: &Fleet,
    cluster: &Cluster,
    host: &str,
) -> Result<Option<Zeroizing<String>>, LinkError> {
    let Some((host, link)) = cluster.host(host).and_then(|host| Some((host, fleet.link(&host.name)?))) else {
        return Ok(None);
    };
    link.kubeconfig(cluster, &host.address).await.map(Some)
}

/// For plans of earlier versions, which have no step for it: fetches it from the first control plane and stores it,
/// readable by its owner only. It is a secret and never shown.
pub(super) async fn fetch(fleet: &Fleet, cluster: &Cluster, home: &ClusterHome) -> Result<(), SessionError> {
    match cluster.first_control_plane() {
        Some(first) => fetch_from(fleet, cluster, home, &first.name).await,
        None => Ok(()),
    }
}

/// Fetches it from a control plane and stores it.
pub(super) async fn fetch_from(
    fleet: &Fleet,
    cluster: &Cluster,
    home: &ClusterHome,
    host: &str,
) -> Result<(), SessionError> {
    match of_host(fleet, cluster, host).await.map_err(|error| SessionError::links([error]))? {
        Some(admin) => files::write_private(&home.kubeconfig(), admin.as_bytes()),
        None => Ok(()),
    }
}
