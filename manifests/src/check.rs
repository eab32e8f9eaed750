//! Checks over a whole catalogue: every gap as a value. A test runs them over the embedded one; rows of one table.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_spec::cluster::{EtcdKind, KubernetesKind, NetworkPlugin, Registry, RegistryKind, RuntimeKind};
use kubexm_spec::{Arch, ArtifactKey, Cluster, ClusterImage, Platform, Program, Trust, cluster};

use crate::catalogue::Catalogue;
use crate::release::{PatchRange, Release};
use crate::require::require;
use crate::requirements::{Requirements, Source};
use crate::verified::{Compared, Verified};
use crate::version;

type Check = fn(&Catalogue, &mut Vec<String>);

const CHECKS: [Check; 10] = [programs, features, fit, dates, images, ranges, defaults, support, templates, closed];

/// Every gap of a catalogue, in plain words; none when it is whole.
pub fn check(catalogue: &Catalogue) -> Vec<String> {
    let mut gaps = Vec::new();
    for check in CHECKS {
        check(catalogue, &mut gaps);
    }
    gaps
}

/// What was compared with no upstream, and why: no gap, and said wherever the catalogue is looked at.
pub fn unverified(catalogue: &Catalogue) -> Vec<String> {
    let mut all = Vec::new();
    for (name, feature) in &catalogue.features {
        for (version, known) in &feature.versions {
            let why = not_upstreams(known.verified.as_ref(), known.unverified.as_deref());
            all.extend(why.map(|why| format!("{name} {version}: its images{why}")));
        }
        for (version, known) in &feature.versions {
            let has_range = known.supports.is_some() || known.minimum_kernel.is_some();
            let about = || format!("{name} {version}: the Kubernetes minors and the kernel that it needs");
            all.extend(reason(known.supports_compared.as_ref()).filter(|_| has_range).map(|why| about() + &why));
            let rendering = reason(known.rendering_compared.as_ref()).filter(|_| feature.chart.is_some());
            all.extend(rendering.map(|why| format!("{name} {version}: which images its chart renders{why}")));
        }
        all.extend(ends(name, &feature.end_of_life, &feature.end_of_life_compared));
    }
    for (minor, release) in &catalogue.releases {
        for range in &release.patches {
            let why = not_upstreams(range.verified.as_ref(), range.unverified.as_deref());
            all.extend(why.map(|why| format!("Kubernetes {minor}: {range}{why}")));
        }
        let end = reason(release.end_of_life_compared.as_ref()).filter(|_| release.end_of_life.is_some());
        all.extend(end.map(|why| format!("Kubernetes {minor}: its end of life{why}")));
        let support = &release.support;
        let containerd = reason(support.recommended_containerd_compared.as_ref());
        let containerd = containerd.filter(|_| !support.recommended_containerd.is_empty());
        all.extend(containerd.map(|why| format!("Kubernetes {minor}: the versions of containerd for it{why}")));
    }
    for (name, component) in &catalogue.components {
        let open: Vec<&str> = component
            .versions
            .iter()
            .filter(|(_, pins)| pins.is_empty())
            .map(|(version, _)| version.as_str())
            .collect();
        let why = not_upstreams(component.verified.as_ref(), component.unverified.as_deref());
        all.extend(why.map(|why| format!("{name}: that upstream has its versions{why}")));
        all.extend(ends(name, &component.end_of_life, &component.end_of_life_compared));
        if !open.is_empty() {
            all.push(format!("{name}: digests of {}: taken from upstream when a lock is made", by_minor(&open)));
        }
    }
    all
}

/// Ends of lines that were not compared, those with one reason together.
fn ends(name: &str, dates: &BTreeMap<String, String>, compared: &BTreeMap<String, Compared>) -> Vec<String> {
    let mut by_reason: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for line in dates.keys() {
        if let Some(why) = reason(compared.get(line)) {
            by_reason.entry(why).or_default().push(line);
        }
    }
    let text = |(why, lines): (String, Vec<&str>)| format!("{name}: the end of life of {}{why}", lines.join(", "));
    by_reason.into_iter().map(text).collect()
}

/// Why something was not compared; none where it was.
fn reason(compared: Option<&Compared>) -> Option<String> {
    match compared {
        Some(Compared::Verified(_)) => None,
        Some(Compared::Unverified(why)) => Some(because(Some(why))),
        None => Some(String::new()),
    }
}

/// Why something is not upstream's own word; none where that was read.
fn not_upstreams(verified: Option<&Verified>, unverified: Option<&str>) -> Option<String> {
    match verified {
        Some(known) if known.is_second_hand() => Some(format!(" (read from {known})")),
        Some(_) => None,
        None => Some(because(unverified)),
    }
}

fn because(why: Option<&str>) -> String {
    why.map(|why| format!(" ({why})")).unwrap_or_default()
}

/// Each version of a few; of many the minors, with how many patches of each.
fn by_minor(versions: &[&str]) -> String {
    if versions.len() <= 10 {
        return versions.join(", ");
    }
    let mut minors: Vec<(&str, usize)> = Vec::new();
    for version in versions {
        let minor = version.rsplit_once('.').map_or(*version, |(minor, _)| minor);
        match minors.iter_mut().find(|(one, _)| *one == minor) {
            Some((_, count)) => *count += 1,
            None => minors.push((minor, 1)),
        }
    }
    let minors: Vec<String> = minors.iter().map(|(minor, count)| format!("{minor} ({count})")).collect();
    format!("{} versions of {}", versions.len(), minors.join(", "))
}

/// The components are those that recipes can name, and every version has a digest for every architecture that is published; or
/// for none, where upstream publishes one beside the file.
fn programs(catalogue: &Catalogue, gaps: &mut Vec<String>) {
    let wanted: BTreeSet<&str> = Program::ALL.iter().map(|program| program.name()).collect();
    let found: BTreeSet<&str> = catalogue.components.keys().map(String::as_str).collect();
    gaps.extend(wanted.symmetric_difference(&found).map(|name| format!("component {name}: known to one side only")));
    for (name, component) in &catalogue.components {
        if *name != component.name {
            gaps.push(format!("component {name}: calls itself {}", component.name));
        }
        for (version, pins) in &component.versions {
            if !version::is_version(version) || version.starts_with('v') {
                gaps.push(format!("{name} {version}: no version, like 1.2.3"));
            }
            // users bring what they need
            let brought = pins.values().any(|pin| pin.trust == Trust::Overlay);
            if brought || pins.is_empty() && component.digest_source.is_some() {
                continue;
            }
            let published = |arch: &Arch| component.published.as_ref().is_none_or(|all| all.contains(arch));
            for arch in [Arch::Amd64, Arch::Arm64].iter().filter(|arch| published(arch) && !pins.contains_key(arch)) {
                gaps.push(format!("{name} {version}: no digest for {arch}"));
            }
        }
        if let Some(default) = component.default.as_ref().filter(|default| !component.versions.contains_key(*default)) {
            gaps.push(format!("{name}: its default {default} is not pinned"));
        }
    }
}

/// Names of images are names of one image, whatever a feature brings is there, and every minor has a version of it.
fn features(catalogue: &Catalogue, gaps: &mut Vec<String>) {
    let mut names: BTreeSet<&str> = catalogue.images.iter().map(|rule| rule.name.as_str()).collect();
    for (name, feature) in &catalogue.features {
        if *name != feature.name {
            gaps.push(format!("feature {name}: calls itself {}", feature.name));
        }
        for image in feature.images.iter().filter(|image| !names.insert(&image.name)) {
            gaps.push(format!("feature {name}: another image is called {} too", image.name));
        }
        if feature.images.is_empty() {
            gaps.push(format!("feature {name}: no image"));
        }
        let components = feature.programs.iter().chain(&feature.inside);
        for component in components.filter(|component| !catalogue.components.contains_key(*component)) {
            gaps.push(format!("feature {name}: there is no component {component}"));
        }
        for minor in catalogue.releases.keys() {
            if let Err(error) = feature.choose(None, minor) {
                gaps.push(format!("feature {name}: {error}"));
            }
        }
        for (version, known) in &feature.versions {
            let images: BTreeSet<&str> = feature.images.iter().map(|image| image.name.as_str()).collect();
            for image in known.tags.keys().filter(|image| !images.contains(image.as_str())) {
                gaps.push(format!("feature {name} {version}: a tag of {image}, which is none of its images"));
            }
            for reference in feature.references(version).iter().filter(|text| text.contains(['{', '}'])) {
                gaps.push(format!("feature {name} {version}: {reference} has a variable that nothing fills"));
            }
            let components = feature.programs.iter().filter_map(|component| catalogue.components.get(component));
            for component in components.filter(|component| !component.versions.contains_key(version)) {
                gaps.push(format!("feature {name} {version}: {} has no such version", component.name));
            }
        }
    }
}

/// Where upstream names versions for a minor, one of them is the default.
fn fit(catalogue: &Catalogue, gaps: &mut Vec<String>) {
    for (name, feature) in &catalogue.features {
        for minor in catalogue.releases.keys() {
            let Ok(chosen) = feature.choose(None, minor) else { continue };
            let supported = |version: &str| {
                let known = feature.versions.get(version).and_then(|known| known.supports.as_ref());
                known.is_none_or(|minors| minors.holds(minor))
            };
            if let Some(fit) = feature.fit(minor).filter(|_| !supported(&chosen)) {
                gaps.push(format!(
                    "feature {name}: {chosen} is the default for Kubernetes {minor}, and upstream names {fit}"
                ));
            }
        }
    }
}

/// Days are days, so that they can be compared as text.
fn dates(catalogue: &Catalogue, gaps: &mut Vec<String>) {
    let day = |text: &str| {
        let mut parts = text.split('-').map(|part| (part.len(), part.bytes().all(|b| b.is_ascii_digit())));
        [4, 2, 2].into_iter().all(|wanted| parts.next() == Some((wanted, true))) && parts.next().is_none()
    };
    let components = catalogue.components.values().map(|c| (&c.name, &c.end_of_life));
    let features = catalogue.features.values().map(|f| (&f.name, &f.end_of_life));
    for (name, lines) in components.chain(features) {
        for (line, text) in lines.iter().filter(|(_, text)| !day(text)) {
            gaps.push(format!("{name} {line}: its end of life {text:?} is not a day, like 2026-07-03"));
        }
    }
    for release in catalogue.releases.values() {
        if let Some(text) = release.end_of_life.as_ref().filter(|text| !day(text)) {
            gaps.push(format!("release {}: its end of life {text:?} is not a day, like 2026-07-03", release.minor));
        }
    }
}

/// Every image that recipes can name has exactly one rule.
fn images(catalogue: &Catalogue, gaps: &mut Vec<String>) {
    for image in ClusterImage::ALL {
        let rules = catalogue.images.iter().filter(|rule| rule.name == image.name()).count();
        if rules != 1 {
            gaps.push(format!("image {}: {rules} rules, expected one", image.name()));
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

/// What a release brings itself is what it runs on: containerd and etcd are new enough, CRI-O is of its minor.
fn support(catalogue: &Catalogue, gaps: &mut Vec<String>) {
    for (minor, release) in &catalogue.releases {
        let older = |version: &str, minimum: &str| version::compare(version, minimum).is_lt();
        let containerd = release.defaults.get(Program::Containerd.name());
        if containerd.is_some_and(|version| older(version, &release.support.minimum_containerd)) {
            gaps.push(format!("release {minor}: its own containerd is older than its minimum"));
        }
        // The minimum is that of the newest patch that was read.
        let etcd = release.patches.last().map(PatchRange::etcd_version);
        let minimum = release.support.minimum_etcd.as_deref();
        if etcd.zip(minimum).is_some_and(|(version, minimum)| older(version, minimum)) {
            gaps.push(format!("release {minor}: its own etcd is older than its minimum"));
        }
        let cri_o = catalogue.component(Program::CriO).map(|component| component.versions.keys());
        if !cri_o.into_iter().flatten().any(|version| version::minor(version) == minor) {
            gaps.push(format!("release {minor}: no cri-o of this minor"));
        }
    }
}

/// etcd's tools are pinned for the etcd of every range.
fn etcd_tools(catalogue: &Catalogue, release: &Release, gaps: &mut Vec<String>) {
    for range in &release.patches {
        let version = release.etcd_version(range);
        if catalogue.component(Program::Etcd).is_none_or(|c| !c.versions.contains_key(version)) {
            gaps.push(format!("release {}: etcd {version} is not pinned", release.minor));
        }
    }
}

/// No variable is left in an address or a name.
fn templates(catalogue: &Catalogue, gaps: &mut Vec<String>) {
    for component in catalogue.components.values() {
        let versions = component.versions.keys().map(String::as_str).chain(["1.2.3"]);
        for (platform, version) in Platform::ALL.into_iter().flat_map(|p| versions.clone().map(move |v| (p, v))) {
            let filled = [
                Some(component.url(version, platform.arch)),
                Some(component.file_name(version, platform.arch)),
                component.checksum_url(version, platform.arch),
            ];
            for text in filled.into_iter().flatten().filter(|text| text.contains(['{', '}'])) {
                gaps.push(format!("{}: {text} has a variable that nothing fills", component.name));
            }
        }
    }
}

/// Every known patch of every minor gives a set in which each item has a source; and the newest of each minor gives, for every
/// platform, each program and image that recipes can name.
fn closed(catalogue: &Catalogue, gaps: &mut Vec<String>) {
    let known = catalogue.component(Program::Kubelet).map(|kubelet| kubelet.versions.keys().collect::<Vec<_>>());
    for kubernetes in known.unwrap_or_default().into_iter().filter(|known| catalogue.release(known).is_some()) {
        let newest = catalogue.newest_patch(version::minor(kubernetes)) == Some(kubernetes.as_str());
        let uses = every_use(kubernetes);
        let mut found = BTreeSet::new();
        for cluster in uses.iter().take(if newest { uses.len() } else { 1 }) {
            match require(cluster, catalogue) {
                Ok(requirements) => found.extend(sound(catalogue, kubernetes, &requirements, gaps)),
                Err(error) => gaps.push(format!("Kubernetes {kubernetes}: {error}")),
            }
        }
        if !newest {
            continue;
        }
        let programs = Program::ALL.into_iter().filter(|program| !UNUSED.contains(program)).map(ArtifactKey::Binary);
        let images = ClusterImage::ALL.into_iter().map(ArtifactKey::Image);
        for key in programs.chain(images).chain([ArtifactKey::Installer]) {
            for platform in published(catalogue, &key) {
                if !found.contains(&(key.clone(), platform)) {
                    gaps.push(format!("Kubernetes {kubernetes}: {key} is missing for {platform}"));
                }
            }
        }
    }
}

/// Programs of the catalogue that no cluster asks for.
const UNUSED: [Program; 3] = [Program::CalicoCrds, Program::Crun, Program::Nerdctl];

/// Few clusters that together ask for everything.
fn every_use(kubernetes: &str) -> [Cluster; 4] {
    let of = |platforms: &[Platform]| {
        let mut cluster = cluster::for_version(Some(kubernetes));
        cluster.bundle.platforms = platforms.to_vec();
        cluster
    };
    let mut plain = of(&Platform::ALL);
    plain.registry = Registry::of(RegistryKind::Registry);
    let mut docker = of(&Platform::ALL);
    docker.runtime.kind = RuntimeKind::Docker;
    docker.network.plugin = NetworkPlugin::Calico;
    let mut services = of(&Platform::ALL);
    services.runtime.kind = RuntimeKind::CriO;
    services.etcd.kind = EtcdKind::Kubexm;
    if let Some(kubernetes) = &mut services.kubernetes {
        kubernetes.kind = KubernetesKind::Kubexm;
    }
    let mut harbor = of(&[Platform::LINUX_AMD64]);
    harbor.registry = Registry::of(RegistryKind::Harbor);
    [plain, docker, services, harbor]
}

/// The platforms that a key must exist for.
fn published(catalogue: &Catalogue, key: &ArtifactKey) -> Vec<Platform> {
    // compose is there for Harbor
    let of = match key {
        ArtifactKey::Binary(Program::DockerCompose) => Some(Program::Harbor),
        ArtifactKey::Binary(program) => Some(*program),
        _ => None,
    };
    let only = of.and_then(|program| catalogue.component(program)).and_then(|component| component.published.as_ref());
    Platform::ALL.into_iter().filter(|platform| only.is_none_or(|archs| archs.contains(&platform.arch))).collect()
}

/// What the requirements hold; those without a digest are reported.
fn sound(
    catalogue: &Catalogue,
    kubernetes: &str,
    requirements: &Requirements,
    gaps: &mut Vec<String>,
) -> BTreeSet<(ArtifactKey, Platform)> {
    for item in &requirements.items {
        let left_to_upstream = catalogue
            .components
            .get(item.key.name().as_ref())
            .and_then(|component| component.versions.get(&item.version))
            .is_some_and(BTreeMap::is_empty);
        if matches!(&item.source, Source::File { sha256: None, .. }) && !left_to_upstream {
            gaps.push(format!("Kubernetes {kubernetes}: {} {} has no digest", item.key, item.version));
        }
    }
    requirements.items.iter().filter_map(|item| Some((item.key.clone(), item.platform?))).collect()
}
