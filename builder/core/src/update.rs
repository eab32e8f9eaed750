//! Renewing a lock, in whole or in part, and the changes this makes. Pure.

use kubexm_manifests::Requirements;
use kubexm_manifests::requirements::Source;
use kubexm_spec::lock::{Content, LockItem};
use kubexm_spec::yaml::nearest;
use kubexm_spec::{ArtifactKey, Lock, Reference};

use crate::diff::Changed;
use crate::drift::drift;
use crate::packages;
use crate::resolve::Resolution;

/// How many near names an error lists.
const NEAR: usize = 4;

/// Whether a word of a person stands for an artifact: `binary/kubeadm`, `kubeadm`, `registry.k8s.io/pause:3.10`,
/// `registry.k8s.io/pause`, `pause`, `pause:3.10`; `index.docker.io/busybox:1` for `docker.io/library/busybox:1`;
/// `package/debian-12/socat`, `debian-12/socat`, `socat`, and `debian-12` or `package/debian-12` for all of its packages.
pub fn stands_for(word: &str, key: &ArtifactKey, reference: Option<&str>) -> bool {
    if key.to_string() == word || key.name() == word {
        return true;
    }
    if let ArtifactKey::Package { os, name } = key {
        return word == name || word.strip_prefix("package/").unwrap_or(word) == os;
    }
    let Some(reference) = reference else { return false };
    let (name, _) = kubexm_spec::depot::split_reference(reference.split('@').next().unwrap_or(reference));
    let ends = |whole: &str| whole.strip_suffix(word).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'));
    let completed = || Reference::read(word).is_some_and(|word| word.is_exact() && word.to_string() == reference);
    ends(reference) || ends(name) || completed()
}

/// The reference of an image that is needed.
pub fn reference(source: &Source) -> Option<&str> {
    match source {
        Source::Image { reference, .. } | Source::LocalImage { reference, .. } => Some(reference),
        Source::File { .. }
        | Source::LocalFile { .. }
        | Source::Chart { .. }
        | Source::LocalYaml { .. }
        | Source::Installer => None,
    }
}

/// The keys that words of a person stand for, in what is needed and in what is locked.
///
/// # Errors
/// The first word that stands for nothing, with the names nearest to it.
pub fn chosen(
    words: &[String],
    requirements: &Requirements,
    old: &Lock,
) -> Result<Vec<ArtifactKey>, (String, Vec<String>)> {
    let mut all = Vec::new();
    for word in words {
        let needed = requirements.items.iter().filter(|item| stands_for(word, &item.key, reference(&item.source)));
        let locked = old.items.iter().filter(|item| stands_for(word, &item.key, locked_reference(item)));
        let roots = packages::roots(requirements);
        let keys: Vec<ArtifactKey> = needed
            .map(|item| &item.key)
            .chain(locked.map(|item| &item.key))
            .chain(roots.iter().filter(|key| stands_for(word, key, None)))
            .cloned()
            .collect();
        if keys.is_empty() {
            let names = requirements.items.iter().map(|item| &item.key).chain(old.items.iter().map(|item| &item.key));
            return Err((word.clone(), near(word, names.chain(&roots))));
        }
        all.extend(keys);
    }
    all.sort();
    all.dedup();
    Ok(all)
}

/// The names nearest to a word that stands for nothing.
pub fn near<'a>(word: &str, keys: impl Iterator<Item = &'a ArtifactKey>) -> Vec<String> {
    // With a prefix it is compared with whole keys, without one with names.
    let shown = |key: &ArtifactKey| if word.contains('/') { key.to_string() } else { key.name().into_owned() };
    let mut names: Vec<String> = keys.map(shown).collect();
    names.sort();
    names.dedup();
    nearest(word, names.iter().map(String::as_str)).into_iter().take(NEAR).map(str::to_owned).collect()
}

fn locked_reference(item: &LockItem) -> Option<&str> {
    match &item.content {
        Content::Image { reference, .. } => Some(reference),
        Content::File { .. } => None,
    }
}

/// What of a resolution is to be locked anew.
#[must_use]
pub fn only(resolution: &Resolution, keys: &[ArtifactKey]) -> Resolution {
    let items = resolution.items.iter().filter(|item| keys.contains(&item.requirement.key)).cloned().collect();
    Resolution { items, ..resolution.clone() }
}

/// The old lock with these keys as they are in the new one; what the new one does not have of them goes. What the lock says
/// of itself is the new one's once nothing of what is needed differs any more. Packages of a release are one answer: one that is
/// named takes all of them with it.
#[must_use]
pub fn merged(old: &Lock, new: &Lock, keys: &[ArtifactKey], requirements: &Requirements) -> Lock {
    let solved = |of: &str| keys.iter().any(|key| matches!(key, ArtifactKey::Package { os, .. } if os == of));
    let replaced = |key: &ArtifactKey| match key {
        ArtifactKey::Package { os, .. } => solved(os),
        key => keys.contains(key),
    };
    let kept = old.items.iter().filter(|item| !replaced(&item.key));
    let mut items: Vec<LockItem> = kept.chain(&new.items).cloned().collect();
    items.sort_by(|a, b| (&a.key, a.platform).cmp(&(&b.key, b.platform)));
    let (zone, renderings) = (old.zone.clone(), old.renderings.clone());
    let mut packages: Vec<_> =
        old.packages.iter().filter(|set| !solved(&set.os)).chain(&new.packages).cloned().collect();
    packages.sort_by(|a, b| (&a.os, a.platform).cmp(&(&b.os, b.platform)));
    let whole = Lock { items, zone, renderings, packages, ..new.clone() };
    if drift(requirements, &whole).is_empty() {
        return whole;
    }
    Lock { name: old.name.clone(), kubernetes: old.kubernetes.clone(), ..whole }
}

/// Every item that differs in anything, in the order of keys.
pub fn changes<'a>(old: &'a Lock, new: &'a Lock) -> Vec<Changed<'a, LockItem>> {
    let gone = old.items.iter().filter(|item| new.find(&item.key, item.platform).is_none());
    let mut all: Vec<Changed<'a, LockItem>> = gone.map(|item| Changed { old: Some(item), new: None }).collect();
    all.extend(new.items.iter().filter_map(|item| {
        let old = old.find(&item.key, item.platform);
        (old != Some(item)).then_some(Changed { old, new: Some(item) })
    }));
    all.sort_by_key(|changed| changed.new.or(changed.old).map(|item| (&item.key, item.platform)));
    all
}
