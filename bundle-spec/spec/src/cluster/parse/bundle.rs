//! `spec.bundle`: what goes into the bundle beyond what the cluster needs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::take::{each, maybe, or, some};
use super::{addons, addresses, values};
use crate::Platform;
use crate::cluster::{Bundle, ExtraFile, ExtraImage};
use crate::yaml::{At, Field, Object, ProblemKind, Shape};

/// `spec.bundle`.
pub(super) const BUNDLE: Object = Object::new(
    "What goes into the bundle beyond what the cluster needs",
    &[
        Field::new("platforms", Shape::Some(&Shape::Form("^linux/(amd64|arm64)$")), "linux/amd64, linux/arm64"),
        Field::new("os", Shape::List(&Shape::Text), "Operating systems that packages are carried for, like debian-12"),
        Field::new(
            "zone",
            Shape::Text,
            "global, cn, or a zone file relative to this file; KMZONE and --zone come first",
        ),
        Field::new("extraImages", Shape::List(&Shape::Mapping(&IMAGE)), "Further images"),
        Field::new("extraFiles", Shape::List(&Shape::Mapping(&FILE)), "Further files"),
        Field::new("extraCharts", Shape::List(&Shape::Mapping(&addons::CHART)), "Further charts, with their images"),
        Field::new(
            "ignoreImages",
            Shape::List(&Shape::Text),
            "What looks like an image in a chart's rendering and is none, or is never pulled",
        ),
        Field::new("exclude", Shape::List(&Shape::Text), "Optional tools that are left out: crictl, helm, nerdctl"),
    ],
);

/// One of `spec.bundle.extraImages`.
pub(super) const IMAGE: Object = Object::new(
    "An image",
    &[
        Field::needed("name", Shape::Text, "Reference with tag or digest, like docker.io/library/busybox:1"),
        Field::new(
            "from",
            Shape::Form("^oci:."),
            "oci:FOLDER, an OCI layout relative to this file; its registry when left out",
        ),
    ],
);

/// One of `spec.bundle.extraFiles`.
pub(super) const FILE: Object = Object::new(
    "A file: {url, sha256} or {path}",
    &[
        Field::new("url", Shape::Form("^https?://[^@]+$"), "Where it is fetched from"),
        Field::new("sha256", Shape::Form("^(sha256:)?[0-9a-f]{64}$"), "Digest of its content"),
        Field::new("path", Shape::Text, "On this machine, relative to this file"),
    ],
)
.one_of(&["url", "path"]);

pub(super) fn bundle(at: &At<'_>) -> Option<Bundle> {
    let map = at.mapping(&BUNDLE)?;
    let default = Bundle::default();
    let platforms = or(map.get("platforms"), default.platforms, platforms);
    let os = or(map.get("os"), Vec::new(), |at| {
        once(at);
        each(at, |item| item.parsed(values::os))
    });
    let zone = maybe(map.get("zone"), |at| at.text().map(str::to_owned));
    let extra_images = or(map.get("extraImages"), Vec::new(), |at| each(at, image));
    let extra_files = or(map.get("extraFiles"), Vec::new(), |at| each(at, file));
    let extra_charts = or(map.get("extraCharts"), Vec::new(), addons::charts);
    let ignore_images = or(map.get("ignoreImages"), Vec::new(), |at| each(at, |item| item.text().map(str::to_owned)));
    let exclude = or(map.get("exclude"), Vec::new(), |at| each(at, |item| item.text().map(str::to_owned)));
    Some(Bundle {
        platforms: platforms?,
        os: os?,
        zone: zone?,
        extra_images: extra_images?,
        extra_files: extra_files?,
        extra_charts: extra_charts?,
        ignore_images: ignore_images?,
        exclude: exclude?,
    })
}

fn platforms(at: &At<'_>) -> Option<Vec<Platform>> {
    let read = |item: &At<'_>| item.parsed(|text| text.parse::<Platform>().map_err(|error| error.to_string()));
    once(at);
    let mut all = some(at, "a bundle is for at least one platform: linux/amd64 or linux/arm64", read)?;
    all.sort();
    Some(all)
}

/// Whoever names a thing twice meant another one the second time.
fn once(at: &At<'_>) {
    let mut seen = BTreeMap::new();
    for item in at.list() {
        let Some(text) = item.text_quiet() else { continue };
        if let Some(line) = seen.insert(text, item.line()) {
            item.bad(format!("{text:?} is named twice, first in line {line}"), "once is enough");
        }
    }
}

fn image(at: &At<'_>) -> Option<ExtraImage> {
    let map = at.mapping(&IMAGE)?;
    let name = map.need("name").and_then(|at| at.parsed(values::image));
    let from = maybe(map.get("from"), |at| {
        at.parsed(|text| match text.strip_prefix("oci:") {
            Some(folder) if !folder.is_empty() => Ok(PathBuf::from(folder)),
            _ => Err(format!("{text:?} is not oci:FOLDER, an OCI layout on this machine")),
        })
    });
    Some(ExtraImage { name: name?, from: from? })
}

fn file(at: &At<'_>) -> Option<ExtraFile> {
    let map = at.mapping(&FILE)?;
    if let Some(path) = map.get("path") {
        for other in ["url", "sha256"].into_iter().filter_map(|key| map.get(key)) {
            other.bad("a file is given by url and sha256, or by path", "");
        }
        return path.parsed(values::path).map(|path| ExtraFile::Path { path });
    }
    if !map.has("url") && !map.has("sha256") {
        at.fail(ProblemKind::Missing, "a file is wanted: {url, sha256}, or {path}", "");
        return None;
    }
    let url = map.need("url").and_then(|at| if at.holds_login() { None } else { at.parsed(addresses::url) });
    let sha256 = map.need("sha256").and_then(|at| at.parsed(addons::digest));
    Some(ExtraFile::Url { url: url?, sha256: sha256? })
}
