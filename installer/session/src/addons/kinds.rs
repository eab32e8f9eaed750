//! Which kinds of objects a cluster has: of Kubernetes itself, and of definitions that add-ons bring. Pure.

use std::collections::BTreeSet;

use kubexm_charts::objects::{Identity, defined};
use serde_json::Value;

const DEFINITION: &str = "CustomResourceDefinition";

/// API groups of Kubernetes itself (1.24 to 1.36); the core group has no name.
const GROUPS: [&str; 23] = [
    "",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];

/// Versions of them that are gone, and the last minor version of Kubernetes that served them (upstream's deprecation guide): 24 is 1.24, and
/// what went before that is 0.
const GONE: [(&str, u32); 16] = [
    ("apiextensions.k8s.io/v1beta1", 0),
    ("apps/v1beta1", 0),
    ("apps/v1beta2", 0),
    ("autoscaling/v2beta1", 24),
    ("autoscaling/v2beta2", 25),
    ("batch/v1beta1", 24),
    ("batch/v2alpha1", 0),
    ("discovery.k8s.io/v1beta1", 24),
    ("events.k8s.io/v1beta1", 24),
    ("flowcontrol.apiserver.k8s.io/v1beta1", 25),
    ("flowcontrol.apiserver.k8s.io/v1beta2", 28),
    ("flowcontrol.apiserver.k8s.io/v1beta3", 31),
    ("node.k8s.io/v1beta1", 24),
    ("policy/v1beta1", 24),
    ("rbac.authorization.k8s.io/v1beta1", 0),
    ("scheduling.k8s.io/v1beta1", 0),
];

/// What a cluster serves.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kinds {
    /// `apps/v1/Deployment`; none of a cluster that does not exist yet.
    served: Option<BTreeSet<String>>,
    /// Of definitions: `example.com/v1`, `example.com/v1/Thing`.
    defined: BTreeSet<String>,
    /// Groups of which all is there.
    allowed: BTreeSet<String>,
    /// Whether Kubernetes itself will be of another minor version by then: what it serves now of its own groups says nothing.
    upgraded: bool,
    /// The minor version that it will have, where that is known.
    minor: Option<u32>,
}

impl Kinds {
    /// Of a cluster that runs, by what it serves; otherwise of one that will be made.
    pub(crate) fn of(served: Option<Vec<String>>) -> Self {
        Self { served: served.map(|served| served.into_iter().collect()), ..Self::default() }
    }

    /// Of a cluster that runs, once Kubernetes is of another minor version.
    pub(crate) fn of_upgraded(served: Vec<String>) -> Self {
        Self { upgraded: true, ..Self::of(Some(served)) }
    }

    /// Of Kubernetes of a minor version.
    pub(crate) fn with_minor(self, minor: Option<u32>) -> Self {
        Self { minor, ..self }
    }

    /// Whether Kubernetes will be of another minor version by then.
    pub(crate) const fn is_of_another_minor(&self) -> bool {
        self.upgraded
    }

    /// Without what was learned or allowed.
    pub(crate) fn served_alone(&self) -> Self {
        Self { served: self.served.clone(), upgraded: self.upgraded, minor: self.minor, ..Self::default() }
    }

    /// Adds what definitions among the objects define; whether that is anything new.
    pub(crate) fn learn(&mut self, objects: &[Value]) -> bool {
        let before = self.defined.len();
        self.defined.extend(objects.iter().filter(|object| object["kind"] == DEFINITION).flat_map(defined));
        self.defined.len() > before
    }

    /// Takes every kind of a group as there.
    pub(crate) fn allow(&mut self, group: &str) {
        self.allowed.insert(group.to_owned());
    }

    /// For helm's `--api-versions`, in addition to what it knows by itself.
    pub(crate) fn apis(&self) -> Vec<String> {
        let counts = |name: &&String| !self.upgraded || !GROUPS.contains(&group(name));
        self.served.iter().flatten().filter(counts).chain(&self.defined).cloned().collect()
    }

    /// Whether a cluster that runs serves all that a definition defines.
    pub(crate) fn has_defined(&self, definition: &Value) -> bool {
        self.served.as_ref().is_some_and(|served| defined(definition).iter().all(|name| served.contains(name)))
    }

    /// Objects whose kind is not there: `Thing web of example.com/v1`.
    pub(crate) fn missing(&self, objects: &[Value]) -> Vec<String> {
        let missing = objects.iter().filter(|object| !self.has(object));
        let names: BTreeSet<String> = missing
            .map(|object| {
                let version = object["apiVersion"].as_str().unwrap_or_default();
                format!("{} {} of {version}", Identity::of(object).kind, Identity::of(object).name)
            })
            .collect();
        names.into_iter().collect()
    }

    /// Version and kind of the objects whose kind is not there, each once.
    pub(crate) fn absent(&self, objects: &[Value]) -> BTreeSet<(String, String)> {
        let all: BTreeSet<(&str, &str)> = objects.iter().map(version_and_kind).collect();
        let absent = all.into_iter().filter(|(version, kind)| !self.serves(version, kind));
        absent.map(|(version, kind)| (version.to_owned(), kind.to_owned())).collect()
    }

    fn has(&self, object: &Value) -> bool {
        let (version, kind) = version_and_kind(object);
        self.serves(version, kind)
    }

    /// Whether a kind is there.
    pub(crate) fn serves(&self, version: &str, kind: &str) -> bool {
        let name = format!("{version}/{kind}");
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let of_kubernetes = GROUPS.contains(&group);
        if self.defined.contains(&name) || self.allowed.contains(group) {
            return true;
        }
        match &self.served {
            Some(served) if !(self.upgraded && of_kubernetes) => served.contains(&name),
            Some(_) | None => of_kubernetes && !self.is_gone(version),
        }
    }

    fn is_gone(&self, version: &str) -> bool {
        let last = GONE.iter().find(|(gone, _)| *gone == version).map(|(_, last)| *last);
        last.is_some_and(|last| self.minor.is_none_or(|minor| minor > last))
    }
}

/// The group of `apps/v1/Deployment`, of `apps/v1`, and of `v1/ConfigMap`, which has no name.
fn group(name: &str) -> &str {
    let is_version =
        |text: &str| text.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    name.split('/').next().filter(|first| !is_version(first)).unwrap_or_default()
}

fn version_and_kind(object: &Value) -> (&str, &str) {
    (object["apiVersion"].as_str().unwrap_or_default(), object["kind"].as_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(version: &str, kind: &str) -> Value {
        json!({"apiVersion": version, "kind": kind, "metadata": {"name": "x"}})
    }

    fn definition() -> Value {
        let spec = json!({"group": "example.com", "names": {"kind": "Thing"}, "versions": [{"name": "v1"}]});
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": DEFINITION, "metadata": {"name": "things.example.com"}, "spec": spec})
    }

    #[test]
    fn a_kind_is_kubernetes_own_or_an_add_ons_or_missing() {
        let mut kinds = Kinds::of(None);
        let own = [object("apps/v1", "Deployment"), object("v1", "ConfigMap"), definition()];
        assert!(kinds.missing(&own).is_empty());
        let others = [object("example.com/v1", "Thing"), object("policy/v1beta1", "PodSecurityPolicy")];
        assert_eq!(kinds.missing(&others), ["PodSecurityPolicy x of policy/v1beta1", "Thing x of example.com/v1"]);
        assert!(kinds.learn(&own) && !kinds.learn(&own));
        assert_eq!(kinds.missing(&others), ["PodSecurityPolicy x of policy/v1beta1"]);
        assert_eq!(kinds.apis(), ["example.com/v1", "example.com/v1/Thing"]);
    }

    #[test]
    fn what_an_older_minor_still_serves_is_there() {
        let kinds = |minor| Kinds::of(None).with_minor(minor);
        for (version, kind, last) in [
            ("policy/v1beta1", "PodSecurityPolicy", 24),
            ("autoscaling/v2beta2", "HorizontalPodAutoscaler", 25),
            ("flowcontrol.apiserver.k8s.io/v1beta3", "FlowSchema", 31),
        ] {
            assert!(
                kinds(Some(last)).serves(version, kind) && !kinds(Some(last + 1)).serves(version, kind),
                "{version}"
            );
            assert!(!kinds(None).serves(version, kind), "{version}");
        }
        assert!(!kinds(Some(24)).serves("apps/v1beta1", "Deployment"));
    }

    #[test]
    fn of_one_that_gets_another_minor_version_only_what_others_have_registered_counts() {
        let served = ["v1/ConfigMap", "apps/v1/Deployment", "monitoring.example/v1/Rule", "monitoring.example/v1"];
        let kinds = Kinds::of_upgraded(served.map(str::to_owned).to_vec());
        let new = [
            object("resource.k8s.io/v1", "ResourceClaim"),
            object("v1", "Secret"),
            object("monitoring.example/v1", "Rule"),
        ];
        assert_eq!(kinds.missing(&new), [""; 0]);
        let gone = [object("policy/v1beta1", "PodDisruptionBudget"), object("other.example/v1", "Thing")];
        assert_eq!(kinds.missing(&gone).len(), 2);
        assert_eq!(kinds.apis(), ["monitoring.example/v1", "monitoring.example/v1/Rule"]);
        assert!(!kinds.served_alone().serves("other.example/v1", "Thing"));
    }

    #[test]
    fn of_a_cluster_that_runs_its_own_answer_counts() {
        let kinds = Kinds::of(Some(vec!["v1/ConfigMap".to_owned(), "monitoring.example/v1/Rule".to_owned()]));
        let all = [object("v1", "ConfigMap"), object("monitoring.example/v1", "Rule"), object("apps/v1", "Deployment")];
        assert_eq!(kinds.missing(&all), ["Deployment x of apps/v1"]);
    }
}
