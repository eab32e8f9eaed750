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

/// A run on lines.
pub(super) struct Fleet {
    board: Board,
    sizes: BTreeMap<Digest, u64>,
    addresses: Vec<SocketAddr>,
    /// Bytes a second; 0 for a host that has died.
    rates: Vec<f64>,
    running: Vec<Running>,
    begun: Instant,
    passed: f64,
    /// Bytes that the controller has sent.
    sent: f64,
}

impl Fleet {
    /// The first host enters, and asks, before the others do.
    fn of(rates: &[f64], sizes: &BTreeMap<Digest, u64>) -> Self {
        let begun = Instant::now();
        let addresses: Vec<SocketAddr> = (1..=rates.len()).map(|number| host(u8::try_from(number).unwrap())).collect();
        let mut board = Board::new(addresses.iter().copied(), begun);
        let wanted = if addresses.len() > 1 { all(sizes) } else { BTreeSet::new() };
        board.enter(taker(addresses[0], sizes, &wanted));
        let (rates, sizes) = (rates.to_vec(), sizes.clone());
        let mut fleet = Self { board, sizes, addresses, rates, running: Vec::new(), begun, passed: 0.0, sent: 0.0 };
        fleet.ask(0);
        for address in &fleet.addresses[1..] {
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
                Choice::Wait(longest) => return longest.as_secs_f64(),
                Choice::Alone if self.running.iter().any(|one| one.to == to) => return f64::MAX,
                Choice::Alone => (None, Source::Controller, self.board.leave(address)),
            };
            if blobs.is_empty() {
                return f64::MAX;
            }
            let left = blobs.values().sum::<u64>() as f64;
            self.running.push(Running { to, number, source, blobs, left });
        }
    }

    fn rate(&self, one: &Running) -> f64 {
        let slow = |one: &&Running| self.rates[one.to] <= CRAWLS;
        let up = self.running.iter().filter(|other| other.source == one.source && !slow(other)).count().max(1);
        let down = self.running.iter().filter(|other| other.to == one.to).count();
        let line = match &one.source {
            Source::Host(address) => self.rates[self.addresses.binary_search(address).unwrap()],
            _ => RATE,
        };
        (line / up as f64).min(self.rates[one.to] / down as f64)
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
    let (seconds, sent) = Fleet::of(rates, &sizes()).run();
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
