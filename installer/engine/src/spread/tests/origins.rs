//! Who takes from the controller and from depots, and how long others wait for that.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::{MIB, all, blobs, end, host, next, taken, taker};
use crate::spread::board::{Board, Choice, Taker, Transfer};
use crate::spread::source::Source;

#[test]
fn no_host_has_all_places_of_an_origin_for_what_others_want() {
    let now = Instant::now();
    let (mut board, sizes) = (Board::new([host(1), host(2)], now), blobs(&[40 * MIB, 30 * MIB, 20 * MIB]));
    let wanted = all(&sizes);
    board.enter(taker(host(1), &sizes, &wanted));
    taken(board.next(host(1), now));
    assert!(matches!(board.next(host(1), now), Choice::Wait(_)));
    // It is there for who comes later.
    assert_eq!(taken(next(&mut board, &taker(host(2), &sizes, &wanted), now)).source, Source::Controller);
}

#[test]
fn several_depots_share_the_hosts_and_the_controller_sends_nothing_meanwhile() {
    let now = Instant::now();
    let (mut board, sizes) = (Board::new([1, 2, 3, 4, 5].map(host), now), blobs(&[50 * MIB; 6]));
    let depots = ["https://10.0.0.8:5443", "https://10.0.0.9:5443"].map(|url| Source::Depot(url.to_owned()));
    let origins: Vec<Source> = depots.iter().cloned().chain([Source::Controller]).collect();
    let wanted = all(&sizes);
    let mut takers: BTreeMap<Source, usize> = BTreeMap::new();
    for number in [1, 2, 3, 4, 5] {
        let (origins, wanted) = (origins.clone(), wanted.clone());
        board.enter(Taker { address: host(number), missing: sizes.clone(), origins, wanted });
    }
    for number in [1, 2, 3, 4, 5] {
        if let Choice::Take(transfer) = board.next(host(number), now) {
            *takers.entry(transfer.source).or_default() += 1;
        }
    }
    assert_eq!(takers, depots.map(|depot| (depot, 2)).into());
}

#[test]
fn an_origin_that_sends_nothing_helps_a_host_that_waits_for_others() {
    let now = Instant::now();
    let (mut board, sizes) = (Board::new([1, 2, 3, 4].map(host), now), blobs(&[40 * MIB]));
    let wanted = all(&sizes);
    board.has(host(1), wanted.clone());
    for number in [2, 3, 4] {
        board.enter(taker(host(number), &sizes, &wanted));
    }
    // The only one that has it sends it to two.
    let from = |board: &mut Board, number: u8, now| board.next(host(number), now);
    assert_eq!(taken(from(&mut board, 2, now)).source, Source::Host(host(1)));
    assert_eq!(taken(from(&mut board, 3, now)).source, Source::Host(host(1)));
    let Choice::Wait(wait) = from(&mut board, 4, now) else { panic!("it does not wait") };
    assert_eq!(wait, Duration::from_secs(5));
    assert_eq!(taken(from(&mut board, 4, now + wait)).source, Source::Controller);
}

#[test]
fn what_comes_much_slower_than_the_rest_is_no_copy_and_takes_no_place() {
    let now = Instant::now();
    let (mut board, sizes) = (Board::new([host(1), host(2)], now), blobs(&[40 * MIB, 40 * MIB]));
    let wanted = all(&sizes);
    let slow = taken(next(&mut board, &taker(host(1), &sizes, &wanted), now));
    let quick = taken(next(&mut board, &taker(host(2), &sizes, &wanted), now));
    let at = |seconds| now + Duration::from_secs(seconds);
    end(&mut board, Some(quick.number), host(2), &quick.blobs, at(10));
    // The other one may take four times as long as this one did, and ten seconds.
    assert!(matches!(board.next(host(2), at(10)), Choice::Wait(_)));
    assert!(matches!(board.next(host(2), at(49)), Choice::Wait(_)));
    let again = taken(board.next(host(2), at(50)));
    assert_eq!((again.source, again.blobs), (Source::Controller, slow.blobs));
}

#[test]
fn a_slow_line_of_the_controller_makes_nobody_late() {
    let now = Instant::now();
    let (mut board, sizes) = (Board::new([1, 2, 3, 4].map(host), now), blobs(&[90 * MIB; 8]));
    let wanted = all(&sizes);
    for number in 1..=4 {
        board.enter(taker(host(number), &sizes, &wanted));
    }
    let running: Vec<Transfer> = [1, 2].map(|number| taken(board.next(host(number), now))).into();
    // 50 kB/s each: what is known of them is their progress.
    let (mut begun, mut passed) = (0, 0);
    while passed < 900 {
        passed += 5;
        running.iter().for_each(|one| board.progress(one.number, 250_000));
        for number in 1..=4 {
            begun +=
                usize::from(matches!(board.next(host(number), now + Duration::from_secs(passed)), Choice::Take(_)));
        }
    }
    assert!(begun <= 4, "{begun} more began in a quarter of an hour");
}
