//! `restore`: gives the members of etcd the data of a backup, on the hosts that the cluster runs on.
//!
//! Needs no API server and no etcd that works. All members get the same snapshot at the same time, each with its own name: so no
//! member has to be added afterwards. What was there is moved aside, and comes back with a rollback. Members are kubeadm's static
//! pods on control planes, or kubexm's own units, on hosts that may be nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use kubexm_plan::backup::Archive;
use kubexm_plan::op::{Blobs, EtcdRestored, Probe, RestorePhase, RestoredHost};
use kubexm_plan::{ClusterId, Facts, Pipeline, Plan, PlanHost, SlotName, SlotProvider, Step, StepId, Undo};
use kubexm_spec::cluster::{Cluster, EtcdKind};
use kubexm_spec::{Digest, amount, amount_needed};

use crate::clocks;
use crate::error::RecipeError;
use crate::identity::Identity;
use crate::modules::{etcd, etcd_client};
use crate::preflight::disk_of;
use crate::unsupported::refuse_external_etcd;

/// Why a clock matters.
const CLOCKS: &str = "API servers and etcd would refuse each other's certificates";
/// What etcd allocates for its log beside the data.
const WAL: u64 = 256 << 20;

/// The whole input of the recipe.
#[derive(Clone, Debug)]
pub struct RestoreContext<'a> {
    pub cluster: &'a Cluster,
    /// Digest of the bytes of cluster.yaml.
    pub cluster_digest: Digest,
    /// By host: every host that was reached.
    pub facts: &'a BTreeMap<String, Facts>,
    /// The encrypted archive.
    pub archive: Archive,
    /// Size of the snapshot in it, in bytes.
    pub snapshot: u64,
    /// Another one for each restore; letters and digits.
    pub id: &'a str,
}

/// The id of the cluster that is on the hosts: a backup of another one is refused.
pub fn restored_cluster(cluster: &Cluster, facts: &BTreeMap<String, Facts>) -> Option<ClusterId> {
    Identity::of(cluster, facts).id
}

/// The plan that restores a backup.
pub fn restore(cx: &RestoreContext<'_>) -> Result<Plan, RecipeError> {
    let hint = "etcdutl on each member (snapshot restore --bump-revision --mark-compacted) restores a snapshot by hand";
    refuse_external_etcd(cx.cluster, "the restore", hint)?;
    let hosts = hosts(cx)?;
    let members: Vec<&RestoreHost<'_>> = hosts.iter().filter(|host| host.has_data()).collect();
    let planes: Vec<&RestoreHost<'_>> = hosts.iter().filter(|host| host.on.has_api_server()).collect();
    let own: Vec<&RestoreHost<'_>> = hosts.iter().filter(|host| host.on.has_own_member()).collect();
    let initial: Vec<String> = members.iter().map(|member| format!("{}={}", member.name, member.peer())).collect();
    let slot = SlotName("backup-key".to_owned());
    let done = |on, phase| EtcdRestored { id: cx.id.to_owned(), runtime: cx.cluster.runtime.kind, on, phase };
    let all: Vec<&RestoreHost<'_>> = hosts.iter().collect();
    let mut steps = Steps::default();
    steps.all(&members, |member| {
        Step::on(member.name, "restore.archive", "Copy the archive to the host")
            .ensure(Blobs { blobs: [(cx.archive.sha256, cx.archive.size)].into(), depots: None, shared_at: None })
            .timeout_s(7_200)
            .undo(Undo::RestoreBefore)
            .build()
    });
    steps.all(&all, |host| {
        Step::on(host.name, "restore.stop", &format!("Stop {}", host.runs()))
            .ensure(done(host.on, RestorePhase::Stopped))
            .timeout_s(300)
            .undo(Undo::RestoreBefore)
            .build()
    });
    steps.all(&members, |member| {
        let phase = RestorePhase::Data {
            archive: cx.archive.sha256,
            slots: vec![slot.clone()],
            name: member.name.to_owned(),
            peer: member.peer(),
            initial_cluster: initial.join(","),
        };
        Step::on(member.name, "restore.data", "Give etcd the data of the backup; what was there is moved aside")
            .ensure(done(member.on, phase))
            .timeout_s(7_200)
            .undo(Undo::RestoreBefore)
            .build()
    });
    steps.all(&all, |host| {
        Step::on(host.name, "restore.start", &format!("Start {}", host.starts()))
            .ensure(done(host.on, RestorePhase::Started))
            .timeout_s(300)
            .undo(Undo::RestoreBefore)
            .build()
    });
    let clients = || own.iter().map(|member| (member.name.to_owned(), url(member.ip, CLIENTS))).collect();
    steps.all(&own, |member| {
        Step::on(member.name, "restore.healthy", "Wait until every member of etcd is healthy")
            .probe(etcd::asked_from_a_member(clients()), 180)
            .timeout_s(200)
            .undo(Undo::Nothing)
            .build()
    });
    steps.all(&planes, |plane| {
        let external_etcd = !plane.on.is_stacked();
        let probe = Probe::StaticPodsReady { node: plane.name.to_owned(), images: BTreeMap::new(), external_etcd };
        Step::on(plane.name, "restore.ready", "Wait until the control plane is ready")
            .probe(probe, 600)
            .timeout_s(620)
            .undo(Undo::Nothing)
            .build()
    });
    Ok(Plan {
        schema: kubexm_plan::SCHEMA,
        pipeline: Pipeline::Restore,
        cluster_name: cx.cluster.name.clone(),
        cluster_id: restored_cluster(cx.cluster, cx.facts),
        cluster: cx.cluster_digest,
        bundle: None,
        hosts: hosts.iter().map(RestoreHost::planned).collect(),
        fleet_concurrency: 16,
        host_concurrency: 4,
        slots: [(slot, SlotProvider::BackupKey)].into(),
        texts: BTreeMap::new(),
        steps: steps.steps,
    })
}

/// Steps of one phase on all members, after all steps of the phase before.
#[derive(Default)]
struct Steps {
    steps: Vec<Step>,
    last: Vec<StepId>,
}

impl Steps {
    fn all(&mut self, hosts: &[&RestoreHost<'_>], step: impl Fn(&RestoreHost<'_>) -> Step) {
        if hosts.is_empty() {
            return;
        }
        let steps: Vec<Step> = hosts.iter().map(|host| Step { after: self.last.clone(), ..step(host) }).collect();
        self.last = steps.iter().map(|step| step.id.clone()).collect();
        self.steps.extend(steps);
    }
}

/// Ports of etcd.
const CLIENTS: u16 = 2379;
const PEERS: u16 = 2380;

/// A host on which something stops and starts.
struct RestoreHost<'a> {
    name: &'a str,
    ip: IpAddr,
    on: RestoredHost,
}

impl RestoreHost<'_> {
    /// Whether a member of etcd is there.
    const fn has_data(&self) -> bool {
        self.on.is_stacked() || self.on.has_own_member()
    }

    fn peer(&self) -> String {
        url(self.ip, PEERS)
    }

    const fn runs(&self) -> &'static str {
        match self.on {
            RestoredHost::Stacked | RestoredHost::ApiServerAndMember => "the API server and etcd",
            RestoredHost::ApiServer => "the API server",
            RestoredHost::Member => "etcd",
        }
    }

    const fn starts(&self) -> &'static str {
        match self.on {
            RestoredHost::Stacked | RestoredHost::ApiServerAndMember => "etcd and the API server",
            RestoredHost::ApiServer => "the API server",
            RestoredHost::Member => "etcd",
        }
    }

    fn planned(&self) -> PlanHost {
        let roles = [("control-plane", self.on.has_api_server()), ("etcd", self.on.has_own_member())];
        let roles = roles.iter().filter(|(_, has)| *has).map(|(role, _)| (*role).to_owned()).collect();
        PlanHost { name: self.name.to_owned(), roles, optional: false }
    }
}

/// What is too full, found before the first member stops: a disk that fills up afterwards leaves a cluster without an API server. Each
/// path with what is written below it: archive, snapshot, and etcd's data, which is as large as the snapshot.
fn room(cx: &RestoreContext<'_>, name: &str, facts: &Facts) -> Vec<String> {
    let data = cx.cluster.etcd.data_dir.as_str();
    let needs =
        [("/var/lib/kubexm", cx.archive.size.saturating_add(cx.snapshot)), (data, cx.snapshot.saturating_add(WAL))];
    let mut wanted: BTreeMap<&str, (u64, u64, Vec<&str>)> = BTreeMap::new();
    for (path, bytes) in needs {
        if let Some(disk) = disk_of(&facts.disks, path) {
            let (needed, _, paths) = wanted.entry(&disk.mount).or_insert((0, disk.free, Vec::new()));
            *needed = needed.saturating_add(bytes);
            paths.push(path);
        }
    }
    let full = wanted.into_iter().filter(|(_, (needed, free, _))| needed > free);
    full.map(|(mount, (needed, free, paths))| {
        format!(
            "{name}: {mount} has {} free, and the restore writes {} to {}: make room, for example by removing \
             {data}/.kubexm-before-* of earlier restores",
            amount(free),
            amount_needed(needed),
            paths.join(" and ")
        )
    })
    .collect()
}

/// Every control plane and every member, since all members get the data: one that is left out would have another.
fn hosts<'a>(cx: &'a RestoreContext<'a>) -> Result<Vec<RestoreHost<'a>>, RecipeError> {
    let groups = &cx.cluster.role_groups;
    if groups.control_plane.is_empty() {
        return Err(RecipeError::NoHosts { what: "control plane" });
    }
    let own = cx.cluster.etcd.kind == EtcdKind::Kubexm;
    let is_plane = |name: &String| groups.control_plane.contains(name);
    let members = groups.etcd.iter().filter(|name| own && !is_plane(name));
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    problems.extend(other_members(cx));
    for name in groups.control_plane.iter().chain(members) {
        let on = match (own, is_plane(name), groups.etcd.contains(name)) {
            (false, ..) => RestoredHost::Stacked,
            (true, true, true) => RestoredHost::ApiServerAndMember,
            (true, true, false) => RestoredHost::ApiServer,
            (true, false, _) => RestoredHost::Member,
        };
        let ip = cx.cluster.host(name).and_then(|host| host.node_ip());
        let facts = cx.facts.get(name);
        let not_ours = facts.and_then(|facts| not_ours(cx, name, on, facts));
        let clock = facts.and_then(|facts| Some(format!("{name}: {}", clocks::of_host(facts, CLOCKS)?)));
        match (facts, not_ours.or(clock), ip) {
            (None, ..) => {
                problems.push(format!("{name} was not reached: every member of etcd gets the data of the backup"))
            }
            (_, Some(problem), _) => problems.push(problem),
            (_, _, None) => problems.push(format!("{name} has no address of its own in cluster.yaml")),
            (Some(facts), None, Some(ip)) => {
                let host = RestoreHost { name, ip, on };
                if host.has_data() {
                    problems.extend(room(cx, name, facts));
                }
                found.push(host);
            }
        }
    }
    if problems.is_empty() { Ok(found) } else { Err(RecipeError::CannotRestore { problems }) }
}

/// Why a host is none that the cluster runs on.
fn not_ours(cx: &RestoreContext<'_>, name: &str, on: RestoredHost, facts: &Facts) -> Option<String> {
    let member = Identity::of(cx.cluster, cx.facts).is_member(cx.cluster, name, facts);
    if on.has_own_member() && !(member && facts.etcd_formed.is_some()) {
        return Some(format!(
            "{name} has no member of this cluster's etcd any more (/etc/kubexm/etcd/formed is not there), and a restore makes it none: \
             bring back its disk, or give the snapshot of the backup to every member by hand \
             (docs/operations/etcd.md, \"Give every member a snapshot by hand\")"
        ));
    }
    if on.has_api_server() && !(member && facts.joined) {
        return Some(format!(
            "{name} is no control plane of this cluster; a restore is for the hosts that the cluster runs on: create it there first, or \
             remove the host from cluster.yaml"
        ));
    }
    let stacked = on.is_stacked() && facts.etcd_formed.is_some();
    stacked.then(|| {
        format!(
            "{name} has a member of an etcd of kubexm's own, and cluster.yaml does not say spec.etcd.type kubexm: use the cluster.yaml that \
             the cluster was made with"
        )
    })
}

/// Where cluster.yaml and the cluster do not have the same members of etcd. One that got no data would come back with the old
/// database, under an address that the API servers have.
fn other_members(cx: &RestoreContext<'_>) -> Option<String> {
    let planes = &cx.cluster.role_groups.control_plane;
    let known = planes.iter().find_map(|name| cx.facts.get(name)?.kubeadm_config_text.as_deref());
    let has = match known {
        Some(text) => etcd_client::endpoints_in(text),
        None if cx.cluster.etcd.kind == EtcdKind::Kubeadm => return None,
        None => {
            let text = "it is not known which members of etcd the cluster was made with, and one that is left out would come back with the old \
                        data: /etc/kubexm/kubeadm.yaml is missing on its control planes, or was edited; restore it as kubexm wrote it";
            return Some(text.to_owned());
        }
    };
    let wanted: BTreeSet<String> = match cx.cluster.etcd.kind {
        EtcdKind::Kubexm => {
            let hosts = cx.cluster.role_groups.etcd.iter().filter_map(|name| cx.cluster.host(name)?.node_ip());
            hosts.map(|ip| url(ip, CLIENTS)).collect()
        }
        EtcdKind::Kubeadm | EtcdKind::External => BTreeSet::new(),
    };
    let list = |urls: &BTreeSet<String>| match urls.is_empty() {
        true => "kubeadm's own members".to_owned(),
        false => urls.iter().map(String::as_str).collect::<Vec<_>>().join(", "),
    };
    (has != wanted).then(|| {
        format!(
            "the cluster was made with {} as its etcd (/etc/kubexm/kubeadm.yaml on its control planes), and cluster.yaml has {}: a member \
             that is left out would come back with the old data; write spec.etcd.type and roleGroups.etcd as the cluster has them",
            list(&has),
            list(&wanted)
        )
    })
}

fn url(ip: IpAddr, port: u16) -> String {
    format!("https://{}", SocketAddr::from((ip, port)))
}
