//! Plans of a pipeline from what the hosts of a sample say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubexm_engine::backup::BackupKey;
use kubexm_engine::events::Silent;
use kubexm_engine::{ClusterPki, Outcome};
use kubexm_plan::backup::{Archive, BackupAnswer, BackupAsk};
use kubexm_plan::kubeadm_certificates::AUTHORITIES;
use kubexm_plan::{CheckedPlan, ClusterFacts, Facts, Plan, etcd, ledger, lint};
use kubexm_recipes::{
    AdoptContext, AdoptionInput, DeleteContext, Drain, OwnAuthorities, PruneContext, Renew, RenewContext, ResetContext,
    ResetHost, RestoreContext, sample_adoption,
};
use kubexm_spec::cluster::{Cluster, EtcdKind, Roles};

use super::Fleet;
use super::run::{BACKUP_KEY, Carried, How, Setting, said};
use crate::samples::Sample;
use crate::synthetic::SyntheticBundle;

struct Reported {
    name: String,
    roles: Roles,
    facts: Facts,
    ledger: Vec<ledger::Record>,
}

impl Reported {
    fn host(&self) -> ResetHost<'_> {
        let Self { name, roles, facts, ledger } = self;
        ResetHost { name, roles: *roles, facts, ledger }
    }
}

pub(super) async fn reset_plan<F: Fleet>(sample: &Sample, fleet: &F) -> Result<CheckedPlan, String> {
    let cluster = sample.cluster();
    let hosts = sample.hosts().into_iter().map(|name| (name.clone(), cluster.roles(&name)));
    plan_reset(hosts.collect(), fleet).await
}

/// As another controller plans it, from cluster.yaml and what the hosts say.
pub(super) async fn reset_again<F: Fleet>(plan: &Plan, fleet: &F) -> Result<CheckedPlan, String> {
    let hosts = plan.hosts.iter().map(|host| {
        let has = |role: &str| host.roles.iter().any(|has| has == role);
        let roles = Roles {
            control_plane: has("control-plane"),
            worker: has("worker"),
            etcd: has("etcd"),
            load_balancer: has("loadbalancer"),
            registry: has("registry"),
        };
        (host.name.clone(), roles)
    });
    plan_reset(hosts.collect(), fleet).await
}

/// As [`reset_plan`], for the hosts that the sample deletes.
pub(super) async fn delete_plan<F: Fleet>(sample: &Sample, fleet: &F) -> Result<CheckedPlan, String> {
    let cluster = sample.cluster();
    let hosts = sample.hosts().into_iter().map(|name| (name.clone(), cluster.roles(&name)));
    let reported = report(hosts.collect(), fleet).await?;
    let running = running(sample, fleet).await?;
    let deleted: Vec<String> = sample.deleted.iter().map(|host| (*host).to_owned()).collect();
    let cx = DeleteContext {
        cluster: &cluster,
        cluster_digest: kubexm_spec::Digest::of("yaml"),
        running: &running,
        deleted: &deleted,
        hosts: reported.iter().map(Reported::host).collect(),
        missing: &[],
        drain: Drain::default(),
    };
    let plan = kubexm_recipes::delete_node(&cx).map_err(said)?.plan;
    lint::check(plan).map(|(plan, _)| plan).map_err(|problems| format!("{problems:?}"))
}

/// What the control planes say of the cluster.
pub(super) async fn running<F: Fleet>(sample: &Sample, fleet: &F) -> Result<ClusterFacts, String> {
    let (cluster, links) = (sample.cluster(), fleet.links());
    let mut looks = Vec::new();
    for link in cluster.role_groups.control_plane.iter().filter_map(|name| links.get(name)) {
        looks.push(link.cluster_facts().await.map_err(said)?);
    }
    Ok(ClusterFacts::merged(looks))
}

/// The same of a cluster that was adopted, with what a fake does not say of its hosts.
pub(super) async fn running_adopted<F: Fleet>(sample: &Sample, fleet: &F) -> Result<ClusterFacts, String> {
    let cluster = sample.cluster();
    let (mut found, whole) = (running(sample, fleet).await?, sample_adoption::running(&cluster));
    // A fake's runtime is of no version.
    for node in &mut found.nodes {
        (node.runtime, node.runtime_version) = (cluster.runtime.kind.to_string(), "2.2.7".to_owned());
    }
    let planes = &cluster.role_groups.control_plane;
    let certificates = planes.iter().flat_map(|plane| fleet.certificates(plane)).collect();
    let mut kubeadm = whole.kubeadm;
    // The fake's control planes have the files where kubexm has put them.
    if let Some(access) = kubeadm.as_mut().and_then(|kubeadm| kubeadm.external_etcd.as_mut()) {
        let [ca, certificate, key] = [etcd::CLIENT_CA, etcd::CLIENT_CERT, etcd::CLIENT_KEY].map(str::to_owned);
        (access.ca, access.certificate, access.key) = (ca, certificate, key);
    }
    Ok(ClusterFacts { kubeadm, kubelets: whole.kubelets, certificates, ..found })
}

/// When, in seconds of Unix time, and what is renewed: as with `--force`.
pub(super) const FORCED: (i64, Renew) = (0, Renew { within_s: 0, force: true, authorities: false });

/// Of certificates; their files are as the hosts have them.
pub(super) async fn renew_plan<F: Fleet>(
    sample: &Sample,
    fleet: &F,
    setting: &Setting,
    (now, wanted): (i64, Renew),
) -> Result<CheckedPlan, String> {
    let cluster = sample.cluster();
    let links = fleet.links();
    let (mut facts, mut looks) = (BTreeMap::new(), Vec::new());
    for name in sample.hosts() {
        let link = links.get(&name).ok_or_else(|| format!("no link to {name}"))?;
        let here = Facts { joined: cluster.roles(&name).in_cluster(), ..link.facts().await.map_err(said)? };
        facts.insert(name.clone(), here);
        let mut seen = link.cluster_facts().await.map_err(said)?;
        // The fake's certificates cannot be parsed.
        let of_fake = fleet.certificates(&name);
        if !of_fake.is_empty() {
            seen.certificates.retain(|one| AUTHORITIES.contains(&one.path.as_str()));
            seen.certificates.extend(of_fake);
            seen.gaps.clear();
        }
        looks.push(seen);
    }
    let pki = ClusterPki::open(&setting.pki.path().join("pki")).map_err(said)?;
    let sealing = kubexm_recipes::sample::sealing();
    let own = OwnAuthorities { certificates: pki.authorities().map_err(said)?, sealing };
    let cx = RenewContext {
        cluster: &cluster,
        cluster_digest: kubexm_spec::Digest::of("yaml"),
        cluster_id: Some(kubexm_recipes::sample::CLUSTER_ID),
        running: &ClusterFacts::merged(looks),
        facts: &facts,
        now,
        wanted,
        begun: false,
        sealed: &BTreeSet::new(),
        own: Some(&own),
        signed: Some(&kubexm_recipes::sample::signed_anew(&cluster)),
    };
    let plan = kubexm_recipes::certs_renew(&cx).map_err(said)?.plan;
    lint::check(plan).map(|(plan, _)| plan).map_err(|problems| format!("{problems:?}"))
}

/// Of a cluster that agrees with its cluster.yaml; what a simulation says of it is not all that decides.
pub(super) async fn adopt_plan<F: Fleet>(sample: &Sample, fleet: &F) -> Result<CheckedPlan, String> {
    let (cluster, links) = (sample.cluster(), fleet.links());
    let mut facts = BTreeMap::new();
    for name in sample.hosts() {
        let link = links.get(&name).ok_or_else(|| format!("no link to {name}"))?;
        facts.insert(name.clone(), link.facts().await.map_err(said)?);
    }
    let running = sample_adoption::running(&cluster);
    let unreached = BTreeMap::new();
    let input =
        AdoptionInput { cluster: &cluster, facts: &facts, unreached: &unreached, running: &running, bundle: None };
    let cluster_digest = kubexm_spec::Digest::of("yaml");
    let cx = AdoptContext { input, cluster_digest, cluster_id: kubexm_recipes::sample::CLUSTER_ID };
    let plan = kubexm_recipes::adopt(&cx).map_err(said)?;
    lint::check(plan).map(|(plan, _)| plan).map_err(|problems| format!("{problems:?}"))
}

/// Gives the cluster another bundle, so that its registry has two.
pub(super) async fn upgraded<F: Fleet>(sample: &Sample, fleet: &F, made: &Setting) -> Result<F, String> {
    let (bundle, plan) = sample.plan_upgrade(&running(sample, fleet).await?);
    fleet.serve(&plan);
    let setting = Setting { name: "upgrade".to_owned(), plan, bundle: Arc::new(bundle), ..made.clone() };
    let run = Carried::new(&setting)?;
    let outcome = run.begin(fleet, &Silent, How::KEEP).await?.map_err(said)?;
    if outcome != Outcome::Succeeded {
        return Err(format!("the cluster before it cannot be upgraded: {outcome:?}\n{}", run.report()));
    }
    fleet.live();
    Ok(fleet.fork())
}

/// Of everything but the bundle of the upgrade.
pub(super) async fn prune_plan<F: Fleet>(sample: &Sample, fleet: &F) -> Result<CheckedPlan, String> {
    // Before this one's links: links of two owners wait for each other's lock of a host.
    let running = running(sample, fleet).await?;
    let (cluster, links) = (sample.cluster(), fleet.links());
    let (mut facts, mut ledgers, mut depots) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for name in sample.hosts() {
        let link = links.get(&name).ok_or_else(|| format!("no link to {name}"))?;
        let roles = cluster.roles(&name);
        facts.insert(name.clone(), Facts { joined: roles.in_cluster(), ..link.facts().await.map_err(said)? });
        ledgers.insert(name.clone(), link.ledger().await.map_err(said)?);
        if roles.registry {
            depots.insert(name.clone(), link.depot().await.map_err(said)?);
        }
    }
    let cx = PruneContext {
        cluster: &cluster,
        cluster_digest: kubexm_spec::Digest::of("yaml"),
        running: &running,
        facts: &facts,
        ledgers: &ledgers,
        depots: &depots,
        keep: &[],
    };
    let plan = kubexm_recipes::registry_prune(&cx).map_err(said)?.plan;
    lint::check(plan).map(|(plan, _)| plan).map_err(|problems| format!("{problems:?}"))
}

/// The archive of a backup that the first control plane makes, where there is data; its key is beside the controller's certificates.
pub(super) async fn backup_of<F: Fleet>(sample: &Sample, fleet: &F, setting: &Setting) -> Result<Vec<u8>, String> {
    let (cluster, links, key) = (sample.cluster(), fleet.links(), BackupKey::generate());
    std::fs::write(setting.pki.path().join(BACKUP_KEY), &*key.secret()).map_err(said)?;
    if !F::HAS_DATA {
        return Ok(b"an archive".to_vec());
    }
    let first = cluster.first_control_plane().and_then(|host| links.get(&host.name)).ok_or("no control plane")?;
    let (name, recipient) = ("law".to_owned(), key.recipient());
    first.backup(&BackupAsk::Make { name: name.clone(), recipient }).await.map_err(said)?;
    let answer = first.backup(&BackupAsk::Read { name: name.clone(), offset: 0 }).await.map_err(said)?;
    let BackupAnswer::Bytes { bytes } = answer else { return Err(format!("{answer:?}")) };
    first.backup(&BackupAsk::Forget { name }).await.map_err(said)?;
    Ok(bytes)
}

/// Of such a backup.
pub(super) async fn restore_plan<F: Fleet>(
    sample: &Sample,
    fleet: &F,
    setting: &Setting,
) -> Result<(CheckedPlan, SyntheticBundle), String> {
    // Before this one's links, as above.
    let archive = backup_of(sample, fleet, setting).await?;
    let (cluster, links) = (sample.cluster(), fleet.links());
    let mut facts = BTreeMap::new();
    for name in sample.hosts() {
        let link = links.get(&name).ok_or_else(|| format!("no link to {name}"))?;
        let roles = cluster.roles(&name);
        let is_member = cluster.etcd.kind == EtcdKind::Kubexm && roles.etcd;
        let etcd_formed = is_member.then(|| "demo\n3.6.5\n".to_owned());
        let here = Facts { joined: roles.in_cluster(), etcd_formed, ..link.facts().await.map_err(said)? };
        // The simulated fleet reports no files.
        let kubeadm_config_text = here.kubeadm_config_text.clone().or_else(|| configured(&cluster));
        let here = Facts { kubeadm_config_text, ..here };
        facts.insert(name, here);
    }
    let mut bundle = (*setting.bundle).clone();
    let described = Archive { sha256: kubexm_spec::Digest::of(&archive), size: archive.len() as u64 };
    bundle.blobs.insert(described.sha256, archive);
    let cluster_digest = kubexm_spec::Digest::of("yaml");
    let cx =
        RestoreContext { cluster: &cluster, cluster_digest, facts: &facts, archive: described, snapshot: 1, id: "1" };
    let plan = kubexm_recipes::restore(&cx).map_err(said)?;
    Ok((lint::check(plan).map_err(|problems| format!("{problems:?}"))?.0, bundle))
}

/// What kubeadm was told of an etcd of kubexm's own.
fn configured(cluster: &Cluster) -> Option<String> {
    let members = cluster.role_groups.etcd.iter().filter_map(|name| cluster.host(name));
    let urls: String = members.map(|host| format!("    - https://{}:2379\n", host.address)).collect();
    let text = format!("kind: ClusterConfiguration\netcd:\n  external:\n    endpoints:\n{urls}");
    (cluster.etcd.kind == EtcdKind::Kubexm).then_some(text)
}

async fn report<F: Fleet>(hosts: Vec<(String, Roles)>, fleet: &F) -> Result<Vec<Reported>, String> {
    let links = fleet.links();
    let mut reported = Vec::new();
    for (name, roles) in hosts {
        let link = links.get(&name).ok_or_else(|| format!("no link to {name}"))?;
        let (facts, ledger) = (link.facts().await.map_err(said)?, link.ledger().await.map_err(said)?);
        reported.push(Reported { name, roles, facts, ledger });
    }
    Ok(reported)
}

async fn plan_reset<F: Fleet>(hosts: Vec<(String, Roles)>, fleet: &F) -> Result<CheckedPlan, String> {
    let reported = report(hosts, fleet).await?;
    let hosts = reported.iter().map(Reported::host);
    let cx = ResetContext {
        cluster: "demo",
        cluster_id: None,
        cluster_digest: kubexm_spec::Digest::of("yaml"),
        hosts: hosts.collect(),
        registry_data: None,
        etcd_data: None,
    };
    let plan = kubexm_recipes::reset(&cx).map_err(said)?;
    lint::check(plan).map(|(plan, _)| plan).map_err(|problems| format!("{problems:?}"))
}
