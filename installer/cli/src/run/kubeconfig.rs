//! The operator's kubeconfig: the credentials of kubeadm's admin.conf, with an address that this machine can reach.

use kubexm_spec::Cluster;
use kubexm_terminal::Failure;

use crate::site::fleet::Fleet;
use crate::support::failures;
use crate::support::files;
use crate::support::home::ClusterHome;

/// Fetches it from the first control plane and keeps it, readable by its owner only. It is a secret: never shown.
pub async fn fetch(fleet: &Fleet, cluster: &Cluster, home: &ClusterHome) -> Result<(), Failure> {
    let Some((host, link)) = cluster.first_control_plane().and_then(|host| Some((host, fleet.link(&host.name)?)))
    else {
        return Ok(());
    };
    let admin = link.admin_kubeconfig(cluster, &host.address).await.map_err(|error| failures::links(&[error]))?;
    files::write_private(&home.kubeconfig(), admin.render(cluster, &host.address).as_bytes())
}
