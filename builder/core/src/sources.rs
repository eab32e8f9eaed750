//! Sources of a bundle's artifacts: the address upstream, the candidates of this zone, and those that answered.
//!
//! The member is the last of a bundle, and its size is before the first blob: it is computed for every address that may answer,
//! and what is not needed of it is spaces.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;

use kubexm_archive::{ArchiveError, Documents, Encoding, Input, members};
use kubexm_manifests::requirements::{ChartSource, Source};
use kubexm_spec::sources::{ArtifactSources, SCHEMA};
use kubexm_spec::{Digest, Lock, Manifest, Sources};
use kubexm_transport::Store;

use crate::places::shown;
use crate::resolve::{Resolution, Resolved};

/// Space reserved for sources that are not known before the fetch (mirrors of registries.conf), in bytes per artifact.
const UNFORESEEN: usize = 64;

/// The sources of a bundle that is about to be packed.
pub struct Planned {
    /// Who answers is not known yet.
    sources: Sources,
    /// Of each artifact: its blobs, and the places that may answer for them.
    blobs: Vec<(Vec<Digest>, BTreeSet<String>)>,
    size: usize,
}

/// Plans the member. `resolution` has the places of the lock's items, in its order.
pub fn plan(lock: &Lock, resolution: &Resolution, store: &Store) -> Planned {
    let candidates: Vec<Vec<String>> = resolution.items.iter().map(addresses).collect();
    // A blob that several artifacts share may come from the places of any of them.
    let mut places: BTreeMap<Digest, BTreeSet<String>> = BTreeMap::new();
    for (item, candidates) in lock.items.iter().zip(&candidates) {
        for (digest, _) in item.blobs() {
            places.entry(digest).or_default().extend(candidates.iter().cloned().chain(store.came_from(&digest)));
        }
    }
    let at_own = |place: &String, own: &[String]| own_place(place, own).to_owned();
    let (mut artifacts, mut blobs) = (Vec::new(), Vec::new());
    for ((item, resolved), candidates) in lock.items.iter().zip(&resolution.items).zip(candidates) {
        let digests: Vec<Digest> = item.blobs().into_iter().map(|(digest, _)| digest).collect();
        let foreseen = digests.iter().filter_map(|digest| places.get(digest)).flatten();
        let foreseen = foreseen.map(|place| at_own(place, &candidates)).collect();
        blobs.push((digests, foreseen));
        let (key, platform, from) = (item.key.clone(), item.platform, Vec::new());
        artifacts.push(ArtifactSources { key, platform, asked: asked(resolved), candidates, from });
    }
    let sources = Sources { schema: SCHEMA.to_owned(), zone: resolution.zone.clone(), artifacts };
    let mut planned = Planned { sources, blobs, size: 0 };
    let most = planned.answered(|(_, foreseen), _| foreseen.clone());
    planned.size = most.canonical().len() + UNFORESEEN * planned.blobs.len();
    planned
}

impl Planned {
    /// The member, which is made when all blobs have come.
    pub fn input(self, store: &Store) -> Input<'static> {
        let (size, store) = (self.size as u64, store.clone());
        let open: kubexm_archive::Open<'static> = Box::new(move || Ok(Box::new(Cursor::new(self.content(&store)))));
        let (name, sha256) = (members::SOURCES.to_owned(), Digest::of(b""));
        Input { name, size, sha256, encoding: Encoding::Raw, open }
    }

    fn content(&self, store: &Store) -> Vec<u8> {
        let came = |digests: &[Digest], own: &[String]| -> BTreeSet<String> {
            let places = digests.iter().filter_map(|digest| store.came_from(digest));
            places.map(|place| own_place(&place, own).to_owned()).collect()
        };
        let all = self.answered(|(digests, _), own| came(digests, own));
        all.to_padded(self.size).unwrap_or_else(|_| {
            // There is room for all that was foreseen.
            let known = self.answered(|(digests, foreseen), own| &came(digests, own) & foreseen);
            known.to_padded(self.size).unwrap_or_default()
        })
    }

    fn answered(&self, from: impl Fn(&(Vec<Digest>, BTreeSet<String>), &[String]) -> BTreeSet<String>) -> Sources {
        let mut sources = self.sources.clone();
        for (artifact, blobs) in sources.artifacts.iter_mut().zip(&self.blobs) {
            artifact.from = from(blobs, &artifact.candidates).into_iter().collect();
        }
        sources
    }
}

/// Where an artifact itself is at the host that answered: a blob that several artifacts share was asked for by whichever came
/// first, which is another one in every build.
fn own_place<'a>(place: &'a str, own: &'a [String]) -> &'a str {
    let host = |place: &'a str| place.split_once("://").map_or(place, |(_, rest)| rest).split('/').next();
    if own.iter().any(|one| one == place) {
        return place;
    }
    own.iter().find(|one| host(one) == host(place)).map_or(place, String::as_str)
}

/// What was asked for, before any zone rewrites it.
fn asked(resolved: &Resolved) -> Option<String> {
    let source = &resolved.requirement.source;
    match source {
        Source::File { url, .. } => Some(shown(url)),
        Source::Image { reference, .. } => Some(reference.clone()),
        Source::Chart { chart: ChartSource::Repository { url, .. } } => Some(shown(url)),
        Source::Chart { chart: ChartSource::Oci { reference, .. } } => Some(reference.clone()),
        Source::Chart { chart: ChartSource::Path { .. } }
        | Source::LocalFile { .. }
        | Source::LocalImage { .. }
        | Source::LocalYaml { .. }
        | Source::Installer => None,
    }
}

fn addresses(resolved: &Resolved) -> Vec<String> {
    resolved.addresses().iter().map(|address| shown(address)).collect()
}

/// Where the artifacts of a bundle are from, by its sources.json or, in format 1, by its manifest; none where that was left out.
pub fn of(bundle: &dyn Documents) -> Result<Option<Sources>, ArchiveError> {
    match of_format_1(bundle.manifest()) {
        Some(sources) => Ok(Some(sources)),
        None => bundle.sources(),
    }
}

/// Candidates end with the origin there, and who has answered was not written down.
fn of_format_1(manifest: &Manifest) -> Option<Sources> {
    let zone = manifest.zone.clone()?;
    let artifacts = manifest.artifacts.iter().map(|artifact| {
        let candidates: Vec<String> = artifact.sources.iter().flatten().map(|address| shown(address)).collect();
        let (key, platform, asked) = (artifact.key.clone(), artifact.platform, candidates.last().cloned());
        ArtifactSources { key, platform, asked, candidates, from: Vec::new() }
    });
    Some(Sources { schema: SCHEMA.to_owned(), zone, artifacts: artifacts.collect() })
}
