//! A client of the server.

use std::sync::Mutex;
use std::time::Duration;

use kubexm_s3::fake::{ACCESS_KEY, BUCKET, REGION, S3Server, SECRET_KEY};
use kubexm_s3::{Addressing, Endpoint, Moved, Patience, S3Address, S3Client, S3Credentials, S3Error, S3Options, Watch};
use zeroize::Zeroizing;

pub fn options(server: &S3Server) -> S3Options {
    // A second one is refused, and that is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let endpoint = Endpoint::parse(&server.endpoint(), Addressing::Path, true).unwrap();
    let secret = Zeroizing::new(SECRET_KEY.to_owned());
    let credentials = S3Credentials::new(ACCESS_KEY.to_owned(), secret, None).unwrap();
    let patience = Patience {
        tries: 4,
        first_pause: Duration::from_millis(1),
        longest_pause: Duration::from_millis(5),
        // Longer than any machine is busy.
        silence: Duration::from_secs(60),
        request: Duration::from_secs(60),
    };
    S3Options { patience, ..S3Options::new(endpoint, REGION, credentials).unwrap() }
}

pub fn address() -> S3Address {
    S3Address::parse(&format!("s3://{BUCKET}/sites/a")).unwrap()
}

pub fn client(server: &S3Server) -> S3Client {
    S3Client::new(options(server), &address()).unwrap()
}

/// What was heard of transfers.
#[derive(Default)]
pub struct Heard {
    pub moved: Mutex<Vec<(Moved, u64, u64)>>,
    pub waited: Mutex<Vec<String>>,
    pub stop_after: Option<u64>,
}

impl Watch for Heard {
    fn moved(&self, way: Moved, done: u64, total: u64) {
        self.moved.lock().unwrap().push((way, done, total));
    }

    fn waiting(&self, at: &str, reason: &str, _: (u32, u32), _: Duration) {
        self.waited.lock().unwrap().push(format!("{at}: {reason}"));
    }

    fn is_stopped(&self) -> bool {
        let moved = self.moved.lock().unwrap();
        self.stop_after.is_some_and(|after| moved.last().is_some_and(|(_, done, _)| *done >= after))
    }
}

/// Bytes of which none is like the next.
pub fn bytes(count: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_le_bytes()[3]
    };
    (0..count).map(|_| next()).collect()
}

pub fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    file
}

/// What a download gives.
pub async fn downloaded(client: &S3Client, key: &str, limit: u64, watch: &dyn Watch) -> Result<Vec<u8>, S3Error> {
    let mut found = Vec::new();
    let count = client
        .download(
            key,
            limit,
            &mut |piece| {
                found.extend_from_slice(piece);
                Ok(())
            },
            watch,
        )
        .await?;
    assert_eq!(count, found.len() as u64);
    Ok(found)
}
