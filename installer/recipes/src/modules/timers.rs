//! Timers of nodes: certificates of control planes that renew themselves, and backups of etcd on its members.
//!
//! Their services start kubexm's own program, which every host has from its agent.

use kubexm_plan::op::{Absent, File, StateDir, Unit};
use kubexm_plan::timers::{BackupConfig, CERTS, CertsConfig, ETCD_BACKUP, HostTimer, RECORDS, TIMERS};
use kubexm_plan::{Step, StepId, Undo};
use kubexm_spec::cluster::{Cluster, EtcdKind, Roles};
use minijinja::context;
use serde::Serialize;

use crate::context::{PlanContext, PlannedHost};
use crate::draft::{Chain, Draft};
use crate::error::RecipeError;
use crate::paths;
use crate::phases::ClusterHosts;
use crate::templates::template;

/// At night, and spread over some hours: two control planes seldom want to restart at the same time, and then one waits.
const DAILY: &str = "*-*-* 01:00:00";
const CERTS_DELAY: &str = "3h";
/// Members that share a disk or an export do not write at the same moment.
const BACKUP_DELAY: &str = "10min";
/// Characters of a cluster's id that tell it from an earlier one of its name.
const ID: usize = 8;
/// The first version of systemd with `FixedRandomDelay=` (its NEWS).
const FIXED_DELAY: u32 = 247;

/// Adds the timers that cluster.yaml asks for, and removes those that a host has from before. After the final check, so that none starts
/// while the cluster is made.
pub fn run<'a>(draft: &mut Draft<'a>, site: &ClusterHosts<'a>, checked: &[StepId]) -> Result<Vec<StepId>, RecipeError> {
    let mut done = Vec::new();
    for node in &site.nodes {
        let mut chain = Chain::after(checked.iter().cloned());
        chain.then(start(draft, node)?);
        chain.then(remove(draft.cx.cluster, node));
        if chain.has_steps() {
            done.extend(draft.add(chain));
        }
    }
    Ok(done)
}

/// Whether a host with these roles has the timer.
fn is_wanted(cluster: &Cluster, roles: Roles, timer: HostTimer) -> bool {
    let etcd = &cluster.etcd;
    match timer {
        CERTS => {
            roles.control_plane && cluster.kubernetes.as_ref().is_some_and(|kubernetes| kubernetes.auto_renew_certs)
        }
        ETCD_BACKUP => {
            etcd.backup.is_some()
                && match etcd.kind {
                    EtcdKind::Kubeadm => roles.control_plane,
                    EtcdKind::Kubexm => roles.etcd,
                    EtcdKind::External => false,
                }
        }
        _ => false,
    }
}

fn start(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Result<Option<Step>, RecipeError> {
    let cluster = draft.cx.cluster;
    let wanted: Vec<HostTimer> = TIMERS.into_iter().filter(|timer| is_wanted(cluster, node.roles, *timer)).collect();
    if wanted.is_empty() {
        return Ok(None);
    }
    let mut step = Step::on(node.name(), "timers.start", "Start the host's timers").ensure(StateDir::at(RECORDS));
    for timer in wanted {
        let [config, service, unit] = files(draft, node, timer)?;
        step = step.ensure(StateDir::at(&timer.stamp())).ensure_all([config, service, unit]);
        // The timer starts it. It has no [Install], which counts as enabled.
        step = step.ensure(service_unit(timer, true, None)).ensure(Unit {
            name: timer.timer(),
            enabled: true,
            running: Some(true),
            loaded: vec![paths::unit(&timer.timer())],
            reloaded: Vec::new(),
        });
    }
    Ok(Some(step.undo(Undo::RestoreBefore).build()))
}

fn files(draft: &mut Draft<'_>, node: &PlannedHost<'_>, timer: HostTimer) -> Result<[File; 3], RecipeError> {
    let cluster = draft.cx.cluster;
    let (text, description, schedule, delay) = match (timer, &cluster.etcd.backup) {
        (ETCD_BACKUP, Some(backup)) => {
            let name = backup_name(draft.cx, node);
            let (dir, recipients) = (backup.dir.clone(), backup.recipients.clone());
            let config = BackupConfig { name, dir, keep: backup.keep, recipients };
            (json(&config)?, "a backup of etcd on this host", backup.schedule.as_str(), BACKUP_DELAY)
        }
        _ => {
            let mut users = vec!["root".to_owned()];
            users.extend(Some(&node.host.user).filter(|user| *user != "root").cloned());
            let config = CertsConfig {
                host: node.name().to_owned(),
                users,
                runtime: cluster.runtime.kind,
                etcd: cluster.etcd.kind,
                renew_before_s: cluster.certificate_validity().renewed_before_s(),
            };
            (json(&config)?, "renewal of this control plane's certificates", DAILY, CERTS_DELAY)
        }
    };
    let fixed = node.facts.systemd.is_some_and(|version| version >= FIXED_DELAY);
    let config = draft.file(timer.config(), 0o644, text);
    let service = draft.template(
        paths::unit(&timer.service()),
        template!("kubexm-timer.service"),
        context! { bin => paths::BIN, mode => timer.mode, description, limit => limit(timer) },
    )?;
    let unit = draft.template(
        paths::unit(&timer.timer()),
        template!("kubexm-timer.timer"),
        context! { description, schedule, delay, fixed, service => timer.service() },
    )?;
    Ok([config, service, unit])
}

fn backup_name(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> String {
    let id = cx.cluster_id.map(|id| id.to_string().chars().take(ID).collect::<String>());
    let parts = [Some(cx.cluster.name.clone()), id, Some(node.name().to_owned())];
    parts.into_iter().flatten().collect::<Vec<_>>().join("-")
}

fn json(config: &impl Serialize) -> Result<String, RecipeError> {
    let bug = |error: serde_json::Error| RecipeError::Document { name: "timer's config", reason: error.to_string() };
    Ok(serde_json::to_string_pretty(config).map_err(bug)? + "\n")
}

/// Backups that are there stay.
fn remove(cluster: &Cluster, node: &PlannedHost<'_>) -> Option<Step> {
    let there = |timer: &HostTimer| node.facts.timers.contains(timer.name);
    let unwanted: Vec<HostTimer> =
        TIMERS.into_iter().filter(|timer| there(timer) && !is_wanted(cluster, node.roles, *timer)).collect();
    if unwanted.is_empty() {
        return None;
    }
    let mut step = Step::on(node.name(), "timers.remove", "Remove timers that cluster.yaml does not ask for any more");
    for timer in unwanted {
        let stopped = Unit {
            name: timer.timer(),
            enabled: false,
            running: Some(false),
            loaded: Vec::new(),
            reloaded: Vec::new(),
        };
        let units = [timer.timer(), timer.service()].map(|unit| paths::unit(&unit));
        let files = units.into_iter().chain([timer.config(), timer.record(), timer.unfinished(), timer.stamp()]);
        step = step.ensure(stopped).ensure_all(files.map(|path| Absent { path }));
        // Once systemd has no file for it: one that waits for this run to end would work afterwards, and one that has failed would be shown
        // until the next boot.
        step = step.ensure(service_unit(timer, false, Some(false)));
    }
    Some(step.undo(Undo::RestoreBefore).build())
}

fn service_unit(timer: HostTimer, enabled: bool, running: Option<bool>) -> Unit {
    Unit { name: timer.service(), enabled, running, loaded: Vec::new(), reloaded: Vec::new() }
}

/// How long its service may take, with what it waits for. It has the host's lock meanwhile, also where an export hangs.
fn limit(timer: HostTimer) -> &'static str {
    if timer == ETCD_BACKUP { "90min" } else { "3h" }
}
