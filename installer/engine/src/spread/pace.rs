//! How fast transfers are, and when one takes longer than it should. Pure: time is given.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use super::source::Source;
use crate::link::agent::fetch::SLOW;

/// Transfers whose rates are remembered, of one kind of source.
const REMEMBERED: usize = 15;
/// Of these, the newest of one host: a host says itself what has come, and one that says everything has at once must not be the pace of all.
const OF_ONE: usize = 3;
/// One is late when it takes so many times as long as others of its kind, and [`PATIENCE`].
const LATE: u64 = 4;
/// The same while somebody else has nothing better to do.
const SLOWER: u64 = 2;
/// For a new connection and whatever else may happen once.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes a second that the time limits of deliveries assume: nobody waits for others so long that its own limit passes.
const ASSUMED: u64 = 1 << 20;
/// Less says nothing of a rate: it is gone before a line is filled.
pub(super) const TELLING: u64 = 1 << 20;

/// The rates of transfers that have ended: of all hosts together, as they have lines of one kind, and of each origin.
#[derive(Debug, Default)]
pub(super) struct Pace(BTreeMap<Option<Source>, VecDeque<(SocketAddr, u64)>>);

impl Pace {
    /// So many bytes came to a host within this time.
    pub(super) fn add(&mut self, source: &Source, to: SocketAddr, bytes: u64, within: Duration) {
        if bytes < TELLING {
            return;
        }
        let rates = self.0.entry(kind(source)).or_default();
        if rates.iter().filter(|(host, _)| *host == to).count() >= OF_ONE {
            let oldest = rates.iter().position(|(host, _)| *host == to);
            oldest.map(|oldest| rates.remove(oldest));
        }
        rates.push_back((to, rate(bytes, within)));
        if rates.len() > REMEMBERED {
            rates.pop_front();
        }
    }

    /// Bytes a second of a usual transfer. One host that crawls, or one that is near, says nothing of the others.
    pub(super) fn of(&self, source: &Source) -> Option<u64> {
        let mut of_hosts: BTreeMap<SocketAddr, Vec<u64>> = BTreeMap::new();
        self.0.get(&kind(source))?.iter().for_each(|(host, rate)| of_hosts.entry(*host).or_default().push(*rate));
        let mut rates: Vec<u64> = of_hosts.into_values().filter_map(middle).collect();
        rates.sort_unstable();
        // Of two the slower one: it costs some patience.
        rates.get(rates.len().saturating_sub(1) / 2).copied()
    }
}

fn middle(mut rates: Vec<u64>) -> Option<u64> {
    rates.sort_unstable();
    rates.get(rates.len() / 2).copied()
}

/// Bytes a second, at least 1.
pub(super) fn rate(bytes: u64, within: Duration) -> u64 {
    let millis = u64::try_from(within.as_millis()).unwrap_or(u64::MAX).max(1);
    (bytes.saturating_mul(1000) / millis).max(1)
}

/// After how long a transfer of so many bytes is late.
pub(super) fn late_after(bytes: u64, pace: Option<u64>) -> Duration {
    PATIENCE.saturating_add(Duration::from_secs(bytes.saturating_mul(LATE) / pace.unwrap_or(SLOW).max(1)))
}

/// After how long a transfer between hosts is late when nothing is known of other such transfers: what an origin sends tells how fast
/// lines are.
pub(super) fn given_up_after(bytes: u64, origin: Option<u64>) -> Duration {
    let unknown = PATIENCE.saturating_add(Duration::from_secs(bytes / SLOW));
    origin.map_or(unknown, |origin| unknown.max(late_after(bytes, Some(origin))))
}

/// After how long a transfer between hosts is taken from somebody else who has room, at this pace. What came stays, so this costs
/// little.
pub(super) fn taken_elsewhere_after(bytes: u64, pace: u64) -> Duration {
    PATIENCE.saturating_add(Duration::from_secs(bytes.saturating_mul(SLOWER) / pace.max(1)))
}

/// How long hosts wait for others while the largest transfer has so many bytes.
pub(super) fn longest_wait(bytes: u64, pace: Option<u64>) -> Duration {
    late_after(bytes, pace).min(PATIENCE.saturating_add(Duration::from_secs(bytes / ASSUMED)))
}

fn kind(source: &Source) -> Option<Source> {
    match source {
        Source::Host(_) => None,
        source => Some(source.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_says_everything_came_at_once_is_not_the_pace_of_all() {
        let host = |n: u8| SocketAddr::from(([10, 0, 0, n], 7000));
        let (mut pace, source) = (Pace::default(), Source::Host(host(1)));
        for n in 2..6 {
            pace.add(&source, host(n), 10 << 20, Duration::from_secs(10));
        }
        for _ in 0..100 {
            pace.add(&source, host(9), 10 << 20, Duration::from_millis(1));
        }
        assert_eq!(pace.of(&source), Some(1 << 20));
        // Nor that of one other.
        let mut pace = Pace::default();
        for _ in 0..3 {
            pace.add(&source, host(9), 10 << 20, Duration::from_millis(1));
        }
        pace.add(&source, host(2), 10 << 20, Duration::from_secs(10));
        assert_eq!(pace.of(&source), Some(1 << 20));
    }
}
