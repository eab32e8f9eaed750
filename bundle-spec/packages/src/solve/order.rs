//! The packages of several listings in one order, without making them.

use std::cmp::Ordering;

use crate::deb::listing::Listing;
use crate::model::{Package, RepoId};

/// Which of the listings, and the place in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listed(pub(super) u32, pub(super) u32);

/// What decides between two packages of one name.
pub(super) struct Ranked<'a> {
    pub(super) repo: RepoId,
    pub(super) version: &'a str,
    pub(super) any_arch: bool,
}

/// By name, then by `rank`, then by location and digest, each package once.
pub(super) fn of(listings: &[(RepoId, Listing)], rank: impl Fn(&Ranked<'_>, &Ranked<'_>) -> Ordering) -> Vec<Listed> {
    let at = |Listed(listing, place): Listed| (&listings[listing as usize].1, place);
    let ranked = |listed: Listed| {
        let (listing, place) = at(listed);
        let repo = listings[listed.0 as usize].0;
        Ranked { repo, version: listing.version(place), any_arch: listing.fits_any(place) }
    };
    let by_rank = |one: Listed, other: Listed| {
        Listing::compare_names(at(one), at(other)).then_with(|| rank(&ranked(one), &ranked(other)))
    };
    // Two that are as good are rare.
    let made = |listed: Listed| -> Package {
        let (listing, place) = at(listed);
        listing.package(place, listings[listed.0 as usize].0)
    };
    let of_listing =
        |(number, (_, listing)): (u32, &(RepoId, Listing))| (0..listing.len()).map(move |place| Listed(number, place));
    let mut order: Vec<Listed> = (0..).zip(listings).flat_map(of_listing).collect();
    // Each listing is in the order of its names: they are merged.
    order.sort_by(|one, other| {
        by_rank(*one, *other).then_with(|| {
            let (one, other) = (made(*one), made(*other));
            one.location.cmp(&other.location).then_with(|| one.digest.cmp(&other.digest))
        })
    });
    order.dedup_by(|one, other| by_rank(*one, *other).is_eq() && made(*one) == made(*other));
    order.truncate(u32::MAX as usize);
    order
}

#[cfg(test)]
mod tests {
    use kubexm_spec::Family;
    use proptest::prelude::*;

    use crate::deb::index;
    use crate::deb::listing::Listing;
    use crate::model::RepoId;
    use crate::solve::{Pool, Repo};

    fn entry(name: &str, version: u8, arch: &str) -> String {
        let digest = "0".repeat(64);
        format!(
            "Package: {name}\nVersion: {version}\nArchitecture: {arch}\nProvides: ab, v\nFilename: {name}\nSize: 1\nSHA256: {digest}\n\n"
        )
    }

    proptest! {
        #[test]
        fn a_pool_of_listings_is_the_pool_of_their_packages(
            repos in prop::collection::vec((prop::collection::vec(("[ab]{1,3}", 1..4_u8, any::<bool>()), 0..8), 0..2_i32), 1..4),
        ) {
            let (mut known, mut packages, mut listings) = (Vec::new(), Vec::new(), Vec::new());
            for (number, (entries, priority)) in (0..).zip(repos) {
                let text: String = entries.iter().map(|(name, version, any)| {
                    entry(name, *version, if *any { "all" } else { "amd64" })
                }).collect();
                known.push(Repo { id: number.to_string(), base: String::new(), priority });
                packages.extend(index::read(text.as_bytes(), RepoId(number), "amd64").unwrap());
                listings.push((RepoId(number), Listing::read(text.into_bytes(), "amd64").unwrap()));
            }
            let made = Pool::new(Family::Deb, "amd64", known.clone(), packages);
            let listed = Pool::of_listings("amd64", known, listings);
            for name in ["a", "b", "ab", "aab", "v", ""] {
                prop_assert!(made.named(name).eq(listed.named(name)), "{}", name);
                prop_assert!(made.providing(name).eq(listed.providing(name)), "{}", name);
                prop_assert_eq!(made.near(name), listed.near(name));
            }
            prop_assert!(made.packages().eq(listed.packages()));
        }
    }
}
