//! What a lock says and what cluster.yaml and catalogue need now: every difference, as values. Pure.

use std::fmt;

use kubexm_manifests::requirements::Source;
use kubexm_manifests::{Requirement, Requirements};
use kubexm_spec::lock::{Content, LockItem};
use kubexm_spec::{ArtifactKey, Digest, Lock, Platform};
use serde::Serialize;

/// One thing that is not as it was locked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// Which artifact; none when it is about the lock as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<ArtifactKey>,
    /// For which platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// What is different.
    #[serde(flatten)]
    pub what: What,
}

/// What is different.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "difference", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum What {
    /// It is needed, and the lock has none of it.
    NotLocked {
        /// The version that is needed.
        needed: String,
    },
    /// The lock has it, and nothing needs it.
    NotNeeded {
        /// The version in the lock.
        locked: String,
    },
    /// One thing about it, in the lock and as it is needed or was found now.
    Changed {
        /// `version`, `name`, `digest`, `size` …
        field: &'static str,
        /// As locked.
        locked: String,
        /// As it is now.
        now: String,
        /// Who says so now.
        by: &'static str,
    },
}

/// Who says what is needed.
const NEEDED: &str = "cluster.yaml and catalogue need";

/// Every difference between a lock and what is needed now, in the order of keys. Images of charts come from renderings,
/// not from requirements, and are left to whoever renders.
pub fn drift(requirements: &Requirements, lock: &Lock) -> Vec<Difference> {
    let whole = |field, locked: &str, now: &str| {
        let what = What::Changed { field, locked: locked.to_owned(), now: now.to_owned(), by: NEEDED };
        (locked != now).then_some(Difference { key: None, platform: None, what })
    };
    let kubernetes = requirements.versions.as_ref().map(|versions| versions.kubernetes_tag()).unwrap_or_default();
    let mut all: Vec<Difference> = whole("metadata.name", &lock.name, &requirements.name).into_iter().collect();
    all.extend(whole("kubernetes", lock.kubernetes.as_deref().unwrap_or_default(), &kubernetes));
    for needed in &requirements.items {
        match lock.find(&needed.key, needed.platform) {
            None => all.push(of(&needed.key, needed.platform, What::NotLocked { needed: needed.version.clone() })),
            Some(item) => all.extend(changes(needed, item)),
        }
    }
    let is_needed =
        |item: &LockItem| requirements.items.iter().any(|r| r.key == item.key && r.platform == item.platform);
    for item in lock.items.iter().filter(|item| !from_a_chart(&item.key) && !is_needed(item)) {
        all.push(of(&item.key, item.platform, What::NotNeeded { locked: item.version.clone() }));
    }
    all
}

/// Whether an item is known by a rendering and not by `require`.
pub fn from_a_chart(key: &ArtifactKey) -> bool {
    matches!(key, ArtifactKey::ChartImage(_))
}

/// What is different between an item and what is needed under its key.
pub fn changes(needed: &Requirement, item: &LockItem) -> Vec<Difference> {
    let mut all = Vec::new();
    let mut compare = |field, locked: String, now: Option<String>| {
        if let Some(now) = now.filter(|now| *now != locked) {
            all.push(changed(item, field, locked, now, NEEDED));
        }
    };
    compare("version", item.version.clone(), Some(needed.version.clone()));
    let text = |digest: &Option<Digest>| digest.map(|digest| digest.to_string());
    match (&needed.source, &item.content) {
        (Source::File { file_name: name, sha256, size, .. }, Content::File { file_name, digest, size: locked }) => {
            compare("name", file_name.clone(), Some(name.clone()));
            compare("digest", digest.to_string(), text(sha256));
            compare("size", locked.to_string(), size.map(|size| size.to_string()));
        }
        (Source::Image { reference: name, digest }, Content::Image { reference, target, .. }) => {
            compare("name", reference.clone(), Some(name.clone()));
            compare("digest", target.digest.to_string(), text(digest));
        }
        (Source::LocalImage { reference: name, .. }, Content::Image { reference, .. }) => {
            compare("name", reference.clone(), Some(name.clone()));
        }
        (
            Source::LocalFile { .. } | Source::LocalYaml { .. } | Source::Chart { .. } | Source::Installer,
            Content::File { .. },
        ) => {}
        (_, content) => {
            let word = |file: bool| if file { "a file" } else { "an image" }.to_owned();
            let file = matches!(content, Content::File { .. });
            compare("kind", word(file), Some(word(!file)));
        }
    }
    all
}

/// A difference that was found while an item was brought here.
pub(crate) fn changed(
    item: &LockItem,
    field: &'static str,
    locked: impl Into<String>,
    now: impl Into<String>,
    by: &'static str,
) -> Difference {
    of(&item.key, item.platform, What::Changed { field, locked: locked.into(), now: now.into(), by })
}

fn of(key: &ArtifactKey, platform: Option<Platform>, what: What) -> Difference {
    Difference { key: Some(key.clone()), platform, what }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(key) = &self.key {
            write!(f, "{key}")?;
            if let Some(platform) = self.platform {
                write!(f, " {platform}")?;
            }
            f.write_str(": ")?;
        }
        let shown = |text: &str| if text.is_empty() { "none".to_owned() } else { text.to_owned() };
        match &self.what {
            What::NotLocked { needed } if needed.is_empty() => f.write_str("needed, and not in the lock"),
            What::NotLocked { needed } => write!(f, "{needed} is needed, and not in the lock"),
            What::NotNeeded { locked } if locked.is_empty() => f.write_str("in the lock, and nothing needs it"),
            What::NotNeeded { locked } => write!(f, "{locked} is in the lock, and nothing needs it"),
            What::Changed { field, locked, now, by } => {
                write!(f, "{field}: the lock has {}, {by} {}", shown(locked), shown(now))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kubexm_manifests::{Catalogue, require};
    use kubexm_spec::lock::{Descriptor, SCHEMA};

    use super::*;

    fn needed(yaml: &str) -> Requirements {
        let text = format!("apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: prod}}\nspec:\n{yaml}");
        require(&kubexm_spec::cluster::parse(&text).unwrap(), &Catalogue::embedded()).unwrap()
    }

    /// A lock as it would be made of requirements, with made-up bytes where the catalogue pins none.
    fn locked(requirements: &Requirements) -> Lock {
        let part = |digest: Digest| Descriptor { media_type: "x/y".to_owned(), digest, size: 1 };
        let items = requirements
            .items
            .iter()
            .map(|needed| LockItem {
                key: needed.key.clone(),
                version: needed.version.clone(),
                platform: needed.platform,
                trust: needed.trust,
                sources: Vec::new(),
                content: match &needed.source {
                    Source::Image { reference, digest } => {
                        let target = part(digest.unwrap_or(Digest::of(reference)));
                        let (reference, manifest) = (reference.clone(), target.clone());
                        Content::Image { reference, target, manifest, blobs: Vec::new(), referrers: Vec::new() }
                    }
                    Source::File { file_name, sha256, size, .. } => Content::File {
                        file_name: file_name.clone(),
                        digest: sha256.unwrap_or(Digest::of(file_name)),
                        size: size.unwrap_or(1),
                    },
                    _ => Content::File { file_name: "x".to_owned(), digest: Digest::of("x"), size: 1 },
                },
            })
            .collect();
        let kubernetes = requirements.versions.as_ref().map(|versions| versions.kubernetes_tag());
        Lock {
            schema: SCHEMA.to_owned(),
            name: requirements.name.clone(),
            kubernetes,
            zone: "global".to_owned(),
            items,
            renderings: Vec::new(),
        }
    }

    fn told(requirements: &Requirements, lock: &Lock) -> Vec<String> {
        drift(requirements, lock).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_lock_does_not_differ_from_what_it_was_made_of() {
        let now = needed("  kubernetes: {version: v1.34.4}\n");
        assert_eq!(told(&now, &locked(&now)), [""; 0]);
    }

    #[test]
    fn another_patch_of_kubernetes_names_every_item_that_changes_with_it() {
        let (old, new) = (needed("  kubernetes: {version: v1.34.4}\n"), needed("  kubernetes: {version: v1.34.3}\n"));
        let told = told(&new, &locked(&old));
        assert!(told.contains(&"kubernetes: the lock has v1.34.4, cluster.yaml and catalogue need v1.34.3".to_owned()));
        for key in ["binary/kubeadm linux/amd64: version", "image/kube-apiserver linux/amd64: version"] {
            assert!(told.iter().any(|line| line.starts_with(key)), "{key}: {told:#?}");
        }
        assert!(told.iter().any(|line| line.starts_with("binary/kubelet linux/amd64: digest: the lock has sha256:")));
        assert!(!told.iter().any(|line| line.contains("runc")), "{told:#?}");
    }

    #[test]
    fn what_came_and_what_went_are_told_apart() {
        let (with, without) = (needed("  kubernetes: {}\n"), needed("  kubernetes: {}\n  bundle: {exclude: [helm]}\n"));
        let went = told(&without, &locked(&with));
        assert!(went.len() == 1 && went[0].ends_with("is in the lock, and nothing needs it"), "{went:?}");
        let came = told(&with, &locked(&without));
        assert!(came.len() == 1 && came[0].starts_with("binary/helm linux/amd64: "), "{came:?}");
        assert!(came[0].ends_with("is needed, and not in the lock"), "{came:?}");
    }

    #[test]
    fn a_digest_that_the_catalogue_pins_otherwise_is_drift_though_the_version_is_the_same() {
        let now = needed("  kubernetes: {version: v1.34.4}\n");
        let mut lock = locked(&now);
        let item = lock.items.iter_mut().find(|item| item.key.name() == "kubeadm").unwrap();
        let Content::File { digest, .. } = &mut item.content else { panic!() };
        *digest = Digest::of("another build");
        let told = told(&now, &lock);
        assert!(told.len() == 1 && told[0].contains(&Digest::of("another build").to_string()), "{told:?}");
    }
}
