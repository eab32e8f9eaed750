//! The sentences of each pipeline: what is asked before it, and what is reported after it. One row for each.

use kubexm_engine::Status;
use kubexm_plan::{Pipeline, Plan};
use kubexm_session::Ended;

use crate::commands::resume_command::{program, shell_word};

/// The sentences of one pipeline.
pub struct Texts {
    /// What is said of the plan before the question, besides its summary.
    pub before: fn(&Plan) -> Option<String>,
    /// What becomes of a host that cannot be reached, after its name; not said where such a host stops the command.
    pub out_of_reach: Option<&'static str>,
    /// Asked before hosts are changed.
    pub question: &'static str,
    /// Asked before a run of it is rolled back.
    pub rollback: &'static str,
    /// What is reported where there was nothing to do.
    pub nothing_to_do: fn(&Ended) -> String,
    /// What is reported after a success.
    pub success: fn(&Ended, &Status) -> String,
    /// What is reported after a run of it was rolled back.
    pub rolled_back: fn(&Status) -> String,
    /// How the command is run again when hosts can be reached that could not be.
    pub again: &'static str,
}

impl Texts {
    /// Of a pipeline that makes a cluster what a bundle says.
    const INSTALLS: Self = Self {
        before: |_| None,
        out_of_reach: None,
        question: "Continue?",
        rollback: "Roll it all back? All data in the cluster is lost.",
        nothing_to_do: |_| "nothing to do".to_owned(),
        success: installed,
        rolled_back: |status| {
            let undone = status.counts.undone;
            format!("run {} was rolled back: {undone} steps, the hosts are as they were before it", status.run)
        },
        again: "",
    };

    pub const fn of(pipeline: Pipeline) -> Self {
        match pipeline {
            Pipeline::Create | Pipeline::AddNode => Self::INSTALLS,
            Pipeline::DeleteNode => Self {
                out_of_reach: Some(
                    "cannot be reached: it is removed from the cluster, and what is on it stays as it is",
                ),
                question: "Remove these hosts from the cluster and delete its data on them?",
                rollback: "Roll back the deletion, so that the hosts are members of the cluster again?",
                nothing_to_do: |ended| {
                    let (cluster, text) = (&ended.cluster, "nothing of it is on those that were reached");
                    format!("nothing to do: these hosts are not in cluster {cluster}, and {text}{}", forget(ended))
                },
                success: |ended, status| {
                    let (cluster, done) = (&status.cluster, status.counts.done);
                    format!(
                        "the hosts are deleted from cluster {cluster} ({done} steps changed something){}",
                        forget(ended)
                    )
                },
                again: ", with cluster.yaml as it is",
                ..Self::INSTALLS
            },
            Pipeline::Upgrade => {
                Self { rollback: "Roll back the upgrade, as far as that is possible?", ..Self::INSTALLS }
            }
            Pipeline::CertsRenew => Self {
                rollback: "Roll back the renewal, so that the earlier certificates are used again?",
                nothing_to_do: |ended| {
                    format!(
                        "nothing to do: no certificate of cluster {} that kubeadm manages is due, and everything runs with those \
                         that are there; --force renews them anyway",
                        ended.cluster
                    )
                },
                success: renewed,
                ..Self::INSTALLS
            },
            Pipeline::Restore => Self {
                question: "Type the name of the cluster to restore it",
                success: |_, status| {
                    format!(
                        "cluster {} has the data of the backup ({} steps changed something); what etcd had before lies in \
                         .kubexm-before-* in etcd's data folder (/var/lib/etcd) of the control planes: remove it once nobody wants it back",
                        status.cluster, status.counts.done
                    )
                },
                ..Self::INSTALLS
            },
            Pipeline::Reset => Self {
                before: |plan| Some(what_goes(plan)),
                out_of_reach: Some("cannot be reached and stays as it is"),
                question: "Remove the cluster and delete its data?",
                rollback: "Roll back the reset, so that the cluster runs again?",
                nothing_to_do: |ended| {
                    format!("cluster {} is removed: nothing of it is left on any host", ended.cluster)
                },
                success: removed,
                rolled_back: |status| {
                    format!("reset {} was rolled back: cluster {} runs again", status.run, status.cluster)
                },
                ..Self::INSTALLS
            },
        }
    }
}

/// What the operator does after all hosts were deleted.
const fn forget(ended: &Ended) -> &'static str {
    match ended.missing.is_empty() {
        true => "; remove them from cluster.yaml, so that `create` and `add-node` do not add them again",
        false => "",
    }
}

fn installed(ended: &Ended, status: &Status) -> String {
    let is =
        if ended.network_of_operator { "up; its nodes stay NotReady until you install a pod network" } else { "ready" };
    let kubeconfig = ended.kubeconfig.clone().unwrap_or_default();
    format!(
        "cluster {} is {is}: {} steps changed something, {} needed no change\n\nNext:\n  kubectl --kubeconfig {} get nodes,pods -A\n  {} \
         report {}",
        status.cluster,
        status.counts.done,
        status.counts.satisfied,
        shell_word(&kubeconfig.to_string_lossy()),
        program(),
        status.run,
    )
}

fn renewed(ended: &Ended, status: &Status) -> String {
    let (cluster, counts) = (&status.cluster, &status.counts);
    let text = format!(
        "the certificates of cluster {cluster} are renewed, and in use: {} steps changed something, {} needed no change",
        counts.done, counts.satisfied
    );
    match &ended.kubeconfig {
        Some(path) => format!(
            "{text}\nthe kubeconfig on this machine is {}; give it anew to whoever has a copy of the earlier one",
            shell_word(&path.to_string_lossy())
        ),
        None => text,
    }
}

fn removed(ended: &Ended, status: &Status) -> String {
    let network = if ended.network_of_operator {
        "; network links and rules of the pod network that you installed may stay until its own clean-up or a reboot"
    } else {
        ""
    };
    let (cluster, done) = (&status.cluster, status.counts.done);
    format!("cluster {cluster} is gone: the hosts are as they were ({done} steps changed something){network}")
}

/// What a reset deletes, and what it keeps.
fn what_goes(plan: &Plan) -> String {
    let mut hosts: Vec<&str> = plan.steps.iter().map(|step| step.host.as_str()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    format!(
        "Deleted at the end, irreversibly: cluster {}, its etcd and everything that containers wrote, on {}. Kept: volumes on \
         other disks and NFS exports, which are unmounted and not touched.",
        plan.cluster_name,
        hosts.join(", ")
    )
}
