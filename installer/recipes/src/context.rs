//! The input of planning: the cluster, the bundle's manifest and catalogue, and the facts about the hosts.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use kubexm_plan::{BundleRecord, ClusterId, Facts};
use kubexm_spec::cluster::{Cluster, Host, Kubernetes, MaterialFile, Roles};
use kubexm_spec::manifest::Artifact;
use kubexm_spec::{ArtifactKey, ClusterImage, Digest, Manifest, Platform, Program, names};

use crate::backup_source::BackupSource;
use crate::charts::CarriedCharts;
use crate::error::RecipeError;
use crate::packages::CarriedPackages;
use crate::signed::SignedCertificates;
use crate::time_servers::is_server;

/// Minor versions that recipes install (`installable` in the catalogue).
pub const INSTALLABLE: [&str; 13] =
    ["1.24", "1.25", "1.26", "1.27", "1.28", "1.29", "1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36"];

/// The whole input of a recipe: recipes do no IO.
#[derive(Clone, Copy, Debug)]
pub struct PlanContext<'a> {
    /// The cluster, defaults filled in.
    pub cluster: &'a Cluster,
    /// The cluster's id: read from the hosts' stamps ([`crate::Identity`]), or new. None if nothing is planned.
    pub cluster_id: Option<ClusterId>,
    /// Digest of its cluster.yaml.
    pub cluster_digest: Digest,
    /// The bundle's manifest.
    pub manifest: &'a Manifest,
    /// Digest of manifest.json.
    pub manifest_digest: Digest,
    /// The bundle and its signers, as recorded on nodes.
    pub bundle_record: Option<&'a BundleRecord>,
    /// The bundle's own catalogue.
    pub catalogue: &'a kubexm_manifests::Catalogue,
    /// By host name.
    pub facts: &'a BTreeMap<String, Facts>,
    /// Content of the hosts' state folders is moved aside (`--set-aside`); otherwise preflight refuses it.
    pub set_aside: bool,
    /// Hosts take nothing from each other in this run (`--no-fan-out`), so preflight does not look at their port for that. The plan
    /// is the same.
    pub without_fan_out: bool,
    /// The bundle's packages for the hosts' distributions.
    pub packages: &'a CarriedPackages,
    /// Files of the user that cluster.yaml names, by their name there; each was validated for its field.
    pub materials: &'a Materials,
    /// How the bundle's charts were rendered.
    pub charts: &'a CarriedCharts,
    /// For whom the authorities are sealed; none where nothing is planned.
    pub sealing: Option<&'a Sealing>,
    /// The backup that the cluster is made from.
    pub from_backup: Option<&'a BackupSource>,
    /// What the site's CA has signed, where its key stays with the site.
    pub signed: Option<&'a SignedCertificates>,
}

/// For whom the cluster's authorities are sealed, in addition to `spec.operators`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sealing {
    /// Public keys of age identities: the operator's own, and those of earlier homes that cluster.yaml does not name.
    pub others: Vec<String>,
    /// A new CA for the registry is made in place of the one that the cluster has.
    pub new_registry_ca: bool,
}

/// Texts of materials by name ([`kubexm_spec::cluster::MaterialFile`]).
pub type Materials = BTreeMap<String, String>;

/// A host with everything that modules need to know about it.
#[derive(Clone, Copy, Debug)]
pub struct PlannedHost<'a> {
    /// The host in cluster.yaml.
    pub host: &'a Host,
    /// Its observed facts.
    pub facts: &'a Facts,
    /// Its address inside the cluster.
    pub ip: IpAddr,
    /// Its platform.
    pub platform: Platform,
    /// Its roles in the cluster.
    pub roles: Roles,
    /// Other hosts synchronise their clocks with it.
    pub serves_time: bool,
}

impl PlannedHost<'_> {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.host.name
    }

    /// Its addresses inside the cluster as kubelet takes them (`--node-ip`): one, or one of each family.
    pub fn ips(&self, cluster: &Cluster) -> Result<String, RecipeError> {
        if !cluster.network.has_two_stacks() {
            return Ok(self.ip.to_string());
        }
        let second =
            self.host.second_node_ip().ok_or_else(|| RecipeError::OneFamily { host: self.name().to_owned() })?;
        Ok(format!("{},{second}", self.ip))
    }

    /// Whether it is a node of the cluster; a host that only serves the registry is not.
    pub const fn in_cluster(&self) -> bool {
        self.roles.in_cluster()
    }

    /// Whether the cluster may be created without it: a worker with no other role that does not serve the time.
    pub const fn optional(&self) -> bool {
        self.roles.only_worker() && !self.serves_time
    }

    /// The interface that has the node's address.
    pub fn interface(&self) -> Result<&str, RecipeError> {
        let has = |address: &str| address.split_once('/').map_or(address, |(ip, _)| ip).parse() == Ok(self.ip);
        let interfaces = &self.facts.interfaces;
        interfaces.iter().find(|i| i.addresses.iter().any(|a| has(a))).map(|i| i.name.as_str()).ok_or_else(|| {
            let found: Vec<_> = interfaces.iter().map(|i| format!("{} {}", i.name, i.addresses.join(" "))).collect();
            RecipeError::NoInterface {
                host: self.name().to_owned(),
                address: self.ip.to_string(),
                found: if found.is_empty() { "none".to_owned() } else { found.join(", ") },
            }
        })
    }

    /// Nameservers that pods can use: those that cluster.yaml adds and those of the node.
    pub fn upstream_nameservers(&self, cluster: &Cluster) -> Vec<IpAddr> {
        upstream_nameservers(cluster, self.facts)
    }
}

/// The same of a host's facts.
pub fn upstream_nameservers(cluster: &Cluster, facts: &Facts) -> Vec<IpAddr> {
    let mut usable: Vec<IpAddr> = Vec::new();
    for address in cluster.extra.resolves.iter().copied().chain(usable_nameservers(facts)) {
        if !is_host_local(address) && !usable.contains(&address) {
            usable.push(address);
        }
    }
    usable
}

/// A host's nameservers that pods can reach: from /etc/resolv.conf, and those behind systemd-resolved's stub.
pub fn usable_nameservers(facts: &Facts) -> impl Iterator<Item = IpAddr> {
    let all = facts.nameservers.iter().chain(&facts.resolved_nameservers).flatten();
    all.copied().filter(|address| !is_host_local(*address))
}

/// Whether a nameserver's address is local to its host: a pod cannot reach it, or would reach itself.
pub const fn is_host_local(nameserver: IpAddr) -> bool {
    nameserver.is_loopback() || nameserver.is_unspecified()
}

impl<'a> PlanContext<'a> {
    /// `spec.kubernetes`.
    pub fn kubernetes(&self) -> Result<&'a Kubernetes, RecipeError> {
        self.cluster.kubernetes.as_ref().ok_or(RecipeError::NoCluster)
    }

    /// Every host in the order of cluster.yaml.
    pub fn nodes(&self) -> Result<Vec<PlannedHost<'a>>, RecipeError> {
        if self.cluster.hosts.is_empty() {
            return Err(RecipeError::NoHosts { what: "hosts" });
        }
        self.cluster.hosts.iter().map(|host| self.node(host)).collect()
    }

    fn node(&self, host: &'a Host) -> Result<PlannedHost<'a>, RecipeError> {
        let name = || host.name.clone();
        let facts = self.facts.get(&host.name).ok_or_else(|| RecipeError::NoFacts { host: name() })?;
        let arch = facts.arch.ok_or_else(|| RecipeError::UnknownArch { host: name() })?;
        if let Some(configured) = host.arch.filter(|configured| *configured != arch) {
            return Err(RecipeError::ArchMismatch { host: name(), found: arch, configured });
        }
        let ip =
            host.node_ip().ok_or_else(|| RecipeError::NoAddress { host: name(), address: host.address.clone() })?;
        Ok(PlannedHost {
            host,
            facts,
            ip,
            platform: Platform { arch },
            roles: self.cluster.roles(&host.name),
            serves_time: is_server(self.cluster, host),
        })
    }

    /// An artifact of the bundle; it exists after [`crate::bundle::check`].
    pub fn artifact(&self, key: &ArtifactKey, platform: Platform) -> Result<&'a Artifact, RecipeError> {
        self.manifest
            .find(key, platform)
            .ok_or_else(|| RecipeError::NotInBundle { missing: vec![format!("{key} for {platform}")] })
    }

    /// The text of a material; it exists after [`crate::bundle::check`].
    pub fn material(&self, file: &MaterialFile) -> Result<&'a str, RecipeError> {
        let missing =
            || RecipeError::NotInBundle { missing: vec![ArtifactKey::Material(file.name.clone()).to_string()] };
        self.materials.get(&file.name).map(String::as_str).ok_or_else(missing)
    }

    /// A program of the bundle.
    pub fn program(&self, program: Program, platform: Platform) -> Result<&'a Artifact, RecipeError> {
        self.artifact(&ArtifactKey::Binary(program), platform)
    }

    /// An image of the bundle.
    pub fn image(&self, image: ClusterImage, platform: Platform) -> Result<&'a Artifact, RecipeError> {
        self.artifact(&ArtifactKey::Image(image), platform)
    }

    /// `v1.34.4`, the version of the bundle's kubeadm.
    pub fn kubernetes_version(&self, platform: Platform) -> Result<String, RecipeError> {
        Ok(format!("v{}", self.program(Program::Kubeadm, platform)?.version))
    }

    /// `registry.<cluster>.kubexm.internal:5443`: the depot, which serves blobs and files, and images where the registry
    /// is the embedded one.
    pub fn depot_address(&self) -> String {
        format!("{}:{}", names::registry_name(&self.cluster.name), self.cluster.registry.depot_port())
    }

    /// `registry.<cluster>.kubexm.internal:5443`, or `:5000` of the distribution registry: what nodes pull from.
    pub fn registry_address(&self) -> String {
        format!("{}:{}", names::registry_name(&self.cluster.name), self.cluster.registry.port)
    }

    /// The name of the control plane, `lb.<cluster>.kubexm.internal` unless cluster.yaml sets another.
    pub fn control_plane_name(&self) -> String {
        self.cluster.control_plane_name()
    }

    /// Nodes of the control plane in the order of the role group: the first one runs `kubeadm init`.
    pub fn control_planes(&self, nodes: &[PlannedHost<'a>]) -> Result<Vec<PlannedHost<'a>>, RecipeError> {
        let find = |name: &String| nodes.iter().find(|n| n.name() == name).copied();
        let found: Vec<PlannedHost<'a>> = self.cluster.role_groups.control_plane.iter().filter_map(find).collect();
        if found.is_empty() { Err(RecipeError::NoHosts { what: "control plane" }) } else { Ok(found) }
    }

    /// kubeadm's API version for the bundle's Kubernetes, `v1beta4`; a minor version without a recipe is refused.
    pub fn kubeadm_api(&self, platform: Platform) -> Result<&'a str, RecipeError> {
        let version = self.kubernetes_version(platform)?;
        let release = self.catalogue.release(&version).ok_or_else(|| RecipeError::NotInBundle {
            missing: vec![format!("catalogue entry for Kubernetes {version}")],
        })?;
        if !release.installable {
            let hint = match INSTALLABLE.contains(&release.minor.as_str()) {
                true => "build the bundle again: the kubexm-bundle that made it knew of no recipe for this version"
                    .to_owned(),
                false => {
                    let known = INSTALLABLE.join(", ");
                    format!("name one of {known} in spec.kubernetes.version and build the bundle again")
                }
            };
            return Err(RecipeError::Unsupported { what: format!("installing Kubernetes {}", release.minor), hint });
        }
        Ok(&release.kubeadm_api)
    }

    /// The `n`th address of the service network: 1 is the API's service, 10 is DNS (kubeadm's convention).
    pub fn service_address(&self, n: u32) -> Result<IpAddr, RecipeError> {
        service_address(self.cluster, n)
    }
}

/// The `n`th address of a cluster's service network.
pub fn service_address(cluster: &Cluster, n: u32) -> Result<IpAddr, RecipeError> {
    let network = cluster.network.service_cidr;
    let address = match network {
        IpNet::V4(v4) => u32::from(v4.network()).checked_add(n).map(|address| IpAddr::from(address.to_be_bytes())),
        IpNet::V6(v6) => {
            u128::from(v6.network()).checked_add(n.into()).map(|address| IpAddr::from(address.to_be_bytes()))
        }
    };
    address.filter(|address| network.contains(address)).ok_or_else(|| RecipeError::BadNetwork {
        field: "spec.network.serviceCidr",
        value: network.to_string(),
        reason: "is too small; at least a /24 is required".to_owned(),
    })
}
