//! The one digest of the system: sha256, written as OCI writes it (`sha256:<64 lower-case hex>`).

use std::fmt;
use std::str::FromStr;

use ring::digest::{Context, SHA256, digest};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A sha256 digest. Text form is `sha256:<hex>` (OCI image-spec, descriptor.md, "Digests").
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

/// Text that is not a sha256 digest.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0:?} is not a sha256 digest: expected `sha256:` and 64 lower-case hex digits")]
pub struct ParseDigestError(pub String);

impl Digest {
    /// The digest of bytes already in memory.
    pub fn of(bytes: impl AsRef<[u8]>) -> Self {
        Self(array(digest(&SHA256, bytes.as_ref())))
    }

    /// From the 32 bytes that a hasher gives.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes, as binary formats hold them.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// From 64 lower-case hex digits without the `sha256:` prefix, as checksum files have them.
    pub fn from_hex(text: &str) -> Result<Self, ParseDigestError> {
        let bad = || ParseDigestError(text.to_owned());
        if text.len() != 64 || text.bytes().any(|b| !matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(bad());
        }
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| bad())?;
        Ok(Self(bytes))
    }

    /// 64 lower-case hex digits, the name of the blob's file.
    pub fn hex(&self) -> String {
        hex::encode(self.0)
    }

    /// The first 12 hex digits, for people.
    pub fn short(&self) -> String {
        hex::encode(&self.0[..6])
    }
}

/// Computes a [`Digest`] over bytes as they pass by.
///
/// By ring, whose code for processors without instructions for SHA takes half the time of RustCrypto's: most of what both
/// programs compute is this.
#[derive(Clone)]
pub struct Hasher(Context);

impl Default for Hasher {
    fn default() -> Self {
        Self(Context::new(&SHA256))
    }
}

impl Hasher {
    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest over everything taken so far.
    pub fn finish(self) -> Digest {
        Digest(array(self.0.finish()))
    }
}

/// The bytes of a SHA-256, of which there are always 32.
fn array(found: ring::digest::Digest) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(found.as_ref());
    bytes
}

impl std::io::Write for Hasher {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<Self, ParseDigestError> {
        let hex = text.strip_prefix("sha256:").ok_or_else(|| ParseDigestError(text.to_owned()))?;
        Self::from_hex(hex).map_err(|_| ParseDigestError(text.to_owned()))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_is_the_oci_one_and_reads_back() {
        let digest = Digest::of(b"");
        assert_eq!(digest.to_string(), "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(digest.to_string().parse(), Ok(digest));
    }

    #[test]
    fn upper_case_short_and_other_algorithms_are_refused() {
        let hex = Digest::of(b"x").hex();
        for bad in [hex.to_uppercase(), hex[1..].to_owned(), format!("sha512:{hex}"), String::new()] {
            assert!(bad.parse::<Digest>().is_err(), "{bad}");
        }
    }
}
