//! Who has which blobs, what is on its way, and what a host takes next and from where. Pure: time is given.
//!
//! Each source has few takers at a time, so that what it sends is whole somewhere else soon, and sent on from there. What the fewest hosts
//! have goes first, and of that the largest. The controller and the depots, which have everything, send what no host has; so the time to
//! fill all hosts grows like the logarithm of their number (decision 0070).
//!
//! A host may crawl, die, or mean harm, while others wait for what is on its way to it: a transfer that takes much longer than others is
//! no copy any more and takes nobody's place at an origin, and who has waited long enough takes from an origin whatever is on its way.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use kubexm_spec::Digest;
use tokio::time::Instant;

use super::distrust::Distrust;
use super::host_set::HostSet;
use super::pace::{self, Pace};
use super::source::Source;

/// Transfers to one host at the same time: the next one begins while this one ends.
const PER_HOST: usize = 2;
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

/// A transfer whose source crawls, until its host has heard of it.
type GivenUp = BTreeMap<SocketAddr, VecDeque<u64>>;

/// What a host does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    Take(Transfer),
    /// What is left of this transfer is taken from elsewhere: its source crawls.
    GiveUp(u64),
    /// For at most this long, or until something has changed.
    Wait(Duration),
    /// It takes the rest as if there were no other hosts.
    Alone,
}

#[derive(Debug)]
pub(super) struct Underway {
    pub to: SocketAddr,
    pub source: Source,
    pub blobs: BTreeMap<Digest, u64>,
    /// Of private blobs: nobody waits for it, so it takes nobody's place.
    pub private: bool,
    /// It takes much longer than others: nobody counts on it.
    pub late: bool,
    pub(super) begun: Instant,
    /// Bytes that came so far, where that is known.
    pub(super) moved: u64,
    /// A part of it had come before: its end says nothing of a rate.
    resumed: bool,
}

impl Underway {
    pub(super) fn bytes(&self) -> u64 {
        self.blobs.values().sum()
    }
}

/// The state of all transfers of a run.
#[derive(Debug)]
pub(super) struct Board {
    pub(super) hosts: Vec<SocketAddr>,
    pub(super) takers: BTreeMap<SocketAddr, Taker>,
    /// Transfers that their hosts have not begun yet.
    pub(super) given: BTreeMap<SocketAddr, VecDeque<Transfer>>,
    /// Transfers that are underway no more, though their hosts do not know it yet.
    pub(super) given_up: GivenUp,
    /// Blobs of which a part may have come to a host.
    begun: BTreeSet<(SocketAddr, Digest)>,
    /// Something has changed since transfers were given.
    pub(super) changed: bool,
    /// Without a change, transfers are given again then.
    pub(super) review: Option<Instant>,
    /// Who has a blob.
    pub(super) holders: BTreeMap<Digest, HostSet>,
    pub(super) underway: BTreeMap<u64, Underway>,
    next: u64,
    pub(super) distrust: Distrust,
    pub(super) pace: Pace,
    /// When a transfer began or ended last.
    pub(super) moved: Instant,
    /// Transfers from a busy origin that hosts took since one ended well, having waited for others in vain.
    pub(super) impatient: u32,
}

impl Board {
    pub(super) fn new(hosts: impl IntoIterator<Item = SocketAddr>, now: Instant) -> Self {
        let hosts: BTreeSet<SocketAddr> = hosts.into_iter().collect();
        Self {
            hosts: hosts.into_iter().collect(),
            takers: BTreeMap::new(),
            given: BTreeMap::new(),
            given_up: GivenUp::new(),
            begun: BTreeSet::new(),
            changed: false,
            review: None,
            holders: BTreeMap::new(),
            underway: BTreeMap::new(),
            next: 0,
            distrust: Distrust::default(),
            pace: Pace::default(),
            moved: now,
            impatient: 0,
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
        self.given_up.remove(&host);
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

    /// How many bytes a host lacks.
    pub(super) fn lacking(&self, host: SocketAddr) -> u64 {
        self.takers.get(&host).map_or(0, |taker| taker.missing.values().sum())
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

    /// A host says that it has these blobs.
    pub(super) fn claims(&mut self, host: SocketAddr, blobs: impl IntoIterator<Item = Digest>) {
        let known = self.blobs_of(host);
        let new: Vec<Digest> = blobs.into_iter().filter(|blob| !known.contains(blob)).collect();
        if !new.is_empty() {
            self.distrust.claims(host);
            self.has(host, new);
        }
    }

    /// A host has nothing any more, as its changes are taken back.
    pub(super) fn forget(&mut self, host: SocketAddr) {
        self.changed = true;
        let Ok(place) = self.hosts.binary_search(&host) else { return };
        self.holders.values_mut().for_each(|holders| holders.remove(place));
    }

    /// What a host has, as far as is known.
    pub(super) fn blobs_of(&self, host: SocketAddr) -> BTreeSet<Digest> {
        let Ok(place) = self.hosts.binary_search(&host) else { return BTreeSet::new() };
        self.holders.iter().filter(|(_, holders)| holders.contains(place)).map(|(digest, _)| *digest).collect()
    }

    /// A source has not sent a blob to a host, without an error.
    pub(super) fn lacks(&mut self, to: SocketAddr, source: &Source, blob: Digest, now: Instant) {
        self.changed = true;
        self.distrust.lacks(to, source, blob, now);
    }

    /// What a host lacks of a transfer comes, and slowly: it is taken from elsewhere.
    pub(super) fn crawls(&mut self, to: SocketAddr, source: &Source, now: Instant) {
        self.changed = true;
        self.distrust.crawls(to, source, (Duration::ZERO, true), now);
    }

    /// A host got nothing from a source; it takes nothing more from it for some time.
    pub(super) fn failed(&mut self, to: SocketAddr, source: &Source, now: Instant) {
        self.changed = true;
        self.distrust.failed(to, source, now);
    }

    /// A host cannot serve now, whoever asks.
    pub(super) fn close(&mut self, host: SocketAddr, now: Instant) {
        self.changed = true;
        self.distrust.close(host, now);
    }

    /// So many bytes of a transfer have come.
    pub(super) fn progress(&mut self, number: u64, bytes: u64) {
        if let Some(one) = self.underway.get_mut(&number) {
            one.moved = one.moved.saturating_add(bytes);
        }
    }

    /// A transfer has ended; so many bytes came.
    pub(super) fn ended(&mut self, number: u64, bytes: u64, now: Instant) {
        let Some(one) = self.underway.remove(&number) else { return };
        self.changed = true;
        self.moved = now;
        if bytes == 0 {
            return;
        }
        self.impatient = 0;
        if !one.resumed {
            self.pace.add(&one.source, one.to, bytes, now.saturating_duration_since(one.begun));
        }
        if !one.late && bytes >= pace::TELLING {
            self.distrust.is_quick(one.to);
        }
        if let Source::Host(from) = one.source {
            self.distrust.took(one.to, from);
        }
    }

    /// What a host that is being filled does next.
    pub(super) fn next(&mut self, host: SocketAddr, now: Instant) -> Choice {
        self.give(now);
        if let Some(number) = self.given_up.get_mut(&host).and_then(VecDeque::pop_front) {
            return Choice::GiveUp(number);
        }
        if let Some(transfer) = self.given.get_mut(&host).and_then(VecDeque::pop_front) {
            return Choice::Take(transfer);
        }
        if self.distrust.is_alone(host, now) {
            return Choice::Alone;
        }
        Choice::Wait(self.until_review(now))
    }

    /// When the clock alone changes something.
    pub(super) fn until_review(&self, now: Instant) -> Duration {
        self.review.map_or(Duration::MAX, |at| at.saturating_duration_since(now))
    }

    /// Gives out transfers, one at a time and always to the host that has the fewest underway, of those to the one that lacks the
    /// most: a host that took everything first would have to send everything to everybody.
    fn give(&mut self, now: Instant) {
        let due = self.review.is_some_and(|review| review <= now);
        if !std::mem::take(&mut self.changed) && !due {
            return;
        }
        self.look_at_the_clock(now);
        // What one takes is one possibility less for others, so who finds nothing is done.
        let alone = |host: &SocketAddr| self.distrust.is_alone(*host, now);
        let mut left: BTreeSet<SocketAddr> = self.takers.keys().copied().filter(|host| !alone(host)).collect();
        let idle = left.clone();
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
            let Some(host) = next.copied() else { break };
            let taker = self.takers.get(&host).filter(|_| of(&underway, &host) < PER_HOST);
            let Some((source, blobs, private)) = taker.and_then(|taker| self.found(taker, now)) else {
                left.remove(&host);
                continue;
            };
            if !private {
                *underway.entry(host).or_default() += 1;
            }
            self.begin(host, source, blobs, private, now);
        }
        self.lose_patience(idle, now);
    }

    pub(super) fn begin(
        &mut self,
        to: SocketAddr,
        source: Source,
        blobs: BTreeMap<Digest, u64>,
        private: bool,
        now: Instant,
    ) {
        let number = self.next;
        self.next += 1;
        self.moved = now;
        let resumed = blobs.keys().filter(|blob| !self.begun.insert((to, **blob))).count() > 0;
        let (late, begun, moved) = (false, now, 0);
        let underway =
            Underway { to, source: source.clone(), blobs: blobs.clone(), private, late, begun, moved, resumed };
        if !private {
            let due = self.due(&underway, now);
            self.review_at(due.late.min(due.look));
        }
        self.underway.insert(number, underway);
        self.given.entry(to).or_default().push_back(Transfer { number, source, blobs });
    }
}
