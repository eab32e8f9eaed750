//! CRI-O with its own runc and conmon, from upstream's archive; it pulls images only from the cluster's registry
//! (`crio.conf.d(5)`, `containers-registries.conf.d(5)`).

use std::collections::{BTreeMap, BTreeSet};

use kubexm_plan::op::{Dir, File, StateDir, Unit};
use kubexm_plan::runtime::cri_o;
use kubexm_plan::{LoginForm, Op, Probe, SlotName, SlotProvider, Step, Undo};
use kubexm_spec::cluster::{RegistryKind, RegistryLogin, RuntimeKind};
use kubexm_spec::{ClusterImage, Program, Version};
use minijinja::context;
use toml::Table;

use super::of_cluster::{cgroup_driver, of, upstream_hosts};
use super::steps::{RuntimeSteps, with_cni};
use super::virtual_machines;
use crate::context::{PlanContext, PlannedHost};
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::image_registry::ImageRegistry;
use crate::modules::{depot, images, login, programs};
use crate::templates::template;
use crate::{paths, selinux, templates};

/// Others' files are read before it or after it, in the order of their names.
/// Drop-ins that virtual machines come with: their handlers, and an empty one.
const OF_MACHINES: [&str; 2] = ["99-kata-deploy", "100-debug"];
const REGISTRIES: &str = "/etc/containers/registries.conf.d/90-kubexm.conf";
/// One folder for each registry, with its CA (`containers-certs.d(5)`).
const CERTS_D: &str = "/etc/containers/certs.d";
/// Which images are accepted; without such a file CRI-O pulls nothing (`containers-policy.json(5)`). Its own, since that of
/// /etc/containers belongs to podman and skopeo, too.
const POLICY: &str = "/etc/crio/kubexm-policy.json";
/// Logins, with the passwords that it shows (`containers-auth.json(5)`).
const LOGINS: &str = "/etc/crio/kubexm-auth.json";
/// Slot of the login.
const LOGIN_SLOT: &str = "registry-auth";
/// Folders that CRI-O makes when it starts, outside of its own: hooks and files of others may be there.
const MADE: [&str; 5] = [
    "/etc/crio/auth",
    "/etc/crio/policies",
    "/usr/share/containers",
    "/usr/share/containers/oci",
    "/usr/share/containers/oci/hooks.d",
];
/// Keys of its configuration that are looked at when it runs.
const SHOWN: [&str; 8] = [
    "root",
    "pause_image",
    "pinned_images",
    "signature_policy",
    "cgroup_manager",
    "container_exits_dir",
    "default_runtime",
    "network_dir",
];
/// The first minor version that reads the files of registries again without a restart.
const FIRST: (u64, u64) = (1, 30);

/// Fails if the configuration that is written is not that of this version.
pub fn check_version(version: &str) -> Result<(), RecipeError> {
    let mut numbers = Version::of(version).numbers();
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) if (major, minor) >= FIRST => Ok(()),
        _ => Err(RecipeError::Unsupported {
            what: format!("CRI-O {version} (before {}.{} it has other settings)", FIRST.0, FIRST.1),
            hint: "name a newer Kubernetes, whose minor version CRI-O follows, or use containerd".to_owned(),
        }),
    }
}

pub(super) fn steps(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Result<RuntimeSteps, RecipeError> {
    check_version(&draft.cx.program(Program::CriO, node.platform)?.version)?;
    let (programs, mirrors) = (programs(draft.cx, node)?, mirrors(draft, node)?);
    Ok(RuntimeSteps { programs, mirrors, run: run(draft, node)?, reload: Some(reload(draft, node)?) })
}

fn folder(cx: &PlanContext<'_>) -> &'static str {
    of(cx.cluster).programs.unwrap_or(paths::BIN)
}

fn programs(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Result<Step, RecipeError> {
    let folder = folder(cx);
    let step = Step::on(node.name(), "runtime.programs", "Install CRI-O and the CNI plugins")
        .ensure(Dir { path: folder.to_owned(), mode: 0o755 })
        .ensure(programs::install(cx, node, Program::CriO, folder)?);
    with_cni(step, cx, node)
}

/// Each upstream host is a folder of the registry. The format has no default entry, so CRI-O would contact any other host directly, and run
/// what it gets there: the policy accepts images by the names of these hosts and of the registry alone.
fn mirrors(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Result<Step, RecipeError> {
    let cx = draft.cx;
    if cx.cluster.registry.kind == RegistryKind::None {
        return Err(RecipeError::Unsupported {
            what: "spec.runtime.type cri-o without a registry".to_owned(),
            hint: "name a registry in spec.registry.type".to_owned(),
        });
    }
    let registry = ImageRegistry::of(cx, node)?;
    let own = |host: &String| registry.shared && registry.addresses.contains(host);
    let upstream = upstream_hosts(cx);
    let hosts: BTreeSet<String> = upstream.iter().chain(&registry.addresses).cloned().collect();
    let mirrors: Vec<_> = upstream
        .iter()
        .filter(|host| !own(host))
        .map(|host| context! { folder => registry.path(cx, host).trim_start_matches("/v2"), host => host })
        .collect();
    let (registries, insecure) = (&registry.addresses, registry.insecure);
    let named = registry.shared && insecure;
    let config = draft.template(
        REGISTRIES,
        template!("cri-o-registries.conf"),
        context! { registries, mirrors, insecure, named },
    )?;
    let whose = if registry.external { "your" } else { "the cluster's" };
    let folders = [depot_ca(draft)];
    Ok(Step::on(node.name(), "runtime.mirrors", &format!("Point CRI-O at {whose} registry"))
        .ensure_all(folders)
        .ensure(Dir { path: "/etc/containers".to_owned(), mode: 0o755 })
        .ensure(Dir { path: of(cx.cluster).registries.to_owned(), mode: 0o755 })
        .ensure(Dir { path: CERTS_D.to_owned(), mode: 0o755 })
        .ensure_all(trusted(draft, &registry))
        .ensure(Dir { path: "/etc/crio".to_owned(), mode: 0o755 })
        .ensure_all(logins(draft, &registry)?)
        .ensure(config)
        .ensure(draft.template(POLICY, template!("cri-o-policy.json"), context! { hosts })?)
        .undo(Undo::RestoreBefore)
        .build())
}

/// What nodes fetch the bundle's content with, whatever their images come from.
fn depot_ca(draft: &mut Draft<'_>) -> File {
    draft.slot_file(paths::REGISTRY_CA, 0o644, depot::CA_SLOT, SlotProvider::REGISTRY_CA)
}

fn trusted(draft: &mut Draft<'_>, registry: &ImageRegistry) -> Vec<Op> {
    let Some(ca) = &registry.ca else { return Vec::new() };
    let mut trusted = Vec::new();
    for address in &registry.addresses {
        let folder = format!("{CERTS_D}/{address}");
        let file = draft.slot_file(&format!("{folder}/ca.crt"), 0o644, ca.slot, ca.provider.clone());
        trusted.extend([Op::from(Dir { path: folder, mode: 0o755 }), Op::from(file)]);
    }
    trusted
}

fn login_of<'a>(cx: &PlanContext<'a>, registry: &ImageRegistry) -> Option<RegistryLogin<'a>> {
    if registry.external { cx.cluster.external_login() } else { cx.cluster.depot_login() }
}

/// Read at each pull; none if the registry demands no login.
fn logins(draft: &mut Draft<'_>, registry: &ImageRegistry) -> Result<Option<File>, RecipeError> {
    let Some(login) = login_of(draft.cx, registry) else { return Ok(None) };
    let provider = login::provider(login, LoginForm::Auth);
    let auth = SlotName(LOGIN_SLOT.to_owned()).placeholder();
    let logins: serde_json::Map<_, _> =
        registry.addresses.iter().map(|address| (address.clone(), serde_json::json!({ "auth": auth }))).collect();
    let text = serde_json::to_string_pretty(&serde_json::json!({ "auths": logins }))
        .map_err(|error| RecipeError::Document { name: "logins of CRI-O", reason: error.to_string() })?;
    Ok(Some(draft.filled_file(LOGINS, 0o600, LOGIN_SLOT, provider, |_| format!("{text}\n"))))
}

/// What the garbage collection of images leaves: every version of what is loaded, so that an image is pinned before CRI-O knows of
/// its version.
fn pinned(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Result<Vec<String>, RecipeError> {
    let of = |name: &str| match name.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') && !repository.contains('@') => format!("{repository}:*"),
        _ => name.to_owned(),
    };
    let mut pinned: Vec<String> = images::of_node(cx, node)?.iter().map(|(_, image)| of(&image.name)).collect();
    pinned.sort_unstable();
    pinned.dedup();
    Ok(pinned)
}

/// The text of kubexm's drop-in.
fn config(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Result<String, RecipeError> {
    let (cluster, bin) = (cx.cluster, folder(cx));
    let registry = ImageRegistry::of(cx, node)?;
    let values = context! {
        bin,
        pause => &cx.image(ClusterImage::Pause, node.platform)?.name,
        driver => cgroup_driver(cx)?,
        pinned => toml::Value::from(pinned(cx, node)?).to_string(),
        data => format!("{}/storage", cluster.runtime.kind.data_dir()),
        policy => POLICY,
        logins => login_of(cx, &registry).map(|_| LOGINS),
        socket => of(cluster).socket(),
        exits => cri_o::EXITS,
        namespaces => cri_o::NAMESPACES,
        runc_root => cri_o::RUNC_ROOT,
        selinux => selinux::confines(cluster),
        cni_bin => paths::CNI_BIN,
        cni_conf => paths::CNI_CONF,
    };
    templates::render(template!("cri-o.conf"), values)
}

/// What it sets, by key: `crio.image.pause_image`; and the upstream hosts whose registry is kubexm's.
pub(super) fn settings(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Result<BTreeMap<String, String>, RecipeError> {
    let text = config(cx, node)?;
    let table: Table = toml::from_str(&text)
        .map_err(|error| RecipeError::Document { name: "configuration of CRI-O", reason: error.to_string() })?;
    let mut all = BTreeMap::new();
    flatten(&table, "", &mut all);
    // None of others' is the same.
    all.extend(upstream_hosts(cx).into_iter().map(|host| (format!("registry {host}"), String::new())));
    Ok(all)
}

fn flatten(table: &Table, above: &str, all: &mut BTreeMap<String, String>) {
    for (key, value) in table {
        let path = if above.is_empty() { key.clone() } else { format!("{above}.{key}") };
        match value {
            toml::Value::Table(table) => flatten(table, &path, all),
            value => drop(all.insert(path, value.to_string())),
        }
    }
}

/// Path of kubexm's drop-in.
fn drop_in(cx: &PlanContext<'_>) -> String {
    let (folder, name) = of(cx.cluster).drop_ins.unwrap_or_default();
    format!("{folder}/{name}")
}

/// CRI-O with the files that it was started with, and those that it reads again on a reload.
fn unit(cx: &PlanContext<'_>, loaded: Vec<String>, reloaded: Vec<String>) -> Unit {
    Unit { name: of(cx.cluster).unit.to_owned(), enabled: true, running: Some(true), loaded, reloaded }
}

/// Images that are new in the bundle come, and are pinned, before it is started anew: it reads the list of registries, what is pinned and the
/// pause image on a reload. What else of its configuration an upgrade changes comes with its program, in the node's turn.
fn reload(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Result<Step, RecipeError> {
    let (cx, path) = (draft.cx, drop_in(draft.cx));
    let runtime = of(cx.cluster);
    let config = draft.file(&path, 0o644, config(cx, node)?);
    let loaded = vec![paths::unit(runtime.unit), runtime.program("crio")];
    Ok(Step::on(node.name(), "runtime.reload", "Have CRI-O read its registries and what it pins again")
        .ensure(config)
        .ensure(unit(cx, loaded, vec![path, REGISTRIES.to_owned()]))
        .timeout_s(120)
        .undo(Undo::RestoreBefore)
        .build())
}

fn run(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Result<Step, RecipeError> {
    let cx = draft.cx;
    let runtime = of(cx.cluster);
    let (drop_ins, _) = runtime.drop_ins.unwrap_or_default();
    let path = drop_in(cx);
    let loaded = vec![path.clone(), paths::unit(runtime.unit), runtime.program("crio")];
    let text = config(cx, node)?;
    // The keys that decide whether pods start; CRI-O prints values in TOML syntax.
    let is_shown = |line: &&str| SHOWN.iter().any(|key| line.split_once(" = ").is_some_and(|(of, _)| of == *key));
    // CRI-O adds to a list.
    let beginning = |line: &str| line.strip_suffix(']').unwrap_or(line).to_owned();
    let config_dump = text.lines().filter(is_shown).map(beginning).collect();
    let config = draft.file(&path, 0o644, text);
    let unit_file =
        draft.template(paths::unit(runtime.unit), template!("crio.service"), context! { bin => folder(cx) })?;
    Ok(Step::on(node.name(), "runtime.run", "Configure and start CRI-O")
        .ensure(Dir { path: "/etc/crio".to_owned(), mode: 0o755 })
        .ensure(Dir { path: drop_ins.to_owned(), mode: 0o755 })
        .ensure(config)
        .ensure(unit_file)
        .ensure(Dir { path: paths::CNI_CONF.to_owned(), mode: 0o755 })
        .ensure_all(MADE.map(|path| Dir { path: path.to_owned(), mode: 0o755 }))
        .ensure_all(runtime.state.iter().copied().map(StateDir::at))
        .ensure_all(virtual_machines::state(cx.cluster, &OF_MACHINES.map(|name| format!("{drop_ins}/{name}"))))
        .ensure(unit(cx, loaded, vec![REGISTRIES.to_owned()]))
        .probe(Probe::CriReady { runtime: RuntimeKind::CriO, config_dump }, 60)
        .timeout_s(180)
        .undo(Undo::RestoreBefore)
        .build())
}
