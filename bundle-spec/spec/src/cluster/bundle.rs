//! `spec.bundle`: what goes into the bundle beyond what the cluster needs.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Value, json};

use super::Addon;
use super::addon::{Chart, NamedOnce};
use super::field::{FieldType, HttpUrl, Image, OperatingSystem, Sha256, required, section};
use super::image_signatures::{ImageSignatureRule, Rules};
use crate::yaml::{At, Field, Object, ProblemKind, Shape};
use crate::{Digest, Platform};

section! {
    /// What goes into the bundle beyond what the cluster needs
    ///
    /// `spec.bundle`.
    pub struct Bundle {
        /// linux/amd64, linux/arm64
        #[yaml("platforms" as Platforms, default = vec![Platform::LINUX_AMD64])]
        pub platforms: Vec<Platform>,
        /// Operating systems that packages are carried for, like debian-12
        ///
        /// As the catalogue calls them.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        #[yaml("os" as Once<OperatingSystem>)]
        pub os: Vec<String>,
        /// global, cn, or a zone file relative to this file; KMZONE and --zone come first
        #[yaml("zone")]
        pub zone: Option<String>,
        /// Further images
        #[yaml("extraImages")]
        pub extra_images: Vec<ExtraImage>,
        /// Further files
        #[yaml("extraFiles")]
        pub extra_files: Vec<ExtraFile>,
        /// Further charts, with their images
        ///
        /// The user installs them.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        #[yaml("extraCharts" as NamedOnce<Chart>)]
        pub extra_charts: Vec<Addon>,
        /// What looks like an image in a chart's rendering and is none, or is never pulled
        ///
        /// As the error of a build names it.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        #[yaml("ignoreImages")]
        pub ignore_images: Vec<String>,
        /// Who must have signed which images; without it, signatures are carried and not checked
        ///
        /// An image that no rule names is refused.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        #[yaml("imageSignatures" as Rules)]
        pub image_signatures: Vec<ImageSignatureRule>,
        /// Optional tools that are left out: crictl, helm, nerdctl
        #[yaml("exclude")]
        pub exclude: Vec<String>,
    }
}

/// Items of a list that may not be there twice: who names a thing twice meant another one the second time.
struct Once<T>(PhantomData<T>);

impl<T: FieldType> FieldType for Once<T> {
    type Value = Vec<T::Value>;

    const SHAPE: Shape = Vec::<T>::SHAPE;

    fn read(at: &At<'_>) -> Option<Self::Value> {
        let mut seen = BTreeMap::new();
        for item in at.list() {
            let Some(text) = item.text_quiet() else { continue };
            if let Some(line) = seen.insert(text, item.line()) {
                item.bad(format!("{text:?} is named twice, first in line {line}"), "once is enough");
            }
        }
        Vec::<T>::read(at)
    }

    fn show(value: &Self::Value) -> Option<Value> {
        Vec::<T>::show(value)
    }
}

/// At least one, in their own order.
struct Platforms;

impl FieldType for Platforms {
    type Value = Vec<Platform>;

    const SHAPE: Shape = Shape::Some(&Platform::SHAPE);

    fn read(at: &At<'_>) -> Option<Vec<Platform>> {
        let mut all = Once::<Platform>::read(at)?;
        if all.is_empty() {
            at.bad("expected at least one", "a bundle is for at least one platform: linux/amd64 or linux/arm64");
            return None;
        }
        all.sort();
        Some(all)
    }

    fn show(value: &Vec<Platform>) -> Option<Value> {
        Vec::<Platform>::show(value)
    }
}

impl FieldType for Platform {
    type Value = Self;

    const SHAPE: Shape = Shape::Form("^linux/(amd64|arm64)$");

    fn read(at: &At<'_>) -> Option<Self> {
        at.parsed(|text| text.parse::<Self>().map_err(|error| error.to_string()))
    }

    fn show(value: &Self) -> Option<Value> {
        Some(value.to_string().into())
    }
}

section! {
    /// An image
    ///
    /// `{name}` or `{name, from: oci:DIR}`.
    pub struct ExtraImage {
        /// Reference with tag or digest, like docker.io/library/busybox:1
        #[yaml("name" as Image, required)]
        pub name: String,
        /// oci:FOLDER, an OCI layout relative to this file; its registry when left out
        #[yaml("from" as Option<OciLayout>)]
        pub from: Option<PathBuf>,
    }
}

/// `oci:FOLDER`.
struct OciLayout;

impl FieldType for OciLayout {
    type Value = PathBuf;

    const SHAPE: Shape = Shape::Form("^oci:.");

    fn read(at: &At<'_>) -> Option<PathBuf> {
        at.parsed(|text| match text.strip_prefix("oci:") {
            Some(folder) if !folder.is_empty() => Ok(PathBuf::from(folder)),
            _ => Err(format!("{text:?} is not oci:FOLDER, an OCI layout on this machine")),
        })
    }

    fn show(value: &PathBuf) -> Option<Value> {
        Some(format!("oci:{}", value.display()).into())
    }
}

/// `{url, sha256}` or `{path}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "type", rename_all_fields = "camelCase")]
pub enum ExtraFile {
    /// Fetched, and trusted by its digest.
    Url {
        /// http or https.
        url: String,
        /// Digest of the content.
        sha256: Digest,
    },
    /// On the builder's disk.
    Path {
        /// As written, relative to cluster.yaml; the builder makes it ready to be opened.
        path: PathBuf,
    },
}

impl ExtraFile {
    const OBJECT: Object = Object::new(
        "A file: {url, sha256} or {path}",
        &[
            Field::new("url", HttpUrl::SHAPE, "Where it is fetched from"),
            Field::new("sha256", Sha256::SHAPE, "Digest of its content"),
            Field::new("path", Shape::Text, "On this machine, relative to this file"),
        ],
    )
    .one_of(&["url", "path"]);
}

impl FieldType for ExtraFile {
    type Value = Self;

    const SHAPE: Shape = Shape::Mapping(&Self::OBJECT);

    fn read(at: &At<'_>) -> Option<Self> {
        let map = at.mapping(&Self::OBJECT)?;
        if let Some(path) = map.get("path") {
            for other in ["url", "sha256"].into_iter().filter_map(|key| map.get(key)) {
                other.bad("a file is given by url and sha256, or by path", "");
            }
            return PathBuf::read(&path).map(|path| Self::Path { path });
        }
        if !map.has("url") && !map.has("sha256") {
            at.fail(ProblemKind::Missing, "expected a file: {url, sha256}, or {path}", "");
            return None;
        }
        let url = required::<HttpUrl>(&map, &Self::OBJECT, "url");
        let sha256 = required::<Sha256>(&map, &Self::OBJECT, "sha256");
        Some(Self::Url { url: url?, sha256: sha256? })
    }

    fn show(value: &Self) -> Option<Value> {
        Some(match value {
            Self::Url { url, sha256 } => json!({"url": url, "sha256": sha256.hex()}),
            Self::Path { path } => json!({"path": PathBuf::show(path)}),
        })
    }
}
