//! Objects of a release that are missing, or are not as they were rendered. The API server decides (`kubectl diff
//! --server-side`): it knows defaults and spellings, and leaves fields alone that the chart does not set.
//!
//! Some charts change their own objects: a controller fills in a certificate, an autoscaler sets a number that the chart names
//! too. What differs right after an install is theirs, is noted at the revision, and is no drift.

use std::collections::BTreeSet;

use kubexm_charts::objects;
use kubexm_charts::stored::Revision;
use kubexm_plan::op::HelmRelease;

use super::look;
use crate::kube::kubectl;
use crate::kube::removal::by_namespace;
use crate::{Machine, OpError};

/// Annotation of a revision's Secret.
const OWN: &str = "kubexm.io/changed-by-the-chart";
const DIFF: [&str; 6] =
    ["diff", "--server-side", "--force-conflicts", "--field-manager=kubexm-drift", "--concurrency=8", "--filename"];

/// Names of the objects that have drifted.
pub(super) fn of(machine: &Machine, op: &HelmRelease, revision: &Revision) -> Result<Vec<String>, OpError> {
    let own: BTreeSet<&str> = revision.annotation(OWN).split_whitespace().collect();
    let differ = different(machine, op, revision)?;
    Ok(differ.into_iter().filter(|name| !own.contains(name.as_str())).collect())
}

/// Notes what the chart itself has changed after the last revision was installed.
pub(super) fn accept(machine: &Machine, op: &HelmRelease) -> Result<(), OpError> {
    let history = look::history(machine, op)?;
    let Some(last) = history.last() else { return Ok(()) };
    let differ = different(machine, op, last)?;
    if differ.is_empty() {
        return Ok(());
    }
    let names = differ.into_iter().collect::<Vec<_>>().join(" ");
    let args = ["annotate", "--overwrite", "--namespace", &op.namespace, "secret", last.secret_name()];
    machine.run(&kubectl(args).arg(format!("{OWN}={names}"))).map(drop)
}

fn different(machine: &Machine, op: &HelmRelease, revision: &Revision) -> Result<BTreeSet<String>, OpError> {
    let all = look::objects(&look::read(revision)?)?;
    let mut names = BTreeSet::new();
    for (namespace, objects) in by_namespace(all, &op.namespace) {
        let list = objects::list(&objects);
        let diff = machine.try_run(&kubectl(DIFF).args(["-", "--namespace", &namespace]).stdin(list))?;
        // Other codes: a webhook that cannot be asked in a dry run, a kind whose definition is gone. Nothing is known then.
        if diff.code == 1 {
            names.extend(changed(&diff.stdout()));
        }
    }
    Ok(names)
}

/// The objects of a diff, by the names of its files: `apps.v1.Deployment.default.web`.
fn changed(diff: &str) -> Vec<String> {
    let of_line = |line: &str| {
        let file = line.strip_prefix("diff ")?.split_whitespace().next_back()?;
        Some(file.rsplit('/').next().unwrap_or(file).to_owned())
    };
    diff.lines().filter_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_objects_are_named_by_the_files_that_kubectl_compares() {
        let diff = "diff -u -N /tmp/LIVE-1/apps.v1.Deployment.a.web /tmp/MERGED-2/apps.v1.Deployment.a.web\n--- /tmp/LIVE-1/x\n\
                    +++ /tmp/MERGED-2/x\n-  replicas: 3\n+  replicas: 2\ndiff -u -N /tmp/LIVE-1/v1.ConfigMap.a.b /tmp/MERGED-2/v1.ConfigMap.a.b\n";
        assert_eq!(changed(diff), ["apps.v1.Deployment.a.web", "v1.ConfigMap.a.b"]);
        assert!(changed("").is_empty());
    }
}
