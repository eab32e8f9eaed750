//! Why no plan could be made.

mod exit_code;
mod lines;

use kubexm_plan::ClusterId;
use kubexm_spec::rendering::RenderingMismatch;
use kubexm_spec::unsupported::Unsupported;

use lines::{count, gap_lines, lines};

/// Why no plan could be made. No host was changed when one of these is returned.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// The bundle does not contain what the cluster needs.
    #[error(
        "the bundle is missing {} that this cluster needs: {}; build one from the same cluster.yaml with \
         `kubexm-bundle build`",
        count(.missing.len()), .missing.join(", ")
    )]
    NotInBundle {
        /// Every one of them, `binary/kubeadm 1.34.4 for linux/amd64`.
        missing: Vec<String>,
    },
    /// A chart is not as it was when the bundle was built.
    #[error("charts differ from those that the bundle was built with, so their images may be missing in it:\n{}", lines(.all))]
    Rendered {
        /// Every one of them.
        all: Vec<RenderingMismatch>,
    },
    /// Not supported yet.
    #[error("{what} is not supported yet; {hint}")]
    Unsupported {
        what: String,
        /// What can be done instead.
        hint: String,
    },
    /// cluster.yaml asks for what no recipe installs.
    #[error("cluster.yaml has settings that kubexm-install does not support yet:\n{}", lines(.all))]
    NotInstalled {
        /// Every one of them.
        all: Vec<Unsupported>,
    },
    /// cluster.yaml has only `spec.bundle`.
    #[error(
        "this bundle contains extras only and describes no cluster; add `spec.kubernetes` and `spec.hosts` to \
         cluster.yaml and build again"
    )]
    NoCluster,
    /// No host, or no control plane among them.
    #[error("cluster.yaml has no {what}; add them there, or use another cluster.yaml with `kubexm-install -f FILE`")]
    NoHosts {
        /// `hosts`, `control plane`.
        what: &'static str,
    },
    /// Requests for certificates that nobody signs.
    #[error(
        "the certificates of cluster {cluster} are not signed by requests: cluster.yaml has no spec.kubernetes.ca.certificatesFolder; kubeadm \
         signs them when the cluster is created, and `kubexm-install certs renew` renews them"
    )]
    NoRequests { cluster: String },
    /// Requests of two hosts that would be one file.
    #[error(
        "hosts {} and {} would both request a certificate named {name}, which is one file in spec.kubernetes.ca.certificatesFolder; give one of \
         them another name", .hosts[0], .hosts[1]
    )]
    SharedRequest {
        hosts: [String; 2],
        /// Of the request.
        name: String,
    },
    /// The site's CA has not signed what hosts need.
    #[error(
        "certificates that your site's CA signs are missing: {}; run `kubexm-install certs requests -f cluster.yaml`, have them signed, and \
         lay them into the folder of spec.kubernetes.ca.certificatesFolder; nothing was changed", .missing.join(", ")
    )]
    NotSigned {
        /// Names of their requests.
        missing: Vec<String>,
    },
    /// `add-node` without a cluster.
    #[error(
        "{first} is not in a cluster of kubexm-install yet, so there is nothing to join; run `kubexm-install create`, which creates the cluster with all its hosts"
    )]
    NoClusterYet {
        /// The first control plane.
        first: String,
    },
    /// The first control plane was lost, and the cluster runs on others.
    #[error(
        "{first} is the first control plane of cluster.yaml and is in no cluster, but {other} is: {first} was lost, or installed anew. Put \
         {other} first in spec.roleGroups (and name {first} in spec.roleGroups.registry if no host is named there), then run \
         `kubexm-install delete-node {first}` and this again; see \"A control plane that was lost\" in docs/operations/nodes.md"
    )]
    FirstLost {
        /// The first control plane.
        first: String,
        /// One that is in the cluster.
        other: String,
    },
    /// A host that cannot be added.
    #[error("{host} cannot be added: {reason}")]
    CannotJoin {
        host: String,
        /// Why, and what can be done.
        reason: String,
    },
    /// A member of an etcd of kubexm's that cannot be given to the API servers.
    #[error("{host} has a member of etcd that the API servers do not ask yet, and that they cannot be given: {reason}")]
    MemberNotListed {
        host: String,
        /// Why, and what can be done.
        reason: String,
    },
    /// Add-ons cannot be applied to the cluster.
    #[error("the add-ons cannot be applied: {reason}")]
    CannotApplyAddons {
        /// Why, and what can be done.
        reason: String,
    },
    /// A backup does not belong to cluster.yaml and the bundle.
    #[error("no cluster can be made from this backup:\n{}\nnothing was changed", lines(.problems))]
    CannotUseBackup {
        /// Every one of them, with what can be done.
        problems: Vec<String>,
    },
    /// A cluster is made from a backup on hosts that have one.
    #[error("no cluster can be made from this backup on these hosts:\n{}\nnothing was changed", lines(.problems))]
    NotFresh {
        /// Every one of them, with what can be done.
        problems: Vec<String>,
    },
    /// A `create` without the backup that an earlier one has begun with.
    #[error(
        "cluster {cluster} is being made from its backup ({host} says so), and its data is not there yet: without the backup an empty \
         cluster would get its id. Continue with `kubexm-install create --from-backup BACKUP` and the same bundle and cluster.yaml, or remove \
         what is there with `kubexm-install rollback`, or with `kubexm-install reset`"
    )]
    BackupNeeded { host: String, cluster: String },
    /// The registry cannot be pruned.
    #[error("the registry cannot be pruned: {reason}")]
    CannotPrune {
        /// Why, and what can be done.
        reason: String,
    },
    /// A reset would delete folders that contain mounts which are in use or do not belong to a pod.
    #[error(
        "mounts in folders that the reset would delete:\n{}\nnothing was stopped, changed or deleted; unmount them, or stop what uses them (`fuser -vm` lists it), then run again",
        lines(.mounts)
    )]
    Mounted {
        /// Every one of every host: `node1: /var/lib/kubelet/pods (tmpfs of tmpfs)`.
        mounts: Vec<String>,
    },
    /// A reset would remove a switch that has links of the host.
    #[error(
        "links of the host that are ports of the pod network's switch, which a reset removes with the addresses that are on it:\n{}\nnothing was \
         stopped, changed or deleted; delete what has put them there (`kubectl get provider-networks`), wait until the links have their \
         addresses again, and run again",
        lines(.links)
    )]
    Switched {
        /// Every one of every host: `node1: eth1`.
        links: Vec<String>,
    },
    /// The facts of a host are missing.
    #[error("the facts of {host} were not gathered; run `kubexm-install preflight` and fix what it reports")]
    NoFacts { host: String },
    /// The cluster needs an IP address, and cluster.yaml has a name.
    #[error(
        "{host}: address {address:?} is a name, and nodes need an address of their own; add `internalAddress` to the host in cluster.yaml"
    )]
    NoAddress {
        host: String,
        /// The value in cluster.yaml.
        address: String,
    },
    /// An address that no node can have.
    #[error(
        "{host}: {address} in `internalAddress` is one of a link, of a loopback or of a group, which kubelet takes for no node's address; \
         give the host one that the others reach it by"
    )]
    BadAddress {
        host: String,
        /// The value in cluster.yaml.
        address: std::net::IpAddr,
    },
    /// Pods have addresses of two families, and the node has one.
    #[error(
        "{host} has no IPv6 address in cluster.yaml, and spec.network.podCidr has both families; \
         write `internalAddress: [IPV4, IPV6]`, both of one interface"
    )]
    OneFamily { host: String },
    /// The machine's architecture differs from cluster.yaml.
    #[error(
        "{host}: its architecture is {found}, but cluster.yaml has `arch: {configured}`; correct it, or leave it out"
    )]
    ArchMismatch {
        host: String,
        found: kubexm_spec::Arch,
        /// The value in cluster.yaml.
        configured: kubexm_spec::Arch,
    },
    /// The machine's architecture is not supported.
    #[error("{host}: its architecture is not supported; amd64 and arm64 are")]
    UnknownArch { host: String },
    /// A network in cluster.yaml that cannot be used.
    #[error("{field}: {value:?} {reason}")]
    BadNetwork {
        /// `spec.network.serviceCidr`.
        field: &'static str,
        /// Its value in cluster.yaml.
        value: String,
        /// What is wrong, and what is expected.
        reason: String,
    },
    /// Fields of the runtime's configuration that cannot be merged into kubexm's.
    #[error("spec.runtime.extraConfig cannot be merged into the runtime's configuration:\n{}", lines(.all))]
    ExtraConfig {
        /// Every one of them: `version: kubexm sets it; leave it out`.
        all: Vec<String>,
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
    #[error("the bundle's catalogue lacks what this cluster.yaml needs; build a bundle from it")]
    Catalogue(#[source] kubexm_manifests::RequireError),
    /// A host belongs to another cluster.
    #[error(
        "{host} belongs to cluster {found}, but the reset is of cluster {wanted}; use the cluster.yaml of {found}, or remove the host from this one"
    )]
    ClusterMismatch {
        host: String,
        found: String,
        /// The cluster to reset.
        wanted: String,
    },
    /// The hosts' stamps and the running cluster have different ids.
    #[error(
        "the hosts are stamped for cluster {cluster} with id {planned}, but the cluster that runs on them has the id {found}; find out \
         which of the two cluster.yaml describes before you continue"
    )]
    IdentityMismatch {
        /// `metadata.name`.
        cluster: String,
        /// The id in the stamps of its hosts.
        planned: ClusterId,
        /// The id of the running cluster.
        found: ClusterId,
    },
    /// Hosts do not say alike whether the cluster was adopted.
    #[error(
        "by the stamps of {} cluster {cluster} was adopted, and by those of {} kubexm-install has made it; what may be changed there depends on \
         that: find out who is right, and correct /var/lib/kubexm/stamp.json of the others",
        .adopted.join(", "),
        .made.join(", ")
    )]
    MarksDiffer {
        /// `metadata.name`.
        cluster: String,
        /// Those whose stamp has the mark.
        adopted: Vec<String>,
        /// Those whose stamp has it not.
        made: Vec<String>,
    },
    /// The bundle and the running cluster have different Kubernetes minor versions.
    #[error(
        "cluster {cluster} runs Kubernetes {server}, and the bundle has {bundle}: `kubeadm join` needs the cluster's own minor version; \
         use a bundle with Kubernetes {server}"
    )]
    MinorMismatch {
        /// `metadata.name`.
        cluster: String,
        /// The version of its API server.
        server: String,
        /// The version in the bundle.
        bundle: String,
    },
    /// A host's stamp is damaged, so it is unknown which cluster the host belongs to.
    #[error("{host}: {why}")]
    UnreadableStamp {
        host: String,
        /// What is wrong, and how to fix it.
        why: String,
    },
    /// A running cluster is not as it must be to be adopted.
    #[error("cluster {cluster} cannot be adopted; nothing was changed:{}", gap_lines(.problems))]
    CannotAdopt {
        /// `metadata.name`.
        cluster: String,
        /// Every problem: host, what is in the way, what can be done.
        problems: Vec<String>,
    },
    /// What kubexm has not made it does not change.
    #[error(
        "cluster {cluster} was adopted, and `kubexm-install {command}` does not work on adopted clusters yet: it would replace or remove what \
         others have made on {}; nothing was changed. `status`, `certs check`, `certs renew`, `upgrade`, `backup` and `drift` do work; `adopt --roll-back \
         RUN` takes the adoption back",
        .hosts.join(", ")
    )]
    Adopted {
        /// `metadata.name`.
        cluster: String,
        /// The words of the command.
        command: &'static str,
        /// Hosts with the stamp of an adopted cluster.
        hosts: Vec<String>,
    },
    /// This adopted cluster is not as a pipeline needs it.
    #[error("cluster {cluster} was adopted, and kubexm-install cannot {what}; nothing was changed:{}\n{by_hand}", gap_lines(.problems))]
    ByHand {
        /// `metadata.name`.
        cluster: String,
        /// What is not done.
        what: &'static str,
        /// Every reason.
        problems: Vec<String>,
        /// What to do instead.
        by_hand: &'static str,
    },
    /// A reset of some hosts includes a member of a cluster that stays.
    #[error(
        "{host} is a member of cluster {cluster}{id}, which stays: if only this host were reset, its node object and etcd member would \
         remain; omit --only to reset the whole cluster"
    )]
    StillMember {
        host: String,
        /// `metadata.name`.
        cluster: String,
        /// ` with id …`, or nothing.
        id: String,
    },
    /// A host was named that is not in cluster.yaml.
    #[error("{host} is not a host of cluster {cluster}; its hosts are {known}")]
    UnknownHost {
        host: String,
        /// `metadata.name`.
        cluster: String,
        /// Names in cluster.yaml.
        known: String,
    },
    /// A host that cannot be deleted from the cluster.
    #[error("{host} cannot be deleted: {reason}; nothing was changed")]
    CannotDelete {
        host: String,
        /// Why, and what can be done.
        reason: String,
    },
    /// Certificates cannot be renewed before something is mended.
    #[error("the certificates cannot be renewed yet; nothing was changed:{}", gap_lines(.problems))]
    CannotRenew {
        /// Every problem: host, what is wrong, what can be done.
        problems: Vec<String>,
    },
    /// What the cluster has in an etcd of the user's cannot be deleted.
    #[error("the data in etcd cannot be deleted; nothing was changed:{}", gap_lines(.problems))]
    CannotDeleteEtcd {
        /// Every problem: what is wrong, what can be done.
        problems: Vec<String>,
    },
    /// A backup cannot be restored before something is mended.
    #[error("the backup cannot be restored; nothing was changed:{}", gap_lines(.problems))]
    CannotRestore {
        /// Every problem: host, what is wrong, what can be done.
        problems: Vec<String>,
    },
    /// The cluster is not in a state from which it can be upgraded with this bundle.
    #[error("cluster {cluster} cannot be upgraded to {target}; nothing was changed:{}", gap_lines(.problems))]
    CannotUpgrade {
        /// `metadata.name`.
        cluster: String,
        /// The version in the bundle.
        target: String,
        /// All of them: what was found, and what can be done.
        problems: Vec<String>,
    },
    /// The state of the cluster, on which a deletion or an upgrade depends, could not be observed.
    #[error("{what} could not be observed, and without that nothing can be planned safely; nothing was changed{}", gap_lines(.gaps))]
    Unobserved {
        /// `the nodes of the cluster`.
        what: &'static str,
        /// Reasons, one line each.
        gaps: Vec<String>,
    },
    /// A host that stays in the cluster was not reached.
    #[error(
        "{} cannot be reached, and stay in the cluster: the deleted hosts' names have to be removed from their /etc/hosts; only hosts \
         that are deleted can be skipped, so fix the connection first; nothing was changed",
        .hosts.join(", ")
    )]
    Unreached {
        /// Their names.
        hosts: Vec<String>,
    },
    /// A node's ledger was written by a newer program.
    #[error(
        "{host}: its ledger has schema {found}, and this kubexm-install knows {known}; use the version that created the cluster, or a newer one"
    )]
    NewerLedger {
        host: String,
        /// The schema of its ledger.
        found: u32,
        /// The newest schema that this program reads.
        known: u32,
    },
    /// A before-state in a ledger cannot be read, so the host's earlier state is unknown.
    #[error(
        "{host}: its ledger does not record what was there before step {step} ({op}); without that it cannot be reset"
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
    /// Missing packages cannot be installed on a host.
    #[error("{host}: {why}; `kubexm-install preflight` shows what can be done")]
    Packages {
        host: String,
        /// The missing packages, and why they cannot be installed.
        why: String,
    },
    /// Packages that are installed cannot be brought to the bundle's versions.
    #[error("packages of these hosts cannot be upgraded; without --os-packages they stay as they are; nothing was changed:{}", gap_lines(.problems))]
    OlderPackages {
        /// Each host, and why.
        problems: Vec<String>,
    },
    /// Settings of the pod network that a running cluster keeps.
    #[error(
        "the pod network of cluster {cluster} stays as it was made; nothing was changed:{}\nrevert the change in cluster.yaml. How a running \
         cluster moves to other addresses is in the documentation of its plugin",
        gap_lines(.changed)
    )]
    NetworkChanged {
        /// `metadata.name`.
        cluster: String,
        /// Each with what cluster.yaml says, and what the cluster has.
        changed: Vec<String>,
    },
    /// The volumes of a running cluster lie on another export.
    #[error(
        "cluster {cluster} has its volumes on another NFS export than cluster.yaml names, and no command moves them:{}\nnothing was changed; \
         write the server and path of the cluster, and give the other export a class of its own with an add-on (`source: {{catalogue: \
         nfs-provisioner}}` under another name, with values)",
        gap_lines(.changed)
    )]
    StorageChanged {
        /// `metadata.name`.
        cluster: String,
        /// Each with what cluster.yaml says, and what the cluster has.
        changed: Vec<String>,
    },
    /// Upstream's manifest is not as the recipe knows it.
    #[error(
        "the bundle's {program} {version} is not as this kubexm-install knows it: {}; nothing was changed. Name a version of the catalogue in \
         spec.network.version and build the bundle again, or use the kubexm-install that belongs to this bundle",
        .problems.join("; ")
    )]
    Manifest {
        /// `calico-manifest`.
        program: &'static str,
        /// Of it.
        version: String,
        /// What was not found, or is something else.
        problems: Vec<String>,
    },
    /// A template does not render; a bug in kubexm.
    #[error("template {name} does not render; this is a bug in kubexm-install")]
    Template {
        name: &'static str,
        /// minijinja's error.
        #[source]
        source: minijinja::Error,
    },
    /// A document cannot be written; a bug in kubexm.
    #[error("{name} cannot be written as a document: {reason}; this is a bug in kubexm-install")]
    Document {
        name: &'static str,
        /// The serialiser's error.
        reason: String,
    },
}
