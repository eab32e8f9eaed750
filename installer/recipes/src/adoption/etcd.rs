//! etcd: kubeadm's own, with one member on each control plane of cluster.yaml.

use kubexm_spec::cluster::EtcdKind;

use super::input::AdoptionInput;
use super::item::Items;

const WHAT: &str = "etcd";

pub(super) fn compare(input: &AdoptionInput<'_>, items: &mut Items) {
    let (running, cluster) = (input.running, input.cluster);
    // Without it nothing of etcd is known either, and that is said.
    let Some(kubeadm) = &running.kubeadm else { return };
    let Some(data) = &kubeadm.etcd_data else {
        let fix = "a cluster whose etcd is not kubeadm's cannot be adopted yet";
        return items.in_the_way(None, WHAT, ("an etcd outside of kubeadm's control", None), fix);
    };
    if cluster.etcd.kind != EtcdKind::Kubeadm {
        let fix = "leave spec.etcd.type out of cluster.yaml: this etcd is kubeadm's";
        return items.in_the_way(
            None,
            WHAT,
            ("kubeadm's, on the control planes", Some(cluster.etcd.kind.to_string())),
            fix,
        );
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
        let state = match (member.healthy, member.learner) {
            (true, false) => "healthy",
            (true, true) => "a learner",
            (false, _) => "not healthy",
        };
        items.compared(at, "member of etcd", state, "healthy");
        if let (Some(found), Some(wanted)) = (&member.version, input.bundle.and_then(|bundle| bundle.etcd.as_ref())) {
            items.compared(at, "version of etcd", found, wanted);
        }
    }
    for plane in planes.iter().filter(|plane| !running.etcd.iter().any(|member| member.name == **plane)) {
        let fix = "join it again with kubeadm, or remove the host from cluster.yaml";
        items.in_the_way(Some(plane), "member of etcd", ("none has the name of this control plane", None), fix);
    }
}
