//! What is printed, compared with the catalogue: whether a build would take it, and which images it would carry twice.

use std::collections::BTreeMap;

use kubexm_manifests::{Catalogue, own_images, require, version};
use kubexm_spec::{cluster, depot, error_chain};

use super::left::Left;
use super::yaml::{Map, Yaml};

/// Repositories of KubeKey's lists that hold upstream's images under their last name.
const MIRRORS: [&str; 4] = [
    "registry.cn-beijing.aliyuncs.com/kubesphereio/",
    "docker.io/kubesphere/",
    "registry.cn-hangzhou.aliyuncs.com/google_containers/",
    "registry.aliyuncs.com/google_containers/",
];

/// Why it cannot be built as it is.
pub fn problems(cluster_yaml: &str) -> Vec<String> {
    let Ok(cluster) = cluster::parse(cluster_yaml) else { return Vec::new() };
    match require(&cluster, &Catalogue::embedded()) {
        Ok(_) => Vec::new(),
        Err(error) => error_chain(&error).lines().map(str::to_owned).collect(),
    }
}

/// Takes images out of `spec.bundle.extraImages` that a mirror has under another name, and that the cluster brings by itself; what
/// was taken out.
pub fn without_duplicates(root: &mut Map, cluster_yaml: &str) -> Vec<Left> {
    let Ok(cluster) = cluster::parse(cluster_yaml) else { return Vec::new() };
    let own: BTreeMap<String, String> = own_images(&cluster, &Catalogue::embedded())
        .into_iter()
        .filter_map(|reference| Some((last_and_version(&reference)?, reference)))
        .collect();
    let mut left = Vec::new();
    let Some(Yaml::Map(spec)) = root.get_mut("spec") else { return left };
    let Some(Yaml::Map(bundle)) = spec.get_mut("bundle") else { return left };
    if let Some(Yaml::List(images)) = bundle.get_mut("extraImages") {
        images.retain(|image| {
            let Yaml::Map(image) = image else { return true };
            let Some(Yaml::Text(name)) = image.get("name") else { return true };
            let Some(upstream) = last_of_mirror(name).and_then(|last| own.get(&last)) else { return true };
            let (line, path) = image.origin.as_ref().map_or((0, String::new()), |at| (at.line, at.path.clone()));
            let reason = format!("it is {upstream} by the name of a mirror, which the cluster brings by itself");
            left.push(Left { line, path, reason });
            false
        });
        if images.is_empty() {
            bundle.fields.retain(|field| field.name != "extraImages");
        }
    }
    left
}

/// `kube-apiserver:1.34.4` of an image at a mirror that is named by its tag.
fn last_of_mirror(name: &str) -> Option<String> {
    let last = MIRRORS.iter().find_map(|mirror| name.strip_prefix(mirror))?;
    // What is pinned by digest may be another image.
    if last.contains('@') { None } else { last_and_version(last) }
}

/// The last name of a reference, and its tag without `v`: mirrors write one, or leave it out.
fn last_and_version(reference: &str) -> Option<String> {
    let (repository, tag) = depot::split_reference(reference);
    Some(format!("{}:{}", repository.rsplit('/').next()?, version::bare(tag?)))
}
