//! What a host takes from whom, as the board stands.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use kubexm_spec::Digest;
use tokio::time::Instant;

use super::board::{Board, Taker};
use super::distrust::network;
use super::host_set::HostSet;
use super::source::Source;

/// Transfers from one source at the same time.
const PER_SOURCE: usize = 2;
/// Small blobs are taken together, up to this part of what the host lacks, and within these bytes.
const PARCELS: u64 = 32;
const SMALLEST_PARCEL: u64 = 1 << 20;
const LARGEST_PARCEL: u64 = 16 << 20;

/// A blob that a host lacks and that is not on its way to it.
struct Open {
    digest: Digest,
    size: u64,
    /// How many hosts could send it now or soon.
    copies: usize,
}

/// What a host can take.
struct View {
    /// What the fewest hosts have first, and of that the largest.
    open: Vec<Open>,
    /// Hosts that serve it and have room.
    free: HostSet,
    /// How many take from a source.
    takers: BTreeMap<Source, usize>,
    /// Origins that send something to this host that others want too.
    own: BTreeSet<Source>,
}

/// Whether a source must have room.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Room {
    Needed,
    Ignored,
}

impl Board {
    /// What a host could take now, and whether nobody waits for that.
    pub(super) fn found(&self, taker: &Taker, now: Instant) -> Option<(Source, BTreeMap<Digest, u64>, bool)> {
        let view = self.view(taker, now);
        let private = self.private(taker, &view, now).map(|(source, blobs)| (source, blobs, true));
        private.or_else(|| self.next_of(taker, &view, now).map(|(source, blobs)| (source, blobs, false)))
    }

    /// What a host could take from an origin, whatever others have and take.
    pub(super) fn without_waiting(&self, taker: &Taker, now: Instant) -> Option<(Source, BTreeMap<Digest, u64>)> {
        let view = self.view(taker, now);
        let origin = |open: &Open| self.origin(taker, &view, open.digest, Room::Ignored, now);
        let source = view.open.iter().find_map(origin)?;
        let blobs = parcel(taker, view.open.iter().filter(|open| origin(open).as_ref() == Some(&source)));
        Some((source, blobs))
    }

    /// Who would send these to a host now instead of another host, beside what they send.
    pub(super) fn others_with_room(
        &self,
        taker: &Taker,
        (instead, blobs): (&Source, &BTreeMap<Digest, u64>),
        now: Instant,
    ) -> Vec<Source> {
        let mut view = self.view(taker, now);
        if let Source::Host(host) = instead
            && let Ok(place) = self.hosts.binary_search(host)
        {
            view.free.remove(place);
        }
        let Some(digest) = blobs.keys().next() else { return Vec::new() };
        let host = self.nearest(taker, &view, *digest, now).filter(|host| !self.is_unproven(host));
        host.into_iter().chain(self.origin(taker, &view, *digest, Room::Needed, now)).collect()
    }

    fn is_unproven(&self, source: &Source) -> bool {
        matches!(source, Source::Host(host) if self.distrust.is_unproven(host))
    }

    fn view(&self, taker: &Taker, now: Instant) -> View {
        let (mut takers, mut own, mut tries) = (BTreeMap::<Source, usize>::new(), BTreeSet::new(), false);
        let (mut coming, mut elsewhere) = (BTreeSet::new(), BTreeMap::<Digest, usize>::new());
        for one in self.underway.values() {
            // A host that takes slowly, or is dead, is in nobody's way at an origin.
            if !one.private && !one.late {
                *takers.entry(one.source.clone()).or_default() += 1;
            }
            if one.to == taker.address {
                tries |= self.is_unproven(&one.source);
                coming.extend(one.blobs.keys().copied());
                if !one.private && !one.source.is_host() {
                    own.insert(one.source.clone());
                }
            } else if !one.late && self.distrust.serves(taker.address, one.to, now) {
                one.blobs.keys().for_each(|digest| *elsewhere.entry(*digest).or_default() += 1);
            }
        }
        let (mut serving, mut free) = (HostSet::default(), HostSet::default());
        for (place, host) in self.hosts.iter().enumerate() {
            if *host != taker.address && self.distrust.serves(taker.address, *host, now) {
                // Anybody can say what he has. Until one host has sent something it is no copy, and each host tries one at a time.
                let unproven = self.distrust.is_unproven(host);
                if !unproven {
                    serving.insert(place);
                }
                if !(unproven && tries) && takers.get(&Source::Host(*host)).is_none_or(|takers| *takers < PER_SOURCE) {
                    free.insert(place);
                }
            }
        }
        let misses = self.distrust.misses_something();
        let open = taker.missing.iter().filter(|(digest, _)| !coming.contains(*digest)).map(|(digest, size)| {
            let there = self.holders.get(digest).map_or(0, |holders| match misses {
                false => holders.common(&serving),
                true => holders.both(&serving).filter(|place| self.may_send(taker, *place, *digest, now)).count(),
            });
            let copies = there + elsewhere.get(digest).copied().unwrap_or(0);
            Open { digest: *digest, size: *size, copies }
        });
        let mut open: Vec<Open> = open.collect();
        open.sort_by_key(|open| (open.copies, Reverse(open.size), open.digest));
        View { open, free, takers, own }
    }

    /// Everything that nobody else wants meanwhile and no host has, in one transfer from an origin.
    fn private(&self, taker: &Taker, view: &View, now: Instant) -> Option<(Source, BTreeMap<Digest, u64>)> {
        let private = view.open.iter().filter(|open| open.copies == 0 && !taker.wanted.contains(&open.digest));
        let mut source = None;
        let mut blobs = BTreeMap::new();
        for open in private {
            let origin = self.origin(taker, view, open.digest, Room::Ignored, now);
            if origin.is_some() && (source.is_none() || source == origin) {
                source = origin;
                blobs.insert(open.digest, open.size);
            }
        }
        source.map(|source| (source, blobs))
    }

    fn next_of(&self, taker: &Taker, view: &View, now: Instant) -> Option<(Source, BTreeMap<Digest, u64>)> {
        let from = |open: &Open| {
            let origin = match open.copies {
                0 => self.origin(taker, view, open.digest, Room::Needed, now),
                _ => None,
            };
            let host = || self.nearest(taker, view, open.digest, now);
            origin.or_else(|| host().filter(|host| open.copies == 0 || !self.is_unproven(host)))
        };
        let (first, source) = view.open.iter().enumerate().find_map(|(at, open)| Some((at, from(open)?)))?;
        let place = match &source {
            Source::Host(host) => self.hosts.binary_search(host).ok(),
            _ => None,
        };
        let serves = |open: &&Open| match place {
            Some(place) => {
                self.holders.get(&open.digest).is_some_and(|holders| holders.contains(place))
                    && self.may_send(taker, place, open.digest, now)
            }
            None => {
                open.copies == 0 && self.origin(taker, view, open.digest, Room::Needed, now).as_ref() == Some(&source)
            }
        };
        let blobs = parcel(taker, view.open[first..].iter().filter(serves));
        Some((source, blobs))
    }

    /// The host that sends a blob: one of the same network first, and the one with the fewest takers of these.
    fn nearest(&self, taker: &Taker, view: &View, digest: Digest, now: Instant) -> Option<Source> {
        let holders = self.holders.get(&digest)?.both(&view.free);
        let hosts = holders.filter(|place| self.may_send(taker, *place, digest, now)).map(|place| self.hosts[place]);
        let by = |host: &SocketAddr| {
            let far = network(host.ip()) != network(taker.address.ip());
            (self.distrust.is_unproven(host), far, view.takers.get(&Source::Host(*host)).copied().unwrap_or(0), *host)
        };
        hosts.min_by_key(by).map(Source::Host)
    }

    fn may_send(&self, taker: &Taker, place: usize, digest: Digest, now: Instant) -> bool {
        !self.distrust.misses_something()
            || self.distrust.may_have(taker.address, &Source::Host(self.hosts[place]), digest, now)
    }

    /// Who has everything and did not fail with this host: of several depots the one with the fewest takers, without a depot the
    /// controller. Each has one taker less for a blob that others want, so that no host has all places for itself.
    fn origin(&self, taker: &Taker, view: &View, digest: Digest, room: Room, now: Instant) -> Option<Source> {
        let usable = |source: &&Source| {
            !self.distrust.has_failed(taker.address, source, now)
                && self.distrust.may_have(taker.address, source, digest, now)
        };
        let shared = taker.wanted.contains(&digest);
        let takers = |source: &Source| view.takers.get(source).copied().unwrap_or(0);
        let has_room = |source: &&Source| {
            room == Room::Ignored || takers(source) < PER_SOURCE && !(shared && view.own.contains(*source))
        };
        let depots = || taker.origins.iter().filter(|source| **source != Source::Controller).filter(usable);
        if depots().next().is_some() {
            return depots().filter(has_room).min_by_key(|source| takers(source)).cloned();
        }
        taker.origins.iter().filter(usable).find(has_room).cloned()
    }
}

/// The first of these, and small ones with it.
fn parcel<'o>(taker: &Taker, from: impl Iterator<Item = &'o Open>) -> BTreeMap<Digest, u64> {
    let most = (taker.missing.values().sum::<u64>() / PARCELS).clamp(SMALLEST_PARCEL, LARGEST_PARCEL);
    let (mut blobs, mut bytes) = (BTreeMap::new(), 0_u64);
    for open in from {
        if blobs.is_empty() || bytes.saturating_add(open.size) <= most {
            blobs.insert(open.digest, open.size);
            bytes = bytes.saturating_add(open.size);
        }
    }
    blobs
}
