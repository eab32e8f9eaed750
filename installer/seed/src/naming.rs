//! How things are called in the registry: `<registry>[/<prefix>]/<upstream host>/<path>`.

use kubexm_spec::{Reference, names};

use crate::error::SeedError;
use crate::target::{NAME_LENGTH, Target, is_part};

/// Below what charts and files are, so that they collide with no image: no upstream host has this name.
const OURS: &str = "kubexm";
/// The longest tag (distribution-spec, "Pulling manifests").
const TAG_LENGTH: usize = 128;

/// Where images, charts and files go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Naming {
    /// Registry and prefix.
    pub target: Target,
    /// One folder for all images in place of one for each upstream host (`spec.registry.namespaceOverride`).
    pub namespace_override: Option<String>,
}

impl Naming {
    /// The repository of an image: `mirror/quay.io/calico/node`.
    pub fn image(&self, image: &Reference) -> Result<String, SeedError> {
        let (host, path) = image.repository.split_once('/').unwrap_or(("docker.io", &image.repository));
        let folder = match &self.namespace_override {
            Some(folder) => folder.clone(),
            // As nodes ask for it.
            None => names::registry_folder(host),
        };
        self.repository(&format!("{folder}/{path}"), &image.repository)
    }

    /// The repository of a chart, by its own name: helm wants that one last.
    pub fn chart(&self, name: &str) -> Result<String, SeedError> {
        self.repository(&format!("{OURS}/charts/{name}"), &format!("chart {name}"))
    }

    /// The repository of the user's files; each has a tag.
    pub fn files(&self) -> Result<String, SeedError> {
        self.repository(&format!("{OURS}/files"), "files")
    }

    /// Whether a repository is that of an image, and neither of a chart nor of files.
    pub(crate) fn is_of_image(&self, repository: &str) -> bool {
        let below = repository.strip_prefix(self.target.prefix.as_str()).unwrap_or(repository);
        below.trim_start_matches('/').split('/').next() != Some(OURS)
    }

    /// The whole name of a repository, with the registry.
    pub fn whole(&self, repository: &str) -> String {
        format!("{}/{repository}", self.target.registry)
    }

    fn repository(&self, path: &str, of: &str) -> Result<String, SeedError> {
        let name = match self.target.prefix.as_str() {
            "" => path.to_owned(),
            prefix => format!("{prefix}/{path}"),
        };
        if name.len() > NAME_LENGTH || !name.split('/').all(is_part) {
            return Err(SeedError::Name { of: of.to_owned(), name });
        }
        Ok(name)
    }
}

/// A tag for a version or a file's name: `+` becomes `_` as helm has it, and so does all else that no tag may have.
pub(crate) fn tag_of(text: &str) -> String {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let mut tag: String = text.chars().map(|c| if good(c) { c } else { '_' }).take(TAG_LENGTH).collect();
    if tag.is_empty() || tag.starts_with(['.', '-']) {
        tag.insert(0, '_');
        tag.truncate(TAG_LENGTH);
    }
    tag
}

#[cfg(test)]
mod tests {
    use super::*;

    fn naming(target: &str, namespace_override: Option<&str>) -> Naming {
        Naming { target: target.parse().unwrap(), namespace_override: namespace_override.map(str::to_owned) }
    }

    fn image(naming: &Naming, name: &str) -> String {
        naming.image(&Reference::read(name).unwrap()).unwrap()
    }

    #[test]
    fn two_upstreams_with_one_path_have_two_names_unless_they_are_overridden() {
        let plain = naming("r.test:8443/mirror", None);
        assert_eq!(image(&plain, "quay.io/x/y:1"), "mirror/quay.io/x/y");
        assert_eq!(image(&plain, "busybox:1"), "mirror/docker.io/library/busybox");
        assert_eq!(image(&plain, "10.0.0.1:5000/x/y:1"), "mirror/10.0.0.1-5000/x/y");
        assert_eq!(image(&naming("r.test", None), "registry.k8s.io/pause:3.10"), "registry.k8s.io/pause");
        let one = naming("r.test", Some("k8s"));
        assert_eq!(image(&one, "quay.io/x/y:1"), image(&one, "docker.io/x/y:1"));
    }

    #[test]
    fn what_no_registry_takes_for_a_name_is_refused_with_it() {
        let long = naming(&format!("r.test/{}", vec!["a"; 120].join("/")), None);
        let error = long.image(&Reference::read("quay.io/some/image:1").unwrap()).unwrap_err();
        assert!(error.to_string().contains("quay.io/some/image"), "{error}");
        assert!(naming("r.test", None).chart("Upper").is_err());
    }

    #[test]
    fn tags_hold_only_what_tags_may_hold() {
        assert_eq!(tag_of("1.2.3+build.5"), "1.2.3_build.5");
        assert_eq!(tag_of("-x ä.txt"), "_-x__.txt");
        assert_eq!(tag_of(""), "_");
        assert_eq!(tag_of(&"9".repeat(300)).len(), 128);
        assert_eq!(tag_of(&format!(".{}", "9".repeat(300))).len(), 128);
    }
}
