//! `restore`: gives the members of etcd the data of a backup, on the hosts that the cluster runs on.
//!
//! Needs no API server and no etcd that works. All members get the same snapshot at the same time, each with its own name: so no
//! member has to be added afterwards. What was there is moved aside, and comes back with a rollback.

use std::collections::BTreeMap;

use kubexm_plan::backup::Archive;
use kubexm_plan::op::{Blobs, EtcdRestored, Probe, RestorePhase};
use kubexm_plan::{ClusterId, Facts, Pipeline, Plan, PlanHost, SlotName, SlotProvider, Step, StepId, Undo};
use kubexm_spec::Digest;
use kubexm_spec::cluster::Cluster;

use crate::error::RecipeError;
use crate::identity::Identity;
use crate::preflight::disk_of;
use crate::unsupported::refuse_other_etcd;

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
    refuse_other_etcd(cx.cluster, "the restore", hint)?;
    let members = members(cx)?;
    let initial: Vec<String> = members.iter().map(|member| format!("{}={}", member.name, member.peer)).collect();
    let slot = SlotName("backup-key".to_owned());
    let done = |phase| EtcdRestored { id: cx.id.to_owned(), runtime: cx.cluster.runtime.kind, phase };
    let mut steps = Steps::default();
    steps.all(&members, |member| {
        Step::on(member.name, "restore.archive", "Copy the archive to the host")
            .ensure(Blobs { blobs: [(cx.archive.sha256, cx.archive.size)].into(), depots: None, shared_at: None })
            .timeout_s(7_200)
            .undo(Undo::RestoreBefore)
            .build()
    });
    steps.all(&members, |member| {
        Step::on(member.name, "restore.stop", "Stop the API server and etcd")
            .ensure(done(RestorePhase::Stopped))
            .timeout_s(300)
            .undo(Undo::RestoreBefore)
            .build()
    });
    steps.all(&members, |member| {
        let phase = RestorePhase::Data {
            archive: cx.archive.sha256,
            slots: vec![slot.clone()],
            name: member.name.to_owned(),
            peer: member.peer.clone(),
            initial_cluster: initial.join(","),
        };
        Step::on(member.name, "restore.data", "Give etcd the data of the backup; what was there is moved aside")
            .ensure(done(phase))
            .timeout_s(7_200)
            .undo(Undo::RestoreBefore)
            .build()
    });
    steps.all(&members, |member| {
        Step::on(member.name, "restore.start", "Start etcd and the API server")
            .ensure(done(RestorePhase::Started))
            .timeout_s(300)
            .undo(Undo::RestoreBefore)
            .build()
    });
    steps.all(&members, |member| {
        Step::on(member.name, "restore.ready", "Wait until the control plane is ready")
            .probe(
                Probe::StaticPodsReady { node: member.name.to_owned(), images: BTreeMap::new(), external_etcd: false },
                600,
            )
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
        hosts: members
            .iter()
            .map(|member| PlanHost {
                name: member.name.to_owned(),
                roles: vec!["control-plane".to_owned()],
                optional: false,
            })
            .collect(),
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
    fn all(&mut self, members: &[Member<'_>], step: impl Fn(&Member<'_>) -> Step) {
        let steps: Vec<Step> = members.iter().map(|member| Step { after: self.last.clone(), ..step(member) }).collect();
        self.last = steps.iter().map(|step| step.id.clone()).collect();
        self.steps.extend(steps);
    }
}

struct Member<'a> {
    name: &'a str,
    peer: String,
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
            "{name}: {mount} has {free} bytes free, and the restore writes {needed} to {}: make room, for example by removing \
             {data}/.kubexm-before-* of earlier restores",
            paths.join(" and ")
        )
    })
    .collect()
}

/// Every control plane, since all members get the data: one that is left out would have another.
fn members<'a>(cx: &'a RestoreContext<'a>) -> Result<Vec<Member<'a>>, RecipeError> {
    let planes = &cx.cluster.role_groups.control_plane;
    if planes.is_empty() {
        return Err(RecipeError::NoHosts { what: "control plane" });
    }
    let identity = Identity::of(cx.cluster, cx.facts);
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    for name in planes {
        let is_member = |facts: &Facts| identity.is_member(cx.cluster, name, facts) && facts.joined;
        let address = cx.cluster.host(name).and_then(|host| host.addresses().next());
        match (cx.facts.get(name), address) {
            (None, _) => problems.push(format!("{name} was not reached: every member of etcd gets the data of the backup")),
            (Some(facts), _) if !is_member(facts) => problems.push(format!(
                "{name} is no control plane of this cluster; a restore is for the hosts that the cluster runs on: create it \
                 there first, or remove the host from cluster.yaml"
            )),
            (Some(_), None) => problems.push(format!("{name} has no address of its own in cluster.yaml")),
            (Some(facts), Some(ip)) => {
                problems.extend(room(cx, name, facts));
                let peer = if ip.is_ipv6() { format!("https://[{ip}]:2380") } else { format!("https://{ip}:2380") };
                found.push(Member { name, peer });
            }
        }
    }
    if problems.is_empty() { Ok(found) } else { Err(RecipeError::CannotRestore { problems }) }
}
