//! The board, with time that the tests make.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use kubexm_spec::Digest;
use tokio::time::Instant;

use crate::spread::board::{Board, Choice, Taker, Transfer};
use crate::spread::source::Source;

mod lines;
mod origins;
mod reports;

const MIB: u64 = 1 << 20;

fn host(number: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, number], 5444))
}

fn blob(name: &str) -> Digest {
    Digest::of(name)
}

fn blobs(sizes: &[u64]) -> BTreeMap<Digest, u64> {
    sizes.iter().enumerate().map(|(at, size)| (blob(&at.to_string()), *size)).collect()
}

fn all(blobs: &BTreeMap<Digest, u64>) -> BTreeSet<Digest> {
    blobs.keys().copied().collect()
}

fn taker(at: SocketAddr, missing: &BTreeMap<Digest, u64>, wanted: &BTreeSet<Digest>) -> Taker {
    Taker { address: at, missing: missing.clone(), origins: vec![Source::Controller], wanted: wanted.clone() }
}

/// What a host does next; it enters if it has not.
fn next(board: &mut Board, taker: &Taker, now: Instant) -> Choice {
    if board.is_filled(taker.address) {
        board.enter(taker.clone());
    }
    board.next(taker.address, now)
}

/// A transfer has ended well; None for what a host took without the others.
fn end(board: &mut Board, number: Option<u64>, to: SocketAddr, blobs: &BTreeMap<Digest, u64>, now: Instant) {
    if let Some(number) = number {
        board.ended(number, blobs.values().sum(), now);
    }
    board.has(to, blobs.keys().copied());
    board.came(to, blobs.keys().copied());
}

#[track_caller]
fn taken(choice: Choice) -> Transfer {
    match choice {
        Choice::Take(transfer) => transfer,
        other => panic!("no transfer: {other:?}"),
    }
}

#[test]
fn the_controller_sends_each_blob_once_and_the_largest_first() {
    let now = Instant::now();
    let (mut board, sizes) = (Board::new([host(1), host(2), host(3)], now), blobs(&[20 * MIB, 40 * MIB, 30 * MIB]));
    let wanted = all(&sizes);
    for number in [1, 2, 3] {
        board.enter(taker(host(number), &sizes, &wanted));
    }
    let first = taken(next(&mut board, &taker(host(1), &sizes, &wanted), now));
    let second = taken(next(&mut board, &taker(host(2), &sizes, &wanted), now));
    assert_eq!((first.source, all(&first.blobs)), (Source::Controller, [blob("1")].into()));
    assert_eq!((second.source, all(&second.blobs)), (Source::Controller, [blob("2")].into()));
    // Two at a time: the third host waits, and is first served by the host that is whole.
    assert!(matches!(next(&mut board, &taker(host(3), &sizes, &wanted), now), Choice::Wait(_)));
    board.ended(first.number, 0, now);
    board.has(host(1), [blob("1")]);
    board.came(host(1), [blob("1")]);
    let third = taken(next(&mut board, &taker(host(3), &sizes, &wanted), now));
    assert_eq!((third.source, all(&third.blobs)), (Source::Controller, [blob("0")].into()));
    let fourth = taken(next(&mut board, &taker(host(3), &sizes, &wanted), now));
    assert_eq!((fourth.source, all(&fourth.blobs)), (Source::Host(host(1)), [blob("1")].into()));
}

#[test]
fn small_blobs_are_taken_together_up_to_a_bound() {
    let now = Instant::now();
    let (mut board, sizes) = (Board::new([host(1), host(2)], now), blobs(&[MIB; 100]));
    let first = taken(next(&mut board, &taker(host(1), &sizes, &all(&sizes)), now));
    assert_eq!(first.blobs.len(), 3);
}

#[test]
fn what_nobody_else_wants_meanwhile_comes_at_once_and_holds_nobody_up() {
    let now = Instant::now();
    let (mut board, sizes) = (Board::new([host(1), host(2)], now), blobs(&[900 * MIB, 800 * MIB, MIB]));
    let private = taken(next(&mut board, &taker(host(1), &sizes, &[blob("2")].into()), now));
    assert_eq!(all(&private.blobs), [blob("0"), blob("1")].into());
    let shared = taken(next(&mut board, &taker(host(1), &sizes, &[blob("2")].into()), now));
    assert_eq!(all(&shared.blobs), [blob("2")].into());
}

#[test]
fn the_nearest_source_is_chosen_and_no_source_has_more_than_two_takers() {
    let now = Instant::now();
    let far = SocketAddr::from(([10, 0, 9, 1], 5444));
    let hosts = [far, host(2), host(3), host(4), host(5), host(6)];
    let (mut board, sizes) = (Board::new(hosts, now), blobs(&[MIB]));
    let wanted = all(&sizes);
    board.has(far, wanted.clone());
    board.has(host(2), wanted.clone());
    for number in [3, 4, 5, 6] {
        board.enter(taker(host(number), &sizes, &wanted));
    }
    let from = |board: &mut Board, to: u8| taken(next(board, &taker(host(to), &sizes, &wanted), now)).source;
    assert_eq!(from(&mut board, 3), Source::Host(host(2)));
    assert_eq!(from(&mut board, 4), Source::Host(host(2)));
    assert_eq!(from(&mut board, 5), Source::Host(far));
    assert_eq!(from(&mut board, 6), Source::Host(far));
}

#[test]
fn a_source_that_failed_is_left_by_that_host_and_after_two_by_all() {
    let now = Instant::now();
    let (mut board, sizes) = (Board::new([1, 2, 3, 4].map(host), now), blobs(&[MIB]));
    let wanted = all(&sizes);
    board.has(host(1), wanted.clone());
    let once = |board: &mut Board, to: u8| {
        let transfer = taken(next(board, &taker(host(to), &sizes, &wanted), now));
        board.ended(transfer.number, 0, now);
        board.leave(host(to));
        transfer.source
    };
    assert_eq!(once(&mut board, 2), Source::Host(host(1)));
    board.failed(host(2), &Source::Host(host(1)), now);
    assert_eq!(once(&mut board, 2), Source::Controller);
    assert_eq!(once(&mut board, 3), Source::Host(host(1)));
    board.failed(host(3), &Source::Host(host(1)), now);
    assert_eq!(once(&mut board, 4), Source::Controller);
}

#[test]
fn a_host_that_fails_with_everybody_is_filled_as_if_there_were_no_others() {
    let now = Instant::now();
    let (mut board, sizes) = (Board::new([1, 2, 3, 4, 5].map(host), now), blobs(&[MIB]));
    let wanted = all(&sizes);
    for number in [1, 2, 3] {
        board.has(host(number), wanted.clone());
        board.failed(host(5), &Source::Host(host(number)), now);
    }
    assert_eq!(next(&mut board, &taker(host(5), &sizes, &wanted), now), Choice::Alone);
    assert!(matches!(next(&mut board, &taker(host(4), &sizes, &wanted), now), Choice::Take(_)));
}

#[test]
fn a_depot_that_lacks_a_blob_or_fails_is_followed_by_the_controller() {
    let now = Instant::now();
    let (mut board, sizes) = (Board::new([host(1), host(2)], now), blobs(&[20 * MIB, 20 * MIB]));
    let (depot, wanted) = (Source::Depot("https://10.0.0.9:5443".to_owned()), all(&sizes));
    let origins = [depot.clone(), Source::Controller];
    let taker = Taker { address: host(1), missing: sizes.clone(), origins: origins.to_vec(), wanted };
    let first = taken(next(&mut board, &taker, now));
    assert_eq!(first.source, depot);
    board.ended(first.number, 0, now);
    let lacking = *all(&first.blobs).first().unwrap();
    board.lacks(host(1), &depot, lacking, now);
    let mut sources: Vec<Source> = (0..2).map(|_| taken(next(&mut board, &taker, now)).source).collect();
    sources.sort();
    assert_eq!(sources, origins);
    board.failed(host(2), &depot, now);
    let other = Taker { address: host(2), ..taker.clone() };
    board.ended(1, 0, now);
    board.ended(2, 0, now);
    assert_eq!(taken(next(&mut board, &other, now)).source, Source::Controller);
}

#[test]
fn hosts_stop_waiting_for_each_other_when_nothing_moves() {
    let now = Instant::now();
    let (mut board, sizes) = (Board::new([1, 2, 3].map(host), now), blobs(&[30 * MIB, 30 * MIB]));
    let wanted = all(&sizes);
    for number in [1, 2, 3] {
        board.enter(taker(host(number), &sizes, &wanted));
    }
    for number in [1, 2] {
        taken(next(&mut board, &taker(host(number), &sizes, &wanted), now));
    }
    let Choice::Wait(longest) = next(&mut board, &taker(host(3), &sizes, &wanted), now) else {
        panic!("it does not wait")
    };
    assert_eq!(longest, Duration::from_secs(40));
    assert!(matches!(next(&mut board, &taker(host(3), &sizes, &wanted), now + longest / 2), Choice::Wait(_)));
    let impatient = taken(next(&mut board, &taker(host(3), &sizes, &wanted), now + longest));
    assert_eq!((impatient.source, impatient.blobs.len()), (Source::Controller, 1));
}
