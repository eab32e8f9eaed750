//! `certs renew`: renews the certificates that kubeadm manages, and those that the cluster's own authorities have signed, and hands out
//! what is made of them.
//!
//! Needs no bundle, and no API server: kubeadm signs with the CA keys that every control plane has. While nothing has
//! ended, one control plane after the other is renewed, and each is healthy before the next. Where something has ended,
//! nobody can be healthy before all are renewed: then each phase goes over all control planes before the next one.

mod adopted;
mod check;
mod context;
mod due;
mod kubeadm_authorities;
mod own;
mod site;

use std::collections::BTreeMap;

use kubexm_plan::kubeadm_certificates::{authorities_of, read_by, ready_after};
use kubexm_plan::op::{CertificatesRenewed, Content, File, Kubeconfig, KubeletCertificate, Probe, StaticPodStarted};
use kubexm_plan::{
    CONTROLLER, OPERATOR_KUBECONFIG, OVER_NETWORK, Pipeline, Plan, SlotName, SlotProvider, Step, StepId, Texts, Undo,
    etcd,
};
use kubexm_spec::Digest;
use kubexm_spec::cluster::EtcdKind;

use crate::balancer::kube_vip;
use crate::draft::plan_host;
use crate::error::RecipeError;
use crate::modules::site_certificates::HostFile;
use crate::modules::{authorities, issued};
pub use context::{OwnAuthorities, Renew, RenewContext};
use due::{Due, Plane};
use kubeadm_authorities::Authorities;
use own::Own;

/// A plan, and what the operator should know about it.
#[derive(Clone, Debug)]
pub struct Renewed {
    pub plan: Plan,
    /// One sentence each.
    pub warnings: Vec<String>,
}

/// How long a restart of one static pod may take, in seconds: its container's grace period, and what the op waits.
const RESTART_S: u64 = 300;

/// Whether the cluster's own authorities have to sign, or a run of theirs has not ended.
///
/// # Errors
/// A host of cluster.yaml has no address of its own, or hosts do not agree whether the cluster was adopted.
pub fn needs_authorities(cx: &RenewContext<'_>) -> Result<bool, RecipeError> {
    Ok(!own::due(cx)?.0.is_empty())
}

/// The plan that renews certificates. Where nothing is due, its steps are satisfied already.
pub fn certs_renew(cx: &RenewContext<'_>) -> Result<Renewed, RecipeError> {
    let Due { planes, mut workers, site_workers, first, ended, adopted, operator, warnings, own, authorities } =
        check::site(cx)?;
    let mut planes = planes;
    let mut chain = Chain { ready_s: if own.etcd_ended { READY_AGAIN_S } else { READY_S }, ..Chain::default() };
    // First: a host that lacks the key of one fails here, before anything is restarted.
    authorities.on_planes(cx, &mut chain.slots).into_iter().for_each(|step| chain.then(step));
    chain.own(cx, &own)?;
    let external_etcd = cx.cluster.etcd.kind != EtcdKind::Kubeadm;
    let kube_vip = !adopted && kube_vip::runs(cx.cluster);
    if ended {
        for plane in &mut planes {
            chain.renew(plane);
            authorities.kubeconfigs(cx, plane.name).into_iter().for_each(|step| chain.then(step));
        }
        for pod in pods(cx, kube_vip, &authorities) {
            let planes = planes.iter().filter(|plane| reads(plane, &pod, &authorities));
            planes.for_each(|plane| chain.then(restart(cx, plane, (pod.0, &pod.1), ended)));
        }
        planes.iter().for_each(|plane| chain.hand_out(plane, adopted, external_etcd));
    } else {
        for plane in &mut planes {
            chain.renew(plane);
            authorities.kubeconfigs(cx, plane.name).into_iter().for_each(|step| chain.then(step));
            let plane = &*plane;
            let pods = pods(cx, kube_vip, &authorities).filter(|pod| reads(plane, pod, &authorities));
            pods.for_each(|pod| chain.then(restart(cx, plane, (pod.0, &pod.1), ended)));
            chain.hand_out(plane, adopted, external_etcd);
        }
    }
    authorities.published(first).into_iter().for_each(|step| chain.then(step));
    if operator {
        chain.operator(first);
    }
    let last = chain.last.clone();
    for host in workers_of(cx) {
        let Some(step) = authorities.on_worker(host, &mut chain.slots) else { continue };
        chain.last.clone_from(&last);
        // First: without a valid one kubelet does not stay up when it is restarted.
        if let Some(late) = workers.iter().position(|(name, _)| *name == host) {
            let (_, was) = workers.swap_remove(late);
            chain.kubelet(first, host, was);
        }
        chain.then(step);
        chain.then(node_ready(first, host));
    }
    for (name, was) in workers {
        chain.last.clone_from(&last);
        chain.kubelet(first, name, was);
        chain.then(node_ready(first, name));
    }
    for (name, files) in site_workers {
        chain.last.clone_from(&last);
        chain.site(name, files);
        chain.then(node_ready(first, name));
    }
    issued::set_validity(cx.cluster, &mut chain.slots);
    let plan = Plan {
        schema: kubexm_plan::SCHEMA,
        pipeline: Pipeline::CertsRenew,
        cluster_name: cx.cluster.name.clone(),
        cluster_id: cx.cluster_id,
        cluster: cx.cluster_digest,
        bundle: None,
        hosts: cx
            .cluster
            .hosts
            .iter()
            .filter(|host| cx.facts.contains_key(&host.name))
            .map(|host| plan_host(&host.name, cx.cluster.roles(&host.name), false))
            .collect(),
        fleet_concurrency: 16,
        host_concurrency: 4,
        slots: chain.slots,
        texts: chain.texts,
        steps: chain.steps,
    };
    Ok(Renewed { plan, warnings })
}

/// How long a control plane may take to be ready, in seconds.
const READY_S: u64 = 180;
/// The same where its API server had no etcd: kubelet starts it again with pauses of up to five minutes.
const READY_AGAIN_S: u64 = 600;

/// Steps one after the other.
#[derive(Default)]
struct Chain {
    ready_s: u64,
    steps: Vec<Step>,
    last: Vec<StepId>,
    slots: BTreeMap<SlotName, SlotProvider>,
    texts: Texts,
}

fn node_ready(first: &str, name: &str) -> Step {
    Step::on(first, &format!("certs.ready-{name}"), &format!("Wait until node {name} is Ready"))
        .probe(Probe::NodeReady { node: name.to_owned(), kubelet: None }, 180)
        .timeout_s(200)
        .undo(Undo::Nothing)
        .build()
}

impl Chain {
    fn then(&mut self, step: Step) {
        let after = std::mem::replace(&mut self.last, vec![step.id.clone()]);
        self.steps.push(Step { after, ..step });
    }

    /// What the cluster's own authorities sign. Every control plane has them first, sealed: what is on a host and not in them would be
    /// nobody's. The registry comes before etcd, since what fails there stops nothing.
    fn own(&mut self, cx: &RenewContext<'_>, own: &Own<'_>) -> Result<(), RecipeError> {
        if own.is_empty() {
            return Ok(());
        }
        let opened = cx.own.ok_or_else(|| RecipeError::CannotRenew {
            problems: vec!["the cluster's own authorities were not opened; this is a fault of the program".to_owned()],
        })?;
        for plane in &cx.cluster.role_groups.control_plane {
            let step = authorities::seal(&mut self.slots, cx.cluster, &opened.sealing, plane);
            self.then(step);
        }
        let steps = own.registries(cx, &mut self.slots).into_iter().chain(own.etcd(cx, &mut self.slots));
        steps.collect::<Vec<_>>().into_iter().for_each(|step| self.then(step));
        Ok(())
    }

    /// What the site's CA has signed anew for a host.
    fn site(&mut self, host: &str, files: Vec<HostFile>) {
        let steps = site::steps(host, files, &mut self.slots, &mut self.texts);
        steps.into_iter().for_each(|step| self.then(step));
    }

    fn renew(&mut self, plane: &mut Plane<'_>) {
        if !plane.due.is_empty() {
            let step = Step::on(plane.name, "certs.renew", "Renew certificates with kubeadm")
                .ensure(CertificatesRenewed { certificates: plane.due.clone() })
                .timeout_s(900)
                .undo(Undo::RestoreBefore)
                .build();
            self.then(step);
        }
        self.site(plane.name, std::mem::take(&mut plane.site));
        // Before the restarts, which kubelet does.
        if let Some(was) = plane.kubelet {
            self.kubelet(plane.name, plane.name, was);
        }
    }

    fn kubelet(&mut self, signer: &str, node: &str, was: Digest) {
        let slot = SlotName(format!("kubelet-client-{node}"));
        let provider = SlotProvider::KubeletClient { host: signer.to_owned(), node: node.to_owned() };
        self.slots.insert(slot.clone(), provider);
        self.then(
            Step::on(node, "certs.kubelet", "Give kubelet another client certificate, and restart it")
                .ensure(KubeletCertificate { slots: vec![slot], was })
                .timeout_s(300)
                .undo(Undo::RestoreBefore)
                .build(),
        );
    }

    fn hand_out(&mut self, plane: &Plane<'_>, adopted: bool, external_etcd: bool) {
        match (adopted, plane.admin) {
            (false, _) => self.kubeconfigs(plane, "Give root and the SSH user a kubeconfig", None),
            (true, Some(was)) => {
                self.kubeconfigs(plane, "Renew the copies of admin.conf of root and the SSH user", Some(was));
            }
            // Nobody can have a copy of what is not there.
            (true, None) => {}
        }
        self.then(
            Step::on(plane.name, "certs.ready", "Wait until the control plane is ready")
                .probe(
                    Probe::StaticPodsReady { node: plane.name.to_owned(), images: BTreeMap::new(), external_etcd },
                    self.ready_s,
                )
                .timeout_s(self.ready_s + 20)
                .undo(Undo::Nothing)
                .build(),
        );
    }

    fn kubeconfigs(&mut self, plane: &Plane<'_>, title: &str, replaces: Option<Digest>) {
        let mut step =
            Step::on(plane.name, "kubeconfig.users", title).ensure(Kubeconfig { user: "root".to_owned(), replaces });
        if plane.user != "root" {
            step = step.ensure(Kubeconfig { user: plane.user.to_owned(), replaces });
        }
        self.then(step.undo(Undo::RestoreBefore).build());
    }

    fn operator(&mut self, first: &str) {
        let slot = SlotName("operator-kubeconfig".to_owned());
        self.slots.insert(slot.clone(), SlotProvider::AdminKubeconfig { host: first.to_owned() });
        self.then(
            Step::on(CONTROLLER, "kubeconfig.operator", "Write a kubeconfig for the operator on this machine")
                .ensure(File { path: OPERATOR_KUBECONFIG.to_owned(), content: Content::Slot { slot }, mode: 0o600 })
                .retries(OVER_NETWORK)
                .undo(Undo::RestoreBefore)
                .build(),
        );
    }
}

/// Static pods with the files of kubeadm's that they read.
fn pods(
    cx: &RenewContext<'_>,
    kube_vip: bool,
    authorities: &Authorities<'_>,
) -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    let stacked = cx.cluster.etcd.kind == EtcdKind::Kubeadm;
    let of_kubexm = cx.wanted.authorities && cx.cluster.etcd.kind == EtcdKind::Kubexm;
    read_by(stacked, kube_vip).map(move |(pod, mut files)| {
        files.extend(authorities_of(pod, stacked).filter(|path| authorities.has(path)));
        // Read when it starts, as those are.
        files.extend(Some(etcd::CLIENT_CA).filter(|_| pod == "kube-apiserver" && of_kubexm));
        (pod, files)
    })
}

/// Whether a pod may have to start anew. etcd reads its certificates with every connection, and only its authority when it starts: an upgrade that
/// left it running ([0110](../../../../docs/decisions/0110-a-patch-upgrade-leaves-etcd-alone.md)) has renewed them, and nothing is to be done for that.
fn reads(plane: &Plane<'_>, (pod, files): &(&str, Vec<&str>), authorities: &Authorities<'_>) -> bool {
    *pod != "etcd" || files.iter().any(|path| authorities.has(path) || plane.due.iter().any(|due| due.path == *path))
}

/// Nodes that are no control planes; one that has not joined yet gets its authority when it does.
fn workers_of<'a>(cx: &RenewContext<'a>) -> impl Iterator<Item = &'a str> {
    let roles = &cx.cluster.role_groups;
    let workers = roles.worker.iter().filter(|name| !roles.control_plane.contains(name));
    let workers = workers.filter(|name| cx.facts.get(*name).is_some_and(|facts| facts.joined));
    workers.map(String::as_str)
}

fn restart(cx: &RenewContext<'_>, plane: &Plane<'_>, (pod, files): (&str, &[&str]), ended: bool) -> Step {
    let ready = ready_after(pod, ended);
    let short = pod.strip_prefix("kube-").unwrap_or(pod);
    Step::on(plane.name, &format!("certs.restart-{short}"), &format!("Restart {pod} if its certificates have changed"))
        .ensure(StaticPodStarted {
            pod: pod.to_owned(),
            after: files.iter().map(|file| (*file).to_owned()).collect(),
            reloaded: Vec::new(),
            runtime: cx.cluster.runtime.kind,
            ready,
        })
        .timeout_s(RESTART_S)
        .undo(Undo::RestoreBefore)
        .build()
}
