//! Fetching blobs from the cluster's own depot: its URL, and the CA certificate to trust it.

use kubexm_plan::op::{Depots, Op};
use kubexm_plan::{SlotProvider, Step, Undo};

use crate::context::{PlanContext, PlannedHost};
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::modules::{depot, login};
use crate::{paths, registries};

/// The depots that a host fetches blobs from: those on the registry hosts, by IP address, whichever registry serves the images. None for
/// the first of them, whose blobs the controller sends; the others fetch from that.
pub fn depots(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Result<Option<Depots>, RecipeError> {
    if registries::is_source(cx.cluster, node.name()) {
        return Ok(None);
    }
    let mut hosts = match node.roles.registry {
        true => registries::hosts(cx)?,
        false => registries::for_host(cx, node)?,
    };
    if node.roles.registry {
        hosts.truncate(1);
    }
    let port = cx.cluster.registry.depot_port();
    Ok(Some(Depots {
        urls: hosts.iter().map(|host| format!("https://{}", registries::at(host, port))).collect(),
        ca: paths::REGISTRY_CA.to_owned(),
        login: cx.cluster.depot_login().map(|_| paths::REGISTRY_LOGIN.to_owned()),
    }))
}

/// Installs the CA certificate on a host, and the login where there is one, before anything is fetched.
pub fn ca(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Step {
    let login = login::client_file(draft, paths::REGISTRY_LOGIN);
    Step::on(node.name(), "store.trust", "Install the CA certificate of the cluster's depot")
        .ensure(draft.slot_file(paths::REGISTRY_CA, 0o644, depot::CA_SLOT, SlotProvider::REGISTRY_CA))
        .ensure_all(login)
        .undo(Undo::RestoreBefore)
        .build()
}

/// Lets a step fetch its blobs from these depots. Its timeout grows, so that the controller can still send the rest.
pub fn fetch_from(depots: Option<Depots>, mut step: Step) -> Step {
    let Some(depots) = depots else { return step };
    for op in &mut step.ops {
        if let Op::Blobs(blobs) = op {
            step.timeout_s = step.timeout_s.saturating_add(depots.limit_s(blobs.blobs.values().sum()));
            blobs.depots = Some(depots.clone());
        }
    }
    step
}
