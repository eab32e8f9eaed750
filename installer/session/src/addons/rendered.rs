//! Charts of a plan, rendered with their real values before the first change: what needs an image, a kind of object or a version of
//! Kubernetes that is not there is refused by name. Each step renders its chart again on its host, with what only the cluster can tell
//! (`lookup`).

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt as _, stream};
use kubexm_charts::judge::{Known, outside};
use kubexm_charts::stored::comparable;
use kubexm_charts::{documents, extract, objects};
use kubexm_plan::addons::{AddonsAsk, InstalledAddon, InstalledAddons, InstalledKind};
use kubexm_plan::lint::Order;
use kubexm_plan::op::{HelmRelease, Manifests, ReleaseInput};
use kubexm_plan::{Op, Pipeline, Plan};
use kubexm_spec::cluster::NetworkPlugin;
use kubexm_spec::{ExitCode, KubernetesVersion, one_line, rendering};
use serde_json::Value;

use super::ahead::Ahead;
use super::classes::second_default;
use super::helm::{Helm, Job};
use super::installed;
use super::kinds::Kinds;
use crate::bundle::opened::Opened;
use crate::error::SessionError;
use crate::events;
use crate::fleet::Fleet;
use crate::home::ClusterHome;
use crate::session::Session;

/// How often a chart is rendered until its own definitions change nothing any more.
const ROUNDS: usize = 3;
/// Charts that are rendered at once, each by a helm.
const AT_ONCE: usize = 4;
/// Objects of each add-on that a message names.
const NAMED: usize = 5;
/// Length of the label in which a release notes its chart.
const LABEL: usize = 63;

/// An add-on, or the pod network, of a plan.
pub(crate) struct Planned<'a> {
    /// Of its step in the plan.
    pub step: usize,
    pub name: &'a str,
    pub namespace: &'a str,
    pub content: Content<'a>,
}

pub(crate) enum Content<'a> {
    Release(&'a HelmRelease, ReleaseInput),
    Objects(&'a Manifests),
}

/// What a plan installs, in its order. Removals are not among it.
pub(crate) fn planned(plan: &Plan) -> Vec<Planned<'_>> {
    let ops = plan.steps.iter().enumerate().flat_map(|(at, step)| step.ops.iter().map(move |op| (at, op)));
    let mut all = Vec::new();
    for (step, op) in ops {
        match op {
            Op::HelmRelease(release) => {
                let input = plan.texts.get(&release.input).and_then(|text| serde_json::from_str(text).ok());
                let content = Content::Release(release, input.unwrap_or_default());
                all.push(Planned { step, name: &release.name, namespace: &release.namespace, content });
            }
            Op::Manifests(op) if !op.is_removal() => {
                all.push(Planned { step, name: &op.name, namespace: &op.namespace, content: Content::Objects(op) });
            }
            _ => {}
        }
    }
    all
}

/// The objects of a file of the bundle, or of a text of the plan; what is no YAML there is reported by its step.
pub(crate) fn of_file(opened: &Opened, plan: &Plan, op: &Manifests) -> Option<Vec<Value>> {
    let text = match op.in_plan {
        true => plan.texts.get(&op.blob).cloned()?,
        false => {
            let bytes =
                opened.bundle().read(&kubexm_archive::members::blob_name(&op.blob), documents::STREAM_LIMIT).ok()?;
            String::from_utf8(bytes).ok()?
        }
    };
    documents::read(&text).ok().map(objects::flattened)
}

/// The release of this name that the cluster has, whoever installed it.
fn installed<'r>(running: Option<&'r InstalledAddons>, release: &HelmRelease) -> Option<&'r InstalledAddon> {
    running?.addons.iter().find(|one| {
        one.kind == InstalledKind::Helm
            && (one.name.as_str(), one.namespace.as_str()) == (release.name.as_str(), release.namespace.as_str())
    })
}

/// Whether the cluster has a release already as it is planned.
pub(crate) fn is_installed(running: Option<&InstalledAddons>, release: &HelmRelease, input: &ReleaseInput) -> bool {
    let label: String = release.chart.hex().chars().take(LABEL).collect();
    let values = rendering::digest(&comparable(&input.values));
    installed(running, release).is_some_and(|one| {
        one.status == "deployed" && one.source.as_deref() == Some(&*label) && one.values == Some(values)
    })
}

/// Whether the cluster has the objects of a file already.
pub(crate) fn is_applied(running: Option<&InstalledAddons>, op: &Manifests) -> bool {
    let is_it = |one: &InstalledAddon| {
        one.kind == InstalledKind::Yaml
            && (one.name.as_str(), one.namespace.as_str()) == (op.name.as_str(), op.namespace.as_str())
            && one.source.as_deref() == Some(&*op.blob.hex())
    };
    running.is_some_and(|running| running.addons.iter().any(is_it))
}

/// What is rendered with.
pub(crate) struct Renderer<'a> {
    pub opened: &'a Opened,
    pub helm: Helm,
    pub kubernetes: String,
}

impl<'a> Renderer<'a> {
    /// None if the bundle's helm does not run on this machine, or may not: which is reported.
    pub(crate) async fn of(
        session: &Session<'_>,
        opened: &'a Opened,
        (home, helm): (&ClusterHome, &Ahead),
        running: Option<&InstalledAddons>,
    ) -> Result<Option<Self>, SessionError> {
        let found = match opened.may_run_here() {
            true => helm.helm(opened, home).await,
            false => Ok(None),
        };
        let of_bundle = opened.bundle().manifest().cluster.as_ref().map(|cluster| cluster.kubernetes.clone());
        let kubernetes = running.map(|running| running.kubernetes.clone()).filter(|version| !version.is_empty());
        let why = match found {
            Ok(Some(helm)) => {
                return Ok(Some(Self { opened, helm, kubernetes: kubernetes.or(of_bundle).unwrap_or_default() }));
            }
            Ok(None) if !opened.may_run_here() => {
                "nobody whom you trust has signed the bundle, and --allow-unsigned is not given".to_owned()
            }
            Ok(None) => {
                format!("the bundle has none for this machine, {}/{}", std::env::consts::OS, std::env::consts::ARCH)
            }
            Err(error) => format!("below {}: {error}", home.programs().display()),
        };
        events::note(
            session.events,
            format!(
                "the bundle's helm does not run here ({why}): charts are not rendered before the first change, but each on the first control \
                 plane before its own step"
            ),
        );
        Ok(None)
    }

    /// The objects of a release; its own definitions are known when the rest is rendered, as helm does it. `first`: what it renders to with
    /// these kinds, if that is known.
    pub(crate) async fn render(
        &self,
        release: &HelmRelease,
        input: &ReleaseInput,
        kinds: &mut Kinds,
        (upgrade, mut first): (bool, Option<Rendering>),
    ) -> Result<Vec<Value>, String> {
        let mut rendered = Vec::new();
        for _ in 0..ROUNDS {
            rendered = match first.take() {
                Some(first) => first?,
                None => self.once(release, input, &kinds.apis(), upgrade).await?,
            };
            if !kinds.learn(&rendered) {
                break;
            }
        }
        Ok(rendered)
    }

    async fn once(&self, release: &HelmRelease, input: &ReleaseInput, apis: &[String], upgrade: bool) -> Rendering {
        let job = Job {
            name: &release.name,
            namespace: &release.namespace,
            chart: &release.chart,
            values: &input.values,
            kubernetes: &self.kubernetes,
            apis,
            upgrade,
        };
        self.helm.render(self.opened.bundle(), &job).await.map(objects::flattened)
    }

    /// Every release of these, side by side, with kinds that none of them has added to; by their positions among these.
    async fn ahead(
        &self,
        all: &[&Planned<'_>],
        apis: &[String],
        running: Option<&InstalledAddons>,
    ) -> BTreeMap<usize, Rendering> {
        let releases = all.iter().enumerate().filter_map(|(at, one)| match &one.content {
            Content::Release(release, input) => Some((at, release, input, installed(running, release).is_some())),
            Content::Objects(_) => None,
        });
        let jobs =
            releases.map(async |(at, release, input, upgrade)| (at, self.once(release, input, apis, upgrade).await));
        stream::iter(jobs).buffer_unordered(AT_ONCE).collect().await
    }
}

/// The objects of a release, or what helm says.
type Rendering = Result<Vec<Value>, String>;

/// Refuses a plan whose add-ons cannot be installed. `joined`: whether there is a cluster already.
pub(crate) async fn check(
    session: &Session<'_>,
    opened: &Opened,
    (home, fleet, helm): (&ClusterHome, &Fleet, &Ahead),
    plan: &Plan,
    joined: bool,
) -> Result<(), SessionError> {
    let all = planned(plan);
    if all.is_empty() {
        return Ok(());
    }
    let running = match joined {
        false => None,
        true => {
            let ask = AddonsAsk { apis: true, ..AddonsAsk::default() };
            match installed::of(fleet, opened.cluster(), &ask).await {
                Ok((_, running)) => Some(running),
                Err(error) => {
                    let text = format!(
                        "add-ons are checked at their own steps only, since the API server was not asked: {}",
                        one_line(&error.to_string())
                    );
                    events::warning(session.events, text);
                    return Ok(());
                }
            }
        }
    };
    let changes = |one: &Planned<'_>| match &one.content {
        Content::Release(release, input) => !is_installed(running.as_ref(), release, input),
        // What is in the plan is made here, or of a network that is tested.
        Content::Objects(op) => !op.in_plan && !is_applied(running.as_ref(), op),
    };
    if !all.iter().any(changes) {
        return Ok(());
    }
    let mut wrong = Problems::default();
    all.iter().for_each(|one| wrong.foreign(one, running.as_ref()));
    events::phase(session.events, "render");
    let of_chart = |one: &Planned<'_>| matches!(one.content, Content::Release(..)) && changes(one);
    let renderer = match all.iter().any(of_chart) {
        false => None,
        true => {
            let running = running.as_ref().filter(|_| plan.pipeline != Pipeline::Upgrade);
            Renderer::of(session, opened, (home, helm), running).await?
        }
    };
    let mut kinds = kinds(opened, plan.pipeline, running.as_ref());
    if opened.cluster().network.plugin == NetworkPlugin::Cilium {
        // Its operator registers them when it starts.
        kinds.allow("cilium.io");
    }
    let mut found: Vec<(&Planned<'_>, Vec<Value>)> = Vec::new();
    // Definitions of objects first: charts may ask for them.
    for one in &all {
        if let Content::Objects(op) = &one.content
            && let Some(objects) = of_file(opened, plan, op)
        {
            kinds.learn(&objects);
            found.push((one, objects));
        }
    }
    let apis = kinds.apis();
    let charts: Vec<&Planned<'_>> = all.iter().filter(|one| of_chart(one)).collect();
    let mut ahead = match &renderer {
        Some(renderer) => renderer.ahead(&charts, &apis, running.as_ref()).await,
        None => BTreeMap::new(),
    };
    for (at, one) in charts.into_iter().enumerate() {
        let (Content::Release(release, input), Some(renderer)) = (&one.content, &renderer) else { continue };
        // What one before it defines may change it, and one that has failed may have had too little of the machine.
        let first = ahead.remove(&at).filter(|first| first.is_ok() && kinds.apis() == apis);
        let upgrade = installed(running.as_ref(), release).is_some();
        match renderer.render(release, input, &mut kinds, (upgrade, first)).await {
            Ok(objects) => {
                wrong.images(one, input, &objects);
                found.push((one, objects));
            }
            Err(why) => {
                wrong.add(ExitCode::ChartRender, format!("the chart of add-on {} cannot be rendered: {why}", one.name))
            }
        }
    }
    let order = Order::of(plan);
    for (one, objects) in &found {
        if let Some(text) = second_default(opened.cluster(), one.name, objects) {
            wrong.add(ExitCode::Config, text);
        }
    }
    // What charts define is not known where none of them could be rendered.
    let is_blind = renderer.is_none() && all.iter().any(of_chart);
    for (one, objects) in found.iter().filter(|(one, _)| !is_blind && changes(one)) {
        wrong.kinds(one, objects, &found, &Served { kinds: &kinds, running: running.as_ref(), order: &order, plan });
    }
    wrong.result()
}

/// What is served when the add-ons come.
fn kinds(opened: &Opened, pipeline: Pipeline, running: Option<&InstalledAddons>) -> Kinds {
    let minor = |version: &str| version.parse::<KubernetesVersion>().ok().map(|version| version.minor());
    let of_bundle = opened.bundle().manifest().cluster.as_ref().and_then(|cluster| minor(&cluster.kubernetes));
    let kinds = match running {
        Some(running) if pipeline == Pipeline::Upgrade && minor(&running.kubernetes) != of_bundle => {
            Kinds::of_upgraded(running.apis.clone())
        }
        running => Kinds::of(running.map(|running| running.apis.clone())),
    };
    kinds.with_minor(of_bundle)
}

struct Served<'a> {
    kinds: &'a Kinds,
    running: Option<&'a InstalledAddons>,
    order: &'a Order,
    plan: &'a Plan,
}

#[derive(Default)]
struct Problems(Vec<(ExitCode, String)>);

impl Problems {
    fn add(&mut self, code: ExitCode, text: String) {
        self.0.push((code, text));
    }

    /// A release that somebody else has installed is not taken over.
    fn foreign(&mut self, one: &Planned<'_>, running: Option<&InstalledAddons>) {
        let Content::Release(release, _) = &one.content else { return };
        let Some(other) = installed(running, release).filter(|other| !other.ours) else { return };
        let HelmRelease { name, namespace, .. } = release;
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

    fn images(&mut self, one: &Planned<'_>, input: &ReleaseInput, objects: &[Value]) {
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
    fn kinds(&mut self, one: &Planned<'_>, objects: &[Value], all: &[(&Planned<'_>, Vec<Value>)], served: &Served<'_>) {
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

    fn result(self) -> Result<(), SessionError> {
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
    use kubexm_plan::{Step, StepId, Undo};
    use kubexm_spec::Digest;
    use serde_json::json;

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
}
