//! A sample cluster that tests bend.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::collections::BTreeMap;

use kubexm_manifests::{Catalogue, require};
use kubexm_plan::cluster_facts::{AppliedCluster, EtcdMember, NodeFacts};
use kubexm_plan::facts::Stamp;
use kubexm_plan::op::{Content, Op};
use kubexm_plan::{ClusterFacts, Facts, Plan, StepId, lint};
use kubexm_recipes::charts::CarriedCharts;
use kubexm_recipes::packages::CarriedPackages;
use kubexm_recipes::{Materials, PlanContext, RecipeError, Sealing, SignedCertificates, sample};
use kubexm_spec::cluster::{Addon, AddonKind, AddonSource};
use kubexm_spec::{Cluster, Digest, Manifest};
use serde_json::Map;

pub struct Site {
    pub cluster: Cluster,
    pub catalogue: Catalogue,
    pub manifest: Manifest,
    pub facts: BTreeMap<String, Facts>,
    pub packages: CarriedPackages,
    pub set_aside: bool,
    pub without_fan_out: bool,
    pub materials: Materials,
    pub charts: CarriedCharts,
    pub sealing: Sealing,
    pub signed: SignedCertificates,
}

impl Site {
    pub fn new() -> Self {
        Self::of(sample::cluster())
    }

    /// A bundle and good hosts for this cluster.
    pub fn of(cluster: Cluster) -> Self {
        let all = Catalogue::embedded();
        let manifest = sample::manifest(&cluster, &all).unwrap();
        // As in a bundle: what was not needed when it was built is not in its catalogue.
        let catalogue = all.used_by(&require(&cluster, &all).unwrap());
        let facts = sample::all_facts(&cluster);
        let packages = sample::packages(&cluster, &catalogue).unwrap();
        let materials = sample::materials(&cluster);
        let charts = sample::charts(&cluster, &manifest);
        let sealing = sample::sealing();
        let signed = sample::signed(&cluster);
        Self {
            cluster,
            catalogue,
            manifest,
            facts,
            packages,
            set_aside: false,
            without_fan_out: false,
            materials,
            charts,
            sealing,
            signed,
        }
    }

    pub fn facts(&mut self) -> &mut Facts {
        self.facts.get_mut("node1").unwrap()
    }

    pub fn cx(&self) -> PlanContext<'_> {
        PlanContext {
            bundle_record: None,
            cluster: &self.cluster,
            cluster_id: Some(sample::CLUSTER_ID),
            cluster_digest: Digest::of("cluster.yaml"),
            manifest: &self.manifest,
            manifest_digest: Digest::of("manifest.json"),
            catalogue: &self.catalogue,
            facts: &self.facts,
            set_aside: self.set_aside,
            without_fan_out: self.without_fan_out,
            packages: &self.packages,
            materials: &self.materials,
            charts: &self.charts,
            sealing: Some(&self.sealing),
            from_backup: None,
            signed: Some(&self.signed),
        }
    }

    /// Every host but one was brought into the cluster by an earlier run.
    pub fn join_all_but(&mut self, new: &str) {
        for (name, facts) in &mut self.facts {
            facts.joined = name != new;
            facts.stamp = facts.joined.then(|| Stamp {
                cluster: self.cluster.name.clone(),
                id: None,
                run: "earlier".to_owned(),
                bundle: None,
                adopted: false,
            });
        }
    }

    /// All hosts but the last are in the cluster; and what it has recorded of its making.
    pub fn running(cluster: &Cluster) -> (Self, ClusterFacts) {
        let mut site = Self::of(cluster.clone());
        let map = serde_json::from_str(text(&site.create().unwrap(), "kubexm-cluster")).unwrap();
        site.join_all_but(&cluster.hosts.last().unwrap().name);
        let applied = Some(AppliedCluster::of_config_map(&map).unwrap());
        (site, ClusterFacts { applied, ..ClusterFacts::default() })
    }

    pub fn create(&self) -> Result<Plan, RecipeError> {
        kubexm_recipes::create(&self.cx())
    }

    /// The plan of `create`, of which lint has no word.
    pub fn checked(&self) -> Plan {
        let plan = self.create().unwrap_or_else(|error| panic!("{error}"));
        let (_, warnings) = lint::check(plan.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
        assert_eq!(warnings, Vec::new());
        plan
    }
}

/// A node of v1.34.4 that is well.
pub fn node_facts(name: &str) -> NodeFacts {
    NodeFacts {
        name: name.to_owned(),
        roles: Vec::new(),
        kubelet: "v1.34.4".to_owned(),
        runtime: "containerd".to_owned(),
        runtime_version: "2.2.7".to_owned(),
        os_image: "Debian".to_owned(),
        kernel: "6.1".to_owned(),
        addresses: Vec::new(),
        ready: true,
        conditions: Vec::new(),
        unschedulable: false,
        cordoned_by: None,
        settings: None,
    }
}

/// A member of etcd that is well.
pub fn member(name: &str) -> EtcdMember {
    EtcdMember {
        id: "1".to_owned(),
        name: name.to_owned(),
        peer_urls: vec![format!("https://{name}:2380")],
        version: Some("3.6.5".to_owned()),
        healthy: true,
        learner: false,
        database: None,
    }
}

pub fn addon(name: &str, kind: AddonKind) -> Addon {
    Addon {
        name: name.to_owned(),
        kind,
        source: AddonSource::Path { path: format!("addons/{name}").into() },
        namespace: "apps".to_owned(),
        values: Map::new(),
        values_file: None,
        after: Vec::new(),
        secrets: Vec::new(),
    }
}

/// Adds `name=version` words to what a host of Debian says it has installed.
pub fn install(facts: &mut Facts, list: &str) {
    let installed = facts.packages.as_mut().unwrap();
    for entry in list.split(' ') {
        let (name, version) = entry.split_once('=').unwrap();
        installed.list.push_str(&format!(
            "Package: {name}\nStatus: install ok installed\nVersion: {version}\nArchitecture: amd64\n\n"
        ));
    }
}

/// The text that a plan puts at a path, or applies under a name.
pub fn text<'p>(plan: &'p Plan, wanted: &str) -> &'p str {
    let mut ops = plan.steps.iter().flat_map(|s| &s.ops);
    let digest = ops.find_map(|op| match op {
        Op::File(file) if file.path == wanted => match &file.content {
            Content::Text { digest } | Content::Filled { digest, .. } => Some(digest),
            Content::Slot { .. } => None,
        },
        Op::KubeObject(object) if object.name == wanted => Some(&object.text),
        _ => None,
    });
    &plan.texts[digest.unwrap_or_else(|| panic!("the plan writes no {wanted}"))]
}

/// The text that a step's op names.
pub fn fleet_text<'p>(plan: &'p Plan, step: &str) -> &'p str {
    let step = plan.step(&StepId(step.to_owned())).unwrap_or_else(|| panic!("the plan has no {step}"));
    &plan.texts[&step.ops.iter().find_map(Op::text).unwrap()]
}
