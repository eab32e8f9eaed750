//! Which sources a host leaves: those that failed with it, lack what it wants, or cannot be reached from its network. What one host
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
}

impl Left {
    fn again(before: Option<&Self>, now: Instant) -> Self {
        let times = before.map_or(0, |before| before.times);
        Self { times: times.saturating_add(1), until: now + FORGIVEN * 2_u32.pow(times.min(MOST_DOUBLED)) }
    }

    fn counts(&self, now: Instant) -> bool {
        now < self.until
    }
}

#[derive(Debug, Default)]
pub(super) struct Distrust {
    /// By source, and by the host that it failed with.
    failures: BTreeMap<Source, BTreeMap<SocketAddr, Left>>,
    /// Blobs that a source has not sent, without an error, by the host that says so.
    lacks: BTreeMap<SocketAddr, BTreeSet<(Source, Digest)>>,
    /// Hosts that do not serve.
    closed: BTreeMap<SocketAddr, Left>,
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
            let of_network = failures.iter().filter(|(to, left)| network(to.ip()) == pair.0 && left.counts(now));
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
        self.reached.insert(pair);
        self.apart.remove(&pair);
    }

    /// A source has not sent a blob to a host, without an error; returns whether nobody takes it from there any more.
    pub(super) fn lacks(&mut self, to: SocketAddr, source: &Source, blob: Digest) -> bool {
        self.lacks.entry(to).or_default().insert((source.clone(), blob));
        self.is_without(source, blob)
    }

    /// A host cannot serve now, whoever asks.
    pub(super) fn close(&mut self, host: SocketAddr, now: Instant) {
        let left = Left::again(self.closed.get(&host), now);
        self.closed.insert(host, left);
    }

    /// Whether a host has reported that a source lacks something.
    pub(super) fn misses_something(&self, to: SocketAddr) -> bool {
        self.lacks.contains_key(&to)
    }

    /// Whether a source may have a blob for a host.
    pub(super) fn may_have(&self, to: SocketAddr, source: &Source, blob: Digest) -> bool {
        let own = self.lacks.get(&to).is_some_and(|lacks| lacks.contains(&(source.clone(), blob)));
        !own && !self.is_without(source, blob)
    }

    fn is_without(&self, source: &Source, blob: Digest) -> bool {
        let what = (source.clone(), blob);
        self.lacks.values().filter(|lacks| lacks.contains(&what)).take(WITNESSES).count() >= WITNESSES
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
        let of_network = failures.iter().filter(|(other, left)| network(other.ip()) == own && left.counts(now));
        !self.has_failed(to, &Source::Host(from), now) && of_network.count() < WITNESSES
    }

    /// Whether a source has failed with a host lately.
    pub(super) fn has_failed(&self, to: SocketAddr, source: &Source, now: Instant) -> bool {
        self.failures.get(source).and_then(|failures| failures.get(&to)).is_some_and(|left| left.counts(now))
    }

    /// Whether a host has failed with so many others that it takes from none.
    pub(super) fn is_alone(&self, to: SocketAddr, now: Instant) -> bool {
        let own = network(to.ip());
        let counts = |from: &SocketAddr| {
            let apart = self.apart.get(&(own, network(from.ip())));
            self.has_failed(to, &Source::Host(*from), now) && !apart.is_some_and(|left| left.counts(now))
        };
        let hosts = self.failures.keys().filter_map(|source| match source {
            Source::Host(from) => Some(from),
            _ => None,
        });
        hosts.filter(|from| counts(from)).count() >= MOST_FAILURES_OF
    }
}
