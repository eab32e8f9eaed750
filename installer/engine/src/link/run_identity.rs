//! By what the hosts of a run know each other, and bytes that are sent and never shown.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroizing;

/// By what a host knows the others of its run, and they it. Made for the run, in memory only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunIdentity {
    /// The run's own authority, PEM.
    pub ca: String,
    /// The host's certificate, PEM.
    pub certificate: String,
    /// Its key, PEM.
    pub key: RunKey,
}

/// The key of a host for a run. Wiped when it is dropped, and never shown; base64 in JSON.
#[derive(Clone, PartialEq, Eq)]
pub struct RunKey(pub Zeroizing<Vec<u8>>);

impl fmt::Debug for RunKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<secret>")
    }
}

impl Serialize for RunKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&Zeroizing::new(BASE64.encode(&*self.0)))
    }
}

impl<'de> Deserialize<'de> for RunKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Secret::deserialize(deserializer).map(|secret| Self(Zeroizing::new(secret.0)))
    }
}

/// Bytes that are never shown. Base64 in JSON.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<secret>")
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        // The error does not contain the text.
        BASE64.decode(text).map(Self).map_err(|_| serde::de::Error::custom("a slot value is not base64"))
    }
}
