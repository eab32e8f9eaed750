//! Which bundle a cluster was made of, and who vouched for it: what nodes and controllers remember.

use std::collections::BTreeSet;

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

/// A bundle, and who vouched for it when it was installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Vouched {
    /// Of its manifest.json.
    pub manifest: Digest,
    /// The ids of keys that have signed it, or a bundle before it: one of them vouches for the next. Empty where nobody who is
    /// trusted has ever signed.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub signers: BTreeSet<String>,
    /// When it was signed, in seconds of Unix time by the signer's clock; of several signatures the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<i64>,
    /// The number that its signers count, where they do; of several signatures the largest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
}

impl Vouched {
    /// Whether it was signed before what is installed. Where that has a sequence, one without it counts as older, and the dates
    /// count between equal ones only: of what is left out of a file nobody can say which it was.
    pub fn is_older_than(&self, installed: &Self) -> bool {
        match (self.sequence, installed.sequence) {
            (None, Some(_)) => true,
            (Some(own), Some(other)) if own != other => own < other,
            _ => installed.date.is_some_and(|other| self.date.is_none_or(|own| own < other)),
        }
    }

    /// Whether a key that is remembered has signed the other one.
    pub fn knows(&self, other: &Self) -> bool {
        !self.signers.is_disjoint(&other.signers)
    }

    /// What several hosts agree upon: the keys that all of them name, and the oldest date. None when they do not name the same
    /// bundle. A host that lies can take something from it, and add nothing.
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

    /// What is remembered when this one takes the place of `known`. Keys add up as long as one of them has signed: so a key that
    /// signs once can vouch later, when the others are lost.
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

    fn vouched(content: &str, signers: &[&str], date: Option<i64>) -> Vouched {
        let signers = signers.iter().map(|key| (*key).to_owned()).collect();
        Vouched { manifest: Digest::of(content), signers, date, sequence: None }
    }

    #[test]
    fn a_sequence_comes_before_the_date_and_cannot_be_left_out_again() {
        let of = |date, sequence| Vouched { sequence, ..vouched("1", &["release"], date) };
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
    fn a_host_that_lies_adds_no_key_and_no_date_to_what_all_agree_upon() {
        let right = vouched("1", &["backup", "release"], Some(5));
        let lies = vouched("1", &["release", "stranger"], Some(i64::MAX));
        assert_eq!(Vouched::agreed([&right, &lies].into_iter()), Some(vouched("1", &["release"], Some(5))));
        assert_eq!(Vouched::agreed([&right, &vouched("2", &["release"], Some(5))].into_iter()), None);
        assert_eq!(Vouched::agreed([&right, &right].into_iter()), Some(right.clone()));
        assert_eq!(Vouched::agreed(std::iter::empty()), None);
    }

    #[test]
    fn keys_add_up_while_one_of_them_signs_and_begin_anew_when_none_does() {
        let known = vouched("1", &["backup", "release"], Some(5));
        let next = vouched("2", &["release"], Some(6));
        assert_eq!(next.clone().in_place_of(&known), vouched("2", &["backup", "release"], Some(6)));
        assert_eq!(vouched("2", &["other"], Some(6)).in_place_of(&known), vouched("2", &["other"], Some(6)));
        assert_eq!(vouched("1", &[], None).in_place_of(&known), known, "the same content takes nothing away");
        assert_eq!(
            vouched("2", &["release"], Some(4)).in_place_of(&known).date,
            Some(4),
            "an older one that was allowed"
        );
    }
}
