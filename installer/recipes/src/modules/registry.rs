//! The distribution registry on the registry host, if `spec.registry.type` is `registry`. Its file-system layout is
//! written from the node's content store and served read-only; then every image is requested once as a check.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_plan::op::{Blobs, Dir, RegistryLayout, Unit};
use kubexm_plan::{Probe, SlotProvider, Step, Undo};
use kubexm_spec::cluster::{Cluster, Listen, RegistryKind};
use kubexm_spec::depot::Repository;
use kubexm_spec::{Kind, Program};
use minijinja::context;

use crate::context::{PlanContext, PlannedHost};
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::modules::{depot, login, programs};
use crate::templates::template;
use crate::{paths, registries};

const UNIT: &str = kubexm_plan::depot::REGISTRY_UNIT;

/// The registry and its content; no steps if the cluster uses another registry.
pub fn steps(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Result<Vec<Step>, RecipeError> {
    if draft.cx.cluster.registry.kind != RegistryKind::Registry {
        return Ok(Vec::new());
    }
    let repositories = registries::repositories(draft.cx);
    Ok(vec![layout(draft.cx, node, repositories.clone()), serve(draft, node, repositories)?])
}

/// The registry's unit.
pub fn unit(cluster: &Cluster) -> Unit {
    let loaded = [paths::REGISTRY_CERT, paths::REGISTRY_KEY, paths::REGISTRY_CONFIG].map(str::to_owned).into_iter();
    let htpasswd = cluster.depot_login().map(|_| paths::REGISTRY_HTPASSWD.to_owned());
    Unit {
        name: UNIT.to_owned(),
        enabled: true,
        running: Some(true),
        loaded: loaded.chain(htpasswd).chain([paths::unit(UNIT), paths::bin("registry")]).collect(),
        reloaded: Vec::new(),
    }
}

fn layout(cx: &PlanContext<'_>, node: &PlannedHost<'_>, repositories: BTreeMap<String, Repository>) -> Step {
    let images = cx.manifest.artifacts.iter().filter(|a| a.key.kind() == Kind::Image);
    let blobs: BTreeSet<_> = images.flat_map(|a| a.blobs.iter().copied()).collect();
    let timeout = Blobs::delivery_s(blobs.iter().map(|blob| blob.size).sum());
    Step::on(node.name(), "registry.fill", "Write the bundle's images to the registry's storage")
        .ensure(RegistryLayout { data_dir: cx.cluster.registry.data_dir.clone(), repositories })
        .timeout_s(timeout)
        .undo(Undo::RestoreBefore)
        .build()
}

fn serve(
    draft: &mut Draft<'_>,
    node: &PlannedHost<'_>,
    repositories: BTreeMap<String, Repository>,
) -> Result<Step, RecipeError> {
    let cx = draft.cx;
    let registry = &cx.cluster.registry;
    let htpasswd = login::server_file(draft, paths::REGISTRY_HTPASSWD, 0o600);
    let own_login = login::client_file(draft, paths::REGISTRY_OWN_LOGIN);
    let archs: BTreeSet<&str> = cx.manifest.platforms.iter().map(|platform| platform.arch.as_str()).collect();
    let config = draft.template(
        paths::REGISTRY_CONFIG,
        template!("registry.yml"),
        context! {
            data_dir => &registry.data_dir,
            address => (registry.listen == Listen::NodeAddress).then(|| registries::at(node, registry.port)),
            port => registry.port,
            cert => paths::REGISTRY_CERT,
            key => paths::REGISTRY_KEY,
            htpasswd => login::path_of(htpasswd.as_ref()),
            archs,
        },
    )?;
    let unit = draft.template(
        paths::unit(UNIT),
        template!("kubexm-registry.service"),
        context! { bin => paths::BIN, config => paths::REGISTRY_CONFIG, data_dir => &registry.data_dir },
    )?;
    let files = (paths::REGISTRY_CERT, paths::REGISTRY_KEY);
    let identity = draft.issued(depot::issued(cx.cluster, node.name(), node.ip, files));
    let program = programs::install(cx, node, Program::Registry, paths::BIN)?;
    let login = login::path_of(own_login.as_ref());
    Ok(Step::on(node.name(), "registry.serve", "Serve the bundle's images with the distribution registry")
        .ensure(program)
        .ensure(Dir { path: "/etc/kubexm/registry".to_owned(), mode: 0o700 })
        .ensure(draft.slot_file(paths::REGISTRY_OWN_CA, 0o644, depot::CA_SLOT, SlotProvider::REGISTRY_CA))
        .ensure_all(identity)
        .ensure_all(htpasswd)
        .ensure_all(own_login)
        .ensure(config)
        .ensure(unit)
        .ensure(self::unit(cx.cluster))
        .probe(
            Probe::RegistryServes {
                url: format!("https://{}", registries::own_address(cx.cluster, node.ip, registry.port)),
                ca: paths::REGISTRY_OWN_CA.to_owned(),
                login,
                repositories,
            },
            30,
        )
        .timeout_s(180)
        .undo(Undo::RestoreBefore)
        .build())
}
