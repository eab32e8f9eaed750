//! Every difference between a lock and what cluster.yaml and catalogue need now, as values. Pure.

use std::collections::BTreeSet;

use kubexm_manifests::requirements::{ChartSource, Source};
use kubexm_manifests::{Requirement, Requirements};
use kubexm_spec::lock::{Content, LockItem};
use kubexm_spec::{ArtifactKey, Digest, Lock, Platform, Reference, Trust};

use crate::difference::{Difference, NEEDED, What, changed, of};
use crate::packages;

/// Who says why a digest may be trusted.
const GIVEN: &str = "cluster.yaml and catalogue give";

/// Every difference between a lock and what is needed now, in the order of keys. Images of charts come from renderings,
/// not from requirements, and are left to the rendering step.
pub fn drift(requirements: &Requirements, lock: &Lock) -> Vec<Difference> {
    let whole = |field, locked: &str, now: &str| {
        let what = What::Changed { field, locked: locked.to_owned(), now: now.to_owned(), by: NEEDED.into() };
        (locked != now).then_some(Difference { key: None, platform: None, what })
    };
    let kubernetes = requirements.versions.as_ref().map(|versions| versions.kubernetes.to_string()).unwrap_or_default();
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
    for item in lock.items.iter().filter(|item| !known_by_the_lock_only(&item.key) && !is_needed(item)) {
        all.push(of(&item.key, item.platform, What::NotNeeded { locked: item.version.clone() }));
    }
    all.extend(packages::drift(requirements, lock));
    all
}

/// Images of charts and packages are what rendering and solving have found: no requirement names them.
fn known_by_the_lock_only(key: &ArtifactKey) -> bool {
    from_a_chart(key) || matches!(key, ArtifactKey::Package { .. })
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
    if !may_be_trusted(needed, item.trust) {
        all.push(changed(item, "trust", item.trust.to_string(), needed.trust.to_string(), GIVEN));
    }
    all
}

/// Whether a lock could have been made with this trust. It may say less than is known now: what is pinned today may have been
/// trusted upstream, or a mirror, when it was locked; its digest is compared by itself.
fn may_be_trusted(needed: &Requirement, trust: Trust) -> bool {
    let asked: &[Trust] = match &needed.source {
        Source::File { checksum_url: Some(_), .. } | Source::Chart { chart: ChartSource::Repository { .. } } => {
            &[Trust::UpstreamChecksum, Trust::Mirror]
        }
        Source::Image { .. } => &[Trust::OciDigest, Trust::Mirror],
        Source::File { checksum_url: None, .. }
        | Source::Chart { .. }
        | Source::LocalFile { .. }
        | Source::LocalImage { .. }
        | Source::LocalYaml { .. }
        | Source::Installer => &[],
    };
    trust == needed.trust || asked.contains(&trust)
}

/// What renderings name and the lock has no image of, and images of charts that none of them names.
pub fn of_renderings(lock: &Lock) -> Vec<Difference> {
    let full = |name: &str| Reference::read(name).map_or_else(|| name.to_owned(), |name| name.to_string());
    let platforms: BTreeSet<Platform> = lock.items.iter().filter_map(|item| item.platform).collect();
    let carried: BTreeSet<(String, Option<Platform>)> = lock
        .items
        .iter()
        .filter_map(|item| match &item.content {
            Content::Image { reference, .. } => Some((full(reference), item.platform)),
            Content::File { .. } => None,
        })
        .collect();
    let named: BTreeSet<String> =
        lock.renderings.iter().flat_map(|rendering| &rendering.images).map(|name| full(name)).collect();
    let mut all = Vec::new();
    for name in &named {
        for platform in platforms.iter().filter(|platform| !carried.contains(&(name.clone(), Some(**platform)))) {
            let needed = Reference::read(name).and_then(|name| name.tag).unwrap_or_default();
            all.push(of(&ArtifactKey::ChartImage(name.clone()), Some(*platform), What::NotLocked { needed }));
        }
    }
    for item in lock.items.iter().filter(|item| from_a_chart(&item.key) && !named.contains(&full(&item.key.name()))) {
        all.push(of(&item.key, item.platform, What::NotNeeded { locked: item.version.clone() }));
    }
    all
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
                        Content::Image {
                            reference,
                            target,
                            manifest,
                            blobs: Vec::new(),
                            referrers: Vec::new(),
                            signed: None,
                        }
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
        let kubernetes = requirements.versions.as_ref().map(|versions| versions.kubernetes.to_string());
        Lock {
            schema: SCHEMA.to_owned(),
            name: requirements.name.clone(),
            kubernetes,
            zone: None,
            items,
            renderings: Vec::new(),
            packages: Vec::new(),
        }
    }

    fn warnings(requirements: &Requirements, lock: &Lock) -> Vec<String> {
        drift(requirements, lock).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_lock_does_not_differ_from_what_it_was_made_of() {
        let now = needed("  kubernetes: {version: v1.34.4}\n");
        assert_eq!(warnings(&now, &locked(&now)), [""; 0]);
    }

    #[test]
    fn another_patch_of_kubernetes_names_every_item_that_changes_with_it() {
        let (old, new) = (needed("  kubernetes: {version: v1.34.4}\n"), needed("  kubernetes: {version: v1.34.3}\n"));
        let reported = warnings(&new, &locked(&old));
        assert!(
            reported.contains(&"kubernetes: the lock has v1.34.4, cluster.yaml and catalogue need v1.34.3".to_owned())
        );
        for key in ["binary/kubeadm linux/amd64: version", "image/kube-apiserver linux/amd64: version"] {
            assert!(reported.iter().any(|line| line.starts_with(key)), "{key}: {reported:#?}");
        }
        assert!(
            reported.iter().any(|line| line.starts_with("binary/kubelet linux/amd64: digest: the lock has sha256:"))
        );
        assert!(!reported.iter().any(|line| line.contains("runc")), "{reported:#?}");
    }

    #[test]
    fn added_and_removed_items_are_distinguished() {
        let (with, without) = (needed("  kubernetes: {}\n"), needed("  kubernetes: {}\n  bundle: {exclude: [helm]}\n"));
        let went = warnings(&without, &locked(&with));
        assert!(went.len() == 1 && went[0].ends_with("is in the lock, and nothing needs it"), "{went:?}");
        let came = warnings(&with, &locked(&without));
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
        let reported = warnings(&now, &lock);
        assert!(reported.len() == 1 && reported[0].contains(&Digest::of("another build").to_string()), "{reported:?}");
    }

    #[test]
    fn an_impossible_trust_in_a_lock_is_drift_and_a_weaker_one_is_not() {
        let now = needed("  kubernetes: {version: v1.34.99}\n  registry: {type: registry}\n");
        let with = |key: &str, trust: Trust| {
            let mut lock = locked(&now);
            lock.items.iter_mut().filter(|item| item.key.to_string() == key).for_each(|item| item.trust = trust);
            warnings(&now, &lock)
        };
        for (key, trust) in [
            ("binary/kubeadm", Trust::Pinned),
            ("binary/runc", Trust::User),
            ("image/pause", Trust::Pinned),
            ("image/pause", Trust::Overlay),
            ("installer/kubexm-install", Trust::Pinned),
        ] {
            let said = with(key, trust);
            let wanted = format!("{key} linux/amd64: trust: the lock has {trust}, cluster.yaml and catalogue give ");
            assert!(said.len() == 1 && said[0].starts_with(&wanted), "{said:?}");
        }
        for (key, trust) in [
            ("binary/runc", Trust::UpstreamChecksum),
            ("binary/kubeadm", Trust::Mirror),
            ("image/pause", Trust::Mirror),
        ] {
            assert_eq!(with(key, trust), [""; 0], "{key} {trust}");
        }
    }

    #[test]
    fn an_image_of_a_rendering_that_lost_its_item_and_an_item_that_lost_its_rendering_are_reported() {
        let now = needed("  kubernetes: {version: v1.34.4}\n");
        let mut lock = locked(&now);
        lock.renderings.push(kubexm_spec::Rendering {
            key: ArtifactKey::Chart("web".to_owned()),
            source: Digest::of("chart"),
            values_digest: Digest::of("values"),
            namespace: "default".to_owned(),
            kubernetes: None,
            values: serde_json::Map::new(),
            images: vec!["a.test/web:1".to_owned(), "registry.k8s.io/pause:3.10.1".to_owned()],
        });
        let said = |lock: &Lock| -> Vec<String> { of_renderings(lock).iter().map(ToString::to_string).collect() };
        let lost = ["chart-image/a.test/web:1 linux/amd64: 1 is needed, and not in the lock"];
        assert_eq!(said(&lock), lost, "what the cluster has itself is not a chart's");
        let pause = lock.items.iter().find(|item| item.key.name() == "pause").unwrap().clone();
        let Content::Image { target, .. } = &pause.content else { panic!() };
        let content = |reference: &str| Content::Image {
            reference: reference.to_owned(),
            target: target.clone(),
            manifest: target.clone(),
            blobs: Vec::new(),
            referrers: Vec::new(),
            signed: None,
        };
        for name in ["a.test/web:1", "a.test/left:1"] {
            let key = ArtifactKey::ChartImage(name.to_owned());
            lock.items.push(LockItem { key, version: "1".to_owned(), content: content(name), ..pause.clone() });
        }
        let left = ["chart-image/a.test/left:1 linux/amd64: 1 is in the lock, and nothing needs it"];
        assert_eq!(said(&lock), left);
    }
}
