//! What every test needs: the TLS provider, quick retries, bytes that cannot be guessed.

use std::time::Duration;

use kubexm_spec::Digest;
use kubexm_transport::{FileCandidate, HttpClient, HttpOptions, Store, Want};

/// Installs the provider as a program does; later calls find it there.
pub fn provider() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Longer than any machine is busy: the patience with what is sure to come, and what is less than a wait that would be wrong.
pub const LONG: Duration = Duration::from_secs(60);

/// Options with waits between tries short enough for tests. Nobody who answers is given up, however busy the machine is.
pub fn options() -> HttpOptions {
    HttpOptions {
        connect_timeout: LONG,
        answer_timeout: LONG,
        stall_timeout: LONG,
        retries: 3,
        backoff_min: Duration::from_millis(5),
        backoff_max: Duration::from_millis(1500),
        ..HttpOptions::default()
    }
}

/// The same for origins that fall silent.
pub fn impatient() -> HttpOptions {
    let second = Duration::from_secs(1);
    HttpOptions { connect_timeout: second, answer_timeout: 2 * second, stall_timeout: second, ..options() }
}

pub fn client() -> HttpClient {
    client_of(options())
}

pub fn client_of(options: HttpOptions) -> HttpClient {
    provider();
    HttpClient::new(options).unwrap()
}

/// Waits for what comes soon where nothing is wrong, and never before an hour has passed where something is.
pub async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, what).await.expect("it waits for what it is not to wait for")
}

/// A store in a folder that goes with the test.
pub fn store() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("store")).unwrap();
    (dir, store)
}

/// Bytes with no pattern that a wrong offset would repeat; begins as a program does.
pub fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = vec![0; length.next_multiple_of(8)];
    for chunk in bytes.chunks_exact_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        chunk.copy_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    for (place, byte) in bytes.iter_mut().zip(*b"\x7fELF") {
        *place = byte;
    }
    bytes
}

/// What a lock says of these bytes.
pub fn want(bytes: &[u8]) -> Want {
    Want { digest: Some(Digest::of(bytes)), size: Some(bytes.len() as u64), refuse_html: true, ..Want::default() }
}

/// An address where plain http is allowed.
pub fn plain(url: impl Into<String>) -> FileCandidate {
    FileCandidate { plain_http_allowed: true, ..FileCandidate::new(url) }
}

pub fn quiet(_: u64, _: Option<u64>) {}

/// Every file in a folder of the store.
pub fn files(store: &Store, dir: &str) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(store.root().join(dir))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}
