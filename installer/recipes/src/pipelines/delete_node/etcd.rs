//! The members of an etcd of kubexm's that stay, as API servers, kubeadm and the members themselves are to know them.

use std::net::IpAddr;

use kubexm_plan::etcd::FORMED;
use kubexm_plan::op::{Content, EtcdEndpoints, EtcdServers, File};
use kubexm_plan::{Step, StepId, Undo};
use kubexm_spec::Digest;
use kubexm_spec::cluster::EtcdKind;

use super::check::{Leaving, is_named};
use super::context::DeleteContext;
use crate::balancer;
use crate::modules::etcd::{self, Member};
use crate::modules::etcd_formed::{Formed, StartedWith};
use crate::pipelines::host_removal::ResetHost;

/// How long an API server may take that is started anew, in seconds.
const RESTARTS_S: u64 = 360;

/// The steps, one after the other, and their texts; none where no member of an etcd of kubexm's leaves. They come before the members are
/// removed: an API server that asks fewer members is served by any of them, so each of these steps can be rolled back.
pub(super) fn without(
    cx: &DeleteContext<'_>,
    (on, leaving): (&str, &[Leaving<'_>]),
    after: &[StepId],
) -> (Vec<Step>, Vec<String>) {
    if cx.cluster.etcd.kind != EtcdKind::Kubexm || leaving.iter().all(|host| host.member.is_none()) {
        return (Vec::new(), Vec::new());
    }
    let is_gone = |name: &str| leaving.iter().any(|host| host.name == name);
    // One that was added and has no vote serves nobody yet.
    let is_listed = |name: &str| cx.running.etcd.iter().any(|member| is_named(member, cx, name) && !member.learner);
    let hosts = cx.cluster.role_groups.etcd.iter().filter_map(|name| Some((name, cx.cluster.host(name)?.node_ip()?)));
    let of = |(name, ip): (&String, IpAddr)| Member::at(name, ip);
    let all: Vec<Member> = hosts.map(of).collect();
    let stay: Vec<&Member> = all.iter().filter(|one| !is_gone(&one.name) && is_listed(&one.name)).collect();
    let urls: Vec<String> = stay.iter().map(|member| member.client.clone()).collect();
    let (mut steps, mut texts) = (Vec::new(), Vec::new());
    let stays = |host: &&ResetHost<'_>| !is_gone(host.name);
    for host in cx.hosts.iter().filter(stays).filter(|host| stay.iter().any(|member| member.name == host.name)) {
        let Some(formed) = Formed::of(host.facts).filter(|formed| formed.started.is_none()) else { continue };
        let started = StartedWith {
            state: "new".to_owned(),
            members: etcd::initial_cluster(all.iter().filter(|one| is_listed(&one.name))),
        };
        let text = Formed { started: Some(started), ..formed }.text();
        let content = Content::Text { digest: Digest::of(&text) };
        let title = "Keep with which members the host's member of etcd has started";
        let step = Step::on(host.name, "delete.member-started", title);
        steps.push(
            step.ensure(File { path: FORMED.to_owned(), content, mode: 0o644 }).undo(Undo::RestoreBefore).build(),
        );
        texts.push(text);
    }
    let title = "Keep the members of etcd that stay in kubeadm's configuration of the cluster";
    let endpoints = EtcdEndpoints { endpoints: urls.clone() };
    steps.push(
        Step::on(on, "delete.etcd-endpoints", title).ensure(endpoints).retries(3).undo(Undo::RestoreBefore).build(),
    );
    // One after the other: the others answer meanwhile.
    let planes = cx.cluster.role_groups.control_plane.iter().filter(|name| !is_gone(name));
    for plane in planes.filter(|name| cx.hosts.iter().any(|host| host.name == **name && host.facts.joined)) {
        let servers = EtcdServers { servers: urls.clone(), runtime: cx.cluster.runtime.kind };
        let step = Step::on(plane, "delete.etcd-servers", "Let the API server ask the members of etcd that stay");
        steps.push(
            step.ensure(servers).probe(balancer::answers(), 90).timeout_s(RESTARTS_S).undo(Undo::RestoreBefore).build(),
        );
    }
    let mut before = after.to_vec();
    for step in &mut steps {
        step.after = std::mem::replace(&mut before, vec![step.id.clone()]);
    }
    (steps, texts)
}
