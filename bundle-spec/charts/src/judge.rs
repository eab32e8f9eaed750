//! What becomes of the images that were found: locked, or already carried, or ignored; or an error that names all of them and
//! what to write. Pure.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use kubexm_spec::{ArtifactKey, Digest, Reference};

use crate::extract::Found;

/// What a chart seems to name and the bundle does not carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The chart or YAML add-on.
    pub key: ArtifactKey,
    /// Looks like an image, by completed name, with its place.
    pub suspects: Vec<(String, String)>,
    /// An image of a pod with neither tag nor digest, with its place.
    pub untagged: Vec<(String, String)>,
    /// In the place of an image of a pod, and no name of one.
    pub broken: Vec<(String, String)>,
}

/// The images of one chart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Every image, by full name: all are carried under some key.
    pub images: BTreeSet<String>,
    /// For people.
    pub warnings: Vec<String>,
}

/// What is carried anyway, and what is no image.
#[derive(Clone, Debug, Default)]
pub struct Known {
    carried: BTreeSet<String>,
    /// The same by what may mean them: a stream may name a million others, of one repository, too.
    meant: HashMap<Meaning, Vec<Arc<str>>>,
    ignored: BTreeSet<String>,
}

/// What a name without a tag, with a tag or with a digest means: any image of its repository, or those of that tag or digest.
type Meaning = (String, Option<String>, Option<Digest>);

/// What a name means, where only its digest counts if it has one.
fn meaning(name: &Reference) -> Meaning {
    let tag = name.tag.clone().filter(|_| name.digest.is_none());
    (name.repository.clone(), tag, name.digest)
}

impl Known {
    /// `carried`: images that are required already, by any key. `ignored`: as `spec.bundle.ignoreImages` writes them.
    pub fn new<'a>(carried: impl IntoIterator<Item = &'a str>, ignored: impl IntoIterator<Item = &'a str>) -> Self {
        let full = |name: &str| Reference::read(name).map_or_else(|| name.to_owned(), |name| name.to_string());
        let ignored: BTreeSet<&str> = ignored.into_iter().collect();
        let mut known = Self {
            ignored: ignored.iter().map(|name| full(name)).chain(ignored.iter().map(|n| (*n).to_owned())).collect(),
            ..Self::default()
        };
        carried.into_iter().for_each(|name| known.carry(full(name)));
        known
    }

    fn carry(&mut self, name: String) {
        if let Some(reference) = Reference::read(&name).filter(|_| !self.carried.contains(&name)) {
            let (repository, full) = (&reference.repository, Arc::<str>::from(reference.to_string()));
            let by_tag = reference.tag.clone().map(|tag| (repository.clone(), Some(tag), None));
            let by_digest = reference.digest.map(|digest| (repository.clone(), None, Some(digest)));
            for meaning in [Some((repository.clone(), None, None)), by_tag, by_digest].into_iter().flatten() {
                self.meant.entry(meaning).or_default().push(Arc::clone(&full));
            }
        }
        self.carried.insert(name);
    }

    /// With the images of pods of a chart: each is locked, and so covers what others merely name.
    pub fn learn(&mut self, found: &Found) {
        let exact = |name: &&String| Reference::read(name).is_some_and(|name| name.is_exact());
        let pods = found.pods.keys().filter(exact).filter(|name| !self.ignored.contains(*name));
        let pods: Vec<String> = pods.cloned().collect();
        pods.into_iter().for_each(|name| self.carry(name));
    }

    /// Whether a carried image is what a name may mean: itself, by its digest, or, without tag and digest, any of its repository.
    fn covers(&self, name: &str) -> bool {
        self.carried.contains(name)
            || Reference::read(name).is_some_and(|wanted| self.meant.contains_key(&meaning(&wanted)))
    }
}

/// Every image that was found and is neither carried nor ignored, with its place: what may not be installed.
pub fn outside(found: &Found, known: &Known) -> Vec<(String, String)> {
    let all = found.pods.iter().chain(&found.suspects).chain(&found.broken);
    let missing = all.filter(|(name, _)| !known.ignored.contains(*name) && !known.covers(name));
    missing.map(|(name, place)| (name.clone(), place.clone())).collect()
}

/// Judges what was found in one chart.
pub fn judge(key: &ArtifactKey, found: &Found, known: &Known) -> Result<Verdict, Gap> {
    let mut verdict = Verdict::default();
    let mut gap = Gap { key: key.clone(), suspects: Vec::new(), untagged: Vec::new(), broken: Vec::new() };
    let open = |map: &std::collections::BTreeMap<String, String>| -> Vec<(String, String)> {
        map.iter().filter(|(name, _)| !known.ignored.contains(*name)).map(|(n, p)| (n.clone(), p.clone())).collect()
    };
    for (name, place) in open(&found.pods) {
        let reference = Reference::read(&name);
        if reference.as_ref().is_some_and(Reference::is_exact) {
            if reference.is_some_and(|r| r.tag.as_deref() == Some("latest") && r.digest.is_none()) {
                let text = format!("{key}: {name} is whatever was newest when it was locked ({place}); name a version");
                verdict.warnings.push(text);
            }
            verdict.images.insert(name);
            continue;
        }
        // A node completes it by `latest`, which only a user can mean.
        let latest = format!("{name}:latest");
        if known.carried.contains(&latest) {
            verdict.images.insert(latest);
        } else {
            gap.untagged.push((name, place));
        }
    }
    // What means the same is taken once: a thousand tags of one digest may mean a thousand images.
    let mut meant = HashSet::new();
    for (name, place) in open(&found.suspects) {
        if known.carried.contains(&name) {
            verdict.images.insert(name);
            continue;
        }
        let meaning = Reference::read(&name).map(|wanted| meaning(&wanted));
        match meaning.and_then(|meaning| known.meant.get_key_value(&meaning)) {
            Some((meaning, carried)) if meant.insert(meaning) => {
                verdict.images.extend(carried.iter().map(|name| name.to_string()));
            }
            Some(_) => {}
            None => gap.suspects.push((name, place)),
        }
    }
    gap.broken = open(&found.broken);
    if gap.suspects.is_empty() && gap.untagged.is_empty() && gap.broken.is_empty() { Ok(verdict) } else { Err(gap) }
}

/// Every gap of every chart, and what to write.
pub fn text(gaps: &[Gap]) -> String {
    let mut text = "charts seem to name images that the bundle would not carry".to_owned();
    let (mut extra, mut ignore) = (BTreeSet::new(), BTreeSet::new());
    for gap in gaps {
        text.push_str(&format!("\n{}:", gap.key));
        let mut list = |what: &str, names: &[(String, String)]| {
            for (name, place) in names {
                text.push_str(&format!("\n- {name:?} {what} ({place})"));
            }
        };
        list("looks like an image", &gap.suspects);
        list("is an image with neither tag nor digest", &gap.untagged);
        list("is where an image is expected and is not an image name", &gap.broken);
        for (name, _) in gap.suspects.iter().chain(&gap.untagged) {
            let exact = Reference::read(name).is_some_and(|name| name.is_exact());
            extra.insert(if exact { name.clone() } else { format!("{name}:latest") });
        }
        ignore.extend(gap.suspects.iter().chain(&gap.untagged).chain(&gap.broken).map(|(name, _)| name.clone()));
    }
    text.push_str("\nlist what is pulled under extraImages, and what is not an image or is never pulled under ignoreImages; in cluster.yaml:");
    text.push_str("\nspec:\n  bundle:");
    if !extra.is_empty() {
        text.push_str("\n    extraImages:");
        extra.iter().for_each(|name| text.push_str(&format!("\n    - {{name: {name:?}}}")));
    }
    text.push_str("\n    ignoreImages:");
    ignore.iter().for_each(|name| text.push_str(&format!("\n    - {name:?}")));
    text
}

#[cfg(test)]
mod tests {
    use kubexm_spec::cluster;

    use super::*;

    fn key() -> ArtifactKey {
        ArtifactKey::Chart("web".to_owned())
    }

    fn found(pods: &[&str], suspects: &[&str]) -> Found {
        let map = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), "somewhere".to_owned())).collect();
        Found { pods: map(pods), suspects: map(suspects), ..Found::default() }
    }

    fn judged(found: &Found, carried: &[&str], ignored: &[&str]) -> Result<Verdict, Gap> {
        let mut known = Known::new(carried.iter().copied(), ignored.iter().copied());
        known.learn(found);
        judge(&key(), found, &known)
    }

    #[test]
    fn images_of_pods_are_taken_and_cover_what_merely_names_them() {
        let found = found(&["a.b/x:1"], &["a.b/x:1", "a.b/x"]);
        let verdict = judged(&found, &[], &[]).unwrap();
        assert_eq!(verdict.images.into_iter().collect::<Vec<_>>(), ["a.b/x:1"]);
    }

    #[test]
    fn a_suspect_is_covered_by_what_is_carried_or_ignored_and_by_nothing_else() {
        let found = found(&[], &["docker.io/library/redis:7"]);
        assert!(judged(&found, &["docker.io/library/redis:6"], &[]).is_err());
        assert_eq!(judged(&found, &["redis:7"], &[]).unwrap().images.len(), 1);
        assert_eq!(judged(&found, &[], &["redis:7"]).unwrap().images.len(), 0);
    }

    #[test]
    fn before_an_install_an_image_of_a_pod_is_no_more_known_than_any_other() {
        let known = Known::new(["docker.io/library/redis:7", "a.b/y"], ["a.b/ignored:1"]);
        let found = found(&["docker.io/library/redis:7", "a.b/ignored:1", "a.b/new:1"], &["a.b/y:2"]);
        let names: Vec<String> = outside(&found, &known).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["a.b/new:1", "a.b/y:2"]);
    }

    #[test]
    fn a_digest_is_covered_whatever_the_tag_says() {
        let digest = kubexm_spec::Digest::of("x");
        let found = found(&[], &[&format!("a.b/x@{digest}")]);
        assert!(judged(&found, &[&format!("a.b/x:1@{digest}")], &[]).is_ok());
        assert!(judged(&found, &["a.b/x:1"], &[]).is_err());
    }

    #[test]
    fn many_images_of_one_repository_are_looked_up_and_not_compared() {
        let digest = |at: usize| kubexm_spec::Digest::of(format!("{}", at % 2));
        let names: Vec<String> = (0..40_000).map(|at| format!("a.b/x:{at}@{}", digest(at))).collect();
        let suspects: Vec<String> = (0..40_000).map(|at| format!("a.b/x:s{at}@{}", digest(at))).collect();
        let all: Vec<&str> = names.iter().map(String::as_str).collect();
        let found = found(&all, &suspects.iter().map(String::as_str).collect::<Vec<_>>());
        let begin = std::time::Instant::now();
        assert_eq!(judged(&found, &[], &[]).unwrap().images.len(), 40_000);
        // 1,600 million comparisons and copies took minutes.
        assert!(begin.elapsed() < std::time::Duration::from_secs(60), "{:?}", begin.elapsed());
        let tags = self::found(&["a.b/y:1", "a.b/y:2"], &["a.b/y:2", "a.b/y"]);
        assert_eq!(judged(&tags, &[], &[]).unwrap().images.len(), 2);
    }

    #[test]
    fn an_image_without_a_tag_is_refused_until_the_user_says_latest() {
        let found = found(&["a.b/x"], &[]);
        assert_eq!(judged(&found, &[], &[]).unwrap_err().untagged.len(), 1);
        assert_eq!(judged(&found, &["a.b/x:latest"], &[]).unwrap().images.len(), 1);
        let latest = self::found(&["a.b/x:latest"], &[]);
        assert_eq!(judged(&latest, &[], &[]).unwrap().warnings.len(), 1);
    }

    #[test]
    fn the_yaml_of_the_error_is_what_cluster_yaml_takes_and_mends_it() {
        let mut all = found(&["a.b/untagged"], &["a.b/hidden:1", "c/prefix"]);
        all.broken.insert(String::new(), "somewhere".to_owned());
        let gap = judged(&all, &[], &[]).unwrap_err();
        let text = text(&[gap]);
        let yaml = &text[text.find("\nspec:").unwrap()..];
        let cluster = format!("apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: x}}{yaml}\n");
        let bundle = cluster::parse(&cluster).unwrap().bundle;
        assert_eq!(bundle.extra_images.len(), 3, "{text}");
        let carried: Vec<&str> = bundle.extra_images.iter().map(|image| image.name.as_str()).collect();
        let ignored: Vec<&str> = bundle.ignore_images.iter().map(String::as_str).collect();
        assert!(judged(&all, &[], &ignored).is_ok());
        assert!(judged(&all, &carried, &[""]).is_ok());
    }
}
