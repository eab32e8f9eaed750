//! The number of control planes and etcd members, and the load balancer in front of them.

use std::net::IpAddr;

use kubexm_spec::cluster::{EtcdKind, InternalKind, LoadBalancerMode};

use super::input::PreflightInput;
use super::report::{Report, Severity, Words};
use crate::balancer;
use crate::mesh::API_SERVER;

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    let cluster = input.cx.cluster;
    let number = cluster.role_groups.control_plane.len();
    let mut add = |severity, found: String, needed: &str, fix: &str| {
        report.add(severity, None, Words { found, needed: needed.to_owned(), fix: fix.to_owned() });
    };
    let members = cluster.etcd_members().len();
    if members == 2 && cluster.etcd.kind == EtcdKind::Kubexm {
        add(
            Severity::Fail,
            format!("two members of etcd ({})", cluster.role_groups.etcd.join(", ")),
            "one, three or five: with two, the loss of either stops the cluster, as with one, and there are twice as many to lose",
            "add a host to roleGroups.etcd, or remove one",
        );
    } else if members > 0 && members.is_multiple_of(2) {
        let found = match cluster.etcd.kind {
            EtcdKind::Kubeadm => format!("{members} control planes, each with an etcd member"),
            EtcdKind::Kubexm | EtcdKind::External => format!("{members} members of etcd"),
        };
        add(
            Severity::Warn,
            found,
            "an odd number: a majority of members must be up",
            "add one to tolerate one more failure, or remove one: as many failures are tolerated with one less",
        );
    }
    let proxied = input.hosts.iter().any(|host| balancer::on(cluster, host.roles).is_some());
    let mode = &cluster.load_balancer.mode;
    match mode {
        LoadBalancerMode::None if number > 1 => add(
            Severity::Warn,
            format!("{number} control planes and no load balancer"),
            "one address that forwards to the healthy ones",
            "each host's /etc/hosts has all of them under one name, so clients wait for one that is down before they \
             try the next: set `loadBalancer.mode: external` if there is a load balancer, or `internal` with `internal: {type: \
             haproxy}` for one on each worker",
        ),
        LoadBalancerMode::Internal { kind: InternalKind::Haproxy | InternalKind::Nginx, .. } if !proxied => add(
            Severity::Warn,
            "a load balancer on the workers, and no host is only a worker".to_owned(),
            "a worker that is no control plane: these have no proxy, since the API server has its port",
            "set `loadBalancer.mode: none`, or add workers",
        ),
        // A load balancer on the nodes themselves has no address that the operator could get wrong.
        LoadBalancerMode::None | LoadBalancerMode::Internal { .. } => (),
        LoadBalancerMode::External { vip, port, .. } => {
            let (vip, port) = (*vip, *port);
            let host = input.hosts.iter().find(|host| host.ip == Some(vip));
            if let Some(host) = host.filter(|host| host.roles.control_plane && port == API_SERVER) {
                add(
                    Severity::Fail,
                    format!("the load balancer's address {vip}:{port}, the API server's own of {}", host.name()),
                    "an address in front of the control planes",
                    "give the load balancer's own address in `loadBalancer.external`, or set `mode: none`",
                );
            }
        }
    }
    if let Some(vip) = mode.vip()
        && let Some(field) = inside(input, vip)
    {
        add(
            Severity::Fail,
            format!("the load balancer's address {vip} inside spec.network.{field}"),
            "an address outside the networks of pods and services",
            "choose another network, or another address for the load balancer",
        );
    }
}

fn inside(input: &PreflightInput<'_>, vip: IpAddr) -> Option<&'static str> {
    let network = &input.cx.cluster.network;
    let fields = [("podCidr", network.pod_cidr), ("serviceCidr", network.service_cidr)];
    fields.into_iter().find(|(_, cidr)| cidr.contains(&vip)).map(|(field, _)| field)
}
