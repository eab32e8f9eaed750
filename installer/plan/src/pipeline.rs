//! The pipelines: their names, what they start from, and which invariants hold while they run.
//!
//! A new pipeline is a variant with its name in `for_each_pipeline!`, through which the laws find it, and its [`Row`], from which the driver, the
//! confirmation and the engine know what to do with it, and the operator reads what it does.

mod row;

use std::fmt;

pub use row::{AfterSuccess, Invariant, Needs, NothingToDo, Row, Sentences};
use row::{RUNNING, STOPPING};
use serde::{Deserialize, Serialize};

/// Calls a macro with every variant of [`Pipeline`] and a snake-case name for it, so that tests of all pipelines are
/// written once: `for_each_pipeline!(callback)` expands to `callback! { create: Create, … }`.
#[macro_export]
macro_rules! for_each_pipeline {
    ($callback:ident) => {
        $callback! {
            create: Create,
            create_from_backup: CreateFromBackup,
            add_node: AddNode,
            delete_node: DeleteNode,
            addons_apply: AddonsApply,
            upgrade: Upgrade,
            certs_renew: CertsRenew,
            registry_prune: RegistryPrune,
            restore: Restore,
            adopt: Adopt,
            reset: Reset,
        }
    };
}

macro_rules! pipelines {
    ($($name:ident: $variant:ident,)*) => {
        impl Pipeline {
            /// Every pipeline.
            pub const ALL: &[Self] = &[$(Self::$variant),*];
        }
    };
}
for_each_pipeline!(pipelines);

/// What a plan was made for. The functions that make the plans are `kubexm_recipes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pipeline {
    /// Creates a cluster, or completes it.
    Create,
    /// Creates a cluster anew from its backup.
    CreateFromBackup,
    /// Adds hosts to a cluster.
    AddNode,
    /// Removes hosts from a cluster, which stays.
    DeleteNode,
    /// Installs, changes and removes the add-ons of a cluster.
    AddonsApply,
    /// Brings a cluster to the bundle's Kubernetes version.
    Upgrade,
    /// Renews the certificates of a cluster.
    CertsRenew,
    /// Removes earlier bundles of a cluster from its registry.
    RegistryPrune,
    /// Gives etcd the data of a backup, on the same hosts.
    Restore,
    /// Takes over a cluster that kubeadm has made without kubexm.
    Adopt,
    /// Removes a cluster from its hosts.
    Reset,
}

impl Row {
    /// Of a pipeline that makes a cluster what the bundle says, while it runs.
    const INSTALLS: Self = Self {
        name: "",
        command: "",
        needs: Needs { bundle: true, cluster: true, ledgers: false },
        invariants: RUNNING,
        after_success: AfterSuccess::ClusterInstalled,
        nothing_to_do: NothingToDo::Never,
        shows_warnings: true,
        confirmed_by_name: false,
        sentences: Sentences {
            before: None,
            out_of_reach: None,
            question: "Continue?",
            rollback: "Roll it all back? All data in the cluster is lost.",
            nothing_to_do: "nothing to do",
            success: "cluster {cluster} is {ready}: {done} steps changed something, {satisfied} needed no change",
            kubeconfig: "\n\nNext:\n  kubectl --kubeconfig {kubeconfig} get nodes,pods -A\n  {program} report {run}",
            rolled_back: "run {run} was rolled back: {undone} steps, the hosts are as they were before it",
            again: "",
        },
    };

    const fn of(pipeline: Pipeline) -> Self {
        match pipeline {
            Pipeline::Create => Self {
                name: "create",
                command: "create",
                needs: Needs { bundle: true, cluster: false, ledgers: false },
                ..Self::INSTALLS
            },
            Pipeline::CreateFromBackup => Self {
                name: "create-from-backup",
                command: "create --from-backup",
                needs: Needs { bundle: true, cluster: false, ledgers: false },
                confirmed_by_name: true,
                sentences: Sentences {
                    question: "Type the name of the cluster to make it again from this backup",
                    rollback: "Roll it all back, so that nothing of the cluster is on these hosts? The backup stays.",
                    success: "cluster {cluster} is made from its backup and {ready}: {done} steps changed something, {satisfied} needed no \
                              change; volumes' data was not in the backup",
                    ..Self::INSTALLS.sentences
                },
                ..Self::INSTALLS
            },
            Pipeline::AddNode => Self { name: "add-node", command: "add-node", ..Self::INSTALLS },
            Pipeline::DeleteNode => Self {
                name: "delete-node",
                command: "delete-node",
                needs: Needs { bundle: false, cluster: true, ledgers: true },
                invariants: RUNNING,
                after_success: AfterSuccess::HostsRemoved,
                nothing_to_do: NothingToDo::NoSteps,
                shows_warnings: false,
                confirmed_by_name: false,
                sentences: Sentences {
                    out_of_reach: Some(
                        "cannot be reached: it is removed from the cluster, and what is on it stays as it is",
                    ),
                    question: "Remove these hosts from the cluster and delete its data on them?",
                    rollback: "Roll back the deletion, so that the hosts are members of the cluster again?",
                    nothing_to_do: "nothing to do: these hosts are not in cluster {cluster}, and nothing of it is on those that were \
                                    reached{advice on removed hosts}",
                    success: "the hosts are deleted from cluster {cluster} ({done} steps changed something){advice on removed hosts}",
                    kubeconfig: "",
                    again: ", with cluster.yaml as it is",
                    ..Self::INSTALLS.sentences
                },
            },
            Pipeline::AddonsApply => Self {
                name: "addons-apply",
                command: "addons apply",
                after_success: AfterSuccess::ClusterKept,
                nothing_to_do: NothingToDo::NoDifference,
                sentences: Sentences {
                    question: "Apply these add-ons to the cluster?",
                    rollback: "Roll back the add-ons to what they were before?",
                    nothing_to_do: "nothing to do: the add-ons of cluster {cluster} are as cluster.yaml has them",
                    success: "the add-ons of cluster {cluster} are as cluster.yaml has them: {done} steps changed something, \
                              {satisfied} needed no change",
                    kubeconfig: "",
                    ..Self::INSTALLS.sentences
                },
                ..Self::INSTALLS
            },
            Pipeline::Upgrade => Self {
                name: "upgrade",
                command: "upgrade",
                shows_warnings: false,
                sentences: Sentences {
                    rollback: "Roll back the upgrade, as far as that is possible?",
                    ..Self::INSTALLS.sentences
                },
                ..Self::INSTALLS
            },
            Pipeline::CertsRenew => Self {
                name: "certs-renew",
                command: "certs renew",
                needs: Needs { bundle: false, cluster: true, ledgers: false },
                invariants: RUNNING,
                after_success: AfterSuccess::ClusterKept,
                nothing_to_do: NothingToDo::NoDifference,
                shows_warnings: true,
                confirmed_by_name: false,
                sentences: Sentences {
                    rollback: "Roll back the renewal, so that the earlier certificates are used again?",
                    nothing_to_do: "nothing to do: no certificate of cluster {cluster} is due that can be renewed, and everything runs \
                                    with those that are there; --force renews them anyway",
                    success: "the certificates of cluster {cluster} are renewed, and in use: {done} steps changed something, \
                              {satisfied} needed no change",
                    kubeconfig: "\nthe kubeconfig on this machine is {kubeconfig}; give it anew to whoever has a copy of the earlier one",
                    ..Self::INSTALLS.sentences
                },
            },
            Pipeline::RegistryPrune => Self {
                name: "registry-prune",
                command: "registry prune",
                needs: Needs { bundle: false, cluster: true, ledgers: true },
                invariants: RUNNING,
                after_success: AfterSuccess::ClusterKept,
                nothing_to_do: NothingToDo::NoSteps,
                shows_warnings: false,
                confirmed_by_name: false,
                sentences: Sentences {
                    before: Some(
                        "Deleted at the end, irreversibly: what only the removed bundles need, in the stores of the registry hosts and in the \
                         registry beside them. An image of them comes back only with a bundle that has it, by create or upgrade.",
                    ),
                    question: "Remove these bundles from the registry and delete their blobs?",
                    rollback: "Roll back the removal, so that the registry serves these bundles again?",
                    nothing_to_do: "nothing to do: the registry of cluster {cluster} has no bundle and no blob beside those that are kept",
                    success: "the registry of cluster {cluster} has the kept bundles only: {done} steps changed something, {satisfied} \
                              needed no change",
                    kubeconfig: "",
                    rolled_back: "run {run} was rolled back: {undone} steps, the registry serves what it served before it",
                    ..Self::INSTALLS.sentences
                },
            },
            Pipeline::Restore => Self {
                name: "restore",
                command: "restore",
                needs: Needs { bundle: false, cluster: false, ledgers: false },
                // All members are stopped together.
                invariants: STOPPING,
                after_success: AfterSuccess::ClusterKept,
                nothing_to_do: NothingToDo::Never,
                shows_warnings: true,
                confirmed_by_name: true,
                sentences: Sentences {
                    question: "Type the name of the cluster to restore it",
                    success: "cluster {cluster} has the data of the backup ({done} steps changed something); what etcd had before lies \
                              in .kubexm-before-* in the data folder of etcd's members (/var/lib/etcd): remove it once nobody \
                              wants it back",
                    kubeconfig: "",
                    ..Self::INSTALLS.sentences
                },
            },
            Pipeline::Adopt => Self {
                name: "adopt",
                command: "adopt",
                needs: Needs { bundle: false, cluster: true, ledgers: false },
                invariants: RUNNING,
                after_success: AfterSuccess::ClusterKept,
                nothing_to_do: NothingToDo::NoDifference,
                shows_warnings: true,
                confirmed_by_name: false,
                sentences: Sentences {
                    before: Some(
                        "Each node gets a record of the cluster that it belongs to. Nothing else on the hosts or in the cluster is changed.",
                    ),
                    question: "Adopt this cluster?",
                    rollback: "Roll back the adoption, so that nothing of kubexm-install is on these hosts?",
                    nothing_to_do: "nothing to do: every node of cluster {cluster} has its record already",
                    success: "cluster {cluster} is adopted: {done} steps changed something, {satisfied} needed no change",
                    kubeconfig: "",
                    rolled_back: "run {run} was rolled back: {undone} steps, cluster {cluster} runs as before and is not adopted any more",
                    ..Self::INSTALLS.sentences
                },
            },
            Pipeline::Reset => Self {
                name: "reset",
                command: "reset",
                needs: Needs { bundle: false, cluster: false, ledgers: true },
                // The cluster is removed: its etcd members and API servers are stopped one after another.
                invariants: STOPPING,
                after_success: AfterSuccess::ClusterRemoved,
                nothing_to_do: NothingToDo::NoSteps,
                shows_warnings: false,
                confirmed_by_name: false,
                sentences: Sentences {
                    before: Some(
                        "Deleted at the end, irreversibly: cluster {cluster}, its etcd and everything that containers wrote, on {hosts}. \
                         Kept: volumes on other disks and NFS exports, which are unmounted and not touched, and what volumes hold in the \
                         folder spec.storage.openebs.basePath.",
                    ),
                    out_of_reach: Some("cannot be reached and stays as it is"),
                    question: "Remove the cluster and delete its data?",
                    rollback: "Roll back the reset, so that the cluster runs again?",
                    nothing_to_do: "cluster {cluster} is removed: nothing of it is left on any host",
                    success: "cluster {cluster} is gone: the hosts are as they were ({done} steps changed something){network's remains}",
                    kubeconfig: "",
                    rolled_back: "reset {run} was rolled back: cluster {cluster} runs again",
                    ..Self::INSTALLS.sentences
                },
            },
        }
    }
}

impl Pipeline {
    /// What distinguishes it.
    pub const fn row(self) -> Row {
        Row::of(self)
    }

    /// The name in plans, journals and reports; of most pipelines also the command ([`Self::command`]).
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// The words of its command.
    pub const fn command(self) -> &'static str {
        self.row().command
    }

    /// What it needs.
    pub const fn needs(self) -> Needs {
        self.row().needs
    }

    /// The invariants that hold while it runs.
    pub const fn invariants(self) -> &'static [Invariant] {
        self.row().invariants
    }
}

impl fmt::Display for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::{Pipeline, Sentences};

    #[test]
    fn the_name_in_a_plan_is_the_verb() {
        for pipeline in Pipeline::ALL {
            assert_eq!(serde_json::to_value(pipeline).unwrap(), pipeline.name());
        }
    }

    #[test]
    fn sentences_name_only_what_a_run_knows() {
        for pipeline in Pipeline::ALL {
            for text in pipeline.row().sentences.templates() {
                for part in text.split('{').skip(1) {
                    let (name, _) = part.split_once('}').unwrap_or((part, ""));
                    assert!(Sentences::NAMES.contains(&name), "{pipeline}: {name:?} in {text:?}");
                }
            }
        }
    }
}
