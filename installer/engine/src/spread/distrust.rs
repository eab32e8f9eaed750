//! Which sources a host leaves: those that failed with it, crawl, lack what it wants, or cannot be reached from its network. What one host
//! reports of another counts for itself; for all of its network, or for everybody, only after a second one has reported the same.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use kubexm_spec::Digest;
use tokio::time::Instant;

use super::source::Source;

/// Hosts that must report something before others believe it.
const WITNESSES: usize = 2;
/// Hosts that one fails with before it takes from none: then the fault is its own.
const MOST_FAILURES_OF: usize = 3;
/// How long a source is left after it failed with a host, and a host that was out of reach is not asked to serve; doubled each time. Its
/// agent may start again meanwhile.
const FORGIVEN: Duration = Duration::from_secs(60);
const MOST_DOUBLED: u32 = 6;

/// A /24 of IPv4, or a /64 of IPv6.
pub(super) type Network = (bool, [u8; 8]);

/// The network of an address.
pub(super) fn network(address: IpAddr) -> Network {
    let mut prefix = [0; 8];
    match address {
        IpAddr::V4(four) => prefix[..3].copy_from_slice(&four.octets()[..3]),
        IpAddr::V6(six) => prefix.copy_from_slice(&six.octets()[..8]),
    }
    (address.is_ipv6(), prefix)
}

/// How often something failed, and until when that counts.
#[derive(Clone, Copy, Debug)]
struct Left {
    times: u32,
    until: Instant,
    cause: Cause,
}

impl Left {
    fn again(before: Option<&Self>, now: Instant) -> Self {
        Self::for_at_least(before, FORGIVEN, now)
    }

    fn for_at_least(before: Option<&Self>, time: Duration, now: Instant) -> Self {
        let times = before.map_or(0, |before| before.times);
        let time = time.max(FORGIVEN) * 2_u32.pow(times.min(MOST_DOUBLED));
        Self { times: times.saturating_add(1), until: now + time, cause: Cause::Failed }
    }

    fn counts(&self, now: Instant) -> bool {
        now < self.until
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Failed,
    /// It sends, and crawls.
    Crawls,
    /// It is slower than another one, which may be the fault of both hosts.
    Slower,
}

#[derive(Debug, Default)]
pub(super) struct Distrust {
    /// By source, and by the host that it failed with.
    failures: BTreeMap<Source, BTreeMap<SocketAddr, Left>>,
    /// Blobs that a source has not sent, without an error, by the host that says so.
    lacks: BTreeMap<SocketAddr, BTreeMap<(Source, Digest), Left>>,
    /// Hosts that do not serve.
    closed: BTreeMap<SocketAddr, Left>,
    /// Hosts that said what they have, or were too slow, and that nobody has taken anything from since.
    unproven: BTreeSet<SocketAddr>,
    /// Hosts that took something as quickly as others do: if a source crawls with them, it is the source.
    quick: BTreeSet<SocketAddr>,
    /// From which network a host has taken something in which.
    reached: BTreeSet<(Network, Network)>,
    /// Networks between which nothing goes.
    apart: BTreeMap<(Network, Network), Left>,
}

impl Distrust {
    /// A host got nothing from a source.
    pub(super) fn failed(&mut self, to: SocketAddr, source: &Source, now: Instant) {
        let of_source = self.failures.entry(source.clone()).or_default();
        let left = Left::again(of_source.get(&to), now);
        of_source.insert(to, left);
        if let Source::Host(from) = source {
            self.look_between((network(to.ip()), network(from.ip())), now);
        }
    }

    /// A host has waited for this long for a source that crawls, or is slower than another one: it takes nothing from it for as long, at
    /// least.
    pub(super) fn crawls(&mut self, to: SocketAddr, source: &Source, (waited, crawls): (Duration, bool), now: Instant) {
        let cause = if crawls { Cause::Crawls } else { Cause::Slower };
        let of_source = self.failures.entry(source.clone()).or_default();
        let left = Left { cause, ..Left::for_at_least(of_source.get(&to), waited, now) };
        of_source.insert(to, left);
        if let Source::Host(from) = source {
            self.unproven.insert(*from);
        }
    }

    /// A host says what it has, which it did not get from the others.
    pub(super) fn claims(&mut self, host: SocketAddr) {
        self.unproven.insert(host);
    }

    /// A host took something as quickly as others do.
    pub(super) fn is_quick(&mut self, host: SocketAddr) {
        self.quick.insert(host);
    }

    /// Whether nobody has taken anything from a host that says that it has something.
    pub(super) fn is_unproven(&self, host: &SocketAddr) -> bool {
        self.unproven.contains(host)
    }

    /// Whether there is a firewall between two networks: several hosts failed with several, and nobody has taken anything.
    fn look_between(&mut self, pair: (Network, Network), now: Instant) {
        if self.reached.contains(&pair) {
            return;
        }
        let (mut takers, mut sources) = (BTreeSet::new(), 0);
        for (source, failures) in &self.failures {
            let Source::Host(from) = source else { continue };
            if network(from.ip()) != pair.1 {
                continue;
            }
            let of_network = failures
                .iter()
                .filter(|(to, left)| network(to.ip()) == pair.0 && left.counts(now) && left.cause == Cause::Failed);
            let failed: Vec<SocketAddr> = of_network.map(|(to, _)| *to).collect();
            sources += usize::from(!failed.is_empty());
            takers.extend(failed);
        }
        if takers.len() >= WITNESSES && sources >= WITNESSES {
            let left = Left::again(self.apart.get(&pair), now);
            self.apart.insert(pair, left);
        }
    }

    /// A host got something from another one.
    pub(super) fn took(&mut self, to: SocketAddr, from: SocketAddr) {
        let pair = (network(to.ip()), network(from.ip()));
        self.unproven.remove(&from);
        self.reached.insert(pair);
        self.apart.remove(&pair);
    }

    /// A source has not sent a blob to a host, without an error: a depot may be filled later.
    pub(super) fn lacks(&mut self, to: SocketAddr, source: &Source, blob: Digest, now: Instant) {
        let of_host = self.lacks.entry(to).or_default();
        let what = (source.clone(), blob);
        let left = Left::again(of_host.get(&what), now);
        of_host.insert(what, left);
    }

    /// A host cannot serve now, whoever asks.
    pub(super) fn close(&mut self, host: SocketAddr, now: Instant) {
        let left = Left::again(self.closed.get(&host), now);
        self.closed.insert(host, left);
    }

    /// Whether any host has reported that a source lacks something.
    pub(super) fn misses_something(&self) -> bool {
        !self.lacks.is_empty()
    }

    /// Whether a source may have a blob for a host.
    pub(super) fn may_have(&self, to: SocketAddr, source: &Source, blob: Digest, now: Instant) -> bool {
        let what = (source.clone(), blob);
        let says = |lacks: &BTreeMap<(Source, Digest), Left>| lacks.get(&what).is_some_and(|left| left.counts(now));
        let own = self.lacks.get(&to).is_some_and(says);
        !own && self.lacks.values().filter(|lacks| says(lacks)).take(WITNESSES).count() < WITNESSES
    }

    /// Whether one host takes from another.
    pub(super) fn serves(&self, to: SocketAddr, from: SocketAddr, now: Instant) -> bool {
        if self.closed.get(&from).is_some_and(|left| left.counts(now)) {
            return false;
        }
        let own = network(to.ip());
        if self.apart.get(&(own, network(from.ip()))).is_some_and(|left| left.counts(now)) {
            return false;
        }
        let Some(failures) = self.failures.get(&Source::Host(from)) else { return true };
        let believed = |host: &SocketAddr, left: &Left| match left.cause {
            Cause::Failed => true,
            Cause::Crawls => self.quick.contains(host),
            Cause::Slower => false,
        };
        let of_network = failures
            .iter()
            .filter(|(other, left)| network(other.ip()) == own && left.counts(now) && believed(other, left));
        !self.has_failed(to, &Source::Host(from), now) && of_network.count() < WITNESSES
    }

    /// Whether a source has failed with a host lately.
    pub(super) fn has_failed(&self, to: SocketAddr, source: &Source, now: Instant) -> bool {
        self.failures.get(source).and_then(|failures| failures.get(&to)).is_some_and(|left| left.counts(now))
    }

    /// Whether a host has failed with so many others that it takes from none. What crawls is no failure: it is left one by one.
    pub(super) fn is_alone(&self, to: SocketAddr, now: Instant) -> bool {
        let own = network(to.ip());
        let failed = |from: &SocketAddr| {
            let left = self.failures.get(&Source::Host(*from)).and_then(|failures| failures.get(&to));
            left.is_some_and(|left| left.counts(now) && left.cause == Cause::Failed)
        };
        let counts = |from: &SocketAddr| {
            let apart = self.apart.get(&(own, network(from.ip())));
            failed(from) && !apart.is_some_and(|left| left.counts(now))
        };
        let hosts = self.failures.keys().filter_map(|source| match source {
            Source::Host(from) => Some(from),
            _ => None,
        });
        hosts.filter(|from| counts(from)).count() >= MOST_FAILURES_OF
    }
}
