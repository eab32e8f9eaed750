//! What the depot of a registry host has, as the host itself reads it, and what of its store may be deleted.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_spec::Digest;
use kubexm_spec::depot::DepotConfig;
use serde::{Deserialize, Serialize};

use crate::ledger::{Record, not_rolled_back};
use crate::op::Op;

/// The depot's configuration on its host.
pub const CONFIG: &str = "/etc/kubexm/depot/config.json";
/// The folder with the records of all bundles that the cluster has had.
pub const BUNDLES: &str = "/etc/kubexm/depot/bundles";
/// The depot's unit.
pub const UNIT: &str = "kubexm-depot.service";
/// The unit of the distribution registry.
pub const REGISTRY_UNIT: &str = "kubexm-registry.service";
/// The CA of the depot's certificate, on its host.
pub const CA: &str = "/etc/kubexm/depot/ca.crt";
/// The login that the depot's own host shows to it, if the depot demands one.
pub const LOGIN: &str = "/etc/kubexm/depot/login";
/// End of the name of a bundle's record.
pub const RECORD: &str = ".json";
/// End of the name of a record that the depot serves no more, while blobs of it may be in the store.
pub const LEFT: &str = ".json.left";
/// The end of the ids of steps that fill a host's store with content of a bundle.
const FILL: &str = "/store.fill";

/// What a depot has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DepotContent {
    /// What it was configured with last: the bundle that the cluster has now. None if the host has no depot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<DepotConfig>,
    /// The records of bundles, by their names: `v1.34.4-` and the beginning of the manifest's digest.
    pub bundles: BTreeMap<String, RecordedBundle>,
    /// The records that are not served any more and of which blobs may be left, by the names of their bundles.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub left: BTreeMap<String, RecordedBundle>,
    /// Files of the folder of records that cannot be read as such, by path, and why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unreadable: BTreeMap<String, String>,
    /// The blobs in the host's content store, with their sizes in bytes.
    pub blobs: BTreeMap<Digest, u64>,
}

/// The record of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecordedBundle {
    /// Of the file.
    pub digest: Digest,
    /// When it was written, in seconds of Unix time by the host's clock.
    pub written: i64,
    /// What is served of it.
    pub content: DepotConfig,
}

impl DepotContent {
    /// What is served when only the bundles that `stays` accepts are left: the present configuration first, then the newest records, as
    /// the depot itself does. None if there is no configuration.
    pub fn served(&self, stays: impl Fn(&str) -> bool) -> Option<DepotConfig> {
        let mut served = self.config.clone()?;
        let mut left: Vec<_> = self.bundles.iter().filter(|(name, _)| stays(name)).collect();
        left.sort_by(|(a, one), (b, other)| (other.written, b).cmp(&(one.written, a)));
        for (_, bundle) in left {
            served.add_earlier(bundle.content.clone());
        }
        Some(served)
    }
}

/// The path of a bundle's record.
pub fn record_path(bundle: &str) -> String {
    format!("{BUNDLES}/{bundle}{RECORD}")
}

/// What kubexm has put into a host's content store to be served, by its ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filled {
    /// All of it, whether or not it was rolled back since.
    pub ever: BTreeSet<Digest>,
    /// What must stay whatever the depot serves: what the last step wanted that was not rolled back, if its run has not got as far as the
    /// depot's configuration; and the packages that were installed, and those that a reset puts back in their place.
    pub needed: BTreeSet<Digest>,
}

impl Filled {
    /// By these records. Archives of backups, and whatever else a step brings for itself, are not among it.
    pub fn of(ledger: &[Record]) -> Self {
        let fills = |record: &Record| -> Option<BTreeSet<Digest>> {
            record.step.0.ends_with(FILL).then(|| blobs_of(record)).filter(|blobs| !blobs.is_empty())
        };
        let mut needed = BTreeSet::new();
        for record in not_rolled_back(ledger.iter()) {
            match fills(record) {
                Some(blobs) => needed = blobs,
                // What it names is known from now on. A bundle of which all is there fills nothing.
                None if configures(record) => needed.clear(),
                None => {}
            }
        }
        needed.extend(not_rolled_back(ledger.iter()).flat_map(packages_of));
        Self { ever: ledger.iter().filter_map(fills).flatten().collect(), needed }
    }
}

fn blobs_of(record: &Record) -> BTreeSet<Digest> {
    let blobs = record.ops.iter().filter_map(|op| match op {
        Op::Blobs(op) => Some(op.blobs.keys().copied()),
        _ => None,
    });
    blobs.flatten().collect()
}

fn configures(record: &Record) -> bool {
    record.ops.iter().any(|op| matches!(op, Op::File(file) if file.path == CONFIG))
}

fn packages_of(record: &Record) -> impl Iterator<Item = Digest> + use<'_> {
    let packages = record.ops.iter().filter_map(|op| match op {
        Op::Packages(op) => Some(op.links().map(|(_, blob)| blob)),
        _ => None,
    });
    packages.flatten()
}

/// The run that has deleted content of bundles from a host after the first step of this one; none if there is none.
pub fn pruned_since<'a>(ledger: &'a [Record], run: &str) -> Option<&'a str> {
    let mut later = ledger.iter().skip_while(|record| record.run != run);
    // Links that were taken away and not put back: a rollback restores only what its own run had changed.
    let unlinks = |record: &Record| record.ops.iter().any(|op| matches!(op, Op::RegistryUnlinked(_)));
    let unlinked: BTreeSet<&str> =
        not_rolled_back(ledger.iter()).filter(|record| unlinks(record)).map(|record| record.run.as_str()).collect();
    let removes =
        |op: &Op| matches!(op, Op::BlobsRemoved(_) | Op::RegistryBlobsRemoved(_) | Op::HarborImagesRemoved(_));
    let deletes = |record: &&Record| record.ops.iter().any(removes) || unlinked.contains(record.run.as_str());
    later.find(|record| record.run != run && deletes(record)).map(|record| record.run.as_str())
}

/// The digests that a configuration or a record names: none of them may be deleted while it is there.
pub fn named(config: &DepotConfig) -> BTreeSet<Digest> {
    let mut named: BTreeSet<Digest> = config.files.values().copied().collect();
    for repository in config.images.values() {
        named.extend(repository.tags.values().chain(&repository.manifests).chain(&repository.blobs));
    }
    for repository in config.packages.iter().flat_map(|packages| packages.repositories.values()) {
        named.extend(repository.packages.values());
    }
    named
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use kubexm_spec::Family;

    use super::*;
    use crate::ledger::{Outcome, SCHEMA};
    use crate::op::{Blobs, BlobsRemoved, Packages, WantedPackage};
    use crate::{StepId, Undo};

    fn record(run: &str, step: &str, op: Op, outcome: Outcome) -> Record {
        Record {
            schema: SCHEMA,
            run: run.to_owned(),
            sequence: 1,
            step: StepId(step.to_owned()),
            ops: vec![op],
            undo: Undo::RestoreBefore,
            before: Vec::new(),
            outcome,
        }
    }

    fn fill(run: &str, step: &str, text: &str, outcome: Outcome) -> Record {
        let blobs = BTreeMap::from([(Digest::of(text), 1)]);
        record(run, step, Blobs { blobs, depots: None, shared_at: None }.into(), outcome)
    }

    #[test]
    fn what_was_filled_is_known_by_the_ledger_and_the_archive_of_a_restore_is_not_among_it() {
        let ledger = [
            fill("1", "node1/store.fill", "one", Outcome::Done),
            fill("2", "node1/store.fill", "two", Outcome::Done),
            fill("3", "node1/restore.archive", "archive", Outcome::Done),
            fill("4", "node1/store.fill", "four", Outcome::Begun),
            fill("4", "node1/store.fill", "four", Outcome::Restored),
        ];
        let filled = Filled::of(&ledger);
        assert_eq!(filled.ever, ["one", "two", "four"].map(Digest::of).into());
        assert_eq!(filled.needed, [Digest::of("two")].into(), "the fourth run was rolled back");
    }

    /// A reset puts back what they replaced.
    #[test]
    fn packages_that_were_installed_stay_whatever_bundle_brought_them() {
        let wanted = |text: &str| WantedPackage {
            version: "1".to_owned(),
            arch: "amd64".to_owned(),
            file: format!("{text}.deb"),
            blob: Digest::of(text),
            upgrade: false,
        };
        let packages = Packages {
            family: Family::Deb,
            repository: "/repo".to_owned(),
            source: "/repo/kubexm.list".to_owned(),
            packages: [("a".to_owned(), wanted("a"))].into(),
            replaced: [("b".to_owned(), wanted("b"))].into(),
        };
        let of = |outcome| {
            let installed = record("1", "node1/packages", packages.clone().into(), outcome);
            Filled::of(&[installed, fill("2", "node1/store.fill", "two", Outcome::Done)])
        };
        assert_eq!(of(Outcome::Done).needed, ["a", "b", "two"].map(Digest::of).into());
        assert_eq!(of(Outcome::Restored).needed, [Digest::of("two")].into());
    }

    #[test]
    fn only_a_deletion_after_a_run_has_begun_is_in_its_way() {
        let removed = |run: &str| {
            record(run, "node1/prune.blobs", BlobsRemoved { blobs: BTreeMap::new() }.into(), Outcome::Begun)
        };
        let filled = |run: &str| fill(run, "node1/store.fill", run, Outcome::Done);
        let ledger = [filled("1"), removed("2"), filled("3")];
        assert_eq!(pruned_since(&ledger, "1"), Some("2"));
        assert_eq!(pruned_since(&ledger, "3"), None);
        assert_eq!(pruned_since(&ledger, "2"), None, "itself is not in its way");
        assert_eq!(pruned_since(&ledger, "4"), None, "it has changed nothing on this host");
    }
}
