//! The difference between two bundles, from their manifests alone. Pure.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_archive::members::BLOBS;
use kubexm_spec::manifest::{Artifact, Member};
use kubexm_spec::{ArtifactKey, Digest, Manifest, Platform};

/// The way from an old manifest to a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diff<'a> {
    /// Artifacts that differ, by key and platform.
    pub artifacts: Vec<Changed<'a, Artifact>>,
    /// Artifacts that are the same in both, by number.
    pub same: usize,
    /// Members before the blobs (`lock.yaml` …) that differ, in the order of their names.
    pub texts: Vec<(&'a str, Change)>,
    /// Blobs that only the new one has, in bytes.
    pub added_bytes: u64,
    /// Blobs that only the old one has, in bytes.
    pub removed_bytes: u64,
    /// Blobs that both have, in bytes.
    pub kept_bytes: u64,
    /// What a delta on the old bundle carries, in the new manifest's order: every blob that is missing in the old one,
    /// and the members before the blobs, which every bundle has itself.
    pub delta: Vec<&'a Member>,
}

/// What became of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// Only in the new one.
    Added,
    /// Only in the old one.
    Removed,
    /// In both, with another version or digest.
    Changed,
}

impl Change {
    /// `+`, `-` or `~`, the prefix of a line.
    pub const fn mark(self) -> char {
        match self {
            Self::Added => '+',
            Self::Removed => '-',
            Self::Changed => '~',
        }
    }
}

/// What differs between an old and a new list: artifacts of bundles, items of locks. One of the two is there at least.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed<'a, T> {
    /// As it was.
    pub old: Option<&'a T>,
    /// As it is.
    pub new: Option<&'a T>,
}

impl<T> Changed<'_, T> {
    /// What became of it.
    pub const fn change(&self) -> Change {
        match (self.old, self.new) {
            (None, _) => Change::Added,
            (_, None) => Change::Removed,
            _ => Change::Changed,
        }
    }
}

impl Diff<'_> {
    /// Whether nothing is different.
    pub fn is_empty(&self) -> bool {
        self.artifacts.is_empty() && self.texts.is_empty() && self.added_bytes == 0 && self.removed_bytes == 0
    }

    /// Content of a delta in bytes, before compression.
    pub fn delta_bytes(&self) -> u64 {
        summed(self.delta.iter().map(|member| member.size))
    }
}

/// Compares two manifests.
pub fn diff<'a>(old: &'a Manifest, new: &'a Manifest) -> Diff<'a> {
    let (before, after) = (by_key(old), by_key(new));
    let keys: BTreeSet<_> = before.keys().chain(after.keys()).copied().collect();
    let pairs = keys.iter().map(|key| Changed { old: before.get(key).copied(), new: after.get(key).copied() });
    let (artifacts, same): (Vec<_>, Vec<_>) = pairs.partition(differs);
    let (had, has) = (blobs(old), blobs(new));
    let bytes = |of: &BTreeMap<Digest, u64>, other: &BTreeMap<Digest, u64>, there: bool| -> u64 {
        summed(of.iter().filter(|(digest, _)| other.contains_key(digest) == there).map(|(_, size)| *size))
    };
    Diff {
        artifacts,
        same: same.len(),
        texts: texts(old, new),
        added_bytes: bytes(&has, &had, false),
        removed_bytes: bytes(&had, &has, false),
        kept_bytes: bytes(&has, &had, true),
        delta: new.members.iter().filter(|member| !is_blob(member) || !had.contains_key(&member.sha256)).collect(),
    }
}

/// Sizes in a bare manifest are untrusted.
fn summed(sizes: impl Iterator<Item = u64>) -> u64 {
    sizes.fold(0, u64::saturating_add)
}

fn by_key(manifest: &Manifest) -> BTreeMap<(&ArtifactKey, Option<Platform>), &Artifact> {
    manifest.artifacts.iter().map(|artifact| ((&artifact.key, artifact.platform), artifact)).collect()
}

/// Addresses and reasons to trust may differ where the bytes are the same.
fn differs(pair: &Changed<'_, Artifact>) -> bool {
    let content =
        |artifact: &Artifact| (artifact.version.clone(), artifact.name.clone(), artifact.digest, artifact.manifest);
    pair.old.map(content) != pair.new.map(content)
}

fn is_blob(member: &Member) -> bool {
    member.name.starts_with(BLOBS)
}

fn blobs(manifest: &Manifest) -> BTreeMap<Digest, u64> {
    manifest.members.iter().filter(|member| is_blob(member)).map(|member| (member.sha256, member.size)).collect()
}

fn texts<'a>(old: &'a Manifest, new: &'a Manifest) -> Vec<(&'a str, Change)> {
    let of = |manifest: &'a Manifest| -> BTreeMap<&'a str, Digest> {
        let texts = manifest.members.iter().filter(|member| !is_blob(member));
        texts.map(|member| (member.name.as_str(), member.sha256)).collect()
    };
    let (before, after) = (of(old), of(new));
    let names: BTreeSet<&str> = before.keys().chain(after.keys()).copied().collect();
    let change = |name: &'a str| match (before.get(name), after.get(name)) {
        (None, _) => Some((name, Change::Added)),
        (_, None) => Some((name, Change::Removed)),
        (old, new) => (old != new).then_some((name, Change::Changed)),
    };
    names.into_iter().filter_map(change).collect()
}

#[cfg(test)]
mod tests {
    use kubexm_spec::manifest::Blob;
    use kubexm_spec::{Program, Trust};

    use super::*;

    fn manifest(artifacts: &[(Program, &str, &[u8])]) -> Manifest {
        let member =
            |name: String, content: &[u8]| Member { name, size: content.len() as u64, sha256: Digest::of(content) };
        let lock: Vec<u8> = artifacts.iter().flat_map(|(_, version, _)| version.bytes()).collect();
        let mut members = vec![member("lock.yaml".into(), &lock)];
        members.extend(
            artifacts.iter().map(|(_, _, content)| member(format!("{BLOBS}{}", Digest::of(content).hex()), content)),
        );
        Manifest {
            format: 1,
            name: "x".into(),
            cluster: None,
            platforms: vec![Platform::LINUX_AMD64],
            zone: None,
            tool: "t".into(),
            lock: Digest::of(&lock),
            artifacts: artifacts
                .iter()
                .map(|(program, version, content)| Artifact {
                    key: ArtifactKey::Binary(*program),
                    version: (*version).to_owned(),
                    platform: Some(Platform::LINUX_AMD64),
                    name: program.name().to_owned(),
                    digest: Digest::of(content),
                    manifest: None,
                    blobs: vec![Blob { digest: Digest::of(content), size: content.len() as u64 }],
                    trust: Trust::Pinned,
                    sources: None,
                })
                .collect(),
            members,
        }
    }

    #[test]
    fn what_was_added_removed_changed_and_kept_is_reported_with_its_bytes() {
        let old =
            manifest(&[(Program::Kubeadm, "1", b"aa"), (Program::Runc, "1", b"bbb"), (Program::Helm, "1", b"cccc")]);
        let new =
            manifest(&[(Program::Kubeadm, "2", b"ddddd"), (Program::Runc, "1", b"bbb"), (Program::Crictl, "1", b"e")]);
        let diff = diff(&old, &new);
        let reported: Vec<_> = diff
            .artifacts
            .iter()
            .map(|c| (c.new.or(c.old).unwrap().key.name().into_owned(), c.change(), c.old.map(|a| a.version.as_str())))
            .collect();
        assert_eq!(
            reported,
            [
                ("kubeadm".to_owned(), Change::Changed, Some("1")),
                ("crictl".to_owned(), Change::Added, None),
                ("helm".to_owned(), Change::Removed, Some("1")),
            ]
        );
        assert_eq!((diff.same, diff.added_bytes, diff.removed_bytes, diff.kept_bytes), (1, 6, 6, 3));
        assert_eq!(diff.texts, [("lock.yaml", Change::Changed)]);
        assert_eq!(diff.delta.iter().map(|m| m.size).collect::<Vec<_>>(), [3, 5, 1], "lock.yaml and two new blobs");
        assert!(!diff.is_empty());
    }

    #[test]
    fn huge_sizes_do_not_overflow_the_comparison() {
        let (old, mut new) = (manifest(&[]), manifest(&[(Program::Kubeadm, "1", b"aa"), (Program::Runc, "1", b"b")]));
        new.members.iter_mut().for_each(|member| member.size = u64::MAX);
        let diff = diff(&old, &new);
        assert_eq!((diff.added_bytes, diff.delta_bytes()), (u64::MAX, u64::MAX));
    }

    #[test]
    fn a_manifest_does_not_differ_from_itself_and_a_delta_on_it_still_has_its_texts() {
        let one = manifest(&[(Program::Kubeadm, "1", b"aa")]);
        let diff = diff(&one, &one);
        assert!(diff.is_empty());
        assert_eq!((diff.delta_bytes(), diff.delta.len()), (1, 1));
    }

    #[test]
    fn the_same_bytes_under_another_version_are_a_change_without_bytes() {
        let (old, new) = (manifest(&[(Program::Runc, "1", b"x")]), manifest(&[(Program::Runc, "2", b"x")]));
        let diff = diff(&old, &new);
        assert_eq!((diff.artifacts.len(), diff.added_bytes, diff.removed_bytes), (1, 0, 0));
    }
}
