//! Authorities of kubeadm's, renewed under their own keys (`--authorities`): every host gets the later certificate, every kubeconfig trusts it,
//! and what has read it at its start is started again. What they have signed stays valid all the while, so hosts follow one after the other.
//!
//! All steps are planned whether an authority is due or not: what an interrupted renewal has left is brought to the end by the next one.

use std::collections::BTreeSet;

use kubexm_plan::cluster_facts::Certificate;
use kubexm_plan::kubeadm_certificates::{ADMIN_CONF, AUTHORITIES, CLUSTER_CA, SUPER_ADMIN_CONF};
use kubexm_plan::op::{AuthorityPublished, AuthorityRenewed, KubeconfigAuthority, RenewedFrom};
use kubexm_plan::request::KUBELET_CONF;
use kubexm_plan::{SlotName, SlotProvider, Step, Undo};
use kubexm_spec::Digest;
use kubexm_spec::cluster::EtcdKind;

use super::context::RenewContext;
use super::site;
use crate::modules::issued::Slots;

/// kubeadm's kubeconfigs of a control plane.
const KUBECONFIGS: [&str; 4] =
    [ADMIN_CONF, SUPER_ADMIN_CONF, "/etc/kubernetes/controller-manager.conf", "/etc/kubernetes/scheduler.conf"];
const DAY_S: i64 = 24 * 3600;
const YOURS: &str =
    "it is your site's, which has to renew it: no command of kubexm-install changes the CA of a running cluster";

/// The authorities that every host is to have alike; none without `--authorities`.
#[derive(Clone, Debug, Default)]
pub(super) struct Authorities<'a> {
    all: Vec<Shared<'a>>,
    /// One sentence each.
    pub warnings: Vec<String>,
    /// One of them has ended, and what hangs on it is down.
    pub ended: bool,
}

/// One of them.
#[derive(Clone, Debug)]
struct Shared<'a> {
    path: &'static str,
    /// The control plane whose certificate ends last.
    host: &'a str,
    /// Digest of the certificate there, if it is renewed.
    was: Option<Digest>,
    /// When another one would end.
    ends: i64,
}

/// Whether an authority of kubeadm's is one that kubeadm has made: not one of the site's, and not of an etcd of others.
pub(super) fn is_kubeadms(cx: &RenewContext<'_>, path: &str) -> bool {
    let of_site = cx.cluster.kubernetes.as_ref().is_some_and(|one| one.ca.is_some());
    match path {
        CLUSTER_CA => !of_site,
        _ if path == AUTHORITIES[1] => cx.cluster.etcd.kind == EtcdKind::Kubeadm,
        _ => AUTHORITIES.contains(&path),
    }
}

/// What of them is to be done, or why nothing can be.
///
/// # Errors
/// Each reason by name.
pub(super) fn due<'a>(cx: &RenewContext<'a>, adopted: bool) -> Result<Authorities<'a>, Vec<String>> {
    if !cx.wanted.authorities {
        return Ok(Authorities::default());
    }
    if adopted {
        return Err(vec![
            "the cluster was adopted, and --authorities renews those of clusters that kubexm-install has made; without it the \
             certificates are renewed"
                .to_owned(),
        ]);
    }
    let (mut found, mut problems) = (Authorities::default(), Vec::new());
    for path in AUTHORITIES {
        if !is_kubeadms(cx, path) {
            if path == CLUSTER_CA {
                found.warnings.push(format!("{path} is not renewed: {YOURS}"));
            }
            continue;
        }
        match shared(cx, path) {
            Ok(one) => {
                found.ended |= explains_what_is_down(cx, path);
                found.all.push(one);
            }
            Err(problem) => problems.push(problem),
        }
    }
    let nodes =
        cx.cluster.hosts.iter().filter(|host| found.has(CLUSTER_CA) && cx.cluster.roles(&host.name).in_cluster());
    for host in nodes.filter(|host| !cx.facts.contains_key(&host.name)) {
        problems.push(format!(
            "{} was not reached: with --authorities every node is needed (`kubexm-install delete-node --unreachable skip` for one that is gone \
             for good)",
            host.name
        ));
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    found.warnings.extend(found.of_pods(cx));
    Ok(found)
}

/// Whether one has ended, and what hangs on it is down: nobody can be healthy before all are renewed.
fn explains_what_is_down(cx: &RenewContext<'_>, path: &str) -> bool {
    let is_down = !cx.running.api_answers() || cx.running.etcd.iter().any(|member| !member.healthy);
    // Without the front proxy's only aggregated APIs are away.
    path != AUTHORITIES[2] && is_down && of_planes(cx, path).any(|certificate| certificate.ends <= cx.now)
}

fn of_planes<'c>(cx: &RenewContext<'c>, path: &str) -> impl Iterator<Item = &'c Certificate> {
    let planes = &cx.cluster.role_groups.control_plane;
    cx.running.certificates.iter().filter(move |one| one.path == path && planes.contains(&one.host))
}

fn shared<'a>(cx: &RenewContext<'a>, path: &'static str) -> Result<Shared<'a>, String> {
    let planes = &cx.cluster.role_groups.control_plane;
    let found = |name: &'a String| Some((name.as_str(), of_planes(cx, path).find(|one| one.host == *name)?));
    // The first of those that end last: on the others a renewal was interrupted.
    let last = planes.iter().filter_map(found).reduce(|one, next| if next.1.ends > one.1.ends { next } else { one });
    let (host, last) = last.ok_or_else(|| {
        format!(
            "{path} was not found on any control plane: bring it back from a backup (`kubexm-install backup extract`)"
        )
    })?;
    let ends = cx.now.saturating_add(i64::from(cx.cluster.own_authority_validity().hours()) * 3600);
    let is_due = cx.is_due(last) && ends > last.ends;
    let was = match (is_due, last.file) {
        (true, None) => {
            return Err(format!("{host}: {path} cannot be read: look at the file there, then run this again"));
        }
        (true, was) => was,
        (false, _) => None,
    };
    Ok(Shared { path, host, was, ends })
}

impl<'a> Authorities<'a> {
    /// Whether an authority is renewed, or a control plane has another one than the others.
    pub fn changes(&self, cx: &RenewContext<'_>) -> bool {
        self.all.iter().any(|one| {
            let files: BTreeSet<_> = of_planes(cx, one.path).map(|certificate| certificate.file).collect();
            one.was.is_some() || files.len() > 1
        })
    }

    /// Whether it is one of these, which are renewed or were not due.
    pub fn has(&self, path: &str) -> bool {
        self.all.iter().any(|one| one.path == path)
    }

    /// What runs in pods keeps what it has read.
    fn of_pods(&self, cx: &RenewContext<'_>) -> Option<String> {
        let cluster = self.all.iter().find(|one| one.path == CLUSTER_CA)?;
        // A run that is lost has renewed it on some hosts.
        let everywhere = || cx.running.certificates.iter().filter(|one| one.path == CLUSTER_CA);
        let files: BTreeSet<_> = everywhere().map(|one| one.file).collect();
        if cluster.was.is_none() && files.len() < 2 {
            return None;
        }
        let ends = everywhere().map(|one| one.ends).min().unwrap_or(cx.now);
        let when = match ends.saturating_sub(cx.now) / DAY_S {
            days @ 1.. => format!("within {days} days, when it ends"),
            0 if ends > cx.now => "today, when it ends".to_owned(),
            _ => "now: it has ended".to_owned(),
        };
        Some(format!(
            "pods that run keep the certificate of the cluster's CA that they have read: restart what asks the API server {when} (`kubectl \
             rollout restart`, beginning with kube-system: kube-proxy, CoreDNS, the pod network); copies of kubeconfigs that you gave to others \
             are to be given anew until then"
        ))
    }

    /// On the control planes whose certificates end last, and then on the others.
    pub fn on_planes(&self, cx: &RenewContext<'_>, slots: &mut Slots) -> Vec<Step> {
        let planes = &cx.cluster.role_groups.control_plane;
        let mut steps = Vec::new();
        for plane in planes {
            let ops = self.all.iter().filter(|one| one.host == plane).filter_map(|one| {
                let from = RenewedFrom::Key { was: one.was?, ends: one.ends };
                Some(AuthorityRenewed { path: one.path.to_owned(), from })
            });
            let ops: Vec<AuthorityRenewed> = ops.collect();
            if !ops.is_empty() {
                let title = "Renew certificate authorities with their own keys";
                steps.push(
                    Step::on(plane, "certs.authorities", title).ensure_all(ops).undo(Undo::RestoreBefore).build(),
                );
            }
        }
        for plane in planes {
            let others = self.all.iter().filter(|one| one.host != plane);
            let ops: Vec<AuthorityRenewed> = others.map(|one| one.taken(slots)).collect();
            if !ops.is_empty() {
                let title = "Take the certificates of the authorities from the control plane that has renewed them";
                let step = Step::on(plane, "certs.authorities-taken", title).ensure_all(ops);
                steps.push(step.undo(Undo::RestoreBefore).build());
            }
        }
        steps
    }

    /// What trusts the cluster's CA on a control plane, beside what is started again.
    pub fn kubeconfigs(&self, cx: &RenewContext<'_>, plane: &str) -> Vec<Step> {
        if !self.has(CLUSTER_CA) {
            return Vec::new();
        }
        let there = |path: &&str| cx.running.certificates.iter().any(|one| one.host == plane && one.path == *path);
        let ops: Vec<KubeconfigAuthority> = KUBECONFIGS.into_iter().filter(there).map(trusts).collect();
        let title = "Let kubeconfigs of the control plane trust the renewed CA";
        let step = Step::on(plane, "certs.kubeconfigs", title).ensure_all(ops).undo(Undo::RestoreBefore).build();
        vec![step, self.kubelet(plane, None)]
    }

    /// The same of a worker.
    pub fn on_worker(&self, host: &str, slots: &mut Slots) -> Option<Step> {
        let ca = self.all.iter().find(|one| one.path == CLUSTER_CA)?;
        Some(self.kubelet(host, Some(ca.taken(slots))))
    }

    fn kubelet(&self, host: &str, ca: Option<AuthorityRenewed>) -> Step {
        Step::on(host, "certs.kubelet-authority", "Let kubelet trust the renewed CA, and restart it")
            .ensure_all(ca)
            .ensure(trusts(KUBELET_CONF))
            .ensure(site::kubelet())
            .timeout_s(300)
            .undo(Undo::RestoreBefore)
            .build()
    }

    /// What the cluster itself gives to its pods and to nodes that join.
    pub fn published(&self, host: &str) -> Option<Step> {
        let title = "Publish the renewed CA to pods and to nodes that join";
        let step = Step::on(host, "certs.published", title).ensure(AuthorityPublished {}).timeout_s(200);
        self.has(CLUSTER_CA).then(|| step.undo(Undo::RestoreBefore).build())
    }
}

fn trusts(path: &str) -> KubeconfigAuthority {
    KubeconfigAuthority { path: path.to_owned() }
}

impl Shared<'_> {
    fn taken(&self, slots: &mut Slots) -> AuthorityRenewed {
        let name = self.path.trim_start_matches("/etc/kubernetes/pki/").replace('/', "-");
        let slot = SlotName(format!("authority-{}", name.trim_end_matches(".crt")));
        let provider = SlotProvider::SharedFile { host: self.host.to_owned(), path: self.path.to_owned() };
        slots.insert(slot.clone(), provider);
        AuthorityRenewed { path: self.path.to_owned(), from: RenewedFrom::Given { slots: vec![slot] } }
    }
}
