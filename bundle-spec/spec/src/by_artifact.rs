//! The entries of a document by artifact and platform, for whoever looks for many of them: going through all entries for each takes
//! hours where two documents have a hundred thousand.

use std::collections::HashMap;

use crate::lock::LockItem;
use crate::manifest::Artifact;
use crate::sources::ArtifactSources;
use crate::{ArtifactKey, Lock, Manifest, Platform, Sources};

/// Entries by artifact and platform; of two of one, the first.
#[derive(Debug)]
pub struct ByArtifact<'a, T>(HashMap<(&'a ArtifactKey, Option<Platform>), &'a T>);

impl<'a, T> ByArtifact<'a, T> {
    fn of(all: &'a [T], key: impl Fn(&'a T) -> (&'a ArtifactKey, Option<Platform>)) -> Self {
        // From the last one on, so that the first stays.
        Self(all.iter().rev().map(|one| (key(one), one)).collect())
    }

    /// The entry of a key for a platform; `None` for what is the same on every platform.
    pub fn find(&self, key: &ArtifactKey, platform: Option<Platform>) -> Option<&'a T> {
        self.0.get(&(key, platform)).copied()
    }
}

impl Manifest {
    /// Its artifacts.
    pub fn by_artifact(&self) -> ByArtifact<'_, Artifact> {
        ByArtifact::of(&self.artifacts, |one| (&one.key, one.platform))
    }
}

impl Lock {
    /// Its items.
    pub fn by_artifact(&self) -> ByArtifact<'_, LockItem> {
        ByArtifact::of(&self.items, |one| (&one.key, one.platform))
    }
}

impl Sources {
    /// The sources of each artifact.
    pub fn by_artifact(&self) -> ByArtifact<'_, ArtifactSources> {
        ByArtifact::of(&self.artifacts, |one| (&one.key, one.platform))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_found_by_key_and_platform_and_of_two_the_first() {
        let one = |name: &str, platform, asked: &str| ArtifactSources {
            key: ArtifactKey::ExtraFile(name.to_owned()),
            platform,
            asked: Some(asked.to_owned()),
            candidates: Vec::new(),
            from: Vec::new(),
        };
        let amd64 = Some(Platform::LINUX_AMD64);
        let artifacts = vec![one("a", None, "first"), one("a", amd64, "second"), one("a", None, "third")];
        let sources = Sources { schema: String::new(), zone: String::new(), artifacts };
        let index = sources.by_artifact();
        let asked = |name: &str, platform| {
            index.find(&ArtifactKey::ExtraFile(name.to_owned()), platform).and_then(|found| found.asked.as_deref())
        };
        assert_eq!([asked("a", None), asked("a", amd64), asked("b", None)], [Some("first"), Some("second"), None]);
    }
}
