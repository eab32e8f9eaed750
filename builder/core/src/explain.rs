//! Why an artifact is in a bundle, or what would bring it in. Pure: every answer comes from `require`, or from a
//! rendering that already exists.

mod alternatives;
mod packages;
mod question;

use std::collections::BTreeSet;

pub use self::packages::Root;
pub use self::question::Question;

use kubexm_manifests::{Catalogue, FeatureSet, Requirement, Requirements, in_no_cluster, require, version};
use kubexm_spec::depot::split_reference;
use kubexm_spec::yaml::nearest;
use kubexm_spec::{Arch, ArtifactKey, Cluster, Program, Reference};

use crate::packages::roots;
use crate::update::{reference, stands_for};

/// How many near names are reported.
const NEAR: usize = 4;

/// What a word of a person stands for in a cluster.
#[derive(Clone, Debug)]
pub enum Explained {
    /// It is needed, for one platform or more.
    In(Vec<Requirement>),
    /// An image that comes inside of something that is needed, and is no artifact itself.
    Inside {
        /// Its full reference.
        image: String,
        /// What carries it, for one platform or more.
        carriers: Vec<Requirement>,
    },
    /// An image that the rendering of these charts names.
    Rendered {
        /// Its full reference.
        image: String,
        /// Charts and YAML add-ons.
        by: Vec<ArtifactKey>,
    },
    /// Packages that are asked for, and that no lock has at hand: which version it will be, and what it needs, is known when the
    /// repositories are read.
    Asked(Vec<Root>),
    /// Not in this version; what is there under its name.
    Otherwise(Box<Self>),
    /// It is not in, and these changes of cluster.yaml would bring it in, each by itself.
    Out {
        /// What is meant: a key, or an image that comes inside of another artifact.
        what: String,
        /// `network.plugin: calico`.
        with: Vec<String>,
    },
    /// Known, and no cluster brings it in.
    Never {
        /// Its name.
        what: String,
        because: &'static str,
        /// What carries it all the same.
        with: Vec<String>,
    },
    /// Nothing that is or could be in has this name.
    Unknown {
        /// Names that are nearest to it.
        near: Vec<String>,
        /// Charts whose images are not known yet: it may be one of theirs.
        unrendered: Vec<ArtifactKey>,
    },
}

/// Explains one word.
pub fn explain(word: &str, question: &Question<'_>) -> Explained {
    let Question { cluster, catalogue, requirements, charts, .. } = *question;
    if let Some(found) = here(word, question) {
        return found;
    }
    let bare = without_version(word);
    if let Some(bare) = bare
        && let Some(found) = here(bare, question)
    {
        return in_this_version(&word[bare.len() + 1..], found);
    }
    let mut known: Vec<ArtifactKey> = requirements.items.iter().map(|item| item.key.clone()).collect();
    known.extend(roots(requirements));
    known.extend(packages::of_lock(question).map(|(item, _)| item.key.clone()));
    for changes in [alternatives::of_fields(cluster), alternatives::of_add_ons(cluster, catalogue)] {
        let (mut what, mut with) = (None, Vec::new());
        for (change, changed) in changes {
            let Ok(others) = require(&changed, catalogue) else { continue };
            let found = [Some(word), bare].into_iter().flatten().find_map(|word| brought(word, &others, catalogue));
            if let Some(found) = found {
                what.get_or_insert(found);
                with.push(change);
            }
            known.extend(others.items.into_iter().map(|item| item.key));
        }
        if let Some(what) = what {
            return Explained::Out { what, with };
        }
    }
    let name = word.strip_prefix("binary/").unwrap_or(word);
    if let Some(because) = in_no_cluster(name) {
        return Explained::Never { what: name.to_owned(), because, with: as_extra_files(name, cluster, catalogue) };
    }
    let unrendered = charts.iter().filter(|(_, images)| images.is_none()).map(|(key, _)| key.clone()).collect();
    Explained::Unknown { near: near(word, &known, catalogue), unrendered }
}

/// What a word stands for among what is needed, what lies inside of that, and what renderings name.
fn here(word: &str, question: &Question<'_>) -> Option<Explained> {
    let Question { catalogue, requirements, charts, .. } = *question;
    let mut found = needed(word, requirements);
    found.extend(packages::locked(word, question));
    if !found.is_empty() {
        return Some(Explained::In(found));
    }
    let asked = packages::asked(word, requirements);
    if !asked.is_empty() {
        return Some(Explained::Asked(asked));
    }
    if let Some((image, program)) = inside(word, requirements, catalogue) {
        let key = ArtifactKey::Binary(program);
        let carriers = requirements.items.iter().filter(|item| item.key == key).cloned().collect();
        return Some(Explained::Inside { image, carriers });
    }
    let names = |image: &&String| stands_for(word, &ArtifactKey::ChartImage((*image).clone()), Some(image));
    let image = charts.iter().filter_map(|(_, images)| images.as_ref()).flatten().find(names)?;
    let by = charts.iter().filter(|(_, images)| images.as_ref().is_some_and(|images| images.contains(image)));
    Some(Explained::Rendered { image: image.clone(), by: by.map(|(key, _)| key.clone()).collect() })
}

/// What was found by its name alone, where a version was asked for.
fn in_this_version(asked: &str, found: Explained) -> Explained {
    let Explained::In(items) = &found else { return Explained::Otherwise(Box::new(found)) };
    let same = |item: &&Requirement| version::bare(&item.version) == version::bare(asked);
    let items: Vec<Requirement> = items.iter().filter(same).cloned().collect();
    if items.is_empty() { Explained::Otherwise(Box::new(found)) } else { Explained::In(items) }
}

fn needed(word: &str, requirements: &Requirements) -> Vec<Requirement> {
    let fits = |item: &&Requirement| stands_for(word, &item.key, reference(&item.source));
    requirements.items.iter().filter(fits).cloned().collect()
}

/// What a word stands for in other requirements, as it is reported.
fn brought(word: &str, requirements: &Requirements, catalogue: &Catalogue) -> Option<String> {
    let found = needed(word, requirements).into_iter().next().map(|first| first.key.to_string());
    found.or_else(|| inside(word, requirements, catalogue).map(|(image, _)| image))
}

/// The image that a word stands for among those that a program's archive carries, and the program.
fn inside(word: &str, requirements: &Requirements, catalogue: &Catalogue) -> Option<(String, Program)> {
    let versions = requirements.versions.as_ref()?;
    let carried = |feature: &FeatureSet| -> Option<(String, Program)> {
        let program = Program::ALL.into_iter().find(|p| Some(p.name()) == feature.inside.as_deref())?;
        let version = versions.of(program)?;
        let images = feature.images_of(version).zip(feature.references(version));
        let mut found = images.filter(|(image, reference)| {
            stands_for(word, &ArtifactKey::FeatureImage(image.name.clone()), Some(reference))
        });
        found.next().map(|(_, reference)| (reference, program))
    };
    catalogue.features.values().find_map(carried)
}

/// `pause:3.9` and `pause@sha256:…` without what follows the name; none where nothing follows.
fn without_version(word: &str) -> Option<&str> {
    let name = word.split_once('@').map_or(word, |(name, _)| name);
    let name = split_reference(name).0;
    (name != word && !name.is_empty()).then_some(name)
}

/// Under which other keys a lock has an image too: a chart's rendering names it by its digest, or otherwise than the catalogue's
/// list. Its blobs are carried once.
pub fn twice(item: &Requirement, question: &Question<'_>) -> Vec<(ArtifactKey, String)> {
    let Some(own) = reference(&item.source).and_then(Reference::read) else { return Vec::new() };
    let same = |other: &Reference| {
        let one = other.repository == own.repository && *other != own;
        one && (other.tag.is_some() && other.tag == own.tag || other.digest.is_some() && other.digest == own.digest)
    };
    let images =
        question.charts.iter().flat_map(|(key, images)| images.iter().flatten().map(move |image| (key, image)));
    let found = images.filter(|(_, image)| Reference::read(image).is_some_and(|image| same(&image)));
    found.map(|(key, image)| (key.clone(), image.clone())).collect()
}

/// How a program of the catalogue that no cluster brings in is carried as a file.
fn as_extra_files(name: &str, cluster: &Cluster, catalogue: &Catalogue) -> Vec<String> {
    let Some(component) = catalogue.components.get(name) else { return Vec::new() };
    let newest = || version::newest(component.versions.keys().map(String::as_str)).map(str::to_owned);
    let Some(version) = component.default.clone().or_else(newest) else { return Vec::new() };
    let archs: BTreeSet<Arch> = cluster.bundle.platforms.iter().map(|platform| platform.arch).collect();
    let file = |arch: Arch| {
        let (url, pin) = (component.published_url(&version, arch)?, component.pin(&version, arch)?);
        Some(format!("spec.bundle.extraFiles: [{{url: \"{url}\", sha256: {}}}]", pin.sha256.hex()))
    };
    archs.into_iter().filter_map(file).collect()
}

/// The names nearest to a word that stands for nothing, of what is or could be in and of the rest of the catalogue.
fn near(word: &str, keys: &[ArtifactKey], catalogue: &Catalogue) -> Vec<String> {
    let whole = word.contains('/');
    let key = |key: &ArtifactKey| if whole { key.to_string() } else { key.name().into_owned() };
    let mut names: Vec<String> = keys.iter().map(key).collect();
    if !whole {
        names.extend(catalogue.components.keys().chain(catalogue.features.keys()).cloned());
    }
    names.sort();
    names.dedup();
    nearest(word, names.iter().map(String::as_str)).into_iter().take(NEAR).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained_with(word: &str, spec: &str, charts: &[(&str, Option<&[&str]>)]) -> Explained {
        let text = format!("apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: prod}}\nspec:\n{spec}");
        let (cluster, catalogue) = (kubexm_spec::cluster::parse(&text).unwrap(), Catalogue::embedded());
        let requirements = require(&cluster, &catalogue).unwrap();
        let images = |images: &[&str]| images.iter().map(|image| (*image).to_owned()).collect();
        let charts: Vec<_> = charts.iter().map(|(key, known)| (key.parse().unwrap(), known.map(images))).collect();
        let (catalogue, requirements, charts) = (&catalogue, &requirements, charts.as_slice());
        explain(word, &Question { cluster: &cluster, catalogue, requirements, charts, lock: None })
    }

    fn explained(word: &str, spec: &str) -> Explained {
        explained_with(word, spec, &[])
    }

    #[test]
    fn packages_that_are_asked_for_are_reported_without_a_lock_and_what_would_bring_others_in() {
        let with = "  kubernetes: {version: v1.34.4}\n  bundle: {os: [debian-12]}\n";
        for word in ["socat", "debian-12/socat", "package/debian-12/socat"] {
            let Explained::Asked(found) = explained(word, with) else { panic!("{word}") };
            assert_eq!(found[0].key.to_string(), "package/debian-12/socat");
        }
        let Explained::Asked(found) = explained("iproute", with) else { panic!("by the name of the table") };
        assert_eq!(found[0].key.to_string(), "package/debian-12/iproute2");
        let Explained::Unknown { near, .. } = explained("package/debian-12/sokat", with) else { panic!() };
        assert!(near.contains(&"package/debian-12/socat".to_owned()), "{near:?}");
    }

    fn keys(found: &[Requirement]) -> Vec<String> {
        found.iter().map(|item| item.key.to_string()).collect()
    }

    fn out(word: &str, spec: &str) -> (String, Vec<String>) {
        match explained(word, spec) {
            Explained::Out { what, with } => (what, with),
            other => panic!("{word}: {other:?}"),
        }
    }

    const PLAIN: &str = "  kubernetes: {version: v1.34.4}\n";

    #[test]
    fn a_name_a_key_a_reference_and_a_repository_stand_for_the_same() {
        for word in ["pause", "image/pause", "registry.k8s.io/pause", "registry.k8s.io/pause:3.10.1", "pause:3.10.1"] {
            let Explained::In(found) = explained(word, PLAIN) else { panic!("{word}") };
            assert_eq!(keys(&found), ["image/pause"]);
        }
        let Explained::In(both) = explained("etcd", PLAIN) else { panic!() };
        assert_eq!(keys(&both), ["binary/etcd", "image/etcd"]);
        let hub = "  bundle: {extraImages: [{name: \"busybox:1\"}]}\n";
        for word in ["busybox:1", "index.docker.io/busybox:1", "docker.io/library/busybox"] {
            assert!(matches!(explained(word, hub), Explained::In(_)), "{word}");
        }
    }

    #[test]
    fn another_version_of_what_is_needed_is_reported_with_the_one_that_is() {
        for word in ["pause:3.9", "registry.k8s.io/pause:3.9", "kubeadm:v1.34.3"] {
            let Explained::Otherwise(found) = explained(word, PLAIN) else { panic!("{word}") };
            assert!(matches!(*found, Explained::In(_)), "{word}");
        }
        let Explained::In(found) = explained("kubeadm:v1.34.4", PLAIN) else { panic!() };
        assert_eq!(keys(&found), ["binary/kubeadm"]);
        // of what is not in, the version does not matter
        assert_eq!(out("quay.io/calico/node:v3.0.0", PLAIN).1, ["network.plugin: calico"]);
    }

    #[test]
    fn explain_says_which_setting_would_include_what_is_left_out() {
        let excluded = "  kubernetes: {}\n  bundle: {exclude: [helm]}\n";
        let with = vec!["helm not in spec.bundle.exclude".to_owned()];
        assert_eq!(out("helm", excluded), ("binary/helm".to_owned(), with));
        assert!(out("registry", PLAIN).1.contains(&"registry.type: registry".to_owned()));
        let extras = "  bundle: {extraImages: [{name: \"a.test/b:1\"}]}\n";
        assert!(out("kubeadm", extras).1.contains(&"spec.kubernetes: {}".to_owned()));
    }

    #[test]
    fn add_ons_of_the_catalogue_and_their_images_say_how_they_are_written() {
        let wanted = ["spec.addons: [{name: metrics-server, type: helm, source: {catalogue: metrics-server}}]"];
        for word in ["metrics-server", "chart/metrics-server", "registry.k8s.io/metrics-server/metrics-server"] {
            assert_eq!(out(word, PLAIN).1, wanted, "{word}");
        }
        // what a field brings in is reported by its field
        assert_eq!(out("cilium", PLAIN).1, ["network.plugin: cilium"]);
    }

    #[test]
    fn explain_says_that_harbors_images_are_inside_its_installer() {
        let (image, harbor) =
            ("docker.io/goharbor/harbor-core:v2.10.2", "  kubernetes: {}\n  registry: {type: harbor}\n");
        for word in ["harbor-core", "docker.io/goharbor/harbor-core", "feature-image/harbor-core", image] {
            let Explained::Inside { image: found, carriers } = explained(word, harbor) else { panic!("{word}") };
            assert_eq!((found.as_str(), keys(&carriers)), (image, vec!["binary/harbor".to_owned()]));
        }
        assert_eq!(out("harbor-core", PLAIN), (image.to_owned(), vec!["registry.type: harbor".to_owned()]));
    }

    #[test]
    fn explain_says_how_to_bundle_what_no_cluster_needs() {
        let Explained::Never { because, with, .. } = explained("nerdctl", PLAIN) else { panic!() };
        assert!(because.contains("no cluster needs it"));
        assert!(
            with[0].starts_with("spec.bundle.extraFiles: [{url: \"https://github.com/containerd/nerdctl/"),
            "{with:?}"
        );
        let Explained::Never { with, .. } = explained("binary/crun", PLAIN) else { panic!() };
        assert_eq!(with.len(), 1);
        for word in ["isulad", "keepalived"] {
            assert!(matches!(explained(word, PLAIN), Explained::Never { with, .. } if with.is_empty()), "{word}");
        }
    }

    #[test]
    fn images_of_renderings_name_their_chart_and_those_of_unknown_ones_may_be_anything() {
        let spec = "  bundle: {extraCharts: [{name: web, source: {path: web}}, {name: more, source: {path: more}}]}\n";
        let charts: [(&str, Option<&[&str]>); 2] = [("chart/web", Some(&["a.test/web:1"])), ("chart/more", None)];
        for word in ["a.test/web:1", "a.test/web", "web:1", "chart-image/a.test/web:1"] {
            let Explained::Rendered { image, by } = explained_with(word, spec, &charts) else { panic!("{word}") };
            assert_eq!((image.as_str(), by), ("a.test/web:1", vec!["chart/web".parse().unwrap()]));
        }
        let Explained::Otherwise(found) = explained_with("a.test/web:2", spec, &charts) else { panic!() };
        assert!(matches!(*found, Explained::Rendered { .. }));
        let Explained::Unknown { unrendered, .. } = explained_with("a.test/other:1", spec, &charts) else { panic!() };
        assert_eq!(unrendered, ["chart/more".parse().unwrap()]);
    }

    #[test]
    fn an_image_that_a_chart_also_names_by_digest_is_reported_as_locked_twice() {
        let text = "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {name: prod}\nspec: {network: {plugin: cilium}}\n";
        let (cluster, catalogue) = (kubexm_spec::cluster::parse(text).unwrap(), Catalogue::embedded());
        let requirements = require(&cluster, &catalogue).unwrap();
        let image = |name: &str| {
            let is = |item: &&Requirement| item.key == ArtifactKey::FeatureImage(name.to_owned());
            requirements.items.iter().find(is).unwrap()
        };
        let own = reference(&image("cilium").source).unwrap().to_owned();
        let by_digest = format!("{own}@{}", kubexm_spec::Digest::of("x"));
        let charts = [("chart/cilium".parse().unwrap(), Some(vec![own, by_digest.clone()]))];
        let question = Question {
            cluster: &cluster,
            catalogue: &catalogue,
            requirements: &requirements,
            charts: &charts,
            lock: None,
        };
        assert_eq!(twice(image("cilium"), &question), [("chart/cilium".parse().unwrap(), by_digest)]);
        assert_eq!(twice(image("cilium-envoy"), &question), []);
    }

    #[test]
    fn a_name_that_nothing_has_is_unknown_and_its_neighbours_are_reported() {
        let Explained::Unknown { near, .. } = explained("kubeadmm", PLAIN) else { panic!() };
        assert_eq!(near[0], "kubeadm");
        let Explained::Unknown { near, .. } = explained("nerdctll", PLAIN) else { panic!() };
        assert_eq!(near[0], "nerdctl");
    }
}
