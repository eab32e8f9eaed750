//! What we resolve against what apt itself would install on an empty machine: real indexes of Debian and Ubuntu, served on
//! loopback, read by both. Every difference is a failure.
//!
//! The indexes are a snapshot of the lab's (`scripts/lab packages`), and the time is that of the snapshot.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test dies of what it did not expect, and tells how long the parts took"
)]

mod apt;
mod mirror;
mod ours;
mod sets;

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Instant;

use kubexm_spec::Arch;

use apt::Apt;
use mirror::Mirror;
use ours::Pool;
use sets::Distribution;

/// One distribution on one architecture: every set of roots, ours and apt's.
fn compare(distribution: &Distribution, arch: Arch, mirror: &Mirror) -> (usize, Vec<String>) {
    let begun = Instant::now();
    let apt = Apt::new(distribution, arch, mirror);
    let pool = Pool::load(distribution, arch, mirror);
    let loaded = begun.elapsed();
    let mut reported = Vec::new();
    let sets = sets::of(distribution);
    for set in &sets {
        let (theirs, mine) = (apt.install(set), pool.solve(set));
        let name = format!("{} {}: {}", distribution.name, arch, set.join(" "));
        match (theirs, mine) {
            (Ok(theirs), Ok(mine)) => {
                let missing: BTreeSet<_> = theirs.difference(&mine).cloned().collect();
                let extra: BTreeSet<_> = mine.difference(&theirs).cloned().collect();
                if !missing.is_empty() || !extra.is_empty() {
                    reported.push(format!("{name}\n  apt alone has: {missing:?}\n  we alone have: {extra:?}"));
                }
                assert!(theirs.len() >= set.len(), "{name}: apt says too little to compare with: {theirs:?}");
            }
            (Err(theirs), Err(mine)) => {
                reported.push(format!("{name}: neither finds a way\n  apt: {theirs}\n  we: {mine}"))
            }
            (Ok(_), Err(mine)) => reported.push(format!("{name}: apt finds a way and we do not: {mine}")),
            (Err(theirs), Ok(_)) => reported.push(format!("{name}: we find a way and apt does not: {theirs}")),
        }
    }
    eprintln!(
        "{} {arch}: {} sets, loaded in {:.1} s, all in {:.1} s",
        distribution.name,
        sets.len(),
        loaded.as_secs_f64(),
        begun.elapsed().as_secs_f64()
    );
    (sets.len(), reported)
}

/// Two at a time: most of it is waiting for apt, which has one thread.
fn compare_all(distributions: &[Distribution]) {
    let mirror = Mirror::start();
    let mut cases: Vec<_> =
        distributions.iter().flat_map(|one| one.archs.iter().map(move |arch| (one, *arch))).collect();
    cases.reverse();
    let (cases, results) = (Mutex::new(cases), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let next = cases.lock().unwrap().pop();
                    let Some((distribution, arch)) = next else { break };
                    let result = compare(distribution, arch, &mirror);
                    results.lock().unwrap().push(result);
                }
            });
        }
    });
    let results = results.into_inner().unwrap();
    assert_eq!(results.len(), distributions.iter().map(|one| one.archs.len()).sum::<usize>(), "a comparison died");
    let reported: Vec<_> = results.iter().flat_map(|(_, reported)| reported.clone()).collect();
    let all: usize = results.iter().map(|(count, _)| count).sum();
    assert!(reported.is_empty(), "{} of {all} sets differ:\n{}", reported.len(), reported.join("\n"));
}

#[test]
fn what_debian_12_needs_is_what_apt_installs() {
    compare_all(&[sets::BOOKWORM, sets::BOOKWORM_SECURITY]);
}

#[test]
fn what_debian_13_needs_is_what_apt_installs() {
    compare_all(&[sets::TRIXIE]);
}

#[test]
fn what_ubuntu_needs_is_what_apt_installs() {
    compare_all(&[sets::JAMMY, sets::NOBLE]);
}
