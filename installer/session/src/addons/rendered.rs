//! Charts of a plan, rendered with their real values before the first change: what needs an image, a kind of object or a version of
//! Kubernetes that is not there is refused by name. Each step renders its chart again on its host, with what only the cluster can tell
//! (`lookup`).

use std::collections::BTreeMap;

use futures::{StreamExt as _, stream};
use kubexm_charts::objects;
use kubexm_plan::addons::{AddonsAsk, InstalledAddons};
use kubexm_plan::lint::Order;
use kubexm_plan::op::{HelmRelease, ReleaseInput};
use kubexm_plan::{Pipeline, Plan};
use kubexm_spec::cluster::NetworkPlugin;
use kubexm_spec::{ExitCode, KubernetesVersion, one_line};
use serde_json::Value;

use super::ahead::Ahead;
use super::classes::second_default;
use super::helm::{Helm, Job};
use super::installed;
use super::kinds::Kinds;
use super::planned::{Content, Planned, is_applied, is_installed, of_file, planned, there};
use super::problems::{Problems, Served};
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
            Content::Release(release, input) => Some((at, release, input, there(running, release).is_some())),
            Content::Objects(_) => None,
        });
        let jobs =
            releases.map(async |(at, release, input, upgrade)| (at, self.once(release, input, apis, upgrade).await));
        stream::iter(jobs).buffer_unordered(AT_ONCE).collect().await
    }
}

/// The objects of a release, or what helm says.
type Rendering = Result<Vec<Value>, String>;

/// Refuses a plan whose add-ons cannot be installed. `joined`: whether there is a cluster already. `changes_hosts`: whether
/// it may be run; who only looks is shown what there is.
pub(crate) async fn check(
    session: &Session<'_>,
    opened: &Opened,
    (home, fleet, helm): (&ClusterHome, &Fleet, &Ahead),
    plan: &Plan,
    (joined, changes_hosts): (bool, bool),
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
    if changes_hosts {
        all.iter().for_each(|one| wrong.foreign(one, running.as_ref()));
    }
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
        let upgrade = there(running.as_ref(), release).is_some();
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
