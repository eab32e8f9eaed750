//! Feature gates that a version of Kubernetes knows. One that it does not know, or that is locked to another value, ends each component
//! when it starts, so it is refused before a bundle is built, and before a host is changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use kubexm_spec::KubernetesVersion;
use kubexm_spec::cluster::Kubernetes;
use kubexm_spec::yaml::nearest;
use serde::Deserialize;

use crate::error::RequireError;

/// `data/feature-gates.yaml`, as build.rs has made it.
const DATA: &str = include_str!(concat!(env!("OUT_DIR"), "/feature-gates.json"));
/// All gates of one stage (component-base, `featuregate`).
const OF_STAGES: [&str; 2] = ["AllAlpha", "AllBeta"];
/// So many names are near enough to be meant.
const NEAREST: usize = 3;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    /// Minor versions that were read, oldest first.
    minors: Vec<String>,
    /// The patch that was read of each.
    read: Vec<u32>,
    gates: BTreeMap<String, Gate>,
}

/// One gate, by minor versions.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Gate {
    /// The first that has it.
    since: Option<String>,
    /// The last one.
    until: Option<String>,
    /// The first in which it can only be set to `to`.
    locked: Option<String>,
    to: Option<bool>,
}

#[expect(clippy::expect_used, reason = "the data is compiled in, and a test reads it: no input of a run reaches this")]
fn table() -> &'static Table {
    static READ: OnceLock<Table> = OnceLock::new();
    READ.get_or_init(|| serde_json::from_str(DATA).expect("the embedded feature gates are well-formed"))
}

/// Refuses gates that end the components of this version. Of a minor version that the table does not have nothing is known.
pub(crate) fn check(kubernetes: &Kubernetes, version: &KubernetesVersion) -> Result<(), RequireError> {
    let own = [&kubernetes.kubelet, &kubernetes.kube_proxy]
        .into_iter()
        .filter_map(|settings| settings.get("featureGates")?.as_object());
    let own = own.flatten().filter_map(|(name, on)| Some((name, on.as_bool()?)));
    let of_all = kubernetes.feature_gates.iter().map(|(name, on)| (name, *on));
    // A gate may be in several.
    let wanted: BTreeSet<(&String, bool)> = of_all.chain(own).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let (table, line) = (table(), version.line());
    let Some(at) = table.minors.iter().position(|minor| *minor == line) else { return Ok(()) };
    // A patch may bring a gate, and nobody has read one that is newer than the table.
    let unread = table.read.get(at).is_none_or(|patch| version.patch() > *patch);
    let wanted = wanted.into_iter().filter(|(name, _)| !OF_STAGES.contains(&name.as_str()));
    let problems: Vec<String> = wanted.filter_map(|(name, on)| table.problem(name, on, (at, unread))).collect();
    match problems.is_empty() {
        true => Ok(()),
        false => Err(RequireError::FeatureGates { kubernetes: version.to_string(), problems }),
    }
}

impl Table {
    /// What a gate is to the minor version at this place.
    fn problem(&self, name: &str, on: bool, (at, unread): (usize, bool)) -> Option<String> {
        let Some(gate) = self.gates.get(name) else {
            if unread {
                return None;
            }
            let near: Vec<&str> =
                nearest(name, self.gates.keys().map(String::as_str)).into_iter().take(NEAREST).collect();
            return Some(format!(
                "{name}: no version since {} has it; nearest: {}",
                self.minors.first().map_or("1.24", String::as_str),
                near.join(", ")
            ));
        };
        let place =
            |minor: &Option<String>| minor.as_ref().and_then(|minor| self.minors.iter().position(|one| one == minor));
        if let (Some(since), Some(minor)) = (place(&gate.since), &gate.since)
            && at < since
            && !unread
        {
            return Some(format!("{name}: it comes with {minor}"));
        }
        if let (Some(until), Some(minor)) = (place(&gate.until), &gate.until)
            && at > until
        {
            let was = match gate.to {
                Some(true) => "; what it switched is always on",
                Some(false) => "; what it switched is gone",
                None => "",
            };
            return Some(format!("{name}: {minor} was the last to have it{was}"));
        }
        let (locked, to) = (place(&gate.locked)?, gate.to?);
        (at >= locked && on != to).then(|| format!("{name}: it can only be {to}"))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn refused(version: &str, gates: &[(&str, bool)]) -> Vec<String> {
        let feature_gates = gates.iter().map(|(name, on)| ((*name).to_owned(), *on)).collect();
        let kubernetes = Kubernetes { feature_gates, ..Kubernetes::default() };
        match check(&kubernetes, &version.parse().unwrap()) {
            Ok(()) => Vec::new(),
            Err(RequireError::FeatureGates { problems, .. }) => problems,
            Err(other) => panic!("{other}"),
        }
    }

    /// What KubeKey writes into its configurations.
    #[test]
    fn gates_that_a_version_has_no_more_are_refused_each_with_its_last_version() {
        let of_kubekey = [
            ("CSIStorageCapacity", true),
            ("ExpandCSIVolumes", true),
            ("RotateKubeletServerCertificate", true),
            ("TTLAfterFinished", true),
        ];
        assert_eq!(refused("v1.24.17", &of_kubekey), Vec::<String>::new());
        assert_eq!(
            refused("v1.34.4", &of_kubekey),
            [
                "CSIStorageCapacity: 1.27 was the last to have it; what it switched is always on",
                "ExpandCSIVolumes: 1.26 was the last to have it",
                "TTLAfterFinished: 1.24 was the last to have it; what it switched is always on",
            ]
        );
    }

    #[test]
    fn gates_of_later_versions_locked_ones_and_wrong_names_are_refused() {
        assert_eq!(refused("v1.27.16", &[("SidecarContainers", true)]), ["SidecarContainers: it comes with 1.28"]);
        assert_eq!(refused("v1.34.4", &[("SidecarContainers", false)]), ["SidecarContainers: it can only be true"]);
        assert_eq!(refused("v1.34.4", &[("SidecarContainers", true)]), Vec::<String>::new());
        let typo = refused("v1.34.4", &[("SidecarContainer", true)]);
        assert!(
            typo[0].starts_with("SidecarContainer: no version since 1.24 has it; nearest: SidecarContainers"),
            "{typo:?}"
        );
        // A later patch may have brought it.
        assert_eq!(refused("v1.34.99", &[("New", true), ("ClustersFirst", true)]), Vec::<String>::new());
        assert_eq!(refused("v1.34.99", &[("TTLAfterFinished", true)]).len(), 1);
    }

    #[test]
    fn gates_of_kubelets_own_settings_are_looked_at_too() {
        let gates = serde_json::json!({"ExpandCSIVolumes": true, "AllBeta": true});
        let kubernetes =
            Kubernetes { kubelet: [("featureGates".to_owned(), gates)].into_iter().collect(), ..Kubernetes::default() };
        let refused = check(&kubernetes, &"v1.34.4".parse().unwrap()).unwrap_err().to_string();
        assert!(
            refused.contains("does not start with these; remove or correct them:\n- ExpandCSIVolumes: 1.26 was"),
            "{refused}"
        );
        assert!(!refused.contains("AllBeta"));
    }

    #[test]
    fn all_gates_of_a_stage_and_versions_that_nobody_has_read_are_left_alone() {
        assert_eq!(refused("v1.34.4", &[("AllAlpha", true), ("AllBeta", false)]), Vec::<String>::new());
        assert_eq!(refused("v1.99.0", &[("ExpandCSIVolumes", true)]), Vec::<String>::new());
    }
}
