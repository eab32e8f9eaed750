//! What a plan will do, for the person who confirms it. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use kubexm_plan::op::Op;
use kubexm_plan::{Plan, Removal, Resource, SlotProvider, Step, StepId, Undo};
use kubexm_session::{Drift, escaped};
use kubexm_spec::counted;

/// Steps by module, and what cannot be rolled back.
pub fn short(plan: &Plan) -> String {
    let mut text = head(plan);
    for (module, steps) in modules(plan) {
        let _ = writeln!(text, "  {module}");
        for step in steps {
            let host = if plan.hosts.len() > 1 { format!("{}: ", step.host) } else { String::new() };
            let _ = writeln!(text, "    {host}{}", step.title);
        }
    }
    tail(&mut text, plan);
    text
}

/// For hosts that are in the cluster already: what the plan would change, with its lines, instead of every step.
pub fn drifted(plan: &Plan, drift: &Drift) -> String {
    let mut text = hosts(plan);
    text.push_str(&differences(plan, drift));
    let follow: BTreeSet<&StepId> = restarts(plan, drift).into_iter().map(|step| &step.id).collect();
    let changing = |step: &Step| drift.steps.iter().any(|changed| changed.step == step.id) || follow.contains(&step.id);
    text.extend(sealed_for(plan));
    if !drift.steps.is_empty() {
        irreversible(&mut text, plan.steps.iter().filter(|step| changing(step)));
    }
    text
}

/// Steps that are in place now and will not be once the drift is removed: what they started has read files that are replaced.
pub fn restarts<'p>(plan: &'p Plan, drift: &Drift) -> Vec<&'p Step> {
    let drifted = |step: &Step| drift.steps.iter().any(|changed| changed.step == step.id);
    let replaced: Vec<(&str, Resource)> = plan
        .steps
        .iter()
        .filter(|step| drifted(step))
        .flat_map(|step| {
            step.ops.iter().flat_map(Op::resource_changes).map(|change| (step.host.as_str(), change.resource))
        })
        .collect();
    let reads = |op: &Op, resource: &Resource| {
        let files: Vec<&String> = match op {
            Op::Unit(unit) if unit.running == Some(true) => unit.loaded.iter().chain(&unit.reloaded).collect(),
            Op::StaticPodStarted(pod) => pod.files().collect(),
            _ => Vec::new(),
        };
        let below = |file: &str| matches!(resource, Resource::Path(path) if path.starts_with(&format!("{file}/")));
        files.into_iter().any(|file| below(file) || resource.overlaps(&Resource::Path(file.clone())))
    };
    let follows = |step: &&Step| {
        let here = replaced.iter().filter(|(host, _)| *host == step.host);
        !drifted(step) && here.clone().any(|(_, resource)| step.ops.iter().any(|op| reads(op, resource)))
    };
    plan.steps.iter().filter(follows).collect()
}

/// Every difference from a plan, by step.
pub fn differences(plan: &Plan, drift: &Drift) -> String {
    let mut text = String::new();
    let _ = match drift.steps.len() {
        0 => writeln!(text, "Nothing has drifted: {} are in place.", counted(drift.compared as u64, "step")),
        count => writeln!(text, "Drift: {count} of {} would change something:", counted(drift.compared as u64, "step")),
    };
    for changed in &drift.steps {
        let Some(step) = plan.step(&changed.step) else { continue };
        let _ = writeln!(text, "  {}: {}", step.host, step.title);
        for one in &changed.differences {
            // A host says both: neither may begin a line of its own.
            let _ = writeln!(text, "    {}: {}", escaped(&one.what), escaped(&one.how));
            for line in one.diff.iter().flat_map(|diff| diff.lines()) {
                let _ = writeln!(text, "      {line}");
            }
        }
    }
    let follow = restarts(plan, drift);
    if !follow.is_empty() {
        let _ = writeln!(text, "These read files that are replaced, and are restarted or reloaded:");
        for step in follow {
            let _ = writeln!(text, "  {}: {}", step.host, step.title);
        }
    }
    if drift.skipped > 0 {
        let _ = writeln!(text, "{} not compared before the run.", counted(drift.skipped as u64, "step"));
    }
    text
}

/// Every step in its order, with what must hold after it.
pub fn long(plan: &Plan) -> String {
    let mut text = plan.render();
    text.push('\n');
    for host in &plan.hosts {
        if let Some(packages) = packages(plan, &host.name).strip_prefix("; ") {
            let _ = writeln!(text, "{}: {packages}", host.name);
        }
    }
    tail(&mut text, plan);
    text
}

// Writing to a string cannot fail; the results of `writeln!` say nothing.
fn head(plan: &Plan) -> String {
    let mut text = hosts(plan);
    let _ = writeln!(text, "{} steps; what is already in place is not changed:", plan.steps.len());
    text
}

fn hosts(plan: &Plan) -> String {
    let mut text = format!("{} of cluster {}", plan.pipeline, plan.cluster_name);
    if let Some(bundle) = plan.bundle {
        let _ = write!(text, ", bundle {bundle}");
    }
    text.push('\n');
    for host in &plan.hosts {
        let _ = writeln!(text, "  host {}: {}{}", host.name, host.roles.join(", "), packages(plan, &host.name));
    }
    text
}

/// How many packages are installed on a host, and how many of them are upgrades.
fn packages(plan: &Plan, host: &str) -> String {
    let ops = plan.steps.iter().filter(|step| step.host == host).flat_map(|step| &step.ops);
    let all = ops.filter_map(|op| if let Op::Packages(packages) = op { Some(packages) } else { None });
    let (mut come, mut upgraded, mut leave) = (0, 0, Vec::new());
    for packages in all {
        let upgrades = packages.upgrades().count();
        upgraded += upgrades;
        come += packages.packages.len() - upgrades;
        leave.extend(packages.replaced.keys().map(String::as_str));
    }
    let mut parts = Vec::new();
    match come {
        0 => {}
        1 => parts.push("1 package is installed".to_owned()),
        come => parts.push(format!("{come} packages are installed")),
    }
    match upgraded {
        0 => {}
        1 => parts.push("1 package is upgraded (no rollback)".to_owned()),
        upgraded => parts.push(format!("{upgraded} packages are upgraded (no rollback)")),
    }
    if !leave.is_empty() {
        parts.push(format!("instead of {}", leave.join(", ")));
    }
    if parts.is_empty() { String::new() } else { format!("; {}", parts.join(", ")) }
}

fn tail(text: &mut String, plan: &Plan) {
    text.extend(sealed_for(plan));
    irreversible(text, plan.steps.iter());
}

/// Who can open the CA of the registry that the control planes keep: whoever is added or gone is seen before the run.
fn sealed_for(plan: &Plan) -> Option<String> {
    let recipients = plan.slots.values().find_map(|provider| match provider {
        SlotProvider::SealedAuthorities { recipients, .. } => Some(recipients),
        _ => None,
    })?;
    let each: Vec<String> = recipients.iter().map(ToString::to_string).collect();
    Some(format!("The CA of the registry is sealed for {}.\n", each.join(", ")))
}

fn irreversible<'p>(text: &mut String, steps: impl Iterator<Item = &'p Step>) {
    let irreversible: Vec<(&Step, &str)> = steps
        .filter_map(|step| match &step.undo {
            Undo::Irreversible { why } => Some((step, why.as_str())),
            _ => None,
        })
        .collect();
    if irreversible.is_empty() {
        let _ = writeln!(text, "Every step can be rolled back.");
        return;
    }
    let _ = writeln!(text, "Cannot be rolled back:");
    for (step, why) in irreversible {
        let _ = writeln!(text, "  {}: {}: {why}", step.id, step.title);
    }
}

/// What a reset will remove of each host's packages, shown before it starts, with what is lost irreversibly.
pub fn packages_to_remove(plan: &Plan) -> Vec<String> {
    let mut lines = Vec::new();
    for host in &plan.hosts {
        let resets = plan.steps.iter().filter(|step| step.host == host.name).flat_map(|step| &step.ops);
        let resets = resets.filter_map(|op| if let Op::Reset(reset) = op { Some(reset) } else { None });
        let all: Result<Vec<_>, _> = resets.map(kubexm_plan::packages_to_remove).collect();
        let removals: BTreeMap<&str, Removal> = match all {
            Ok(all) => all.into_iter().flatten().collect(),
            Err(why) => {
                lines.push(format!("{}: which packages are removed is not known: {why}", host.name));
                continue;
            }
        };
        let of = |wanted: Removal| {
            let names = removals.iter().filter(move |(_, removal)| **removal == wanted).map(|(name, _)| *name);
            names.collect::<Vec<_>>()
        };
        for (names, what) in [
            (
                of(Removal::Purged),
                "purged, with their configuration and the data that their own scripts delete; this is irreversible: \
                 rolling back the reset does not restore it, so copy what you need of it first",
            ),
            (of(Removal::Removed), "removed; configuration that was changed stays, and so does their data"),
        ] {
            if !names.is_empty() {
                let count = counted(names.len() as u64, "package");
                lines.push(format!("{}: {count} that came with the cluster: {what}: {}", host.name, names.join(" ")));
            }
        }
    }
    lines
}

/// Modules in the order in which their first step comes.
fn modules(plan: &Plan) -> Vec<(&str, Vec<&Step>)> {
    let mut modules: Vec<(&str, Vec<&Step>)> = Vec::new();
    for step in &plan.steps {
        let name = step.id.0.split_once('/').map_or(step.id.0.as_str(), |(_, name)| name);
        let module = name.split_once('.').map_or(name, |(module, _)| module);
        match modules.iter_mut().find(|(known, _)| *known == module) {
            Some((_, steps)) => steps.push(step),
            None => modules.push((module, vec![step])),
        }
    }
    modules
}

#[cfg(test)]
mod tests {
    use kubexm_plan::op::{Dir, Packages, Unit, WantedPackage};
    use kubexm_plan::{ObservedState, PlanHost, Recipient, Reset, SlotName};
    use kubexm_spec::{Digest, Family};

    use super::*;

    fn step(host: &str, names: &[(&str, bool)], replaced: &[&str], undo: Undo) -> Step {
        let wanted = |upgrade: bool| WantedPackage {
            version: "1".to_owned(),
            arch: "amd64".to_owned(),
            file: "a.deb".to_owned(),
            blob: Digest::of("a"),
            upgrade,
        };
        Step::on(host, "packages.install", "Install")
            .ensure(Packages {
                family: Family::Deb,
                repository: "/r".to_owned(),
                source: "/r/kubexm.list".to_owned(),
                packages: names.iter().map(|(name, upgrade)| ((*name).to_owned(), wanted(*upgrade))).collect(),
                replaced: replaced.iter().map(|name| ((*name).to_owned(), wanted(false))).collect(),
            })
            .undo(undo)
            .build()
    }

    fn plan(steps: Vec<Step>) -> Plan {
        let host = |name: &str| PlanHost { name: name.to_owned(), roles: vec!["worker".to_owned()], optional: false };
        Plan {
            schema: kubexm_plan::SCHEMA,
            pipeline: kubexm_plan::Pipeline::Create,
            cluster_name: "demo".to_owned(),
            cluster_id: None,
            cluster: Digest::of("cluster.yaml"),
            bundle: None,
            hosts: ["node1", "node2", "node3"].map(host).to_vec(),
            fleet_concurrency: 1,
            host_concurrency: 1,
            slots: BTreeMap::new(),
            texts: BTreeMap::new(),
            steps,
        }
    }

    #[test]
    fn a_reset_lists_for_each_host_the_packages_that_it_removes_and_no_earlier_ones() {
        let created = step(
            "node1",
            &[("open-iscsi", false), ("socat", false), ("vim", true), ("nginx", false)],
            &[],
            Undo::RestoreBefore,
        );
        let found = serde_json::json!({"packages": {
            "open-iscsi": {"is": "absent"}, "socat": {"is": "absent"}, "nginx": {"is": "configuration"},
            "vim": {"is": "installed", "version": "0", "whole": true},
        }, "links": []});
        let before = vec![ObservedState::opaque(&found, false)];
        let revert =
            Step::on("node1", "reset.revert", "Bring back").ensure(Reset::Reverted { ops: created.ops, before });
        let reported = packages_to_remove(&plan(vec![revert.undo(Undo::RestoreBefore).build()]));
        assert_eq!(reported.len(), 2, "{reported:#?}");
        assert!(
            reported[0].starts_with("node1: 2 packages ") && reported[0].ends_with(": open-iscsi socat"),
            "{reported:#?}"
        );
        assert!(reported[0].contains("purged") && reported[0].contains("data"), "{reported:#?}");
        assert!(reported[1].contains("removed") && reported[1].ends_with(": nginx"), "{reported:#?}");
    }

    #[test]
    fn who_can_open_the_ca_of_the_registry_is_part_of_every_plan() {
        let mut plan = plan(vec![step("node1", &[], &[], Undo::RestoreBefore)]);
        assert!(!short(&plan).contains("sealed"));
        let recipient =
            |key: &str, name: Option<&str>| Recipient { key: key.to_owned(), name: name.map(str::to_owned) };
        let recipients = vec![recipient("age1x", Some("alice")), recipient("age1y", None)];
        let provider = SlotProvider::SealedAuthorities { recipients, new_registry_ca: false };
        plan.slots.insert(SlotName("sealed-authorities".to_owned()), provider);
        for text in [short(&plan), long(&plan), drifted(&plan, &Drift::default())] {
            assert!(text.contains("\nThe CA of the registry is sealed for alice (age1x), age1y.\n"), "{text}");
        }
    }

    #[test]
    fn what_has_drifted_is_shown_with_its_lines_instead_of_all_steps() {
        let mut mended = step("node2", &[], &[], Undo::Irreversible { why: "old".to_owned() });
        mended.title = "Configure containerd".to_owned();
        let plan = plan(vec![step("node1", &[], &[], Undo::Irreversible { why: "no".to_owned() }), mended]);
        let differences = vec![kubexm_plan::Difference {
            what: "/etc/x".to_owned(),
            how: "+1 -1 lines".to_owned(),
            diff: Some("@@ -1 +1 @@\n-a\n+b".to_owned()),
        }];
        let steps = vec![kubexm_plan::StepDrift { step: plan.steps[1].id.clone(), differences }];
        let text = drifted(&plan, &Drift { steps, compared: 2, skipped: 1 });
        let wanted = "Drift: 1 of 2 steps would change something:\n  node2: Configure containerd\n    /etc/x: +1 -1 lines\n      \
                      @@ -1 +1 @@\n      -a\n      +b\n1 step not compared before the run.\nCannot be rolled back:\n  \
                      node2/packages.install: Configure containerd: old\n";
        assert!(text.ends_with(wanted), "{text}");
        assert!(!text.contains("Install"), "{text}");
        let text = drifted(&plan, &Drift { compared: 2, ..Drift::default() });
        assert!(text.ends_with("Nothing has drifted: 2 steps are in place.\n"), "{text}");
    }

    #[test]
    fn a_host_cannot_add_a_line_to_what_is_confirmed() {
        let plan = plan(vec![step("node1", &[], &[], Undo::RestoreBefore)]);
        let differences = vec![kubexm_plan::Difference {
            what: "/etc/x\nNothing has drifted: 9 steps are in place.".to_owned(),
            how: "+1\r\n  node2: Update\u{202e}".to_owned(),
            diff: Some("@@ -1 +1 @@\n-a\nNothing has drifted".to_owned()),
        }];
        let steps = vec![kubexm_plan::StepDrift { step: plan.steps[0].id.clone(), differences }];
        let text = drifted(&plan, &Drift { steps, compared: 1, skipped: 0 });
        assert!(
            text.lines().all(|line| !line.starts_with("Nothing has drifted") && !line.starts_with("  node2: U")),
            "{text}"
        );
        assert!(text.contains(r"/etc/x\nNothing has drifted") && !text.contains('\u{202e}'), "{text}");
        assert!(text.contains("\n      Nothing has drifted\n"), "a diff is indented: {text}");
    }

    #[test]
    fn what_is_restarted_because_a_file_that_it_read_is_replaced_is_listed() {
        let file = Step::on("node1", "control-plane.audit", "Write the audit policy")
            .ensure(Dir { path: "/etc/kubexm/audit/policy.yaml".to_owned(), mode: 0o600 })
            .undo(Undo::RestoreBefore)
            .build();
        let loaded = |host: &str, path: &str| {
            let name = path.rsplit('/').next().unwrap_or_default();
            Step::on(host, &format!("control-plane.{name}-loaded"), "Run the API server with it")
                .ensure(Unit {
                    name: "x.service".to_owned(),
                    enabled: true,
                    running: Some(true),
                    loaded: vec![path.to_owned()],
                    reloaded: Vec::new(),
                })
                .undo(Undo::Irreversible { why: "it is restarted".to_owned() })
                .build()
        };
        let (read, other) = ("/etc/kubexm/audit", "/etc/kubexm/other");
        let plan = plan(vec![file, loaded("node1", read), loaded("node1", other), loaded("node2", read)]);
        let steps = vec![kubexm_plan::StepDrift { step: plan.steps[0].id.clone(), differences: Vec::new() }];
        let text = drifted(&plan, &Drift { steps, compared: 4, skipped: 0 });
        let wanted = "These read files that are replaced, and are restarted or reloaded:\n  \
                      node1: Run the API server with it\nCannot be rolled back:\n  \
                      node1/control-plane.audit-loaded: Run the API server with it: it is restarted\n";
        assert!(text.ends_with(wanted), "{text}");
    }

    #[test]
    fn the_number_of_packages_per_host_and_changes_without_rollback_are_reported() {
        let plan = plan(vec![
            step("node1", &[("a", true), ("b", false)], &[], Undo::Irreversible { why: "old".to_owned() }),
            step("node1", &[("c", false)], &["d"], Undo::RestoreBefore),
            step("node2", &[("c", false)], &[], Undo::RestoreBefore),
        ]);
        let text = short(&plan);
        for line in [
            "  host node1: worker; 2 packages are installed, 1 package is upgraded (no rollback), instead of d\n",
            "  host node2: worker; 1 package is installed\n",
            "  host node3: worker\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
        assert!(long(&plan).contains("\nnode2: 1 package is installed\n"), "{}", long(&plan));
    }
}
