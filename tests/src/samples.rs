//! Sample clusters, one for each shape that makes a different plan.

#![allow(clippy::expect_used, reason = "a sample that cannot be planned is a failed test")]

use std::collections::BTreeMap;

use kubexm_engine::sim;
use kubexm_manifests::Catalogue;
use kubexm_plan::{CheckedPlan, Facts, lint};
use kubexm_recipes::PlanCx;
use kubexm_spec::{Cluster, Digest, cluster};

use crate::synthetic::SyntheticBundle;

/// A sample: its cluster.yaml, and what is special about its host.
#[derive(Clone, Copy)]
pub struct Sample {
    /// For messages.
    pub name: &'static str,
    /// Fields below `spec`.
    spec: &'static str,
    /// Changes the facts of a usual host.
    facts: fn(&mut Facts),
}

/// All samples.
pub const SAMPLES: [Sample; 3] = [
    Sample { name: "defaults", spec: "", facts: |_| {} },
    Sample {
        name: "a named minor, a usable resolver, without optional tools",
        spec: "  kubernetes: {version: v1.34}\n  bundle: {exclude: [crictl, helm]}\n",
        facts: |facts| facts.nameservers = Some(vec![[10, 0, 0, 53].into()]),
    },
    Sample {
        name: "isolated: no default route, no resolver",
        spec: "  kubernetes: {version: v1.36}\n",
        facts: |facts| {
            facts.default_route = false;
            facts.nameservers = None;
        },
    },
];

const HOST: &str = "node1";
const ADDRESS: &str = "10.0.0.11";

impl Sample {
    /// cluster.yaml.
    pub fn yaml(&self) -> String {
        format!(
            "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: demo}}\nspec:\n  hosts:\n  - {{name: {HOST}, address: {ADDRESS}, labels: {{zone: one}}}}\n  \
             roleGroups: {{etcd: [{HOST}], master: [{HOST}], worker: [{HOST}]}}\n{}",
            self.spec
        )
    }

    /// The parsed cluster.
    pub fn cluster(&self) -> Cluster {
        cluster::parse(&self.yaml()).expect("a sample cluster.yaml is right")
    }

    /// What its host looks like.
    pub fn facts(&self) -> BTreeMap<String, Facts> {
        let mut facts = sim::facts(HOST);
        facts.interfaces[0].addresses = vec![format!("{ADDRESS}/24")];
        (self.facts)(&mut facts);
        BTreeMap::from([(HOST.to_owned(), facts)])
    }

    /// Names of its hosts.
    pub fn hosts(&self) -> Vec<String> {
        vec![HOST.to_owned()]
    }

    /// The bundle and the plan of a pipeline.
    pub fn plan(&self, pipeline: crate::laws::Pipeline) -> (SyntheticBundle, CheckedPlan) {
        let (cluster, catalogue) = (self.cluster(), Catalogue::embedded());
        let bundle = SyntheticBundle::of(&cluster, &catalogue).expect("a bundle for a sample");
        let facts = self.facts();
        let cx = PlanCx {
            cluster: &cluster,
            cluster_digest: Digest::of(self.yaml()),
            manifest: &bundle.manifest,
            manifest_digest: bundle.digest().expect("a digest"),
            catalogue: &catalogue,
            facts: &facts,
        };
        let plan = (pipeline.plan)(&cx).expect("a plan for a sample");
        let (plan, _) = lint::check(plan).expect("the plan passes its lint");
        (bundle, plan)
    }
}
