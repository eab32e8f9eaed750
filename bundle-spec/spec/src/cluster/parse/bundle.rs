//! `spec.bundle`: what goes into the bundle beyond what the cluster needs.

use std::path::PathBuf;

use super::{each, maybe, or, values};
use crate::cluster::{Bundle, ExtraFile, ExtraImage};
use crate::yaml::{At, Keys, ProblemKind};
use crate::{Digest, Platform};

const BUNDLE: Keys =
    Keys { known: &["platforms", "zone", "extraImages", "extraFiles", "ignoreImages", "exclude"], later: &["os", "extraCharts"] };
const IMAGE: Keys = Keys::all(&["name", "from"]);
const FILE: Keys = Keys::all(&["url", "sha256", "path"]);

pub(super) fn bundle(at: &At<'_>) -> Option<Bundle> {
    let map = at.mapping(&BUNDLE)?;
    let default = Bundle::default();
    let platforms = or(map.get("platforms"), default.platforms, platforms);
    let zone = maybe(map.get("zone"), |at| at.text().map(str::to_owned));
    let extra_images = or(map.get("extraImages"), Vec::new(), |at| each(at, image));
    let extra_files = or(map.get("extraFiles"), Vec::new(), |at| each(at, file));
    let ignore_images = or(map.get("ignoreImages"), Vec::new(), |at| each(at, |item| item.text().map(str::to_owned)));
    let exclude = or(map.get("exclude"), Vec::new(), |at| each(at, |item| item.text().map(str::to_owned)));
    Some(Bundle {
        platforms: platforms?,
        zone: zone?,
        extra_images: extra_images?,
        extra_files: extra_files?,
        ignore_images: ignore_images?,
        exclude: exclude?,
        ..Bundle::default()
    })
}

fn platforms(at: &At<'_>) -> Option<Vec<Platform>> {
    let mut all = each(at, |item| item.parsed(|text| text.parse::<Platform>().map_err(|error| error.to_string())))?;
    if all.is_empty() {
        at.bad("a bundle is for at least one platform", "linux/amd64 or linux/arm64");
        return None;
    }
    all.sort();
    all.dedup();
    Some(all)
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
        return Some(ExtraFile::Path { path: PathBuf::from(path.text()?) });
    }
    if !map.has("url") && !map.has("sha256") {
        at.fail(ProblemKind::Missing, "a file is wanted: {url, sha256}, or {path}", "");
        return None;
    }
    let url = map.need("url").and_then(|at| {
        if at.holds_login() {
            return None;
        }
        at.parsed(|text| {
            let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
            rest.filter(|rest| !rest.is_empty() && !rest.contains(char::is_whitespace))
                .map(|_| text.to_owned())
                .ok_or_else(|| format!("{text:?} is no http or https address"))
        })
    });
    let sha256 = map.need("sha256").and_then(|at| {
        at.parsed(|text| {
            Digest::from_hex(text.strip_prefix("sha256:").unwrap_or(text)).map_err(|error| error.to_string())
        })
    });
    Some(ExtraFile::Url { url: url?, sha256: sha256? })
}
