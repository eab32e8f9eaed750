//! A host takes blobs from another host of its run: a real server and a real client, over TLS that both sides check.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use kubexm_depot::{RunTls, Served, SharedBlobs};
use kubexm_engine::link::agent::fetch::{Limits, fetch_shared};
use kubexm_engine::link::{Fetched, RunIdentity, RunKey};
use kubexm_spec::Digest;
use rcgen::{CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, KeyPair};

use crate::fetch::depots::{authority, blob_path, wanted};
use crate::fetch::nobody;

/// Longer than any machine is busy.
const LONG: Duration = Duration::from_secs(60);

/// A run: its authority, and stores of hosts in a folder.
struct Run {
    ca: CertifiedIssuer<'static, KeyPair>,
    folder: tempfile::TempDir,
    runtime: tokio::runtime::Runtime,
}

impl Run {
    fn new() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        Self { ca: authority(), folder: tempfile::tempdir().unwrap(), runtime }
    }

    fn identity(&self, address: &str) -> RunIdentity {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![address.to_owned()]).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &self.ca).unwrap().pem();
        RunIdentity { ca: self.ca.pem(), certificate, key: RunKey(key.serialize_pem().into_bytes().into()) }
    }

    /// A host whose store has these bytes under these digests, and that serves those of `serves`.
    fn host(&self, name: &str, has: &[(Digest, &[u8])], serves: &[Digest]) -> (SocketAddr, Served) {
        let store = self.folder.path().join(name);
        std::fs::create_dir_all(store.join("blobs/sha256")).unwrap();
        for (digest, bytes) in has {
            std::fs::write(blob_path(&store, digest), bytes).unwrap();
        }
        let identity = self.identity("127.0.0.1");
        let served = Served::default();
        served.add(serves.iter().copied());
        let _entered = self.runtime.enter();
        let tls = RunTls { ca: &identity.ca, certificate: &identity.certificate, key: &identity.key.0 };
        let server = SharedBlobs::listen("127.0.0.1:0".parse().unwrap(), store, tls, served.clone()).unwrap();
        let address = server.address;
        self.runtime.spawn(server.run());
        (address, served)
    }

    fn fetch_as(&self, identity: &RunIdentity, blobs: &[&[u8]], from: SocketAddr) -> Fetched {
        fetch_shared(&self.store(), &wanted(blobs), from, identity, || false).unwrap()
    }

    fn fetch(&self, blobs: &[&[u8]], from: SocketAddr) -> Fetched {
        self.fetch_as(&self.identity("127.0.0.1"), blobs, from)
    }

    fn store(&self) -> std::path::PathBuf {
        self.folder.path().join("taker")
    }
}

fn read(store: &Path, bytes: &[u8]) -> Option<Vec<u8>> {
    std::fs::read(blob_path(store, &Digest::of(bytes))).ok()
}

const ONE: &[u8] = b"what one host has";
const OTHER: &[u8] = b"what it has and does not serve";

#[test]
fn a_host_takes_what_another_host_of_its_run_serves_and_nothing_else() {
    let run = Run::new();
    let has = [(Digest::of(ONE), ONE), (Digest::of(OTHER), OTHER)];
    let (address, served) = run.host("source", &has, &[Digest::of(ONE)]);
    let fetched = run.fetch(&[ONE, OTHER], address);
    assert_eq!(fetched, Fetched { missing: vec![(Digest::of(OTHER), OTHER.len() as u64)], ..Fetched::default() });
    assert_eq!(read(&run.store(), ONE).as_deref(), Some(ONE));
    assert_eq!(read(&run.store(), OTHER), None);
    served.add([Digest::of(OTHER)]);
    assert_eq!(run.fetch(&[ONE, OTHER], address), Fetched::default());
}

#[test]
fn wrong_bytes_are_never_accepted() {
    let run = Run::new();
    let wrong = vec![b'x'; ONE.len()];
    let (address, _) = run.host("source", &[(Digest::of(ONE), &wrong)], &[Digest::of(ONE)]);
    let fetched = run.fetch(&[ONE], address);
    assert_eq!(fetched.missing, [(Digest::of(ONE), ONE.len() as u64)]);
    assert!(fetched.reasons[0].starts_with(&format!("host https://{address}: ")), "{:?}", fetched.reasons);
    assert_eq!(read(&run.store(), ONE), None);
    // What the wrong host sent does not spoil what the next one sends.
    let (right, _) = run.host("right", &[(Digest::of(ONE), ONE)], &[Digest::of(ONE)]);
    assert_eq!(run.fetch(&[ONE], right), Fetched::default());
    assert_eq!(read(&run.store(), ONE).as_deref(), Some(ONE));
}

#[test]
fn a_host_of_another_run_gets_nothing_and_is_believed_nothing() {
    let (run, other) = (Run::new(), Run::new());
    let (address, _) = run.host("source", &[(Digest::of(ONE), ONE)], &[Digest::of(ONE)]);
    // It does not believe the server.
    assert_eq!(other.fetch(&[ONE], address).missing.len(), 1);
    // It believes the server, which does not believe it.
    let stranger = RunIdentity { ca: run.ca.pem(), ..other.identity("127.0.0.1") };
    let fetched = other.fetch_as(&stranger, &[ONE], address);
    assert_eq!((fetched.missing.len(), fetched.reasons.len()), (1, 1));
    assert_eq!(read(&other.store(), ONE), None);
}

#[test]
fn a_host_does_not_pass_for_one_with_another_address() {
    let run = Run::new();
    let store = run.folder.path().join("source");
    std::fs::create_dir_all(store.join("blobs/sha256")).unwrap();
    std::fs::write(blob_path(&store, &Digest::of(ONE)), ONE).unwrap();
    let (identity, served) = (run.identity("127.0.0.9"), Served::default());
    served.add([Digest::of(ONE)]);
    let address = {
        let _entered = run.runtime.enter();
        let tls = RunTls { ca: &identity.ca, certificate: &identity.certificate, key: &identity.key.0 };
        let server = SharedBlobs::listen("127.0.0.1:0".parse().unwrap(), store, tls, served).unwrap();
        let address = server.address;
        run.runtime.spawn(server.run());
        address
    };
    assert_eq!(run.fetch(&[ONE], address).missing.len(), 1);
}

#[test]
fn nobody_without_a_certificate_learns_what_is_there() {
    use std::io::{Read as _, Write as _};
    let run = Run::new();
    let (address, _) = run.host("source", &[(Digest::of(ONE), ONE)], &[Digest::of(ONE)]);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let request = format!("GET /blobs/sha256/{} HTTP/1.1\r\nHost: {address}\r\n\r\n", Digest::of(ONE).hex());
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(!answer.windows(4).any(|four| four == b"HTTP" || four == &ONE[..4]), "{answer:?}");
}

#[test]
fn one_address_has_no_more_connections_than_an_agent_needs() {
    use std::io::Read as _;
    let run = Run::new();
    let (address, _) = run.host("source", &[(Digest::of(ONE), ONE)], &[Digest::of(ONE)]);
    let silent: Vec<TcpStream> = (0..17).map(|_| TcpStream::connect(address).unwrap()).collect();
    silent.iter().for_each(|one| one.set_nonblocking(true).unwrap());
    let closed = || silent.iter().filter(|one| matches!((&**one).read(&mut [0; 1]), Ok(0))).count();
    let begun = Instant::now();
    while closed() == 0 && begun.elapsed() < LONG {
        std::thread::sleep(Duration::from_millis(20));
    }
    // Which of them is chance: the newest has as much right as the others.
    assert_eq!(closed(), 1, "17 connections of one address stay open, or too few of them");
}

#[test]
fn a_transfer_between_hosts_may_be_slower_than_one_from_the_controller() {
    let seconds = |bytes| Limits::between_hosts(bytes).whole.as_secs();
    assert_eq!((seconds(0), seconds(100 << 20)), (30, 230));
}

#[test]
fn a_host_that_is_not_there_is_left_quickly() {
    let run = Run::new();
    // So large that its own time would be half an hour.
    let large = BTreeMap::from([(Digest::of(ONE), 1 << 30)]);
    let begun = Instant::now();
    let fetched = fetch_shared(&run.store(), &large, nobody(), &run.identity("127.0.0.1"), || false).unwrap();
    assert_eq!((fetched.missing.len(), fetched.reasons.len()), (1, 1), "{fetched:?}");
    assert!(begun.elapsed() < LONG, "{:?}", begun.elapsed());
}
