//! What hosts report of each other: failures, lies, firewalls.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use kubexm_spec::Digest;
use tokio::time::Instant;

use super::{MIB, all, blob, blobs, host, next, taken, taker};
use crate::spread::board::{Board, Choice, Taker};
use crate::spread::source::Source;

/// Of another network.
fn far(number: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 9, number], 5444))
}

/// Whom a host takes the only blob from; the transfer brings nothing.
fn asked(board: &mut Board, to: SocketAddr, now: Instant) -> Source {
    let sizes = blobs(&[MIB]);
    let transfer = taken(next(board, &taker(to, &sizes, &all(&sizes)), now));
    board.ended(transfer.number, 0, now);
    board.leave(to);
    transfer.source
}

/// A board where the first of these have the only blob.
fn board(hosts: &[SocketAddr], have: usize, now: Instant) -> (Board, BTreeSet<Digest>) {
    let (mut board, blobs) = (Board::new(hosts.iter().copied(), now), all(&blobs(&[MIB])));
    hosts[..have].iter().for_each(|host| board.has(*host, blobs.clone()));
    (board, blobs)
}

#[test]
fn a_host_that_says_that_another_lacks_a_blob_is_believed_for_itself_alone() {
    let now = Instant::now();
    let (mut board, blobs) = board(&[1, 2, 3, 4].map(host), 1, now);
    let (holder, blob) = (Source::Host(host(1)), *blobs.first().unwrap());
    board.lacks(host(2), &holder, blob, now);
    assert_eq!(asked(&mut board, host(2), now), Source::Controller);
    assert_eq!(asked(&mut board, host(3), now), holder);
    board.lacks(host(2), &holder, blob, now);
    assert_eq!(asked(&mut board, host(4), now), holder);
    // A second host says the same.
    board.lacks(host(3), &holder, blob, now);
    assert_eq!(asked(&mut board, host(4), now), Source::Controller);
}

#[test]
fn a_host_that_says_that_depots_lack_everything_takes_nobody_from_them() {
    let now = Instant::now();
    let (mut board, blobs) = board(&[1, 2].map(host), 0, now);
    let depot = Source::Depot("https://10.0.0.9:5443".to_owned());
    board.lacks(host(1), &depot, *blobs.first().unwrap(), now);
    let sizes = super::blobs(&[MIB]);
    let origins = vec![depot.clone(), Source::Controller];
    let honest = Taker { address: host(2), missing: sizes, origins, wanted: blobs };
    assert_eq!(taken(next(&mut board, &honest, now)).source, depot);
}

#[test]
fn a_firewall_between_two_networks_closes_nobody_for_hosts_of_the_own_one() {
    let now = Instant::now();
    let (mut board, _) = board(&[host(1), host(2), host(3), host(4), far(1), far(2), far(3)], 2, now);
    board.failed(far(1), &Source::Host(host(1)), now);
    board.failed(far(2), &Source::Host(host(1)), now);
    // Two of the other network have failed with it, and it is near.
    assert_eq!(asked(&mut board, host(3), now), Source::Host(host(1)));
    board.failed(far(2), &Source::Host(host(2)), now);
    board.failed(far(3), &Source::Host(host(2)), now);
    assert_eq!(asked(&mut board, host(4), now), Source::Host(host(1)));
}

#[test]
fn hosts_behind_a_firewall_do_not_try_each_host_beyond_it_and_take_from_each_other() {
    let now = Instant::now();
    let (mut board, blobs) = board(&[host(1), host(2), host(3), far(1), far(2), far(3)], 3, now);
    board.failed(far(1), &Source::Host(host(1)), now);
    board.failed(far(2), &Source::Host(host(2)), now);
    assert_eq!(asked(&mut board, far(3), now), Source::Controller);
    board.has(far(1), blobs);
    assert_eq!(asked(&mut board, far(2), now), Source::Host(far(1)));
    // It failed with three there, and is not alone for that.
    board.failed(far(3), &Source::Host(host(1)), now);
    board.failed(far(3), &Source::Host(host(2)), now);
    board.failed(far(3), &Source::Host(host(3)), now);
    assert_eq!(asked(&mut board, far(3), now), Source::Host(far(1)));
}

#[test]
fn a_source_that_failed_is_asked_again_after_a_while() {
    let now = Instant::now();
    let (mut board, _) = board(&[1, 2, 3].map(host), 1, now);
    let holder = Source::Host(host(1));
    board.failed(host(2), &holder, now);
    board.failed(host(3), &holder, now);
    assert_eq!(asked(&mut board, host(2), now + Duration::from_secs(59)), Source::Controller);
    assert_eq!(asked(&mut board, host(2), now + Duration::from_secs(61)), holder);
    // The second time it takes longer.
    board.failed(host(2), &holder, now);
    assert_eq!(asked(&mut board, host(2), now + Duration::from_secs(61)), Source::Controller);
}

#[test]
fn a_host_that_does_not_begin_to_serve_is_left_for_a_while_and_nobody_else_is_blamed() {
    let now = Instant::now();
    let (mut board, blobs) = board(&[1, 2, 3, 4, 5].map(host), 3, now);
    for number in [1, 2, 3] {
        board.close(host(number), now);
    }
    let sizes = super::blobs(&[MIB]);
    let choice = next(&mut board, &taker(host(4), &sizes, &blobs), now);
    assert!(matches!(choice, Choice::Take(ref transfer) if transfer.source == Source::Controller), "{choice:?}");
    assert_eq!(asked(&mut board, host(5), now + Duration::from_secs(61)), Source::Host(host(1)));
}

#[test]
fn a_host_that_is_rolled_back_is_taken_from_no_more() {
    let now = Instant::now();
    let (mut board, _) = board(&[1, 2].map(host), 1, now);
    board.forget(host(1));
    assert_eq!(asked(&mut board, host(2), now), Source::Controller);
}

#[test]
fn what_one_source_lacked_is_asked_for_there_again_after_a_while() {
    let now = Instant::now();
    let (mut board, blobs) = board(&[1, 2].map(host), 0, now);
    let depot = Source::Depot("https://10.0.0.9:5443".to_owned());
    let sizes = super::blobs(&[MIB]);
    let filled =
        Taker { address: host(2), missing: sizes, origins: vec![depot.clone(), Source::Controller], wanted: blobs };
    let mut from = |now| {
        let transfer = taken(next(&mut board, &filled, now));
        board.ended(transfer.number, 0, now);
        board.lacks(host(2), &depot, blob("0"), now);
        board.leave(host(2));
        transfer.source
    };
    assert_eq!(from(now), depot);
    assert_eq!(from(now + Duration::from_secs(30)), Source::Controller);
    assert_eq!(from(now + Duration::from_secs(1000)), depot);
}
