//! The plans of a sample, each with the bundle that it needs.

use std::cell::RefCell;
use std::collections::BTreeMap;

use kubexm_manifests::Catalogue;
use kubexm_plan::backup::Archive;
use kubexm_plan::cluster_facts::{AppliedCluster, applied};
use kubexm_plan::{CheckedPlan, ClusterFacts, Facts, Op, Plan, lint};
use kubexm_recipes::{PlanContext, Recipe, RecipeError, UpgradeOptions};
use kubexm_spec::cluster::{Addon, AddonKind};
use kubexm_spec::{Cluster, Digest};

use super::sample::Sample;
use crate::synthetic::SyntheticBundle;

impl Sample {
    /// The bundle and the plan of the whole cluster, for hosts as they are before anything was done.
    pub fn plan_create(&self) -> (SyntheticBundle, CheckedPlan) {
        self.plan_of(&self.cluster(), &self.facts(), kubexm_recipes::create)
    }

    /// The bundle and the plan that makes the cluster from a backup.
    pub fn plan_create_from_backup(&self, archive: Archive) -> (SyntheticBundle, CheckedPlan) {
        let create = |cx: &PlanContext<'_>| {
            let source = kubexm_recipes::sample_backup::of(cx, archive);
            Ok(kubexm_recipes::create_from_backup(cx, &source)?.0)
        };
        self.plan_of(&self.cluster(), &self.facts(), create)
    }

    /// The bundle and the plan that adds [`Sample::added`] to the cluster of the others.
    pub fn plan_add_node(&self) -> (SyntheticBundle, CheckedPlan) {
        let add = |cx: &PlanContext<'_>| {
            let running = kubexm_plan::ClusterFacts::default();
            kubexm_recipes::add_node(cx, &running, &kubexm_recipes::absent(cx, &running)?)
        };
        self.plan_of(&self.cluster(), &self.facts_before_add_node(), add)
    }

    /// The same, of a cluster as it was found.
    ///
    /// # Errors
    /// Why they cannot be added.
    pub fn plan_add_node_to(&self, running: &ClusterFacts) -> Result<(SyntheticBundle, CheckedPlan), String> {
        let add = |cx: &PlanContext<'_>| kubexm_recipes::add_node(cx, running, &kubexm_recipes::absent(cx, running)?);
        self.try_plan_of(&self.cluster(), &self.facts_before_add_node(), add).map_err(|error| error.to_string())
    }

    /// The bundle and the plan that completes the cluster as it was found.
    ///
    /// # Errors
    /// What preflight finds changed, or why there is no plan.
    pub fn plan_create_again(
        &self,
        facts: &BTreeMap<String, Facts>,
        running: &ClusterFacts,
    ) -> Result<(SyntheticBundle, CheckedPlan), String> {
        let changed = RefCell::new(Vec::new());
        let create = |cx: &PlanContext<'_>| {
            let found = kubexm_recipes::preflight(cx).into_iter().map(|finding| finding.to_string());
            changed.borrow_mut().extend(found.filter(|text| text.contains(": unchanged: ")));
            Ok(Recipe::Create.plan(cx, running)?.0)
        };
        let planned = self.try_plan_of(&self.cluster(), facts, create).map_err(|error| error.to_string())?;
        let changed = changed.into_inner();
        if changed.is_empty() { Ok(planned) } else { Err(changed.join("\n")) }
    }

    /// The cluster of another version.
    fn of_version(&self, version: &str) -> Cluster {
        let mut cluster = self.cluster();
        if let Some(kubernetes) = &mut cluster.kubernetes {
            kubernetes.version = Some(version.to_owned());
        }
        cluster
    }

    /// The bundle and the plan of the cluster that [`Sample::plan_upgrade`] upgrades.
    pub fn plan_before_upgrade(&self) -> (SyntheticBundle, CheckedPlan) {
        let [from, _] = self.upgraded.expect("a sample that is upgraded");
        self.plan_of(&self.of_version(from), &self.facts(), kubexm_recipes::create)
    }

    /// The bundle and the plan that upgrades the cluster as it was found.
    pub fn plan_upgrade(&self, running: &ClusterFacts) -> (SyntheticBundle, CheckedPlan) {
        let [_, to] = self.upgraded.expect("a sample that is upgraded");
        let (facts, cluster) = (self.facts_of_cluster_without(&[]), self.of_version(to));
        let options = UpgradeOptions { os_packages: !cluster.bundle.os.is_empty(), ..UpgradeOptions::default() };
        let upgrade = |cx: &PlanContext<'_>| Ok(kubexm_recipes::upgrade(cx, running, &options)?.plan);
        self.plan_of(&cluster, &facts, upgrade)
    }

    /// The same of a cluster that was adopted.
    pub fn plan_upgrade_of_adopted(&self, running: &ClusterFacts) -> (SyntheticBundle, CheckedPlan) {
        let [_, to] = self.upgraded.expect("a sample that is upgraded");
        let (mut facts, options) = (self.facts_of_cluster_without(&[]), UpgradeOptions::default());
        for stamp in facts.values_mut().filter_map(|facts| facts.stamp.as_mut()) {
            (stamp.adopted, stamp.id) = (true, Some(kubexm_recipes::sample::CLUSTER_ID));
        }
        let upgrade = |cx: &PlanContext<'_>| Ok(kubexm_recipes::upgrade(cx, running, &options)?.plan);
        self.plan_of(&self.of_version(to), &facts, upgrade)
    }

    /// The sample with other add-ons: the first has other values, the last is gone, and there is a new one that waits for the first.
    pub fn cluster_with_other_addons(&self) -> Cluster {
        let mut cluster = self.cluster();
        cluster.addons.pop();
        let Some(first) = cluster.addons.first_mut() else { return cluster };
        first.values.insert("replicas".to_owned(), 3.into());
        let (name, after) = ("more".to_owned(), vec![first.name.clone()]);
        let more = Addon { name, after, kind: AddonKind::Yaml, values: Default::default(), ..first.clone() };
        cluster.addons.push(more);
        cluster
    }

    /// What its `create` records in the cluster.
    pub fn applied(&self) -> AppliedCluster {
        let (_, plan) = self.plan_create();
        let text = plan.plan().steps.iter().flat_map(|step| &step.ops).find_map(|op| match op {
            Op::KubeObject(object) if object.name == applied::CONFIG_MAP => plan.plan().texts.get(&object.text),
            _ => None,
        });
        let object = serde_json::from_str(text.expect("a record")).expect("JSON");
        AppliedCluster::of_config_map(&object).expect("a record")
    }

    /// The bundle and the plan that applies the add-ons of [`Sample::cluster_with_other_addons`] to the cluster.
    pub fn plan_addons_apply(&self) -> (SyntheticBundle, CheckedPlan) {
        let running = ClusterFacts { applied: Some(self.applied()), ..ClusterFacts::default() };
        let apply = |cx: &PlanContext<'_>| Ok(kubexm_recipes::addons_apply(cx, &running, &[])?.0);
        self.plan_of(&self.cluster_with_other_addons(), &self.facts_of_cluster_without(&[]), apply)
    }

    /// The bundle and the plan of the cluster that [`Sample::plan_add_node`] adds to.
    pub fn plan_before_add_node(&self) -> (SyntheticBundle, CheckedPlan) {
        self.plan_of(&self.cluster_before_add_node(), &self.facts(), kubexm_recipes::create)
    }

    fn plan_of(
        &self,
        cluster: &Cluster,
        facts: &BTreeMap<String, Facts>,
        pipeline: impl Fn(&PlanContext<'_>) -> Result<Plan, RecipeError>,
    ) -> (SyntheticBundle, CheckedPlan) {
        self.try_plan_of(cluster, facts, pipeline).expect("a plan for a sample")
    }

    fn try_plan_of(
        &self,
        cluster: &Cluster,
        facts: &BTreeMap<String, Facts>,
        pipeline: impl Fn(&PlanContext<'_>) -> Result<Plan, RecipeError>,
    ) -> Result<(SyntheticBundle, CheckedPlan), RecipeError> {
        let catalogue = Catalogue::embedded();
        let bundle = SyntheticBundle::of(cluster, &catalogue).expect("a bundle for a sample");
        let cx = PlanContext {
            bundle_record: None,
            cluster,
            cluster_id: Some(kubexm_recipes::sample::CLUSTER_ID),
            cluster_digest: Digest::of(self.yaml()),
            manifest: &bundle.manifest,
            manifest_digest: bundle.digest().expect("a digest"),
            catalogue: &catalogue,
            facts,
            set_aside: self.occupied,
            without_fan_out: false,
            packages: &bundle.packages,
            materials: &kubexm_recipes::sample::materials(cluster),
            charts: &kubexm_recipes::sample::charts(cluster, &bundle.manifest),
            sealing: Some(&kubexm_recipes::sample::sealing()),
            from_backup: None,
            signed: Some(&kubexm_recipes::sample::signed(cluster)),
        };
        let plan = pipeline(&cx)?;
        let (plan, _) = lint::check(plan).expect("the plan passes its lint");
        Ok((bundle, plan))
    }
}
