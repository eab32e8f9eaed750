//! Packages of operating systems: those requested are known from `require`, their dependencies only from a lock.

use kubexm_manifests::{Requirement, Requirements};
use kubexm_spec::lock::{LockItem, PackageRoot};
use kubexm_spec::{ArtifactKey, Lock, Platform};

use super::question::Question;
use crate::packages;
use crate::update::stands_for;

/// A package that is asked for, for one platform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    pub key: ArtifactKey,
    /// For which machines.
    pub platform: Platform,
    /// What requests it.
    pub root: PackageRoot,
}

/// Packages that the lock has of what is needed.
pub(super) fn of_lock<'a>(question: &Question<'a>) -> impl Iterator<Item = (&'a LockItem, &'a Lock)> {
    let needs = &question.requirements.packages;
    let items = question.lock.into_iter().flat_map(|lock| lock.items.iter().map(move |item| (item, lock)));
    items.filter(|(item, _)| match &item.key {
        ArtifactKey::Package { os, .. } => {
            needs.iter().any(|need| need.os == *os && Some(need.platform) == item.platform)
        }
        _ => false,
    })
}

/// Packages of the lock that a word stands for, each with the way to it, a reason a line.
pub(super) fn locked(word: &str, question: &Question<'_>) -> Vec<Requirement> {
    let found = of_lock(question).filter(|(item, _)| stands_for(word, &item.key, None));
    let found = found.filter_map(|(item, lock)| {
        let because = packages::chain(item, lock).join("\n");
        Some(Requirement { because, ..packages::needed(item, lock)? })
    });
    found.collect()
}

pub(super) fn asked(word: &str, requirements: &Requirements) -> Vec<Root> {
    let mut all = Vec::new();
    for need in &requirements.packages {
        for root in &need.roots {
            for name in &root.packages {
                let key = ArtifactKey::Package { os: need.os.clone(), name: name.clone() };
                if stands_for(word, &key, None) || root.name == word {
                    all.push(Root { key, platform: need.platform, root: root.clone() });
                }
            }
        }
    }
    all
}
