//! The artifacts of a bundle by kind, size, trust, source and licence. Pure.

use std::collections::BTreeMap;

use kubexm_spec::{Digest, Platform};
use serde::Serialize;

use super::figures::bytes;
use super::treemap::{Rect, squarify};
use crate::sbom::Component;
use crate::shares::shares;

/// Height of the treemap in CSS pixels. Its width is 100 %, and the layout is for a page of this width.
const HEIGHT: f64 = 480.0;
const WIDTH: f64 = 1100.0;

/// Height of a kind's name above its artifacts, in pixels.
const TITLE: f64 = 22.0;

/// Tiles of a smaller area, in square pixels, are one tile together.
const SMALLEST: f64 = 150.0;

/// The artifacts.
#[derive(Serialize)]
pub(crate) struct Contents<'a> {
    pub rows: Vec<Row<'a>>,
    pub kinds: Vec<Sum>,
    pub trust: Vec<Sum>,
    pub sources: Vec<Sum>,
    pub licences: Vec<Sum>,
    pub map: Vec<Group>,
    /// Of all of them.
    pub bytes: u64,
}

/// One artifact.
#[derive(Serialize)]
pub(crate) struct Row<'a> {
    pub key: String,
    pub kind: &'static str,
    pub version: &'a str,
    pub platform: Option<Platform>,
    /// What it adds to the bundle.
    pub bytes: u64,
    pub licence: Option<&'a str>,
    pub trust: String,
    /// Who answered; of what nobody wrote down, upstream's address.
    pub places: Vec<&'a str>,
    pub digest: Digest,
}

/// Artifacts that have something in common.
#[derive(Serialize)]
pub(crate) struct Sum {
    /// Of kinds, their names; otherwise as it is shown.
    pub name: String,
    pub artifacts: usize,
    pub bytes: u64,
    /// Of the whole, in percent.
    pub share: f64,
}

/// A kind in the treemap.
#[derive(Serialize)]
pub(crate) struct Group {
    pub kind: &'static str,
    /// Whether there is room for its name.
    pub titled: bool,
    pub bytes: u64,
    #[serde(flatten)]
    pub place: Place,
    pub tiles: Vec<Tile>,
}

/// An artifact in the treemap, or all those that are too small for a tile of their own.
#[derive(Serialize)]
pub(crate) struct Tile {
    /// Its row, from 1 on; none of several.
    pub row: Option<usize>,
    pub label: String,
    pub title: String,
    pub size: String,
    #[serde(flatten)]
    pub place: Place,
    /// Whether there is room for the label, and for the size below it.
    pub labelled: bool,
    pub sized: bool,
}

/// Across in percent of the width, down in pixels.
#[derive(Serialize)]
pub(crate) struct Place {
    pub x: String,
    pub y: String,
    pub width: String,
    pub height: String,
}

/// What the bundle states about sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stated {
    Sources,
    /// It was built with `--no-sources`.
    Nothing,
}

impl<'a> Contents<'a> {
    /// Of the artifacts of a bundle; `left_out` are blobs that a delta does not carry.
    pub fn of(components: &'a [Component<'a>], stated: Stated, left_out: &dyn Fn(&Digest) -> bool) -> Self {
        let blobs = |component: &Component<'_>| -> Vec<(Digest, u64)> {
            component.artifact.blobs.iter().map(|blob| (blob.digest, blob.size)).collect()
        };
        let sizes = shares(components.iter().map(blobs), left_out);
        let rows: Vec<Row<'a>> = components.iter().zip(&sizes).map(|(component, size)| row(component, *size)).collect();
        let total = rows.iter().fold(0, |sum: u64, row| sum.saturating_add(row.bytes));
        let sums = |name: &dyn Fn(&Row<'_>) -> Vec<String>| sums(&rows, total, name);
        Self {
            kinds: sums(&|row| vec![row.kind.to_owned()]),
            trust: sums(&|row| vec![row.trust.clone()]),
            sources: sums(&|row| match (row.places.is_empty(), stated) {
                (true, Stated::Sources) => vec!["the builder's machine".to_owned()],
                (true, Stated::Nothing) => vec!["not stated in the bundle".to_owned()],
                _ => hosts(&row.places),
            }),
            licences: sums(&|row| vec![row.licence.unwrap_or("not known").to_owned()]),
            map: map(&rows, components),
            bytes: total,
            rows,
        }
    }
}

fn row<'a>(component: &'a Component<'a>, bytes: u64) -> Row<'a> {
    let artifact = component.artifact;
    let places = match component.from {
        [] => component.origin.as_deref().into_iter().collect(),
        from => from.iter().map(String::as_str).collect(),
    };
    Row {
        key: artifact.key.to_string(),
        kind: artifact.key.kind().as_str(),
        version: component.version,
        platform: artifact.platform,
        bytes,
        licence: component.licence,
        trust: artifact.trust.to_string(),
        places,
        digest: artifact.digest,
    }
}

/// Largest first.
fn sums(rows: &[Row<'_>], total: u64, names: &dyn Fn(&Row<'_>) -> Vec<String>) -> Vec<Sum> {
    let mut sums: BTreeMap<String, (usize, u64)> = BTreeMap::new();
    for row in rows {
        for name in names(row) {
            let (artifacts, bytes) = sums.entry(name).or_default();
            *artifacts += 1;
            *bytes = bytes.saturating_add(row.bytes);
        }
    }
    let share = |bytes: u64| if total == 0 { 0.0 } else { bytes as f64 / total as f64 * 100.0 };
    let sum = |(name, (artifacts, bytes))| Sum { name, artifacts, bytes, share: share(bytes) };
    let mut sums: Vec<Sum> = sums.into_iter().map(sum).collect();
    sums.sort_by_key(|sum| std::cmp::Reverse(sum.bytes));
    sums
}

/// Names of hosts in addresses, without repetition.
fn hosts(places: &[&str]) -> Vec<String> {
    let host = |place: &&str| {
        let rest = place.split_once("://").map_or(*place, |(_, rest)| rest);
        rest.split('/').next().unwrap_or(rest).to_owned()
    };
    let mut hosts: Vec<String> = places.iter().map(host).collect();
    hosts.sort();
    hosts.dedup();
    hosts
}

fn map(rows: &[Row<'_>], components: &[Component<'_>]) -> Vec<Group> {
    let mut kinds: BTreeMap<&'static str, Vec<usize>> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate().filter(|(_, row)| row.bytes > 0) {
        kinds.entry(row.kind).or_default().push(at);
    }
    let size = |at: &usize| rows.get(*at).map_or(0, |row| row.bytes);
    let sum = |all: &[usize]| all.iter().map(size).fold(0, u64::saturating_add);
    let mut kinds: Vec<(&'static str, Vec<usize>, u64)> =
        kinds.into_iter().map(|(kind, all)| (kind, sum(&all), all)).map(|(kind, sum, all)| (kind, all, sum)).collect();
    kinds.sort_by_key(|(_, _, sum)| std::cmp::Reverse(*sum));
    let room = Rect { x: 0.0, y: 0.0, width: WIDTH, height: HEIGHT };
    let sizes: Vec<u64> = kinds.iter().map(|(_, _, sum)| *sum).collect();
    let group = |((kind, mut all, bytes), rect): ((&'static str, Vec<usize>, u64), Rect)| {
        all.sort_by_key(|at| std::cmp::Reverse(size(at)));
        let titled = rect.height > 3.0 * TITLE && rect.width > 90.0;
        let inner = match titled {
            true => Rect { y: rect.y + TITLE, height: rect.height - TITLE, ..rect },
            false => rect,
        };
        Group { kind, titled, bytes, place: Place::of(rect), tiles: tiles(&all, bytes, inner, rows, components) }
    };
    kinds.into_iter().zip(squarify(&sizes, room)).map(group).collect()
}

fn tiles(all: &[usize], total: u64, room: Rect, rows: &[Row<'_>], components: &[Component<'_>]) -> Vec<Tile> {
    let area = room.width * room.height;
    let size = |at: &usize| rows.get(*at).map_or(0, |row| row.bytes);
    let is_large = |at: &&usize| size(at) as f64 / total as f64 * area >= SMALLEST;
    let large: Vec<usize> = all.iter().take_while(is_large).copied().collect();
    let small = all.get(large.len()..).unwrap_or_default();
    let rest = small.iter().map(size).fold(0, u64::saturating_add);
    let mut values: Vec<u64> = large.iter().map(size).collect();
    // The rest may be larger than the last of the others, which the layout takes as it is.
    values.extend((!small.is_empty()).then_some(rest));
    let mut tiles = Vec::new();
    for (number, rect) in squarify(&values, room).into_iter().enumerate() {
        let (row, label, title, size) = match large.get(number).and_then(|at| Some((*at, rows.get(*at)?))) {
            Some((at, row)) => {
                let name = components.get(at).map_or_else(String::new, |component| component.name.to_string());
                let platform = row.platform.map(|platform| format!(" ({platform})")).unwrap_or_default();
                let arch = row.platform.map(|platform| format!(" {}", platform.arch.as_str())).unwrap_or_default();
                let size = format!("{}{arch}", bytes(row.bytes));
                (Some(at + 1), name, format!("{} {}{platform}", row.key, row.version), size)
            }
            None => {
                let text = format!("{} smaller", small.len());
                (None, text.clone(), text, bytes(rest))
            }
        };
        tiles.push(Tile {
            row,
            label,
            title,
            size,
            labelled: rect.width > 34.0 && rect.height > 18.0,
            sized: rect.width > 58.0 && rect.height > 38.0,
            place: Place::of(rect),
        });
    }
    tiles
}

impl Place {
    fn of(rect: Rect) -> Self {
        let percent = |pixels: f64| format!("{:.3}%", pixels / WIDTH * 100.0);
        let pixels = |pixels: f64| format!("{pixels:.1}");
        Self { x: percent(rect.x), y: pixels(rect.y), width: percent(rect.width), height: pixels(rect.height) }
    }
}

#[cfg(test)]
mod tests {
    use super::hosts;

    #[test]
    fn an_address_is_counted_for_its_host() {
        let places = ["https://dl.k8s.io/release/a", "registry.k8s.io/pause", "oci://registry.k8s.io/etcd"];
        assert_eq!(hosts(&places), ["dl.k8s.io", "registry.k8s.io"]);
    }
}
