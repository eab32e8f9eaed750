//! The bundle that a cluster was installed from and its signers, as recorded on nodes and controllers.

use std::collections::BTreeSet;

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

/// An installed bundle and its signers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BundleRecord {
    /// Digest of its manifest.json.
    pub manifest: Digest,
    /// The ids of keys that have signed it, or an earlier bundle of this cluster: one of them must have signed the next
    /// one. Empty if no trusted key has signed.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub signers: BTreeSet<String>,
    /// When it was signed, in seconds of Unix time by the signer's clock; the latest of several signatures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<i64>,
    /// The signers' sequence number, if they use one; the largest of several signatures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
}

impl BundleRecord {
    /// Whether it was signed before the installed one. If the installed one has a sequence, a bundle without one counts
    /// as older; dates are compared only for equal sequences, since a signature may have been removed from the file.
    pub fn is_older_than(&self, installed: &Self) -> bool {
        match (self.sequence, installed.sequence) {
            (None, Some(_)) => true,
            (Some(own), Some(other)) if own != other => own < other,
            _ => installed.date.is_some_and(|other| self.date.is_none_or(|own| own < other)),
        }
    }

    /// Whether one of the recorded keys has signed the other bundle.
    pub fn knows(&self, other: &Self) -> bool {
        !self.signers.is_disjoint(&other.signers)
    }

    /// What several hosts agree on: the keys that all of them have, and the oldest date. None if they name different
    /// bundles. A host that lies can remove keys, but not add one.
    pub fn agreed<'a>(mut all: impl Iterator<Item = &'a Self>) -> Option<Self> {
        let first = all.next()?.clone();
        all.try_fold(first, |agreed, next| {
            (agreed.manifest == next.manifest).then(|| Self {
                manifest: agreed.manifest,
                signers: agreed.signers.intersection(&next.signers).cloned().collect(),
                date: agreed.date.min(next.date),
                sequence: agreed.sequence.min(next.sequence),
            })
        })
    }

    /// What is recorded when this bundle replaces `known`. Keys accumulate as long as one recorded key has signed, so
    /// that a key which signed once can be used when the others are lost.
    #[must_use]
    pub fn in_place_of(mut self, known: &Self) -> Self {
        let same = self.manifest == known.manifest;
        if same || known.knows(&self) {
            self.signers.extend(known.signers.iter().cloned());
        }
        if same {
            self.date = self.date.max(known.date);
            self.sequence = self.sequence.max(known.sequence);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(content: &str, signers: &[&str], date: Option<i64>) -> BundleRecord {
        let signers = signers.iter().map(|key| (*key).to_owned()).collect();
        BundleRecord { manifest: Digest::of(content), signers, date, sequence: None }
    }

    #[test]
    fn a_sequence_comes_before_the_date_and_cannot_be_left_out_again() {
        let of = |date, sequence| BundleRecord { sequence, ..record("1", &["release"], date) };
        for (offered, installed, older) in [
            (of(Some(9), Some(4)), of(Some(1), Some(5)), true),
            (of(Some(1), Some(6)), of(Some(9), Some(5)), false),
            (of(Some(9), None), of(Some(1), Some(5)), true),
            (of(Some(9), Some(5)), of(Some(8), Some(5)), false),
            (of(Some(7), Some(5)), of(Some(8), Some(5)), true),
            (of(Some(7), Some(5)), of(Some(8), None), true),
            (of(Some(8), Some(5)), of(Some(8), None), false),
            (of(None, None), of(Some(8), None), true),
            (of(None, None), of(None, None), false),
        ] {
            assert_eq!(offered.is_older_than(&installed), older, "{offered:?} {installed:?}");
        }
    }

    #[test]
    fn a_lying_host_adds_no_key_and_no_date_to_the_agreed_record() {
        let right = record("1", &["backup", "release"], Some(5));
        let lies = record("1", &["release", "stranger"], Some(i64::MAX));
        assert_eq!(BundleRecord::agreed([&right, &lies].into_iter()), Some(record("1", &["release"], Some(5))));
        assert_eq!(BundleRecord::agreed([&right, &record("2", &["release"], Some(5))].into_iter()), None);
        assert_eq!(BundleRecord::agreed([&right, &right].into_iter()), Some(right.clone()));
        assert_eq!(BundleRecord::agreed(std::iter::empty()), None);
    }

    #[test]
    fn keys_accumulate_while_one_of_them_signs_and_are_replaced_otherwise() {
        let known = record("1", &["backup", "release"], Some(5));
        let next = record("2", &["release"], Some(6));
        assert_eq!(next.clone().in_place_of(&known), record("2", &["backup", "release"], Some(6)));
        assert_eq!(record("2", &["other"], Some(6)).in_place_of(&known), record("2", &["other"], Some(6)));
        assert_eq!(record("1", &[], None).in_place_of(&known), known, "the same content takes nothing away");
        assert_eq!(
            record("2", &["release"], Some(4)).in_place_of(&known).date,
            Some(4),
            "an older one that was allowed"
        );
    }
}
