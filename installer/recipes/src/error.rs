//! Why no plan could be made.

use kubexm_spec::ExitCode;
use kubexm_spec::unsupported::Unsupported;

/// Why no plan could be made. Nothing has been touched when one of these is returned.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// The cluster needs what the bundle does not carry.
    #[error(
        "the bundle lacks {} that this cluster needs: {}; build one from the same cluster.yaml with `kubexm-bundle build`",
        count(.missing.len()), .missing.join(", ")
    )]
    NotInBundle {
        /// Every one of them, `binary/kubeadm 1.34.4 for linux/amd64`.
        missing: Vec<String>,
    },
    /// The design names it, nothing builds it yet.
    #[error("{what} is not supported yet; {hint}")]
    Unsupported {
        what: String,
        /// What can be done instead.
        hint: String,
    },
    /// cluster.yaml says what no recipe installs.
    #[error("cluster.yaml says what kubexm-install does not install yet:\n{}", lines(.all))]
    NotInstalled {
        /// Every one of them.
        all: Vec<Unsupported>,
    },
    /// cluster.yaml has only `spec.bundle`.
    #[error(
        "this bundle carries extras only and describes no cluster; add `spec.kubernetes` and `spec.hosts` to cluster.yaml and build again"
    )]
    NoCluster,
    /// No host, or no control plane among them.
    #[error("cluster.yaml names no {what}; add it, or give the real hosts with `kubexm-install -f FILE`")]
    NoHosts {
        /// `hosts`, `control plane`.
        what: &'static str,
    },
    /// `join` was asked for where no cluster is.
    #[error(
        "{first} is not in a cluster of kubexm-install yet, so there is nothing to join; run `kubexm-install create`, which creates the cluster with all its hosts"
    )]
    NoClusterYet {
        /// The first control plane.
        first: String,
    },
    /// `join` cannot take this host.
    #[error("{host} cannot be joined: {reason}")]
    CannotJoin {
        host: String,
        /// Why, and what can be done.
        reason: String,
    },
    /// A reset would clear folders with mounts in them that are no pod's, or in use.
    #[error(
        "mounts in folders that the reset would delete:\n{}\nnothing was stopped, changed or deleted; unmount them, or stop what uses them (`fuser -vm` lists it), then run again",
        lines(.mounts)
    )]
    Mounted {
        /// Every one of every host: `node1: /var/lib/kubelet/pods (tmpfs of tmpfs)`.
        mounts: Vec<String>,
    },
    /// A host was not looked at.
    #[error(
        "nothing is known of {host}: its facts were not gathered; run `kubexm-install preflight` and fix what it reports"
    )]
    NoFacts { host: String },
    /// The cluster needs an address and got a name.
    #[error(
        "{host}: address {address:?} is a name, and nodes need an address of their own; add `internalAddress` to the host in cluster.yaml"
    )]
    NoAddress {
        host: String,
        /// What cluster.yaml says.
        address: String,
    },
    /// The machine is another one than cluster.yaml says.
    #[error("{host}: its architecture is {found}, but cluster.yaml has `arch: {said}`; correct it, or leave it out")]
    OtherArch {
        host: String,
        found: kubexm_spec::Arch,
        /// What cluster.yaml says.
        said: kubexm_spec::Arch,
    },
    /// The machine's architecture is none that a bundle is built for.
    #[error("{host}: its architecture is not supported; amd64 and arm64 are")]
    UnknownArch { host: String },
    /// A network in cluster.yaml that cannot be used.
    #[error("{field}: {value:?} {reason}")]
    BadNetwork {
        /// `spec.network.serviceCidr`.
        field: &'static str,
        /// What it says.
        value: String,
        /// What is wrong, and what is wanted.
        reason: String,
    },
    /// No interface of the host has the node's address.
    #[error(
        "{host}: no interface has the address {address} (found: {found}); correct `address` or `internalAddress` in cluster.yaml"
    )]
    NoInterface {
        host: String,
        /// Address looked for.
        address: String,
        /// Interfaces with addresses.
        found: String,
    },
    /// The catalogue of the bundle refuses the cluster.
    #[error("the bundle's catalogue does not fit this cluster")]
    Catalogue(#[source] kubexm_manifests::RequireError),
    /// A host carries another cluster.
    #[error(
        "{host} belongs to cluster {found}, and {wanted} is to be reset; name its cluster.yaml, or take the host out of this one"
    )]
    OtherCluster {
        host: String,
        found: String,
        /// Which cluster was named.
        wanted: String,
    },
    /// A host's stamp is damaged: nobody knows whose node it is.
    #[error("{host}: {why}")]
    UnreadableStamp {
        host: String,
        /// What is wrong, and how to fix it.
        why: String,
    },
    /// One host of a cluster that stays is to be reset.
    #[error(
        "{host} is a member of cluster {cluster}{id}, which stays: reset alone, its node object and its etcd member would \
         remain there; leave --only out to reset the whole cluster"
    )]
    StillMember {
        host: String,
        /// `metadata.name`.
        cluster: String,
        /// ` with id …`, or nothing.
        id: String,
    },
    /// A host was named that cluster.yaml does not have.
    #[error("{host} is no host of cluster {cluster}; its hosts are {known}")]
    UnknownHost {
        host: String,
        /// `metadata.name`.
        cluster: String,
        /// Names in cluster.yaml.
        known: String,
    },
    /// A node's ledger was written by a newer program.
    #[error(
        "{host}: its ledger has schema {found}, and this kubexm-install knows {known}; use the version that made the cluster, or a newer one"
    )]
    NewerLedger {
        host: String,
        /// Of its ledger.
        found: u32,
        /// Ours.
        known: u32,
    },
    /// A ledger holds a before-state that cannot be used: what was there before is not known.
    #[error(
        "{host}: its ledger does not say what was there before step {step} ({op}); without that it cannot be reset"
    )]
    UnreadableState {
        host: String,
        /// Step of the record.
        step: String,
        /// Kind of the op.
        op: &'static str,
        #[source]
        source: kubexm_plan::StateError,
    },
    /// Packages that a host lacks cannot come to it.
    #[error("{host}: {why}; `kubexm-install preflight` shows what can be done")]
    Packages {
        host: String,
        /// What it lacks, and why that cannot come.
        why: String,
    },
    /// A template does not render; a fault of ours.
    #[error("template {name} does not render; this is a fault of kubexm-install")]
    Template {
        name: &'static str,
        /// What minijinja says.
        #[source]
        source: minijinja::Error,
    },
    /// A document cannot be written; a fault of ours.
    #[error("{name} cannot be written as a document: {reason}; this is a fault of kubexm-install")]
    Document {
        name: &'static str,
        /// What the serialiser says.
        reason: String,
    },
}

fn count(number: usize) -> String {
    match number {
        1 => "one artifact".to_owned(),
        number => format!("{number} artifacts"),
    }
}

fn lines(all: &[impl ToString]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

impl RecipeError {
    /// What the program exits with.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::NotInBundle { .. } => ExitCode::BundleIncomplete,
            Self::Unsupported { .. } | Self::NotInstalled { .. } => ExitCode::Unsupported,
            Self::NoCluster
            | Self::NoHosts { .. }
            | Self::NoAddress { .. }
            | Self::OtherArch { .. }
            | Self::BadNetwork { .. }
            | Self::CannotJoin { .. }
            | Self::UnknownHost { .. }
            | Self::NoInterface { .. } => ExitCode::Config,
            Self::NoFacts { .. }
            | Self::Packages { .. }
            | Self::UnknownArch { .. }
            | Self::Mounted { .. }
            | Self::NoClusterYet { .. }
            | Self::OtherCluster { .. }
            | Self::UnreadableStamp { .. }
            | Self::StillMember { .. }
            | Self::NewerLedger { .. }
            | Self::UnreadableState { .. } => ExitCode::Preflight,
            Self::Catalogue(error) => error.exit_code(),
            Self::Template { .. } | Self::Document { .. } => ExitCode::Internal,
        }
    }
}
