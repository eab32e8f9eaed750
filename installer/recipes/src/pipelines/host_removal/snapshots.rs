//! Snapshots of etcd that upgrades took: they are the operator's, and stay.

use kubexm_plan::Op;
use kubexm_plan::ledger::not_rolled_back;
use kubexm_plan::op::SNAPSHOTS;

use super::host::ResetHost;

/// One sentence about the hosts with snapshots, if there are any.
pub fn kept_snapshots<'a>(hosts: impl IntoIterator<Item = &'a ResetHost<'a>>) -> Option<String> {
    let has = |host: &&ResetHost<'_>| {
        let mut ops = not_rolled_back(host.ledger.iter()).flat_map(|record| &record.ops);
        ops.any(|op| matches!(op, Op::EtcdSnapshot(_)))
    };
    let names: Vec<&str> = hosts.into_iter().filter(has).map(|host| host.name).collect();
    (!names.is_empty()).then(|| {
        format!(
            "the snapshots of etcd that upgrades took stay on {} ({SNAPSHOTS}/before-*.db), with every Secret of the cluster in them: \
             remove them there once nobody needs them",
            names.join(", ")
        )
    })
}
