//! `addons apply`: the add-ons of cluster.yaml in a cluster that runs. It is `create` without the steps that do not concern them: what
//! is left is the content that they need, in stores and registries, where nodes get it, and their own steps.

use std::collections::BTreeSet;

use kubexm_plan::cluster_facts::applied::{AppliedCluster, recorded};
use kubexm_plan::{ClusterFacts, Op, Pipeline, Plan, Step, addons};
use kubexm_spec::cluster::{Addon, AddonKind, Provisioner, RegistryKind, document};
use kubexm_spec::manifest::Artifact;
use kubexm_spec::{ArtifactKey, Kind, one_line};

use crate::context::PlanContext;
use crate::draft::Drafted;
use crate::error::RecipeError;
use crate::identity::Identity;
use crate::modules::removed_addons::{self, RemovedAddon};
use crate::modules::{record, storage, volumes};
use crate::pipelines::{create, subset};
use crate::runtime::{self, virtual_machines};

/// Steps of registry hosts that bring the images that nodes pull. The registry's own program is not among it.
const OF_REGISTRY: [&str; 5] = ["store.fill", "depot.serve", "registry.fill", "harbor.projects", "harbor.images"];

/// The plan that installs add-ons of cluster.yaml, and removes those that it no longer has; if some are named, only these. Returns what
/// the operator is warned of, too.
///
/// # Errors
/// There is no cluster yet, it has another version of Kubernetes than the bundle, nothing says what was applied to it, or an add-on that is
/// named is neither in cluster.yaml nor in the cluster.
pub fn addons_apply(
    cx: &PlanContext<'_>,
    running: &ClusterFacts,
    named: &[String],
) -> Result<(Plan, Vec<String>), RecipeError> {
    check(cx, running)?;
    let Some(applied) = &running.applied else {
        return Err(RecipeError::CannotApplyAddons {
            reason: "the cluster has no record of what was applied to it; run `kubexm-install create` with the bundle of the cluster, \
                     which writes it"
                .to_owned(),
        });
    };
    check_registry(cx, applied)?;
    let wanted = |name: &str| named.is_empty() || named.iter().any(|one| one == name);
    let known: BTreeSet<String> =
        names(cx).chain(removed_addons::recorded(Some(applied)).into_iter().map(|one| one.name)).collect();
    if let Some(unknown) = named.iter().find(|name| !known.contains(*name)) {
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let known =
            if known.is_empty() { "there is none".to_owned() } else { format!("there are {}", known.join(", ")) };
        let reason = format!("no add-on of cluster.yaml or of the cluster is called {unknown}; {known}");
        return Err(RecipeError::CannotApplyAddons { reason });
    }
    if cx.cluster.addons.iter().any(|addon| wanted(&addon.name) && virtual_machines::is_it(addon)) {
        virtual_machines::are_known(cx.cluster, Some(applied))?;
    }
    if wanted(Provisioner::Nfs.release()) {
        storage::unchanged(cx.cluster, running)?;
    }
    let mut removed = removed_addons::of(cx.cluster, Some(applied));
    removed.retain(|removed| wanted(&removed.addon.name));
    let Drafted { mut plan, .. } = create::plan_cluster(cx, Pipeline::AddonsApply, &removed)?;
    let record = record::of_addons(cx, applied, named)?;
    record::replace(&mut plan, record);
    let of_chart = |addon: &Addon| addon.kind == AddonKind::Helm && wanted(&addon.name);
    let of_storage = || cx.cluster.storage.provisioners().any(|provisioner| wanted(provisioner.release()));
    let needs_helm =
        removed.iter().any(RemovedAddon::needs_helm) || cx.cluster.addons.iter().any(of_chart) || of_storage();
    let first = cx.cluster.first_control_plane().map(|host| host.name.clone()).unwrap_or_default();
    let registries: BTreeSet<String> = cx.cluster.registry_hosts().into_iter().map(|host| host.name.clone()).collect();
    let tells_nodes = has_registries_of_its_own(cx);
    let is_wanted = |step: &Step| {
        let id = step.id.0.split_once('/').map_or("", |(_, id)| id);
        match addons::of_step(&step.id) {
            Some(addon) => wanted(addon),
            None if record::is_of(step) => true,
            None if id == volumes::FOLDER => wanted(Provisioner::OpenEbs.release()) && is_joined(cx, &step.host),
            None if id == "runtime.mirrors" => tells_nodes && is_joined(cx, &step.host),
            None if id == "kubernetes.helm" => step.host == first && needs_helm,
            None => brings_content(cx, step, id, &first, &registries),
        }
    };
    Ok((subset::only(plan, is_wanted), removed_addons::warnings(&removed, Some(applied))))
}

fn names<'a>(cx: &PlanContext<'a>) -> impl Iterator<Item = String> + 'a {
    let of_storage = cx.cluster.storage.provisioners().map(|provisioner| provisioner.release().to_owned());
    of_storage.chain(cx.cluster.addons.iter().map(|addon| addon.name.clone()))
}

/// Whether images come from an upstream registry that no image of the cluster itself comes from: nodes may not know yet where they
/// get those. A runtime reads that at each pull.
fn has_registries_of_its_own(cx: &PlanContext<'_>) -> bool {
    let hosts = |of_cluster: bool| {
        let is_it = move |artifact: &&Artifact| matches!(artifact.key, ArtifactKey::Image(_)) == of_cluster;
        let images = cx.manifest.artifacts.iter().filter(|artifact| artifact.key.kind() == Kind::Image).filter(is_it);
        images.filter_map(|artifact| Some(artifact.name.split_once('/')?.0)).collect::<BTreeSet<&str>>()
    };
    !runtime::imports(cx.cluster) && !hosts(false).is_subset(&hosts(true))
}

fn brings_content(cx: &PlanContext<'_>, step: &Step, id: &str, first: &str, registries: &BTreeSet<String>) -> bool {
    if runtime::imports(cx.cluster) {
        // Every node imports the images from its own store; a host that has not joined yet has neither.
        let loads = || id.starts_with("images.") && step.ops.iter().any(|op| matches!(op, Op::ImageLoaded(_)));
        if is_joined(cx, &step.host) && (id == "store.fill" || loads()) {
            return true;
        }
    }
    if cx.cluster.registry.kind == RegistryKind::None {
        return false;
    }
    let of_registry = registries.contains(&step.host) && OF_REGISTRY.contains(&id);
    of_registry || (id == "store.fill" && step.host == first)
}

fn is_joined(cx: &PlanContext<'_>, host: &str) -> bool {
    let identity = Identity::of(cx.cluster, cx.facts);
    cx.facts.get(host).is_some_and(|facts| identity.has_joined(cx.cluster, host, facts))
}

/// The registry is the one that nodes pull from: another one is the business of `create`, which tells the nodes.
fn check_registry(cx: &PlanContext<'_>, applied: &AppliedCluster) -> Result<(), RecipeError> {
    let wanted = recorded(document(cx.cluster));
    let differs = |field: &&&str| applied.cluster.pointer(field) != wanted.pointer(field);
    match ["/spec/registry", "/spec/roleGroups/registry"].iter().find(differs) {
        None => Ok(()),
        Some(field) => Err(RecipeError::CannotApplyAddons {
            reason: format!(
                "cluster.yaml has another {} than the cluster; run `kubexm-install create` first, which applies that to the nodes as well",
                field.trim_start_matches('/').replace('/', ".")
            ),
        }),
    }
}

/// The cluster runs, and has the bundle's version of Kubernetes: charts were rendered for it.
fn check(cx: &PlanContext<'_>, running: &ClusterFacts) -> Result<(), RecipeError> {
    let first = cx.cluster.first_control_plane().ok_or(RecipeError::NoHosts { what: "control plane" })?;
    if !is_joined(cx, &first.name) {
        return Err(RecipeError::CannotApplyAddons {
            reason: format!("{} is not in a cluster of kubexm-install yet; run `kubexm-install create`", first.name),
        });
    }
    if let (Some(planned), Some(found)) = (cx.cluster_id, running.id)
        && planned != found
    {
        return Err(RecipeError::IdentityMismatch { cluster: cx.cluster.name.clone(), planned, found });
    }
    let nodes = cx.nodes()?;
    let node = nodes.iter().find(|node| node.name() == first.name).ok_or(RecipeError::NoHosts { what: "hosts" })?;
    let bundle = cx.kubernetes_version(node.platform)?;
    match &running.server_version {
        Some(server) if *server != bundle => {
            let server = one_line(server);
            Err(RecipeError::CannotApplyAddons {
                reason: format!(
                    "the cluster has Kubernetes {server}, and the bundle's charts were rendered for {bundle}; build the bundle for {server}, \
                     or run `kubexm-install upgrade` first"
                ),
            })
        }
        _ => Ok(()),
    }
}
