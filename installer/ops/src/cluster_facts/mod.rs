//! Observes the cluster from one of its nodes. Read-only, without a lock, and with time limits; what does not answer is
//! a gap.

mod api;
mod balancer;
pub(crate) mod certificates;
mod etcd;
mod gaps;
mod kubeadm;
mod metrics;
mod programs;

use std::thread;

use kubexm_plan::cluster_facts::{APPLIED, BALANCER, ClusterFacts, ETCD_FILES, EtcdMember, Gap, PROGRAMS};
use kubexm_plan::network;
use kubexm_spec::cluster::{Keyword as _, NetworkPlugin};

use crate::ops::stamp;
use crate::{Machine, api_server_etcd, kube, timers};
use gaps::Gaps;

/// `host` is the name in cluster.yaml. A host that is not a control plane reports only its own certificates, and its part of the
/// load balancer.
pub fn collect(machine: &Machine, host: &str) -> ClusterFacts {
    let mut facts = ClusterFacts::default();
    let mut gaps = Gaps::of(host);
    let mut adopted = false;
    if let Some(stamp) = gaps.note("stamp", stamp::read(machine)).flatten() {
        (facts.name, facts.id, adopted) = (Some(stamp.cluster), stamp.id, stamp.adopted);
    }
    facts.network = plugin(machine);
    facts.balancers = gaps.note(BALANCER, balancer::look(machine, host)).flatten().into_iter().collect();
    facts.timers = gaps.note("timers", timers::look(machine, host)).unwrap_or_default();
    facts.kubelets = gaps.note("kubelet", kubeadm::kubelet(machine, host)).flatten().into_iter().collect();
    for kubelet in facts.kubelets.iter_mut().filter(|_| adopted) {
        kubelet.programs = gaps.note(PROGRAMS, programs::look(machine)).unwrap_or_default();
    }
    let (certificates, unread) = certificates::look(machine, host);
    facts.certificates = certificates;
    gaps.found.extend(unread);
    if kube::has_admin_conf(machine) {
        // In parallel, so that one that hangs does not delay the other.
        let (api, etcd) = thread::scope(|scope| {
            let api = scope.spawn(|| api::look(machine, host));
            let etcd = scope.spawn(|| etcd::look(machine, host));
            (api.join(), etcd.join())
        });
        match api {
            Ok(seen) => {
                seen.add_to(host, &mut facts, &mut gaps.found);
                for gap in gaps.found.iter_mut().filter(|gap| adopted && gap.what == APPLIED) {
                    gap.why = "the cluster was adopted, and nothing has been applied".to_owned();
                }
            }
            Err(_) => gaps.add("API server", "it was not asked, because of a fault of this program"),
        }
        match etcd {
            Ok((members, unseen)) => {
                facts.etcd = members;
                gaps.found.extend(unseen);
            }
            Err(_) => gaps.add("etcd members", "they were not listed, because of a fault of this program"),
        }
    }
    for kubelet in &mut facts.kubelets {
        let named = facts.kubeadm.as_ref().and_then(|kubeadm| kubeadm.external_etcd.as_ref());
        kubelet.etcd = gaps.note("etcd of the API server", api_server_etcd::look(machine, named)).flatten();
        if kubelet.etcd.is_some() && facts.kubeadm.is_none() {
            gaps.add(ETCD_FILES, "kubeadm's configuration of the cluster could not be read there, so whether the host has them is not known");
        }
    }
    facts.gaps = gaps.found;
    facts
}

/// The members of etcd as this host sees them, and why one was not seen.
pub(crate) fn members(machine: &Machine) -> (Vec<EtcdMember>, Vec<Gap>) {
    etcd::look(machine, "this host")
}

/// The plugin with a CNI configuration on the host. A credential of a plugin beside it may have outlived the plugin.
fn plugin(machine: &Machine) -> Option<String> {
    let has = |plugin: &NetworkPlugin| {
        let configs = network::of(*plugin).cni_configs;
        configs.iter().filter(|config| config.ends_with(".conflist")).any(|config| machine.path(config).is_file())
    };
    NetworkPlugin::ALL.iter().find(|plugin| has(plugin)).map(ToString::to_string)
}
