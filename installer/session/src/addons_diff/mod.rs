//! What a bundle would change of the add-ons of a running cluster: object by object, and field by field. Nothing is changed for it, and
//! neither a value of a Secret nor what looks like one is shown.

mod fields;

use std::collections::BTreeMap;

use kubexm_charts::objects::Identity;
use kubexm_plan::addons::{AddonsAsk, InstalledAddon, InstalledAddons, InstalledKind, masked, of_step, secrets_of};
use kubexm_plan::op::Manifests;
use kubexm_plan::{Op, Plan};
use serde_json::Value;

pub use self::fields::Changed;
use self::fields::Fields;
use crate::addons::installed;
use crate::addons::kinds::Kinds;
use crate::addons::planned::{Content, Planned, is_installed, of_file, planned};
use crate::addons::rendered::Renderer;
use crate::diff::document_without_secrets;
use crate::error::SessionError;
use crate::events;
use crate::observe::subject::Subject;
use crate::plan::Checked;

const DEFINITION: &str = "CustomResourceDefinition";

/// What would change.
#[derive(Clone, Debug, PartialEq)]
pub struct AddonsDiff {
    /// `metadata.name` of the cluster.yaml.
    pub cluster: String,
    /// Every add-on that cluster.yaml has or that would be removed, in the order of the plan.
    pub addons: Vec<AddonDiff>,
}

/// What would change of one add-on.
#[derive(Clone, Debug, PartialEq)]
pub struct AddonDiff {
    pub name: String,
    pub namespace: String,
    pub kind: InstalledKind,
    pub change: Change,
    /// Objects that would be made, changed or removed, in the order of their names; none if they are not known.
    pub objects: Option<Vec<ObjectDiff>>,
    /// What else is to be known: why objects are not, what has drifted, whose release it is.
    pub notes: Vec<String>,
}

/// What would become of an add-on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Installed,
    Changed,
    Removed,
    /// Nothing.
    Same,
}

impl Change {
    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Installed => "installed",
            Self::Changed => "changed",
            Self::Removed => "removed",
            Self::Same => "same",
        }
    }
}

/// What would become of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectDiff {
    /// `apps/v1`.
    pub api_version: String,
    pub kind: String,
    /// Empty outside of namespaces, and where it is that of the add-on.
    pub namespace: String,
    pub name: String,
    pub change: Change,
    /// Of one that is changed.
    pub fields: Vec<Changed>,
    /// Whether it outlives its add-on: it holds data or objects of others.
    pub kept: bool,
}

impl AddonsDiff {
    /// Whether nothing would change.
    pub fn is_same(&self) -> bool {
        self.addons.iter().all(|addon| addon.change == Change::Same)
    }
}

impl<S: Subject> Checked<'_, S> {
    /// Compares the add-ons of the plan with what is installed, and removes the agents that connecting has installed.
    ///
    /// # Errors
    /// No control plane answers.
    pub async fn addons_diff(self) -> Result<AddonsDiff, SessionError> {
        let compared = self.compared_addons().await;
        drop(self.leave().await);
        compared
    }

    async fn compared_addons(&self) -> Result<AddonsDiff, SessionError> {
        let (session, plan, cluster) = (self.site.session, self.plan.plan(), self.site.subject.cluster());
        let opened = self.site.subject.bundle().ok_or(SessionError::NoCluster)?;
        events::phase(session.events, "compare");
        let salt = salt()?;
        let ask = AddonsAsk { compare: true, apis: true, objects: Some(salt.clone()) };
        let (_, running) = installed::of(&self.site.fleet, cluster, &ask).await?;
        let all = planned(plan);
        let is_new = |one: &Planned<'_>| match &one.content {
            Content::Release(release, input) => !is_installed(Some(&running), release, input),
            Content::Objects(_) => false,
        };
        let renderer = match all.iter().any(is_new) {
            true => Renderer::of(session, opened, (&self.site.home, &self.site.helm), Some(&running)).await?,
            false => None,
        };
        let mut kinds = Kinds::of(Some(running.apis.clone()));
        let served = kinds.clone();
        let mut addons: Vec<AddonDiff> = removals(plan, &running);
        for one in all.iter().filter(|one| of_step(&plan.steps[one.step].id).is_some()) {
            let (kind, name) = match &one.content {
                Content::Release(..) => (InstalledKind::Helm, one.name),
                Content::Objects(op) => match secrets_of(&op.name) {
                    Some(addon) => (InstalledKind::Secrets, addon),
                    None => (InstalledKind::Yaml, one.name),
                },
            };
            let is_it = |there: &&InstalledAddon| {
                (there.kind, there.name.as_str()) == (kind, name)
                    && (kind != InstalledKind::Helm || there.namespace == one.namespace)
            };
            let there = running.addons.iter().find(is_it);
            let mut diff = AddonDiff {
                name: name.to_owned(),
                namespace: one.namespace.to_owned(),
                kind,
                change: Change::Same,
                objects: None,
                notes: notes(there),
            };
            let wanted = match (&one.content, &renderer) {
                (Content::Release(release, input), _) if is_installed(Some(&running), release, input) => None,
                (Content::Release(release, input), Some(renderer)) => {
                    match renderer.render(release, input, &mut kinds, (there.is_some(), None)).await {
                        Ok(objects) => Some(objects),
                        Err(why) => {
                            diff.notes.push(format!("its chart cannot be rendered: {why}"));
                            diff.change = Change::Changed;
                            None
                        }
                    }
                }
                (Content::Release(..), None) => {
                    diff.change = Change::Changed;
                    diff.notes.push("its chart is not rendered here, so its objects are not known".to_owned());
                    None
                }
                (Content::Objects(op), _) if is_source(there, op) => None,
                (Content::Objects(_), _) if kind == InstalledKind::Secrets => {
                    diff.change = Change::Changed;
                    diff.notes.push("values are compared by a run only".to_owned());
                    None
                }
                (Content::Objects(op), _) => of_file(opened, plan, op),
            };
            if let Some(mut wanted) = wanted {
                // helm installs definitions beside the templates once, and never changes them.
                wanted.retain(|object| {
                    object["kind"] != DEFINITION || kind != InstalledKind::Helm || !served.has_defined(object)
                });
                let wanted = wanted.into_iter().map(|object| masked(object, &salt)).collect();
                let before = there.map(|there| there.objects.clone());
                (diff.change, diff.objects) = match before {
                    None => (Change::Installed, Some(objects(Vec::new(), wanted, one.namespace, &mut diff.notes))),
                    Some(Some(before)) => {
                        (Change::Changed, Some(objects(before, wanted, one.namespace, &mut diff.notes)))
                    }
                    Some(None) => (Change::Changed, None),
                };
            } else if there.is_none() {
                diff.change = Change::Installed;
            }
            if diff.change == Change::Same
                && there.and_then(|there| there.drifted.as_ref()).is_some_and(|all| !all.is_empty())
            {
                diff.change = Change::Changed;
            }
            addons.push(diff);
        }
        Ok(AddonsDiff { cluster: cluster.name.clone(), addons })
    }
}

/// Nobody can guess values of Secrets by what stands for them.
fn salt() -> Result<String, SessionError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| SessionError::NoRandom(error.to_string()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn is_source(there: Option<&InstalledAddon>, op: &Manifests) -> bool {
    there.is_some_and(|there| there.source.as_deref() == Some(&*op.blob.hex()) && there.namespace == op.namespace)
}

fn notes(there: Option<&InstalledAddon>) -> Vec<String> {
    let Some(there) = there else { return Vec::new() };
    let mut notes = Vec::new();
    if !there.ours {
        let chart = there.chart.as_deref().unwrap_or("of a chart");
        notes.push(format!("the release is {chart}, somebody else has installed it, and `apply` refuses it"));
    }
    if let Some(drifted) = there.drifted.as_ref().filter(|drifted| !drifted.is_empty()) {
        notes.push(format!("was changed since, and is set back: {}", drifted.join(", ")));
    }
    if there.ours && there.objects.is_none() {
        notes.extend(there.not_compared.iter().map(|why| format!("its objects are not known: {why}")));
    }
    notes
}

/// Add-ons that the plan removes.
fn removals(plan: &Plan, running: &InstalledAddons) -> Vec<AddonDiff> {
    let mut all = Vec::new();
    for op in plan.steps.iter().flat_map(|step| &step.ops) {
        let (name, namespace, kind) = match op {
            Op::ReleaseAbsent(op) => (op.name.as_str(), op.namespace.as_str(), InstalledKind::Helm),
            Op::Manifests(op) if op.is_removal() => match secrets_of(&op.name) {
                Some(addon) => (addon, op.namespace.as_str(), InstalledKind::Secrets),
                None => (op.name.as_str(), op.namespace.as_str(), InstalledKind::Yaml),
            },
            _ => continue,
        };
        let is_it = |there: &&InstalledAddon| {
            (there.kind, there.name.as_str()) == (kind, name)
                && (kind != InstalledKind::Helm || there.namespace == namespace)
        };
        // One of somebody else is left alone.
        let Some(there) = running.addons.iter().find(is_it).filter(|there| there.ours) else { continue };
        let mut notes = notes(Some(there));
        let before = there.objects.clone();
        let objects = before.map(|before| objects(before, Vec::new(), namespace, &mut notes));
        all.push(AddonDiff {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            kind,
            change: Change::Removed,
            objects,
            notes,
        });
    }
    all
}

type Key = (Identity, String);

/// What differs between two lists of objects; those that are the same are left out. A note says how many fields are not named.
fn objects(before: Vec<Value>, after: Vec<Value>, default: &str, notes: &mut Vec<String>) -> Vec<ObjectDiff> {
    let (mut before, mut after) = (by_identity(before, default), by_identity(after, default));
    let keys: std::collections::BTreeSet<Key> = before.keys().chain(after.keys()).cloned().collect();
    let (mut all, mut compared) = (Vec::new(), Fields::default());
    for key in keys {
        let (old, new) = (before.remove(&key), after.remove(&key));
        let (change, fields) = match (&old, &new) {
            (None, _) => (Change::Installed, Vec::new()),
            (_, None) => (Change::Removed, Vec::new()),
            (Some(old), Some(new)) => {
                let (shown_old, shown_new) = (shown(old), shown(new));
                match compared.of((Some(old), Some(&shown_old)), (Some(new), Some(&shown_new))) {
                    None => continue,
                    Some(fields) => (Change::Changed, fields),
                }
            }
        };
        let Some(object) = new.or(old) else { continue };
        let identity = Identity::of(&object);
        all.push(ObjectDiff {
            api_version: object["apiVersion"].as_str().unwrap_or_default().to_owned(),
            kept: change == Change::Removed && identity.is_kept(),
            kind: identity.kind,
            namespace: identity.namespace,
            name: identity.name,
            change,
            fields,
        });
    }
    match compared.more() {
        0 => {}
        more => notes.push(format!("so many fields would change that {more} more of them are not named")),
    }
    all
}

fn by_identity(objects: Vec<Value>, default: &str) -> BTreeMap<Key, Value> {
    let keyed = |mut object: Value| {
        let mut identity = Identity::of(&object);
        // Whether a chart names the namespace of its release or none is the same.
        let namespace = std::mem::take(&mut identity.namespace);
        if namespace == default
            && let Some(metadata) = object["metadata"].as_object_mut()
        {
            metadata.remove("namespace");
        }
        let namespace = if namespace.is_empty() { default.to_owned() } else { namespace };
        ((identity, namespace), object)
    };
    objects.into_iter().map(keyed).collect()
}

/// An object as it may be shown; values of Secrets were replaced before.
fn shown(object: &Value) -> Value {
    if object["kind"] == "Secret" { object.clone() } else { document_without_secrets(object) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::support_bundle::redact::MARK;

    fn map(name: &str, value: Value) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"app.kubernetes.io/name": "x"}}, "data": value})
    }

    #[test]
    fn objects_are_named_with_the_fields_that_change() {
        let before = vec![map("a", json!({"k": "1", "old": "x"})), map("b", json!({})), map("same", json!({}))];
        let mut same = map("same", json!({}));
        same["metadata"]["namespace"] = "apps".into();
        let mut relabeled = map("a", json!({"k": "2"}));
        relabeled["metadata"]["labels"]["app.kubernetes.io/name"] = "y".into();
        let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}});
        let found = objects(
            [before, vec![claim]].concat(),
            vec![relabeled, map("c", json!({})), same],
            "apps",
            &mut Vec::new(),
        );
        let said: Vec<(&str, &str, bool)> =
            found.iter().map(|one| (one.name.as_str(), one.change.word(), one.kept)).collect();
        let fields: Vec<&str> = found[0].fields.iter().map(|one| one.field.as_str()).collect();
        assert_eq!(fields, ["data.k", "data.old", "metadata.labels[\"app.kubernetes.io/name\"]"]);
        assert_eq!(
            said,
            [("a", "changed", false), ("b", "removed", false), ("c", "installed", false), ("data", "removed", true)]
        );
    }

    #[test]
    fn what_looks_like_a_secret_is_a_change_whose_values_are_not_shown() {
        let of = |password: &str| {
            let env = json!([{"name": "DB_PASSWORD", "value": password}, {"name": "LEVEL", "value": password.len().to_string()}]);
            let pod = json!({"containers": [{"env": env, "args": [format!("--token={password}")]}]});
            let deployment =
                json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": pod});
            vec![map("a", json!({"password": password, "level": "1"})), deployment]
        };
        let found = objects(of("hunter2"), of("hunter23"), "apps", &mut Vec::new());
        assert!(!format!("{found:?}").contains("hunter"), "{found:?}");
        let all: Vec<&Changed> = found.iter().flat_map(|one| &one.fields).collect();
        let fields: Vec<&str> = all.iter().map(|one| one.field.as_str()).collect();
        let of_pod = ["args[0]", "env[0].value", "env[1].value"].map(|name| format!("spec.containers[0].{name}"));
        assert_eq!(fields, ["data.password", &of_pod[0], &of_pod[1], &of_pod[2]]);
        assert_eq!(all[3].after, Some(json!("8")));
    }

    #[test]
    fn a_field_whose_name_is_a_secret_is_a_change_without_it() {
        let of = |level: &str| vec![map("a", json!({"https://user:hunter2@r.test/": level}))];
        let found = objects(of("1"), of("2"), "apps", &mut Vec::new());
        let one = &found[0].fields[0];
        assert_eq!((&one.before, &one.after), (&Some(json!(MARK)), &Some(json!(MARK))), "{found:?}");
        assert!(!format!("{found:?}").contains("hunter2") && one.field.contains("r.test"), "{found:?}");
    }
}
