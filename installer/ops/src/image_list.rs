//! Images of a runtime, as `ctr images list` and `ctr images check` of containerd print them, or by all their names.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_plan::op::{ImageLoaded, Listed, Loaded};
use kubexm_spec::Digest;

/// Labels for the CRI plugin and kubelet's image garbage collection: managed by CRI, and pinned.
pub(crate) const LABELS: [&str; 2] = ["io.cri-containerd.image=managed", "io.cri-containerd.pinned=pinned"];

/// Images by name. A runtime may know one by the digests of its index and of its manifest.
#[derive(Debug)]
pub(crate) struct ImageList {
    listed: BTreeMap<String, Vec<Listed>>,
    complete: BTreeSet<String>,
}

impl ImageList {
    /// `listed` is the output of `ctr images list`, `complete` that of `ctr images check --quiet`.
    pub(crate) fn parse(listed: &str, complete: &str) -> Self {
        let listed =
            listed.lines().filter_map(parse_line).map(|(name, image)| (name.to_owned(), vec![image])).collect();
        Self { listed, complete: complete.lines().map(|line| line.trim().to_owned()).collect() }
    }

    /// Names, all of which are complete.
    pub(crate) fn of(names: Vec<(String, Vec<Listed>)>) -> Self {
        let complete = names.iter().map(|(name, _)| name.clone()).collect();
        Self { listed: names.into_iter().collect(), complete }
    }

    /// The state of an op's image.
    pub(crate) fn state_of(&self, op: &ImageLoaded) -> Loaded {
        let by_tag = self.named(op, &op.reference);
        let by_digest = self.named(op, &by_digest(op, known_digest(op, by_tag)));
        let complete = by_tag.is_some() && self.complete.contains(&op.reference);
        Loaded { by_tag: by_tag.cloned(), by_digest: by_digest.cloned(), complete }
    }

    /// Everything that a name is known by.
    pub(crate) fn of_name(&self, name: &str) -> &[Listed] {
        self.listed.get(name).map_or(&[], Vec::as_slice)
    }

    /// How many names have this digest.
    pub(crate) fn names_of(&self, digest: &str) -> usize {
        self.listed.values().filter(|all| all.iter().any(|listed| listed.digest == digest)).count()
    }

    /// What a name resolves to: to a digest that is accepted, if to any.
    fn named(&self, op: &ImageLoaded, name: &str) -> Option<&Listed> {
        let all = self.listed.get(name)?;
        let accepted = |listed: &&Listed| op.accepted().any(|digest| digest.to_string() == listed.digest);
        all.iter().find(accepted).or_else(|| all.first())
    }
}

/// A line of `ctr images list`: REF TYPE DIGEST SIZE UNIT PLATFORMS LABELS.
pub(crate) fn parse_line(line: &str) -> Option<(&str, Listed)> {
    let name = line.split_whitespace().next()?;
    let digest = line.split_whitespace().find(|word| word.parse::<Digest>().is_ok())?;
    let labels = line.split_whitespace().next_back().unwrap_or_default();
    let has = |label: &str| labels.split(',').any(|found| found == label);
    Some((name, Listed { digest: digest.to_owned(), managed: has(LABELS[0]), pinned: has(LABELS[1]) }))
}

/// Which of the accepted digests the tag names; the first one where it names none of them.
pub(crate) fn known_digest(op: &ImageLoaded, by_tag: Option<&Listed>) -> Digest {
    let found = by_tag.map(|image| image.digest.as_str());
    op.accepted().find(|digest| found == Some(digest.to_string().as_str())).unwrap_or(op.digest)
}

/// `registry.k8s.io/pause:3.10.1` → `registry.k8s.io/pause@sha256:…`.
pub(crate) fn by_digest(op: &ImageLoaded, digest: Digest) -> String {
    let name = op.reference.split('@').next().unwrap_or(&op.reference);
    let name = match name.rsplit_once(':') {
        // A colon before the last slash belongs to a port.
        Some((before, after)) if !after.contains('/') => before,
        _ => name,
    };
    format!("{name}@{digest}")
}
