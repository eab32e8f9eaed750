//! What is done on a host whose cluster was adopted, and what is not.

use kubexm_plan::op::{Act, UpgradeOf};
use kubexm_plan::{Op, Step, Undo};

use crate::ops::stamp;
use crate::{Machine, OpError};

/// Programs that an upgrade replaces, where kubexm has them.
const REPLACED: [&str; 3] = ["/usr/local/bin/kubeadm", "/usr/local/bin/kubelet", "/usr/local/bin/kubectl"];
/// Programs that it brings where there are none: they take the snapshot of etcd.
const BROUGHT: [&str; 2] = ["/usr/local/bin/etcdctl", "/usr/local/bin/etcdutl"];
const KUBELET_UNIT: &str = "kubelet.service";

/// Nothing but the adoption itself, a renewal of certificates and an upgrade of just this cluster changes a host that was adopted, or rolls
/// anything back there: an older run that goes on, or is rolled back, when others have made the cluster anew would remove theirs. And
/// what is planned for an adopted cluster is done in no other one.
pub(crate) fn check(step: &Step, machine: &Machine) -> Result<(), OpError> {
    let allowed = step.ops.iter().all(|op| is_of_adoption(op) || is_of_renewal(op));
    let upgrades = |id| step.of_adopted.is_some() && step.of_adopted == id && is_of_upgrade(step);
    match stamp::read(machine) {
        Ok(Some(found)) if found.adopted && !allowed && !upgrades(found.id) => Err(OpError::other(format!(
            "this host is of cluster {:?}, which was adopted: kubexm-install has not made it, and changes nothing on it but certificates \
             that it renews and what it upgrades; if that is wrong, `kubexm-install adopt --roll-back RUN` undoes the adoption",
            found.cluster
        ))),
        Ok(found) if step.of_adopted.is_some() && !found.as_ref().is_some_and(|found| found.adopted) => {
            Err(OpError::other(
                "this is planned for a cluster that was adopted, and this host is of none: its adoption was rolled back, or it was made \
                 anew; adopt the cluster again, then run `kubexm-install upgrade` again",
            ))
        }
        // It may be that of an adopted host. The stamp's own step says what to do, and a reset has looked before.
        Err(error) if !step.ops.iter().any(|op| matches!(op, Op::Reset(_) | Op::Stamp(_))) => Err(error),
        _ => Ok(()),
    }
}

const fn is_of_adoption(op: &Op) -> bool {
    matches!(op, Op::Stamp(stamp) if stamp.adopted)
}

/// Whether a renewal of certificates on an adopted cluster has such an op. A `create` has some of them in another form.
fn is_of_renewal(op: &Op) -> bool {
    match op {
        Op::CertificatesRenewed(_) | Op::KubeletCertificate(_) => true,
        Op::StaticPodStarted(pod) => pod.is_of_kubeadm() && pod.reloaded.is_empty(),
        Op::Kubeconfig(kubeconfig) => kubeconfig.replaces.is_some(),
        _ => false,
    }
}

/// Whether an upgrade of an adopted cluster has such a step. That it is one is the word of the plan ([`Step::of_adopted`]): a `create` has
/// these ops, too.
fn is_of_upgrade(step: &Step) -> bool {
    let undone = match &step.undo {
        Undo::Act { act } => is_act_of_upgrade(act),
        _ => true,
    };
    undone && step.ops.iter().all(|op| is_op_of_upgrade(op) || is_of_adoption(op) || is_of_renewal(op))
}

fn is_op_of_upgrade(op: &Op) -> bool {
    match op {
        // From the controller and from other hosts of the run: such a cluster has no depot of kubexm's.
        Op::Blobs(blobs) => blobs.depots.is_none(),
        Op::ImageLoaded(image) => !image.source.is_registry(),
        Op::Binary(program) => REPLACED.contains(&program.path.as_str()),
        Op::Unpacked(tools) => {
            tools.all_into.is_none() && tools.members.values().all(|path| BROUGHT.contains(&path.as_str()))
        }
        Op::EtcdSnapshot(_) => true,
        Op::Unit(unit) => unit.name == KUBELET_UNIT && unit.enabled && unit.running == Some(true),
        Op::Act(act) => is_act_of_upgrade(act),
        _ => false,
    }
}

const fn is_act_of_upgrade(act: &Act) -> bool {
    match act {
        Act::KubeadmUpgrade(upgrade) => {
            !matches!(upgrade.of, UpgradeOf::Cluster { config: Some(_) }) && upgrade.patches.is_none()
        }
        Act::KubeadmUpgradeUndo(_) | Act::NodeDrain(_) | Act::NodeUncordon(_) => true,
        _ => false,
    }
}
