//! The operator's kubeconfig: the credentials of kubeadm's admin.conf, with an address that this machine can reach.

use kubexm_spec::Cluster;

use crate::error::SessionError;
use crate::files;
use crate::fleet::Fleet;
use crate::home::ClusterHome;

/// Fetches it from the first control plane and keeps it, readable by its owner only. It is a secret: never shown.
pub(super) async fn fetch(fleet: &Fleet, cluster: &Cluster, home: &ClusterHome) -> Result<(), SessionError> {
    let Some((host, link)) = cluster.first_control_plane().and_then(|host| Some((host, fleet.link(&host.name)?)))
    else {
        return Ok(());
    };
    let admin = link.kubeconfig(cluster, &host.address).await.map_err(|error| SessionError::links([error]))?;
    files::write_private(&home.kubeconfig(), admin.as_bytes())
}
