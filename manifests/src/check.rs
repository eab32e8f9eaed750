//! Checks over a whole catalogue: every gap as a value. A test runs them over the embedded one; rows of one table.

use std::collections::BTreeSet;

use kubexm_spec::cluster::RegistryKind;
use kubexm_spec::{ArtifactKey, ClusterImage, Platform, Program, cluster};

use crate::catalogue::Catalogue;
use crate::release::Release;
use crate::require::require;
use crate::requirements::Source;
use crate::version;

type Check = fn(&Catalogue, &mut Vec<String>);

const CHECKS: [Check; 6] = [programs, images, ranges, defaults, templates, closed];

/// Every gap of a catalogue, in plain words; none when it is whole.
pub fn check(catalogue: &Catalogue) -> Vec<String> {
    let mut gaps = Vec::new();
    for check in CHECKS {
        check(catalogue, &mut gaps);
    }
    gaps
}

/// The components are those that recipes can name, and every version has a digest for every platform; or for none, where
/// upstream publishes one beside the file.
fn programs(catalogue: &Catalogue, gaps: &mut Vec<String>) {
    let wanted: BTreeSet<&str> = Program::ALL.iter().map(|program| program.name()).collect();
    let found: BTreeSet<&str> = catalogue.components.keys().map(String::as_str).collect();
    gaps.extend(found.difference(&wanted).map(|name| format!("component {name}: known to one side only")));
    for component in catalogue.components.values() {
        for (version, pins) in &component.versions {
            if pins.is_empty() && component.digest_source.is_some() {
                continue;
            }
            for platform in Platform::ALL.iter().filter(|platform| !pins.contains_key(&platform.arch)) {
                gaps.push(format!("{} {version}: no digest for {platform}", component.name));
            }
        }
    }
}

/// Every image that recipes can name has exactly one rule.
fn images(catalogue: &Catalogue, gaps: &mut Vec<String>) {
    for image in ClusterImage::ALL {
        let rules = catalogue.images.iter().filter(|rule| rule.name == image.name()).count();
        if rules != 1 {
            gaps.push(format!("image {}: {rules} rules, wanted one", image.name()));
        }
    }
    for rule in catalogue.images.iter().filter(|rule| rule.image().is_none()) {
        gaps.push(format!("image {}: no recipe can name it", rule.name));
    }
}

/// Ranges of patches start at 0, have no gap and no overlap, and the last is open.
fn ranges(catalogue: &Catalogue, gaps: &mut Vec<String>) {
    for (minor, release) in &catalogue.releases {
        if *minor != release.minor {
            gaps.push(format!("release {minor}: calls itself {}", release.minor));
        }
        let mut next = Some(0);
        for range in &release.patches {
            if Some(range.from) != next {
                gaps.push(format!("release {minor}: the range from {} does not follow the one before", range.from));
            }
            next = range.to.map(|to| to + 1);
        }
        if next.is_some() {
            gaps.push(format!("release {minor}: the last range is not open"));
        }
    }
    if catalogue.release(&catalogue.kubernetes).is_none() {
        gaps.push(format!("the default Kubernetes {} has no release", catalogue.kubernetes));
    }
}

/// What a release names as default is pinned.
fn defaults(catalogue: &Catalogue, gaps: &mut Vec<String>) {
    for release in catalogue.releases.values() {
        for (name, version) in &release.defaults {
            let image = catalogue.images.iter().any(|rule| rule.name == *name);
            let pinned = catalogue.components.get(name).is_some_and(|c| c.versions.contains_key(version));
            if !image && !pinned {
                gaps.push(format!("release {}: default {name} {version} is not pinned", release.minor));
            }
        }
        etcd_tools(catalogue, release, gaps);
        if catalogue.newest_patch(&release.minor).is_none() {
            gaps.push(format!("release {}: no patch is pinned", release.minor));
        }
    }
}

/// etcd's tools are pinned for the etcd of every range.
fn etcd_tools(catalogue: &Catalogue, release: &Release, gaps: &mut Vec<String>) {
    for range in &release.patches {
        let version = range.etcd.split('-').next().unwrap_or_default();
        if catalogue.component(Program::Etcd).is_none_or(|c| !c.versions.contains_key(version)) {
            gaps.push(format!("release {}: etcd {version} is not pinned", release.minor));
        }
    }
}

/// No variable is left in an address or a name.
fn templates(catalogue: &Catalogue, gaps: &mut Vec<String>) {
    for component in catalogue.components.values() {
        for platform in Platform::ALL {
            let filled = [
                Some(component.url("1.2.3", platform.arch)),
                Some(component.file_name("1.2.3", platform.arch)),
                component.checksum_url("1.2.3", platform.arch),
            ];
            for text in filled.into_iter().flatten().filter(|text| text.contains(['{', '}'])) {
                gaps.push(format!("{}: {text} has a variable that nothing fills", component.name));
            }
        }
    }
}

/// Every known patch of every minor gives, for every platform, each program and image, each with a source.
fn closed(catalogue: &Catalogue, gaps: &mut Vec<String>) {
    let known = catalogue.component(Program::Kubeadm).map(|c| c.versions.keys().cloned().collect::<Vec<_>>());
    for kubernetes in known.unwrap_or_default() {
        let mut cluster = cluster::for_version(Some(&kubernetes));
        cluster.bundle.platforms = Platform::ALL.to_vec();
        // the one type that needs a program of its own, so that all of them are asked for
        cluster.registry.kind = RegistryKind::Registry;
        let requirements = match require(&cluster, catalogue) {
            Ok(requirements) => requirements,
            Err(error) => {
                gaps.push(format!("Kubernetes {kubernetes}: {error}"));
                continue;
            }
        };
        let programs = Program::ALL.into_iter().filter(|program| catalogue.component(*program).is_some());
        let programs = programs.map(ArtifactKey::Binary);
        let images = ClusterImage::ALL.into_iter().map(ArtifactKey::Image);
        for key in programs.chain(images).chain([ArtifactKey::Installer]) {
            for platform in Platform::ALL {
                if requirements.find(&key, platform).is_none() {
                    gaps.push(format!("Kubernetes {kubernetes}: {key} is missing for {platform}"));
                }
            }
        }
        for item in &requirements.items {
            let left_to_upstream = catalogue
                .components
                .get(item.key.name())
                .and_then(|component| component.versions.get(&item.version))
                .is_some_and(|pins| pins.is_empty());
            if matches!(&item.source, Source::File { sha256: None, .. }) && !left_to_upstream {
                gaps.push(format!("Kubernetes {kubernetes}: {} {} has no digest", item.key, item.version));
            }
        }
        if version::patch(&kubernetes).is_none() {
            gaps.push(format!("Kubernetes {kubernetes}: no patch"));
        }
    }
}
