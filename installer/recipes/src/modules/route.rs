//! A route for Services on hosts without a default route.
//!
//! kube-proxy translates a service's address after the host's routing decision: without any route to it, programs on
//! the host's network (and pods that use it) get "network unreachable". Where there is a default route, nothing is done.

use kubexm_plan::op::Unit;
use kubexm_plan::{Step, Undo};
use minijinja::context;

use crate::context::PlannedHost;
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::paths;
use crate::templates::template;

const UNIT: &str = "kubexm-service-route.service";

/// The unit that adds the route, now and at boot.
pub fn step(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Result<Option<Step>, RecipeError> {
    if node.facts.default_route {
        return Ok(None);
    }
    let ip = node.facts.programs.get("ip").and_then(Option::as_deref).unwrap_or("/usr/sbin/ip");
    let interface = match &draft.cx.cluster.network.interface {
        Some(interface) => interface.as_str(),
        None => node.interface()?,
    };
    let values = context! {
        ip, interface, network => draft.cx.cluster.network.service_cidr.to_string(), address => node.ip.to_string(),
    };
    let path = paths::unit(UNIT);
    let file = draft.template(path.clone(), template!("kubexm-service-route.service"), values)?;
    Ok(Some(
        Step::on(node.name(), "network.service-route", "Route services on a host without a default route")
            .ensure(file)
            .ensure(Unit {
                name: UNIT.to_owned(),
                enabled: true,
                running: Some(true),
                loaded: vec![path],
                reloaded: Vec::new(),
            })
            .undo(Undo::RestoreBefore)
            .build(),
    ))
}
