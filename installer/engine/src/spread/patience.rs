//! Which transfers are late or given up, and how long hosts wait for others.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::Instant;

use super::board::{Board, Underway};
use super::pace;
use super::source::Source;

/// How long hosts that could take something do so from an origin that sends nothing.
const IDLE: Duration = Duration::from_secs(5);
/// How often the wait for others may double.
const MOST_DOUBLED: u32 = 6;

/// How long a transfer may take.
pub(super) struct Due {
    /// Then nobody counts on it.
    pub(super) late: Instant,
    /// Then somebody else has room for it, who is known to be quicker.
    elsewhere: Option<Instant>,
    /// Then it is looked for somebody else.
    pub(super) look: Instant,
}

impl Board {
    /// Finds the transfers that are late now, gives up those of hosts that crawl, and finds when the next one will be late.
    pub(super) fn look_at_the_clock(&mut self, now: Instant) {
        self.review = None;
        let mut given_up = Vec::new();
        let due: Vec<(u64, Due)> = self
            .underway
            .iter()
            .filter(|(_, one)| !one.private)
            .map(|(number, one)| (*number, self.due(one, now)))
            .collect();
        for (number, due) in due {
            let Some(one) = self.underway.get_mut(&number) else { continue };
            one.late |= due.late <= now;
            let left = due.late.min(due.elsewhere.unwrap_or(due.late));
            match one.source {
                Source::Host(_) if left <= now => given_up.push((number, one.late)),
                _ if one.late => {}
                _ => self.review_at(left.min(due.look)),
            }
        }
        for (number, late) in given_up {
            let Some(one) = self.underway.remove(&number) else { continue };
            if let Some(given) = self.given.get_mut(&one.to) {
                given.retain(|transfer| transfer.number != number);
            }
            let waited = now.saturating_duration_since(one.begun);
            self.distrust.crawls(one.to, &one.source, (waited, late), now);
            self.given_up.entry(one.to).or_default().push_back(number);
            self.moved = now;
        }
    }

    pub(super) fn review_at(&mut self, at: Instant) {
        self.review = Some(self.review.map_or(at, |review| review.min(at)));
    }

    /// When nobody counts on a transfer any more.
    pub(super) fn due(&self, one: &Underway, now: Instant) -> Due {
        let (bytes, pace) = (one.bytes(), self.pace_of(&one.source, now));
        let (late, none) = (one.begun + pace::late_after(bytes, pace), None);
        if !one.source.is_host() {
            return Due { late, elsewhere: none, look: late };
        }
        let taker = self.takers.get(&one.to);
        let late = match pace {
            Some(_) => late,
            None => {
                let origins = taker.into_iter().flat_map(|taker| &taker.origins);
                let fastest = origins.filter_map(|origin| self.pace_of(origin, now)).max();
                one.begun + pace::given_up_after(bytes, fastest)
            }
        };
        let patient = one.begun + pace::PATIENCE;
        if patient > now {
            return Due { late, elsewhere: none, look: patient };
        }
        let sources = taker.map(|taker| self.others_with_room(taker, (&one.source, &one.blobs), now));
        let paces = sources.into_iter().flatten().filter_map(|source| self.pace_of(&source, now));
        let elsewhere = paces.max().map(|pace| one.begun + pace::taken_elsewhere_after(bytes, pace));
        Due { late, elsewhere, look: late }
    }

    /// Bytes a second of a usual transfer from a source: of those that have ended, or of the best one that is underway.
    fn pace_of(&self, source: &Source, now: Instant) -> Option<u64> {
        self.pace.of(source).or_else(|| {
            let moving = self.underway.values().filter(|one| one.source == *source && one.moved > 0);
            moving.map(|one| pace::rate(one.moved, now.saturating_duration_since(one.begun))).max()
        })
    }

    /// Lets one of the hosts that have nothing underway take from an origin, if they have waited long enough for the others; else it
    /// is looked at again then.
    pub(super) fn lose_patience(&mut self, mut idle: BTreeSet<SocketAddr>, now: Instant) {
        for one in self.underway.values() {
            idle.remove(&one.to);
        }
        let lacking = |host: &SocketAddr| self.takers.get(host).map_or(0, |taker| taker.missing.values().sum::<u64>());
        let Some(taker) = idle.iter().max_by_key(|host| lacking(host)).and_then(|host| self.takers.get(host)) else {
            return;
        };
        let Some((source, blobs)) = self.without_waiting(taker, now) else { return };
        let busy = self.underway.values().any(|one| one.source == source && !one.private && !one.late);
        let wait = match busy {
            false => IDLE,
            true => self.longest_wait(now).saturating_mul(2_u32.pow(self.impatient.min(MOST_DOUBLED))),
        };
        let until = self.moved + wait;
        if until > now {
            self.review_at(until);
            return;
        }
        self.impatient = self.impatient.saturating_add(u32::from(busy));
        let host = taker.address;
        self.begin(host, source, blobs, false, now);
        // There may be another one, which waits from now on.
        self.changed = true;
    }

    fn longest_wait(&self, now: Instant) -> Duration {
        let shared = self.underway.values().filter(|one| !one.private && !one.late);
        let waits = shared.map(|one| pace::longest_wait(one.bytes(), self.pace_of(&one.source, now)));
        waits.max().unwrap_or(pace::PATIENCE)
    }
}
