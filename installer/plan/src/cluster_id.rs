//! The identity of a cluster: a random id that is created once and not derived from the cluster's name.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A random UUID (RFC 9562, version 4). Two clusters with the same name have different ids.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId([u8; 16]);

/// Positions of the hyphens in the text form.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];
const TEXT_LENGTH: usize = 36;

/// A text that is not a UUID.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no cluster id: a UUID is expected, as 1b4e28ba-2fa1-4d3b-8c6e-9c0f3f1b6a57")]
pub struct ClusterIdError(String);

impl ClusterId {
    /// From 16 random bytes; version and variant are set here.
    pub const fn from_random(mut bytes: [u8; 16]) -> Self {
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        Self(bytes)
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterId({self})")
    }
}

impl FromStr for ClusterId {
    type Err = ClusterIdError;

    /// Accepts only lower case with hyphens, as it is written, so that equal ids have equal texts.
    fn from_str(text: &str) -> Result<Self, ClusterIdError> {
        let wrong = || ClusterIdError(text.chars().take(80).collect());
        let shaped = text.len() == TEXT_LENGTH
            && text.bytes().enumerate().all(|(index, byte)| match HYPHENS.contains(&index) {
                true => byte == b'-',
                false => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
            });
        if !shaped {
            return Err(wrong());
        }
        let digits: String = text.chars().filter(|char| *char != '-').collect();
        let number = u128::from_str_radix(&digits, 16).map_err(|_| wrong())?;
        Ok(Self(number.to_be_bytes()))
    }
}

impl Serialize for ClusterId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ClusterId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::ClusterId;

    #[test]
    fn an_id_is_a_random_uuid_and_is_read_as_it_is_written() {
        let id = ClusterId::from_random([0xff; 16]);
        assert_eq!(id.to_string(), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(serde_json::to_string(&id).unwrap(), format!("\"{id}\""));
        assert_eq!(serde_json::from_str::<ClusterId>(&format!("\"{id}\"")).unwrap(), id);
    }

    #[test]
    fn what_is_no_uuid_is_refused() {
        for text in [
            "",
            "demo",
            "FFFFFFFF-ffff-4fff-bfff-ffffffffffff",
            "ffffffffffff-4fff-bfff-ffffffffffff--",
            "ffffffff-ffff-4fff-bfff-fffffffffff",
            "ffffffff-ffff-4fff-bfff-fffffffffff\u{e9}",
            "+fffffff-ffff-4fff-bfff-ffffffffffff",
        ] {
            assert!(text.parse::<ClusterId>().is_err(), "{text}");
        }
    }
}
