//! Container runtime: containerd with runc and the CNI plugins, pulling images only from the cluster's registry.
//! 1.7 and 2.x differ in the format of the config, and in how `containerd config dump` prints it.

use kubexm_plan::op::{Dir, File, StateDir, Unit};
use kubexm_plan::{Probe, SlotName, SlotProvider, Step, Undo, runtime};
use kubexm_spec::cluster::{RegistryKind, RuntimeKind};
use kubexm_spec::{ArtifactKey, ClusterImage, Program, Version};
use minijinja::context;

use super::extra_config::{self, CriPlugins};
use super::of_cluster::{cgroup_driver, of, upstream_hosts};
use super::steps::{RuntimeSteps, with_cni};
use super::virtual_machines;
use crate::context::{PlanContext, PlannedHost};
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::image_registry::ImageRegistry;
use crate::modules::{depot, programs};
use crate::templates::{Template, template};
use crate::{paths, selinux, templates};

/// Folder with one folder for each upstream registry, which contains a `hosts.toml`.
const CERTS_D: &str = runtime::of(RuntimeKind::Containerd).registries;
/// Folder that containerd uses for an upstream host without its own.
const DEFAULT: &str = "_default";

/// Folder of drop-ins of others, and those of it that are imported for virtual machines: what others have there was not read before.
const CONF_D: &str = "/etc/containerd/conf.d";
const IMPORT: &str = "/etc/containerd/conf.d/*kata-deploy*.toml";
/// The first version for which virtual machines come by drop-ins alone.
const DROP_INS: [u64; 2] = [2, 2];

/// The format of containerd's config, by version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConfigFormat {
    /// Config version 2: one CRI plugin, `io.containerd.grpc.v1.cri`.
    V1_7,
    /// Config version 3: images and runtime are separate plugins.
    V2,
}

impl ConfigFormat {
    fn of(version: &str) -> Result<Self, RecipeError> {
        if version.starts_with("2.") {
            return Ok(Self::V2);
        }
        if version.starts_with("1.7.") {
            return Ok(Self::V1_7);
        }
        Err(RecipeError::Unsupported {
            what: format!("containerd {version} (its configuration has another format than that of 1.7 and 2.x)"),
            hint: "leave out `spec.runtime.version`, or name a 1.7 or 2.x, and build the bundle again".to_owned(),
        })
    }

    const fn template(self) -> Template {
        match self {
            Self::V1_7 => template!("containerd-1.toml"),
            Self::V2 => template!("containerd.toml"),
        }
    }

    /// Lines that `containerd config dump` must show; containerd silently ignores keys that it does not know. 2.x
    /// writes literal strings in single quotes, 1.7 in double ones.
    fn config_dump(self, pause: &str, systemd_cgroup: bool, selinux: bool, root: Option<&str>) -> Vec<String> {
        let text = |key: &str, value: &str| match self {
            Self::V1_7 => format!("{key} = \"{value}\""),
            Self::V2 => format!("{key} = '{value}'"),
        };
        let sandbox = match self {
            Self::V1_7 => "sandbox_image",
            Self::V2 => "sandbox",
        };
        let mut all =
            vec![text(sandbox, pause), text("config_path", CERTS_D), format!("SystemdCgroup = {systemd_cgroup}")];
        all.extend(selinux.then(|| "enable_selinux = true".to_owned()));
        all.extend(root.map(|root| text("root", root)));
        all
    }

    /// The plugins of the CRI: the other format's would be ignored.
    const fn plugins(self) -> CriPlugins {
        match self {
            Self::V1_7 => CriPlugins {
                own: &["io.containerd.grpc.v1.cri"],
                unknown: &["io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime"],
            },
            Self::V2 => CriPlugins {
                own: &["io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime"],
                unknown: &["io.containerd.grpc.v1.cri"],
            },
        }
    }
}

/// Fails if no recipe can write the config of this version.
pub fn check_version(version: &str) -> Result<(), RecipeError> {
    ConfigFormat::of(version).map(drop)
}

/// The version in the bundle, if virtual machines would change its configuration.
pub fn before_drop_ins<'a>(cx: &PlanContext<'a>) -> Option<&'a str> {
    let mut all = cx.manifest.artifacts.iter().filter(|one| one.key == ArtifactKey::Binary(Program::Containerd));
    let old = all.find(|one| Version::of(&one.version).line().is_none_or(|line| line < DROP_INS));
    old.map(|artifact| artifact.version.as_str())
}

/// Programs, registry configuration, and the running service.
pub fn steps(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Result<RuntimeSteps, RecipeError> {
    let (programs, mirrors) = (programs(draft.cx, node)?, mirrors(draft, node)?);
    Ok(RuntimeSteps { programs, mirrors, run: run(draft, node)?, reload: None })
}

fn programs(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Result<Step, RecipeError> {
    let containerd = cx.program(Program::Containerd, node.platform)?;
    ConfigFormat::of(&containerd.version)?;
    let step = Step::on(node.name(), "runtime.programs", "Install containerd, runc and the CNI plugins")
        .ensure(programs::install(cx, node, Program::Containerd, paths::BIN)?)
        .ensure(programs::install(cx, node, Program::Runc, paths::BIN)?);
    with_cni(step, cx, node)
}

/// One `hosts.toml` for each upstream host. `server` is the registry itself, so nothing falls back to the internet;
/// a pull from a host that is not in the bundle goes to the registry too and gets "not found". Without a registry all
/// pulls go to a local address where nothing listens.
fn mirrors(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Result<Step, RecipeError> {
    let cx = draft.cx;
    if cx.cluster.registry.kind == RegistryKind::None {
        return no_mirror(draft, node);
    }
    let registry = ImageRegistry::of(cx, node)?;
    let whose = if registry.external { "your" } else { "the cluster's" };
    let mut step = Step::on(node.name(), "runtime.mirrors", &format!("Point containerd at {whose} registry"))
        .ensure(draft.slot_file(paths::REGISTRY_CA, 0o644, depot::CA_SLOT, SlotProvider::REGISTRY_CA));
    if let Some(ca) = registry.ca.as_ref().filter(|_| registry.external) {
        step = step.ensure(draft.slot_file(ca.path, 0o600, ca.slot, ca.provider.clone()));
    }
    step = step
        .ensure(Dir { path: "/etc/containerd".to_owned(), mode: 0o755 })
        .ensure(Dir { path: CERTS_D.to_owned(), mode: 0o755 });
    let mut folders: Vec<(String, Option<String>)> =
        upstream_hosts(cx).into_iter().map(|host| (host.clone(), Some(registry.path(cx, &host)))).collect();
    match registry.shared {
        false => folders.push((DEFAULT.to_owned(), Some("/v2".to_owned()))),
        // Images that others keep there are pulled by their own names; an unknown upstream host would be taken for a
        // folder of it.
        true => {
            folders.retain(|(host, _)| !registry.addresses.contains(host));
            folders.extend(registry.addresses.iter().map(|address| (address.clone(), Some("/v2".to_owned()))));
            folders.push((DEFAULT.to_owned(), None));
        }
    }
    for (folder, path) in folders {
        let directory = format!("{}/{folder}", CERTS_D);
        let file = hosts_toml(draft, &registry, &format!("{directory}/hosts.toml"), path.as_deref())?;
        step = step.ensure(Dir { path: directory, mode: 0o755 }).ensure(file);
    }
    Ok(step.undo(Undo::RestoreBefore).build())
}

/// Without a login anybody may read it. containerd has no other place for a login that both ways of pulling of 1.7 and 2.x
/// read, and reads this file at each pull. Without a path the registry has nothing of the host.
fn hosts_toml(
    draft: &mut Draft<'_>,
    registry: &ImageRegistry,
    file: &str,
    path: Option<&str>,
) -> Result<File, RecipeError> {
    let Some(path) = path else { return draft.template(file, template!("hosts-unknown.toml"), context! {}) };
    let name = if registry.insecure { template!("hosts-insecure.toml") } else { template!("hosts.toml") };
    let header = registry.header();
    let login = header.as_ref().map(|(slot, _)| SlotName((*slot).to_owned()).placeholder());
    let ca = registry.ca.as_ref().map(|ca| ca.path);
    let text = templates::render(name, context! { registries => &registry.addresses, path, ca, login })?;
    Ok(match header {
        Some((slot, provider)) => draft.filled_file(file, 0o600, slot, provider, |_| text),
        None => draft.file(file, 0o644, text),
    })
}

fn no_mirror(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Result<Step, RecipeError> {
    let directory = format!("{}/{DEFAULT}", CERTS_D);
    let hosts = draft.template(format!("{directory}/hosts.toml"), template!("hosts-none.toml"), context! {})?;
    Ok(Step::on(node.name(), "runtime.mirrors", "Configure containerd to pull from no registry")
        .ensure(Dir { path: "/etc/containerd".to_owned(), mode: 0o755 })
        .ensure(Dir { path: CERTS_D.to_owned(), mode: 0o755 })
        .ensure(Dir { path: directory, mode: 0o755 })
        .ensure(hosts)
        .undo(Undo::RestoreBefore)
        .build())
}

/// The folders that containerd fills.
fn state_dirs(cx: &PlanContext<'_>) -> impl Iterator<Item = StateDir> + use<> {
    let (usual, own) = (cx.cluster.runtime.kind.data_dir(), cx.cluster.runtime.own_folder());
    let replaced = own.is_some();
    let usual =
        of(cx.cluster).state.iter().filter(move |path| !replaced || **path != usual).map(|path| StateDir::at(path));
    usual.chain(own.map(StateDir::at)).collect::<Vec<_>>().into_iter()
}

fn run(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Result<Step, RecipeError> {
    let cx = draft.cx;
    let runtime = of(cx.cluster);
    let format = ConfigFormat::of(&cx.program(Program::Containerd, node.platform)?.version)?;
    let pause = &cx.image(ClusterImage::Pause, node.platform)?.name;
    let systemd_cgroup = cgroup_driver(cx)? == "systemd";
    let selinux = selinux::confines(cx.cluster);
    let root = cx.cluster.runtime.own_folder();
    let values = context! { pause, systemd_cgroup, certs_d => CERTS_D, selinux, root };
    let text = templates::render(format.template(), values)?;
    let of_user = virtual_machines::extra_config(cx.cluster, IMPORT);
    let extra = extra_config::merged(&text, &of_user, format.plugins())?;
    // Files that are imported may set other folders.
    let imports = of_user.contains_key("imports");
    let checked = if imports { Some(cx.cluster.runtime.data_folder()) } else { root };
    let mut config_dump = format.config_dump(pause, systemd_cgroup, selinux, checked);
    config_dump.extend(extra.shown);
    let config = draft.file(runtime.config, 0o644, extra.text);
    let unit =
        draft.template(paths::unit(runtime.unit), template!("containerd.service"), context! { bin => paths::BIN })?;
    let loaded = vec![runtime.config.to_owned(), paths::unit(runtime.unit), paths::bin("containerd")];
    Ok(Step::on(node.name(), "runtime.run", "Configure and start containerd")
        .ensure(config)
        .ensure(unit)
        .ensure(Dir { path: paths::CNI_CONF.to_owned(), mode: 0o755 })
        .ensure_all(state_dirs(cx))
        .ensure_all(virtual_machines::state(cx.cluster, &[CONF_D.to_owned()]))
        .ensure(Unit {
            name: runtime.unit.to_owned(),
            enabled: true,
            running: Some(true),
            loaded,
            reloaded: Vec::new(),
        })
        .probe(Probe::CriReady { runtime: RuntimeKind::Containerd, config_dump }, 60)
        .timeout_s(180)
        .undo(Undo::RestoreBefore)
        .build())
}
