//! Patches of Kubernetes: all programs of one, or it is left out. One that lacks a program cannot be installed.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_manifests::{Component, version};

use super::listing::{self, Source};
use super::question::{Ask, Versions};

/// Programs without which a patch is not the newest of its minor.
const OF_NODES: [&str; 3] = ["kubeadm", "kubelet", "kubectl"];

/// Removes the patches of which a program was asked about and not found; returns notes about them, and about those of which not
/// all programs were asked about.
pub(super) fn leave_out_incomplete(ask: Ask<'_>, found: &mut BTreeMap<String, Versions>) -> Vec<String> {
    let all = ask.catalogue.components.values().filter(|component| listing::of(component) == Source::Kubernetes);
    let (wanted, others): (Vec<&Component>, Vec<&Component>) = all.partition(|component| ask.wants(&component.name));
    let of_found = wanted.iter().filter_map(|program| found.get(&program.name));
    let patches: BTreeSet<String> = of_found.flat_map(|versions| versions.keys().cloned()).collect();
    let mut notes = Vec::new();
    for patch in patches {
        // A program that has no version of the minor at all is not missed.
        let lacks = |program: &&&Component| {
            let is_found = found.get(&program.name).is_some_and(|versions| versions.contains_key(&patch));
            program.knows_minor_of(&patch) && !program.versions.contains_key(&patch) && !is_found
        };
        let missing = names(wanted.iter().filter(lacks));
        if !missing.is_empty() {
            notes.push(format!("Kubernetes {patch}: left out, since no digest of {missing} was found"));
            wanted.iter().for_each(|program| {
                found.get_mut(&program.name).map(|versions| versions.remove(&patch));
            });
            continue;
        }
        let not_asked = names(others.iter().filter(lacks).filter(|program| OF_NODES.contains(&program.name.as_str())));
        if !not_asked.is_empty() {
            let minor = version::minor(&patch);
            notes.push(format!(
                "Kubernetes {patch}: nothing was asked about {not_asked}: where cluster.yaml names only {minor}, this patch is not used"
            ));
        }
    }
    found.retain(|_, versions| !versions.is_empty());
    notes
}

fn names<'a>(programs: impl Iterator<Item = &'a &'a Component>) -> String {
    programs.map(|program| program.name.as_str()).collect::<Vec<_>>().join(", ")
}
