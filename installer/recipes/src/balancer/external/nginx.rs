//! nginx with its `stream` module notices only connections that fail. A script with a unit of its own asks the control planes for
//! `/readyz`, through nginx, which speaks TLS, and has nginx read its configuration again when others are ready than before
//! (decision 0069).

use kubexm_plan::balancer::HostProxy;
use kubexm_plan::op::{File, Unit};
use kubexm_spec::cluster::BALANCER_STATUS_PORT;
use minijinja::context;

use crate::draft::Draft;
use crate::error::RecipeError;
use crate::templates::template;
use crate::{paths, templates};

/// The script.
pub(super) const CHECK: &str = "kubexm-nginx-check";
/// What the script writes: which control planes are ready, and what nginx's configuration includes. SELinux's policy lets nginx read it by
/// this name (`/run/nginx.*`).
pub(super) const STATE: &str = "/run/nginx-kubexm";

/// The script's text.
pub(super) fn script(proxy: &HostProxy) -> Result<String, RecipeError> {
    let values = context! { config => proxy.config, state => STATE, status_port => BALANCER_STATUS_PORT };
    templates::render(template!("kubexm-nginx-check.sh"), values)
}

/// Its unit.
pub(super) fn file(draft: &mut Draft<'_>, proxy: &HostProxy, unit: &'static str) -> Result<File, RecipeError> {
    let values = context! { check => paths::bin(CHECK), proxy_unit => proxy.unit, state => STATE };
    draft.template(paths::unit(unit), template!("kubexm-nginx-check.service"), values)
}

/// It runs, as the script is on disk.
pub(super) fn checker(unit: &str) -> Unit {
    Unit {
        name: unit.to_owned(),
        enabled: true,
        running: Some(true),
        loaded: vec![paths::unit(unit), paths::bin(CHECK)],
        reloaded: Vec::new(),
    }
}
