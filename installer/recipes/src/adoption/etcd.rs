//! etcd: kubeadm's own, with one member on each control plane of cluster.yaml; or one outside of kubeadm's control.

use kubexm_plan::cluster_facts::EtcdAccess;
use kubexm_spec::cluster::EtcdKind;

use super::external_etcd;
use super::input::AdoptionInput;
use super::item::Items;

const WHAT: &str = "etcd";

pub(super) fn compare(input: &AdoptionInput<'_>, items: &mut Items) {
    let (running, cluster) = (input.running, input.cluster);
    // Without it nothing of etcd is known either, and that is said.
    let Some(kubeadm) = &running.kubeadm else { return };
    let Some(data) = &kubeadm.etcd_data else {
        let unknown = EtcdAccess::default();
        let recorded = kubeadm.external_etcd.as_ref().unwrap_or(&unknown);
        return match (cluster.etcd.kind, &cluster.etcd.external) {
            (EtcdKind::External, Some(external)) => external_etcd::compare(input, recorded, external, items),
            _ => external_etcd::unnamed(input, recorded, items),
        };
    };
    if cluster.etcd.kind != EtcdKind::Kubeadm {
        let found = ("kubeadm's, on the control planes", Some(cluster.etcd.kind.to_string()));
        return items.in_the_way(None, WHAT, found, external_etcd::OF_KUBEADM);
    }
    items.compared(None, "data folder of etcd", data, &cluster.etcd.data_dir);
    if running.etcd.is_empty() {
        let fix = "a cluster is adopted while etcd answers: see what `kubexm-install status` says of it";
        return items.in_the_way(None, "members of etcd", ("none answers", None), fix);
    }
    let planes = &cluster.role_groups.control_plane;
    for member in &running.etcd {
        if !planes.contains(&member.name) {
            let name = if member.name.is_empty() { &member.id } else { &member.name };
            let found = format!("{name} ({})", member.peer_urls.join(", "));
            let fix = "it is on no control plane of cluster.yaml: add that host, or remove the member with etcdctl";
            items.in_the_way(None, "member of etcd", (found, None), fix);
            continue;
        }
        let at = Some(member.name.as_str());
        items.compared(at, "member of etcd", external_etcd::state(member), "healthy");
        if let (Some(found), Some(wanted)) = (&member.version, input.bundle.and_then(|bundle| bundle.etcd.as_ref())) {
            items.compared(at, "version of etcd", found, wanted);
        }
    }
    for plane in planes.iter().filter(|plane| !running.etcd.iter().any(|member| member.name == **plane)) {
        let fix = "join it again with kubeadm, or remove the host from cluster.yaml";
        items.in_the_way(Some(plane), "member of etcd", ("none has the name of this control plane", None), fix);
    }
}
