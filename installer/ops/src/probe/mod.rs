//! Probes: each checks a condition once and reports what it found. The engine polls until the condition is true or time
//! runs out.

mod answer;
pub mod authority;
mod clock;
mod cri;
mod cri_o;
mod depot_lacks;
pub(crate) mod dns;
mod docker;
mod etcd;
mod harbor;
pub(crate) mod has_address;
pub(crate) mod http;
pub(crate) mod https;
mod images_unused;
mod isulad;
pub(crate) mod kept;
mod kubeadm_upgrade;
mod limited;
pub(crate) mod netns;
mod nodes;
pub mod pod_address;
mod pod_network;
mod pods;
mod registry;
mod registry_lacks;
mod server;
mod virtual_address;
pub mod vrrp;

use kubexm_plan::op::DrainedFor;
use kubexm_plan::{Probe, ProbeAnswer};
use kubexm_spec::cluster::RuntimeKind;

use answer::no;

use crate::{Machine, OpError};

/// Checks once. If something is not available yet (a server that does not answer, a missing program), the condition is
/// false and the reason is reported: that is not an error, since the next check may succeed.
pub fn look(probe: &Probe, machine: &Machine) -> Result<ProbeAnswer, OpError> {
    let answer = match probe {
        Probe::CriReady { runtime: RuntimeKind::Containerd, config_dump } => cri::look(machine, config_dump),
        Probe::CriReady { runtime: RuntimeKind::CriO, config_dump } => cri_o::look(machine, config_dump),
        Probe::CriReady { runtime: RuntimeKind::Docker, config_dump } => docker::look(machine, config_dump),
        Probe::CriReady { runtime: RuntimeKind::Isulad, config_dump } => isulad::look(machine, config_dump),
        Probe::Https { url, ca, login } => server::answers(machine, url, ca, login.as_deref()),
        Probe::ApiReady { url, ca } => server::api_answers(machine, url, ca),
        Probe::VirtualAddress { address } => virtual_address::look(machine, *address),
        Probe::HasAddress { address } => has_address::look(machine, *address),
        Probe::OneHasAddress { .. } => Ok(no("this host cannot answer for the others".to_owned())),
        Probe::RegistryServes { url, ca, login, repositories } => {
            registry::look(machine, (url, ca, login.as_deref()), repositories)
        }
        Probe::DepotLacks { url, ca, login, blobs } => depot_lacks::look(machine, (url, ca, login.as_deref()), blobs),
        Probe::RegistryLacks { url, ca, login, manifests } => {
            registry_lacks::look(machine, (url, ca, login.as_deref()), manifests)
        }
        Probe::ImagesUnused { images } => images_unused::look(machine, images),
        Probe::HarborHealthy { url, ca } => harbor::healthy(machine, url, ca),
        Probe::ClockFollows { servers } => clock::look(machine, servers),
        Probe::EtcdMembersHealthy { members, unnamed, ca, certificate, key } => {
            etcd::healthy(machine, members, *unnamed, [ca, certificate, key])
        }
        Probe::NodeReady { node, kubelet } => nodes::look(machine, node, kubelet.as_deref()),
        Probe::StaticPodsReady { node, images, external_etcd } => {
            pods::of_control_plane(machine, node, images, *external_etcd)
        }
        Probe::EtcdHealthy { members } => etcd::look(machine, *members),
        Probe::KubeadmUpgradePasses { upgrade } => kubeadm_upgrade::look(machine, upgrade),
        Probe::NodeAwaitsNetwork { node } => nodes::awaits_network(machine, node),
        Probe::NodeDrained { node, unless_kubelet, unless_packages } => {
            let unless = DrainedFor { kubelet: unless_kubelet.as_deref(), packages: unless_packages.as_deref() };
            nodes::drained(machine, node, unless)
        }
        Probe::PodsRunning { namespaces, workloads, images, kubeadm_only, new_nodes } => {
            let which = pods::Which { kubeadm_only: *kubeadm_only, workloads };
            pods::look(machine, namespaces, &pods::Allowed { images, new_nodes }, &which)
        }
        Probe::PodNetwork { node, image, name, dns, service } => {
            pod_network::look(machine, &pod_network::Check { node, image, name, dns, service })
        }
    };
    Ok(answer.unwrap_or_else(|error| no(error.full())))
}
