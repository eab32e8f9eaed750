//! What is wrong with the add-ons of a plan, as texts for people: images, kinds and releases, each by name.

use std::collections::BTreeSet;

use kubexm_charts::extract;
use kubexm_charts::judge::{Known, outside};
use kubexm_plan::Plan;
use kubexm_plan::addons::InstalledAddons;
use kubexm_plan::lint::Order;
use kubexm_plan::op::{HelmRelease, ReleaseInput};
use kubexm_spec::ExitCode;
use serde_json::Value;

use super::kinds::Kinds;
use super::planned::{Content, Planned, there};
use crate::error::SessionError;

/// Status of a release that could not be read: whose it is is not known.
const UNREADABLE: &str = "unreadable";
/// Objects of each add-on that a message names.
const NAMED: usize = 5;

/// What is served when the add-ons come.
pub(super) struct Served<'a> {
    pub kinds: &'a Kinds,
    pub running: Option<&'a InstalledAddons>,
    pub order: &'a Order,
    pub plan: &'a Plan,
}

/// Problems, each with its exit code.
#[derive(Default)]
pub(super) struct Problems(Vec<(ExitCode, String)>);

impl Problems {
    pub(super) fn add(&mut self, code: ExitCode, text: String) {
        self.0.push((code, text));
    }

    /// A release that somebody else has installed is not taken over.
    pub(super) fn foreign(&mut self, one: &Planned<'_>, running: Option<&InstalledAddons>) {
        let Content::Release(planned, _) = &one.content else { return };
        let Some(other) = there(running, planned).filter(|other| !other.ours && other.status != UNREADABLE) else {
            return;
        };
        let HelmRelease { name, namespace, .. } = planned;
        self.add(
            ExitCode::Preflight,
            format!(
                "the release {name} in namespace {namespace} was not installed by kubexm (chart {}, {}) and is left as it is; give the \
                 add-on another name or namespace in cluster.yaml, or remove the release: helm uninstall {name} --namespace {namespace}",
                other.chart.as_deref().unwrap_or("unknown"),
                other.status
            ),
        );
    }

    pub(super) fn images(&mut self, one: &Planned<'_>, input: &ReleaseInput, objects: &[Value]) {
        let known = Known::new(input.images.iter().map(String::as_str), input.ignored.iter().map(String::as_str));
        let missing = outside(&extract::images(objects), &known);
        if missing.is_empty() {
            return;
        }
        let each: Vec<String> = missing.iter().map(|(name, place)| format!("{name} ({place})")).collect();
        self.add(
            ExitCode::BundleIncomplete,
            format!(
                "with the values of this site the chart of {} names images that the bundle does not have: {}; build a bundle with them \
                 (spec.bundle.extraImages), or list what is no image under spec.bundle.ignoreImages",
                one.name,
                each.join(", ")
            ),
        );
    }

    /// Kinds that nobody serves, or that an add-on defines for which this one does not wait.
    pub(super) fn kinds(
        &mut self,
        one: &Planned<'_>,
        objects: &[Value],
        all: &[(&Planned<'_>, Vec<Value>)],
        served: &Served<'_>,
    ) {
        let missing = served.kinds.missing(objects);
        // What an add-on before it registers while it runs is not known here.
        let waits = served.plan.steps.get(one.step).is_some_and(|step| {
            step.after.iter().any(|id| id.0.split_once("/addons.").is_some_and(|(_, name)| !name.contains('.')))
        });
        if !missing.is_empty() && !waits {
            self.add(
                ExitCode::BundleIncomplete,
                format!(
                    "add-on {} has objects of kinds that neither Kubernetes {} nor another add-on brings: {}; add what defines them, \
                     and if that is an add-on that registers them while it runs, name it in `after`",
                    one.name,
                    served.running.filter(|_| !served.kinds.is_of_another_minor()).map_or("of the bundle", |running| running.kubernetes.as_str()),
                    some(&missing)
                ),
            );
        }
        let mut alone = served.kinds.served_alone();
        alone.learn(objects);
        let mut definers = BTreeSet::new();
        // By kind, of which there are few, and not by object.
        let (absent, nowhere) = (alone.absent(objects), served.kinds.absent(objects));
        for (other, theirs) in all.iter().filter(|(other, _)| other.step != one.step) {
            let mut with = alone.clone();
            let defines =
                with.learn(theirs) && absent.difference(&nowhere).any(|(version, kind)| with.serves(version, kind));
            if defines {
                definers.insert((other.step, other.name.to_owned()));
            }
        }
        let early: Vec<&str> = definers
            .iter()
            .filter(|(step, _)| !served.order.is_earlier(*step, one.step))
            .map(|(_, name)| name.as_str())
            .collect();
        if !early.is_empty() && early.len() == definers.len() {
            self.add(
                ExitCode::Config,
                format!(
                    "add-on {} has objects of kinds that add-on {} defines, and does not wait for it: write `after: [{}]`",
                    one.name, early[0], early[0]
                ),
            );
        }
    }

    pub(super) fn result(self) -> Result<(), SessionError> {
        let code = self.0.iter().map(|(code, _)| *code).max_by_key(|code| code.code());
        match code {
            None => Ok(()),
            Some(code) => {
                Err(SessionError::Charts { problems: self.0.into_iter().map(|(_, text)| text).collect(), code })
            }
        }
    }
}

fn some(all: &[String]) -> String {
    let more = all.len().saturating_sub(NAMED);
    let named = all.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    if more == 0 { named } else { format!("{named} and {more} more") }
}

#[cfg(test)]
mod tests {
    use kubexm_plan::addons::{InstalledAddon, InstalledKind};
    use kubexm_plan::op::Manifests;
    use kubexm_plan::{Pipeline, Step, StepId, Undo};
    use kubexm_spec::Digest;
    use serde_json::json;

    use super::super::planned::planned;
    use super::*;

    /// Two add-ons of YAML, `a` and `b`; `b` waits for these steps.
    fn plan(after: &[&str]) -> Plan {
        let step = |name: &str| {
            let op = Manifests {
                name: name.to_owned(),
                namespace: "apps".to_owned(),
                blob: Digest::of(name),
                in_plan: false,
                slots: Vec::new(),
                wait_s: 1,
            };
            Step::on("node1", &format!("addons.{name}"), "Apply").ensure(op).undo(Undo::RestoreBefore).build()
        };
        let (first, mut second) = (step("a"), step("b"));
        second.after = after.iter().map(|id| StepId((*id).to_owned())).collect();
        Plan {
            schema: kubexm_plan::SCHEMA,
            pipeline: Pipeline::Create,
            cluster_name: "demo".to_owned(),
            cluster_id: None,
            cluster: Digest::of(""),
            bundle: None,
            hosts: Vec::new(),
            fleet_concurrency: 1,
            host_concurrency: 1,
            slots: Default::default(),
            texts: Default::default(),
            steps: vec![first, second],
        }
    }

    fn thing(version: &str) -> Value {
        json!({"apiVersion": version, "kind": "Thing", "metadata": {"name": "x"}})
    }

    /// What is wrong with `b`, which has this object; `a` defines `Thing` of `example.com/v1`.
    fn wrong(after: &[&str], object: Value) -> Vec<(ExitCode, String)> {
        let spec = json!({"group": "example.com", "names": {"kind": "Thing"}, "versions": [{"name": "v1"}]});
        let version = "apiextensions.k8s.io/v1";
        let definition =
            json!({"apiVersion": version, "kind": "CustomResourceDefinition", "metadata": {"name": "t"}, "spec": spec});
        let plan = plan(after);
        let all = planned(&plan);
        let mut kinds = Kinds::of(None);
        kinds.learn(std::slice::from_ref(&definition));
        let found = vec![(&all[0], vec![definition]), (&all[1], vec![object])];
        let served = Served { kinds: &kinds, running: None, order: &Order::of(&plan), plan: &plan };
        let mut problems = Problems::default();
        for (one, objects) in &found {
            problems.kinds(one, objects, &found, &served);
        }
        problems.0
    }

    #[test]
    fn an_add_on_that_needs_anothers_definition_waits_for_it_or_is_refused_with_the_line() {
        let found = wrong(&[], thing("example.com/v1"));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, ExitCode::Config);
        assert!(found[0].1.contains("add-on b") && found[0].1.contains("`after: [a]`"), "{}", found[0].1);
        assert!(wrong(&["node1/addons.a"], thing("example.com/v1")).is_empty());
    }

    #[test]
    fn a_kind_that_nobody_brings_is_refused_unless_an_add_on_before_may_register_it() {
        let found = wrong(&["node1/addons.b.secrets"], thing("other.example/v1"));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, ExitCode::BundleIncomplete);
        assert!(found[0].1.contains("Thing x of other.example/v1"), "{}", found[0].1);
        assert!(wrong(&["node1/addons.a"], thing("other.example/v1")).is_empty());
    }

    /// What is wrong with a chart `web` of a cluster that has this one.
    fn with(installed: InstalledAddon) -> Vec<(ExitCode, String)> {
        let release = HelmRelease {
            name: "web".to_owned(),
            namespace: "apps".to_owned(),
            chart: Digest::of("a chart"),
            input: Digest::of("values"),
            slots: Vec::new(),
            wait_s: 1,
        };
        let content = Content::Release(&release, ReleaseInput::default());
        let one = Planned { step: 0, name: "web", namespace: "apps", content };
        let running = InstalledAddons { addons: vec![installed], ..InstalledAddons::default() };
        let mut problems = Problems::default();
        problems.foreign(&one, Some(&running));
        problems.0
    }

    #[test]
    fn a_release_of_somebody_else_is_left_alone_before_a_run_and_one_that_cannot_be_read_is_nobodys() {
        let installed = |namespace: &str, ours: bool, status: &str| InstalledAddon {
            namespace: namespace.to_owned(),
            name: "web".to_owned(),
            kind: InstalledKind::Helm,
            ours,
            status: status.to_owned(),
            chart: Some("web-1.2.3".to_owned()),
            revision: Some(1),
            source: None,
            values: None,
            drifted: None,
            not_compared: None,
            objects: None,
        };
        let found = with(installed("apps", false, "deployed"));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, ExitCode::Preflight);
        assert!(found[0].1.contains("web-1.2.3") && found[0].1.contains("helm uninstall web"), "{}", found[0].1);
        for other in [
            installed("apps", true, "failed"),
            installed("other", false, "deployed"),
            installed("apps", false, "unreadable"),
        ] {
            assert!(with(other.clone()).is_empty(), "{other:?}");
        }
    }
}
