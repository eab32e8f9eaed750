//! What one host sees of the cluster that it is a node of. Read-only, without a lock, and it ends: whoever is asked is given
//! some seconds, and what does not answer is a gap.

mod api;
mod certificates;
mod etcd;
mod gaps;

use std::thread;

use kubexm_plan::cluster_facts::ClusterFacts;
use kubexm_plan::network;
use kubexm_spec::cluster::{Keyword as _, NetworkPlugin};

use crate::ops::stamp;
use crate::{Machine, kube};
use gaps::Gaps;

/// Looks. `host` is the name in cluster.yaml. A host that is no control plane sees its own certificates alone.
pub fn collect(machine: &Machine, host: &str) -> ClusterFacts {
    let mut facts = ClusterFacts::default();
    let mut gaps = Gaps::of(host);
    if let Some(stamp) = gaps.note("stamp", stamp::read(machine)).flatten() {
        (facts.name, facts.id) = (Some(stamp.cluster), stamp.id);
    }
    facts.network = plugin(machine);
    let (certificates, unread) = certificates::look(machine, host);
    facts.certificates = certificates;
    gaps.found.extend(unread);
    if kube::has_admin_conf(machine) {
        // Side by side: none waits for one that hangs.
        let (api, etcd) = thread::scope(|scope| {
            let api = scope.spawn(|| api::look(machine, host));
            let etcd = scope.spawn(|| etcd::look(machine, host));
            (api.join(), etcd.join())
        });
        match api {
            Ok(seen) => seen.add_to(host, &mut facts, &mut gaps.found),
            Err(_) => gaps.add("API server", "the look at it ended in a fault of this program"),
        }
        match etcd {
            Ok((members, unseen)) => {
                facts.etcd = members;
                gaps.found.extend(unseen);
            }
            Err(_) => gaps.add("etcd members", "the look at them ended in a fault of this program"),
        }
    }
    facts.gaps = gaps.found;
    facts
}

/// The plugin whose CNI configuration lies on the host.
fn plugin(machine: &Machine) -> Option<String> {
    let has = |plugin: &NetworkPlugin| {
        let configs = network::of(*plugin).map(|network| network.cni_configs).unwrap_or_default();
        configs.iter().any(|config| machine.path(config).is_file())
    };
    NetworkPlugin::ALL.iter().find(|plugin| has(plugin)).map(ToString::to_string)
}
