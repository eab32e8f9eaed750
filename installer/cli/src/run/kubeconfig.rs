//! The operator's kubeconfig: kubeadm's admin.conf, with an address that this machine can reach.

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
    let admin = link.admin_kubeconfig().await.map_err(|error| failures::links(&[error]))?;
    let text = reachable(&String::from_utf8_lossy(&admin), &cluster.control_plane_name(), &host.address);
    files::write_private(&home.kubeconfig(), text.as_bytes())
}

/// The control plane's name means something inside the cluster only: the address takes its place, and the name is what
/// the certificate is held against.
fn reachable(admin: &str, name: &str, address: &str) -> String {
    let address = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
    let mut text = String::new();
    for line in admin.lines() {
        let server = line.trim_start().strip_prefix("server: https://").and_then(|rest| rest.strip_prefix(name));
        match server {
            Some(port) => {
                let indent = &line[..line.len() - line.trim_start().len()];
                text.push_str(&format!("{indent}server: https://{address}{port}\n{indent}tls-server-name: {name}\n"));
            }
            None => text.push_str(&format!("{line}\n")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::reachable;

    #[test]
    fn the_servers_address_can_be_reached_and_its_certificate_is_held_against_its_name() {
        let admin = "clusters:\n- cluster:\n    server: https://lb.c.kubexm.internal:6443\n  name: c\n";
        let wanted = "clusters:\n- cluster:\n    server: https://10.0.0.5:6443\n    tls-server-name: \
                      lb.c.kubexm.internal\n  name: c\n";
        assert_eq!(reachable(admin, "lb.c.kubexm.internal", "10.0.0.5"), wanted);
        assert!(reachable(admin, "lb.c.kubexm.internal", "fd00::5").contains("https://[fd00::5]:6443\n"));
    }

    #[test]
    fn a_server_of_another_name_stays_as_it_is() {
        let admin = "    server: https://vip.example:6443\n";
        assert_eq!(reachable(admin, "lb.c.kubexm.internal", "10.0.0.5"), admin);
    }
}
