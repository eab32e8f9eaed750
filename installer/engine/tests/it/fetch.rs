//! A node takes blobs from depots: real depots over TLS, with wires between that break as networks do.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

#[path = "common/depots.rs"]
pub mod depots;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use depots::{Site, authority, blob_path, wanted};
use kubexm_engine::link::Fetched;
use kubexm_engine::link::agent::fetch::{Limits, fetch};
use kubexm_spec::Digest;

const MIB: usize = 1 << 20;
/// A blob of several writes on either side, so that a break falls into its middle.
const LARGE: usize = 8 * MIB;
/// TLS, HTTP heads and what a break loses of bytes that were on their way.
const WASTE: u64 = 2 << 20;

/// For what nobody keeps silent in: a machine with much to do is no depot that has stopped.
const PATIENT: Limits =
    Limits { whole: Duration::from_secs(120), connect: Duration::from_secs(30), stall: Duration::from_secs(60) };

/// What a node does and has.
trait Node {
    fn fetch_within(&self, limits: Limits, blobs: &[&[u8]], at: &[SocketAddr]) -> Fetched;
    fn fetch(&self, blobs: &[&[u8]], at: &[SocketAddr]) -> Fetched;
    fn holds(&self, bytes: &[u8]);
    fn unfinished(&self) -> Vec<PathBuf>;
}

impl Node for Site {
    fn fetch_within(&self, limits: Limits, blobs: &[&[u8]], at: &[SocketAddr]) -> Fetched {
        fetch(limits, &self.store(), &wanted(blobs), &self.depots(at), || false).unwrap()
    }

    fn fetch(&self, blobs: &[&[u8]], at: &[SocketAddr]) -> Fetched {
        self.fetch_within(PATIENT, blobs, at)
    }

    #[track_caller]
    fn holds(&self, bytes: &[u8]) {
        let digest = Digest::of(bytes);
        let found = std::fs::read(blob_path(&self.store(), &digest)).unwrap();
        assert_eq!(Digest::of(&found), digest);
    }

    /// Files of the store that are no blobs.
    fn unfinished(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.store()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => folders.push(path),
                    false if path.parent().unwrap().ends_with("blobs/sha256") => (),
                    false => found.push(path),
                }
            }
        }
        found
    }
}

/// Bytes that no prefix of another blob is like.
fn bytes(seed: u32, length: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()
    };
    std::iter::repeat_with(&mut next).flatten().take(length).collect()
}

/// What the network between node and depot does to bytes that come from the depot.
#[derive(Clone, Copy)]
enum Wire {
    /// All of them pass.
    Whole,
    /// Each connection ends after so many.
    Breaks(usize),
    /// The first connection ends after so many, and there is no other.
    Dies(usize),
    /// Each connection is silent after so many.
    Stops(usize),
    /// A connection is taken, and nothing comes back.
    Swallows,
}

/// Where the node trusts the depot to be.
struct Between {
    address: SocketAddr,
    passed: Arc<AtomicU64>,
}

impl Between {
    fn to(depot: SocketAddr, wire: Wire) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let passed = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&passed);
        std::thread::spawn(move || {
            for (number, node) in listener.incoming().flatten().enumerate() {
                let count = Arc::clone(&count);
                let most = match wire {
                    Wire::Whole => usize::MAX,
                    Wire::Breaks(most) | Wire::Stops(most) => most,
                    Wire::Dies(most) if number == 0 => most,
                    Wire::Dies(_) => continue,
                    Wire::Swallows => 0,
                };
                let silent = matches!(wire, Wire::Stops(_)).then(|| node.try_clone().unwrap());
                std::thread::spawn(move || pass(node, depot, most, &count, silent));
            }
        });
        Self { address, passed }
    }

    fn passed(&self) -> u64 {
        self.passed.load(Ordering::SeqCst)
    }
}

fn pass(mut node: TcpStream, depot: SocketAddr, most: usize, count: &AtomicU64, silent: Option<TcpStream>) {
    let Ok(mut depot) = TcpStream::connect(depot) else { return };
    let (mut from, mut to) = (node.try_clone().unwrap(), depot.try_clone().unwrap());
    if most == 0 {
        // It is read and never answered.
        let _ = std::io::copy(&mut from, &mut std::io::sink());
        return;
    }
    std::thread::spawn(move || std::io::copy(&mut from, &mut to));
    let (mut left, mut buffer) = (most, [0; 1 << 16]);
    while left > 0 {
        let most = left.min(buffer.len());
        let Ok(read @ 1..) = depot.read(&mut buffer[..most]) else { break };
        if node.write_all(&buffer[..read]).is_err() {
            break;
        }
        count.fetch_add(read as u64, Ordering::SeqCst);
        left -= read;
    }
    if let Some(mut silent) = silent {
        let _ = std::io::copy(&mut silent, &mut std::io::sink());
    }
    let _ = (node.shutdown(Shutdown::Both), depot.shutdown(Shutdown::Both));
}

/// An address where nobody listens.
/// It is held until the program ends: let go, the next server of another test could get it.
pub fn nobody() -> SocketAddr {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    std::mem::forget(socket);
    address
}

#[track_caller]
fn only_reason(fetched: &Fetched, depot: SocketAddr, text: &str) {
    let [reason] = fetched.reasons.as_slice() else { panic!("{:#?}", fetched.reasons) };
    assert!(reason.starts_with(&format!("depot https://{depot}: ")) && reason.contains(text), "{reason}");
}

#[test]
fn every_blob_comes_whole_and_under_its_own_name() {
    let site = Site::new();
    let all: Vec<Vec<u8>> = (1..20).map(|seed| bytes(seed, 40_000 * seed as usize)).collect();
    let all: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
    let fetched = site.fetch(&all, &[site.depot("one", &all)]);
    assert_eq!(fetched, Fetched::default());
    for bytes in all {
        site.holds(bytes);
    }
    assert!(site.unfinished().is_empty(), "{:?}", site.unfinished());
}

#[test]
fn a_transfer_that_breaks_repeatedly_resumes_each_time() {
    let site = Site::new();
    let large = bytes(1, LARGE);
    let wire = Between::to(site.depot("one", &[&large]), Wire::Breaks(3 * MIB));
    assert_eq!(site.fetch(&[&large], &[wire.address]), Fetched::default());
    site.holds(&large);
    assert!(wire.passed() < LARGE as u64 + WASTE, "{} bytes for {LARGE}", wire.passed());
}

#[test]
fn a_second_depot_sends_only_the_rest_of_an_interrupted_blob() {
    let site = Site::new();
    let large = bytes(1, LARGE);
    let first = Between::to(site.depot("one", &[&large]), Wire::Dies(5 * MIB));
    let second = Between::to(site.depot("two", &[&large]), Wire::Whole);
    let fetched = site.fetch(&[&large], &[first.address, second.address]);
    assert!(fetched.missing.is_empty(), "{fetched:?}");
    only_reason(&fetched, first.address, "");
    site.holds(&large);
    assert!(second.passed() < (LARGE - 3 * MIB) as u64, "{} bytes came again", second.passed());
}

#[test]
fn the_next_request_resumes_a_partial_blob() {
    let site = Site::new();
    let large = bytes(1, LARGE);
    let depot = site.depot("one", &[&large]);
    let dying = Between::to(depot, Wire::Dies(5 * MIB));
    let fetched = site.fetch(&[&large], &[dying.address]);
    assert_eq!(fetched.missing, [(Digest::of(&large), LARGE as u64)]);
    let whole = Between::to(depot, Wire::Whole);
    assert_eq!(site.fetch(&[&large], &[whole.address]), Fetched::default());
    site.holds(&large);
    assert!(whole.passed() < (LARGE - 3 * MIB) as u64, "{} bytes came again", whole.passed());
}

#[test]
fn a_depot_that_is_down_is_reported_once_and_the_next_one_is_asked() {
    let site = Site::new();
    let (a, b) = (bytes(1, 1000), bytes(2, 2000));
    let down = nobody();
    let fetched = site.fetch(&[&a, &b], &[down, site.depot("two", &[&a, &b])]);
    assert!(fetched.missing.is_empty(), "{fetched:?}");
    only_reason(&fetched, down, "refused");
    site.holds(&a);
    site.holds(&b);
}

#[test]
fn a_depot_that_takes_a_connection_and_says_nothing_is_given_up() {
    let site = Site::new();
    let a = bytes(1, 1000);
    let silent = Between::to(site.depot("empty", &[]), Wire::Swallows);
    // The other depot is to answer within that.
    let quick = Limits { connect: Duration::from_secs(5), ..PATIENT };
    let fetched = site.fetch_within(quick, &[&a], &[silent.address, site.depot("two", &[&a])]);
    assert!(fetched.missing.is_empty(), "{fetched:?}");
    only_reason(&fetched, silent.address, "");
    site.holds(&a);
}

#[test]
fn blobs_with_a_wrong_digest_are_not_stored() {
    let site = Site::new();
    let (right, wrong) = (bytes(1, LARGE), bytes(2, LARGE));
    let liar = site.depot_of("liar", &[(Digest::of(&right), &wrong)]);
    let fetched = site.fetch(&[&right], &[liar]);
    assert_eq!(fetched.missing, [(Digest::of(&right), LARGE as u64)]);
    only_reason(&fetched, liar, &Digest::of(&wrong).to_string());
    assert!(!blob_path(&site.store(), &Digest::of(&right)).exists());
    assert!(!blob_path(&site.store(), &Digest::of(&wrong)).exists());
    // The next depot is trusted, and nothing of the lie is left in what it gives.
    let fetched = site.fetch(&[&right], &[liar, site.depot("two", &[&right])]);
    assert!(fetched.missing.is_empty(), "{fetched:?}");
    site.holds(&right);
}

#[test]
fn wrong_bytes_of_one_depot_are_not_blamed_on_the_next() {
    let site = Site::new();
    let (right, wrong) = (bytes(1, LARGE), bytes(2, LARGE));
    let liar = Between::to(site.depot_of("liar", &[(Digest::of(&right), &wrong)]), Wire::Dies(5 * MIB));
    let fetched = site.fetch(&[&right], &[liar.address, site.depot("two", &[&right])]);
    assert!(fetched.missing.is_empty(), "{fetched:?}");
    only_reason(&fetched, liar.address, "");
    site.holds(&right);
}

#[test]
fn blobs_that_no_depot_has_are_left_to_the_controller_without_an_error() {
    let site = Site::new();
    let (here, a, b) = (bytes(1, 1000), bytes(2, 2000), bytes(3, 3000));
    let depots = [site.depot("one", &[&here]), site.depot("two", &[])];
    let fetched = site.fetch(&[&here, &a, &b], &depots);
    let missing: BTreeMap<Digest, u64> = fetched.missing.iter().copied().collect();
    assert_eq!(missing, wanted(&[&a, &b]));
    assert!(fetched.reasons.is_empty(), "{:?}", fetched.reasons);
    site.holds(&here);
}

#[test]
fn a_depot_with_a_certificate_of_another_ca_is_not_used() {
    let site = Site::new();
    let a = bytes(1, 1000);
    let other = site.depot_by(&authority(), "other", &[(Digest::of(&a), &a)]);
    let fetched = site.fetch(&[&a], &[other]);
    assert_eq!(fetched.missing, [(Digest::of(&a), 1000)]);
    only_reason(&fetched, other, "certificate");
}

#[test]
fn stored_blobs_are_not_requested() {
    let site = Site::new();
    let a = bytes(1, 1000);
    site.fetch(&[&a], &[site.depot("one", &[&a])]);
    assert_eq!(site.fetch(&[&a], &[nobody()]), Fetched::default());
}

#[test]
fn a_node_stops_when_its_controller_is_gone() {
    let site = Site::new();
    let a = bytes(1, 1000);
    let silent = Between::to(site.depot("empty", &[]), Wire::Swallows);
    let begun = Instant::now();
    let gone = || begun.elapsed() > Duration::from_millis(300);
    let hour = Duration::from_secs(3600);
    let patient = Limits { whole: hour, connect: hour, stall: hour };
    let stopped = fetch(patient, &site.store(), &wanted(&[&a]), &site.depots(&[silent.address]), gone);
    assert_eq!(stopped.unwrap_err(), "stopped, since the controller is gone or takes the step back");
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

#[test]
fn depots_that_are_too_slow_as_a_whole_leave_the_rest_to_the_controller() {
    let site = Site::new();
    let (quick, slow) = (bytes(1, 1000), bytes(2, 1000));
    site.fetch(&[&quick], &[site.depot("one", &[&quick])]);
    let silent = Between::to(site.depot("empty", &[]), Wire::Swallows);
    let limits = Limits { whole: Duration::from_secs(1), ..PATIENT };
    let fetched = site.fetch_within(limits, &[&quick, &slow], &[silent.address]);
    assert_eq!(fetched.missing, [(Digest::of(&slow), 1000)]);
    assert_eq!(fetched.reasons, ["the depots were too slow: not all blobs arrived within 1 s"]);
}

#[test]
fn a_time_that_is_over_while_a_good_part_had_come_is_no_failure_of_the_source() {
    // A time in which the good part comes on a busy machine, too.
    let limits = Limits { whole: Duration::from_secs(10), ..PATIENT };
    let stops = |most: usize, still_coming: bool| {
        let site = Site::new();
        let large = bytes(1, MIB);
        let wire = Between::to(site.depot("one", &[&large]), Wire::Stops(most));
        let fetched = site.fetch_within(limits, &[&large], &[wire.address]);
        assert_eq!((fetched.missing.len(), fetched.still_coming), (1, still_coming), "{fetched:?}");
        // What came stays: the next request takes the rest.
        assert_eq!(site.fetch(&[&large], &[site.depot("two", &[&large])]), Fetched::default());
    };
    let stops = &stops;
    std::thread::scope(|scope| {
        for (most, coming) in [(MIB * 2 / 3, true), (MIB / 8, false)] {
            scope.spawn(move || stops(most, coming));
        }
    });
}

#[test]
fn a_ca_that_cannot_be_read_is_reported_and_leaves_all_to_the_controller() {
    let site = Site::new();
    let a = bytes(1, 1000);
    let depot = site.depot("one", &[&a]);
    let mut depots = site.depots(&[depot]);
    depots.ca = site.folder.path().join("nothing").display().to_string();
    let fetched = fetch(PATIENT, &site.store(), &wanted(&[&a]), &depots, || false).unwrap();
    assert_eq!(fetched.missing, [(Digest::of(&a), 1000)]);
    only_reason(&fetched, depot, &depots.ca);
}

/// `user:hunter2`, hashed by libxcrypt.
const HTPASSWD: &str = "user:$2b$08$abcdefghijklmnopqrstuubrRm36/PDk26QhAv8UvDI2bBcBcJSqe";

#[test]
fn a_depot_that_demands_a_login_gets_that_of_the_nodes_file_and_a_wrong_one_is_reported_without_it() {
    let site = Site::new();
    let blob = bytes(1, 1000);
    let depot = site.depot_demanding("one", &[&blob], HTPASSWD);
    let path = site.folder.path().join("login");
    let with = |text: Option<&str>| {
        match text {
            Some(text) => std::fs::write(&path, text).unwrap(),
            None => drop(std::fs::remove_file(&path)),
        }
        let depots = kubexm_plan::op::Depots { login: Some(path.display().to_string()), ..site.depots(&[depot]) };
        fetch(PATIENT, &site.store(), &wanted(&[&blob]), &depots, || false).unwrap()
    };
    let all = vec![(Digest::of(&blob), blob.len() as u64)];
    let none = site.fetch(&[&blob], &[depot]);
    assert_eq!(none.missing, all);
    assert!(none.reasons[0].contains("401"), "{:?}", none.reasons);
    for (text, said) in [
        (Some("Basic dXNlcjpodW50ZXIz"), "401"),
        (Some("dXNlcjpodW50ZXIy"), "is no login for the depots"),
        (None, "cannot read the login for the depots"),
    ] {
        let fetched = with(text);
        let reasons = fetched.reasons.join("\n");
        assert_eq!(fetched.missing, all, "{text:?}");
        assert!(reasons.contains(said) && !reasons.contains("dXNlcj") && !reasons.contains("hunter"), "{reasons}");
    }
    let fetched = with(Some("Basic dXNlcjpodW50ZXIy"));
    assert_eq!((fetched.missing, fetched.reasons), (Vec::new(), Vec::new()));
    site.holds(&blob);
}
