//! Who has which blobs, what is on its way, and what a host takes next and from where. Pure: time is given.
//!
//! Each source has few takers at a time, so that what it sends is whole somewhere else soon, and sent on from there. What the fewest hosts
//! have goes first, and of that the largest. The controller and the depots, which have everything, send what no host has; so the time to
//! fill all hosts grows like the logarithm of their number (decision 0070).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use kubexm_spec::Digest;
use tokio::time::Instant;

use super::host_set::HostSet;

/// Transfers from one source at the same time.
const PER_SOURCE: usize = 2;
/// Transfers to one host at the same time: the next one begins while this one ends.
const PER_HOST: usize = 2;
/// Small blobs are taken together, up to this part of what the host lacks, and within these bytes.
const PARCELS: u64 = 32;
const SMALLEST_PARCEL: u64 = 1 << 20;
const LARGEST_PARCEL: u64 = 16 << 20;
/// Hosts that fail with a source before nobody takes from it.
const MOST_FAILED_WITH: usize = 2;
/// Hosts that one fails with before it takes from none: then the fault is its own.
const MOST_FAILURES_OF: usize = 3;
/// Without any transfer that begins or ends for this long, and for as long as the largest one takes at [`SLOW`], hosts stop waiting for
/// each other.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes a second of one transfer on a slow line, which the time limits of deliveries assume to bring 1 MiB/s.
const SLOW: u64 = (1 << 20) / PER_SOURCE as u64;

/// Where blobs come from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    /// Another host of the run.
    Host(SocketAddr),
    /// The URL of one.
    Depot(String),
    Controller,
}

/// A transfer to one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Transfer {
    pub number: u64,
    pub source: Source,
    pub blobs: BTreeMap<Digest, u64>,
}

/// A host that is being filled.
#[derive(Clone, Debug)]
pub(super) struct Taker {
    pub address: SocketAddr,
    /// What it still lacks, with sizes; what is on its way to it is among it.
    pub missing: BTreeMap<Digest, u64>,
    /// Who has everything, in the order in which they are asked.
    pub origins: Vec<Source>,
    /// Blobs that other hosts want meanwhile. The others are private: nobody waits for them.
    pub wanted: BTreeSet<Digest>,
}

/// What a host does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    Take(Transfer),
    /// For at most this long, or until something has changed.
    Wait(Duration),
    /// It takes the rest as if there were no other hosts.
    Alone,
}

#[derive(Debug)]
struct Underway {
    to: SocketAddr,
    source: Source,
    blobs: BTreeMap<Digest, u64>,
    /// Of private blobs: nobody waits for it, so it takes nobody's place.
    private: bool,
}

/// The state of all transfers of a run.
#[derive(Debug)]
pub(super) struct Board {
    hosts: Vec<SocketAddr>,
    takers: BTreeMap<SocketAddr, Taker>,
    /// Transfers that their hosts have not begun yet.
    given: BTreeMap<SocketAddr, VecDeque<Transfer>>,
    /// Something has changed since transfers were given.
    changed: bool,
    /// Who has a blob.
    holders: BTreeMap<Digest, HostSet>,
    underway: BTreeMap<u64, Underway>,
    next: u64,
    /// Who failed with whom.
    failures: BTreeSet<(SocketAddr, Source)>,
    /// Depots without a blob.
    lacks: BTreeSet<(Source, Digest)>,
    /// Hosts that cannot serve.
    closed: BTreeSet<SocketAddr>,
    moved: Instant,
    stuck: bool,
}

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
    /// Hosts that serve it and have room, with how many take from them.
    free: HostSet,
    takers: BTreeMap<Source, usize>,
}

impl Board {
    pub(super) fn new(hosts: impl IntoIterator<Item = SocketAddr>, now: Instant) -> Self {
        let hosts: BTreeSet<SocketAddr> = hosts.into_iter().collect();
        Self {
            hosts: hosts.into_iter().collect(),
            takers: BTreeMap::new(),
            given: BTreeMap::new(),
            changed: false,
            holders: BTreeMap::new(),
            underway: BTreeMap::new(),
            next: 0,
            failures: BTreeSet::new(),
            lacks: BTreeSet::new(),
            closed: BTreeSet::new(),
            moved: now,
            stuck: false,
        }
    }

    /// A host is filled from now on.
    pub(super) fn enter(&mut self, taker: Taker) {
        self.changed = true;
        self.takers.insert(taker.address, taker);
    }

    /// A host is not filled any more; returns what it still lacks.
    pub(super) fn leave(&mut self, host: SocketAddr) -> BTreeMap<Digest, u64> {
        self.changed = true;
        for transfer in self.given.remove(&host).unwrap_or_default() {
            self.underway.remove(&transfer.number);
        }
        self.takers.remove(&host).map(|taker| taker.missing).unwrap_or_default()
    }

    /// Blobs have come to a host that is being filled.
    pub(super) fn came(&mut self, host: SocketAddr, blobs: impl IntoIterator<Item = Digest>) {
        if let Some(taker) = self.takers.get_mut(&host) {
            for digest in blobs {
                taker.missing.remove(&digest);
            }
        }
    }

    /// Whether a host lacks nothing.
    pub(super) fn is_filled(&self, host: SocketAddr) -> bool {
        self.takers.get(&host).is_none_or(|taker| taker.missing.is_empty())
    }

    /// A host has these blobs now.
    pub(super) fn has(&mut self, host: SocketAddr, blobs: impl IntoIterator<Item = Digest>) {
        self.changed = true;
        let Ok(place) = self.hosts.binary_search(&host) else { return };
        for digest in blobs {
            self.holders.entry(digest).or_default().insert(place);
        }
    }

    /// What a host has, as far as is known.
    pub(super) fn blobs_of(&self, host: SocketAddr) -> BTreeSet<Digest> {
        let Ok(place) = self.hosts.binary_search(&host) else { return BTreeSet::new() };
        self.holders.iter().filter(|(_, holders)| holders.contains(place)).map(|(digest, _)| *digest).collect()
    }

    /// A source has not sent a blob, without an error.
    pub(super) fn lacks(&mut self, source: &Source, blob: Digest) {
        self.changed = true;
        match source {
            Source::Host(host) => {
                if let (Ok(place), Some(holders)) = (self.hosts.binary_search(host), self.holders.get_mut(&blob)) {
                    holders.remove(place);
                }
            }
            source => drop(self.lacks.insert((source.clone(), blob))),
        }
    }

    /// A host got nothing from a source; it takes nothing more from it.
    pub(super) fn failed(&mut self, to: SocketAddr, source: &Source) {
        self.changed = true;
        self.failures.insert((to, source.clone()));
    }

    /// A host cannot serve, whoever asks.
    pub(super) fn close(&mut self, host: SocketAddr) {
        self.changed = true;
        self.closed.insert(host);
    }

    /// A transfer has ended, well or not.
    pub(super) fn ended(&mut self, number: u64, now: Instant) {
        if self.underway.remove(&number).is_some() {
            self.changed = true;
            self.moved = now;
        }
    }

    /// What a host that is being filled does next.
    pub(super) fn next(&mut self, host: SocketAddr, now: Instant) -> Choice {
        self.give(now);
        if let Some(transfer) = self.given.get_mut(&host).and_then(VecDeque::pop_front) {
            return Choice::Take(transfer);
        }
        if self.is_alone(host) {
            return Choice::Alone;
        }
        // A transfer has its own time limits.
        if self.underway.values().any(|one| one.to == host) {
            return Choice::Wait(Duration::MAX);
        }
        let until = self.moved + self.patience();
        if until <= now {
            self.stuck = true;
            return Choice::Alone;
        }
        Choice::Wait(until - now)
    }

    /// Gives out transfers, one at a time and always to the host that has the fewest underway, of those to the one that lacks the
    /// most: a host that took everything first would have to send everything to everybody.
    fn give(&mut self, now: Instant) {
        if !std::mem::take(&mut self.changed) {
            return;
        }
        // What one takes is one possibility less for others, so who finds nothing is done.
        let mut left: BTreeSet<SocketAddr> = self.takers.keys().copied().filter(|host| !self.is_alone(*host)).collect();
        let mut underway: BTreeMap<SocketAddr, usize> = BTreeMap::new();
        for one in self.underway.values().filter(|one| !one.private) {
            *underway.entry(one.to).or_default() += 1;
        }
        let lacks: BTreeMap<SocketAddr, u64> =
            self.takers.iter().map(|(host, taker)| (*host, taker.missing.values().sum())).collect();
        let of = |underway: &BTreeMap<SocketAddr, usize>, host: &SocketAddr| underway.get(host).copied().unwrap_or(0);
        loop {
            let next = left
                .iter()
                .min_by_key(|host| (of(&underway, host), Reverse(lacks.get(*host).copied().unwrap_or(0)), **host));
            let Some(host) = next.copied() else { return };
            let found = self.takers.get(&host).and_then(|taker| self.found(taker, of(&underway, &host)));
            let Some((source, blobs, private)) = found else {
                left.remove(&host);
                continue;
            };
            if !private {
                *underway.entry(host).or_default() += 1;
            }
            let transfer = self.begin(host, source, blobs, private, now);
            self.given.entry(host).or_default().push_back(transfer);
        }
    }

    /// What a host with so many transfers underway could take now, and whether nobody waits for that.
    fn found(&self, taker: &Taker, underway: usize) -> Option<(Source, BTreeMap<Digest, u64>, bool)> {
        if underway >= PER_HOST {
            return None;
        }
        let view = self.view(taker);
        let private = self.private(taker, &view).map(|(source, blobs)| (source, blobs, true));
        private.or_else(|| self.next_of(taker, &view).map(|(source, blobs)| (source, blobs, false)))
    }

    /// Whether a host takes what it lacks without the others.
    fn is_alone(&self, host: SocketAddr) -> bool {
        let own = self.failures.iter().filter(|(to, source)| *to == host && matches!(source, Source::Host(_)));
        self.stuck || own.count() >= MOST_FAILURES_OF
    }

    fn patience(&self) -> Duration {
        let largest = self.underway.values().filter(|one| !one.private).map(|one| one.blobs.values().sum::<u64>());
        PATIENCE + Duration::from_secs(largest.max().unwrap_or(0) / SLOW)
    }

    fn begin(
        &mut self,
        to: SocketAddr,
        source: Source,
        blobs: BTreeMap<Digest, u64>,
        private: bool,
        now: Instant,
    ) -> Transfer {
        let number = self.next;
        self.next += 1;
        self.moved = now;
        let underway = Underway { to, source: source.clone(), blobs: blobs.clone(), private };
        self.underway.insert(number, underway);
        Transfer { number, source, blobs }
    }

    fn view(&self, taker: &Taker) -> View {
        let mut takers: BTreeMap<Source, usize> = BTreeMap::new();
        let (mut coming, mut elsewhere) = (BTreeSet::new(), BTreeMap::<Digest, usize>::new());
        for one in self.underway.values() {
            if !one.private {
                *takers.entry(one.source.clone()).or_default() += 1;
            }
            match one.to == taker.address {
                true => coming.extend(one.blobs.keys().copied()),
                false if !self.serves(taker.address, one.to) => (),
                false => one.blobs.keys().for_each(|digest| *elsewhere.entry(*digest).or_default() += 1),
            }
        }
        let (mut serving, mut free) = (HostSet::default(), HostSet::default());
        for (place, host) in self.hosts.iter().enumerate() {
            if *host != taker.address && self.serves(taker.address, *host) {
                serving.insert(place);
                if takers.get(&Source::Host(*host)).is_none_or(|takers| *takers < PER_SOURCE) {
                    free.insert(place);
                }
            }
        }
        let open = taker.missing.iter().filter(|(digest, _)| !coming.contains(*digest)).map(|(digest, size)| {
            let there = self.holders.get(digest).map_or(0, |holders| holders.common(&serving));
            let copies = there + elsewhere.get(digest).copied().unwrap_or(0);
            Open { digest: *digest, size: *size, copies }
        });
        let mut open: Vec<Open> = open.collect();
        open.sort_by_key(|open| (open.copies, Reverse(open.size), open.digest));
        View { open, free, takers }
    }

    /// Everything that nobody else wants meanwhile and no host has, in one transfer from an origin.
    fn private(&self, taker: &Taker, view: &View) -> Option<(Source, BTreeMap<Digest, u64>)> {
        let private = view.open.iter().filter(|open| open.copies == 0 && !taker.wanted.contains(&open.digest));
        let mut source = None;
        let mut blobs = BTreeMap::new();
        for open in private {
            let origin = self.origin(taker, &open.digest);
            if origin.is_some() && (source.is_none() || source == origin) {
                source = origin;
                blobs.insert(open.digest, open.size);
            }
        }
        source.map(|source| (source, blobs))
    }

    fn next_of(&self, taker: &Taker, view: &View) -> Option<(Source, BTreeMap<Digest, u64>)> {
        let from = |open: &Open| match self.nearest(taker, view, &open.digest) {
            Some(host) => Some(host),
            None if open.copies == 0 => self.origin(taker, &open.digest).filter(|origin| view.has_room(origin)),
            None => None,
        };
        let (first, source) = view.open.iter().enumerate().find_map(|(at, open)| Some((at, from(open)?)))?;
        let place = match &source {
            Source::Host(host) => self.hosts.binary_search(host).ok(),
            _ => None,
        };
        let parcel = (taker.missing.values().sum::<u64>() / PARCELS).clamp(SMALLEST_PARCEL, LARGEST_PARCEL);
        let (mut blobs, mut bytes) = (BTreeMap::new(), 0_u64);
        for open in &view.open[first..] {
            let serves = match place {
                Some(place) => self.holders.get(&open.digest).is_some_and(|holders| holders.contains(place)),
                None => open.copies == 0 && self.origin(taker, &open.digest).as_ref() == Some(&source),
            };
            if serves && (blobs.is_empty() || bytes.saturating_add(open.size) <= parcel) {
                blobs.insert(open.digest, open.size);
                bytes = bytes.saturating_add(open.size);
            }
        }
        Some((source, blobs))
    }

    /// The host that sends a blob: one of the same network first, and the one with the fewest takers of these.
    fn nearest(&self, taker: &Taker, view: &View, digest: &Digest) -> Option<Source> {
        let hosts = self.holders.get(digest)?.both(&view.free).map(|place| self.hosts[place]);
        let by = |host: &SocketAddr| {
            let far = !same_network(host.ip(), taker.address.ip());
            (far, view.takers.get(&Source::Host(*host)).copied().unwrap_or(0), *host)
        };
        hosts.min_by_key(by).map(Source::Host)
    }

    /// The first of those who have everything and did not fail with this host.
    fn origin(&self, taker: &Taker, digest: &Digest) -> Option<Source> {
        let usable = |source: &&Source| {
            !self.failures.contains(&(taker.address, (*source).clone()))
                && !self.lacks.contains(&((*source).clone(), *digest))
        };
        taker.origins.iter().find(usable).cloned()
    }

    /// Whether one host takes from another.
    fn serves(&self, to: SocketAddr, host: SocketAddr) -> bool {
        if self.closed.contains(&host) {
            return false;
        }
        let source = Source::Host(host);
        let failed = self.failures.iter().filter(|(_, other)| *other == source);
        failed.clone().count() < MOST_FAILED_WITH && !failed.clone().any(|(other, _)| *other == to)
    }
}

impl View {
    fn has_room(&self, source: &Source) -> bool {
        self.takers.get(source).is_none_or(|takers| *takers < PER_SOURCE)
    }
}

/// The same /24 network, or /64 of IPv6.
fn same_network(one: IpAddr, other: IpAddr) -> bool {
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => one.octets()[..3] == other.octets()[..3],
        (IpAddr::V6(one), IpAddr::V6(other)) => one.octets()[..8] == other.octets()[..8],
        _ => false,
    }
}
