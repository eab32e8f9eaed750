//! What an item of the command line means: an artifact key, an image's reference, a digest, or a member's name.

use kubexm_archive::members;
use kubexm_spec::manifest::Artifact;
use kubexm_spec::yaml::nearest;
use kubexm_spec::{ArtifactKey, Digest, Kind, Manifest, Platform};

use super::ExtractError;

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// A file, under upstream's name.
    File(&'a Artifact),
    /// An image.
    Image {
        /// One entry for each platform that is taken; at least one.
        artifacts: Vec<&'a Artifact>,
        /// One platform was asked for: its manifest stands for the image, not the index of all.
        single: bool,
    },
    /// A member, unchanged.
    Member(String),
}

/// Finds an item in a manifest. Keys come first, then references, digests of artifacts, members, digests of any blob.
pub fn find<'a>(manifest: &'a Manifest, item: &str, platform: Option<Platform>) -> Result<Item<'a>, ExtractError> {
    let digest: Option<Digest> = item.parse().ok();
    let named: [&dyn Fn(&Artifact) -> bool; 3] = [
        &|artifact| artifact.key.to_string() == item,
        &|artifact| artifact.key.kind() == Kind::Image && artifact.name == item,
        &|artifact| digest.is_some_and(|digest| artifact.digest == digest || artifact.manifest == Some(digest)),
    ];
    for is_it in named {
        let found: Vec<&Artifact> = manifest.artifacts.iter().filter(|artifact| is_it(artifact)).collect();
        if !found.is_empty() {
            return choose(item, found, digest, platform);
        }
    }
    let name = digest.map_or_else(|| item.to_owned(), |digest| members::blob_name(&digest));
    let beside = [members::MANIFEST, members::SIGNATURE, members::LAYOUT, members::SOURCES];
    if beside.contains(&name.as_str()) || manifest.members.iter().any(|member| member.name == name) {
        return Ok(Item::Member(name));
    }
    Err(ExtractError::NoSuchItem { item: item.to_owned(), nearest: suggestions(manifest, item) })
}

/// The same for what stands for several: `package/debian-12`, all packages of that system.
pub fn find_all<'a>(
    manifest: &'a Manifest,
    item: &str,
    platform: Option<Platform>,
) -> Result<Vec<Item<'a>>, ExtractError> {
    let is_of = |artifact: &&Artifact| match &artifact.key {
        ArtifactKey::Package { os, .. } => item.strip_prefix("package/") == Some(os),
        _ => false,
    };
    let found: Vec<&Artifact> = manifest.artifacts.iter().filter(is_of).collect();
    if found.is_empty() {
        return Ok(vec![find(manifest, item, platform)?]);
    }
    let mut platforms: Vec<Platform> = found.iter().filter_map(|artifact| artifact.platform).collect();
    platforms.sort();
    platforms.dedup();
    let reported = || platforms.iter().map(ToString::to_string).collect();
    match (platform, platforms.as_slice()) {
        (None, [_, _, ..]) => Err(ExtractError::Ambiguous { item: item.to_owned(), platforms: reported() }),
        (Some(wanted), _) if !platforms.contains(&wanted) => {
            let wanted = wanted.to_string();
            Err(ExtractError::NotForPlatform { item: item.to_owned(), wanted, platforms: reported() })
        }
        _ => {
            let fits = |artifact: &&Artifact| platform.is_none_or(|wanted| artifact.platform == Some(wanted));
            Ok(found.into_iter().filter(fits).map(Item::File).collect())
        }
    }
}

/// Of the artifacts that an item names, those for the platform.
fn choose<'a>(
    item: &str,
    found: Vec<&'a Artifact>,
    digest: Option<Digest>,
    platform: Option<Platform>,
) -> Result<Item<'a>, ExtractError> {
    let mut platforms: Vec<String> = found.iter().filter_map(|a| a.platform).map(|p| p.to_string()).collect();
    platforms.dedup();
    let fits = |artifact: &&Artifact| platform.is_none_or(|wanted| artifact.platform.is_none_or(|is| is == wanted));
    let fitting: Vec<&Artifact> = found.into_iter().filter(fits).collect();
    let Some(first) = fitting.first().copied() else {
        let wanted = platform.map(|platform| platform.to_string()).unwrap_or_default();
        return Err(ExtractError::NotForPlatform { item: item.to_owned(), wanted, platforms });
    };
    if first.manifest.is_some() {
        // One image under two names (an extra that is in the cluster's line too) is one image.
        let artifacts: Vec<_> = fitting.into_iter().filter(|artifact| artifact.name == first.name).collect();
        // The digest of a platform's manifest names that platform.
        let single = platform.is_some() || digest.is_some_and(|digest| artifacts.iter().all(|a| a.digest != digest));
        return Ok(Item::Image { artifacts, single });
    }
    if fitting.iter().any(|artifact| artifact.digest != first.digest) {
        return Err(ExtractError::Ambiguous { item: item.to_owned(), platforms });
    }
    Ok(Item::File(first))
}

fn suggestions(manifest: &Manifest, item: &str) -> Vec<String> {
    let keys: Vec<String> = manifest.artifacts.iter().map(|artifact| artifact.key.to_string()).collect();
    let images = manifest.artifacts.iter().filter(|a| a.key.kind() == Kind::Image).map(|a| a.name.as_str());
    let texts = manifest.members.iter().map(|m| m.name.as_str()).filter(|name| !name.starts_with(members::BLOBS));
    let mut all: Vec<&str> = keys.iter().map(String::as_str).chain(images).chain(texts).collect();
    all.sort_unstable();
    all.dedup();
    nearest(item, all).into_iter().take(3).map(str::to_owned).collect()
}
