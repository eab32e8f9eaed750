//! Random bytes and their encoding.

use rustls::crypto::SecureRandom;

use crate::OpError;

/// Random bytes from the operating system.
pub(super) fn random<const N: usize>() -> Result<[u8; N], OpError> {
    let mut bytes = [0; N];
    let random: &'static dyn SecureRandom = rustls::crypto::ring::default_provider().secure_random;
    random.fill(&mut bytes).map_err(|_| OpError::other("the system returned no random bytes (getrandom(2) failed)"))?;
    Ok(bytes)
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
