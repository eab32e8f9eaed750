//! Objects of a release that are missing, or are not as they were rendered. The API server decides, see [`Comparison`]; where it
//! cannot be asked directly, by `kubectl diff --server-side`.
//!
//! Some charts change their own objects: a controller fills in a certificate, an autoscaler sets a number that the chart names
//! too. What differs right after an install and had not before is theirs, is noted at the revision, and is no drift.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use kubexm_charts::objects::{self, Identity};
use kubexm_charts::stored::Revision;
use kubexm_plan::op::HelmRelease;
use serde_json::Value;

use super::look;
use crate::kube::compare::Comparison;
use crate::kube::kubectl;
use crate::kube::removal::by_namespace;
use crate::{Machine, OpError};

/// Annotation of a revision's Secret.
const OWN: &str = "kubexm.io/changed-by-the-chart";
/// Field manager of a comparison.
const MANAGER: &str = "kubexm-drift";
const DIFF: [&str; 5] = ["diff", "--server-side", "--force-conflicts", "--field-manager=kubexm-drift", "--filename"];

const APPLY: [&str; 5] = ["apply", "--server-side", "--force-conflicts", "--field-manager=helm", "--filename"];

/// So many objects of a release are compared one by one, each by a kubectl of its own, if those of their namespace cannot be compared together.
const MOST_ALONE: usize = 200;
/// How long an op compares the objects of a release.
const OF_AN_OP: Duration = Duration::from_secs(240);
/// The most that one kubectl is given, in seconds.
const ONCE: u64 = 120;
/// So many objects of a release are compared.
const MOST: usize = 5_000;

/// Names of the objects that have drifted, as an op asks.
pub(super) fn of(machine: &Machine, op: &HelmRelease, revision: &Revision) -> Result<Vec<String>, OpError> {
    until(machine, op, revision, Instant::now() + OF_AN_OP)
}

/// Names of the objects that have drifted. `end`: then it is given up, whatever the release has.
pub(super) fn until(
    machine: &Machine,
    op: &HelmRelease,
    revision: &Revision,
    end: Instant,
) -> Result<Vec<String>, OpError> {
    let own: BTreeSet<&str> = revision.annotation(OWN).split_whitespace().collect();
    let differ = different(machine, op, revision, end)?;
    Ok(differ.into_iter().filter(|name| !own.contains(name.as_str())).collect())
}

/// Sets back what had drifted before an upgrade and was left by it: helm compares objects of kinds that it does not know with their
/// last rendering, and not with the cluster. What else differs now was changed by the chart itself, and is noted.
pub(super) fn settle(machine: &Machine, op: &HelmRelease, drifted: &[String]) -> Result<(), OpError> {
    let history = look::history(machine, op)?;
    let Some(last) = history.last() else { return Ok(()) };
    let end = Instant::now() + OF_AN_OP;
    let mut differ = different(machine, op, last, end)?;
    if differ.iter().any(|name| drifted.contains(name)) {
        let left =
            |object: &Value| differ.iter().any(|file| drifted.contains(file) && is_of(file, object, &op.namespace));
        let left = look::objects(&look::read(last)?)?.into_iter().filter(left);
        for (namespace, objects) in by_namespace(left, &op.namespace) {
            let apply = kubectl(APPLY).args(["-", "--namespace", &namespace]).stdin(objects::list(&objects));
            machine.run(&apply)?;
        }
        differ = different(machine, op, last, end)?;
    }
    let (still, own): (Vec<String>, Vec<String>) = differ.into_iter().partition(|name| drifted.contains(name));
    if !still.is_empty() {
        return Err(OpError::other(format!(
            "objects of release {}/{} were changed, were set back, and are changed again: {}; find out who changes them, or set in the \
             chart's values what they are to be",
            op.namespace,
            op.name,
            still.join(", ")
        )));
    }
    if own.is_empty() {
        return Ok(());
    }
    let args = ["annotate", "--overwrite", "--namespace", &op.namespace, "secret", last.secret_name()];
    machine.run(&kubectl(args).arg(format!("{OWN}={}", own.join(" ")))).map(drop)
}

fn different(
    machine: &Machine,
    op: &HelmRelease,
    revision: &Revision,
    end: Instant,
) -> Result<BTreeSet<String>, OpError> {
    let all = look::objects(&look::read(revision)?)?;
    if all.len() > MOST {
        return Err(OpError::other(format!("release {}/{} has more than {MOST} objects", op.namespace, op.name)));
    }
    let mut names = BTreeSet::new();
    // Whoever may make Secrets can have one taken for a release, with an object in each of thousands of namespaces.
    let mut alone = MOST_ALONE;
    let directly = Comparison::of(machine)?;
    for (namespace, objects) in by_namespace(all, &op.namespace) {
        let late = || {
            OpError::other(format!(
                "there was no time left to compare the objects of release {}/{}, which came to namespace {namespace}",
                op.namespace, op.name
            ))
        };
        if let Some(directly) = &directly {
            let found = directly.objects((MANAGER, &namespace), &objects, end)?;
            if found.late {
                return Err(late());
            }
            // What cannot be compared is left out, as below.
            names.extend(found.changed);
            continue;
        }
        let diff = |objects: &[Value]| {
            let left = end.saturating_duration_since(Instant::now()).as_secs();
            if left == 0 {
                return Err(late());
            }
            let list = objects::list(objects);
            let program = kubectl(DIFF).args(["-", "--namespace", &namespace]).stdin(list);
            machine.try_run(&program.within(left.min(ONCE)))
        };
        let found = diff(&objects)?;
        names.extend(changed(&found.stdout()));
        if found.code > 1 {
            let Some(left) = alone.checked_sub(objects.len()) else {
                return Err(OpError::other(format!(
                    "one of the {} objects in {namespace} cannot be compared, and more than {MOST_ALONE} of release {}/{} would be asked for \
                     one by one: {}",
                    objects.len(),
                    op.namespace,
                    op.name,
                    found.tail()
                )));
            };
            alone = left;
            // One cannot be compared: a webhook that answers no dry run, a kind whose definition is gone. The others can.
            for object in &objects {
                names.extend(changed(&diff(std::slice::from_ref(object))?.stdout()));
            }
        }
    }
    Ok(names)
}

/// Whether an object is compared in a file of this name: group, version, kind, namespace (none outside of namespaces) and name.
fn is_of(file: &str, object: &Value, default: &str) -> bool {
    let Identity { namespace, name, kind, .. } = Identity::of(object);
    let version = object["apiVersion"].as_str().unwrap_or_default().replace('/', ".");
    let namespace = if namespace.is_empty() { default } else { &namespace };
    file == format!("{version}.{kind}.{namespace}.{name}") || file == format!("{version}.{kind}..{name}")
}

/// The objects of a diff, by the names of its files: `apps.v1.Deployment.default.web`.
pub(in crate::ops) fn changed(diff: &str) -> Vec<String> {
    let of_line = |line: &str| {
        let file = line.strip_prefix("diff ")?.split_whitespace().next_back()?;
        Some(file.rsplit('/').next().unwrap_or(file).to_owned())
    };
    diff.lines().filter_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use kubexm_charts::stored;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_objects_of_a_release_are_compared_while_there_is_time() {
        let manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: far}\n";
        let release = stored::encode(&json!({"name": "web", "manifest": manifest})).unwrap();
        let revision = Revision::of(json!({
            "kind": "Secret",
            "type": "helm.sh/release.v1",
            "metadata": {"name": "sh.helm.release.v1.web.v1"},
            "data": {"release": release},
        }));
        let op = HelmRelease {
            name: "web".to_owned(),
            namespace: "default".to_owned(),
            chart: kubexm_spec::Digest::of(""),
            input: kubexm_spec::Digest::of(""),
            slots: Vec::new(),
            wait_s: 0,
        };
        let folder = tempfile::tempdir().unwrap();
        // It has no kubectl: asking for one is another error.
        let machine = Machine::rooted(folder.path());
        let error = |end| until(&machine, &op, &revision, end).unwrap_err().full();
        let late = error(Instant::now());
        assert!(late.contains("no time left") && late.contains("default/web") && late.contains("far"), "{late}");
        let early = error(Instant::now() + OF_AN_OP);
        assert!(early.contains("kubectl") && !early.contains("no time left"), "{early}");
    }

    #[test]
    fn changed_objects_are_named_by_the_files_that_kubectl_compares() {
        let diff = "diff -u -N /tmp/LIVE-1/apps.v1.Deployment.a.web /tmp/MERGED-2/apps.v1.Deployment.a.web\n--- /tmp/LIVE-1/x\n\
                    +++ /tmp/MERGED-2/x\n-  replicas: 3\n+  replicas: 2\ndiff -u -N /tmp/LIVE-1/v1.ConfigMap.a.b /tmp/MERGED-2/v1.ConfigMap.a.b\n";
        assert_eq!(changed(diff), ["apps.v1.Deployment.a.web", "v1.ConfigMap.a.b"]);
        assert!(changed("").is_empty());
    }
}
