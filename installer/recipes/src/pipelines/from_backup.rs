//! `create --from-backup`: the cluster of a backup, on hosts that have none.
//!
//! It is `create`, with an init that finds the authorities of the backup, and etcd's data with one member. The other hosts join as they join
//! any cluster.

use std::collections::BTreeMap;

use kubexm_plan::backup::Archive;
use kubexm_plan::op::{Act, Blobs, InitFrom};
use kubexm_plan::{ClusterId, Facts, Op, Plan, SlotName, SlotProvider, Step, Undo};

use super::create;
use crate::context::PlanContext;
use crate::error::RecipeError;
use crate::preflight::disk_of;
use crate::unsupported::refuse_other_etcd;

/// What etcd allocates for its log beside the data.
const WAL: u64 = 256 << 20;

/// A backup that was verified.
#[derive(Clone, Copy, Debug)]
pub struct FromBackup<'a> {
    /// The encrypted archive.
    pub archive: Archive,
    /// Size of the snapshot in it, in bytes.
    pub snapshot: u64,
    /// `metadata.name` of its cluster.
    pub cluster: &'a str,
    /// Of its cluster.
    pub id: ClusterId,
    /// Version of the API server when it was made.
    pub kubernetes: Option<&'a str>,
    /// The nodes that the cluster had then; none if it does not say.
    pub nodes: &'a [String],
}

/// The plan, and what the operator is warned of. `cx` has the id of the backup's cluster.
///
/// # Errors
/// The backup is not of this cluster or this bundle, or a host has a cluster already.
pub fn create_from(cx: &PlanContext<'_>, backup: &FromBackup<'_>) -> Result<(Plan, Vec<String>), RecipeError> {
    let hint = "etcd's own documentation has it (\"Disaster recovery\"); a backup's archive has the authorities";
    refuse_other_etcd(cx.cluster, "create --from-backup", hint)?;
    let problems = problems(cx, backup)?;
    if !problems.is_empty() {
        return Err(RecipeError::CannotRestore { problems });
    }
    let mut plan = create(cx)?;
    let nodes = cx.nodes()?;
    let first = cx.cluster.first_control_plane().ok_or(RecipeError::NoHosts { what: "control plane" })?;
    let ip = nodes.iter().find(|node| node.name() == first.name).map(|node| node.ip);
    let ip = ip.ok_or(RecipeError::NoHosts { what: "control plane" })?;
    let peer = if ip.is_ipv6() { format!("https://[{ip}]:2380") } else { format!("https://{ip}:2380") };
    let slot = SlotName("backup-key".to_owned());
    let from = InitFrom { archive: backup.archive.sha256, slots: vec![slot.clone()], name: first.name.clone(), peer };
    plan.slots.insert(slot, SlotProvider::BackupKey);
    let is_init = |step: &Step| step.ops.iter().any(|op| matches!(op, Op::Act(Act::KubeadmInit(_))));
    let Some(at) = plan.steps.iter().position(is_init) else {
        return Err(RecipeError::NoHosts { what: "control plane" });
    };
    let mut archive = Step::on(&first.name, "backup.archive", "Copy the archive to the host")
        .ensure(Blobs { blobs: [(backup.archive.sha256, backup.archive.size)].into(), depots: None, shared_at: None })
        .timeout_s(7_200)
        .undo(Undo::RestoreBefore)
        .build();
    if let Some(init) = plan.steps.get_mut(at) {
        archive.after.clone_from(&init.after);
        init.after.push(archive.id.clone());
        "Start the control plane with kubeadm, with the authorities and the data of the backup"
            .clone_into(&mut init.title);
        // etcd's data is copied twice before kubeadm starts.
        init.timeout_s = 7_200;
        for op in &mut init.ops {
            if let Op::Act(Act::KubeadmInit(act)) = op {
                act.from = Some(from.clone());
            }
        }
    }
    plan.steps.insert(at, archive);
    Ok((plan, warnings(cx, backup)))
}

/// Everything that is in the way, before any host is changed.
fn problems(cx: &PlanContext<'_>, backup: &FromBackup<'_>) -> Result<Vec<String>, RecipeError> {
    let mut problems = Vec::new();
    let cluster = &cx.cluster.name;
    if cluster != backup.cluster {
        problems.push(format!(
            "it is a backup of cluster {}, and cluster.yaml is of {cluster}: use the cluster.yaml of that cluster, with the new hosts",
            escaped(backup.cluster)
        ));
    }
    let platform = cx.nodes()?.first().map(|node| node.platform);
    let bundle = platform.map(|platform| cx.kubernetes_version(platform)).transpose()?;
    if let (Some(was), Some(bundle)) = (backup.kubernetes, &bundle)
        && was != bundle
    {
        let was = escaped(was);
        problems.push(format!(
            "the cluster had Kubernetes {was}, and the bundle has {bundle}: build one with spec.kubernetes.version {was}, and upgrade afterwards"
        ));
    }
    for (host, facts) in cx.facts {
        let stamped = facts.stamp.as_ref().filter(|stamp| stamp.id != Some(backup.id));
        match (facts.joined, stamped) {
            (true, None) => problems.push(format!(
                "{host} is in this cluster already: `kubexm-install restore` gives etcd the data of a backup on hosts that run; a run that was \
                 interrupted is continued with `kubexm-install resume`"
            )),
            (joined, Some(stamp)) => problems.push(format!(
                "{host} {} cluster {:?}{}: use another host, or, if nobody needs what is on it, `kubexm-install reset -f cluster.yaml --only {host}`",
                if joined { "is in another cluster, which is" } else { "was prepared for another cluster, which is" },
                stamp.cluster,
                stamp.id.map(|id| format!(", id {id}")).unwrap_or_default()
            )),
            (false, None) => {}
        }
    }
    if let Some((first, facts)) = cx.cluster.first_control_plane().and_then(|host| cx.facts.get_key_value(&host.name)) {
        problems.extend(room(cx, backup, first, facts));
    }
    Ok(problems)
}

/// What is too full on the host that gets etcd's data. Each path with what is written below it.
fn room(cx: &PlanContext<'_>, backup: &FromBackup<'_>, name: &str, facts: &Facts) -> Vec<String> {
    let data = cx.cluster.etcd.data_dir.as_str();
    let needs = [
        ("/var/lib/kubexm", backup.archive.size.saturating_add(backup.snapshot)),
        (data, backup.snapshot.saturating_add(WAL)),
    ];
    let mut wanted: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (path, bytes) in needs {
        if let Some(disk) = disk_of(&facts.disks, path) {
            let (needed, _) = wanted.entry(&disk.mount).or_insert((0, disk.free));
            *needed = needed.saturating_add(bytes);
        }
    }
    let full = wanted.into_iter().filter(|(_, (needed, free))| needed > free);
    full.map(|(mount, (needed, free))| {
        format!(
            "{name}: {mount} has {free} bytes free, and the backup needs {needed} there: make room, or use another host"
        )
    })
    .collect()
}

/// Which nodes of the backup do not come back.
fn warnings(cx: &PlanContext<'_>, backup: &FromBackup<'_>) -> Vec<String> {
    let stays = |name: &&String| cx.cluster.roles(name).in_cluster() && cx.cluster.host(name).is_some();
    let gone: Vec<String> = backup.nodes.iter().filter(|name| !stays(name)).map(|name| escaped(name)).collect();
    let names = match (gone.is_empty(), backup.nodes.is_empty()) {
        (false, _) => format!(": {} are not in cluster.yaml, and do not come back", gone.join(", ")),
        (true, true) => " (the backup does not name them)".to_owned(),
        (true, false) => String::new(),
    };
    vec![format!(
        "the nodes of the backup are deleted before hosts join{names}. Volumes that pods had on their disks are gone; what a node had that \
         cluster.yaml does not name (labels, taints) is gone as well"
    )]
}

/// A backup's texts, of whoever made it.
fn escaped(text: &str) -> String {
    text.escape_default().take(100).collect()
}
