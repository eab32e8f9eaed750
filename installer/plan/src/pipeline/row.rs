//! What distinguishes pipelines, and what is the same for several of them.

/// What a pipeline needs, besides hosts that answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// A bundle with the artifacts that its steps install.
    pub bundle: bool,
    /// A running cluster on the hosts.
    pub cluster: bool,
    /// The ledgers of the hosts.
    pub ledgers: bool,
}

/// What must be true of the hosts while a pipeline runs, and after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// More than half of etcd's members run, at all times.
    Quorum,
    /// On every node, the control plane's name resolves to at least one running control plane, or to an external load
    /// balancer, at all times.
    ControlPlaneName,
    /// A running unit has its file and the programs that it was started from, at all times.
    UnitFiles,
    /// After a pipeline, running units have loaded the current configuration.
    LoadedConfig,
}

/// What the controller does after a plan has succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterSuccess {
    /// The cluster is what the bundle makes of it: the bundle is recorded and the operator's kubeconfig is written. So it is, too, if hosts
    /// were left out.
    ClusterInstalled,
    /// The kubeconfig is written anew if it may have the address of a host that was removed.
    HostsRemoved,
    /// Nothing: a kubeconfig that is there stays.
    ClusterKept,
    /// The kubeconfig and the record of the bundle are removed, if all hosts of the cluster were in the plan.
    ClusterRemoved,
}

/// When a plan is not executed at all, and nobody is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NothingToDo {
    /// Never: a plan without a difference is confirmed and executed, too.
    Never,
    /// It has no steps.
    NoSteps,
    /// It would change nothing on any host. Every step is in the plan, so that one that a crash has left out is found.
    NoDifference,
}

/// What distinguishes a pipeline.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The name in plans, journals and reports.
    pub name: &'static str,
    /// The words of its command.
    pub command: &'static str,
    /// What it needs.
    pub needs: Needs,
    /// The invariants that hold while it runs.
    pub invariants: &'static [Invariant],
    /// What the controller does after a success.
    pub after_success: AfterSuccess,
    /// When nothing is to be done.
    pub nothing_to_do: NothingToDo,
    /// Whether the lint's warnings are shown: not if they only repeat for each host what cannot be rolled back, which the confirmation
    /// prompt shows.
    pub shows_warnings: bool,
    /// Whether it is confirmed by typing the cluster's name.
    pub confirmed_by_name: bool,
    /// What the operator reads.
    pub sentences: Sentences,
}

/// What the operator reads before and after a run. In braces stands what only the run knows; [`Sentences::NAMES`] lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sentences {
    /// What is said of the plan before the question, besides its summary.
    pub before: Option<&'static str>,
    /// What becomes of a host that cannot be reached, after its name; not said where such a host stops the command.
    pub out_of_reach: Option<&'static str>,
    /// Asked before hosts are changed.
    pub question: &'static str,
    /// Asked before a run of it is rolled back.
    pub rollback: &'static str,
    /// What is reported where there was nothing to do.
    pub nothing_to_do: &'static str,
    /// What is reported after a success.
    pub success: &'static str,
    /// What is added to that if the operator has a kubeconfig.
    pub kubeconfig: &'static str,
    /// What is reported after a run of it was rolled back.
    pub rolled_back: &'static str,
    /// How the command is run again when hosts can be reached that could not be.
    pub again: &'static str,
}

impl Sentences {
    /// What may stand in braces: names of the cluster and the run, the plan's hosts, counts of steps, the kubeconfig's path and this program as
    /// words of a shell; "ready", or what is missing to that; what the operator's own pod network may leave; what to do about hosts of cluster.yaml
    /// that were removed.
    pub const NAMES: [&str; 11] = [
        "cluster",
        "run",
        "hosts",
        "done",
        "satisfied",
        "undone",
        "kubeconfig",
        "program",
        "ready",
        "network's remains",
        "advice on removed hosts",
    ];

    /// Every text that may have something in braces.
    pub fn templates(&self) -> Vec<&'static str> {
        let Self { before, nothing_to_do, success, kubeconfig, rolled_back, .. } = *self;
        before.into_iter().chain([nothing_to_do, success, kubeconfig, rolled_back]).collect()
    }
}

/// Of the pipelines that leave a cluster which runs all the time.
pub(super) const RUNNING: &[Invariant] =
    &[Invariant::Quorum, Invariant::ControlPlaneName, Invariant::UnitFiles, Invariant::LoadedConfig];
/// Of those that stop its etcd members and API servers.
pub(super) const STOPPING: &[Invariant] = &[Invariant::UnitFiles, Invariant::LoadedConfig];
