//! The content store of a node, and on the registry host the depot that serves it.
//!
//! The depot runs with every type of registry, because other nodes fetch their blobs from it. It serves images only if
//! the registry is the embedded one.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use kubexm_plan::op::{Blobs, Dir, File, Unit};
use kubexm_plan::{CertificateUse, Probe, SlotProvider, Step, Undo, network};
use kubexm_spec::cluster::{Cluster, Listen, RegistryKind, RuntimeKind};
use kubexm_spec::depot::{self, DepotConfig, Tls, is_served};
use kubexm_spec::{ArtifactKey, Digest, Kind, Program, names};
use minijinja::context;

use crate::charts;
use crate::context::{PlanContext, PlannedHost};
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::modules::issued::Issued;
use crate::modules::{images, login, packages};
use crate::packages::{self as carried, NodePackages};
use crate::templates::template;
use crate::{fan_out, paths, registries, runtime};

/// Slot of the registry's CA certificate, which nodes trust.
pub const CA_SLOT: &str = "registry-ca";
/// Slot of the server certificate of the registry host.
const CERT_SLOT: &str = "registry-cert";
/// Slot of its key.
const KEY_SLOT: &str = "registry-key";
const UNIT: &str = kubexm_plan::depot::UNIT;
/// The first version of systemd with `LoadCredential=` (its NEWS).
const LOAD_CREDENTIAL: u32 = 247;
/// The first port that needs no capability (ip(7), `ip_unprivileged_port_start`).
const FIRST_UNPRIVILEGED: u16 = 1024;

/// Puts blobs into the node's content store: on the registry host everything that the depot serves; on other nodes
/// the archives of their programs and the packages to install. Images come from the registry, or are imported from this store.
pub fn store(draft: &Draft<'_>, node: &PlannedHost<'_>, packages: &[&NodePackages<'_>]) -> Step {
    let imported = runtime::imports(draft.cx.cluster);
    // Images come from the user's registry.
    let external = draft.cx.cluster.registry.kind == RegistryKind::External;
    let mut blobs: BTreeMap<Digest, u64> = BTreeMap::new();
    for artifact in &draft.cx.manifest.artifacts {
        let own = artifact.platform.is_none_or(|p| p == node.platform)
            && match artifact.key {
                ArtifactKey::Binary(Program::Registry | Program::Harbor | Program::DockerCompose) => {
                    node.roles.registry
                }
                // Its text is in the plan.
                ArtifactKey::Binary(program) if network::any().any(|network| network.manifest == Some(program)) => {
                    false
                }
                ArtifactKey::Binary(Program::Docker) => {
                    node.roles.registry || draft.cx.cluster.runtime.kind == RuntimeKind::Docker
                }
                // A member of etcd alone carries no Kubernetes.
                ArtifactKey::Binary(program) => {
                    node.in_cluster() || node.roles.registry || (node.roles.etcd && program == Program::Etcd)
                }
                ArtifactKey::Image(image) => {
                    imported && images::of_roles(draft.cx.cluster, node).any(|needed| needed == image)
                }
                ArtifactKey::ExtraImage(_) | ArtifactKey::FeatureImage(_) | ArtifactKey::ChartImage(_) => {
                    imported && node.in_cluster()
                }
                ArtifactKey::Chart(_) | ArtifactKey::Yaml(_) => charts::is_needed_on(draft.cx, node, &artifact.key),
                ArtifactKey::Installer
                | ArtifactKey::ExtraFile(_)
                | ArtifactKey::Material(_)
                | ArtifactKey::Package { .. } => false,
            };
        let served = is_served(&artifact.key) && !(external && artifact.key.kind() == Kind::Image);
        if (node.roles.registry && served) || own {
            blobs.extend(artifact.blobs.iter().map(|b| (b.digest, b.size)));
        }
    }
    blobs.extend(packages.iter().flat_map(|planned| packages::blobs(planned)));
    fill(draft.cx, node, blobs)
}

/// Puts these blobs, with their sizes, into a node's content store.
pub fn fill(cx: &PlanContext<'_>, node: &PlannedHost<'_>, blobs: BTreeMap<Digest, u64>) -> Step {
    let timeout = Blobs::delivery_s(blobs.values().sum());
    let shared_at = fan_out::address(cx, node);
    // What is left has its whole time without the other hosts, should they have wasted theirs.
    let beside = shared_at.map_or(0, |_| timeout / 2);
    let timeout = timeout + beside;
    Step::on(node.name(), "store.fill", "Copy the bundle's content to the node")
        .ensure(Blobs { blobs, depots: None, shared_at })
        .timeout_s(timeout)
        .retries(2)
        .undo(Undo::RestoreBefore)
        .build()
}

/// The server certificate of a registry host, shared by the depot and the registry there. Each host has its own.
pub fn issued(cluster: &Cluster, host: &str, ip: IpAddr, (certificate, key): (&'static str, &'static str)) -> Issued {
    let sans = vec![names::registry_name(&cluster.name), host.to_owned(), ip.to_string()];
    let slot = |slot: &str| match registries::is_source(cluster, host) {
        true => slot.to_owned(),
        false => format!("{slot}-{host}"),
    };
    let usage = CertificateUse { sans, ..CertificateUse::default() };
    Issued { slot: slot(CERT_SLOT), key_slot: slot(KEY_SLOT), usage, certificate, key }
}

/// The depot's unit.
pub fn unit(cluster: &Cluster) -> Unit {
    let loaded = [paths::unit(UNIT), paths::DEPOT_CERT.to_owned(), paths::DEPOT_KEY.to_owned()].into_iter();
    Unit {
        name: UNIT.to_owned(),
        enabled: true,
        running: Some(true),
        // It gets certificate, key and login when it starts.
        loaded: loaded.chain(cluster.depot_login().map(|_| paths::DEPOT_HTPASSWD.to_owned())).collect(),
        reloaded: vec![paths::DEPOT_CONFIG.to_owned()],
    }
}

/// Whether the depot of a registry host answers there.
pub fn answers(cluster: &Cluster, ip: IpAddr) -> Probe {
    let address = registries::own_address(cluster, ip, cluster.registry.depot_port());
    Probe::Https {
        url: format!("https://{address}/v2/"),
        ca: paths::DEPOT_CA.to_owned(),
        login: cluster.depot_login().map(|_| paths::DEPOT_LOGIN.to_owned()),
    }
}

/// The depot as a unit of the registry host: it survives the installer's exit and a reboot.
pub fn serve(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Result<Step, RecipeError> {
    let cx = draft.cx;
    let tls = Tls { cert: paths::DEPOT_CERT.to_owned(), key: paths::DEPOT_KEY.to_owned() };
    let address = match cx.cluster.registry.listen {
        Listen::AllAddresses => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        Listen::NodeAddress => node.ip,
    };
    let listen = SocketAddr::from((address, cx.cluster.registry.depot_port()));
    let mut config = DepotConfig::serving(cx.manifest, listen, paths::STORE, tls);
    if cx.cluster.registry.kind != RegistryKind::Embedded {
        config.images.clear();
    }
    let mut metadata = BTreeMap::new();
    config.packages = repositories(draft, node, &mut metadata);
    let folder = config.packages.is_some().then(|| Dir { path: paths::DEPOT_METADATA.to_owned(), mode: 0o755 });
    config.login = cx.cluster.depot_login().map(|_| paths::DEPOT_HTPASSWD.to_owned());
    let text = document(&config)?;
    // What another registry has is in the record, too: it says what a bundle has brought.
    let images = if config.images.is_empty() { registries::repositories(cx) } else { config.images.clone() };
    let record = document(&DepotConfig { images, ..config.clone() })?;

    let htpasswd = login::server_file(draft, paths::DEPOT_HTPASSWD, 0o600);
    let own_login = login::client_file(draft, paths::DEPOT_LOGIN);
    let identity = draft.issued(issued(cx.cluster, node.name(), node.ip, (paths::DEPOT_CERT, paths::DEPOT_KEY)));
    let load_credential = node.facts.systemd.is_some_and(|version| version >= LOAD_CREDENTIAL);
    let unit = draft.template(
        paths::unit(UNIT),
        template!("kubexm-depot.service"),
        context! {
            bin => paths::BIN,
            config => paths::DEPOT_CONFIG,
            cert => paths::DEPOT_CERT,
            key => paths::DEPOT_KEY,
            htpasswd => &config.login,
            load_credential,
            tls => if load_credential { "${CREDENTIALS_DIRECTORY}" } else { "/run/kubexm-depot" },
            privileged_port => listen.port() < FIRST_UNPRIVILEGED,
        },
    )?;
    Ok(Step::on(node.name(), "depot.serve", "Serve the bundle's images and files")
        // The depot is not root: only the key and the login are.
        .ensure(Dir { path: "/etc/kubexm/depot".to_owned(), mode: 0o755 })
        .ensure_all(folder)
        .ensure_all(metadata.into_values())
        .ensure(draft.slot_file(paths::DEPOT_CA, 0o644, CA_SLOT, SlotProvider::REGISTRY_CA))
        .ensure_all(identity)
        .ensure_all(htpasswd)
        .ensure_all(own_login)
        // It stays when another bundle comes: pods of before ask for its images.
        .ensure(Dir { path: paths::DEPOT_BUNDLES.to_owned(), mode: 0o755 })
        .ensure(draft.file(record_of(cx, node), 0o644, record))
        .ensure(draft.file(paths::DEPOT_CONFIG, 0o644, text))
        .ensure(unit)
        .ensure(self::unit(cx.cluster))
        .probe(answers(cx.cluster, node.ip), 30)
        .timeout_s(120)
        .undo(Undo::RestoreBefore)
        .build())
}

/// The record of what a bundle has brought to this host: `v1.34.4-` and the beginning of its manifest's digest.
fn record_of(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> String {
    let version = cx.kubernetes_version(node.platform).map(|version| format!("{version}-")).unwrap_or_default();
    format!("{}/{version}{}.json", paths::DEPOT_BUNDLES, &cx.manifest_digest.hex()[..16])
}

fn document(config: &DepotConfig) -> Result<String, RecipeError> {
    let text = serde_json::to_string_pretty(config);
    let text = text.map_err(|e| RecipeError::Document { name: "depot config", reason: e.to_string() })?;
    Ok(format!("{text}\n"))
}

/// One repository for each package set of the bundle, with all files except the packages. Files are stored by digest,
/// so that the depot serves one consistent state of a repository until its configuration names the next.
fn repositories(
    draft: &mut Draft<'_>,
    node: &PlannedHost<'_>,
    files: &mut BTreeMap<Digest, File>,
) -> Option<depot::Packages> {
    let cx = draft.cx;
    let url = format!("https://{}/packages", SocketAddr::from((node.ip, cx.cluster.registry.depot_port())));
    let username = cx.cluster.depot_login().map(|login| login.username);
    let site = carried::DepotUse { cluster: &cx.cluster.name, username };
    let mut repositories = BTreeMap::new();
    for set in cx.packages.sets.iter().filter(|set| !set.repository.is_empty()) {
        let (os, platform) = (&set.set.os, set.set.platform);
        let name = carried::name(os, platform.arch);
        let mut metadata = BTreeMap::new();
        for file in carried::served(set, site, &format!("{url}/{name}")) {
            let digest = Digest::of(&file.text);
            let path = format!("{}/blobs/sha256/{}", paths::DEPOT_METADATA, digest.hex());
            files.entry(digest).or_insert_with(|| draft.file(path, 0o644, file.text));
            metadata.insert(file.path, digest);
        }
        let packages = depot::packages_of(cx.manifest, os, platform);
        repositories.insert(name, depot::PackageRepository { family: set.profile.family, metadata, packages });
    }
    let metadata = paths::DEPOT_METADATA.to_owned();
    (!repositories.is_empty()).then_some(depot::Packages { url, metadata, repositories })
}
