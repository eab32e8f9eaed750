//! The data files, compiled in.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;

use crate::catalogue::{Catalogue, SCHEMA};
use crate::component::Component;
use crate::error::CatalogueError;
use crate::feature::FeatureSet;
use crate::image::ImageRule;
use crate::os::OsProfile;
use crate::release::Release;

/// What build.rs has made of `data/`.
const DATA: &str = include_str!(concat!(env!("OUT_DIR"), "/catalogue.json"));

/// The built-in zones: path under `data/` and text.
pub(crate) const ZONES: [(&str, &str); 2] = [
    ("zones/cn.yaml", include_str!("../data/zones/cn.yaml")),
    ("zones/global.yaml", include_str!("../data/zones/global.yaml")),
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Data {
    defaults: Defaults,
    components: Vec<Component>,
    features: Vec<FeatureSet>,
    releases: Vec<Release>,
    images: Vec<ImageRule>,
    os: BTreeMap<String, OsProfile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Defaults {
    kubernetes: String,
}

impl Catalogue {
    /// The catalogue this program was built with.
    #[expect(
        clippy::expect_used,
        reason = "the data is compiled in, and a test reads it: no input of a run reaches this"
    )]
    pub fn embedded() -> Self {
        load().expect("the embedded catalogue is well-formed")
    }
}

/// Reads the data; a process does it once.
fn load() -> Result<Catalogue, CatalogueError> {
    static READ: OnceLock<Catalogue> = OnceLock::new();
    if let Some(catalogue) = READ.get() {
        return Ok(catalogue.clone());
    }
    let catalogue = read()?;
    Ok(READ.get_or_init(|| catalogue).clone())
}

fn read() -> Result<Catalogue, CatalogueError> {
    let data: Data = serde_json::from_str(DATA)
        .map_err(|error| CatalogueError::Embedded { file: "catalogue.json".to_owned(), text: error.to_string() })?;
    Ok(Catalogue {
        schema: SCHEMA.to_owned(),
        overlays: Vec::new(),
        kubernetes: data.defaults.kubernetes,
        components: data.components.into_iter().map(|c| (c.name.clone(), c)).collect(),
        releases: data.releases.into_iter().map(|release| (release.minor.clone(), release)).collect(),
        images: data.images,
        features: data.features.into_iter().map(|feature| (feature.name.clone(), feature)).collect(),
        pins: BTreeMap::new(),
        os: data.os,
    })
}
