//! The data files, compiled in.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::catalogue::{Catalogue, SCHEMA};
use crate::component::Component;
use crate::error::CatalogueError;
use crate::image::ImageRule;
use crate::os::OsProfile;
use crate::release::Release;

/// A file of `data/`: its path, for errors, and its text.
type File = (&'static str, &'static str);

macro_rules! files {
    ($($path:literal),+ $(,)?) => { [$(($path, include_str!(concat!("../data/", $path)))),+] };
}

const DEFAULTS: [File; 1] = files!["defaults.yaml"];
const IMAGES: [File; 1] = files!["images.yaml"];
const OS: [File; 1] = files!["os.yaml"];

const COMPONENTS: [File; 10] = files![
    "components/cni-plugins.yaml",
    "components/containerd.yaml",
    "components/crictl.yaml",
    "components/etcd.yaml",
    "components/helm.yaml",
    "components/kubeadm.yaml",
    "components/kubectl.yaml",
    "components/kubelet.yaml",
    "components/registry.yaml",
    "components/runc.yaml",
];

const RELEASES: [File; 4] =
    files!["releases/v1.33.yaml", "releases/v1.34.yaml", "releases/v1.35.yaml", "releases/v1.36.yaml"];

/// The built-in zones.
pub(crate) const ZONES: [File; 2] = files!["zones/cn.yaml", "zones/global.yaml"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Defaults {
    kubernetes: String,
}

/// Reads the data files.
pub(crate) fn load() -> Result<Catalogue, CatalogueError> {
    let mut components = BTreeMap::new();
    for file in COMPONENTS {
        let component: Component = read(file)?;
        components.insert(component.name.clone(), component);
    }
    let mut releases = BTreeMap::new();
    for file in RELEASES {
        let release: Release = read(file)?;
        releases.insert(release.minor.clone(), release);
    }
    let defaults: Defaults = read(DEFAULTS[0])?;
    let images: Vec<ImageRule> = read(IMAGES[0])?;
    let os: BTreeMap<String, OsProfile> = read(OS[0])?;
    Ok(Catalogue {
        schema: SCHEMA.to_owned(),
        overlays: Vec::new(),
        kubernetes: defaults.kubernetes,
        components,
        releases,
        images,
        pins: BTreeMap::new(),
        os,
    })
}

fn read<T: DeserializeOwned>((path, text): File) -> Result<T, CatalogueError> {
    serde_saphyr::from_str(text)
        .map_err(|error| CatalogueError::Embedded { file: path.to_owned(), text: error.to_string() })
}
