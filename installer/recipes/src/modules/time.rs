//! Time: chrony follows only `spec.system.ntpServers`, and no other service sets the clock.
//!
//! kubexm replaces the whole configuration file at the distribution's path: a drop-in cannot remove the internet pool
//! that the distribution's file names, and AppArmor and SELinux let chronyd read no other path. The earlier file is
//! kept and restored by rollback and reset.

use std::collections::BTreeSet;

use kubexm_plan::op::{StateDir, Unit};
use kubexm_plan::{Facts, Probe, Step, Undo};
use kubexm_spec::Family;
use kubexm_spec::cluster::Cluster;
use minijinja::context;

use crate::context::PlannedHost;
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::packages::{NodePackages, Part, family};
use crate::paths;
use crate::templates::template;
use crate::time_servers::refers_to;

/// Seconds for the first synchronisation. A server that did not answer the first burst is asked again after 64 s
/// (`minpoll 6`).
const WITHIN_S: u64 = 90;

/// Names and paths of chrony on a family of distributions.
struct Chrony {
    unit: &'static str,
    config: &'static str,
    /// The distribution's path, so that a host that already has chrony keeps its measured drift.
    drift: &'static str,
}

const fn chrony(family: Family) -> Chrony {
    match family {
        Family::Deb => {
            Chrony { unit: "chrony.service", config: paths::CHRONY_DEB, drift: "/var/lib/chrony/chrony.drift" }
        }
        Family::Rpm => Chrony { unit: "chronyd.service", config: paths::CHRONY_RPM, drift: "/var/lib/chrony/drift" },
    }
}

/// Whether a host has chrony, or it will be installed.
pub fn has_chrony(facts: &Facts, to_install: Option<&NodePackages<'_>>) -> bool {
    facts.programs.get("chronyd").is_some_and(Option::is_some)
        || to_install.is_some_and(|to_install| to_install.brings("chronyd"))
}

/// Whether chrony runs now.
pub fn runs_chrony(facts: &Facts) -> bool {
    facts.time_services.iter().any(|unit| is_chrony(unit))
}

/// Units that set the clock now and must be stopped: other than chrony, and not removed with their package.
pub fn others<'a>(facts: &'a Facts, to_install: Option<&NodePackages<'_>>) -> Vec<&'a str> {
    let is_removed =
        |unit: &str| to_install.is_some_and(|to_install| to_install.replaced().any(|(name, _)| name == stem(unit)));
    let all = facts.time_services.iter().map(String::as_str);
    all.filter(|unit| !is_chrony(unit) && !is_removed(unit)).collect()
}

fn is_chrony(unit: &str) -> bool {
    matches!(stem(unit), "chrony" | "chronyd")
}

fn stem(unit: &str) -> &str {
    unit.strip_suffix(".service").unwrap_or(unit)
}

/// Stops other time services before chrony starts: two services must not set the same clock.
pub fn stop_others(cluster: &Cluster, node: &PlannedHost<'_>, to_install: Option<&NodePackages<'_>>) -> Option<Step> {
    if cluster.system.ntp_servers.is_empty() {
        return None;
    }
    let stopped = others(node.facts, to_install).into_iter().map(|unit| Unit {
        name: format!("{}.service", stem(unit)),
        enabled: false,
        running: Some(false),
        loaded: Vec::new(),
        reloaded: Vec::new(),
    });
    let stopped: Vec<Unit> = stopped.collect();
    if stopped.is_empty() {
        return None;
    }
    let step = Step::on(node.name(), "time.before", "Stop other time services, before chrony").ensure_all(stopped);
    Some(step.undo(Undo::RestoreBefore).build())
}

/// Paths that chrony writes, and its configuration, which the package installs before kubexm overwrites it. The step
/// that installs chrony lists them, so that its undo removes those that did not exist before.
pub fn chrony_state(family: Family, part: &Part) -> Vec<StateDir> {
    let paths = paths::CHRONY_STATE.into_iter().chain([chrony(family).config]);
    paths.filter(|_| part.packages.contains_key("chrony")).map(StateDir::at).collect()
}

/// Configures and starts chrony. A client's clock is synchronised when this step is done, before kubeadm makes
/// certificates with that clock. If no server answers, the step fails: later it would show as certificates that are not
/// yet valid. One server that answers is enough.
pub fn step(
    draft: &mut Draft<'_>,
    node: &PlannedHost<'_>,
    nodes: &[PlannedHost<'_>],
    to_install: Option<&NodePackages<'_>>,
) -> Result<Option<Step>, RecipeError> {
    let cluster = draft.cx.cluster;
    if cluster.system.ntp_servers.is_empty() {
        return Ok(None);
    }
    let refused = |why: &str| RecipeError::Packages { host: node.name().to_owned(), why: why.to_owned() };
    let Some(family) = family(node.facts) else {
        return Err(refused(
            "spec.system.ntpServers needs chrony, but the host has neither dpkg nor rpm, so its paths are unknown",
        ));
    };
    if !has_chrony(node.facts, to_install) {
        return Err(refused("spec.system.ntpServers needs chrony, which is not installed and not in the bundle"));
    }
    let Chrony { unit, config, drift } = chrony(family);
    let servers = servers(cluster, node, nodes);
    let clients: Vec<String> = match node.serves_time {
        true => nodes.iter().filter(|other| other.ip != node.ip).map(|other| other.ip.to_string()).collect(),
        false => Vec::new(),
    };
    let values = context! { servers => &servers, clients, stratum => stratum(cluster, node, nodes), drift };
    let file = draft.template(config, template!("chrony.conf"), values)?;
    let unit = Unit {
        name: unit.to_owned(),
        enabled: true,
        running: Some(true),
        loaded: vec![config.to_owned()],
        reloaded: Vec::new(),
    };
    let (name, title) = match node.serves_time {
        true => ("time.server", "Run a time server for the cluster's hosts".to_owned()),
        false => ("time.client", format!("Synchronise the clock with {}", servers.join(", "))),
    };
    let step = Step::on(node.name(), name, &title).ensure(file).ensure(unit);
    // A server uses its own clock if it has no other source.
    let step = match node.serves_time {
        true => step,
        false => step.probe(Probe::ClockFollows { servers }, WITHIN_S).timeout_s(WITHIN_S + 60),
    };
    let step = step.undo(Undo::RestoreBefore).build();
    // A server's configuration allows every other host of the cluster.
    Ok(Some(if node.serves_time { draft.depends_on_all(step) } else { step }))
}

/// Stratum of a server's local clock: 10 for the first server, one more for each further one, so that they follow the
/// first that is up. (`orphan` does the same, but since chrony 4.7 only after five minutes.) 15 is the
/// highest valid stratum.
fn stratum(cluster: &Cluster, node: &PlannedHost<'_>, nodes: &[PlannedHost<'_>]) -> usize {
    let host_name = |server: &String| nodes.iter().find(|host| refers_to(server, host.host)).map(PlannedHost::name);
    let mut servers: Vec<&str> = Vec::new();
    for name in cluster.system.ntp_servers.iter().filter_map(host_name) {
        if !servers.contains(&name) {
            servers.push(name);
        }
    }
    (10 + servers.iter().position(|name| *name == node.name()).unwrap_or_default()).min(14)
}

/// The servers of a host, in the order of the list, without itself.
fn servers(cluster: &Cluster, node: &PlannedHost<'_>, nodes: &[PlannedHost<'_>]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut servers = Vec::new();
    for configured in &cluster.system.ntp_servers {
        let server = match nodes.iter().find(|other| refers_to(configured, other.host)) {
            Some(other) if other.name() == node.name() => continue,
            Some(other) => other.ip.to_string(),
            None => configured.clone(),
        };
        if seen.insert(server.clone()) {
            servers.push(server);
        }
    }
    servers
}
