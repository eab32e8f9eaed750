//! Hosts on lines of a rate each, filled as the board says, in time that passes only here.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use kubexm_spec::Digest;
use tokio::time::Instant;

use super::{MIB, all, blobs, host, taker};
use crate::spread::board::{Board, Choice};
use crate::spread::source::Source;

/// The rate of the controller's line, and of every host's that is not another one, each way: 1 MiB/s.
const RATE: f64 = MIB as f64;
/// A line whose share is not missed by others.
const CRAWLS: f64 = RATE / 500.0;

struct Running {
    to: usize,
    /// None if it takes the rest as if there were no others.
    number: Option<u64>,
    source: Source,
    blobs: BTreeMap<Digest, u64>,
    left: f64,
}

impl Running {
    fn bytes(&self) -> f64 {
        self.blobs.values().sum::<u64>() as f64
    }
}

/// A run on lines.
pub(super) struct Fleet {
    board: Board,
    sizes: BTreeMap<Digest, u64>,
    addresses: Vec<SocketAddr>,
    /// Bytes a second that a host takes, and that it sends; 0 for one that has died.
    rates: Vec<f64>,
    uplinks: Vec<f64>,
    /// Bytes that came before a transfer was given up; of its blobs together.
    parts: BTreeMap<(usize, BTreeSet<Digest>), f64>,
    running: Vec<Running>,
    begun: Instant,
    passed: f64,
    /// Bytes that the controller has sent.
    sent: f64,
}

impl Fleet {
    /// Of hosts that begin with nothing, on lines of these rates, after some that have everything (`holders`), or say so, and send at
    /// these rates. The first of the others enters, and asks, before the rest do.
    fn of(rates: &[f64], holders: &[f64], sizes: &BTreeMap<Digest, u64>) -> Self {
        let begun = Instant::now();
        let count = holders.len() + rates.len();
        let addresses: Vec<SocketAddr> = (1..=count).map(|number| host(u8::try_from(number).unwrap())).collect();
        let mut board = Board::new(addresses.iter().copied(), begun);
        let wanted = if count > 1 { all(sizes) } else { BTreeSet::new() };
        for holder in &addresses[..holders.len()] {
            board.claims(*holder, wanted.iter().copied());
        }
        board.enter(taker(addresses[holders.len()], sizes, &wanted));
        let uplinks: Vec<f64> = holders.iter().chain(rates).copied().collect();
        let rates = holders.iter().map(|_| RATE).chain(rates.iter().copied()).collect();
        let (running, parts) = (Vec::new(), BTreeMap::new());
        let sizes = sizes.clone();
        let mut fleet = Self { board, sizes, addresses, rates, uplinks, parts, running, begun, passed: 0.0, sent: 0.0 };
        fleet.ask(holders.len());
        for address in &fleet.addresses[holders.len() + 1..] {
            fleet.board.enter(taker(*address, &fleet.sizes, &wanted));
        }
        fleet
    }

    fn now(&self) -> Instant {
        self.begun + Duration::from_secs_f64(self.passed)
    }

    /// Begins what a host takes next; returns for how long it waits.
    fn ask(&mut self, to: usize) -> f64 {
        let address = self.addresses[to];
        loop {
            let choice = self.board.next(address, self.now());
            let (number, source, blobs) = match choice {
                Choice::Take(transfer) => (Some(transfer.number), transfer.source, transfer.blobs),
                Choice::GiveUp(number) => {
                    let at = self.running.iter().position(|one| one.number == Some(number)).unwrap();
                    let one = self.running.swap_remove(at);
                    self.parts.insert((to, all(&one.blobs)), one.bytes() - one.left);
                    continue;
                }
                Choice::Wait(longest) => return longest.as_secs_f64(),
                Choice::Alone if self.running.iter().any(|one| one.to == to) => return f64::MAX,
                Choice::Alone => (None, Source::Controller, self.board.leave(address)),
            };
            if blobs.is_empty() {
                return f64::MAX;
            }
            let mut one = Running { to, number, source, blobs, left: 0.0 };
            let parts = self.parts.iter().filter(|((host, part), _)| *host == to && part.is_subset(&all(&one.blobs)));
            one.left = one.bytes() - parts.map(|(_, bytes)| bytes).sum::<f64>();
            self.parts.retain(|(host, part), _| *host != to || !part.is_subset(&all(&one.blobs)));
            self.running.push(one);
        }
    }

    /// What the line of its source leaves for it.
    fn offered(&self, one: &Running) -> f64 {
        let slow = |one: &&Running| self.rates[one.to] <= CRAWLS;
        let up = self.running.iter().filter(|other| other.source == one.source && !slow(other)).count().max(1);
        let line = match &one.source {
            Source::Host(address) => self.uplinks[self.addresses.binary_search(address).unwrap()],
            _ => RATE,
        };
        line / up as f64
    }

    /// Of the line of the host that takes it, each has a part, and what others leave of theirs.
    fn rate(&self, one: &Running) -> f64 {
        let beside = || self.running.iter().filter(|other| other.to == one.to);
        let part = self.rates[one.to] / beside().count() as f64;
        let others: f64 = beside().map(|other| self.offered(other).min(part)).sum();
        let left = self.rates[one.to] - (others - self.offered(one).min(part));
        self.offered(one).min(part.max(left))
    }

    fn is_open(&self, to: usize) -> bool {
        self.rates[to] > CRAWLS
            && (!self.board.is_filled(self.addresses[to])
                || self.running.iter().any(|one| one.to == to && one.number.is_none()))
    }

    /// Runs until every host that does not crawl has everything; returns after how many seconds.
    fn run(mut self) -> (f64, f64) {
        while (0..self.addresses.len()).any(|to| self.is_open(to)) {
            let waits = (0..self.addresses.len()).map(|to| self.ask(to)).fold(f64::MAX, f64::min);
            let rates: Vec<f64> = self.running.iter().map(|one| self.rate(one)).collect();
            let ends = self.running.iter().zip(&rates).filter(|(_, rate)| **rate > 0.0);
            let next = ends.map(|(one, rate)| one.left / rate).fold(f64::MAX, f64::min).min(waits + 0.001);
            assert!(next < 1e9, "nothing will ever move: {:?}", self.board);
            self.passed += next;
            for (one, rate) in self.running.iter_mut().zip(&rates) {
                one.left -= rate * next;
                if one.source == Source::Controller {
                    self.sent += rate * next;
                }
            }
            self.settle();
        }
        (self.passed, self.sent)
    }

    fn settle(&mut self) {
        let now = self.now();
        let (done, left): (Vec<Running>, Vec<Running>) =
            std::mem::take(&mut self.running).into_iter().partition(|one| one.left < 1.0);
        self.running = left;
        for Running { to, number, blobs, .. } in done {
            let address = self.addresses[to];
            super::end(&mut self.board, number, address, &blobs, now);
        }
    }
}

/// The programs of a worker.
fn sizes() -> BTreeMap<Digest, u64> {
    blobs(&[75, 70, 60, 55, 50, 35, 18, 16, 12, 10].map(|size| size * MIB))
}

/// After how many seconds every host has everything, but those that crawl, and how often the controller has sent it.
fn filled(rates: &[f64]) -> (f64, f64) {
    filled_beside(rates, &[])
}

/// The same beside hosts that have everything, or say so, and send at these rates.
fn filled_beside(rates: &[f64], holders: &[f64]) -> (f64, f64) {
    let (seconds, sent) = Fleet::of(rates, holders, &sizes()).run();
    let whole = sizes().values().sum::<u64>() as f64;
    (seconds, sent / whole)
}

#[test]
fn twenty_hosts_take_less_than_two_and_a_half_times_as_long_as_one() {
    let [one, four, twenty, hundred] = [1, 4, 20, 100].map(|hosts| filled(&vec![RATE; hosts]));
    assert!((one.0 - 401.0).abs() < 1.0, "{one:?}");
    assert!(four.0 <= 1.6 * one.0, "four: {four:?}");
    assert!(twenty.0 <= 2.5 * one.0, "twenty: {twenty:?}");
    assert!(hundred.0 <= 3.5 * one.0, "a hundred: {hundred:?}");
    assert!(four.1 < 1.3 && twenty.1 < 1.6 && hundred.1 < 2.0, "{four:?} {twenty:?} {hundred:?}");
}

#[test]
fn a_first_taker_that_crawls_holds_nobody_up() {
    for hosts in [4, 20] {
        let good = filled(&vec![RATE; hosts]).0;
        let mut rates = vec![RATE; hosts];
        rates[0] = CRAWLS;
        let bad = filled(&rates).0;
        assert!(bad <= 1.35 * good, "{hosts} hosts: {bad}, without it {good}");
    }
}

#[test]
fn a_first_taker_that_dies_holds_nobody_up() {
    for hosts in [4, 20] {
        let good = filled(&vec![RATE; hosts]).0;
        let mut rates = vec![RATE; hosts];
        rates[0] = 0.0;
        let bad = filled(&rates).0;
        assert!(bad <= 1.35 * good, "{hosts} hosts: {bad}, without it {good}");
    }
}

#[test]
fn takers_that_crawl_and_have_all_places_of_the_controller_are_passed_by_in_the_end() {
    let good = filled(&[RATE; 6]).0;
    let bad = filled(&[CRAWLS, CRAWLS, RATE, RATE, RATE, RATE, RATE, RATE]).0;
    assert!(bad <= 1.35 * good, "{bad}, without them {good}");
}

#[test]
fn hosts_that_have_everything_and_crawl_when_they_send_it_hold_nobody_up() {
    for takers in [1, 2, 4, 20] {
        let good = filled(&vec![RATE; takers]).0;
        for holders in [1, 2, 3] {
            for rate in [CRAWLS, RATE / 100.0, RATE / 20.0, RATE / 8.0] {
                let bad = filled_beside(&vec![RATE; takers], &vec![rate; holders]).0;
                assert!(bad <= 1.35 * good, "{takers} beside {holders} that send {rate}: {bad}, without them {good}");
            }
        }
    }
}

#[test]
fn hosts_that_have_everything_and_send_it_are_taken_from() {
    for takers in [1, 4, 20] {
        let (alone, beside) = (filled(&vec![RATE; takers]), filled_beside(&vec![RATE; takers], &[RATE; 3]));
        assert!(beside.0 <= alone.0 && beside.1 <= 1.0, "{takers}: {beside:?}, without them {alone:?}");
    }
}

#[test]
fn a_host_that_is_filled_first_and_crawls_when_it_sends_holds_nobody_up() {
    for hosts in [4, 20] {
        let good = filled(&vec![RATE; hosts]).0;
        for rate in [CRAWLS, RATE / 20.0, RATE / 8.0] {
            let mut fleet = Fleet::of(&vec![RATE; hosts], &[], &sizes());
            fleet.uplinks[0] = rate;
            let bad = fleet.run().0;
            // The largest blob, with two takers, is a third of all that four hosts wait for.
            assert!(bad <= 1.5 * good, "{hosts} hosts, the first sends {rate}: {bad}, without it {good}");
        }
    }
}

#[test]
fn no_mix_of_lines_takes_much_longer_than_the_controller_alone() {
    let mut state = 88_172_645_463_325_252_u64;
    let mut below = |most: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % most).unwrap()
    };
    let uplinks = [RATE, RATE, RATE, RATE / 3.0, RATE / 8.0, RATE / 30.0, CRAWLS];
    let (mut times, count) = (0.0, 300);
    for _ in 0..count {
        let (hosts, before) = (1 + below(8), below(4));
        let rates: Vec<f64> = (0..hosts).map(|_| [RATE, RATE, RATE, RATE / 2.0, RATE / 4.0][below(5)]).collect();
        let holders: Vec<f64> = (0..before).map(|_| uplinks[below(7)]).collect();
        let mut fleet = Fleet::of(&rates, &holders, &sizes());
        fleet.uplinks[before..].iter_mut().for_each(|uplink| *uplink = uplinks[below(7)]);
        let told = format!("{rates:?} send {:?}", fleet.uplinks);
        let slowest = rates.iter().copied().fold(f64::MAX, f64::min);
        let alone = 401.0 * (hosts as f64).max(RATE / slowest);
        let took = fleet.run().0;
        assert!(took <= 1.75 * alone, "{told}: {took}, without others {alone}");
        times += took / alone;
    }
    assert!(times / f64::from(count) < 0.85, "{}", times / f64::from(count));
}
