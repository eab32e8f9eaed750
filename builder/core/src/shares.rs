//! How many bytes each artifact adds to a bundle.

use std::collections::HashSet;

use kubexm_spec::Digest;

/// Bytes of the blobs of each artifact, in their order. A blob that several artifacts share counts for the first of them, so
/// that the sum is what the bundle carries; what is `left_out` of a delta counts for none.
pub fn shares<'a>(
    artifacts: impl IntoIterator<Item = Vec<(Digest, u64)>> + 'a,
    left_out: &dyn Fn(&Digest) -> bool,
) -> Vec<u64> {
    let mut known = HashSet::new();
    let mut new = |digest: &Digest| !left_out(digest) && known.insert(*digest);
    let of_one = |blobs: Vec<(Digest, u64)>| {
        blobs.iter().filter(|(digest, _)| new(digest)).fold(0, |sum: u64, (_, size)| sum.saturating_add(*size))
    };
    artifacts.into_iter().map(of_one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_blob_is_not_counted_twice_and_what_a_delta_leaves_out_not_at_all() {
        let [a, b, c] = ["a", "b", "c"].map(Digest::of);
        let artifacts = [vec![(a, 1), (b, 10)], vec![(b, 10), (c, 100)]];
        assert_eq!(shares(artifacts.clone(), &|_| false), [11, 100]);
        assert_eq!(shares(artifacts, &|digest| *digest == a), [10, 100]);
    }
}
